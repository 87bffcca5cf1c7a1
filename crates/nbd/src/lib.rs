//! Objects and files as block devices: a server of the NBD protocol, so that whatever uses a disk can use them.
//!
//! Owns what is spoken with clients ([`protocol`], [`negotiation`]), connections and what is under way on them
//! ([`Server`]), and how a device's commands become an object's ([`ObjectDisk`]) or a file's ([`FileDisk`]). `docs/protocol/nbd.md` says what is
//! spoken and what is promised.
//!
//! Invariants: a request is answered once, and what was answered as written is durable; a request that is refused has
//! changed nothing; the bytes under way on a connection are bounded, whatever its client asks and however slowly it
//! reads.

pub mod client;
mod connection;
mod disk;
mod negotiation;
mod pool;
pub mod protocol;
mod server;

pub use disk::{Disk, FileDisk, ObjectDisk};
pub use server::{MOST_CONNECTIONS, Server};
