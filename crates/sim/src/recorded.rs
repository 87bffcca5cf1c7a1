//! Rings over several targets at their fastest: clients that have always something to record, each into a ring of its own, and then
//! read all of it; and what links and disks allow.

use crate::cluster::{Cluster, ClusterSpec};
use crate::disk::DiskSpec;
use crate::network::{Counters, Host, LinkSpec, NetworkSpec};
use crate::world::World;
use forebay_client::peer::{Block, Part, WriterLink};
use forebay_client::rings::{RING_MODE, Ring, RingWriter};
use forebay_client::stopper::Stopper;
use forebay_env::together::all;
use forebay_manager::Settings;
use forebay_model::block::{Packer, Sealed};
use forebay_model::layout::{Raid, UNIT};
use forebay_model::ring::{RingSpec, Spread};
use forebay_model::{Bytes, Error, Moment, Rate, Result, Timestamp};
use forebay_node::network::Bounds;
use forebay_wire::control::volumes::Policy;
use forebay_wire::ring::RingQuery;
use std::rc::Rc;
use std::time::Duration;

/// How long is recorded before anything is measured.
const BEFORE: Duration = Duration::from_secs(2);
/// How often a client looks for room.
const STEP: Duration = Duration::from_millis(1);
/// How long a recorder waits for its ring.
const PATIENCE: Duration = Duration::from_secs(60);
/// Of what links and disks allow, so much is promised if nothing is said: for twice as much there is memory then.
const PROMISED: f64 = 0.5;

/// What is recorded into what.
#[derive(Clone)]
pub struct Load {
    /// Targets, each with a node and a link of its own.
    pub targets: u32,
    /// Clients, each with a link and a ring of its own.
    pub clients: u32,
    /// Over how many targets each ring lies.
    pub spread: Spread,
    /// Space of each ring.
    pub capacity: Bytes,
    /// What each is promised: its targets have memory for that; as much of what links and disks allow as is usual if it is not said.
    pub guarantee: Option<Rate>,
    /// An element.
    pub element: Bytes,
    /// What passes the link of each node in each direction.
    pub link: Rate,
    /// What passes that of each client.
    pub client_link: Rate,
    /// For how long is measured.
    pub span: Duration,
    /// The disk of each target.
    pub disk: DiskSpec,
    /// The seed.
    pub seed: u64,
}

/// What came of it, of all clients together.
#[derive(Debug, Clone, PartialEq)]
pub struct Recorded {
    /// What each ring was promised.
    pub guarantee: Rate,
    /// Bytes of elements that became durable.
    pub written: Rate,
    /// What links and disks allow of that.
    pub write_limit: Rate,
    /// Bytes of elements that were read afterwards.
    pub read: Rate,
    /// What links and disks allow of that.
    pub read_limit: Rate,
    /// What the network did.
    pub network: Counters,
}

/// Has all clients record as fast as they are let, and then read what they recorded.
pub fn record(load: &Load) -> Result<Recorded> {
    let world = Rc::new(World::new(load.seed));
    let spec = ClusterSpec {
        nodes: load.targets,
        targets: 1,
        disk: load.disk.clone(),
        network: NetworkSpec::jumbo(),
        node_link: LinkSpec::gigabit().with_rate(load.link),
        client_link: LinkSpec::gigabit().with_rate(load.client_link),
        policy: Policy { raid: Raid::Zero, unit: UNIT, targets: 0 },
        bounds: Bounds::default(),
        settings: Settings::default(),
        credit: Bytes::kib(256),
        copies: false,
    };
    let cluster = Cluster::new(world.clone(), spec);
    let (write_limit, read_limit) = limits(load);
    let guarantee = load.guarantee.unwrap_or(Rate((write_limit.0 as f64 * PROMISED) as u64 / u64::from(load.clients)));
    let mut feeds = Vec::new();
    for client in 1..=u64::from(load.clients) {
        let (host, files) = cluster.client(&format!("recorder{client}"));
        let (rings, spread) = (files.rings(), load.spread);
        let spec = RingSpec { guarantee, ..RingSpec::new(format!("/ring-{client}"), load.capacity) };
        let (ring, link) = world.run(async move {
            let (ring, _) = rings.create_spread(spec, RING_MODE, spread).await?;
            let link = ring.record(client, PATIENCE).await?;
            Ok::<_, Error>((ring, link))
        })?;
        let (packer, element) = (Packer::new(client), vec![7; load.element.0 as usize]);
        let durable = (world.now(), Bytes::ZERO);
        feeds.push(Feed {
            _host: host,
            ring,
            link,
            packer,
            element,
            blocks: 0,
            bytes: 0,
            last: Timestamp::MIN,
            durable,
        });
    }
    let before = cluster.network().counters();
    // It becomes durable by the flush: from one to another is measured.
    let from = run(&world, &mut feeds, BEFORE)?;
    let to = run(&world, &mut feeds, load.span)?;
    let rates = from.iter().zip(&to).map(|((from, before), (to, then))| Rate::of(*then - *before, to.since(*from)).0);
    let written = Rate(rates.sum());
    let read = read(&world, &feeds)?;
    let network = cluster.network().counters() - before;
    Ok(Recorded { guarantee, written, write_limit, read, read_limit, network })
}

/// A source that has always something, and the ring that it fills.
struct Feed {
    _host: Host,
    ring: Ring,
    link: RingWriter,
    packer: Packer<forebay_env::Buffer>,
    element: Vec<u8>,
    blocks: u64,
    /// Bytes of elements in one block.
    bytes: u64,
    /// The time of the last element. No two have the same: what has is given target by target.
    last: Timestamp,
    /// When something became durable last, and how much is since.
    durable: (Moment, Bytes),
}

/// Has all of them record for so long, and then until something has become durable of each: when, and how much is since.
fn run(world: &World, feeds: &mut [Feed], span: Duration) -> Result<Vec<(Moment, Bytes)>> {
    let end = world.now() + span;
    let mut durable: Vec<Option<(Moment, Bytes)>> = vec![None; feeds.len()];
    while durable.iter().any(Option::is_none) {
        world.run_for(STEP);
        for (feed, durable) in feeds.iter_mut().zip(&mut durable) {
            feed.fill(world)?;
            if feed.look(world) && durable.is_none() && world.now() >= end {
                *durable = Some(feed.durable);
            }
        }
    }
    Ok(durable.into_iter().flatten().collect())
}

/// Has each read its ring, all at the same time.
fn read(world: &World, feeds: &[Feed]) -> Result<Rate> {
    let start = world.now();
    let reading = feeds.iter().map(|feed| {
        let (ring, now) = (feed.ring.clone(), world.clock().wall());
        let query = RingQuery {
            text: String::new(),
            now,
            follow: false,
            limit: None,
            gaps_only: false,
            blocks: false,
            numbered: false,
        };
        async move {
            let mut answer = ring.query(query).await?;
            loop {
                if let Part::End(summary) = answer.next().await? {
                    return Ok(summary.bytes);
                }
            }
        }
    });
    let reading: Vec<_> = reading.collect();
    let read: Vec<Result<Bytes>> = world.run(async move { all(reading).await });
    let read = read.into_iter().sum::<Result<Bytes>>()?;
    Ok(Rate::of(read, world.now().since(start)))
}

impl Feed {
    /// Fills what there is room for.
    fn fill(&mut self, world: &World) -> Result<()> {
        while let Some(buffer) = self.link.take(false, &Stopper::default())? {
            self.packer.give(buffer);
            self.last = self.last.max(world.clock().wall());
            self.bytes = 0;
            while self.packer.push(Timestamp(self.last.0 + 1), &[&self.element], &[]) {
                self.last.0 += 1;
                self.bytes += self.element.len() as u64;
            }
            let sealed = self.packer.seal().expect("an element fits a block");
            let Sealed { mut buffer, length, .. } = sealed;
            buffer.set_len(length);
            self.blocks += 1;
            self.link.send(Block { buffer, number: self.blocks, accepted: world.now() })?;
        }
        Ok(())
    }

    /// Whether more is durable than a moment ago.
    fn look(&mut self, world: &World) -> bool {
        let there = Bytes(self.link.durable().number * self.bytes);
        let is_more = there > self.durable.1;
        if is_more {
            self.durable = (world.now(), there);
        }
        is_more
    }
}

/// What links and disks allow all clients together, for writes and reads.
fn limits(load: &Load) -> (Rate, Rate) {
    let passes = |link: Rate| NetworkSpec::jumbo().passes(link);
    let node = passes(load.link).min(load.disk.rate_at(Bytes::ZERO).0 as f64);
    let clients = f64::from(load.clients) * passes(load.client_link);
    let targets = |each: u32| f64::from(load.targets.min(each * load.clients)) * node;
    // Of what goes out, so much is no parity.
    let data = f64::from(load.spread.targets) / f64::from(load.spread.components());
    let write = clients.min(targets(load.spread.components())) * data;
    (Rate(write as u64), Rate(clients.min(targets(load.spread.targets)) as u64))
}

#[cfg(test)]
mod tests;
