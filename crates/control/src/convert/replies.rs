//! What is answered, as a message.

use super::unions;
use forebay_wire::control::Reply;

unions! {
    Reply as reply {
        Entry, Page, Volume, IssuedKey, Grant, Grants, OpenFiles, Unscrubbed, Map, Degraded, Relocation, Displaced,
        Unverified
    }
    empty { Done: Done }
    lists { Volumes: Volumes { volumes }, Users: Users { users }, Keys: KeyList { keys } }
}
