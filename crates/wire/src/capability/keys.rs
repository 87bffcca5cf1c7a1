//! The keys behind capabilities, and the one place where capabilities are checked.
//!
//! The manager has one root key for each cluster; of it comes a key for each target and each version of that. A target has
//! its own, the newest two, and none of any other target: one that is stolen opens that target alone.

use super::{Capability, LENGTH, LONGEST_LIFE, Proof, Rights, SKEW, Said, Secret};
use forebay_model::{Error, ObjectId, Result, TargetId, Timestamp};
use std::fmt;
use std::ops::Range;

/// What the hash of a target's key is told from others by.
const OF_TARGETS: &str = "forebay 2026-11 key of a target";

/// The manager's key.
#[derive(Clone)]
pub struct RootKey([u8; 32]);

impl RootKey {
    /// Of bytes by chance.
    pub fn new(bytes: [u8; 32]) -> RootKey {
        RootKey(bytes)
    }

    /// The key that a target shares with the manager.
    pub fn of_target(&self, target: TargetId, version: u32) -> TargetKey {
        let mut hash = blake3::Hasher::new_derive_key(OF_TARGETS);
        hash.update(&self.0).update(&target.0.to_le_bytes()).update(&version.to_le_bytes());
        TargetKey { version, bytes: *hash.finalize().as_bytes() }
    }
}

/// A key that one target shares with the manager.
#[derive(Clone)]
pub struct TargetKey {
    version: u32,
    bytes: [u8; 32],
}

impl TargetKey {
    /// Its version: keys are rolled.
    pub fn version(&self) -> u32 {
        self.version
    }

    /// As it is told to its target, over a private way.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.bytes
    }

    /// As it was told.
    pub fn from_bytes(version: u32, bytes: [u8; 32]) -> TargetKey {
        TargetKey { version, bytes }
    }

    /// The secret of a capability that is made with this key.
    pub fn secret(&self, capability: &Capability) -> Secret {
        assert_eq!(capability.key, self.version, "a capability names the key with which it is made");
        self.secret_of(&capability.to_bytes())
    }

    fn secret_of(&self, capability: &[u8; LENGTH]) -> Secret {
        Secret(*blake3::keyed_hash(&self.bytes, capability).as_bytes())
    }
}

/// What a command wants to do, and how that is on the target now.
#[derive(Debug, Clone)]
pub struct Wanted {
    /// The object.
    pub object: ObjectId,
    /// The version that it has; `None` if there is none such.
    pub version: Option<u64>,
    /// What is to be done.
    pub rights: Rights,
    /// With which of its bytes.
    pub bytes: Range<u64>,
}

/// What a target needs to check capabilities.
pub struct Keyring {
    cluster: u128,
    target: TargetId,
    /// The newest key, and the one before.
    keys: [Option<TargetKey>; 2],
    /// A key that nobody knows: with it a capability takes as long to refuse as with another.
    nobodys: TargetKey,
    /// The epoch that the target knows of, and the first of which capabilities count.
    epoch: u64,
    least_epoch: u64,
}

impl Keyring {
    /// Without keys: everything is refused. `chance` is 32 bytes by chance.
    pub fn new(cluster: u128, target: TargetId, chance: [u8; 32]) -> Keyring {
        let nobodys = TargetKey { version: 0, bytes: chance };
        Keyring { cluster, target, keys: [None, None], nobodys, epoch: 0, least_epoch: 0 }
    }

    /// Takes the next key: the one before the last is forgotten, and with it all that was made with it. A key that is not
    /// newer changes nothing.
    pub fn roll(&mut self, key: TargetKey) {
        if self.keys[0].as_ref().is_none_or(|newest| key.version > newest.version) {
            self.keys = [Some(key), self.keys[0].take()];
        }
    }

    /// Whether there was a key of this version, and there are two newer ones.
    fn is_rolled_away(&self, version: Option<u32>) -> bool {
        let [_, Some(oldest)] = &self.keys else { return false };
        version.is_some_and(|version| (1..oldest.version).contains(&version))
    }

    /// The cluster's map has this epoch, and only capabilities since `least` count. Neither ever falls.
    pub fn advance(&mut self, epoch: u64, least: u64) {
        self.epoch = self.epoch.max(epoch);
        self.least_epoch = self.least_epoch.max(least);
    }

    /// Whether a command may be done: who asks. [`forebay_model::Kind::Forbidden`] if not, whatever it is that does not
    /// fit: there is one answer to that; [`forebay_model::Kind::Stale`] if it could have been, before.
    /// [`forebay_model::Kind::Busy`] if the manager knows of an epoch that this target has not heard of;
    /// [`forebay_model::Kind::Refused`] if it counts for longer than any may, as the clocks differ too much.
    pub fn check(
        &self,
        capability: &[u8; LENGTH],
        proof: Proof,
        said: &Said<'_>,
        wanted: &Wanted,
        now: Timestamp,
    ) -> Result<Capability> {
        let shown = Capability::from_bytes(capability);
        let version = shown.as_ref().map(|shown| shown.key);
        let key = self.keys.iter().flatten().find(|key| Some(key.version) == version);
        // What is of no form or of no key takes as long.
        let expected = key.unwrap_or(&self.nobodys).secret_of(capability).prove(said);
        let is_proven = blake3::Hash::from_bytes(widened(expected)) == blake3::Hash::from_bytes(widened(proof));
        // What was made with a key that was rolled away cannot be proven any more; whether it may be had again is for the manager
        // to say, which is all that this tells.
        if self.is_rolled_away(version) {
            return Err(Error::stale("the key with which the capability was made was rolled twice since; renew it"));
        }
        let Some(shown) = shown.filter(|_| is_proven && key.is_some()) else { return Err(forbidden()) };
        let is_whole = wanted.bytes.start <= wanted.bytes.end;
        let fits = shown.cluster == self.cluster
            && shown.target == self.target
            && shown.object == wanted.object
            && shown.rights.have(wanted.rights)
            && wanted.rights != Rights::NONE
            && is_whole
            && (wanted.bytes.is_empty()
                || shown.bytes.start <= wanted.bytes.start && wanted.bytes.end <= shown.bytes.end);
        if !fits {
            return Err(forbidden());
        }
        if shown.epoch > self.epoch {
            return Err(Error::busy(format!(
                "the target knows of epoch {} of the cluster's map, and the capability is of {}; try again",
                self.epoch, shown.epoch
            )));
        }
        if shown.until > now.after(LONGEST_LIFE + SKEW) {
            return Err(Error::refused(format!(
                "the capability counts for {:?} from now by the clock of the target, and {LONGEST_LIFE:?} and {SKEW:?} for \
                 clocks that differ are the most; set the clocks of the target's and the manager's machines",
                shown.until.since(now)
            )));
        }
        if now >= shown.until {
            return Err(Error::stale(format!(
                "the time of the capability was over {:?} ago by the clock of the target; renew it, and set that clock if it is new",
                now.since(shown.until)
            )));
        }
        if shown.epoch < self.least_epoch || wanted.version.is_some_and(|version| version != shown.version) {
            return Err(Error::stale("the capability was revoked; ask the manager for another"));
        }
        Ok(shown)
    }
}

/// As long as what is compared without telling by the time where it differs.
fn widened(Proof(proof): Proof) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&proof);
    bytes
}

/// What everybody hears who has shown nothing that allows what was asked, whatever is wrong with it.
pub fn forbidden() -> Error {
    Error::forbidden("the capability that was shown does not allow this; ask the manager for one that does")
}

impl fmt::Debug for RootKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RootKey(not told)")
    }
}

impl fmt::Debug for TargetKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TargetKey {{ version: {}, not told }}", self.version)
    }
}
