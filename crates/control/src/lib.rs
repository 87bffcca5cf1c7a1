//! The control plane over gRPC: an adapter between the plain types of [`forebay_wire::control`] and the network.
//!
//! - [`ControlServer`] takes what clients ask, after they have proven whose they are, to a [`Handler`]: whoever owns the
//!   manager.
//! - [`ControlClient`] asks it, and asks again under the same number as long as that may help.
//! - `proto/forebay/control/v1/control.proto` is the interface, for whoever has no Rust; `docs/protocol/control.md` says
//!   what each request does.
//!
//! Both run on tokio, each on one thread of its own: gRPC wants tokio's timers, a handshake of TLS or a message of some
//! MiB takes milliseconds of a processor, and neither is to hold up the loop of the manager or of a client. So the
//! futures here need no runtime: any executor polls them, also the one of [`forebay_env::real::run_network`].
//!
//! Always: beyond this machine nothing is said without TLS; a request reaches the handler only with a session that was
//! proven on the same connection; and every queue, message and wait has a bound.

mod client;
mod convert;
#[cfg(test)]
mod fake;
mod handler;
mod proto;
mod runtime;
mod server;
mod status;
mod tls;

pub use client::{AccessKey, ClientOptions, ControlClient};
pub use handler::{Handler, HandlerFuture};
pub use server::{ControlServer, Limits, ServerOptions};
pub use status::ERROR;
pub use tls::{ClientTls, ServerTls, is_loopback};

/// The metadata that holds the token of a session.
pub const SESSION: &str = "forebay-session-bin";
/// The most bytes of a message of a session.
pub const MOST_MESSAGE: usize = 4 << 20;
/// The most bytes of a message before there is a session.
pub const MOST_GREETING: usize = 4 << 10;
