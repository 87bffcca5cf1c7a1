//! Runs futures in virtual time. One thread, one executor, one heap of events: a run is a pure function of the seed
//! and of the code that runs.
//!
//! A world outlives what runs in it: after a kill or a power cut its disks, with what they hold, serve the next run.

use crate::disk::{DiskSpec, SimDisk};
use crate::network::{Network, NetworkSpec, Surroundings};
use crate::seeds;
use crate::timeline::{SimClock, SimRandom, Timeline};
use forebay_env::{Clock, Device, Env, Executor, Random, Spawner};
use forebay_model::{Moment, Timestamp};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

/// Tasks that run at one moment before the world concludes that they will never wait.
const LIVELOCK: u64 = 20_000_000;
/// Virtual time that one run may take before the world concludes that it will never end.
const LIMIT: Duration = Duration::from_secs(400 * 86_400);

/// The power went in the middle of a run: all tasks are gone, and the disks hold what survived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Crashed {
    /// When.
    pub at: Moment,
}

/// A simulated world: a clock, chance, disks, networks, and one loop of tasks.
pub struct World {
    seed: u64,
    timeline: Rc<Timeline>,
    executor: Executor,
    clock: Rc<dyn Clock>,
    random: Rc<dyn Random>,
    disks: RefCell<Vec<SimDisk>>,
    networks: RefCell<Vec<Network>>,
    cut_at: Cell<u64>,
    running: Cell<bool>,
}

/// Set when the future of a run is to be polled again.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl World {
    /// A world at time zero in which chance is `seed`.
    pub fn new(seed: u64) -> World {
        let timeline = Rc::new(Timeline::new(seed));
        let random = SimRandom { timeline: timeline.clone() };
        for _ in 0..seeds::draws() {
            random.next_u64();
        }
        World {
            seed,
            executor: Executor::new(|| ()),
            clock: Rc::new(SimClock { timeline: timeline.clone() }),
            random: Rc::new(random),
            disks: RefCell::default(),
            networks: RefCell::default(),
            cut_at: Cell::new(u64::MAX),
            running: Cell::new(false),
            timeline,
        }
    }

    /// The seed it was made with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// A new, zeroed disk in this world. The world keeps a handle on it, to cut its power.
    pub fn disk(&self, spec: DiskSpec) -> SimDisk {
        let mut disks = self.disks.borrow_mut();
        let disk = SimDisk::new(self.timeline.clone(), self.seed, disks.len() as u64, spec);
        disks.push(disk.clone());
        disk
    }

    /// A new network in this world, without machines. Whatever ends all tasks of the world ends its connections.
    pub fn network(&self, spec: NetworkSpec) -> Network {
        let mut networks = self.networks.borrow_mut();
        let surroundings =
            Surroundings { clock: self.clock.clone(), random: self.random.clone(), spawner: self.spawner() };
        let network = Network::new(self.timeline.clone(), self.seed, networks.len() as u64, spec, surroundings);
        networks.push(network.clone());
        network
    }

    /// All that a target on `device` may touch.
    pub fn env(&self, device: impl Device + 'static) -> Env {
        Env { device: Rc::new(device), clock: self.clock.clone(), random: self.random.clone(), spawner: self.spawner() }
    }

    /// Starts tasks in this world.
    pub fn spawner(&self) -> Spawner {
        self.executor.spawner()
    }

    /// The clock.
    pub fn clock(&self) -> Rc<dyn Clock> {
        self.clock.clone()
    }

    /// Chance.
    pub fn random(&self) -> Rc<dyn Random> {
        self.random.clone()
    }

    /// Virtual time now.
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    /// Steps the wall clock to `wall`; monotonic time is not touched.
    pub fn set_wall(&self, wall: Timestamp) {
        self.timeline.set_wall(wall);
    }

    /// The hash of all I/Os of all disks and of all that arrived over networks so far: what, where, when, with which bytes
    /// and result. Equal for equal seeds.
    pub fn trace(&self) -> u64 {
        self.timeline.trace()
    }

    /// Runs until `future` ends, with all tasks of the world beside it. Tasks still there afterwards stay, and go on
    /// with the next run.
    ///
    /// Panics with the seed if nothing can ever happen again, if time does not pass or does not end, or if the power
    /// was cut: a run that expects that is [`World::run_until_cut`].
    pub fn run<F: Future>(&self, future: F) -> F::Output {
        match self.run_until_cut(future) {
            Ok(output) => output,
            Err(crashed) => panic!("seed {}: the power was cut at {} ns in a run", self.seed, crashed.at.0),
        }
    }

    /// Runs for `span` of virtual time.
    pub fn run_for(&self, span: Duration) {
        self.run(self.clock.sleep(span));
    }

    /// As [`World::run`], but a power cut is an outcome. After it, no task is left, every disk has lost power and is
    /// back with what survived, and the world takes the next run.
    pub fn run_until_cut<F: Future>(&self, future: F) -> Result<F::Output, Crashed> {
        assert!(!self.running.replace(true), "seed {}: a run inside a run", self.seed);
        let outcome = self.drive(future);
        self.running.set(false);
        if outcome.is_err() {
            self.end_tasks();
            for disk in self.disks.borrow().iter() {
                disk.lose_power();
            }
        }
        outcome
    }

    fn drive<F: Future>(&self, future: F) -> Result<F::Output, Crashed> {
        let mut future = pin!(future);
        let flag = Arc::new(Flag(AtomicBool::new(true)));
        let waker = Waker::from(flag.clone());
        let mut context = Context::from_waker(&waker);
        let end = self.timeline.nanos().saturating_add(LIMIT.as_nanos() as u64);
        let mut polls = 0;
        loop {
            if self.timeline.halted() {
                return Err(Crashed { at: self.now() });
            }
            assert!(polls < LIVELOCK, "seed {}: tasks run for ever at {} ns", self.seed, self.timeline.nanos());
            polls += 1;
            if flag.0.swap(false, Ordering::Relaxed) {
                if let Poll::Ready(output) = future.as_mut().poll(&mut context)
                    && !self.timeline.halted()
                {
                    return Ok(output);
                }
                continue;
            }
            // One at a time, so that nothing runs after a power cut that the last one brought about.
            if !self.executor.run_ready(1) {
                continue;
            }
            polls = 0;
            let cut = self.cut_at.get();
            if self.timeline.advance(end.min(cut)) {
                continue;
            }
            if cut <= end {
                self.cut_at.set(u64::MAX);
                self.timeline.pass_to(cut);
                self.timeline.halt();
                continue;
            }
            panic!(
                "seed {}: at {} ns {}",
                self.seed,
                self.timeline.nanos(),
                if self.timeline.is_empty() {
                    "everything waits and nothing will happen"
                } else {
                    "the run does not end"
                }
            );
        }
    }

    /// Cuts the power when time reaches `moment` in a run, after all else that happens at that moment.
    pub fn cut_power_at(&self, moment: Moment) {
        self.cut_at.set(moment.0);
    }

    /// Ends all tasks, as `kill -9` does. The disks finish what they were given before the next run begins, as a
    /// kernel does before it lets the next process have the device.
    pub fn kill(&self) {
        assert!(!self.running.get(), "seed {}: a kill inside a run", self.seed);
        self.end_tasks();
        self.settle();
    }

    /// Ends all tasks and cuts the power of `disks` at this moment; the others finish what they were given.
    pub fn crash(&self, disks: &[&SimDisk]) {
        assert!(!self.running.get(), "seed {}: a crash inside a run", self.seed);
        self.end_tasks();
        for disk in disks {
            disk.lose_power();
        }
        self.settle();
    }

    /// Ends all tasks; what their destructors do reaches no disk.
    fn end_tasks(&self) {
        self.timeline.halt();
        self.executor.kill_all();
        for network in self.networks.borrow().iter() {
            network.clear();
        }
        self.timeline.resume();
    }

    /// Lets the disks finish what they were given.
    fn settle(&self) {
        while self.disks.borrow().iter().any(SimDisk::is_busy) && self.timeline.advance(u64::MAX) {}
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Tasks and events hold handles on one another.
        self.executor.kill_all();
        self.timeline.clear();
    }
}

#[cfg(test)]
mod tests;
