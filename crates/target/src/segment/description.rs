//! What a segment says of its ring beside what is in it: how the ring was and where it lay when the segment was sealed. Of a target
//! that has lost both copies of its checkpoint, the newest of these is all that tells a ring's name, keys and promise.

use crate::catalog::RingRecord;
use forebay_model::RingId;
use forebay_model::ring::{Beginning, RingSpec};
use serde::{Deserialize, Serialize};

/// The most that a description may take of a trailer, which has up to 700 bytes of its own.
const MOST: usize = 3072;

/// A ring as it was when a segment of it was sealed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Description {
    /// The target on which it lay.
    pub target: u128,
    /// Its id there.
    pub ring: u64,
    /// What was added to the epoch of that target in its stamps.
    pub epochs: u64,
    /// Epoch of that target when the ring came to it; 0 where it was made there.
    pub since: u64,
    /// Whether it used the log areas of its groups, too.
    pub without_logs: bool,
    /// Of which version the capabilities for it had to be; 0 if only its object said so.
    pub fence: u64,
    /// What it was asked to be. Without relatives, where their names are too long.
    pub spec: RingSpec,
}

impl Description {
    /// Of the ring that lies on `target` as `ring`; none if it is too long for a trailer.
    pub fn of(target: u128, ring: RingId, record: &RingRecord) -> Option<Description> {
        let RingRecord { origin, since, without_logs, fence, spec, .. } = record;
        let mut whole = Description {
            target,
            ring: ring.0,
            epochs: origin.epochs,
            since: *since,
            without_logs: *without_logs,
            fence: *fence,
            spec: spec.clone(),
        };
        if !whole.fits() {
            whole.spec.relatives.clear();
        }
        whole.fits().then_some(whole)
    }

    fn fits(&self) -> bool {
        postcard::to_stdvec(self).is_ok_and(|bytes| bytes.len() <= MOST)
    }

    /// Whether a ring can be what it says.
    pub fn is_sound(&self) -> bool {
        let RingSpec { segment, block, .. } = self.spec;
        // What can be no block is not multiplied.
        self.spec.check().is_ok()
            && [self.ring, self.epochs, self.since].into_iter().all(|it| it <= Beginning::MOST)
            && segment.0.is_multiple_of(4096)
            && segment.0 <= u64::from(u32::MAX)
            && segment >= block * 2
    }

    /// The epoch of the target at which something with epoch `stamped` was written there, or came there.
    pub fn epoch_there(&self, stamped: u64) -> u64 {
        stamped.saturating_sub(self.epochs).max(self.since)
    }
}
