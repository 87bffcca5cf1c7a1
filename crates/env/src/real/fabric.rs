//! TCP between machines, for a loop of tasks: tokio's sockets under an executor of ours.
//!
//! - [`run_network`]: the loop, on the thread that calls it.
//! - [`TcpFabric`]: its connections. They are bare TCP, or [`tls`] over it, as the loop was told.
//!
//! Nothing here blocks the loop: names are looked up on threads of the runtime, and whatever may take long has a limit. A
//! peer that has vanished without a word is found out by the kernel within [`PATIENCE`].

mod alarm;
mod name;
mod run;
mod stream;
pub mod tls;

pub use run::{run_network, run_network_with};

use super::clock::RealClock;
use super::io_error;
use crate::fabric::{Door, Duplex, Fabric, FabricFuture};
use crate::race::{First, race};
use crate::{Clock, Spawner};
use forebay_model::{Error, Moment, Result};
use name::Place;
use socket2::{SockRef, TcpKeepalive};
use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;
use stream::Far;
use tls::Tls;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// How long connecting may take, the lookup of the name included. Of several addresses each has its share of what is left.
const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// How long looking up a name may take, so that there is time for connecting as well.
const LOOKUP_LIMIT: Duration = Duration::from_secs(2);
/// How long a peer may leave what was sent, or a question whether it is there, without an answer; and how long it may have no
/// room for what waits to be sent, also if it answers: who does not read for so long, while more waits than the buffers of
/// both sides hold, is given up. (That is what TCP_USER_TIMEOUT means.)
pub const PATIENCE: Duration = Duration::from_secs(30);
/// How long a connection is silent before the kernel asks whether the peer is there, and how long between questions.
const SILENCE: Duration = Duration::from_secs(10);
/// Connections that have come and wait to be taken; the system has a bound of its own.
const WAITING: u32 = 4096;
/// How long accepting rests when the process is out of descriptors or memory, or when the network failed a peer.
const REST: Duration = Duration::from_millis(20);

/// Connections over TCP. An address is like `127.0.0.1:7400`, `[::1]:7400` or `host:7400`.
pub struct TcpFabric {
    clock: Rc<RealClock>,
    spawner: Spawner,
    tls: Tls,
}

impl TcpFabric {
    /// The network of the loop whose clock this is; only what runs there may use it.
    fn new(clock: Rc<RealClock>, spawner: Spawner, tls: Tls) -> TcpFabric {
        TcpFabric { clock, spawner, tls }
    }
}

impl Fabric for TcpFabric {
    fn listen(&self, address: &str) -> FabricFuture<Result<Box<dyn Door>>> {
        let (clock, address) = (self.clock.clone(), address.to_string());
        let shown = self.tls.shown().map(|shown| (TlsAcceptor::from(shown), self.spawner.clone()));
        Box::pin(async move {
            let places = places(&clock, &address).await?;
            let mut failed = None;
            for place in places {
                match listening(place) {
                    Ok(listener) => {
                        let bound =
                            listener.local_addr().map_err(|e| io_error("asking for the port of", &address, &e))?;
                        let door = TcpDoor { listener: Rc::new(listener), address: bound.to_string(), clock, shown };
                        return Ok(Box::new(door) as Box<dyn Door>);
                    }
                    Err(e) => failed = Some(e),
                }
            }
            Err(match failed {
                Some(e) if e.kind() == ErrorKind::AddrInUse => {
                    Error::busy(format!("another process listens at {address}; take another port, or 0"))
                }
                Some(e) if e.kind() == ErrorKind::AddrNotAvailable => Error::usage(format!(
                    "{address} is no address of this machine; listen at one that is, or at 0.0.0.0"
                )),
                Some(e) => io_error("listening at", &address, &e),
                None => unknown(&address),
            })
        })
    }

    fn connect(&self, address: &str) -> FabricFuture<Result<Duplex>> {
        let (clock, address) = (self.clock.clone(), address.to_string());
        let trusted = self.tls.trusted().map(|trusted| (TlsConnector::from(trusted), self.spawner.clone()));
        Box::pin(async move {
            let end = clock.now() + CONNECT_LIMIT;
            let places = places(&clock, &address).await?;
            let attempt = |place| async move { TcpStream::connect(place).await.and_then(not_itself) };
            match first(&clock, end, &places, attempt).await {
                Ok((stream, place)) => {
                    prepare(&stream, place)?;
                    let Some((connector, spawner)) = trusted else {
                        return Ok(stream::duplex(stream, place));
                    };
                    let name = tls::name_of(&address)?;
                    let handshake = |stream| -> FabricFuture<_> {
                        Box::pin(async move { connector.connect(name, stream).await.map(TlsStream::from) })
                    };
                    Ok(tls::duplex(handshake, stream, Far { peer: address, ..Far::of(place) }, (spawner, clock)))
                }
                Err(Failed::Nowhere) => Err(unknown(&address)),
                Err(Failed::With(e)) => Err(unreached(&address, &e)),
                Err(Failed::Silent) => Err(Error::disconnected(format!(
                    "{address} did not answer within {} s; is that machine up, and does a firewall let us through?",
                    CONNECT_LIMIT.as_secs()
                ))),
            }
        })
    }
}

/// Why none of some addresses was connected to: what the last of them said.
#[derive(Debug)]
enum Failed {
    Nowhere,
    With(std::io::Error),
    Silent,
}

/// The first of `places` at which `attempt` succeeds until `end`. One that is silent has its share of the time, so that the next
/// ones come to theirs.
async fn first<T, F: Future<Output = std::io::Result<T>>>(
    clock: &RealClock,
    end: Moment,
    places: &[SocketAddr],
    attempt: impl Fn(SocketAddr) -> F,
) -> std::result::Result<(T, SocketAddr), Failed> {
    let mut failed = Failed::Nowhere;
    for (place, left) in places.iter().zip((1..=places.len() as u32).rev()) {
        let share = end.since(clock.now()) / left;
        failed = match within(clock, share, attempt(*place)).await {
            Some(Ok(done)) => return Ok((done, *place)),
            Some(Err(error)) => Failed::With(error),
            None => Failed::Silent,
        };
    }
    Err(failed)
}

/// Where connections come in.
struct TcpDoor {
    listener: Rc<TcpListener>,
    address: String,
    clock: Rc<RealClock>,
    /// With what it shows who it is, if with anything.
    shown: Option<(TlsAcceptor, Spawner)>,
}

impl Door for TcpDoor {
    fn address(&self) -> String {
        self.address.clone()
    }

    fn accept(&self) -> FabricFuture<Result<Duplex>> {
        let (listener, address, clock) = (self.listener.clone(), self.address.clone(), self.clock.clone());
        let shown = self.shown.clone();
        Box::pin(async move {
            loop {
                match listener.accept().await {
                    Ok((stream, peer)) => {
                        // The peer may be gone before we took it.
                        if prepare(&stream, peer).is_err() {
                            continue;
                        }
                        let Some((acceptor, spawner)) = shown else {
                            return Ok(stream::duplex(stream, peer));
                        };
                        let handshake = |stream| -> FabricFuture<_> {
                            Box::pin(async move { acceptor.accept(stream).await.map(TlsStream::from) })
                        };
                        return Ok(tls::duplex(handshake, stream, Far::of(peer), (spawner, clock)));
                    }
                    Err(e) if of_the_door(&e) => return Err(io_error("accepting at", &address, &e)),
                    Err(e) if matches!(e.kind(), ErrorKind::ConnectionAborted | ErrorKind::Interrupted) => {}
                    // The peer waits in the queue, or something was the matter with it alone; give others time to close theirs.
                    Err(_) => clock.sleep(REST).await,
                }
            }
        })
    }
}

/// A socket that listens there, with room for as many that wait as the system allows: of who finds none the first word is lost,
/// and it is said again only a second later. To be called inside a runtime of tokio, which need not be that of a fabric.
pub fn listening(place: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if place.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    // The port of one that ended just now is free.
    socket.set_reuseaddr(true)?;
    socket.bind(place)?;
    socket.listen(WAITING)
}

/// Where `address` may be.
async fn places(clock: &RealClock, address: &str) -> Result<Vec<SocketAddr>> {
    match Place::of(address)? {
        Place::Number(place) => Ok(vec![place]),
        Place::Name(name) => {
            let found = within(clock, LOOKUP_LIMIT, tokio::net::lookup_host(&name)).await;
            match found {
                Some(Ok(found)) => Ok(found.collect()),
                Some(Err(e)) => {
                    Err(Error::disconnected(format!("the name in {address} could not be looked up ({e}); check it")))
                }
                None => Err(Error::disconnected(format!(
                    "the name in {address} was not found within {} s; give a number, or check the name server",
                    LOOKUP_LIMIT.as_secs()
                ))),
            }
        }
    }
}

fn unknown(address: &str) -> Error {
    Error::disconnected(format!("the name in {address} has no address; check it"))
}

fn unreached(address: &str, error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::ConnectionRefused => Error::missing(format!("no process listens at {address}")),
        // Ours to mend: out of descriptors, of ports, or not allowed.
        _ if out_of_something(error) => {
            Error::busy(format!("no connection to {address} can be opened just now: {error}"))
        }
        ErrorKind::AddrNotAvailable => {
            Error::busy(format!("all ports for connections to {address} are in use; close some connections"))
        }
        ErrorKind::PermissionDenied => io_error("connecting to", address, error),
        _ => Error::disconnected(format!("{address} cannot be reached: {error}")),
    }
}

/// A connection to a port of this machine that nobody listens at may, by chance, leave from that very port and so meet
/// itself.
fn not_itself(stream: TcpStream) -> std::io::Result<TcpStream> {
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(ErrorKind::ConnectionRefused.into());
    }
    Ok(stream)
}

fn prepare(stream: &TcpStream, peer: SocketAddr) -> Result<()> {
    let prepared = || {
        let socket = SockRef::from(stream);
        // A frame is written whole: waiting for more to send with it would only delay it.
        socket.set_tcp_nodelay(true)?;
        socket.set_tcp_user_timeout(Some(PATIENCE))?;
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(SILENCE).with_interval(SILENCE))
    };
    prepared().map_err(|e| Error::disconnected(format!("the connection with {peer} ended as it was made: {e}")))
}

fn out_of_something(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM))
}

/// Whether it is about the door, at which nobody can come in any more, and not about the connection that was accepted: accept(2) passes
/// on whatever error the network already has for that, and what a firewall or a policy forbids.
fn of_the_door(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EBADF | libc::EINVAL | libc::ENOTSOCK))
}

/// What `future` gives, or nothing if that takes longer than `limit`.
async fn within<T>(clock: &RealClock, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    match race(future, clock.sleep(limit)).await {
        First::Left(value) => Some(value),
        First::Right(()) => None,
    }
}

#[cfg(test)]
mod tests;
