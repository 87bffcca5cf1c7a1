//! What lives are made of: how much happens in each, how large it is, and how long it takes in virtual time until what is over
//! has to be over.
//!
//! Short lives are for many seeds. Nothing is checked less in them: there are fewer machines, smaller files and fewer faults,
//! and the manager waits less long for who is gone, so that less time has to pass.

use crate::cluster::ClusterSpec;
use crate::disk::presets;
use crate::network::{LinkSpec, NetworkSpec};
use forebay_client::files::scrub::Scrubbing;
use forebay_manager::Settings;
use forebay_model::layout::Raid;
use forebay_model::{Bytes, Rate};
use forebay_node::network::Bounds;
use forebay_wire::control::volumes::Policy;
use std::time::Duration;

/// What a life is made of.
#[derive(Debug, Clone, Copy)]
pub struct Chances {
    /// Faults, or what might have been one, before everything is healed.
    pub steps: u32,
    /// Files that all clients write, and as many of which they use cells.
    pub shared: u32,
    /// Whether targets drain, one after the other, beside faults.
    pub drains: bool,
    /// Whether it is a short one.
    pub is_short: bool,
    /// Targets of each node.
    pub targets: u32,
    /// Whether the manager has copies on targets, and loses its disk beside faults.
    pub wipes: bool,
}

impl Chances {
    /// Each client has its own files.
    pub const ALONE: Chances =
        Chances { steps: 40, shared: 0, drains: false, is_short: false, targets: 1, wipes: false };
    /// Clients have files together as well.
    pub const TOGETHER: Chances = Chances { steps: 50, shared: 2, ..Chances::ALONE };
    /// Some target always drains.
    pub const DRAINING: Chances = Chances { shared: 1, drains: true, ..Chances::ALONE };
    /// Nodes have several targets: all of a node's are gone at once, or one of them.
    pub const SEVERAL: Chances = Chances { shared: 1, targets: 3, ..Chances::ALONE };
    /// A bit of everything, in little time.
    pub const SHORT: Chances = Chances { steps: 12, shared: 1, is_short: true, ..Chances::ALONE };

    pub(super) fn extent(&self) -> Extent {
        if self.is_short { Extent::SHORT } else { Extent::WHOLE }
    }
}

/// How large a life is, and how long it is waited for what.
#[derive(Debug, Clone, Copy)]
pub(super) struct Extent {
    /// Nodes at least, and how many chances there are for more.
    pub(super) nodes: (u64, u64),
    /// Clients, likewise.
    pub(super) clients: (u64, u64),
    /// How much smaller disks are than real ones.
    pub(super) scale: u64,
    /// The longest time between two faults, in milliseconds.
    pub(super) between: u64,
    /// How long capabilities count, and after which time a client is gone that does not ask for anything.
    pub(super) life: Duration,
    pub(super) client_timeout: Duration,
    /// A client's own files, at most.
    pub(super) files: usize,
    /// The largest of them.
    pub(super) largest: u64,
    /// The largest file that clients share.
    pub(super) largest_shared: u64,
    /// Whether of files that clients share any may have parity; otherwise the first has, and of the others there are two copies.
    pub(super) mixes: bool,
    /// How much each client writes to show that it makes progress.
    pub(super) round: u64,
    /// How often a file is scrubbed.
    pub(super) scrubbed_every: Duration,
    /// After this time without an error nothing of a fault is left: nodes have reported, and connections that broke have ended.
    pub(super) healed: Duration,
    /// After this time clients that died are given up, what was to be moved is, capabilities have run out, and what was removed
    /// or left behind by then is gone.
    pub(super) settled: Duration,
    /// After this time all files were scrubbed.
    pub(super) scrubbed: Duration,
}

impl Extent {
    const WHOLE: Extent = Extent {
        nodes: (4, 4),
        clients: (2, 3),
        scale: 4000,
        between: 1500,
        life: Duration::from_secs(40),
        client_timeout: Duration::from_secs(60),
        files: 5,
        largest: 320 << 10,
        largest_shared: 192 << 10,
        mixes: false,
        round: 100_000,
        scrubbed_every: Duration::from_secs(15),
        healed: Duration::from_secs(30),
        settled: Duration::from_secs(300),
        scrubbed: Duration::from_secs(120),
    };
    const SHORT: Extent = Extent {
        nodes: (4, 2),
        clients: (2, 1),
        scale: 10000,
        between: 700,
        life: Duration::from_secs(15),
        client_timeout: Duration::from_secs(25),
        files: 3,
        largest: 96 << 10,
        largest_shared: 64 << 10,
        mixes: true,
        round: 30_000,
        scrubbed_every: Duration::from_secs(25),
        healed: Duration::from_secs(15),
        settled: Duration::from_secs(60),
        scrubbed: Duration::from_secs(40),
    };

    /// How long the manager waits for things.
    pub(super) fn settings(&self) -> Settings {
        Settings {
            life: self.life,
            node_timeout: Duration::from_secs(6),
            client_timeout: self.client_timeout,
            ..Settings::default()
        }
    }

    /// How files are scrubbed: so often that a scrub is always under way.
    pub(super) fn scrubbing(&self) -> Scrubbing {
        Scrubbing { every: self.scrubbed_every, rate: Rate::mb(20) }
    }

    /// The cluster of a life.
    pub(super) fn cluster(&self, (nodes, targets): (u32, u32), settings: Settings, copies: bool) -> ClusterSpec {
        let network = NetworkSpec {
            connect_limit: Duration::from_secs(2),
            silence: Duration::from_secs(2),
            patience: Duration::from_secs(6),
            ..NetworkSpec::jumbo()
        };
        ClusterSpec {
            nodes,
            targets,
            disk: presets::ssd().scaled(self.scale),
            network,
            node_link: LinkSpec::gigabit(),
            client_link: LinkSpec::gigabit(),
            policy: Policy { raid: Raid::Five, unit: Bytes::kib(16), targets: 5 },
            bounds: Bounds {
                connections: 64,
                strangers: 16,
                memory: Bytes::mib(8),
                payloads: Bytes::mib(8),
                intake: Bytes::kib(48),
                patience: Duration::from_secs(8),
                ..Bounds::default()
            },
            settings,
            credit: Bytes::kib(128),
            copies,
        }
    }
}
