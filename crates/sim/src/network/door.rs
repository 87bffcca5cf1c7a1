//! A machine's side of the network as tasks see it: [`Fabric`], [`Door`] and both halves of a connection.

use super::Inner;
use super::segment::SocketId;
use super::socket::{Became, Outbox, Socket};
use super::spec::NetworkSpec;
use forebay_env::fabric::{Door, Duplex, Fabric, FabricFuture};
use forebay_model::{Error, Result};
use futures_io::{AsyncRead, AsyncWrite};
use std::future::poll_fn;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// What a crashed machine says.
fn down(name: &str) -> Error {
    Error::disconnected(format!("the machine {name} has crashed"))
}

/// A name and a port.
fn parse(address: &str) -> Result<(&str, u16)> {
    let bad = || Error::usage(format!("'{address}' is not a machine and a port; write it like node-1:7400"));
    let (name, port) = address.rsplit_once(':').filter(|(name, _)| !name.is_empty()).ok_or_else(bad)?;
    Ok((name, port.parse().map_err(|_| bad())?))
}

/// The network as one machine has it.
pub(super) struct SimFabric {
    pub(super) inner: Rc<Inner>,
    pub(super) host: u32,
}

impl Fabric for SimFabric {
    fn listen(&self, address: &str) -> FabricFuture<Result<Box<dyn Door>>> {
        let (inner, host, address) = (self.inner.clone(), self.host, address.to_string());
        Box::pin(async move {
            let (name, port) = parse(&address)?;
            let (port, number) = inner.enter(|state, _| {
                let own = state.host(host);
                if !own.up {
                    return Err(down(&own.name));
                }
                if own.name != name {
                    let own = &own.name;
                    return Err(Error::usage(format!("{address} is no address of this machine, which is {own}")));
                }
                state.listen(host, port).ok_or_else(|| Error::busy(format!("another process listens at {address}")))
            })?;
            let listening = Listening { host, port, number, address: format!("{name}:{port}"), inner: inner.clone() };
            Ok(Box::new(SimDoor(Rc::new(listening))) as Box<dyn Door>)
        })
    }

    fn connect(&self, address: &str) -> FabricFuture<Result<Duplex>> {
        let (inner, host, address) = (self.inner.clone(), self.host, address.to_string());
        Box::pin(async move {
            let (name, port) = parse(&address)?;
            let id = inner.enter(|state, now| {
                let own = state.host(host);
                if !own.up {
                    return Err(down(&own.name));
                }
                let peer = state
                    .host_named(name)
                    .ok_or_else(|| Error::disconnected(format!("the name in {address} has no address; check it")))?;
                Ok(state.connect(now, host, peer, port))
            })?;
            let mut asking = Asking(Some(End { inner: inner.clone(), id }));
            let end = asking.0.as_ref().expect("it was just put there");
            let opened = poll_fn(|context| end.poll(|socket, _, _, out| socket.poll_open(context, out))).await;
            opened.map_err(|why| match why {
                ErrorKind::ConnectionRefused => Error::missing(format!("no process listens at {address}")),
                _ => Error::disconnected(format!("{address} did not answer; is that machine up?")),
            })?;
            let end = asking.0.take().expect("it was there when it was made");
            Ok(duplex(end, address))
        })
    }
}

/// One end of a connection, for both halves.
struct End {
    inner: Rc<Inner>,
    id: SocketId,
}

impl End {
    /// Lets `poll` ask the machine's end, which was reset if nothing is left of it.
    fn poll<T>(
        &self,
        poll: impl FnOnce(&mut Socket, u64, &NetworkSpec, &mut Outbox) -> Poll<std::result::Result<T, ErrorKind>>,
    ) -> Poll<std::result::Result<T, ErrorKind>> {
        self.inner.enter(|state, now| {
            let mut outcome = Poll::Ready(Err(ErrorKind::ConnectionReset));
            state.with(now, self.id, |socket, spec, out| {
                outcome = poll(socket, now, spec, out);
                Became::Same
            });
            outcome
        })
    }
}

/// A connection that is asked for; dropping it gives up.
struct Asking(Option<End>);

impl Drop for Asking {
    fn drop(&mut self) {
        if let Some(End { inner, id }) = self.0.take() {
            inner.enter(|state, now| state.remove(now, id));
        }
    }
}

fn duplex(End { inner, id }: End, peer: String) -> Duplex {
    let machine = peer.rsplit_once(':').map_or(&*peer, |(name, _)| name).to_string();
    let write = Box::new(Outgoing(End { inner: inner.clone(), id }));
    Duplex { read: Box::new(Incoming(End { inner, id })), write, peer, machine, is_near: false }
}

/// What closes the port when nobody needs it any more.
struct Listening {
    inner: Rc<Inner>,
    host: u32,
    port: u16,
    number: u64,
    address: String,
}

impl Drop for Listening {
    fn drop(&mut self) {
        let (host, port, number) = (self.host, self.port, self.number);
        self.inner.enter(|state, now| state.close_door(now, host, port, number));
    }
}

/// Where connections come in.
struct SimDoor(Rc<Listening>);

impl Door for SimDoor {
    fn address(&self) -> String {
        self.0.address.clone()
    }

    fn accept(&self) -> FabricFuture<Result<Duplex>> {
        let door = self.0.clone();
        Box::pin(poll_fn(move |context| {
            let Listening { inner, host, port, number, .. } = &*door;
            let accepted = inner.enter(|state, _| {
                let accepted = state.accept(*host, *port, *number, context.waker())?;
                Some(accepted.and_then(|id| {
                    let (peer, port) = state.socket(id).map(|socket| (socket.peer_host, socket.own_port))?;
                    Some((id, format!("{}:{port}", state.host(peer).name)))
                }))
            });
            match accepted {
                None => Poll::Ready(Err(down(door.address.rsplit_once(':').map_or("", |(name, _)| name)))),
                Some(None) => Poll::Pending,
                Some(Some((id, peer))) => Poll::Ready(Ok(duplex(End { inner: inner.clone(), id }, peer))),
            }
        }))
    }
}

fn broken(why: ErrorKind) -> io::Error {
    let text = match why {
        ErrorKind::TimedOut => "the other side has not answered for too long",
        ErrorKind::BrokenPipe => "this side has said that no more comes",
        ErrorKind::ConnectionAborted => "the connection was given up on this side",
        _ => "the connection is no more on the other side, or on this one",
    };
    io::Error::new(why, text)
}

/// The half that reads.
struct Incoming(End);

impl AsyncRead for Incoming {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        let read = self.0.poll(|socket, now, _, out| socket.poll_read(now, context, into, out));
        if let Poll::Ready(Ok(length)) = read {
            self.0.inner.note(&into[..length]);
        }
        read.map_err(broken)
    }
}

impl Drop for Incoming {
    fn drop(&mut self) {
        let End { inner, id } = &self.0;
        inner.leave(*id, |socket, now, out| socket.drop_reader(now, out));
    }
}

/// The half that writes.
struct Outgoing(End);

impl Outgoing {
    fn poll_parts(&self, context: &Context<'_>, parts: &[&[u8]]) -> Poll<io::Result<usize>> {
        let written = self.0.poll(|socket, now, spec, out| socket.poll_write(now, context, parts, spec, out));
        written.map_err(broken)
    }
}

impl AsyncWrite for Outgoing {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_parts(context, &[bytes])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let parts: Vec<&[u8]> = parts.iter().map(|part| &**part).collect();
        self.poll_parts(context, &parts)
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let End { inner, id } = &self.0;
        inner.enter(|state, now| {
            state.with(now, *id, |socket, _, out| {
                socket.close(now, out);
                Became::Same
            });
        });
        Poll::Ready(Ok(()))
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        let End { inner, id } = &self.0;
        inner.leave(*id, |socket, now, out| socket.drop_writer(now, out));
    }
}
