//! The server: gRPC on one port, on a thread of its own, with health and reflection beside the control plane.
//!
//! What a stranger may cost is bounded before anything is read: connections, requests under way and bytes of a greeting.
//! A message of a session is read only if its connection has that session. When all connections are taken, the one that
//! is there longest without a session makes room; and when there are as many sessions as may be, one of whoever has most.

mod bounded;
mod connection;
mod gate;
mod incoming;
mod services;

use crate::handler::Handler;
use crate::proto::DESCRIPTORS;
use crate::proto::access_server::AccessServer;
use crate::proto::control_server::ControlServer as ControlRoutes;
use crate::runtime::runtime;
use crate::tls::{ServerTls, causes, is_loopback};
use crate::{MOST_GREETING, MOST_MESSAGE};
use bounded::Bounded;
use connection::Connections;
use forebay_env::real::listening;
use forebay_env::real::thread::{self, JoinHandle};
use forebay_model::{Error, Result};
use gate::{Room, SessionGate, Sorted};
use services::{Access, Control};
use std::future::Future;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::{Arc, mpsc};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::runtime::Runtime;
use tokio::sync::{oneshot, watch};
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::Server;
use tonic_health::ServingStatus;
use tonic_health::server::HealthReporter;

/// How long a peer may be silent before it is asked whether it is there, and how long it has to answer that.
const SILENCE: Duration = Duration::from_secs(20);
/// The most requests of one connection that are under way: it is not to take all the room of all. More wait on its side.
const MOST_STREAMS: u32 = 64;
/// The most bytes of a request's metadata.
const MOST_METADATA: u32 = 16 << 10;
/// What health is asked about, beside all of the server.
const CONTROL: &str = "forebay.control.v1.Control";

/// How much is taken at a time.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Connections; one in eight is for those who have no session yet.
    pub connections: usize,
    /// Requests of sessions that are under way; one more is answered with [`forebay_model::Kind::Busy`].
    pub requests: usize,
    /// Of these, requests of one user: the rest is for others.
    pub requests_of_one: usize,
    /// Reports of nodes that are under way, likewise.
    pub reports: usize,
    /// Of these, reports of one user.
    pub reports_of_one: usize,
    /// Greetings that are under way, likewise; and as many of what else strangers may ask, of health and reflection.
    pub greetings: usize,
    /// A session ends when nothing was asked for so long.
    pub idle: Duration,
    /// How long the message of a request of a session may take to come.
    pub message: Duration,
    /// How long an answer may take; one that comes in parts ends then.
    pub answer: Duration,
    /// How long a greeting may take, with the time in which its message comes.
    pub greeting: Duration,
    /// How long what is under way may go on when the server stops.
    pub grace: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            connections: 1024,
            requests: 256,
            requests_of_one: 192,
            reports: 64,
            reports_of_one: 48,
            greetings: 64,
            idle: Duration::from_secs(600),
            message: Duration::from_secs(5),
            answer: Duration::from_secs(60),
            greeting: Duration::from_secs(5),
            grace: Duration::from_secs(5),
        }
    }
}

/// How a server is to be.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// With what it shows who it is; without, it listens on this machine alone.
    pub tls: Option<ServerTls>,
    /// How much it takes.
    pub limits: Limits,
}

/// A server that runs. Dropping it ends it at once, and whatever it was asked.
pub struct ControlServer {
    address: SocketAddr,
    until: watch::Sender<Until>,
    ended: oneshot::Receiver<Result<()>>,
    thread: Option<JoinHandle<()>>,
}

/// How far a server has been told to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Until {
    /// On.
    Ever,
    /// Until what is under way is answered.
    Answered,
    /// No further.
    Now,
}

impl ControlServer {
    /// Listens at `address` (`host:port`; port 0 is any that is free), and has everything answered by `handler`. It holds
    /// up its caller until it listens.
    /// [`forebay_model::Kind::Usage`] if somebody beyond this machine could reach it without TLS.
    pub fn start<H>(address: &str, handler: H, options: ServerOptions) -> Result<ControlServer>
    where
        H: Handler,
    {
        let connections = Arc::new(Connections::new(options.limits.connections, options.limits.idle));
        let (until, watched) = watch::channel(Until::Ever);
        let (end, ended) = oneshot::channel();
        let (tell, told) = mpsc::sync_channel(1);
        let wanted = address.to_string();
        let thread = thread::spawn("forebay-control", move || match prepare(&wanted, &options) {
            Err(error) => {
                // Whoever starts it waits for this.
                let _ = tell.send(Err(error));
            }
            Ok(Prepared { runtime, server, listener, address }) => {
                let _ = tell.send(Ok(address));
                let serving =
                    Serving { handler: Arc::new(handler), limits: options.limits, connections, until: watched };
                let outcome = runtime.block_on(serving.serve(server, listener));
                runtime.shutdown_background();
                // Nobody is told if it was dropped.
                let _ = end.send(outcome);
            }
        })?;
        match told.recv() {
            Ok(address) => Ok(ControlServer { address: address?, until, ended, thread: Some(thread) }),
            Err(_) => Err(Error::busy(format!("the server at {address} ended as it began; start it again"))),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends in order: nothing new is taken, and what is under way is answered, if that takes no longer than the grace.
    /// The loop that answers goes on meanwhile.
    pub async fn stop(mut self) -> Result<()> {
        self.until.send_replace(Until::Answered);
        match (&mut self.ended).await {
            Ok(outcome) => outcome,
            Err(_) => {
                Err(Error::disconnected(format!("the server at {} ended by itself; start it again", self.address)))
            }
        }
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.until.send_replace(Until::Now);
        if let Some(thread) = self.thread.take() {
            // What it panicked with, if it did, was told when it did.
            let _ = thread.join();
        }
    }
}

/// All that can fail before the first connection.
struct Prepared {
    runtime: Runtime,
    server: Server,
    listener: TcpListener,
    address: SocketAddr,
}

fn prepare(address: &str, options: &ServerOptions) -> Result<Prepared> {
    if options.tls.is_none() && !is_loopback(address) {
        return Err(Error::usage(format!(
            "{address} can be reached from other machines: give a certificate and its key, or listen at 127.0.0.1"
        )));
    }
    let runtime = runtime()?;
    let mut server = Server::builder()
        .max_concurrent_streams(MOST_STREAMS)
        .http2_max_header_list_size(MOST_METADATA)
        .http2_keepalive_interval(Some(SILENCE))
        .http2_keepalive_timeout(Some(SILENCE));
    if let Some(tls) = &options.tls {
        server = server.tls_config(tls.config()?).map_err(|e| tls.refused(&e))?;
    }
    let listener = runtime.block_on(listening_at(address)).map_err(|e| not_bound(address, &e))?;
    let address = listener.local_addr().map_err(|e| not_bound(address, &e))?;
    if options.tls.is_none() && !address.ip().is_loopback() {
        return Err(Error::usage(format!("{address} can be reached from other machines: listen at 127.0.0.1")));
    }
    Ok(Prepared { runtime, server, listener, address })
}

/// Listens at the first place of an address where it can, with as much room for those who wait as the data path has.
async fn listening_at(address: &str) -> std::io::Result<TcpListener> {
    let mut failed = std::io::Error::new(ErrorKind::AddrNotAvailable, "the name has no address");
    for place in tokio::net::lookup_host(address).await? {
        match listening(place) {
            Ok(listener) => return Ok(listener),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

fn not_bound(address: &str, error: &std::io::Error) -> Error {
    match error.kind() {
        ErrorKind::AddrInUse => {
            Error::busy(format!("another process listens at {address}; take another port, or 0 for any that is free"))
        }
        _ => Error::usage(format!("the control plane cannot listen at {address}: {error}; give one of this machine's")),
    }
}

/// What runs until it is told to stop.
struct Serving<H: Handler> {
    handler: Arc<H>,
    limits: Limits,
    connections: Arc<Connections<H::Principal>>,
    until: watch::Receiver<Until>,
}

impl<H: Handler> Serving<H> {
    async fn serve(self, mut server: Server, listener: TcpListener) -> Result<()> {
        let (health, routes) = self.routes().await;
        let incoming = incoming::take(listener, self.connections.clone(), told(&self.until, Until::Answered));
        let stopping = {
            let stop = told(&self.until, Until::Answered);
            async move {
                stop.await;
                set_health(&health, ServingStatus::NotServing).await;
            }
        };
        let grace = {
            let stop = told(&self.until, Until::Answered);
            let grace = self.limits.grace;
            async move {
                stop.await;
                tokio::time::sleep(grace).await;
            }
        };
        let served = server.add_routes(routes).serve_with_incoming_shutdown(incoming, stopping);
        tokio::select! {
            outcome = served => outcome.map_err(|e| Error::device(format!("the control plane failed: {}", causes(&e)))),
            () = grace => Ok(()),
            () = told(&self.until, Until::Now) => Ok(()),
        }
    }

    async fn routes(&self) -> (HealthReporter, Routes) {
        let (health, health_service) = tonic_health::server::health_reporter();
        set_health(&health, ServingStatus::Serving).await;
        let reflection = tonic_reflection::server::Builder::configure()
            .register_encoded_file_descriptor_set(DESCRIPTORS)
            .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
            .build_v1()
            .expect("descriptions that are compiled in can be read, as a test shows");
        let access = Access { handler: self.handler.clone(), connections: self.connections.clone() };
        let access =
            AccessServer::new(access).max_decoding_message_size(MOST_GREETING).max_encoding_message_size(MOST_GREETING);
        let control = ControlRoutes::new(Control { handler: self.handler.clone() })
            .max_decoding_message_size(MOST_MESSAGE)
            .max_encoding_message_size(MOST_MESSAGE);
        let control = InterceptedService::new(control, SessionGate::<H::Principal>::new(&self.limits));
        let Limits { greetings, answer, greeting, message, .. } = self.limits;
        // Whoever asks how the server is does not keep others from greeting it.
        let (room, greetings) = (Room::of(greetings), Room::of(greetings));
        let health_service = health_service.max_decoding_message_size(MOST_GREETING);
        let reflection = reflection.max_decoding_message_size(MOST_GREETING);
        let routes = Routes::new(Bounded::within(health_service, &room, answer))
            .add_service(Bounded::within(reflection, &room, answer))
            .add_service(Bounded::within(access, &greetings, greeting))
            .add_service(Bounded::of(Sorted { inner: control, message }, answer));
        (health, routes)
    }
}

async fn set_health(health: &HealthReporter, status: ServingStatus) {
    health.set_service_status("", status).await;
    health.set_service_status(CONTROL, status).await;
}

/// Ends when the server was told to go no further than this, or is gone.
fn told(watched: &watch::Receiver<Until>, until: Until) -> impl Future<Output = ()> + Send + use<> {
    let mut watched = watched.clone();
    async move {
        // Whoever tells it is gone: then that is all that is to be told.
        let _ = watched.wait_for(|told| *told >= until).await;
    }
}

#[cfg(test)]
mod tests;
