//! All that is in a network: machines, links, ports, connections, and what happens to a segment on its way.

use super::agenda::{Agenda, Place};
use super::counters::Counters;
use super::link::Lane;
use super::segment::{Purpose, Segment, SocketId};
use super::sender::NEVER;
use super::socket::{Became, Ends, Outbox, Phase, Socket};
use super::spec::{LinkSpec, NetworkSpec};
use super::stream::Shared;
use crate::timeline::Timeline;
use forebay_model::Rate;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::ErrorKind;
use std::rc::Rc;
use std::task::Waker;

/// Connections of a door that nobody has accepted yet.
const BACKLOG: usize = 1024;
/// The first port that is given out for port 0, and the first for those who connect.
const FIRST_FREE: u16 = 49_152;
/// What a machine takes to talk to itself.
const LOCAL_RATE: Rate = Rate(5_000_000_000);
const LOCAL_LATENCY: u64 = 5_000;

/// The whole network.
pub(super) struct State {
    pub(super) spec: NetworkSpec,
    pub(super) wires: Wires,
    pub(super) out: Outbox,
    sockets: Vec<Slot>,
    free: Vec<u32>,
    doors: BTreeMap<(u32, u16), Listening>,
    next_door: u64,
    /// What connections did that are no more.
    past: Counters,
}

/// Machines and what connects them.
pub(super) struct Wires {
    pub(super) hosts: Vec<Host>,
    pub(super) agenda: Agenda,
    /// From which machine nothing reaches which other one.
    pub(super) cuts: BTreeSet<(u32, u32)>,
    timeline: Rc<Timeline>,
    random: ChaCha8Rng,
    port_buffer: Option<u64>,
    strays: BTreeMap<u64, Segment>,
    next_stray: u64,
    /// Whose segments the switch has dropped, and who has lost some otherwise.
    dropped: Vec<SocketId>,
    lost: Vec<SocketId>,
}

/// A machine.
pub(super) struct Host {
    pub(super) name: String,
    pub(super) link: LinkSpec,
    pub(super) up: bool,
    uplink: Lane,
    downlink: Lane,
    local: Lane,
    next_port: u16,
}

struct Slot {
    generation: u32,
    socket: Option<Box<Socket>>,
}

/// A port that is listened at.
struct Listening {
    /// Tells it from one at the same port before or after it.
    number: u64,
    queue: VecDeque<SocketId>,
    /// Connections that are not open yet.
    asked: usize,
    acceptors: Vec<Waker>,
}

impl State {
    pub(super) fn new(timeline: Rc<Timeline>, seed: u64, number: u64, spec: NetworkSpec) -> State {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        // Streams of their own, from the other end than those of disks.
        random.set_stream(u64::MAX - number);
        State {
            spec,
            wires: Wires {
                hosts: Vec::new(),
                agenda: Agenda::default(),
                cuts: BTreeSet::new(),
                timeline,
                random,
                port_buffer: spec.port_buffer.map(|room| room.0),
                strays: BTreeMap::new(),
                next_stray: 0,
                dropped: Vec::new(),
                lost: Vec::new(),
            },
            out: Outbox::default(),
            sockets: Vec::new(),
            free: Vec::new(),
            doors: BTreeMap::new(),
            next_door: 0,
            past: Counters::default(),
        }
    }

    pub(super) fn add_host(&mut self, name: &str, link: LinkSpec) -> u32 {
        self.wires.hosts.push(Host {
            name: name.to_string(),
            link,
            up: true,
            uplink: Lane::default(),
            downlink: Lane::default(),
            local: Lane::default(),
            next_port: FIRST_FREE,
        });
        self.wires.hosts.len() as u32 - 1
    }

    pub(super) fn host_named(&self, name: &str) -> Option<u32> {
        self.wires.hosts.iter().position(|host| host.name == name).map(|index| index as u32)
    }

    pub(super) fn host(&mut self, host: u32) -> &mut Host {
        &mut self.wires.hosts[host as usize]
    }

    /// The end of that name, if it is still there.
    pub(super) fn socket(&mut self, id: SocketId) -> Option<&mut Socket> {
        let slot = self.sockets.get_mut(id.index as usize)?;
        if slot.generation == id.generation { slot.socket.as_deref_mut() } else { None }
    }

    /// All ends.
    pub(super) fn sockets(&self) -> impl Iterator<Item = &Socket> {
        self.sockets.iter().filter_map(|slot| slot.socket.as_deref())
    }

    pub(super) fn counters(&self) -> Counters {
        let mut all = self.past;
        for socket in self.sockets() {
            all += socket.counters;
        }
        all
    }

    // Connections.

    /// Asks `peer_host` for a connection to `port`.
    pub(super) fn connect(&mut self, now: u64, host: u32, peer_host: u32, port: u16) -> SocketId {
        let own_port = self.free_port(host);
        let (outgoing, incoming) = (Shared::default(), Shared::default());
        let peer = SocketId::NOBODY;
        let id = self.place(now, |id| Ends { id, host, peer_host, peer, port, own_port, outgoing, incoming });
        self.with(now, id, |socket, _, out| {
            socket.greet(now, now, out);
            Became::Same
        });
        id
    }

    fn free_port(&mut self, host: u32) -> u16 {
        let host = self.host(host);
        let port = host.next_port;
        host.next_port = port.checked_add(1).unwrap_or(FIRST_FREE);
        port
    }

    fn place(&mut self, now: u64, ends: impl FnOnce(SocketId) -> Ends) -> SocketId {
        let index = self.free.pop().unwrap_or_else(|| {
            self.sockets.push(Slot { generation: 0, socket: None });
            self.sockets.len() as u32 - 1
        });
        let slot = &mut self.sockets[index as usize];
        let id = SocketId { index, generation: slot.generation };
        slot.socket = Some(Box::new(Socket::new(now, ends(id), &self.spec)));
        id
    }

    /// Lets `deal` have its way with one end, and sees to what follows from it.
    pub(super) fn with(
        &mut self,
        now: u64,
        id: SocketId,
        deal: impl FnOnce(&mut Socket, &NetworkSpec, &mut Outbox) -> Became,
    ) -> Became {
        let State { sockets, out, spec, wires, .. } = self;
        let Some(slot) = sockets.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation) else {
            return Became::Gone;
        };
        let Some(socket) = slot.socket.as_deref_mut() else { return Became::Gone };
        let became = deal(socket, spec, out);
        let due = socket.due();
        if due < socket.timer && became != Became::Gone {
            socket.timer = due;
            wires.agenda.put(due, Place::Timer(id));
        }
        for segment in out.segments.drain(..) {
            wires.send(now, segment);
        }
        if became == Became::Gone {
            self.remove(id);
        }
        self.blame();
        became
    }

    /// Forgets one end, without a word.
    pub(super) fn remove(&mut self, id: SocketId) {
        let Some(slot) = self.sockets.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation) else {
            return;
        };
        let Some(mut socket) = slot.socket.take() else { return };
        slot.generation += 1;
        self.free.push(id.index);
        self.past += socket.counters;
        if socket.phase == Phase::Asked
            && let Some(door) = self.doors.get_mut(&(socket.host, socket.port))
        {
            door.asked = door.asked.saturating_sub(1);
        }
        socket.fail(ErrorKind::ConnectionReset, &mut self.out);
    }

    /// Counts what was dropped and lost where it belongs.
    fn blame(&mut self) {
        while let Some(id) = self.wires.dropped.pop() {
            match self.socket(id) {
                Some(socket) => socket.counters.drops += 1,
                None => self.past.drops += 1,
            }
        }
        while let Some(id) = self.wires.lost.pop() {
            match self.socket(id) {
                Some(socket) => socket.counters.lost += 1,
                None => self.past.lost += 1,
            }
        }
    }

    // Doors.

    /// Listens at `port` of a machine, any free one if it is 0. The port and the number of the door, unless it is taken.
    pub(super) fn listen(&mut self, host: u32, port: u16) -> Option<(u16, u64)> {
        let mut port = port;
        if port == 0 {
            port = self.free_port(host);
            let first = port;
            while self.doors.contains_key(&(host, port)) {
                port = self.free_port(host);
                if port == first {
                    return None;
                }
            }
        } else if self.doors.contains_key(&(host, port)) {
            return None;
        }
        let number = self.next_door;
        self.next_door += 1;
        let door = Listening { number, queue: VecDeque::new(), asked: 0, acceptors: Vec::new() };
        self.doors.insert((host, port), door);
        Some((port, number))
    }

    /// The next connection of a door, if one has come; `None` if there is no such door any more.
    pub(super) fn accept(&mut self, host: u32, port: u16, number: u64, waker: &Waker) -> Option<Option<SocketId>> {
        let door = self.doors.get_mut(&(host, port)).filter(|door| door.number == number)?;
        if let Some(id) = door.queue.pop_front() {
            return Some(Some(id));
        }
        if !door.acceptors.iter().any(|kept| kept.will_wake(waker)) {
            door.acceptors.push(waker.clone());
        }
        Some(None)
    }

    /// Closes a door. Connections that nobody accepted end.
    pub(super) fn close_door(&mut self, now: u64, host: u32, port: u16, number: u64) {
        if self.doors.get(&(host, port)).is_none_or(|door| door.number != number) {
            return;
        }
        let Some(door) = self.doors.remove(&(host, port)) else { return };
        self.out.wakes.extend(door.acceptors);
        for id in door.queue {
            self.with(now, id, |socket, _, out| {
                socket.reset(now, out);
                Became::Gone
            });
        }
    }

    // What happens.

    /// Lets the next event happen, if it is due. Whether one was.
    pub(super) fn step(&mut self, now: u64) -> bool {
        if self.wires.agenda.next().is_none_or(|at| at > now) {
            return false;
        }
        let hosts = &self.wires.hosts;
        let taken = self.wires.agenda.take(|place| match place {
            Place::Up(host) => hosts[host as usize].uplink.following(),
            Place::Down(host) => hosts[host as usize].downlink.following(),
            Place::Local(host) => hosts[host as usize].local.following(),
            Place::Stray(_) | Place::Timer(_) => None,
        });
        let Some((at, place)) = taken else { return false };
        match place {
            Place::Up(host) => {
                if let Some(segment) = self.host(host).uplink.arrived() {
                    self.wires.switch(now, segment);
                    self.blame();
                }
            }
            Place::Stray(key) => {
                if let Some(segment) = self.wires.strays.remove(&key) {
                    self.wires.enter_port(now, segment);
                    self.blame();
                }
            }
            Place::Down(host) => {
                if let Some(segment) = self.host(host).downlink.arrived() {
                    self.arrive(now, segment);
                }
            }
            Place::Local(host) => {
                if let Some(segment) = self.host(host).local.arrived() {
                    self.arrive(now, segment);
                }
            }
            Place::Timer(id) => self.time(now, at, id),
        }
        true
    }

    fn arrive(&mut self, now: u64, segment: Segment) {
        if !self.host(segment.to_host).up {
            self.wires.lost.push(segment.from);
            return self.blame();
        }
        let Segment { from, to, .. } = segment;
        let names = |id: SocketId| u64::from(id.index) << 32 | u64::from(id.generation);
        self.wires.timeline.note(&[now, names(from), names(to), segment.sequence, u64::from(segment.length)]);
        if let Purpose::Open(port) = segment.purpose {
            return self.asked(now, port, &segment);
        }
        if self.socket(to).is_none() {
            return self.refuse(now, &segment);
        }
        let became = self.with(now, to, |socket, spec, out| socket.arrive(now, &segment, spec, out));
        if became == Became::Opened {
            self.opened(now, to);
        }
    }

    /// A connection is asked for.
    fn asked(&mut self, now: u64, port: u16, segment: &Segment) {
        let Segment { from, to_host: host, from_host: peer_host, .. } = *segment;
        // Who asked may have given up since.
        let Some(asking) = self.socket(from) else { return };
        let (outgoing, incoming, own_port) = (asking.incoming.clone(), asking.outgoing.clone(), asking.own_port);
        let answered = asking.answered;
        if self.socket(answered).is_some() {
            // It is asked again because the answer takes long, or was lost.
            self.with(now, answered, |socket, spec, out| socket.arrive(now, segment, spec, out));
            return;
        }
        let Some(door) = self.doors.get_mut(&(host, port)) else { return self.refuse(now, segment) };
        if door.queue.len() + door.asked >= BACKLOG {
            return;
        }
        door.asked += 1;
        let id = self.place(now, |id| Ends { id, host, peer_host, peer: from, port, own_port, outgoing, incoming });
        if let Some(asking) = self.socket(from) {
            asking.answered = id;
        }
        self.with(now, id, |socket, _, out| {
            socket.greet(now, segment.sent, out);
            Became::Same
        });
    }

    /// A connection that was asked for is open.
    fn opened(&mut self, now: u64, id: SocketId) {
        let Some((host, port)) = self.socket(id).map(|socket| (socket.host, socket.port)) else { return };
        match self.doors.get_mut(&(host, port)) {
            Some(door) => {
                door.asked = door.asked.saturating_sub(1);
                door.queue.push_back(id);
                self.out.wakes.append(&mut door.acceptors);
            }
            None => {
                self.with(now, id, |socket, _, out| {
                    socket.reset(now, out);
                    Became::Gone
                });
            }
        }
    }

    /// There is nobody for `segment`.
    fn refuse(&mut self, now: u64, segment: &Segment) {
        if segment.purpose == Purpose::Reset {
            return;
        }
        let reset = Segment {
            from_host: segment.to_host,
            to_host: segment.from_host,
            from: segment.to,
            to: segment.from,
            purpose: Purpose::Reset,
            length: 0,
            ..*segment
        };
        self.past.segments += 1;
        self.wires.send(now, reset);
        self.blame();
    }

    fn time(&mut self, now: u64, at: u64, id: SocketId) {
        let Some(socket) = self.socket(id).filter(|socket| socket.timer == at) else { return };
        socket.timer = NEVER;
        let (host, peer_host, peer) = (socket.host, socket.peer_host, socket.peer);
        let whole = self.is_whole(host, peer_host, peer);
        self.with(now, id, |socket, spec, out| socket.time(now, spec, whole, out));
    }

    /// Whether what one end sends reaches the other one, which is there, and comes back.
    fn is_whole(&mut self, host: u32, peer_host: u32, peer: SocketId) -> bool {
        let wires = &self.wires;
        let cut = wires.cuts.contains(&(host, peer_host)) || wires.cuts.contains(&(peer_host, host));
        !cut && wires.hosts[peer_host as usize].up && self.socket(peer).is_some()
    }

    // Faults.

    /// Sees to it that those notice whose path is broken.
    pub(super) fn look_after(&mut self, now: u64) {
        let open: Vec<_> = self.sockets().map(|s| (s.id, s.host, s.peer_host, s.peer)).collect();
        for (id, host, peer_host, peer) in open {
            if !self.is_whole(host, peer_host, peer) {
                self.with(now, id, |socket, spec, _| {
                    socket.watch(now, spec);
                    Became::Same
                });
            }
        }
    }

    /// A machine is gone, and nothing that it had is there any more.
    pub(super) fn crash(&mut self, now: u64, host: u32) {
        self.host(host).up = false;
        let gone: Vec<SocketId> = self.sockets().filter(|socket| socket.host == host).map(|socket| socket.id).collect();
        for id in gone {
            self.remove(id);
        }
        let doors: Vec<(u32, u16)> = self.doors.range((host, 0)..=(host, u16::MAX)).map(|(place, _)| *place).collect();
        for place in doors {
            self.out.wakes.extend(self.doors.remove(&place).into_iter().flat_map(|door| door.acceptors));
        }
        self.look_after(now);
    }

    /// Everything is gone at once: connections, doors, and what is under way.
    pub(super) fn clear(&mut self) {
        let all: Vec<SocketId> = self.sockets().map(|socket| socket.id).collect();
        for id in all {
            self.remove(id);
        }
        for door in std::mem::take(&mut self.doors).into_values() {
            self.out.wakes.extend(door.acceptors);
        }
        self.wires.agenda.clear();
        self.wires.strays.clear();
        for host in &mut self.wires.hosts {
            (host.uplink, host.downlink, host.local) = Default::default();
        }
    }
}

impl Wires {
    /// A machine sends a segment.
    fn send(&mut self, now: u64, segment: Segment) {
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
    fn switch(&mut self, now: u64, segment: Segment) {
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
