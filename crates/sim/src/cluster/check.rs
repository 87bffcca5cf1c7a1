//! What has to hold of a cluster in which nothing fails any more, one invariant a file.

pub(super) mod agreement;
pub(super) mod authority;
pub(super) mod disks;
pub(super) mod linearizable;
pub(super) mod memory;
pub(super) mod names;
pub(super) mod space;
