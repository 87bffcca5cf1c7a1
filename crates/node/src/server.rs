//! Serves a host's targets to other processes: one thread a connection, and one for each stream on it.

mod connection;
mod objects;

use crate::host::Host;
use connection::Connection;
use forebay_env::network::{Listener, Stream};
use forebay_env::real::thread;
use forebay_env::watched::Watched;
use forebay_model::{Error, Result};
use forebay_wire::{Command, FrameWriter, RequestId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Connections at once. A process has one for what it asks, and one for each recorder and each query.
pub const MOST_CONNECTIONS: usize = 64;

/// What serves other processes, until it is closed.
pub struct Server {
    shared: Arc<Shared>,
    closer: Box<dyn Fn() + Send + Sync>,
    accepting: Mutex<Option<thread::JoinHandle<()>>>,
}

struct Shared {
    host: Arc<Host>,
    most: usize,
    connections: Watched<Connections>,
}

#[derive(Default)]
struct Connections {
    next: u64,
    /// A handle on each, to end it.
    open: BTreeMap<u64, Box<dyn Stream>>,
    closing: bool,
}

impl Server {
    /// Serves `host` to whoever comes to `listener`.
    pub fn start(host: Arc<Host>, listener: Box<dyn Listener>) -> Result<Server> {
        Server::start_with(host, listener, MOST_CONNECTIONS)
    }

    /// The same with no more than so many connections at once.
    pub fn start_with(host: Arc<Host>, listener: Box<dyn Listener>, most: usize) -> Result<Server> {
        let closer = listener.closer();
        let shared = Arc::new(Shared { host, most, connections: Watched::default() });
        let accepting = {
            let shared = shared.clone();
            thread::spawn("serve", move || {
                while let Some(stream) = listener.accept() {
                    take_in(&shared, stream);
                }
            })?
        };
        Ok(Server { shared, closer, accepting: Mutex::new(Some(accepting)) })
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.shared.connections.lock().open.len()
    }

    /// Takes no more connections.
    pub fn stop_accepting(&self) {
        (self.closer)();
        let thread = self.accepting.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(thread) = thread {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }

    /// Ends all connections and waits until nothing of them is left.
    pub fn close(&self) {
        self.stop_accepting();
        let mut connections = self.shared.connections.lock();
        connections.closing = true;
        connections.open.values().for_each(|stream| stream.shutdown());
        drop(self.shared.connections.wait_while(connections, |all| !all.open.is_empty()));
    }
}

/// Gives a connection its thread, or says why not.
fn take_in(shared: &Arc<Shared>, stream: Box<dyn Stream>) {
    let admitted = admit(shared, &*stream);
    let refusal = match admitted {
        Ok(id) => {
            let serving = shared.clone();
            let refused = stream.try_clone();
            let spawned = thread::spawn("connection", move || {
                Connection::serve(&serving.host, stream);
                serving.connections.change(|connections| connections.open.remove(&id));
            });
            match (spawned, refused) {
                (Ok(_), _) => return,
                (Err(error), stream) => {
                    shared.connections.change(|connections| connections.open.remove(&id));
                    stream.map(|stream| (stream, error))
                }
            }
        }
        Err(error) => Ok((stream, error)),
    };
    if let Ok((stream, error)) = refusal {
        // Whoever it is may be gone already.
        let _ = FrameWriter::new(stream).send_error(RequestId(0), Command::HELLO, &error);
    }
}

fn admit(shared: &Shared, stream: &dyn Stream) -> Result<u64> {
    let handle = stream.try_clone()?;
    let mut connections = shared.connections.lock();
    let most = shared.most;
    if connections.open.len() >= most {
        return Err(Error::busy(format!("{most} connections are open already; end a recorder, a query or a process")));
    }
    if connections.closing {
        return Err(Error::disconnected("the process that serves the cluster is going away"));
    }
    let id = connections.next;
    connections.next += 1;
    connections.open.insert(id, handle);
    Ok(id)
}
