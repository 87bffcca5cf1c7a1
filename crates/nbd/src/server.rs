//! Connections: one thread that reads and one that answers for each, and one pool for the device.

use crate::connection;
use crate::disk::Disk;
use crate::negotiation::{Export, negotiate};
use crate::pool::{Jobs, Pool};
use forebay_env::network::{Listener, Stream};
use forebay_env::real::thread;
use forebay_env::watched::Watched;
use forebay_model::Result;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Connections at once; more are closed as they come.
pub const MOST_CONNECTIONS: usize = 16;

/// Serves one device, until it is closed.
pub struct Server {
    shared: Arc<Shared>,
    closer: Box<dyn Fn() + Send + Sync>,
    address: String,
    accepting: Option<thread::JoinHandle<()>>,
    _pool: Pool,
}

struct Shared {
    disk: Arc<dyn Disk>,
    export: Export,
    jobs: Jobs,
    connections: Watched<Connections>,
    stopping: AtomicBool,
}

#[derive(Default)]
struct Connections {
    next: u64,
    /// A handle on each, to end it.
    open: BTreeMap<u64, Box<dyn Stream>>,
}

impl Server {
    /// Serves `disk` under `name`, which begins with a slash, to whoever comes to `listener`.
    pub fn start(listener: Box<dyn Listener>, name: &str, disk: Arc<dyn Disk>) -> Result<Server> {
        let pool = Pool::start()?;
        let closer = listener.closer();
        let address = listener.address().to_string();
        let export = Export { name: name.to_string(), size: disk.size(), trims: disk.trims() };
        let shared = Arc::new(Shared {
            disk,
            export,
            jobs: pool.jobs(),
            connections: Watched::default(),
            stopping: AtomicBool::new(false),
        });
        let accepting = {
            let shared = shared.clone();
            thread::spawn("nbd-accept", move || {
                while let Some(stream) = listener.accept() {
                    take_in(&shared, stream);
                }
            })?
        };
        Ok(Server { shared, closer, address, accepting: Some(accepting), _pool: pool })
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Takes no more connections and no more requests, answers those that were taken, and ends. Clients that do not read
    /// their answers within `patience` are left.
    pub fn close(mut self, patience: Duration) {
        self.stop_accepting();
        self.shared.stopping.store(true, Ordering::SeqCst);
        let connections = self.shared.connections.lock();
        connections.open.values().for_each(|stream| stream.end_reading());
        drop(self.shared.connections.wait_while_within(connections, patience, |all| !all.open.is_empty()));
    }

    fn stop_accepting(&mut self) {
        (self.closer)();
        if let Some(thread) = self.accepting.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_accepting();
        self.shared.stopping.store(true, Ordering::SeqCst);
        let connections = self.shared.connections.lock();
        connections.open.values().for_each(|stream| stream.shutdown());
        drop(self.shared.connections.wait_while(connections, |all| !all.open.is_empty()));
    }
}

/// A connection that is open; it is not any more when this is dropped.
struct Open {
    shared: Arc<Shared>,
    id: u64,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.shared.connections.change(|connections| connections.open.remove(&self.id));
    }
}

/// Gives a connection its thread. Where that cannot be, it is closed: before the device is chosen, the protocol has no
/// way to say why.
fn take_in(shared: &Arc<Shared>, mut stream: Box<dyn Stream>) {
    let Ok(handle) = stream.try_clone() else { return };
    let open = {
        let mut connections = shared.connections.lock();
        if connections.open.len() >= MOST_CONNECTIONS {
            return;
        }
        connections.next += 1;
        let id = connections.next;
        connections.open.insert(id, handle);
        Open { shared: shared.clone(), id }
    };
    // A thread that cannot be started drops what it was to have.
    let _ = thread::spawn("nbd-client", move || {
        let shared = &open.shared;
        if let Ok(true) = negotiate(&mut *stream, &shared.export) {
            // Without a second handle or thread there is no answer but the end.
            let _ = connection::serve(&mut *stream, &shared.disk, &shared.jobs, &shared.stopping);
        }
        stream.shutdown();
    });
}

#[cfg(test)]
mod tests;
