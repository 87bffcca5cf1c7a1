//! Striped files at their fastest: clients that each stream a file of their own over a whole cluster, and what links and disks
//! allow beside it. (Panasas ActiveScale, 2004, measured its shelves like this.)

use crate::cluster::{Cluster, ClusterSpec};
use crate::disk::DiskSpec;
use crate::network::{Counters, LinkSpec, NetworkSpec};
use crate::world::World;
use bytes::Bytes as Slice;
use forebay_client::file::options::Options;
use forebay_client::files::Files;
use forebay_env::together::all;
use forebay_manager::Settings;
use forebay_model::layout::{Raid, Striping};
use forebay_model::{Bytes, Rate};
use forebay_node::network::Bounds;
use forebay_wire::control::volumes::Policy;
use std::rc::Rc;

/// What is streamed over what.
#[derive(Clone)]
pub struct Load {
    /// Targets, each with a node and a link of its own.
    pub targets: u32,
    /// Clients, each with a link and a file of its own.
    pub clients: u32,
    /// What is kept beside the bytes.
    pub raid: Raid,
    /// Targets of a file; all, if it is 0.
    pub width: u32,
    /// A stripe unit.
    pub unit: Bytes,
    /// Bytes of each file.
    pub size: Bytes,
    /// What a client writes or reads at once.
    pub request: Bytes,
    /// What passes each link in each direction.
    pub link: Rate,
    /// What is in flight to a client at most.
    pub credit: Bytes,
    /// What is in flight to a node of what is written at most.
    pub intake: Bytes,
    /// The network.
    pub network: NetworkSpec,
    /// The disk of each target.
    pub disk: DiskSpec,
    /// The seed.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Streamed {
    /// How the files were striped.
    pub striping: Striping,
    /// Of all clients together.
    pub written: Rate,
    /// What links and disks allow.
    pub write_limit: Rate,
    /// Of all clients together.
    pub read: Rate,
    /// What links and disks allow.
    pub read_limit: Rate,
    /// What the network did while files were written, and while they were read.
    pub network: (Counters, Counters),
}

/// Memory of a node for large payloads: there may be a thousand nodes in one memory.
const PAYLOADS: Bytes = Bytes::mib(4);

/// Has all files written, then all of them read, by clients that know nothing of them.
pub fn stream(load: &Load) -> Streamed {
    let world = Rc::new(World::new(load.seed));
    let link = LinkSpec::gigabit().with_rate(load.link);
    let cluster = Cluster::new(
        world.clone(),
        ClusterSpec {
            nodes: load.targets,
            targets: 1,
            disk: load.disk.clone(),
            network: load.network,
            node_link: link,
            client_link: link,
            policy: Policy { raid: load.raid, unit: load.unit, targets: load.width },
            bounds: Bounds { intake: load.intake, payloads: PAYLOADS, ..Bounds::default() },
            settings: Settings::default(),
            credit: load.credit,
            copies: false,
        },
    );
    let (written, first) = together(load, &cluster, "writer", true);
    let (read, second) = together(load, &cluster, "reader", false);
    let (_host, files) = cluster.client("looker");
    let striping = world.run(async move {
        let file = files.open("/file.0", Options::default()).await.expect("it was written");
        file.striping()
    });
    let (write_limit, read_limit) = limits(load, striping);
    Streamed { striping, written, write_limit, read, read_limit, network: (first, second) }
}

/// All clients at once: how fast they were together, and what the network did.
fn together(load: &Load, cluster: &Cluster, name: &str, write: bool) -> (Rate, Counters) {
    let clients: Vec<_> = (0..load.clients).map(|n| cluster.client(&format!("{name}{n}"))).collect();
    let (world, before) = (cluster.world(), cluster.network().counters());
    let start = world.now();
    let spawner = world.spawner();
    let tasks: Vec<_> = clients
        .iter()
        .enumerate()
        .map(|(number, (_, files))| {
            let (files, load) = (files.clone(), load.clone());
            spawner.spawn(async move { one(&files, &load, number, write).await })
        })
        .collect();
    world.run(all(tasks));
    let bytes = Bytes(load.size.0 * u64::from(load.clients));
    (Rate::of(bytes, world.now().since(start)), cluster.network().counters() - before)
}

async fn one(files: &Files, load: &Load, number: usize, write: bool) {
    let path = format!("/file.{number}");
    let file = match write {
        true => files.create(&path, 0o644, None, Options::default()).await.expect("a file"),
        false => files.open(&path, Options::default()).await.expect("it was written"),
    };
    let pattern: Vec<u8> = (0..load.request.0).map(|n| (n.wrapping_mul(0x9e37_79b9) >> 11) as u8).collect();
    let pattern = Slice::from(pattern);
    let mut at = Bytes::ZERO;
    while at < load.size {
        let length = load.request.min(load.size - at);
        match write {
            true => file.write_at(at, pattern.slice(..length.0 as usize)).await.expect("it is taken"),
            false => {
                let bytes = file.read_at(at, length).await.expect("it is read");
                assert!(bytes[..] == pattern[..length.0 as usize], "{path} at {at}");
            }
        }
        at += length;
    }
    file.close().await.expect("everything is durable");
}

/// What links and disks allow all clients together, for writes and reads.
fn limits(load: &Load, striping: Striping) -> (Rate, Rate) {
    let link = load.network.passes(load.link);
    let node = link.min(load.disk.rate_at(Bytes::ZERO).0 as f64);
    let targets = f64::from(load.targets.min(striping.components() * load.clients));
    let clients = f64::from(load.clients);
    // Of what goes out, so much is bytes of files.
    let data = f64::from(striping.data_units()) / f64::from(striping.width() * striping.raid().copies());
    let write = (clients * link).min(targets * node) * data;
    let read = (clients * link).min(targets * node);
    (Rate(write as u64), Rate(read as u64))
}

#[cfg(test)]
mod tests;
