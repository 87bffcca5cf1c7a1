//! TCP on this machine: for faces whose clients know nothing else. There is neither a peer's identity nor encryption, so
//! that only addresses which no other machine can reach are listened at.

use super::io_error;
use super::socket::{Connected, Door};
use crate::network::{Listener, Network, Stream};
use forebay_model::{Error, Result};
use socket2::Socket;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream};

/// Connections over TCP; an address is like `127.0.0.1:10809` or `[::1]:10809`.
#[derive(Debug, Clone, Copy, Default)]
pub struct TcpNetwork;

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
        Ok(Box::new(Door::new(bound.to_string(), listener, |socket| Some(at_once(socket)))))
    }

    fn connect(&self, address: &str) -> Result<Box<dyn Stream>> {
        let stream = TcpStream::connect(parse(address)?).map_err(|e| match e.kind() {
            ErrorKind::ConnectionRefused => Error::missing(format!("no process listens at {address}")),
            _ => io_error("connecting to", address, &e),
        })?;
        Ok(Box::new(at_once(stream.into())))
    }
}

fn parse(address: &str) -> Result<SocketAddr> {
    address
        .parse()
        .map_err(|_| Error::usage(format!("'{address}' is not an address and a port; write it like 127.0.0.1:10809")))
}

/// What is written goes out at once; where that cannot be set, it only goes later.
fn at_once(socket: Socket) -> Connected {
    let _ = socket.set_tcp_nodelay(true);
    Connected::new(socket, None)
}

#[cfg(test)]
mod tests;
