//! A ring over several targets at its fastest: one client that has always something to record, and what links and disks allow.

use crate::cluster::{Cluster, ClusterSpec};
use crate::disk::DiskSpec;
use crate::network::{Counters, LinkSpec, NetworkSpec};
use crate::world::World;
use forebay_client::peer::{Block, WriterLink};
use forebay_client::rings::{RING_MODE, RingWriter};
use forebay_client::stopper::Stopper;
use forebay_manager::Settings;
use forebay_model::block::{Packer, Sealed};
use forebay_model::layout::{Raid, UNIT};
use forebay_model::ring::{RingSpec, Spread};
use forebay_model::{Bytes, Rate, Result, Timestamp};
use forebay_node::network::Bounds;
use forebay_wire::control::volumes::Policy;
use std::rc::Rc;
use std::time::Duration;

/// How long is recorded before anything is measured.
const BEFORE: Duration = Duration::from_secs(2);
/// How often the client looks for room.
const STEP: Duration = Duration::from_millis(1);

/// What is recorded into what.
#[derive(Clone)]
pub struct Load {
    /// Targets, each with a node and a link of its own.
    pub targets: u32,
    /// Over how many of them the ring lies.
    pub spread: Spread,
    /// Space of the ring.
    pub capacity: Bytes,
    /// An element.
    pub element: Bytes,
    /// What passes the link of each node in each direction.
    pub link: Rate,
    /// What passes that of the client.
    pub client_link: Rate,
    /// For how long is measured.
    pub span: Duration,
    /// The disk of each target.
    pub disk: DiskSpec,
    /// The seed.
    pub seed: u64,
}

/// What came of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// Bytes of elements that became durable.
    pub written: Rate,
    /// What links and disks allow.
    pub limit: Rate,
    /// What the network did.
    pub network: Counters,
}

/// Has one client record as fast as it is let.
pub fn record(load: &Load) -> Result<Recorded> {
    let world = Rc::new(World::new(load.seed));
    let spec = ClusterSpec {
        nodes: load.targets,
        disk: load.disk.clone(),
        network: NetworkSpec::jumbo(),
        node_link: LinkSpec::gigabit().with_rate(load.link),
        client_link: LinkSpec::gigabit().with_rate(load.client_link),
        policy: Policy { raid: Raid::Zero, unit: UNIT, targets: 0 },
        bounds: Bounds::default(),
        settings: Settings::default(),
        credit: Bytes::kib(256),
    };
    let cluster = Cluster::new(world.clone(), spec);
    let (_host, files) = cluster.client("recorder");
    let (rings, spread) = (files.rings(), load.spread);
    let ring = RingSpec::new("/ring", load.capacity);
    let writer = 7;
    let mut link = world.run(async move {
        let (ring, _) = rings.create_spread(ring, RING_MODE, spread).await?;
        ring.record(writer, Duration::from_secs(60)).await
    })?;
    let before = cluster.network().counters();
    let mut feed = Feed { packer: Packer::new(writer), element: vec![7; load.element.0 as usize], blocks: 0, bytes: 0 };
    feed.run(&world, &mut link, BEFORE)?;
    let (from, start) = (feed.durable(&link), world.now());
    feed.run(&world, &mut link, load.span)?;
    let written = Rate::of(feed.durable(&link) - from, world.now().since(start));
    Ok(Recorded { written, limit: limit(load), network: cluster.network().counters() - before })
}

/// A source that has always something.
struct Feed {
    packer: Packer<forebay_env::Buffer>,
    element: Vec<u8>,
    blocks: u64,
    /// Bytes of elements in one block.
    bytes: u64,
}

impl Feed {
    fn run(&mut self, world: &World, link: &mut RingWriter, span: Duration) -> Result<()> {
        let end = world.now() + span;
        while world.now() < end {
            while let Some(buffer) = link.take(false, &Stopper::default())? {
                self.packer.give(buffer);
                let time = Timestamp(world.clock().wall().0);
                self.bytes = 0;
                while self.packer.push(time, &[&self.element], &[]) {
                    self.bytes += self.element.len() as u64;
                }
                let sealed = self.packer.seal().expect("an element fits a block");
                let Sealed { mut buffer, length, .. } = sealed;
                buffer.set_len(length);
                self.blocks += 1;
                link.send(Block { buffer, number: self.blocks, accepted: world.now() })?;
            }
            world.run_for(STEP);
        }
        Ok(())
    }

    fn durable(&self, link: &RingWriter) -> Bytes {
        Bytes(link.durable().number * self.bytes)
    }
}

/// What links and disks allow.
fn limit(load: &Load) -> Rate {
    let passes = |link: Rate| NetworkSpec::jumbo().passes(link);
    let node = passes(load.link).min(load.disk.rate_at(Bytes::ZERO).0 as f64);
    let (data, all) = (f64::from(load.spread.targets), f64::from(load.spread.components()));
    Rate((passes(load.client_link) * data / all).min(node * data) as u64)
}

#[cfg(test)]
mod tests;
