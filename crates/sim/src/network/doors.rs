//! Ports that are listened at, and connections on their way to whoever accepts them.

use super::segment::{Segment, SocketId};
use super::socket::{Became, Ends};
use super::state::State;
use std::collections::VecDeque;
use std::task::Waker;

/// Connections of a door that nobody has accepted yet.
const BACKLOG: usize = 1024;

/// A port that is listened at.
pub(super) struct Listening {
    /// Tells it from one at the same port before or after it.
    pub(super) number: u64,
    pub(super) queue: VecDeque<SocketId>,
    /// Connections that are not open yet.
    pub(super) asked: usize,
    pub(super) acceptors: Vec<Waker>,
}

impl State {
    /// Listens at `port` of a machine, any free one if it is 0. The port and the number of the door, unless it is taken.
    pub(super) fn listen(&mut self, host: u32, port: u16) -> Option<(u16, u64)> {
        let mut port = port;
        if port == 0 {
            port = self.host(host).free_port();
            let first = port;
            while self.doors.contains_key(&(host, port)) {
                port = self.host(host).free_port();
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
        door.queue.into_iter().for_each(|id| self.shut(now, id));
    }

    /// Ends a connection that nobody will accept.
    fn shut(&mut self, now: u64, id: SocketId) {
        self.with(now, id, |socket, _, out| {
            socket.reset(now, out);
            Became::Gone
        });
    }

    /// A connection is asked for.
    pub(super) fn asked(&mut self, now: u64, port: u16, segment: &Segment) {
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
    pub(super) fn opened(&mut self, now: u64, id: SocketId) {
        let Some((host, port)) = self.socket(id).map(|socket| (socket.host, socket.port)) else { return };
        match self.doors.get_mut(&(host, port)) {
            Some(door) => {
                door.asked = door.asked.saturating_sub(1);
                door.queue.push_back(id);
                self.out.wakes.append(&mut door.acceptors);
            }
            None => self.shut(now, id),
        }
    }
}
