//! What changes nothing, as a message.

use super::unions;
use forebay_wire::control::Question;

unions! {
    Question as question { Stat, List, Keys, OpenToRead, Renew }
    empty {
        Volumes: AskVolumes, Users: AskUsers, OpenFiles: AskOpenFiles, Unscrubbed: AskUnscrubbed, Map: AskMap
    }
    lists {}
}
