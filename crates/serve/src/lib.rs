//! A manager and nodes in one process, or a node in its own, and the ways between them.
//!
//! - [`manager`]: a manager on a thread of its own; [`node`]: the targets of a directory on the network.
//! - [`local`]: how clients and nodes of this process reach the manager.
//! - [`grpc`]: the same of other processes, with access keys from files ([`key`]); [`reach`]: the files of a cluster.
//! - [`join`]: a node whose manager is in another process; [`admission`]: who may be one; [`access`]: users' keys; [`targets`]:
//!   what
//!   people think of targets; [`news`]: what is said of how nodes and their manager get on.
//! - [`tls`]: what processes of a cluster show and whom they trust; [`certificates`]: makes that.
//! - [`survey`]: how a cluster is, as its manager says; [`status`]: how all of that is, over HTTP.
//! - [`copies`]: where copies of what the manager knows are; [`recover`]: makes that anew.
//! - [`limits`]: what of it has room in what the operating system allows.
//! - [`server`]: all of it, of one directory; [`rack`]: of several, a node each.

pub mod access;
pub mod admission;
pub mod certificates;
pub mod copies;
pub mod grpc;
pub mod join;
pub mod key;
pub mod limits;
pub mod local;
pub mod manager;
pub mod news;
pub mod node;
pub mod rack;
pub mod reach;
pub mod recover;
pub mod server;
pub mod status;
pub mod survey;
pub mod targets;
pub mod tls;
pub mod upkeep;

pub use join::{JoinOptions, Joined, Rebuilding};
pub use news::News;
pub use server::{METADATA, Server, ServerOptions};
