//! A cluster that is a directory: [`format()`] makes it, [`open`] opens it in this process.
//!
//! In the directory lie `cluster.toml`, which names the targets (see [`settings`]), the targets that are files
//! (`target.0` and so on), `owner.lock` and `forebay.sock`. The first process that opens the directory owns the targets
//! and serves the others through the socket; when it ends, or is killed, the next one takes over ([`member`]). All
//! have the same [`forebay_client::Cluster`] and need not know which of them they are.
//!
//! Invariant: who opens a target holds `owner.lock`, which the kernel takes back from the dead.

mod format;
mod identity;
mod local;
mod member;
mod occupied;
mod settings;
#[cfg(test)]
mod tests;

pub use format::{FormatOptions, Formatted, Measure, format};
pub use member::{Owned, own, own_within};
pub use occupied::nothing_to_lose;
pub use settings::Settings;

pub use forebay_target::object::{CACHE, Memory};

use forebay_client::{Cluster, Patience};
use forebay_model::Result;
use forebay_node::server::MOST_CONNECTIONS;
use std::path::Path;
use std::sync::Arc;

/// How a directory is opened.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// How long to wait for a process that is just taking over, is ending, or does not answer, and for what one that was killed
    /// had asked of its devices; and who is told.
    pub patience: Patience,
}

/// What who owns the targets of a directory takes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Within {
    /// What each target may hold in memory.
    pub memory: Memory,
    /// Connections of other processes of this machine.
    pub connections: usize,
}

impl Default for Within {
    fn default() -> Within {
        Within { memory: Memory::default(), connections: MOST_CONNECTIONS }
    }
}

/// Opens the cluster in the directory `dir`: owns its targets if nobody does, and otherwise talks to who does.
pub fn open(dir: impl AsRef<Path>, options: Options) -> Result<Cluster> {
    let member = member::Member::open(dir.as_ref(), options)?;
    Ok(Cluster::over(Arc::new(member)))
}
