//! Capabilities: what a client may do to one object of one target, until when, and how it proves that it has one.
//!
//! The manager makes a capability and the secret that belongs to it, and gives both to a client over a private way. The
//! client sends the capability with each command, and a proof: a code over the command that takes the secret to compute.
//! The target computes the secret itself from the capability and a key that it shares with the manager alone, so it asks
//! nobody and remembers nothing. (Network-attached secure disks, 1997; T10 OSD; Panasas ActiveScale, 2004.)
//!
//! A proof is over nonces of both sides of its connection, and over the request's number there: what was overheard is no use
//! on another connection, nor a second time on the same one. Capabilities are 128 bytes at fixed places: there is nothing to
//! parse. What is wrong with one that was not proven is never said: every refusal of such looks alike, and takes as long.
//! Bytes: `docs/protocol/capabilities.md`.

mod keys;

pub use keys::{Keyring, RootKey, TargetKey, Wanted, forbidden};

use crate::frame::{Command, RequestId};
use forebay_model::{Bytes, ObjectId, TargetId, Timestamp};
use std::fmt;
use std::ops::{BitOr, Range};
use std::time::Duration;
use zerocopy::little_endian::{I64, U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Bytes of a capability.
pub const LENGTH: usize = 128;
/// For how long one counts at most.
pub const LONGEST_LIFE: Duration = Duration::from_secs(300);
/// By how much the clocks of a target and of the manager may differ: one that says that it counts for longer than that and
/// [`LONGEST_LIFE`] is refused, so that a clock that is far behind does not lengthen what was bounded.
pub const SKEW: Duration = Duration::from_secs(60);
/// The form that this module reads and writes.
const VERSION: u8 = 1;

/// What may be done.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights(u16);

impl Rights {
    /// Nothing.
    pub const NONE: Rights = Rights(0);
    /// Read bytes.
    pub const READ: Rights = Rights(1);
    /// Write bytes that are there or are behind the end, punch holes.
    pub const WRITE: Rights = Rights(1 << 1);
    /// Change the size.
    pub const TRUNCATE: Rights = Rights(1 << 2);
    /// Read attributes.
    pub const GET_ATTRIBUTES: Rights = Rights(1 << 3);
    /// Change attributes.
    pub const SET_ATTRIBUTES: Rights = Rights(1 << 4);
    /// Make it; of a volume, make objects in it.
    pub const CREATE: Rights = Rights(1 << 5);
    /// Remove it.
    pub const REMOVE: Rights = Rights(1 << 6);
    /// Of a volume, list what is in it.
    pub const LIST: Rights = Rights(1 << 7);
    /// All of these.
    pub const ALL: Rights = Rights((1 << 8) - 1);

    /// Whether all of `others` are among these.
    pub fn have(self, others: Rights) -> bool {
        self.0 & others.0 == others.0
    }
}

impl BitOr for Rights {
    type Output = Rights;
    fn bitor(self, other: Rights) -> Rights {
        Rights(self.0 | other.0)
    }
}

impl fmt::Debug for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const NAMES: [&str; 8] =
            ["read", "write", "truncate", "get attributes", "set attributes", "create", "remove", "list"];
        f.debug_set()
            .entries(NAMES.iter().enumerate().filter(|(bit, _)| self.0 >> bit & 1 == 1).map(|(_, n)| n))
            .finish()
    }
}

/// What a client may do, as the manager says it. Public: without the secret it is no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    /// The cluster.
    pub cluster: u128,
    /// The target for which it is.
    pub target: TargetId,
    /// The client for whom it was made.
    pub client: u64,
    /// The object; a volume's own object stands for that.
    pub object: ObjectId,
    /// The version that the object has to have: it is raised to revoke what was given out.
    pub version: u64,
    /// The epoch of the cluster's map when it was made.
    pub epoch: u64,
    /// What may be done.
    pub rights: Rights,
    /// The bytes of the object with which it may be done.
    pub bytes: Range<u64>,
    /// Until when, by the target's clock.
    pub until: Timestamp,
    /// The key of the target with which it was made.
    pub key: u32,
    /// What tells it from all others, for those who look into who did what.
    pub serial: u64,
}

/// A capability as it is sent.
#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct Fields {
    version: u8,
    reserved: u8,
    rights: U16,
    key: U32,
    cluster: U128,
    target: U128,
    client: U64,
    volume: U64,
    object: U64,
    object_version: U64,
    epoch: U64,
    from: U64,
    to: U64,
    until: I64,
    serial: U64,
    rest: [u8; 16],
}

const _: () = assert!(size_of::<Fields>() == LENGTH);

impl Capability {
    /// As it is sent.
    pub fn to_bytes(&self) -> [u8; LENGTH] {
        let fields = Fields {
            version: VERSION,
            reserved: 0,
            rights: U16::new(self.rights.0),
            key: U32::new(self.key),
            cluster: U128::new(self.cluster),
            target: U128::new(self.target.0),
            client: U64::new(self.client),
            volume: U64::new(self.object.volume),
            object: U64::new(self.object.object),
            object_version: U64::new(self.version),
            epoch: U64::new(self.epoch),
            from: U64::new(self.bytes.start),
            to: U64::new(self.bytes.end),
            until: I64::new(self.until.0),
            serial: U64::new(self.serial),
            rest: [0; 16],
        };
        zerocopy::transmute!(fields)
    }

    /// The target of which these bytes are, whether that is true or not; `None` if they are of another form.
    pub fn target_of(bytes: &[u8; LENGTH]) -> Option<TargetId> {
        Capability::from_bytes(bytes).map(|capability| capability.target)
    }

    /// What these bytes say, whether it is true or not; `None` if they are of another form.
    fn from_bytes(bytes: &[u8; LENGTH]) -> Option<Capability> {
        let fields: &Fields = zerocopy::transmute_ref!(bytes);
        if fields.version != VERSION || fields.reserved != 0 || fields.rest != [0; 16] {
            return None;
        }
        Some(Capability {
            cluster: fields.cluster.get(),
            target: TargetId(fields.target.get()),
            client: fields.client.get(),
            object: ObjectId { volume: fields.volume.get(), object: fields.object.get() },
            version: fields.object_version.get(),
            epoch: fields.epoch.get(),
            rights: Rights(fields.rights.get()),
            bytes: fields.from.get()..fields.to.get(),
            until: Timestamp(fields.until.get()),
            key: fields.key.get(),
            serial: fields.serial.get(),
        })
    }
}

/// What belongs to a capability, and is told to its client alone.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret([u8; 32]);

/// A number by chance from each side of a connection, which makes proofs there unlike those anywhere else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nonces {
    /// The client's.
    pub client: [u8; 16],
    /// The node's.
    pub node: [u8; 16],
}

/// A command, as it is proven.
#[derive(Debug, Clone, Copy)]
pub struct Said<'a> {
    /// The connection.
    pub nonces: &'a Nonces,
    /// Its number on the connection: no number is taken twice.
    pub request: RequestId,
    /// What is asked.
    pub command: Command,
    /// The command's body.
    pub body: &'a [u8],
    /// The checksum of its payload, and how many bytes that has.
    pub payload: (u32, Bytes),
}

/// That somebody knows the secret of a capability, and has said this.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proof(pub [u8; 16]);

impl Secret {
    /// The proof that goes with a command.
    pub fn prove(&self, said: &Said<'_>) -> Proof {
        let mut code = blake3::Hasher::new_keyed(&self.0);
        code.update(&said.nonces.client).update(&said.nonces.node);
        code.update(&said.request.0.to_le_bytes()).update(&said.command.0.to_le_bytes());
        let (checksum, payload) = said.payload;
        code.update(&checksum.to_le_bytes()).update(&payload.0.to_le_bytes());
        code.update(&(said.body.len() as u64).to_le_bytes()).update(said.body);
        let mut proof = [0; 16];
        code.finalize_xof().fill(&mut proof);
        Proof(proof)
    }

    /// As it is told to its client.
    pub fn to_bytes(&self) -> [u8; 32] {
        self.0
    }

    /// As it was told.
    pub fn from_bytes(bytes: [u8; 32]) -> Secret {
        Secret(bytes)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(not told)")
    }
}

#[cfg(test)]
mod tests;
