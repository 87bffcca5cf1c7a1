//! The two ends of a TCP stream as this workspace knows them. The write half ends what is sent when it is dropped; the
//! socket is closed when both are.

use crate::fabric::Duplex;
use futures_io::{AsyncRead, AsyncWrite};
use std::io::{self, ErrorKind, IoSlice, IoSliceMut};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// The two halves of `stream`.
pub(super) fn duplex(stream: TcpStream, peer: SocketAddr) -> Duplex {
    let (read, write) = stream.into_split();
    let Far { peer, machine, is_near } = Far::of(peer);
    Duplex { read: Box::new(Incoming(read)), write: Box::new(Outgoing(write)), peer, machine, is_near }
}

/// What is known of the other end of a connection; see [`Duplex`].
pub(super) struct Far {
    pub(super) peer: String,
    pub(super) machine: String,
    pub(super) is_near: bool,
}

impl Far {
    /// Whoever has this address.
    pub(super) fn of(address: SocketAddr) -> Far {
        let ip = address.ip().to_canonical();
        let machine = match ip {
            IpAddr::V4(ip) => ip.to_string(),
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() >> 64 << 64).to_string(),
        };
        Far { peer: address.to_string(), machine, is_near: ip.is_loopback() }
    }
}

struct Incoming(OwnedReadHalf);

struct Outgoing(OwnedWriteHalf);

impl AsyncRead for Incoming {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut buffer = ReadBuf::new(buffer);
        ready!(Pin::new(&mut self.0).poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }

    fn poll_read_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Poll<io::Result<usize>> {
        let stream: &TcpStream = self.0.as_ref();
        loop {
            ready!(stream.poll_read_ready(context))?;
            match stream.try_read_vectored(buffers) {
                Err(e) if e.kind() == ErrorKind::WouldBlock => {}
                done => return Poll::Ready(done),
            }
        }
    }
}

impl AsyncWrite for Outgoing {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, parts)
    }

    /// What was written is on its way as soon as it is taken.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
