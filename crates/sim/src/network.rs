//! A simulated network: machines, each on a link of its own to one switch, and connections between them that behave like
//! TCP, segment by segment, in virtual time.
//!
//! A segment leaves its machine after those before it, takes its time to the switch, and waits there at the port of the machine
//! that it goes to, in a buffer that drops what does not fit. Nothing is dropped on the way out of a machine: a kernel holds
//! back what its sockets would send (Linux: TCP small queues), so what waits there is bounded by their windows. Linux mostly
//! lets connections take turns there (`fq_codel`); here they go in the order in which they send. Connections start slowly,
//! halve what they send when something is lost, and wait for a time-out when too much is: so many senders to one machine
//! collapse as real ones do. Faults are injected by name: links that are slow, lossy or jittery, cuts in one or both
//! directions, machines that crash, and processes that are killed.
//!
//! Chance is a stream of the world's seed, and every segment that arrives is in its trace.

mod agenda;
mod counters;
mod door;
mod doors;
mod link;
mod receiver;
mod rtt;
mod segment;
mod sender;
mod socket;
mod spec;
mod state;
mod stream;
mod wires;

pub use counters::Counters;
pub use spec::{LinkSpec, NetworkSpec};

use crate::timeline::{Handler, Timeline};
use door::SimFabric;
use forebay_env::fabric::Fabric;
use forebay_env::{Clock, NetworkEnv, Random, Spawner};
use segment::SocketId;
use socket::{Became, Outbox, Socket};
use state::State;
use std::cell::RefCell;
use std::rc::Rc;

/// A network in a simulated world. Clones are handles on one network.
#[derive(Clone)]
pub struct Network {
    inner: Rc<Inner>,
}

/// A machine in a network. Clones are handles on one machine.
#[derive(Clone)]
pub struct Host {
    inner: Rc<Inner>,
    index: u32,
    /// What starts its tasks, apart from those of other machines.
    spawner: Spawner,
}

/// What one end of a connection has sent so far, and to whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    /// The machine of this end.
    pub from: String,
    /// The machine of the other one.
    pub to: String,
    /// What this end has done.
    pub counters: Counters,
}

/// Where the machines of a network get what is not of the network.
pub(crate) struct Surroundings {
    pub(crate) clock: Rc<dyn Clock>,
    pub(crate) random: Rc<dyn Random>,
    pub(crate) spawner: Spawner,
}

struct Inner {
    timeline: Rc<Timeline>,
    surroundings: Surroundings,
    state: RefCell<State>,
    /// When the timeline will call, the latest first.
    calls: RefCell<Vec<u64>>,
}

impl Network {
    pub(crate) fn new(
        timeline: Rc<Timeline>,
        seed: u64,
        number: u64,
        spec: NetworkSpec,
        surroundings: Surroundings,
    ) -> Network {
        spec.check();
        let state = RefCell::new(State::new(timeline.clone(), seed, number, spec));
        Network { inner: Rc::new(Inner { timeline, surroundings, state, calls: RefCell::default() }) }
    }

    /// A new machine, by a name that no other one has.
    pub fn host(&self, name: &str, link: LinkSpec) -> Host {
        link.check();
        let fits = !name.is_empty() && !name.contains(':');
        assert!(fits, "'{name}' is no name of a machine");
        let index = self.inner.enter(|state, _| {
            assert!(state.host_named(name).is_none(), "there are two machines named {name}");
            state.wires.add_host(name, link)
        });
        Host { inner: self.inner.clone(), index, spawner: self.inner.surroundings.spawner.apart() }
    }

    /// From now on nothing that `from` sends reaches `to`; what is on its way may.
    pub fn cut(&self, from: &Host, to: &Host) {
        self.inner.enter(|state, now| {
            state.wires.cuts.insert((from.index, to.index));
            state.look_after(now);
        });
    }

    /// From now on no machine of `some` and no machine of `others` reach one another.
    pub fn partition(&self, some: &[&Host], others: &[&Host]) {
        self.inner.enter(|state, now| {
            for one in some {
                for other in others {
                    state.wires.cuts.extend([(one.index, other.index), (other.index, one.index)]);
                }
            }
            state.look_after(now);
        });
    }

    /// Ends all cuts.
    pub fn heal(&self) {
        self.inner.enter(|state, _| state.wires.cuts.clear());
    }

    /// What all connections have done so far, those that are no more among them. Subtract an earlier value to see a span
    /// of time.
    pub fn counters(&self) -> Counters {
        self.inner.state.borrow().counters()
    }

    /// Both ends of all connections that are there now.
    pub fn connections(&self) -> Vec<Connection> {
        let state = self.inner.state.borrow();
        let name = |host: u32| state.wires.hosts[host as usize].name.clone();
        let of = |socket: &Socket| Connection {
            from: name(socket.host),
            to: name(socket.peer_host),
            counters: socket.counters,
        };
        state.sockets().map(of).collect()
    }

    /// Ends all that is there and under way; machines and faults stay.
    pub(crate) fn clear(&self) {
        self.inner.enter(|state, now| state.clear(now));
    }
}

impl Host {
    /// What it is called.
    pub fn name(&self) -> String {
        self.inner.enter(|state, _| state.host(self.index).name.clone())
    }

    /// The network as this machine has it. Addresses are like `name:7400`; it listens at its own name.
    pub fn fabric(&self) -> Rc<dyn Fabric> {
        Rc::new(SimFabric { inner: self.inner.clone(), host: self.index })
    }

    /// All that a process on this machine may touch of the world. Tasks that are started with it and detached end when
    /// the machine crashes.
    pub fn env(&self) -> NetworkEnv {
        let Surroundings { clock, random, .. } = &self.inner.surroundings;
        NetworkEnv {
            fabric: self.fabric(),
            clock: clock.clone(),
            random: random.clone(),
            spawner: self.spawner.clone(),
        }
    }

    /// Its link.
    pub fn link(&self) -> LinkSpec {
        self.inner.enter(|state, _| state.host(self.index).link)
    }

    /// Gives it another link from now on: slower, longer, or worse.
    pub fn set_link(&self, link: LinkSpec) {
        link.check();
        self.inner.enter(|state, _| state.host(self.index).link = link);
    }

    /// It stops: its tasks end, and its connections are gone without a word. Others find out when what they send goes
    /// unanswered for too long, or from the machine itself once it is up again.
    pub fn crash(&self) {
        self.inner.enter(|state, now| state.crash(now, self.index));
        self.spawner.end_all();
    }

    /// Its processes are killed: their tasks end, and its kernel ends their connections and tells their peers, at once.
    pub fn kill(&self) {
        self.inner.enter(|state, now| state.kill(now, self.index));
        self.spawner.end_all();
    }

    /// Its processes stop where they are; its kernel goes on, and takes what comes for them. They go on when they are resumed.
    pub fn pause(&self) {
        self.spawner.pause();
    }

    /// Its processes go on, and know nothing of the time that has passed.
    pub fn resume(&self) {
        self.spawner.resume();
    }

    /// It is up again, and knows of nothing.
    pub fn restart(&self) {
        self.inner.enter(|state, _| state.host(self.index).up = true);
    }
}

impl Inner {
    /// Lets `deal` have its way with the network, and then wakes whom that concerns: their ends may come back here.
    fn enter<T>(self: &Rc<Self>, deal: impl FnOnce(&mut State, u64) -> T) -> T {
        let mut state = self.state.borrow_mut();
        let outcome = deal(&mut state, self.timeline.nanos());
        let wakes = std::mem::take(&mut state.out.wakes);
        let next = state.wires.agenda.next();
        drop(state);
        self.call(next);
        for waker in wakes {
            waker.wake();
        }
        outcome
    }

    /// A half of a connection is dropped. What ends with all tasks of the world ends without a word.
    fn leave(self: &Rc<Self>, id: SocketId, deal: impl FnOnce(&mut Socket, u64, &mut Outbox) -> Became) {
        let halted = self.timeline.halted();
        self.enter(|state, now| {
            if halted {
                state.remove(now, id);
            } else {
                state.with(now, id, |socket, _, out| deal(socket, now, out));
            }
        });
    }

    /// Has the timeline call at `next`, or before.
    fn call(self: &Rc<Self>, next: Option<u64>) {
        let Some(next) = next else { return };
        let mut calls = self.calls.borrow_mut();
        if calls.last().is_none_or(|first| next < *first) {
            calls.push(next);
            drop(calls);
            self.timeline.call_at(next, self.clone(), 0);
        }
    }

    /// Folds bytes that somebody has read into the trace.
    fn note(&self, bytes: &[u8]) {
        self.timeline.note(&[bytes.len() as u64, u64::from(forebay_model::block::crc32c(bytes))]);
    }
}

impl Handler for Inner {
    /// What is due happens; and so does what comes after it, as long as nothing outside the network comes before and no
    /// task has to run.
    fn fire(self: Rc<Self>, _: u64) {
        self.calls.borrow_mut().pop();
        let timeline = &self.timeline;
        self.enter(|state, mut now| {
            loop {
                while state.out.wakes.is_empty() && state.step(now) {}
                match state.wires.agenda.next() {
                    Some(at) if state.out.wakes.is_empty() && timeline.is_free_until(at) => {
                        timeline.pass_to(at);
                        now = at;
                    }
                    _ => return,
                }
            }
        });
    }
}

#[cfg(test)]
mod tests;
