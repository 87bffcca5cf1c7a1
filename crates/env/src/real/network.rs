//! Unix sockets between processes of one user on one machine. A peer must have the same user id as we, or be root,
//! by what the kernel says of it; root may also connect to what a user serves.

mod tcp;

pub use tcp::TcpNetwork;

use super::io_error;
use crate::network::{Listener, Network, Stream};
use forebay_model::{Error, Result};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The longest path that fits a socket address, its final zero left out.
const LONGEST_PATH: usize = 107;

/// Connections over Unix sockets.
#[derive(Debug, Clone, Copy, Default)]
pub struct UnixNetwork;

struct UnixPeer(UnixStream);

struct UnixDoor {
    address: String,
    listener: Arc<UnixListener>,
    closed: Arc<AtomicBool>,
}

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
        let address = address.to_string();
        Ok(Box::new(UnixDoor { address, listener: Arc::new(listener), closed: Arc::default() }))
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
        let me = own_user();
        if me != 0 && !admits(peer_user(&stream)?, me) {
            return Err(Error::refused(format!("the process that listens at {address} belongs to another user")));
        }
        Ok(Box::new(UnixPeer(stream)))
    }
}

impl Listener for UnixDoor {
    fn accept(&self) -> Option<Box<dyn Stream>> {
        loop {
            let accepted = self.listener.accept();
            if self.closed.load(Ordering::SeqCst) {
                return None;
            }
            match accepted {
                Ok((stream, _)) => {
                    if peer_user(&stream).is_ok_and(|peer| admits(peer, own_user())) {
                        return Some(Box::new(UnixPeer(stream)));
                    }
                }
                // Out of descriptors or memory: the peer waits in the queue; give others time to close theirs.
                Err(e) if out_of_something(&e) => std::thread::sleep(std::time::Duration::from_millis(20)),
                // The peer was gone before we took it.
                Err(e) if matches!(e.kind(), ErrorKind::Interrupted | ErrorKind::ConnectionAborted) => {}
                Err(_) => return None,
            }
        }
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn closer(&self) -> Box<dyn Fn() + Send + Sync> {
        let (listener, closed) = (self.listener.clone(), self.closed.clone());
        Box::new(move || {
            closed.store(true, Ordering::SeqCst);
            // Ends an accept that is waiting; it fails only if it was done before.
            let _ = rustix::net::shutdown(&*listener, rustix::net::Shutdown::Both);
        })
    }
}

impl Stream for UnixPeer {
    fn try_clone(&self) -> Result<Box<dyn Stream>> {
        let stream = self.0.try_clone().map_err(|e| io_error("doubling", "a connection", &e))?;
        Ok(Box::new(UnixPeer(stream)))
    }

    fn shutdown(&self) {
        // It fails only if the other side has ended the connection before.
        let _ = self.0.shutdown(Shutdown::Both);
    }

    fn end_reading(&self) {
        // As above.
        let _ = self.0.shutdown(Shutdown::Read);
    }

    fn wait_readable(&self, limit: Duration) -> io::Result<bool> {
        wait_readable(&self.0, limit)
    }

    fn peer_process(&self) -> Option<u32> {
        let credentials = rustix::net::sockopt::socket_peercred(&self.0).ok()?;
        u32::try_from(credentials.pid.as_raw_nonzero().get()).ok()
    }
}

impl Read for UnixPeer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.read_vectored(buffers)
    }
}

impl Write for UnixPeer {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
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

fn wait_readable(socket: impl AsFd, limit: Duration) -> io::Result<bool> {
    let end = super::clock::now() + limit;
    loop {
        let left = end.since(super::clock::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match rustix::event::poll(&mut [PollFd::new(&socket, PollFlags::IN)], Some(&left)) {
            Ok(ready) => return Ok(ready > 0),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

fn out_of_something(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

fn peer_user(stream: &UnixStream) -> Result<u32> {
    rustix::net::sockopt::socket_peercred(stream)
        .map(|credentials| credentials.uid.as_raw())
        .map_err(|e| io_error("asking who", "the peer is", &e.into()))
}

fn admits(peer: u32, me: u32) -> bool {
    peer == me || peer == 0
}

#[cfg(test)]
mod tests;
