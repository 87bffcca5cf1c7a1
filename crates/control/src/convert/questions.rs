//! What changes nothing, as a message.

use super::unions;
use forebay_wire::control::Question;

unions! {
    Question as question {
        Stat, List, Keys, OpenToRead, Renew, OpenFiles, Unscrubbed, Degraded, GivenUp, OpenRing, Relocating, Displaced,
        Unverified, Listen, MakeWay, OpenHeap
    }
    empty { Volumes: AskVolumes, Users: AskUsers, Map: AskMap, Targets: AskTargets }
    lists {}
}
