//! What changes something, as a message.

use super::unions;
use forebay_wire::control::Change;

unions! {
    Change as change {
        CreateFile, MakeDirectory, SetAttributes, Rename, RemoveFile, RemoveDirectory, CreateVolume, SetVolume,
        RemoveVolume, SetUser, RemoveUser, IssueKey, RevokeKey, OpenToWrite, Close, Revoke, ClientGone, Scrubbed,
        AddNode, RemoveNode, SetTarget, RollKeys, Fence, GiveUp, Refill, Rebuilt, CreateRing, Relocate, Relocated,
        Verified, FoundDamaged, CreateHeap
    }
    empty { RevokeAll: RevokeAll, Caches: Caches }
    lists {}
}
