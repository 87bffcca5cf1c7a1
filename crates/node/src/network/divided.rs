//! Memory that requests to all targets share, of which those to one target that has not answered hold a part at most: so a target
//! that hangs leaves room for what is asked of others.
//!
//! Invariant: who waits for room among the requests to its own target holds nothing yet of what all share.

use forebay_env::allowance::{Allowance, Allowed};
use forebay_model::TargetId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The memory. Clones are the same one.
#[derive(Clone)]
pub(super) struct Divided {
    all: Allowance,
    most_of_one: usize,
    of_one: Rc<RefCell<BTreeMap<TargetId, Allowance>>>,
}

/// What one request has of it, until this is dropped.
pub(super) struct Portion {
    of_one: Allowed,
    all: Allowed,
}

impl Divided {
    /// Of `most` bytes, of which what is asked of one target holds `most_of_one`.
    pub(super) fn new(most: usize, most_of_one: usize) -> Divided {
        Divided { all: Allowance::new(most), most_of_one, of_one: Rc::default() }
    }

    /// Waits until there is room for what is asked of a target.
    pub(super) async fn take(&self, target: TargetId, weight: usize) -> Portion {
        let of_one = self.of_one(target, weight).await;
        self.with(of_one, weight).await
    }

    /// The first half of [`Divided::take`]: waits for other requests to the same target alone.
    pub(super) async fn of_one(&self, target: TargetId, weight: usize) -> Allowed {
        let of_one = {
            let mut all = self.of_one.borrow_mut();
            all.entry(target).or_insert_with(|| Allowance::new(self.most_of_one)).clone()
        };
        of_one.take(weight).await
    }

    /// The other half: waits for requests to all targets.
    pub(super) async fn with(&self, of_one: Allowed, weight: usize) -> Portion {
        Portion { of_one, all: self.all.take(weight).await }
    }

    /// Waits until there is room for what a target has answered already.
    pub(super) async fn take_answered(&self, weight: usize) -> Allowed {
        self.all.take(weight).await
    }

    /// Bytes that are used.
    pub(super) fn used(&self) -> usize {
        self.all.used()
    }
}

impl Portion {
    /// The target has answered: what is left waits for the client.
    pub(super) fn answered(self) -> Allowed {
        let Portion { of_one, all } = self;
        drop(of_one);
        all
    }
}

#[cfg(test)]
mod tests;
