//! All that is in a network: machines and what connects them, connections, doors; and what happens next.

use super::agenda::Place;
use super::counters::Counters;
use super::doors::Listening;
use super::segment::{Purpose, Segment, SocketId};
use super::sender::NEVER;
use super::socket::{Became, Ends, Outbox, Phase, Socket};
use super::spec::NetworkSpec;
use super::stream::Shared;
use super::wires::{Host, Wires};
use crate::timeline::Timeline;
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::rc::Rc;

/// The whole network.
pub(super) struct State {
    pub(super) spec: NetworkSpec,
    pub(super) wires: Wires,
    pub(super) out: Outbox,
    sockets: Vec<Slot>,
    free: Vec<u32>,
    pub(super) doors: BTreeMap<(u32, u16), Listening>,
    pub(super) next_door: u64,
    /// What connections did that are no more.
    past: Counters,
}

struct Slot {
    generation: u32,
    socket: Option<Box<Socket>>,
}

impl State {
    pub(super) fn new(timeline: Rc<Timeline>, seed: u64, number: u64, spec: NetworkSpec) -> State {
        State {
            spec,
            wires: Wires::new(timeline, seed, number, &spec),
            out: Outbox::default(),
            sockets: Vec::new(),
            free: Vec::new(),
            doors: BTreeMap::new(),
            next_door: 0,
            past: Counters::default(),
        }
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
        let own_port = self.host(host).free_port();
        let (outgoing, incoming) = (Shared::default(), Shared::default());
        let peer = SocketId::NOBODY;
        let id = self.place(now, |id| Ends { id, host, peer_host, peer, port, own_port, outgoing, incoming });
        self.with(now, id, |socket, _, out| {
            socket.greet(now, now, out);
            Became::Same
        });
        id
    }

    pub(super) fn place(&mut self, now: u64, ends: impl FnOnce(SocketId) -> Ends) -> SocketId {
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
        let was_broken = socket.is_broken();
        let became = deal(socket, spec, out);
        let breaks = (socket.is_broken() && !was_broken && became != Became::Gone).then_some(socket.peer);
        let due = socket.due();
        if due < socket.timer && became != Became::Gone {
            socket.timer = due;
            wires.agenda.put(due, Place::Timer(id));
        }
        for segment in out.segments.drain(..) {
            wires.send(now, segment);
        }
        if became == Became::Gone {
            self.remove(now, id);
        }
        if let Some(peer) = breaks {
            self.watch(now, peer);
        }
        self.blame();
        became
    }

    /// Forgets one end, without a word.
    pub(super) fn remove(&mut self, now: u64, id: SocketId) {
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
        self.watch(now, socket.peer);
    }

    /// Sees to it that an end, if it is there, notices that its peer is gone or broken, also if what says so was lost.
    fn watch(&mut self, now: u64, id: SocketId) {
        self.with(now, id, |socket, spec, _| {
            socket.watch(now, spec);
            Became::Same
        });
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
                self.wires.stray(now, key);
                self.blame();
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

    /// There is nobody for `segment`.
    pub(super) fn refuse(&mut self, now: u64, segment: &Segment) {
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
        !cut && wires.hosts[peer_host as usize].up && self.socket(peer).is_some_and(|peer| !peer.is_broken())
    }

    // Faults.

    /// Sees to it that those notice whose path is broken.
    pub(super) fn look_after(&mut self, now: u64) {
        let open: Vec<_> = self.sockets().map(|s| (s.id, s.host, s.peer_host, s.peer)).collect();
        for (id, host, peer_host, peer) in open {
            if !self.is_whole(host, peer_host, peer) {
                self.watch(now, id);
            }
        }
    }

    /// A machine is gone, and nothing that it had is there any more.
    pub(super) fn crash(&mut self, now: u64, host: u32) {
        self.host(host).up = false;
        let gone: Vec<SocketId> = self.sockets().filter(|socket| socket.host == host).map(|socket| socket.id).collect();
        for id in gone {
            self.remove(now, id);
        }
        for place in self.doors_of(host) {
            self.out.wakes.extend(self.doors.remove(&place).into_iter().flat_map(|door| door.acceptors));
        }
        self.look_after(now);
    }

    /// The processes of a machine are gone: its kernel closes what they had open.
    pub(super) fn kill(&mut self, now: u64, host: u32) {
        for (host, port) in self.doors_of(host) {
            if let Some(number) = self.doors.get(&(host, port)).map(|door| door.number) {
                self.close_door(now, host, port, number);
            }
        }
        let open: Vec<_> = self.sockets().filter(|socket| socket.host == host).map(|s| (s.id, s.phase)).collect();
        for (id, phase) in open {
            match phase {
                Phase::Asking => self.remove(now, id),
                _ => drop(self.with(now, id, |socket, _, out| socket.close_both(now, out))),
            }
        }
    }

    fn doors_of(&self, host: u32) -> Vec<(u32, u16)> {
        self.doors.range((host, 0)..=(host, u16::MAX)).map(|(place, _)| *place).collect()
    }

    /// Everything is gone at once: connections, doors, and what is under way.
    pub(super) fn clear(&mut self, now: u64) {
        let all: Vec<SocketId> = self.sockets().map(|socket| socket.id).collect();
        for id in all {
            self.remove(now, id);
        }
        for door in std::mem::take(&mut self.doors).into_values() {
            self.out.wakes.extend(door.acceptors);
        }
        self.wires.clear();
    }
}
