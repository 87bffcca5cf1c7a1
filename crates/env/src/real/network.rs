//! Unix sockets between processes of one user on one machine. A peer must have the same user id as we, or be root,
//! by what the kernel says of it; root may also connect to what a user serves.

mod socket;
mod tcp;

pub use tcp::TcpNetwork;

use super::io_error;
use crate::network::{Listener, Network, Stream};
use forebay_model::{Error, Result};
use rustix::fs::{Mode, OFlags};
use rustix::net::UCred;
use socket::{Connected, Door};
use socket2::Socket;
use std::io::ErrorKind;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// The longest path that fits a socket address, its final zero left out.
const LONGEST_PATH: usize = 107;

/// Connections over Unix sockets.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnixNetwork;

impl Network for UnixNetwork {
    fn listen(&self, address: &str) -> Result<Box<dyn Listener>> {
        let short = Address::of(address)?;
        if let Ok(metadata) = std::fs::symlink_metadata(address) {
            if !metadata.file_type().is_socket() {
                return Err(Error::exists(format!("{address} exists and is not a socket; remove it")));
            }
            match UnixStream::connect(&short.path) {
                Err(e) if e.kind() == ErrorKind::ConnectionRefused => {}
                Err(e) if e.kind() == ErrorKind::NotFound => {}
                _ => return Err(Error::busy(format!("another process listens at {address}"))),
            }
            // A socket that nobody listens at was left by a process that was killed.
            match std::fs::remove_file(address) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(io_error("removing the stale socket", address, &e));
                }
                _ => {}
            }
        }
        let listener = UnixListener::bind(&short.path).map_err(|e| io_error("listening at", address, &e))?;
        std::fs::set_permissions(address, std::fs::Permissions::from_mode(0o600))
            .map_err(|e| io_error("closing to others", address, &e))?;
        Ok(Box::new(Door::new(address.to_string(), listener, admit)))
    }

    fn connect(&self, address: &str) -> Result<Box<dyn Stream>> {
        let short = Address::of(address)?;
        let stream = UnixStream::connect(&short.path).map_err(|e| match e.kind() {
            ErrorKind::NotFound | ErrorKind::ConnectionRefused => {
                Error::missing(format!("no process listens at {address}"))
            }
            ErrorKind::PermissionDenied => {
                Error::refused(format!("{address} belongs to another user; only that user and root may connect"))
            }
            _ => io_error("connecting to", address, &e),
        })?;
        let (peer, me) = (peer(&stream)?, own_user());
        if me != 0 && !admits(peer.uid.as_raw(), me) {
            return Err(Error::refused(format!("the process that listens at {address} belongs to another user")));
        }
        Ok(Box::new(connected(stream.into(), peer)))
    }
}

/// A path that fits a socket address: long ones go through an open handle on their directory.
struct Address {
    path: PathBuf,
    /// Keeps the handle that `path` names.
    _folder: Option<OwnedFd>,
}

impl Address {
    fn of(address: &str) -> Result<Address> {
        let path = Path::new(address);
        if address.len() <= LONGEST_PATH {
            return Ok(Address { path: path.to_path_buf(), _folder: None });
        }
        let bad = || Error::usage(format!("{address} is not a path for a socket"));
        let (folder, name) = (path.parent().ok_or_else(bad)?, path.file_name().ok_or_else(bad)?);
        let folder = rustix::fs::open(folder, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
            .map_err(|e| io_error("opening", folder.display(), &e.into()))?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        if path.as_os_str().len() > LONGEST_PATH {
            return Err(bad());
        }
        Ok(Address { path, _folder: Some(folder) })
    }
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Who is at the other end, by what the kernel says.
fn peer(socket: impl AsFd) -> Result<UCred> {
    rustix::net::sockopt::socket_peercred(socket).map_err(|e| io_error("asking who", "the peer is", &e.into()))
}

/// Lets in who may come.
fn admit(socket: Socket) -> Option<Connected> {
    let peer = peer(&socket).ok().filter(|peer| admits(peer.uid.as_raw(), own_user()))?;
    Some(connected(socket, peer))
}

fn connected(socket: Socket, peer: UCred) -> Connected {
    Connected::new(socket, u32::try_from(peer.pid.as_raw_nonzero().get()).ok())
}

fn admits(peer: u32, me: u32) -> bool {
    peer == me || peer == 0
}

#[cfg(test)]
mod tests;
