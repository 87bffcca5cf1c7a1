//! TCP on this machine: for faces whose clients know nothing else. There is neither a peer's identity nor encryption, so
//! that only addresses which no other machine can reach are listened at.

use super::{io_error, out_of_something, wait_readable};
use crate::network::{Listener, Network, Stream};
use forebay_model::{Error, Result};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Connections over TCP; an address is like `127.0.0.1:10809` or `[::1]:10809`.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpNetwork;

struct TcpPeer(TcpStream);

struct TcpDoor {
    address: String,
    listener: Arc<TcpListener>,
    closed: Arc<AtomicBool>,
}

impl Network for TcpNetwork {
    fn listen(&self, address: &str) -> Result<Box<dyn Listener>> {
        let place = parse(address)?;
        if !place.ip().is_loopback() {
            return Err(Error::usage(format!(
                "{address} can be reached from other machines, and nothing here is encrypted or asks who connects; listen \
                 at 127.0.0.1 and lead others there by a tunnel"
            )));
        }
        let listener = TcpListener::bind(place).map_err(|e| match e.kind() {
            ErrorKind::AddrInUse => {
                Error::busy(format!("another process listens at {address}; take another port, or 0"))
            }
            _ => io_error("listening at", address, &e),
        })?;
        let bound = listener.local_addr().map_err(|e| io_error("asking for the port of", address, &e))?;
        Ok(Box::new(TcpDoor { address: bound.to_string(), listener: Arc::new(listener), closed: Arc::default() }))
    }

    fn connect(&self, address: &str) -> Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(parse(address)?).map_err(|e| match e.kind() {
            ErrorKind::ConnectionRefused => Error::missing(format!("no process listens at {address}")),
            _ => io_error("connecting to", address, &e),
        })?;
        Ok(Box::new(TcpPeer(at_once(stream))))
    }
}

fn parse(address: &str) -> Result<SocketAddr> {
    address
        .parse()
        .map_err(|_| Error::usage(format!("'{address}' is not an address and a port; write it like 127.0.0.1:10809")))
}

/// What is written goes out at once; where that cannot be set, it only goes later.
fn at_once(stream: TcpStream) -> TcpStream {
    let _ = stream.set_nodelay(true);
    stream
}

impl Listener for TcpDoor {
    fn accept(&self) -> Option<Box<dyn Stream>> {
        loop {
            let accepted = self.listener.accept();
            if self.closed.load(Ordering::SeqCst) {
                return None;
            }
            match accepted {
                Ok((stream, _)) => return Some(Box::new(TcpPeer(at_once(stream)))),
                // Out of descriptors or memory: the peer waits in the queue; give others time to close theirs.
                Err(e) if out_of_something(&e) => std::thread::sleep(Duration::from_millis(20)),
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

impl Stream for TcpPeer {
    fn try_clone(&self) -> Result<Box<dyn Stream>> {
        let stream = self.0.try_clone().map_err(|e| io_error("doubling", "a connection", &e))?;
        Ok(Box::new(TcpPeer(stream)))
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
        None
    }
}

impl Read for TcpPeer {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }

    fn read_vectored(&mut self, buffers: &mut [io::IoSliceMut<'_>]) -> io::Result<usize> {
        self.0.read_vectored(buffers)
    }
}

impl Write for TcpPeer {
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

#[cfg(test)]
mod tests;
