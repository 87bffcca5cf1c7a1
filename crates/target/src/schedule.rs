//! The scheduler: the only way to the device, and where the promise is kept.
//!
//! Classes: *guaranteed* (ring writes, each with a deadline), *metadata* (checkpoints; few, part of admission, between
//! sweeps if they can wait) and *normal* (reads, fair shares in bytes per stream). A normal I/O starts only if its worst case by the profile fits
//! in the slack that the guaranteed deadlines leave; what has been started cannot be taken back, so it is kept small.
//!
//! On a device that rotates, the two classes take turns in long runs instead of mixing: guaranteed writes collect in
//! memory while readers read, until the slack is used up; then all of them go out in one sweep. That is what makes the
//! seeks cheap (Mahanaxar, MSST 2010, "large block operations"; disk-time reservation as in `docs/promises/ring.md`).
//!
//! A drive with a write cache takes writes faster than its platters do, and owes the rest. A sweep therefore goes out at
//! the pace of the platters by the profile, and is over only when the flush that ends it is: reads that came in between
//! would make the arm commute.
//!
//! After the device has failed a write or a flush once, everything but reads is refused until the target is opened
//! again: what the device still holds is unknown.

mod slack;

use crate::promise::{Giver, promise};
use forebay_env::{Buffer, Env, Geometry};
use forebay_model::{Bytes, Error, Moment, Profile, Rate, Result, RingId};
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
/// How far writes may run ahead of what the platters take by the profile.
pub(crate) const AHEAD: Duration = Duration::from_millis(30);
/// How long metadata waits for a moment between sweeps before it goes anyway.
const METADATA_PATIENCE: Duration = Duration::from_secs(2);
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
    stream: Option<StreamId>,
    done: Giver<Outcome>,
}

struct Stream {
    id: StreamId,
    queue: VecDeque<Pending>,
    /// Bytes left of its slice.
    slice: u64,
    in_flight: usize,
    last_end: Moment,
}

/// What a normal I/O could be started.
enum Turn {
    /// The first of the first stream's queue.
    Ready,
    /// The stream whose turn it is has a moment to ask for more; until then nothing is started.
    Expected(Moment),
    /// Nobody wants anything.
    Nobody,
}

#[derive(Default)]
struct State {
    guaranteed: BTreeMap<RingId, VecDeque<Pending>>,
    rates: BTreeMap<RingId, (Rate, Bytes)>,
    metadata: VecDeque<Pending>,
    /// Round robin; the first is the one whose turn it is.
    streams: VecDeque<Stream>,
    flushes: VecDeque<Giver<Result<()>>>,
    /// Flushes of metadata, and until when they can wait for a moment between sweeps.
    polite_flushes: VecDeque<Giver<Result<()>>>,
    polite_until: Moment,
    flushing: bool,
    guaranteed_in_flight: Bytes,
    normal_in_flight: usize,
    metadata_in_flight: usize,
    /// How long everything in flight takes at the worst, were it all still to be done.
    busy: Duration,
    /// Where the last dispatched I/O ends.
    head: Bytes,
    sweeping: bool,
    /// When the platters have taken all that was written, by the profile.
    platters_free: Moment,
    /// Whether anything was written since the last flush began, and when that ended.
    dirty: bool,
    last_guaranteed_end: Moment,
    current_ring: Option<RingId>,
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

    /// Says how a ring's writes will go on coming, at which rate and in runs of which length: a sweep lasts longer for it.
    pub fn set_rate(&self, ring: RingId, rate: Rate, run: Bytes) {
        self.inner.state.borrow_mut().rates.insert(ring, (rate, run));
    }

    /// Writes ring data by `deadline`. Writes of one ring start in the order in which they were handed in.
    pub async fn write_guaranteed(&self, ring: RingId, offset: Bytes, buffer: Buffer, deadline: Moment) -> Outcome {
        if let Some(error) = self.failure() {
            return (buffer, Err(error));
        }
        let (done, result) = promise();
        let pending = Pending { direction: Direction::Write, offset, buffer, deadline, stream: None, done };
        self.inner.state.borrow_mut().guaranteed.entry(ring).or_default().push_back(pending);
        self.pump();
        result.await
    }

    /// Reads for `stream`, when there is slack.
    pub async fn read(&self, stream: StreamId, offset: Bytes, buffer: Buffer) -> Outcome {
        let (done, result) = promise();
        let pending = Pending {
            direction: Direction::Read,
            offset,
            buffer,
            deadline: Moment(u64::MAX),
            stream: Some(stream),
            done,
        };
        {
            let mut state = self.inner.state.borrow_mut();
            match state.streams.iter_mut().find(|s| s.id == stream) {
                Some(stream) => stream.queue.push_back(pending),
                None => {
                    let (slice, queue) = (self.slice().0, VecDeque::from([pending]));
                    state.streams.push_back(Stream { id: stream, queue, slice, in_flight: 0, last_end: Moment(0) });
                }
            }
        }
        self.pump();
        result.await
    }

    /// Forgets a stream that will read no more.
    pub fn end_stream(&self, stream: StreamId) {
        let mut state = self.inner.state.borrow_mut();
        state.streams.retain(|s| s.id != stream || !s.queue.is_empty() || s.in_flight > 0);
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
        let deadline = self.inner.env.clock.now() + METADATA_PATIENCE;
        let pending = Pending { direction, offset, buffer, deadline, stream: None, done };
        self.inner.state.borrow_mut().metadata.push_back(pending);
        self.pump();
        result.await
    }

    /// As [`Scheduler::flush`], for metadata: waits for a moment between sweeps, unless another flush comes first.
    pub async fn flush_metadata(&self) -> Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let (done, result) = promise();
        {
            let mut state = self.inner.state.borrow_mut();
            if state.polite_flushes.is_empty() {
                state.polite_until = self.inner.env.clock.now() + METADATA_PATIENCE;
            }
            state.polite_flushes.push_back(done);
        }
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
        let backlog = state.guaranteed.values().any(|q| !q.is_empty());
        let between = !backlog && state.guaranteed_in_flight == Bytes::ZERO
            || !state.sweeping && slack::slack(&state, &profile, now) > profile.full_seek * 2 + profile.flush;
        if !state.flushing {
            let polite = !state.polite_flushes.is_empty() && (between || now >= state.polite_until);
            if polite || !state.flushes.is_empty() {
                state.flushing = true;
                state.dirty = state.guaranteed_in_flight > Bytes::ZERO;
                // What arrives from now on belongs to the next sweep.
                state.sweeping &= backlog || state.guaranteed_in_flight > Bytes::ZERO;
                let State { flushes, polite_flushes, .. } = &mut *state;
                return Choice::Flush(flushes.drain(..).chain(polite_flushes.drain(..)).collect());
            }
        }
        if state.metadata_in_flight < 4
            && let Some(first) = state.metadata.front()
            && (between || now >= first.deadline || !rotates)
            && let Some(pending) = state.metadata.pop_front()
        {
            return Choice::Start(Class::Metadata, pending);
        }
        if rotates && state.flushing {
            // Whatever a drive is given while it empties its cache makes that last longer, and acknowledgements wait for it.
            return Choice::Wait(None);
        }
        let slice = self.slice().0;
        let normal_limit = if rotates { NORMAL_IN_FLIGHT_ROTATING } else { NORMAL_IN_FLIGHT_FLAT };
        if rotates && state.sweeping && !backlog {
            // The sweep is over once it is durable; the flush comes from who waits for that, at once.
            let expected = state.last_guaranteed_end + ANTICIPATION;
            if state.flushing || state.guaranteed_in_flight > Bytes::ZERO {
                return Choice::Wait(None);
            }
            if state.dirty && now < expected {
                return Choice::Wait(Some(expected));
            }
        }
        let turn = state.turn(now, rotates, slice);
        if !backlog {
            state.sweeping = false;
            state.current_ring = None;
            return match turn {
                Turn::Ready if state.normal_in_flight < normal_limit => state.start_normal(),
                Turn::Expected(moment) => Choice::Wait(Some(moment)),
                _ => Choice::Wait(None),
            };
        }
        if !(rotates && state.sweeping) {
            let slack = slack::slack(&state, &profile, now);
            match turn {
                Turn::Ready if slack > state.next_normal_worst(&profile) => {
                    if state.normal_in_flight < normal_limit {
                        let least = state.counters.least_slack;
                        state.counters.least_slack = if least.is_zero() { slack } else { least.min(slack) };
                        return state.start_normal();
                    }
                    if rotates {
                        // The arm belongs to the readers until slack runs out; their next end will ask again.
                        return Choice::Wait(None);
                    }
                }
                Turn::Ready => state.counters.throttled += 1,
                Turn::Expected(moment) if slack > moment.since(now) + profile.full_seek => {
                    return Choice::Wait(Some(moment));
                }
                _ => {}
            }
        }
        if rotates && !state.sweeping {
            state.sweeping = true;
            state.counters.sweeps += 1;
        }
        if rotates && state.platters_free > now + AHEAD {
            return Choice::Wait(Some(state.platters_free - AHEAD));
        }
        if state.guaranteed_in_flight < GUARANTEED_IN_FLIGHT
            && let Some(pending) = state.next_guaranteed(&profile, now)
        {
            return Choice::Start(Class::Guaranteed, pending);
        }
        Choice::Wait(None)
    }

    fn start(&self, class: Class, pending: Pending) {
        let Pending { direction, offset, buffer, deadline, stream, done } = pending;
        let length = Bytes(buffer.len() as u64);
        let worst = {
            let profile = self.inner.profile.borrow();
            let mut state = self.inner.state.borrow_mut();
            let position = profile.position_time(state.head, offset);
            let rate =
                if direction == Direction::Read { profile.read_rate(offset) } else { profile.write_rate(offset) };
            let worst = position + rate.time_for(length);
            state.busy += worst;
            state.head = offset + length;
            match class {
                Class::Guaranteed => {
                    let now = self.inner.env.clock.now();
                    state.platters_free = state.platters_free.max(now) + rate.time_for(length);
                    state.dirty = true;
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
            this.stream_ended(stream);
            done.give((buffer, result));
            this.pump();
        });
    }

    fn ended(
        &self,
        class: Class,
        direction: Direction,
        length: Bytes,
        worst: Duration,
        deadline: Moment,
        result: &Result<()>,
    ) {
        let now = self.inner.env.clock.now();
        let mut state = self.inner.state.borrow_mut();
        state.busy -= worst;
        match class {
            Class::Guaranteed => {
                state.guaranteed_in_flight -= length;
                state.last_guaranteed_end = now;
                if now > deadline {
                    state.counters.missed_deadlines += 1;
                }
            }
            Class::Normal => {
                state.normal_in_flight -= 1;
            }
            Class::Metadata => state.metadata_in_flight -= 1,
        }
        if direction == Direction::Write
            && let Err(error) = result
        {
            state.fail(error);
        }
    }

    fn stream_ended(&self, id: Option<StreamId>) {
        let now = self.inner.env.clock.now();
        let mut state = self.inner.state.borrow_mut();
        if let Some(stream) = state.streams.iter_mut().find(|s| Some(s.id) == id) {
            stream.in_flight -= 1;
            stream.last_end = now;
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
    /// Whose turn it is, and whether it wants something. Where turns cost a seek, the stream whose turn it is keeps it
    /// through a short pause, as readers think between reads.
    fn turn(&mut self, now: Moment, rotates: bool, slice: u64) -> Turn {
        for _ in 0..self.streams.len() {
            let Some(stream) = self.streams.front_mut() else { break };
            stream.slice = stream.slice.min(slice);
            if !stream.queue.is_empty() {
                return Turn::Ready;
            }
            let until = if stream.in_flight > 0 { now + ANTICIPATION } else { stream.last_end + ANTICIPATION };
            if rotates && stream.slice < slice && now < until {
                return Turn::Expected(until);
            }
            stream.slice = slice;
            self.streams.rotate_left(1);
        }
        Turn::Nobody
    }

    /// Starts the first I/O of the stream whose turn it is.
    fn start_normal(&mut self) -> Choice {
        let stream = self.streams.front_mut().expect("a stream has its turn");
        let pending = stream.queue.pop_front().expect("it wants something");
        stream.in_flight += 1;
        let used = pending.buffer.len() as u64;
        if stream.slice > used {
            stream.slice -= used;
        } else {
            // Whoever's turn ends begins the next one with a whole slice, which `turn` gives.
            stream.slice = u64::MAX;
            self.streams.rotate_left(1);
        }
        Choice::Start(Class::Normal, pending)
    }

    /// The longest that the next normal I/O may take, from where the arm will be.
    fn next_normal_worst(&self, profile: &Profile) -> Duration {
        // The stream whose turn it is: the first that has something queued.
        let next = self.streams.iter().find(|s| !s.queue.is_empty()).and_then(|s| s.queue.front());
        next.map_or(Duration::ZERO, |p| {
            profile.position_time(self.head, p.offset)
                + profile.read_rate(p.offset).time_for(Bytes(p.buffer.len() as u64))
        })
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
