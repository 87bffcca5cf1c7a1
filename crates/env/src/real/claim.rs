//! Names that one process of this machine has at a time, whatever files and paths lead to what they stand for.
//!
//! Invariant: the kernel takes a name back from the dead. (It is one of the abstract Unix sockets, which processes in
//! another network namespace do not share.)

use super::io_error;
use super::open::{GRACE, patiently};
use forebay_model::Result;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};

/// A name that this process has, until it is dropped.
#[derive(Debug)]
pub struct Claim {
    _listener: UnixListener,
}

/// What came of claiming a name.
#[derive(Debug)]
pub enum Claimed {
    /// It is ours.
    Ours(Claim),
    /// This process has it, unless that cannot be told.
    Others(Option<u32>),
}

/// Claims `name`, which is at most a hundred bytes.
pub fn claim(name: &str) -> Result<Claimed> {
    let failed = |e: std::io::Error| io_error("claiming", name, &e);
    let address = SocketAddr::from_abstract_name(name).map_err(failed)?;
    // Another may just be ending.
    let bound = patiently(GRACE, || UnixListener::bind_addr(&address), |e| e.kind() == std::io::ErrorKind::AddrInUse);
    match bound {
        Ok(listener) => Ok(Claimed::Ours(Claim { _listener: listener })),
        Err(e) if e.kind() == std::io::ErrorKind::AddrInUse => Ok(Claimed::Others(holder(name))),
        Err(e) => Err(failed(e)),
    }
}

/// The process that listens at `name`. It accepts nobody, so nobody waits for it either.
fn holder(name: &str) -> Option<u32> {
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None).ok()?;
    net::connect(&socket, &SocketAddrUnix::new_abstract_name(name.as_bytes()).ok()?).ok()?;
    let peer = net::sockopt::socket_peercred(&socket).ok()?;
    u32::try_from(peer.pid.as_raw_nonzero().get()).ok()
}

#[cfg(test)]
mod tests;
