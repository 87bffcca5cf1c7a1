//! The door to other processes: ordered byte streams.
//!
//! Streams block, one thread a connection: in an embedded cluster the peers are a handful of processes on one
//! machine. What waits on many connections at once comes with nodes on a network.

use forebay_model::Result;
use std::io::{self, Read, Write};
use std::time::Duration;

/// One end of a connection.
pub trait Stream: Read + Write + Send {
    /// Another handle on the same connection, so that one thread can read while another writes.
    fn try_clone(&self) -> Result<Box<dyn Stream>>;

    /// Ends both directions; a read under way on any handle returns 0.
    fn shutdown(&self);

    /// Ends reading: a read under way on any handle returns 0 once what has arrived is read, and what is written still
    /// goes out.
    fn end_reading(&self);

    /// Waits until there is something to read, or the end; false if that took longer than `limit`.
    fn wait_readable(&self, limit: Duration) -> io::Result<bool>;

    /// The process at the other end, if that is known: of who connected, or of who listened.
    fn peer_process(&self) -> Option<u32>;
}

/// Where connections come in.
pub trait Listener: Send {
    /// Waits for the next connection; `None` once closed.
    fn accept(&self) -> Option<Box<dyn Stream>>;

    /// Where it listens, as those who connect call it.
    fn address(&self) -> &str;

    /// What makes a waiting [`Listener::accept`] return `None`.
    fn closer(&self) -> Box<dyn Fn() + Send + Sync>;
}

/// Makes and takes connections. An address is a path (a Unix socket), or a number and a port, as the network says.
pub trait Network: Send + Sync {
    /// Listens at `address`, replacing a stale socket there. Port 0 is any that is free.
    fn listen(&self, address: &str) -> Result<Box<dyn Listener>>;

    /// Connects to `address`.
    fn connect(&self, address: &str) -> Result<Box<dyn Stream>>;
}
