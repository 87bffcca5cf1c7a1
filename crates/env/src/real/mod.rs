//! The doors of a real machine: the only place where the process touches devices, clocks, chance, threads, files,
//! sockets and signals.
//!
//! - [`open`], [`open_waiting`], [`create_file`]: take a device for ourselves, or say why not; [`UringDevice`] reads and writes it.
//! - [`run`]: the loop of a target, on the thread that calls it.
//! - [`run_network`]: the loop of what talks to other machines, likewise.
//! - [`clock`], [`random`], [`network`], [`thread`], [`file`], [`claim`], [`signal`], [`process`], [`limits`], [`packet`], [`udp`]:
//!   thin doors for the rest.

// The bans that the rest of the workspace lives under end here: this is what they protect.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

pub mod claim;
pub mod clock;
pub mod fabric;
pub mod file;
mod interface;
pub mod limits;
pub mod network;
mod open;
pub mod packet;
pub mod process;
pub mod random;
mod reactor;
pub mod signal;
pub mod thread;
pub mod udp;
mod uring;

pub use clock::RealClock;
pub use fabric::tls::{Tls, trouble as tls_trouble};
pub use fabric::{listening, run_network, run_network_with};
pub use network::{TcpNetwork, UnixNetwork};
pub use open::{OpenMode, Opened, SMALLEST, create_file, open, open_waiting};
pub use random::KernelRandom;
pub use reactor::{Options, run, run_on, run_or_end};
pub use uring::{Registration, UringDevice};

use forebay_model::{Error, Kind};

/// What to tell people about a failed call on `what`: the kind follows from the cause, unless a caller knows better.
pub(crate) fn io_error(doing: &str, what: impl std::fmt::Display, error: &std::io::Error) -> Error {
    use std::io::ErrorKind;
    let kind = match error.kind() {
        ErrorKind::NotFound => Kind::Missing,
        ErrorKind::AlreadyExists => Kind::Exists,
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Kind::Full,
        ErrorKind::WouldBlock | ErrorKind::ResourceBusy | ErrorKind::OutOfMemory | ErrorKind::TimedOut => Kind::Busy,
        ErrorKind::BrokenPipe | ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted => Kind::Disconnected,
        _ if error.raw_os_error() == Some(libc::EIO) => Kind::Device,
        _ => Kind::Usage,
    };
    Error::new(kind, format!("{doing} {what} failed: {error}"))
}
