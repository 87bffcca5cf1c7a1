//! Time, which moves to the next event when nothing is ready; requests under way; clients, which die with any of their
//! requests done.

use super::super::components::Absence;
use super::chance::Chance;
use super::check::Counts;
use super::component::Component;
use super::link::Link;
use forebay_env::{Clock, Executor};
use forebay_model::layout::Striping;
use forebay_model::{Moment, Timestamp};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

#[derive(Default)]
pub(super) struct Client {
    pub(super) dead: bool,
    /// Components with something buffered, and their restarts as this client knows them.
    pub(super) wrote: BTreeMap<u32, u64>,
}

pub(super) enum Event {
    /// Done at the component.
    Apply(u64),
    /// Its answer is there.
    Wake(Slot),
}

/// Whoever waits for a moment, which comes once however often they are polled.
pub(super) type Slot = Rc<RefCell<Option<Waker>>>;

/// Who has a lock, or waits for it, and whose client that is.
pub(super) type Queue = VecDeque<(u64, u64)>;

pub(super) type Apply = Box<dyn FnOnce(&World)>;

/// Everything but the clients' own memory.
pub(in crate::file) struct World {
    pub(in crate::file) striping: Striping,
    pub(in crate::file) chance: Chance,
    pub(super) now: Cell<u64>,
    pub(super) next: Cell<u64>,
    pub(super) events: RefCell<BTreeMap<(u64, u64), Event>>,
    /// Requests under way: whose, and what they do.
    pub(super) pending: RefCell<BTreeMap<u64, (u64, Apply)>>,
    pub(super) components: RefCell<Vec<Component>>,
    pub(super) clients: RefCell<BTreeMap<u64, Client>>,
    pub(super) locks: RefCell<BTreeMap<(u32, u64), Queue>>,
    pub(in crate::file) missing: RefCell<BTreeMap<u32, Absence>>,
    pub(super) length: Cell<u64>,
    pub(in crate::file) counts: Cell<Counts>,
    /// Bytes of writes that were not done: now, and the most.
    pub(super) writing: Cell<(u64, u64)>,
    /// Requests that are still done before a client dies.
    pub(in crate::file) crash_after: Cell<Option<u64>>,
    pub(super) crashed: Cell<bool>,
    pub(super) executors: RefCell<BTreeMap<u64, Executor>>,
}

pub(super) struct Time(pub(super) Rc<World>);

impl Clock for Time {
    fn now(&self) -> Moment {
        Moment(self.0.now.get())
    }

    fn wall(&self) -> Timestamp {
        Timestamp(self.0.now.get() as i64)
    }

    fn sleep_until(&self, moment: Moment) -> Pin<Box<dyn Future<Output = ()>>> {
        let (world, slot) = (self.0.clone(), Slot::default());
        world.at(moment.0, Event::Wake(slot.clone()));
        Box::pin(std::future::poll_fn(move |context| {
            if world.now.get() >= moment.0 {
                return Poll::Ready(());
            }
            *slot.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        }))
    }
}

impl World {
    pub(in crate::file) fn new(striping: Striping, seed: u64) -> Rc<World> {
        let components = (0..striping.components()).map(|_| Component::default()).collect();
        Rc::new(World {
            striping,
            chance: Chance::of(seed),
            now: Cell::new(1),
            next: Cell::default(),
            events: RefCell::default(),
            pending: RefCell::default(),
            components: RefCell::new(components),
            clients: RefCell::default(),
            locks: RefCell::default(),
            missing: RefCell::default(),
            length: Cell::default(),
            counts: Cell::default(),
            writing: Cell::default(),
            crash_after: Cell::default(),
            crashed: Cell::default(),
            executors: RefCell::default(),
        })
    }

    /// Another client.
    pub(in crate::file) fn client(self: &Rc<Self>) -> Rc<Link> {
        let client = self.number();
        self.clients.borrow_mut().insert(client, Client::default());
        self.executors.borrow_mut().insert(client, Executor::new(|| ()));
        Rc::new(Link { world: self.clone(), client })
    }

    pub(in crate::file) fn clock(self: &Rc<Self>) -> Rc<dyn Clock> {
        Rc::new(Time(self.clone()))
    }

    pub(in crate::file) fn now(&self) -> Moment {
        Moment(self.now.get())
    }

    pub(super) fn number(&self) -> u64 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    pub(super) fn at(&self, time: u64, event: Event) {
        self.events.borrow_mut().insert((time, self.number()), event);
    }

    /// Runs a future of a client until it ends; `None` if the client died.
    pub(in crate::file) fn run<T: 'static>(
        self: &Rc<Self>,
        link: &Link,
        future: impl Future<Output = T> + 'static,
    ) -> Option<T> {
        let result = Rc::new(RefCell::new(None));
        let to = result.clone();
        let spawner = self.executors.borrow()[&link.client].spawner();
        spawner.detach(async move {
            let value = future.await;
            *to.borrow_mut() = Some(value);
        });
        loop {
            self.turn();
            if let Some(value) = result.borrow_mut().take() {
                return Some(value);
            }
            if self.clients.borrow()[&link.client].dead {
                return None;
            }
            assert!(self.step(), "nothing will ever happen, and a client waits");
        }
    }

    /// Runs until nothing is under way.
    pub(in crate::file) fn settle(self: &Rc<Self>) {
        loop {
            self.turn();
            if !self.step() {
                return;
            }
        }
    }

    pub(super) fn turn(&self) {
        loop {
            let executors = self.executors.borrow();
            let busy = executors.values().filter(|executor| !executor.run_ready(1)).count();
            if busy == 0 {
                return;
            }
        }
    }

    pub(super) fn step(self: &Rc<Self>) -> bool {
        let Some(((time, _), event)) = self.events.borrow_mut().pop_first() else { return false };
        self.now.set(self.now.get().max(time));
        match event {
            Event::Wake(slot) => {
                let waker = slot.borrow_mut().take();
                waker.into_iter().for_each(Waker::wake);
            }
            Event::Apply(number) => {
                let Some((client, apply)) = self.pending.borrow_mut().remove(&number) else { return true };
                apply(self);
                match self.crash_after.get() {
                    Some(0) => self.crash(client),
                    left => self.crash_after.set(left.map(|left| left - 1)),
                }
            }
        }
        true
    }

    /// A client dies: each of its requests is done or not, and none is done later.
    pub(in crate::file) fn crash(self: &Rc<Self>, client: u64) {
        self.crash_after.set(None);
        self.crashed.set(true);
        let of = |(number, (whose, _)): (&u64, &(u64, Apply))| (*whose == client).then_some(*number);
        let pending: Vec<u64> = self.pending.borrow().iter().filter_map(of).collect();
        for number in pending {
            let Some((_, apply)) = self.pending.borrow_mut().remove(&number) else { continue };
            if self.chance.once_in(2) {
                apply(self);
            }
        }
        if let Some(gone) = self.clients.borrow_mut().get_mut(&client) {
            gone.dead = true;
        }
        self.executors.borrow()[&client].kill_all();
        self.locks.borrow_mut().values_mut().for_each(|queue| queue.retain(|(_, whose)| *whose != client));
    }
}
