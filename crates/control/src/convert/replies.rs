//! What is answered, as a message.

use super::unions;
use forebay_wire::control::Reply;

unions! {
    Reply as reply {
        Entry, Page, Volume, IssuedKey, Grant, Grants, OpenFiles, Unscrubbed, Map, Degraded, Relocation, Displaced,
        Unverified, Called
    }
    empty { Done: Done, Calling: Calling }
    lists { Volumes: Volumes { volumes }, Users: Users { users }, Keys: KeyList { keys }, Targets: TargetList { targets } }
}
