//! Connected and listening sockets, whatever their family: what a network makes of an address, and whom it lets in, it
//! says itself.

use crate::network::{Listener, Stream};
use crate::real::{clock, io_error};
use forebay_model::Result;
use rustix::event::{PollFd, PollFlags, Timespec};
use socket2::Socket;
use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The kernel refuses a call with more buffers (`UIO_MAXIOV`).
const MOST_BUFFERS: usize = 1024;

/// How long nobody is taken after an error that would only come again.
const REST: Duration = Duration::from_millis(20);

/// One end of a connection.
pub(super) struct Connected {
    socket: Socket,
    process: Option<u32>,
}

/// Where connections come in.
pub(super) struct Door {
    address: String,
    socket: Arc<Socket>,
    admit: fn(Socket) -> Option<Connected>,
    closed: Arc<AtomicBool>,
}

impl Connected {
    /// A connection, and the process at its other end if that is known.
    pub(super) fn new(socket: Socket, process: Option<u32>) -> Connected {
        Connected { socket, process }
    }
}

impl Door {
    /// A socket that listens at `address`; `admit` says who of those that come is let in.
    pub(super) fn new(address: String, listener: impl Into<Socket>, admit: fn(Socket) -> Option<Connected>) -> Door {
        Door { address, socket: Arc::new(listener.into()), admit, closed: Arc::default() }
    }
}

impl Listener for Door {
    fn accept(&self) -> Option<Box<dyn Stream>> {
        loop {
            let accepted = self.socket.accept();
            if self.closed.load(Ordering::SeqCst) {
                return None;
            }
            match accepted {
                Ok((socket, _)) => {
                    if let Some(connected) = (self.admit)(socket) {
                        return Some(Box::new(connected));
                    }
                }
                Err(e) => std::thread::sleep(rest_after(&e)),
            }
        }
    }

    fn address(&self) -> &str {
        &self.address
    }

    fn closer(&self) -> Box<dyn Fn() + Send + Sync> {
        let (socket, closed) = (self.socket.clone(), self.closed.clone());
        Box::new(move || {
            closed.store(true, Ordering::SeqCst);
            // Ends an accept that is waiting; it fails only if it was done before.
            let _ = socket.shutdown(Shutdown::Both);
        })
    }
}

impl Stream for Connected {
    fn try_clone(&self) -> Result<Box<dyn Stream>> {
        let socket = self.socket.try_clone().map_err(|e| io_error("doubling", "a connection", &e))?;
        Ok(Box::new(Connected { socket, process: self.process }))
    }

    fn shutdown(&self) {
        // It fails only if the other side has ended the connection before.
        let _ = self.socket.shutdown(Shutdown::Both);
    }

    fn end_reading(&self) {
        // As above.
        let _ = self.socket.shutdown(Shutdown::Read);
    }

    fn wait_readable(&self, limit: Duration) -> io::Result<bool> {
        let end = clock::now() + limit;
        loop {
            let left = end.since(clock::now());
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            match rustix::event::poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&left)) {
                Ok(ready) => return Ok(ready > 0),
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
    }

    fn peer_process(&self) -> Option<u32> {
        self.process
    }
}

impl Read for Connected {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.socket.read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        let most = buffers.len().min(MOST_BUFFERS);
        self.socket.read_vectored(&mut buffers[..most])
    }
}

impl Write for Connected {
    // A peer that is gone is an error, never a signal.
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.socket.send_with_flags(buffer, libc::MSG_NOSIGNAL)
    }

    fn write_vectored(&mut self, buffers: &[io::IoSlice<'_>]) -> io::Result<usize> {
        let most = buffers.len().min(MOST_BUFFERS);
        self.socket.send_vectored_with_flags(&buffers[..most], libc::MSG_NOSIGNAL)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// How long nobody is taken after an accept that failed. No error ends the door, which is there until it is closed: out of descriptors
/// or memory, the peer waits in the queue while others close theirs; and what the network or a security module has against a
/// connection is not about the next one.
fn rest_after(error: &io::Error) -> Duration {
    match error.kind() {
        // A signal came, or the peer was gone before it was taken: neither would come again.
        ErrorKind::Interrupted | ErrorKind::ConnectionAborted => Duration::ZERO,
        _ => REST,
    }
}

#[cfg(test)]
mod tests;
