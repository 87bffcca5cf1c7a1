//! Machines, their links, and the switch between them: what happens to a segment on its way.

use super::agenda::{Agenda, Place};
use super::link::Lane;
use super::segment::{Segment, SocketId};
use super::spec::{LinkSpec, NetworkSpec};
use crate::timeline::Timeline;
use forebay_model::Rate;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// What a machine takes to talk to itself.
const LOCAL_RATE: Rate = Rate(5_000_000_000);
const LOCAL_LATENCY: u64 = 5_000;

/// The first port that is given out for port 0, and the first for those who connect.
const FIRST_FREE: u16 = 49_152;

/// Machines and what connects them.
pub(super) struct Wires {
    pub(super) hosts: Vec<Host>,
    pub(super) agenda: Agenda,
    /// From which machine nothing reaches which other one.
    pub(super) cuts: BTreeSet<(u32, u32)>,
    pub(super) timeline: Rc<Timeline>,
    /// Whose segments the switch has dropped, and who has lost some otherwise.
    pub(super) dropped: Vec<SocketId>,
    pub(super) lost: Vec<SocketId>,
    random: ChaCha8Rng,
    port_buffer: Option<u64>,
    strays: BTreeMap<u64, Segment>,
    next_stray: u64,
}

/// A machine.
pub(super) struct Host {
    pub(super) name: String,
    pub(super) link: LinkSpec,
    pub(super) up: bool,
    pub(super) uplink: Lane,
    pub(super) downlink: Lane,
    pub(super) local: Lane,
    next_port: u16,
}

impl Host {
    /// The port that is given out next.
    pub(super) fn free_port(&mut self) -> u16 {
        let port = self.next_port;
        self.next_port = port.checked_add(1).unwrap_or(FIRST_FREE);
        port
    }
}

impl Wires {
    pub(super) fn new(timeline: Rc<Timeline>, seed: u64, number: u64, spec: &NetworkSpec) -> Wires {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // Streams of their own, from the other end than those of disks.
        random.set_stream(u64::MAX - number);
        Wires {
            hosts: Vec::new(),
            agenda: Agenda::default(),
            cuts: BTreeSet::new(),
            timeline,
            dropped: Vec::new(),
            lost: Vec::new(),
            random,
            port_buffer: spec.port_buffer.map(|room| room.0),
            strays: BTreeMap::new(),
            next_stray: 0,
        }
    }

    pub(super) fn add_host(&mut self, name: &str, link: LinkSpec) -> u32 {
        self.hosts.push(Host {
            name: name.to_string(),
            link,
            up: true,
            uplink: Lane::default(),
            downlink: Lane::default(),
            local: Lane::default(),
            next_port: FIRST_FREE,
        });
        self.hosts.len() as u32 - 1
    }

    /// A machine sends a segment.
    pub(super) fn send(&mut self, now: u64, segment: Segment) {
        let from = segment.from_host;
        let host = &mut self.hosts[from as usize];
        if !host.up {
            self.lost.push(segment.from);
        } else if segment.to_host == from {
            if let Some(at) = host.local.carry(now, LOCAL_RATE, LOCAL_LATENCY, segment) {
                self.agenda.put(at, Place::Local(from));
            }
        } else if let Some(at) = host.uplink.carry(now, host.link.rate, nanos(&host.link), segment) {
            self.agenda.put(at, Place::Up(from));
        }
    }

    /// A segment reaches the switch.
    pub(super) fn switch(&mut self, now: u64, segment: Segment) {
        let Segment { from_host, to_host, .. } = segment;
        let (from, to) = (self.hosts[from_host as usize].link, self.hosts[to_host as usize].link);
        if (!self.cuts.is_empty() && self.cuts.contains(&(from_host, to_host)))
            || self.happens(from.loss)
            || self.happens(to.loss)
        {
            self.lost.push(segment.from);
            return;
        }
        for link in [from, to] {
            if self.happens(link.delayed) {
                let later = (u128::from(self.random.next_u64()) * link.delay.as_nanos()) >> 64;
                self.strays.insert(self.next_stray, segment);
                self.agenda.put(now + later as u64, Place::Stray(self.next_stray));
                self.next_stray += 1;
                return;
            }
        }
        self.enter_port(now, segment);
    }

    /// A segment that was delayed goes on to the port.
    pub(super) fn stray(&mut self, now: u64, key: u64) {
        if let Some(segment) = self.strays.remove(&key) {
            self.enter_port(now, segment);
        }
    }

    /// Nothing is under way any more.
    pub(super) fn clear(&mut self) {
        self.agenda.clear();
        self.strays.clear();
        for host in &mut self.hosts {
            (host.uplink, host.downlink, host.local) = Default::default();
        }
    }

    /// A segment comes to the port of the machine that it goes to.
    fn enter_port(&mut self, now: u64, segment: Segment) {
        let to = segment.to_host;
        let host = &mut self.hosts[to as usize];
        if let Some(room) = self.port_buffer
            && host.downlink.backlog(now, host.link.rate) + segment.size() > room
        {
            self.dropped.push(segment.from);
        } else if let Some(at) = host.downlink.carry(now, host.link.rate, nanos(&host.link), segment) {
            self.agenda.put(at, Place::Down(to));
        }
    }

    /// Whether something happens that happens to a `share`.
    fn happens(&mut self, share: f64) -> bool {
        share > 0.0 && ((self.random.next_u64() >> 11) as f64) < share * (1u64 << 53) as f64
    }
}

fn nanos(link: &LinkSpec) -> u64 {
    link.latency.as_nanos() as u64
}
