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
use std::collections::{BTreeMap, BTreeSet, VecDeque};
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

/// What becomes of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    Answered,
    /// It is done, and whoever asked is told that the connection ended.
    Lost,
    /// The same, and it is not done.
    Dropped,
}

/// A request under way.
pub(super) struct Pending {
    pub(super) client: u64,
    pub(super) component: Option<u32>,
    pub(super) fate: Rc<Cell<Fate>>,
    pub(super) apply: Apply,
}

pub(super) type Apply = Box<dyn FnOnce(&World)>;

/// Everything but the clients' own memory.
pub(in crate::file) struct World {
    pub(in crate::file) striping: Striping,
    pub(in crate::file) chance: Chance,
    pub(super) now: Cell<u64>,
    pub(super) next: Cell<u64>,
    pub(super) events: RefCell<BTreeMap<(u64, u64), Event>>,
    pub(super) pending: RefCell<BTreeMap<u64, Pending>>,
    pub(super) components: RefCell<Vec<Component>>,
    pub(super) clients: RefCell<BTreeMap<u64, Client>>,
    pub(super) locks: RefCell<BTreeMap<(u32, u64), Queue>>,
    /// Those of them that keep nobody out.
    pub(super) lost: RefCell<BTreeSet<u64>>,
    pub(in crate::file) missing: RefCell<BTreeMap<u32, Absence>>,
    /// What each client said last of how long the file is, and how often it was cut by then.
    pub(super) said: RefCell<BTreeMap<u64, (u64, u64)>>,
    pub(in crate::file) counts: Cell<Counts>,
    /// Bytes of writes that were not done: now, and the most.
    pub(super) writing: Cell<(u64, u64)>,
    pub(super) largest_write: Cell<u64>,
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
            lost: RefCell::default(),
            missing: RefCell::default(),
            said: RefCell::default(),
            counts: Cell::default(),
            writing: Cell::default(),
            largest_write: Cell::default(),
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
        let begun = self.begin(link, future);
        self.finish(link, || begun.has_ended()).then(|| begun.take()).flatten()
    }

    /// Begins a future of a client.
    pub(in crate::file) fn begin<T: 'static>(
        self: &Rc<Self>,
        link: &Link,
        future: impl Future<Output = T> + 'static,
    ) -> Begun<T> {
        let begun = Begun { future: Rc::new(RefCell::new(Some(Box::pin(future)))), result: Rc::default() };
        let (running, result) = (begun.future.clone(), begun.result.clone());
        self.executors.borrow()[&link.client].spawner().detach(std::future::poll_fn(move |context| {
            let mut running = running.borrow_mut();
            let Some(future) = running.as_mut() else { return Poll::Ready(()) };
            let Poll::Ready(value) = future.as_mut().poll(context) else { return Poll::Pending };
            *running = None;
            *result.borrow_mut() = Some(value);
            Poll::Ready(())
        }));
        begun
    }

    /// Runs until something has ended; false if the client died before.
    pub(in crate::file) fn finish(self: &Rc<Self>, link: &Link, has_ended: impl Fn() -> bool) -> bool {
        loop {
            self.turn();
            if has_ended() {
                return true;
            }
            if self.is_dead(link.client) {
                return false;
            }
            assert!(self.step(), "nothing will ever happen, and a client waits");
        }
    }

    /// Requests under way.
    pub(in crate::file) fn pending(&self) -> usize {
        self.pending.borrow().len()
    }

    /// Runs for so many events.
    pub(in crate::file) fn go_on(self: &Rc<Self>, events: u64) {
        for _ in 0..events {
            self.turn();
            self.step();
        }
        self.turn();
    }

    /// How often the file was cut, and how long it is since.
    pub(super) fn length(&self) -> (u64, u64) {
        self.said.borrow().values().copied().max().unwrap_or_default()
    }

    pub(in crate::file) fn is_dead(&self, client: u64) -> bool {
        self.clients.borrow()[&client].dead
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
                let Some(Pending { client, apply, .. }) = self.pending.borrow_mut().remove(&number) else {
                    return true;
                };
                apply(self);
                match self.crash_after.get() {
                    // What a client that is gone had asked is done late.
                    _ if self.is_dead(client) => {}
                    Some(0) => self.crash(client),
                    left => self.crash_after.set(left.map(|left| left - 1)),
                }
            }
        }
        true
    }

    /// A client dies. Its requests are done or not, some of them later: until its locks are handed on, or its intents are
    /// told.
    pub(in crate::file) fn crash(self: &Rc<Self>, client: u64) {
        self.crash_after.set(None);
        self.crashed.set(true);
        if let Some(gone) = self.clients.borrow_mut().get_mut(&client) {
            gone.dead = true;
        }
        self.executors.borrow()[&client].kill_all();
    }

    /// Of clients that are gone nothing is done any more.
    pub(super) fn fence(&self) {
        let of = |(number, pending): (&u64, &Pending)| self.is_dead(pending.client).then_some(*number);
        let numbers: Vec<u64> = self.pending.borrow().iter().filter_map(of).collect();
        for number in numbers {
            let Some(Pending { apply, .. }) = self.pending.borrow_mut().remove(&number) else { continue };
            if self.chance.once_in(2) {
                apply(self);
            }
        }
    }

    /// The connection of a client to a component ends, and is made anew: of what is under way there, some is done, and all
    /// of it is answered by an error.
    pub(in crate::file) fn lose_link(&self, client: u64, component: u32) {
        for pending in self.pending.borrow().values() {
            if pending.client == client && pending.component == Some(component) {
                pending.fate.set(if self.chance.once_in(2) { Fate::Lost } else { Fate::Dropped });
            }
        }
    }
}

/// What a client has begun.
pub(in crate::file) struct Begun<T> {
    future: Running<T>,
    result: Rc<RefCell<Option<T>>>,
}

/// A future, until it has ended or was given up.
type Running<T> = Rc<RefCell<Option<Pin<Box<dyn Future<Output = T>>>>>>;

impl<T> Begun<T> {
    pub(in crate::file) fn has_ended(&self) -> bool {
        self.result.borrow().is_some()
    }

    /// Whether it was dropped in the middle.
    pub(in crate::file) fn is_given_up(&self) -> bool {
        self.future.borrow().is_none() && !self.has_ended()
    }

    /// What came of it.
    pub(in crate::file) fn take(&self) -> Option<T> {
        self.result.borrow_mut().take()
    }

    /// Drops the future in the middle; false if it has ended.
    pub(in crate::file) fn give_up(&self) -> bool {
        let future = self.future.borrow_mut().take();
        future.is_some()
    }
}
