//! For tests: components in memory, in time that moves to the next event when nothing is ready. Requests of one client are
//! done in any order, and answered later; components fail, lose their buffers and are damaged; clients die with any of
//! their requests done.

use super::components::{Absence, Asked, Components, Intent, IntentId, Lock, Slice};
use super::ranges::Ranges;
use forebay_env::{Clock, Executor};
use forebay_model::layout::Striping;
use forebay_model::layout::address::StripeId;
use forebay_model::object::Durability;
use forebay_model::{Bytes, Error, Moment, Result, Timestamp};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};
use std::time::Duration;

/// Chance that a seed decides.
pub(super) struct Chance(Cell<u64>);

impl Chance {
    pub(super) fn of(seed: u64) -> Chance {
        Chance(Cell::new(seed.wrapping_mul(0xa076_1d64_78bd_642f)))
    }

    pub(super) fn next(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mixed = (self.0.get() ^ self.0.get() >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    pub(super) fn below(&self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn once_in(&self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Runs `test` with `count` seeds, or with the one in `FOREBAY_SEED`; `FOREBAY_SEEDS_FACTOR` times as many for long
/// searches. The panic of a failing seed names it.
#[expect(clippy::disallowed_methods, reason = "which seed to replay is told from outside")]
pub(super) fn each(count: u64, test: impl Fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("FOREBAY_SEED") {
        return test(seed);
    }
    for seed in 0..count * number("FOREBAY_SEEDS_FACTOR").unwrap_or(1) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| test(seed))) {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("(no message)");
            panic!("seed {seed} failed: {said}\nreplay with FOREBAY_SEED={seed}");
        }
    }
}

/// What was asked of components.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) reads: u64,
    pub(super) read_bytes: u64,
    pub(super) writes: u64,
    pub(super) written_bytes: u64,
    pub(super) intents: u64,
    pub(super) locks: u64,
}

#[derive(Default)]
struct Component {
    now: Vec<u8>,
    durable: Vec<u8>,
    /// What was written since all was durable, and whether it was durably.
    buffered: Vec<(usize, Vec<u8>, bool)>,
    damaged: Ranges,
    down: bool,
    /// Reads and writes from now on until this fails.
    fails_after: Option<u64>,
    /// How often it lost its buffers.
    restarts: u64,
    intents: BTreeMap<u64, (Intent, u64)>,
    delay: Duration,
}

#[derive(Default)]
struct Client {
    dead: bool,
    /// Components with something buffered, and their restarts as this client knows them.
    wrote: BTreeMap<u32, u64>,
}

enum Event {
    /// Done at the component.
    Apply(u64),
    /// Its answer is there.
    Wake(Slot),
}

/// Whoever waits for a moment, which comes once however often they are polled.
type Slot = Rc<RefCell<Option<Waker>>>;

/// Who has a lock, or waits for it, and whose client that is.
type Queue = VecDeque<(u64, u64)>;
/// What came of a request, and when it is known.
type Answer<T> = Rc<RefCell<(Option<Result<T>>, u64)>>;

type Apply = Box<dyn FnOnce(&World)>;

/// Everything but the clients' own memory.
pub(super) struct World {
    pub(super) striping: Striping,
    pub(super) chance: Chance,
    now: Cell<u64>,
    next: Cell<u64>,
    events: RefCell<BTreeMap<(u64, u64), Event>>,
    /// Requests under way: whose, and what they do.
    pending: RefCell<BTreeMap<u64, (u64, Apply)>>,
    components: RefCell<Vec<Component>>,
    clients: RefCell<BTreeMap<u64, Client>>,
    locks: RefCell<BTreeMap<(u32, u64), Queue>>,
    pub(super) missing: RefCell<BTreeMap<u32, Absence>>,
    length: Cell<u64>,
    pub(super) counts: Cell<Counts>,
    /// Bytes of writes that were not done: now, and the most.
    writing: Cell<(u64, u64)>,
    /// Requests that are still done before a client dies.
    pub(super) crash_after: Cell<Option<u64>>,
    crashed: Cell<bool>,
    executors: RefCell<BTreeMap<u64, Executor>>,
}

struct Time(Rc<World>);

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

/// One client's way to the components.
pub(super) struct Link {
    world: Rc<World>,
    pub(super) client: u64,
}

impl World {
    pub(super) fn new(striping: Striping, seed: u64) -> Rc<World> {
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
    pub(super) fn client(self: &Rc<Self>) -> Rc<Link> {
        let client = self.number();
        self.clients.borrow_mut().insert(client, Client::default());
        self.executors.borrow_mut().insert(client, Executor::new(|| ()));
        Rc::new(Link { world: self.clone(), client })
    }

    pub(super) fn clock(self: &Rc<Self>) -> Rc<dyn Clock> {
        Rc::new(Time(self.clone()))
    }

    pub(super) fn now(&self) -> Moment {
        Moment(self.now.get())
    }

    fn number(&self) -> u64 {
        self.next.set(self.next.get() + 1);
        self.next.get()
    }

    fn at(&self, time: u64, event: Event) {
        self.events.borrow_mut().insert((time, self.number()), event);
    }

    /// Runs a future of a client until it ends; `None` if the client died.
    pub(super) fn run<T: 'static>(
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
    pub(super) fn settle(self: &Rc<Self>) {
        loop {
            self.turn();
            if !self.step() {
                return;
            }
        }
    }

    fn turn(&self) {
        loop {
            let executors = self.executors.borrow();
            let busy = executors.values().filter(|executor| !executor.run_ready(1)).count();
            if busy == 0 {
                return;
            }
        }
    }

    fn step(self: &Rc<Self>) -> bool {
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
    pub(super) fn crash(self: &Rc<Self>, client: u64) {
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

    pub(super) fn with<T>(&self, component: u32, change: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        change(&mut self.components.borrow_mut()[component as usize].now)
    }

    /// A component cannot be reached from now on, or can be again.
    pub(super) fn set_down(&self, component: u32, down: bool) {
        self.components.borrow_mut()[component as usize].down = down;
    }

    /// It can be reached again, for as long as it is asked.
    pub(super) fn heal(&self, component: u32) {
        let one = &mut self.components.borrow_mut()[component as usize];
        (one.down, one.fails_after) = (false, None);
    }

    pub(super) fn is_down(&self, component: u32) -> bool {
        self.components.borrow()[component as usize].down
    }

    /// It fails after so many requests, and stays away.
    pub(super) fn fail_after(&self, component: u32, requests: u64) {
        self.components.borrow_mut()[component as usize].fails_after = Some(requests);
    }

    pub(super) fn set_delay(&self, component: u32, delay: Duration) {
        self.components.borrow_mut()[component as usize].delay = delay;
    }

    /// Bytes that cannot be read before they are written again.
    pub(super) fn damage(&self, component: u32, range: std::ops::Range<u64>) {
        let mut components = self.components.borrow_mut();
        let one = &mut components[component as usize];
        one.damaged.add(range.start..range.end.min(one.now.len() as u64).max(range.start));
    }

    /// The target of a component has no power for a moment: of what was buffered, some is there.
    pub(super) fn restart(&self, component: u32) {
        let mut components = self.components.borrow_mut();
        let one = &mut components[component as usize];
        one.restarts += 1;
        let mut bytes = one.durable.clone();
        for (at, written, durably) in std::mem::take(&mut one.buffered) {
            if durably || self.chance.once_in(2) {
                put(&mut bytes, at, &written);
            }
        }
        one.now.clone_from(&bytes);
        one.durable = bytes;
    }

    pub(super) fn intents(&self) -> usize {
        let missing = self.missing.borrow();
        let components = self.components.borrow();
        let left = (0..).zip(components.iter()).filter(|(nth, _)| !missing.contains_key(nth));
        left.map(|(_, component)| component.intents.len()).sum()
    }

    /// Whether parity, and copies, agree everywhere, but for components that missed something.
    pub(super) fn check(&self) {
        let (components, missing) = (self.components.borrow(), self.missing.borrow());
        let together = if self.striping.raid().parity_units() == 1 {
            self.striping.width()
        } else {
            self.striping.raid().copies()
        };
        let all: Vec<(u32, &Component)> = (0..).zip(components.iter()).collect();
        for family in all.chunks(together as usize) {
            let whole = family.iter().all(|(nth, _)| !missing.contains_key(nth));
            let longest = family.iter().map(|(_, one)| one.now.len()).max().unwrap_or(0);
            let byte = |one: &Component, at: usize| one.now.get(at).copied().unwrap_or(0);
            if self.striping.raid().parity_units() == 1 {
                if let Some(at) =
                    (0..longest).find(|at| family.iter().fold(0, |sum, (_, one)| sum ^ byte(one, *at)) != 0)
                {
                    assert!(!whole, "parity of {:?} and behind disagrees at byte {at}", family[0].0);
                }
            } else {
                let left: Vec<&Component> =
                    family.iter().filter(|(nth, _)| !missing.contains_key(nth)).map(|(_, one)| *one).collect();
                let differs = (0..longest).find(|at| left.iter().any(|one| byte(one, *at) != byte(left[0], *at)));
                assert!(differs.is_none(), "copies of {:?} disagree at {differs:?}", family[0].0);
            }
        }
    }

    pub(super) fn take_counts(&self) -> Counts {
        self.counts.take()
    }

    pub(super) fn most_pending(&self) -> u64 {
        self.writing.get().1
    }

    pub(super) fn took_crash(&self) -> bool {
        self.crashed.take()
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// Whether a component answers a client at all.
    fn check_reach(&self, component: u32, client: u64, writes: bool) -> Result<()> {
        let mut components = self.components.borrow_mut();
        let one = &mut components[component as usize];
        match &mut one.fails_after {
            Some(0) => one.down = true,
            Some(left) => *left -= 1,
            None => {}
        }
        if one.down {
            return Err(Error::disconnected(format!("component {component} cannot be reached")));
        }
        match self.missing.borrow().get(&component) {
            Some(Absence::Missed) => return Err(Error::stale("it missed something")),
            Some(Absence::Filling) if !writes => return Err(Error::stale("it is being rebuilt")),
            _ => {}
        }
        let clients = self.clients.borrow();
        match clients.get(&client).and_then(|client| client.wrote.get(&component)) {
            Some(known) if *known != one.restarts => Err(Error::restarted("it lost what was buffered")),
            _ => Ok(()),
        }
    }
}

fn put(to: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    to.resize(to.len().max(at + bytes.len()), 0);
    to[at..at + bytes.len()].copy_from_slice(bytes);
}

impl Component {
    fn write(&mut self, at: Bytes, slices: &[Slice], durability: Durability) {
        let bytes = slices.concat();
        let at = at.0 as usize;
        put(&mut self.now, at, &bytes);
        let (start, end) = (at as u64, (at + bytes.len()) as u64);
        self.replace_damaged(start, end);
        self.buffered.push((at, bytes, durability == Durability::Durable));
    }

    /// What was damaged there is no longer.
    fn replace_damaged(&mut self, start: u64, end: u64) {
        let mut left = Ranges::default();
        for range in self.damaged.iter() {
            left.add(range.start..range.end.min(start).max(range.start));
            left.add(range.start.max(end).min(range.end)..range.end);
        }
        self.damaged = left;
    }

    fn make_durable(&mut self) {
        self.durable.clone_from(&self.now);
        self.buffered.clear();
    }
}

impl Link {
    pub(super) fn world(&self) -> &Rc<World> {
        &self.world
    }

    pub(super) fn spawner(&self) -> forebay_env::Spawner {
        self.world.executors.borrow()[&self.client].spawner()
    }

    /// Has `apply` done some time later, and its answer come some time after that.
    fn ask<T: 'static>(&self, component: Option<u32>, apply: impl FnOnce(&World) -> Result<T> + 'static) -> Asked<T> {
        let (answer, slot): (Answer<T>, Slot) = Default::default();
        let (world, number) = (self.world.clone(), self.world.number());
        let delay = component.map_or(Duration::ZERO, |one| world.components.borrow()[one as usize].delay);
        let (there, back) = (1000 + world.chance.below(200_000), world.chance.below(50_000));
        let (to, answered) = (answer.clone(), slot.clone());
        let done = Box::new(move |world: &World| {
            let result = apply(world);
            let mut to = to.borrow_mut();
            *to = (Some(result), world.now.get() + back);
            world.at(to.1, Event::Wake(answered));
        });
        world.pending.borrow_mut().insert(number, (self.client, done));
        world.at(world.now.get() + there + delay.as_nanos() as u64, Event::Apply(number));
        Box::pin(std::future::poll_fn(move |context| {
            let mut answer = answer.borrow_mut();
            let is_there = answer.1 <= world.now.get();
            if let Some(result) = answer.0.take_if(|_| is_there) {
                return Poll::Ready(result);
            }
            *slot.borrow_mut() = Some(context.waker().clone());
            Poll::Pending
        }))
    }

    fn change<T: 'static>(
        &self,
        component: u32,
        change: impl FnOnce(&World, &mut Component) -> Result<T> + 'static,
    ) -> Asked<T> {
        let client = self.client;
        self.ask(Some(component), move |world| {
            world.check_reach(component, client, true)?;
            change(world, &mut world.components.borrow_mut()[component as usize])
        })
    }
}

impl Components for Link {
    fn read(&self, component: u32, at: Bytes, length: Bytes) -> Asked<Slice> {
        let client = self.client;
        self.world.count(|counts| {
            counts.reads += 1;
            counts.read_bytes += length.0;
        });
        self.ask(Some(component), move |world| {
            world.check_reach(component, client, false)?;
            let components = world.components.borrow();
            let one = &components[component as usize];
            let end = (at + length).0;
            if one.damaged.iter().any(|range| range.start < end && at.0 < range.end) {
                return Err(Error::damaged(format!("component {component} is damaged there")));
            }
            let from = (at.0 as usize).min(one.now.len());
            Ok(Slice::copy_from_slice(&one.now[from..(end as usize).min(one.now.len())]))
        })
    }

    fn write(&self, component: u32, at: Bytes, bytes: Vec<Slice>, durability: Durability) -> Asked<()> {
        let client = self.client;
        let length = bytes.iter().map(|slice| slice.len() as u64).sum::<u64>();
        self.world.count(|counts| {
            counts.writes += 1;
            counts.written_bytes += length;
        });
        let (now, most) = self.world.writing.get();
        self.world.writing.set((now + length, most.max(now + length)));
        self.change(component, move |world, one| {
            let (now, most) = world.writing.get();
            world.writing.set((now.saturating_sub(length), most));
            if durability == Durability::Buffered {
                let mut clients = world.clients.borrow_mut();
                let wrote = &mut clients.get_mut(&client).expect("it is known").wrote;
                wrote.entry(component).or_insert(one.restarts);
            }
            one.write(at, &bytes, durability);
            Ok(())
        })
    }

    fn truncate(&self, component: u32, size: Bytes) -> Asked<()> {
        self.change(component, move |_, one| {
            one.now.resize(size.0 as usize, 0);
            one.replace_damaged(size.0, u64::MAX);
            one.make_durable();
            Ok(())
        })
    }

    fn size(&self, component: u32) -> Asked<Bytes> {
        self.change(component, |_, one| Ok(Bytes(one.now.len() as u64)))
    }

    fn flush(&self, component: u32) -> Asked<()> {
        let client = self.client;
        self.ask(Some(component), move |world| {
            let reached = world.check_reach(component, client, true);
            if reached.is_ok() {
                world.components.borrow_mut()[component as usize].make_durable();
            }
            if !world.is_down(component) {
                world.clients.borrow_mut().get_mut(&client).expect("it is known").wrote.remove(&component);
            }
            reached
        })
    }

    fn lock(&self, component: u32, stripe: StripeId) -> Asked<Lock> {
        let (world, client, number, key) =
            (self.world.clone(), self.client, self.world.number(), (component, stripe.0));
        world.count(|counts| counts.locks += 1);
        let waits = Rc::new(Cell::new(true));
        let still = waits.clone();
        let queued = self.change(component, move |world, _| {
            if !still.get() {
                return Err(Error::stale("nobody waits for it any more"));
            }
            world.locks.borrow_mut().entry(key).or_default().push_back((number, client));
            Ok(())
        });
        let guard = Held { world: world.clone(), key, number, waits };
        Box::pin(async move {
            queued.await?;
            let time = Time(world.clone());
            while world.locks.borrow()[&key].front().is_some_and(|(first, _)| *first != number) {
                time.sleep(Duration::from_micros(20)).await;
            }
            let components = world.components.borrow();
            let left = components[component as usize].intents.iter();
            let left = left.filter(|(_, (intent, _))| intent.stripe == stripe);
            let left = left.map(|(id, (intent, _))| (IntentId(*id), intent.clone())).collect();
            Ok(Lock { guard: Box::new(guard), left })
        })
    }

    fn intend(&self, component: u32, intent: Intent) -> Asked<IntentId> {
        let client = self.client;
        self.world.count(|counts| counts.intents += 1);
        self.change(component, move |world, one| {
            let id = world.number();
            one.intents.insert(id, (intent, client));
            Ok(IntentId(id))
        })
    }

    fn settle(&self, component: u32, id: IntentId) -> Asked<()> {
        self.change(component, move |_, one| {
            one.intents.remove(&id.0);
            Ok(())
        })
    }

    fn intents(&self, component: u32) -> Asked<Vec<(IntentId, Intent)>> {
        self.change(component, |world, one| {
            let clients = world.clients.borrow();
            let left = one.intents.iter().filter(|(_, (_, client))| clients[client].dead);
            Ok(left.map(|(id, (intent, _))| (IntentId(*id), intent.clone())).collect())
        })
    }

    fn missed(&self, components: Vec<u32>) -> Asked<()> {
        self.ask(None, move |world| {
            world.missing.borrow_mut().extend(components.iter().map(|component| (*component, Absence::Missed)));
            Ok(())
        })
    }

    fn missing(&self) -> Asked<Vec<(u32, Absence)>> {
        self.ask(None, |world| Ok(world.missing.borrow().iter().map(|(nth, absence)| (*nth, *absence)).collect()))
    }

    fn filling(&self, component: u32) -> Asked<()> {
        self.ask(None, move |world| {
            let restarts = world.components.borrow()[component as usize].restarts;
            world.components.borrow_mut()[component as usize] = Component { restarts, ..Component::default() };
            world.clients.borrow_mut().values_mut().for_each(|client| {
                client.wrote.remove(&component);
            });
            world.missing.borrow_mut().insert(component, Absence::Filling);
            Ok(())
        })
    }

    fn rebuilt(&self, component: u32) -> Asked<()> {
        self.ask(None, move |world| {
            world.missing.borrow_mut().remove(&component);
            Ok(())
        })
    }

    fn grown(&self, size: Bytes) -> Asked<()> {
        self.ask(None, move |world| {
            world.length.set(world.length.get().max(size.0));
            Ok(())
        })
    }

    fn cut(&self, size: Bytes) -> Asked<()> {
        self.ask(None, move |world| {
            world.length.set(size.0);
            Ok(())
        })
    }

    fn length(&self) -> Asked<Bytes> {
        self.ask(None, |world| Ok(Bytes(world.length.get())))
    }
}

struct Held {
    world: Rc<World>,
    key: (u32, u64),
    number: u64,
    waits: Rc<Cell<bool>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.waits.set(false);
        // Within a crash the queue is seen to by that.
        if let Ok(mut locks) = self.world.locks.try_borrow_mut()
            && let Some(queue) = locks.get_mut(&self.key)
        {
            queue.retain(|(number, _)| *number != self.number);
        }
    }
}
