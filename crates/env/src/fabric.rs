//! The door to other machines: ordered byte streams, many of them on one loop.
//!
//! What runs behind it is a task and never blocks a thread, so the same code serves thousands of connections in reality and
//! whole clusters in simulation. ([`crate::network`] is for the handful of processes around a local socket.)

use crate::{Clock, Random, Spawner};
use forebay_model::Result;
use futures_io::{AsyncRead, AsyncWrite};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// Something that the network will have done. It proceeds only while it is polled; dropping it gives up.
pub type FabricFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// Everything that whoever talks to other machines may touch of the world.
#[derive(Clone)]
pub struct NetworkEnv {
    /// Connections.
    pub fabric: Rc<dyn Fabric>,
    /// Time.
    pub clock: Rc<dyn Clock>,
    /// Chance.
    pub random: Rc<dyn Random>,
    /// Starts tasks on this loop.
    pub spawner: Spawner,
}

/// Makes and takes connections. An address is what [`Door::address`] says: a number or a name, and a port.
pub trait Fabric {
    /// Listens at `address`. Port 0 is any that is free. [`forebay_model::Kind::Busy`] if somebody else listens there.
    fn listen(&self, address: &str) -> FabricFuture<Result<Box<dyn Door>>>;

    /// Connects to `address`. [`forebay_model::Kind::Missing`] if nobody listens there,
    /// [`forebay_model::Kind::Disconnected`] if it cannot be reached, which may take a while to find out.
    fn connect(&self, address: &str) -> FabricFuture<Result<Duplex>>;
}

/// Where connections come in, until it is dropped.
pub trait Door {
    /// Where it listens, as those who connect call it.
    fn address(&self) -> String;

    /// The next connection.
    fn accept(&self) -> FabricFuture<Result<Duplex>>;
}

/// One end of a connection. What was written arrives once, whole and in order, or the connection ends with an error on
/// both sides, if late. Closing or dropping `write` lets the other side read to its end. With both dropped nobody waits for
/// the connection any more: what was written still goes as far as the other side takes it, unless something from there was not
/// read or comes later. Then the connection is reset: the other side gets an error, and may lose what it had not read yet.
pub struct Duplex {
    /// What comes.
    pub read: Box<dyn AsyncRead + Unpin>,
    /// What goes.
    pub write: Box<dyn AsyncWrite + Unpin>,
    /// Who is at the other end, as the network says: for people, never for decisions.
    pub peer: String,
    /// Which machine that is, as far as the network tells: of IPv6 the network of 64 bits, all of whose addresses a machine may
    /// take. It says nothing of who it is; connections may be counted by it.
    pub machine: String,
    /// Whether the other end is on this machine, so that no port lies between them that drops what is too much for it.
    pub is_near: bool,
}
