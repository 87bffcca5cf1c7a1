//! What a server takes on, so that all of it has room in what the operating system lets its process have: open files, and memory.
//!
//! Always: what is lowered is lowered before anything is opened, and said; and where not even the least has room, nothing is
//! begun. So who comes is refused by bounds of ours, in words, and not by an allocation that fails, which ends the process, or
//! for want of a descriptor, which nobody can be told.

use forebay_embedded::{CACHE, Memory, Within};
use forebay_env::real::limits::{self, MemoryLimit};
use forebay_model::{Bytes, Error, Result};
use forebay_node::network::Bounds;

/// Memory for metadata of a manager.
pub const METADATA_CACHE: Bytes = Bytes::mib(256);
/// Connections to the control plane.
const CONTROL: usize = 1024;

/// Files that a process has open beside those of its nodes: its manager, its loops, who asks how it is.
const FILES: u64 = 72;
/// Files of a node with a target, and of each further target.
const FILES_OF_NODE: u64 = 20;
const FILES_OF_TARGET: u64 = 6;
/// Files that a connection of this machine takes: one, and handles on it.
const FILES_OF_LOCAL: u64 = 3;
/// The fewest connections of a node, of the control plane, and of this machine, with which there is a use in serving.
const LEAST_CONNECTIONS: u64 = 16;
const LEAST_LOCAL: u64 = 4;

/// Memory that a process takes beside all that has a bound; a node of it; and a target.
const OWN: Bytes = Bytes::mib(40);
const OWN_OF_NODE: Bytes = Bytes::mib(12);
const OWN_OF_TARGET: Bytes = Bytes::mib(8);
/// Small reads of a target that are under way.
const SMALL_READS: Bytes = Bytes::mib(16);
/// What a query holds of what it read ahead, looks at and found.
const OF_QUERY: Bytes = Bytes::mib(10);
/// The fewest queries at once.
const LEAST_QUERIES: u64 = 2;
/// What a stranger may cost.
const OF_STRANGER: Bytes = Bytes::kib(64);

/// What a server takes on.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Taken {
    /// Each of its nodes.
    pub bounds: Bounds,
    /// Each directory with targets.
    pub within: Within,
    /// Metadata that the manager keeps in memory.
    pub metadata: Bytes,
    /// Connections to the control plane.
    pub control: usize,
}

/// What the operating system lets a process have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Allowed {
    /// Open files.
    pub files: u64,
    /// Memory, if that is limited.
    pub memory: Option<MemoryLimit>,
}

/// What is served by a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parts {
    /// Whether a manager is there.
    pub has_manager: bool,
    /// Nodes.
    pub nodes: usize,
    /// Targets of all of them.
    pub targets: usize,
}

/// A bound between the least with which it works and what was asked for.
#[derive(Clone, Copy)]
struct Span {
    least: Bytes,
    asked: Bytes,
}

impl Allowed {
    /// This process. Its limit of open files is raised as far as it may be.
    pub fn here() -> Allowed {
        Allowed { files: limits::files(), memory: limits::memory() }
    }
}

impl From<Bounds> for Taken {
    /// As much as is asked for.
    fn from(bounds: Bounds) -> Taken {
        Taken { bounds, within: Within::default(), metadata: METADATA_CACHE, control: CONTROL }
    }
}

impl Taken {
    /// What there is room for of it, and what is to be said of that. [`forebay_model::Kind::Refused`] if there is too little room
    /// for anything.
    pub fn fit(self, allowed: &Allowed, parts: Parts) -> Result<(Taken, Vec<String>)> {
        let (taken, files) = self.fit_files(allowed.files, parts)?;
        let (taken, memory) = match &allowed.memory {
            Some(limit) => taken.fit_memory(limit, parts)?,
            None => (taken, None),
        };
        Ok((taken, files.into_iter().chain(memory).collect()))
    }

    fn fit_files(mut self, files: u64, parts: Parts) -> Result<(Taken, Option<String>)> {
        let (nodes, targets) = (parts.nodes as u64, parts.targets as u64);
        let own = FILES + FILES_OF_NODE * nodes + FILES_OF_TARGET * targets.saturating_sub(nodes);
        let asked = self;
        // Who is turned away has a place as well until that is said.
        let of_node = |connections: usize, local: usize| connections as u64 * 9 / 8 + 1 + FILES_OF_LOCAL * local as u64;
        let needed = own + self.control as u64 + nodes * of_node(self.bounds.connections, self.within.connections);
        if needed <= files {
            return Ok((self, None));
        }
        let least = own + LEAST_CONNECTIONS + nodes * of_node(LEAST_CONNECTIONS as usize, LEAST_LOCAL as usize);
        if least > files {
            return Err(Error::refused(format!(
                "this process may have {files} files open, and what is served (nodes: {nodes}, targets: {targets}) takes \
                 {least} at least; raise the limit, with `ulimit -n` or LimitNOFILE= of its service"
            )));
        }
        // A quarter for the control plane, unless there are no nodes, an eighth for this machine, and half for the network.
        let room = files - own;
        let each = room / nodes.max(1);
        let control = if nodes == 0 { room } else { (room / 4).max(LEAST_CONNECTIONS) };
        let local = (each / 8 / FILES_OF_LOCAL).max(LEAST_LOCAL);
        let connections = (each / 2).max(LEAST_CONNECTIONS);
        self.control = self.control.min(control as usize);
        self.within.connections = self.within.connections.min(local as usize);
        self.take_connections(connections);
        let said = format!(
            "this process may have {files} files open, which is too few for all connections that it could take ({needed}): each \
             node takes {} at once and not {}, and the manager {} and not {}; raise the limit, with `ulimit -n` or LimitNOFILE= \
             of its service, or ask for fewer with --connections",
            self.bounds.connections, asked.bounds.connections, self.control, asked.control
        );
        Ok((self, Some(said)))
    }

    fn take_connections(&mut self, most: u64) {
        self.bounds.connections = self.bounds.connections.min(most as usize);
        self.bounds.strangers = self.bounds.strangers.min((self.bounds.connections / 4).max(1));
    }

    fn fit_memory(mut self, limit: &MemoryLimit, parts: Parts) -> Result<(Taken, Option<String>)> {
        let (nodes, targets) = (parts.nodes as u64, parts.targets as u64);
        let asked = self;
        let own = OWN + OWN_OF_NODE * nodes + OWN_OF_TARGET * targets + SMALL_READS * targets;
        let span = |least: Bytes, asked: Bytes| Span { least: least.min(asked), asked };
        let Bounds { memory, payloads, connections, queries, .. } = self.bounds;
        let memory = span(Bytes::mib(8), memory);
        let payloads = span(Bytes::mib(8), payloads);
        let strangers = span(OF_STRANGER * LEAST_CONNECTIONS * 2, OF_STRANGER * connections as u64);
        let queries = span(OF_QUERY * LEAST_QUERIES, OF_QUERY * queries as u64);
        let Memory { rows, reads, buffered, .. } = self.within.memory;
        let rows = span(Bytes::mib(8), rows);
        let ahead = span(Bytes::mib(8), CACHE);
        let reads = span(Bytes::mib(16), reads);
        let buffered = span(Bytes::mib(16), buffered);
        let metadata = span(Bytes::mib(16), self.metadata);
        // What is read and what is written, with answers without a payload, of each node; reads under way, and lent.
        let all = [
            (memory, 3 * nodes),
            (payloads, nodes),
            (strangers, nodes),
            (queries, nodes),
            (rows, targets),
            (ahead, targets),
            (reads, targets),
            (buffered, targets),
            (metadata, u64::from(parts.has_manager)),
        ];
        let sum = |of: fn(&Span) -> Bytes| own + all.iter().map(|(span, count)| of(span) * *count).sum();
        let (least, needed) = (sum(|span| span.least), sum(|span| span.asked));
        // What allocators keep, and what lies between what they gave; more, where what they only reserve counts.
        let worth = |room: Bytes| if limit.is_of_addresses { room * 2 } else { room * 8 / 7 };
        let room = if limit.is_of_addresses { limit.most / 2 } else { limit.most / 8 * 7 };
        let (most, of) = (limit.most, &limit.of);
        if needed <= room {
            // What is chosen for a target beyond the usual has room in what is left.
            self.within.memory.ahead = CACHE + (room - needed) / targets.max(1);
            return Ok((self, None));
        }
        if least > room {
            return Err(Error::refused(format!(
                "this process may have {most} of memory ({of}), and what is served (nodes: {nodes}, targets: {targets}) takes \
                 {} at least; raise that limit",
                worth(least).align_up(Bytes::mib(1))
            )));
        }
        let (part, whole) = (u128::from((room - least).0), u128::from((needed - least).0).max(1));
        let fitted = |span: Span| span.least + Bytes((u128::from((span.asked - span.least).0) * part / whole) as u64);
        self.bounds.memory = fitted(memory);
        self.bounds.payloads = fitted(payloads);
        self.take_connections((fitted(strangers) / OF_STRANGER).max(1));
        self.bounds.queries = (fitted(queries) / OF_QUERY) as usize;
        self.within.memory =
            Memory { rows: fitted(rows), ahead: fitted(ahead), reads: fitted(reads), buffered: fitted(buffered) };
        self.metadata = fitted(metadata);
        let mib = |bytes: Bytes| bytes.align_up(Bytes::mib(1));
        let said = format!(
            "this process may have {most} of memory ({of}), and all that it could take is {}: each node has {} for what is written \
             and as much for what is read, and not {}; each target {} for what it reads ahead and {} for its map; raise that limit, \
             or ask for less with --memory and --connections",
            worth(needed).align_up(Bytes::mib(1)),
            mib(self.bounds.memory),
            asked.bounds.memory,
            mib(self.within.memory.ahead),
            mib(self.within.memory.rows)
        );
        Ok((self, Some(said)))
    }
}

#[cfg(test)]
mod tests;
