//! What a node checks commands with, and how often it said no.

use forebay_model::{Error, Kind, Result, TargetId, Timestamp};
use forebay_wire::capability::{Capability, Keyring, LENGTH, Proof, Said, TargetKey, Wanted};
use forebay_wire::control::cluster::ShutOut;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;

/// The keys of a node's targets.
#[derive(Default)]
pub struct Keys {
    rings: RefCell<BTreeMap<TargetId, Keyring>>,
    /// Clients whose access keys were revoked, and until when the last of what they had would have counted.
    shut_out: RefCell<BTreeMap<u64, Timestamp>>,
    forbidden: Cell<u64>,
    stale: Cell<u64>,
    behind: Cell<u64>,
}

/// Commands that were refused, by why. None of them read or changed anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Nothing that was shown allowed them.
    pub forbidden: u64,
    /// What was shown had run out, or was revoked.
    pub stale: u64,
    /// What was shown is of an epoch that the target had not heard of, or the node had no keys yet.
    pub behind: u64,
}

impl Keys {
    /// A target belongs to `cluster`. `chance` is 32 bytes by chance.
    pub fn join(&self, cluster: u128, target: TargetId, chance: [u8; 32]) {
        self.rings.borrow_mut().entry(target).or_insert_with(|| Keyring::new(cluster, target, chance));
    }

    /// A target takes its next key.
    pub fn roll(&self, target: TargetId, key: TargetKey) {
        if let Some(ring) = self.rings.borrow_mut().get_mut(&target) {
            ring.roll(key);
        }
    }

    /// A target knows that the cluster's map has this epoch, and that only what was given out since `least` counts. Neither
    /// ever falls.
    pub fn advance(&self, target: TargetId, epoch: u64, least: u64) {
        if let Some(ring) = self.rings.borrow_mut().get_mut(&target) {
            ring.advance(epoch, least);
        }
    }

    /// Of what these clients were given nothing counts any more, and of nobody else's.
    pub fn shut_out(&self, clients: &[ShutOut]) {
        *self.shut_out.borrow_mut() = clients.iter().map(|client| (client.client, client.until)).collect();
    }

    /// Whether what a client was given that counts until then does not count any more, since its access key was revoked.
    pub(super) fn is_shut_out(&self, client: u64, until: Timestamp) -> bool {
        self.shut_out.borrow().get(&client).is_some_and(|last| until <= *last)
    }

    /// How often commands were refused.
    pub fn refusals(&self) -> Refusals {
        Refusals { forbidden: self.forbidden.get(), stale: self.stale.get(), behind: self.behind.get() }
    }

    /// Whether a command may be done, but for the object's version, which its target knows.
    pub(super) fn check(
        &self,
        target: TargetId,
        is_served: bool,
        shown: Option<(&[u8; LENGTH], Proof)>,
        said: &Said<'_>,
        wanted: &Wanted,
        now: Timestamp,
    ) -> Result<Capability> {
        let rings = self.rings.borrow();
        let checked = match (rings.get(&target), shown) {
            // It is the node that lacks something then, and not who asks.
            (None, _) if is_served => {
                Err(Error::busy("this node has not heard of the manager since it was started; ask again in a moment"))
            }
            (Some(ring), Some((capability, proof))) => match ring.check(capability, proof, said, wanted, now) {
                Ok(shown) if self.is_shut_out(shown.client, shown.until) => Err(Error::stale(
                    "the access key with which this client was let in was revoked; ask the manager with another one",
                )),
                checked => checked,
            },
            // What is not here and what is not allowed look alike.
            _ => Err(forebay_wire::capability::forbidden()),
        };
        if let Err(error) = &checked {
            self.count(error);
        }
        checked
    }

    /// Counts a command that was refused.
    pub(super) fn count(&self, error: &Error) {
        let counter = match error.kind {
            Kind::Forbidden => &self.forbidden,
            Kind::Stale => &self.stale,
            Kind::Busy => &self.behind,
            _ => return,
        };
        counter.set(counter.get() + 1);
    }
}
