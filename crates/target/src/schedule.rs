//! The scheduler: the only way to the device, and where the promise is kept.
//!
//! Classes: *guaranteed* (ring writes, each with a deadline), *metadata* (checkpoints; few, and part of admission) and
//! *normal* (reads, fair shares in bytes per stream). A normal I/O starts only if its worst case by the profile fits
//! in the slack that the guaranteed deadlines leave; what has been started cannot be taken back, so it is kept small.
//!
//! On a device that rotates, the two classes take turns in long runs instead of mixing: guaranteed writes collect in
//! memory while readers read, until the slack is used up; then all of them go out in one sweep. That is what makes the
//! seeks cheap (Mahanaxar, MSST 2010, "large block operations"; disk-time reservation as in `docs/promises/ring.md`).
//!
//! After the device has failed a write or a flush once, everything but reads is refused until the target is opened
//! again: what the device still holds is unknown.

mod slack;

use crate::promise::{Giver, promise};
use forebay_env::{Buffer, Env, Geometry};
use forebay_model::{Bytes, Error, Moment, Profile, Result, RingId};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

/// The most bytes of guaranteed writes in flight: enough for every device we know to stream.
const GUARANTEED_IN_FLIGHT: Bytes = Bytes::mib(8);
/// The most bytes of normal I/O in flight on a device that rotates: two, so that the second is queued when the first ends.
const NORMAL_IN_FLIGHT_ROTATING: usize = 2;
/// The same on one that does not: its channels want work.
const NORMAL_IN_FLIGHT_FLAT: usize = 8;
/// How long a stream may pause between reads before the arm is taken away from it.
const ANTICIPATION: Duration = Duration::from_millis(3);
/// Bytes a stream may read before the next one's turn, where turns cost a seek.
const SLICE_ROTATING: Bytes = Bytes::mib(32);
/// The same where they do not.
const SLICE_FLAT: Bytes = Bytes::mib(1);

/// Who a normal I/O belongs to: shares are fair between streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u64);

type Outcome = (Buffer, Result<()>);

/// One target's scheduler. Cheap to clone; stays on the target's loop.
#[derive(Clone)]
pub struct Scheduler {
    inner: Rc<Inner>,
}

struct Inner {
    env: Env,
    geometry: Geometry,
    profile: RefCell<Profile>,
    state: RefCell<State>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Guaranteed,
    Metadata,
    Normal,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Read,
    Write,
}

struct Pending {
    direction: Direction,
    offset: Bytes,
    buffer: Buffer,
    deadline: Moment,
    done: Giver<Outcome>,
}

struct Stream {
    id: StreamId,
    queue: VecDeque<Pending>,
    /// Bytes left of its slice.
    slice: u64,
}

#[derive(Default)]
struct State {
    guaranteed: BTreeMap<RingId, VecDeque<Pending>>,
    metadata: VecDeque<Pending>,
    /// Round robin; the first is the one whose turn it is.
    streams: VecDeque<Stream>,
    flushes: VecDeque<Giver<Result<()>>>,
    flushing: bool,
    guaranteed_in_flight: Bytes,
    normal_in_flight: usize,
    metadata_in_flight: usize,
    /// How long everything in flight takes at the worst, were it all still to be done.
    busy: Duration,
    /// Where the last dispatched I/O ends.
    head: Bytes,
    sweeping: bool,
    current_ring: Option<RingId>,
    last_normal_end: Moment,
    timer: Option<Moment>,
    failed: Option<Error>,
    counters: Counters,
}

/// What the scheduler has done since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes of guaranteed writes.
    pub guaranteed: Bytes,
    /// Bytes of normal reads.
    pub normal: Bytes,
    /// Bytes of metadata.
    pub metadata: Bytes,
    /// Guaranteed writes that ended after their deadline.
    pub missed_deadlines: u64,
    /// Normal I/Os that had to wait for slack.
    pub throttled: u64,
    /// The least slack at which a normal I/O was started.
    pub least_slack: Duration,
    /// Sweeps of guaranteed writes.
    pub sweeps: u64,
}

enum Choice {
    Start(Class, Pending),
    Flush(Vec<Giver<Result<()>>>),
    Wait(Option<Moment>),
}

impl Scheduler {
    /// A scheduler for the device of `env`, trusting `profile`.
    pub fn new(env: Env, profile: Profile) -> Scheduler {
        let geometry = env.device.geometry();
        Scheduler { inner: Rc::new(Inner { env, geometry, profile: RefCell::new(profile), state: RefCell::default() }) }
    }

    /// The device.
    pub fn geometry(&self) -> &Geometry {
        &self.inner.geometry
    }

    /// The world it runs in.
    pub fn env(&self) -> &Env {
        &self.inner.env
    }

    /// Trusts another profile from now on.
    pub fn set_profile(&self, profile: Profile) {
        *self.inner.profile.borrow_mut() = profile;
    }

    /// What has been done so far.
    pub fn counters(&self) -> Counters {
        self.inner.state.borrow().counters
    }

    /// Why writes are refused, if they are.
    pub fn failure(&self) -> Option<Error> {
        self.inner.state.borrow().failed.clone()
    }

    /// Counts a promise that was not kept (by who knows when the data was durable).
    pub fn count_missed(&self) {
        self.inner.state.borrow_mut().counters.missed_deadlines += 1;
    }

    /// Writes ring data by `deadline`. Writes of one ring start in the order in which they were handed in.
    pub async fn write_guaranteed(&self, ring: RingId, offset: Bytes, buffer: Buffer, deadline: Moment) -> Outcome {
        if let Some(error) = self.failure() {
            return (buffer, Err(error));
        }
        let (done, result) = promise();
        let pending = Pending { direction: Direction::Write, offset, buffer, deadline, done };
        self.inner.state.borrow_mut().guaranteed.entry(ring).or_default().push_back(pending);
        self.pump();
        result.await
    }

    /// Reads for `stream`, when there is slack.
    pub async fn read(&self, stream: StreamId, offset: Bytes, buffer: Buffer) -> Outcome {
        let (done, result) = promise();
        let pending = Pending { direction: Direction::Read, offset, buffer, deadline: Moment(u64::MAX), done };
        {
            let mut state = self.inner.state.borrow_mut();
            match state.streams.iter_mut().find(|s| s.id == stream) {
                Some(stream) => stream.queue.push_back(pending),
                None => {
                    let slice = self.slice().0;
                    state.streams.push_back(Stream { id: stream, queue: VecDeque::from([pending]), slice });
                }
            }
        }
        self.pump();
        result.await
    }

    /// Forgets a stream that will read no more.
    pub fn end_stream(&self, stream: StreamId) {
        let mut state = self.inner.state.borrow_mut();
        state.streams.retain(|s| s.id != stream || !s.queue.is_empty());
        drop(state);
        self.pump();
    }

    /// Writes metadata, before all else.
    pub async fn write_metadata(&self, offset: Bytes, buffer: Buffer) -> Outcome {
        if let Some(error) = self.failure() {
            return (buffer, Err(error));
        }
        self.metadata(Direction::Write, offset, buffer).await
    }

    /// Reads metadata, before all else.
    pub async fn read_metadata(&self, offset: Bytes, buffer: Buffer) -> Outcome {
        self.metadata(Direction::Read, offset, buffer).await
    }

    async fn metadata(&self, direction: Direction, offset: Bytes, buffer: Buffer) -> Outcome {
        let (done, result) = promise();
        let pending = Pending { direction, offset, buffer, deadline: Moment(0), done };
        self.inner.state.borrow_mut().metadata.push_back(pending);
        self.pump();
        result.await
    }

    /// Makes every write that has completed durable. Calls while a flush is under way share the next one.
    pub async fn flush(&self) -> Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let (done, result) = promise();
        self.inner.state.borrow_mut().flushes.push_back(done);
        self.pump();
        result.await
    }

    fn slice(&self) -> Bytes {
        if self.inner.geometry.rotates { SLICE_ROTATING } else { SLICE_FLAT }
    }

    /// Starts whatever may start now.
    fn pump(&self) {
        loop {
            let choice = self.choose();
            match choice {
                Choice::Start(class, pending) => self.start(class, pending),
                Choice::Flush(waiting) => self.start_flush(waiting),
                Choice::Wait(None) => return,
                Choice::Wait(Some(moment)) => return self.wake_at(moment),
            }
        }
    }

    fn wake_at(&self, moment: Moment) {
        let mut state = self.inner.state.borrow_mut();
        if state.timer.is_some_and(|t| t <= moment) {
            return;
        }
        state.timer = Some(moment);
        drop(state);
        let this = self.clone();
        self.inner.env.spawner.detach(async move {
            this.inner.env.clock.sleep_until(moment).await;
            {
                let mut state = this.inner.state.borrow_mut();
                if state.timer == Some(moment) {
                    state.timer = None;
                }
            }
            this.pump();
        });
    }

    fn choose(&self) -> Choice {
        let now = self.inner.env.clock.now();
        let profile = self.inner.profile.borrow();
        let rotates = self.inner.geometry.rotates;
        let mut state = self.inner.state.borrow_mut();
        if !state.flushing && !state.flushes.is_empty() {
            state.flushing = true;
            return Choice::Flush(state.flushes.drain(..).collect());
        }
        if state.metadata_in_flight < 4
            && let Some(pending) = state.metadata.pop_front()
        {
            return Choice::Start(Class::Metadata, pending);
        }
        let slice = self.slice().0;
        let normal_limit = if rotates { NORMAL_IN_FLIGHT_ROTATING } else { NORMAL_IN_FLIGHT_FLAT };
        let backlog = state.guaranteed.values().any(|q| !q.is_empty());
        if !backlog {
            state.sweeping = false;
            state.current_ring = None;
            return match state.next_normal(normal_limit, slice) {
                Some(pending) => Choice::Start(Class::Normal, pending),
                None => Choice::Wait(None),
            };
        }
        if !(rotates && state.sweeping) && state.has_normal() {
            if state.normal_in_flight < normal_limit {
                let worst = state.peek_normal().map_or(Duration::ZERO, |p| profile.worst_read(p.offset, Bytes(p.buffer.len() as u64)));
                let slack = slack::slack(&state, &profile, now);
                if slack > worst {
                    state.counters.least_slack = if state.counters.normal == Bytes::ZERO {
                        slack
                    } else {
                        state.counters.least_slack.min(slack)
                    };
                    if let Some(pending) = state.next_normal(normal_limit, slice) {
                        return Choice::Start(Class::Normal, pending);
                    }
                }
                state.counters.throttled += 1;
            } else if rotates {
                // The arm belongs to the readers until slack runs out; their next end will ask again.
                let next = state.peek_normal().map_or(Duration::ZERO, |p| profile.worst_read(p.offset, Bytes(p.buffer.len() as u64)));
                if slack::slack(&state, &profile, now) > next {
                    return Choice::Wait(None);
                }
            }
        } else if rotates && !state.sweeping {
            // Nobody asks for a read at this very moment. Readers think between reads: give the last one a little time.
            let until = state.last_normal_end + ANTICIPATION;
            let expecting = state.normal_in_flight > 0 || now < until;
            if expecting && slack::slack(&state, &profile, now) > ANTICIPATION + profile.full_seek {
                return Choice::Wait(Some(until.max(now + Duration::from_micros(100))));
            }
        }
        if rotates && !state.sweeping {
            state.sweeping = true;
            state.counters.sweeps += 1;
        }
        if state.guaranteed_in_flight < GUARANTEED_IN_FLIGHT
            && let Some(pending) = state.next_guaranteed(&profile, now)
        {
            return Choice::Start(Class::Guaranteed, pending);
        }
        Choice::Wait(None)
    }

    fn start(&self, class: Class, pending: Pending) {
        let Pending { direction, offset, buffer, deadline, done } = pending;
        let length = Bytes(buffer.len() as u64);
        let worst = {
            let profile = self.inner.profile.borrow();
            let mut state = self.inner.state.borrow_mut();
            let position = profile.position_time(state.head, offset);
            let rate = if direction == Direction::Read { profile.read_rate(offset) } else { profile.write_rate(offset) };
            let worst = position + rate.time_for(length);
            state.busy += worst;
            state.head = offset + length;
            match class {
                Class::Guaranteed => {
                    state.guaranteed_in_flight += length;
                    state.counters.guaranteed += length;
                }
                Class::Normal => {
                    state.normal_in_flight += 1;
                    state.counters.normal += length;
                }
                Class::Metadata => {
                    state.metadata_in_flight += 1;
                    state.counters.metadata += length;
                }
            }
            worst
        };
        let io = match direction {
            Direction::Read => self.inner.env.device.read(offset, buffer),
            Direction::Write => self.inner.env.device.write(offset, buffer),
        };
        let this = self.clone();
        self.inner.env.spawner.detach(async move {
            let (buffer, result) = io.await;
            this.ended(class, direction, length, worst, deadline, &result);
            done.give((buffer, result));
            this.pump();
        });
    }

    fn ended(&self, class: Class, direction: Direction, length: Bytes, worst: Duration, deadline: Moment, result: &Result<()>) {
        let now = self.inner.env.clock.now();
        let mut state = self.inner.state.borrow_mut();
        state.busy -= worst;
        match class {
            Class::Guaranteed => {
                state.guaranteed_in_flight -= length;
                if now > deadline {
                    state.counters.missed_deadlines += 1;
                }
            }
            Class::Normal => {
                state.normal_in_flight -= 1;
                state.last_normal_end = now;
            }
            Class::Metadata => state.metadata_in_flight -= 1,
        }
        if direction == Direction::Write
            && let Err(error) = result
        {
            state.fail(error);
        }
    }

    fn start_flush(&self, waiting: Vec<Giver<Result<()>>>) {
        let io = self.inner.env.device.flush();
        let this = self.clone();
        self.inner.env.spawner.detach(async move {
            let result = io.await;
            {
                let mut state = this.inner.state.borrow_mut();
                state.flushing = false;
                if let Err(error) = &result {
                    state.fail(error);
                }
            }
            // Who waited for this flush must not believe an earlier failure undone.
            let result = this.failure().map_or(result, Err);
            for waiter in waiting {
                waiter.give(result.clone());
            }
            this.pump();
        });
    }
}

impl State {
    fn has_normal(&self) -> bool {
        self.streams.iter().any(|s| !s.queue.is_empty())
    }

    /// The stream whose turn it is: the first that has something queued.
    fn peek_normal(&self) -> Option<&Pending> {
        self.streams.iter().find(|s| !s.queue.is_empty()).and_then(|s| s.queue.front())
    }

    fn next_normal(&mut self, limit: usize, slice: u64) -> Option<Pending> {
        if self.normal_in_flight >= limit || !self.has_normal() {
            return None;
        }
        while self.streams.front().is_some_and(|s| s.queue.is_empty()) {
            self.streams.rotate_left(1);
        }
        let stream = self.streams.front_mut()?;
        let pending = stream.queue.pop_front()?;
        stream.slice = stream.slice.saturating_sub(pending.buffer.len() as u64);
        if stream.slice == 0 {
            stream.slice = slice;
            self.streams.rotate_left(1);
        }
        Some(pending)
    }

    /// The next write of the sweep: of the ring being written, unless another ring's latest start has come.
    fn next_guaranteed(&mut self, profile: &Profile, now: Moment) -> Option<Pending> {
        let latest = slack::latest_starts(self, profile);
        let urgent = latest.iter().min_by_key(|(_, start)| *start).map(|(ring, start)| (*ring, *start))?;
        let ring = match self.current_ring {
            Some(current) if self.guaranteed.get(&current).is_some_and(|q| !q.is_empty()) => {
                let worst = profile.worst_write(self.head, Bytes::mib(4));
                if urgent.0 != current && urgent.1 < now + worst { urgent.0 } else { current }
            }
            _ => urgent.0,
        };
        self.current_ring = Some(ring);
        self.guaranteed.get_mut(&ring)?.pop_front()
    }

    fn fail(&mut self, error: &Error) {
        if self.failed.is_none() {
            self.failed = Some(Error::device(format!(
                "the target stopped after its device failed ({error}); what was acknowledged before is kept; check the device and open the target again"
            )));
        }
    }
}

#[cfg(test)]
mod tests;
