//! Locks of parts of objects, for clients that have to take turns: each is held by a connection, and ends with it.
//!
//! A lock is asked for with a capability to write the object, and is answered when nobody else holds it. What it protects, its
//! users say: here it is a number.

use forebay_model::{ObjectId, TargetId};
use serde::{Deserialize, Serialize};

/// Asks for a lock; answered by [`Locked`] when it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lock {
    /// The target.
    pub target: TargetId,
    /// The object.
    pub id: ObjectId,
    /// What of it.
    pub part: u64,
}

/// A lock is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Locked {
    /// The version that the object has to have for the lock to keep everybody else out. If the client has shown an older one,
    /// somebody who lost a lock of this object may go on all the same, until the file is fenced.
    pub fence: u64,
}

/// Gives back the lock that was asked for by this request of the same connection: answered by nothing but its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unlock {
    /// The number of the request.
    pub request: u64,
    /// Something that was asked while it was held may still be done, since nobody knows what came of it: whoever gets a lock of
    /// the object next has the file fenced, as if the connection had ended.
    pub deserted: bool,
}
