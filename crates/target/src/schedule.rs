//! The scheduler: the only way to the device, and where the promise is kept.
//!
//! Classes: *guaranteed* (ring writes, each with a deadline), *metadata* (checkpoints; few, part of admission, between
//! sweeps if they can wait), *latency* (records of objects), *normal* (fair shares in bytes per stream) and *background*
//! (what nobody waits for: it is done while nothing else is, and beside other work for a thirty-second of the time, so
//! that it ends). A normal or background I/O starts only if its worst case by the profile fits in the slack that the
//! guaranteed deadlines leave; what has been started cannot be taken back, so it is kept small.
//!
//! On a device that rotates, the two classes take turns in long runs instead of mixing: guaranteed writes collect in
//! memory while readers read, until the slack is used up; then all of them go out in one sweep. That is what makes the
//! seeks cheap (Mahanaxar, MSST 2010, "large block operations"; disk-time reservation as in `docs/promises/ring.md`).
//! On a device that does not, writes go out as they come, and reads are held back as long as a flush owes too much.
//! A ring that was promised nothing is guaranteed nothing beside one that was: it writes as a stream of normal I/O there.
//!
//! Where several rings are promised something, a sweep visits each once and empties it, and the next one begins when
//! slack is used up, whether or not anybody reads meanwhile: begun for each write, sweeps would spend the time of the
//! device on the way between rings and on flushes. One ring comes in between another's writes when its own latest
//! start has come; where both are late, the visits stay long.
//!
//! A drive with a write cache takes writes faster than its platters do, and owes the rest. A sweep therefore goes out at
//! the pace of the platters by the profile, and is over only when the flush that ends it is: reads that came in between
//! would make the arm commute. Of all things only the blocks of the sweep that lie right behind what was written last may
//! be written beside a flush on its way: as much as the platters take in 60 ms, and none if the flush covers metadata,
//! which takes the arm away.
//!
//! After the device has failed a write or a flush once, everything but reads is refused until the target is opened
//! again: what the device still holds is unknown.

mod background;
mod beyond;
mod pace;
mod slack;
mod state;
mod streams;
mod visits;

pub(crate) use beyond::Promised;
pub(crate) use state::{AHEAD, Expected, LOGS_IN_FLIGHT};

use crate::promise::{Giver, Promise, promise};
use forebay_env::{Buffer, Env, Geometry};
use forebay_model::{Bytes, Error, Moment, Profile, Rate, Result, RingId};
use state::{Choice, State};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// How long metadata waits for a moment between sweeps before it goes anyway, if no ring needs it sooner: longer than
/// from one sweep to the next.
const METADATA_PATIENCE: Duration = Duration::from_secs(2);

/// The most bytes of one I/O in the background: what others may have to wait for.
pub const MOST_IN_BACKGROUND: Bytes = Bytes::mib(4);

/// Who a normal I/O belongs to: shares are fair between streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct StreamId(pub u64);

type Outcome = (Buffer, Result<()>);

/// A flush of the device.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Flush {
    /// How many were begun with it.
    pub(crate) number: u64,
    /// When it was begun.
    pub(crate) began: Moment,
}

/// What rings are told of.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Event {
    /// A flush ended well, whoever asked for it.
    Flushed(Flush),
    /// A sweep over several rings is over.
    Swept,
}

type Told = Rc<dyn Fn(Event)>;

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
    patience: Cell<Duration>,
    told: RefCell<BTreeMap<RingId, Told>>,
}

/// Classes of I/O, each with rules of its own about when it is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Class {
    /// Writes of rings, which have deadlines.
    Guaranteed,
    /// Records in logs, for which somebody waits.
    Latency,
    /// What the target keeps of itself.
    Metadata,
    /// Everything else for which somebody waits.
    Normal,
    /// What nobody waits for.
    Background,
}

impl Class {
    /// All of them, in the order of their places.
    pub const ALL: [Class; 5] = [Class::Guaranteed, Class::Latency, Class::Metadata, Class::Normal, Class::Background];

    /// The name in metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Class::Guaranteed => "guaranteed",
            Class::Latency => "latency",
            Class::Metadata => "metadata",
            Class::Normal => "normal",
            Class::Background => "background",
        }
    }
}

/// Bytes of one class of I/O since the scheduler was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Moved {
    /// Read.
    pub read: Bytes,
    /// Written.
    pub written: Bytes,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Direction {
    Read,
    Write,
}

/// Who cannot go on before metadata is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Waiting {
    /// A ring: its promise may depend on it.
    Ring,
    /// Objects, which wait for the moments that promises leave.
    Objects,
}

struct Pending {
    direction: Direction,
    offset: Bytes,
    buffer: Buffer,
    deadline: Moment,
    stream: Option<StreamId>,
    /// How it counts against its ring's promised rate.
    promised: Option<Promised>,
    /// Asked before it is started: whether somebody still wants it.
    wanted: Option<Box<dyn Fn() -> bool>>,
    /// Whether it ends only when what it wrote is durable.
    durable: bool,
    done: Giver<Outcome>,
}

impl Pending {
    /// What may wait for ever and belongs to nobody; and how it will end.
    fn new(direction: Direction, offset: Bytes, buffer: Buffer) -> (Pending, Promise<Outcome>) {
        let (done, result) = promise();
        let deadline = Moment(u64::MAX);
        let (stream, promised, wanted, durable) = (None, None, None, false);
        (Pending { direction, offset, buffer, deadline, stream, promised, wanted, durable, done }, result)
    }
}

/// What the scheduler has done since it was started.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Bytes of guaranteed writes.
    pub guaranteed: Bytes,
    /// Those of them that were beyond what their rings were promised.
    pub beyond: Bytes,
    /// Bytes of normal reads and writes.
    pub normal: Bytes,
    /// Bytes of metadata.
    pub metadata: Bytes,
    /// Bytes of records in logs.
    pub logged: Bytes,
    /// Bytes of what nobody waited for.
    pub background: Bytes,
    /// Guaranteed writes that ended after their deadline.
    pub missed_deadlines: u64,
    /// Normal I/Os that had to wait for slack.
    pub throttled: u64,
    /// The least slack at which a normal I/O was started.
    pub least_slack: Duration,
    /// Sweeps of guaranteed writes.
    pub sweeps: u64,
    /// Copies of the checkpoint that were not there when they were read back, and were written again.
    pub rewritten: u64,
}

impl Scheduler {
    /// A scheduler for the device of `env`, trusting `profile`.
    pub fn new(env: Env, profile: Profile) -> Scheduler {
        let geometry = env.device.geometry();
        Scheduler {
            inner: Rc::new(Inner {
                env,
                geometry,
                profile: RefCell::new(profile),
                state: RefCell::default(),
                patience: Cell::new(METADATA_PATIENCE),
                told: RefCell::default(),
            }),
        }
    }

    /// The device.
    pub fn geometry(&self) -> &Geometry {
        &self.inner.geometry
    }

    /// Whether the device has an arm to move, by its profile: virtual disks often say that they rotate when nothing does.
    pub fn rotates(&self) -> bool {
        self.inner.profile.borrow().rotates
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

    /// What was read and written of a class so far.
    pub fn moved(&self, class: Class) -> Moved {
        self.inner.state.borrow().moved[class as usize]
    }

    /// How many times longer than at its worst by the profile the device takes; 0 if that is not worth a word.
    pub fn slower(&self) -> u32 {
        self.inner.state.borrow().pace.slower(self.inner.env.clock.now())
    }

    /// How long the device had something to do, since the scheduler was started.
    pub fn busy(&self) -> Duration {
        self.inner.state.borrow().pace.busy(self.inner.env.clock.now())
    }

    /// Why writes are refused, if they are.
    pub fn failure(&self) -> Option<Error> {
        self.inner.state.borrow().failed.clone()
    }

    /// Counts a copy of the checkpoint that was not there when it was read back.
    pub(crate) fn count_rewritten(&self) {
        self.inner.state.borrow_mut().counters.rewritten += 1;
    }

    /// The device does not keep what it is given: from now on it is as after a write that failed. Returns `error`.
    pub(crate) fn give_up(&self, error: Error) -> Error {
        self.inner.state.borrow_mut().fail(&error);
        self.pump();
        error
    }

    /// Says how a ring's writes will go on coming: a sweep lasts longer for it.
    pub(crate) fn expect(&self, ring: RingId, expected: Expected) {
        let mut state = self.inner.state.borrow_mut();
        state.expected.insert(ring, expected);
        state.see_promises();
        drop(state);
        self.pump();
    }

    /// Whether some ring is promised a rate.
    pub(crate) fn is_promised(&self) -> bool {
        self.inner.state.borrow().is_promised()
    }

    /// A ring that writes no more.
    pub(crate) fn expect_nothing(&self, ring: RingId) {
        let mut state = self.inner.state.borrow_mut();
        state.expected.remove(&ring);
        state.given.remove(&ring);
        state.streams.end(beyond::stream(ring));
        if !state.is_promised() {
            state.streams.swept(None);
        }
        state.see_promises();
        drop(state);
        self.inner.told.borrow_mut().remove(&ring);
        self.pump();
    }

    /// Tells a ring of each flush and sweep from now on. When a flush ended well, all writes are durable that had ended while
    /// fewer flushes were begun than its number.
    pub(crate) fn tell(&self, ring: RingId, told: impl Fn(Event) + 'static) {
        self.inner.told.borrow_mut().insert(ring, Rc::new(told));
    }

    fn happened(&self, event: Event) {
        let told: Vec<Told> = self.inner.told.borrow().values().cloned().collect();
        told.into_iter().for_each(|told| told(event));
    }

    /// Whether a ring with this guarantee writes as everybody else does: it was promised nothing, and others were.
    pub(crate) fn is_beside_promises(&self, guarantee: Rate) -> bool {
        guarantee == Rate(0) && self.is_promised()
    }

    /// Whether more than one ring is promised a rate on a device that rotates: each may find the arm at another one.
    pub(crate) fn alternates(&self) -> bool {
        self.rotates() && self.inner.state.borrow().is_promised_to_several()
    }

    /// How many flushes were begun so far.
    pub(crate) fn flushes_begun(&self) -> u64 {
        self.inner.state.borrow().flushes_begun
    }

    /// Metadata of rings waits for a moment between sweeps no longer than `patience` from now on.
    pub(crate) fn set_patience(&self, patience: Duration) {
        self.inner.patience.set(patience.min(METADATA_PATIENCE));
    }

    /// A ring needs metadata durable in time, or no more: as long as one does, what waits and what comes has a ring's
    /// patience, since admission has reckoned with that. What only others wait for would take a promise's time with it.
    pub(crate) fn need(&self, needed: bool) {
        let latest = self.inner.env.clock.now() + self.inner.patience.get();
        self.inner.state.borrow_mut().need(needed, latest);
        self.pump();
    }

    /// How long metadata that is handed in now waits for a better moment. What has no arm to move loses little by it.
    fn patience(&self) -> Duration {
        let is_left_to_others = self.rotates() && !self.inner.state.borrow().is_needed();
        if is_left_to_others { METADATA_PATIENCE } else { self.inner.patience.get() }
    }

    /// Somebody cannot go on before metadata is durable, or can again: as long as there is one, it waits for nothing but the time
    /// that a promise needs, and if it is a ring, not for that.
    pub(crate) fn hurry(&self, who: Waiting, hurried: bool) {
        self.inner.state.borrow_mut().hurry(who, hurried);
        self.pump();
    }

    /// Whether guaranteed writes have the arm.
    pub(crate) fn is_sweeping(&self) -> bool {
        self.inner.state.borrow().sweeping
    }

    /// How long the next flush lasts for what a drive has taken beside guaranteed writes and not written, where something is promised.
    pub(crate) fn owed(&self) -> Duration {
        let state = self.inner.state.borrow();
        let counts = self.rotates() && state.is_promised();
        if counts { state.owed_until.since(self.inner.env.clock.now()) } else { Duration::ZERO }
    }

    /// How much sooner than counted at its promised rate a ring's writes are due, since it wrote so much beyond.
    pub(crate) fn given(&self, ring: RingId) -> Duration {
        self.inner.state.borrow().given(ring)
    }

    /// Writes ring data by `deadline`. Writes of one ring start in the order in which they were handed in.
    pub async fn write_guaranteed(&self, ring: RingId, offset: Bytes, buffer: Buffer, deadline: Moment) -> Outcome {
        self.write_promised(ring, offset, buffer, deadline, None).await
    }

    /// As [`Scheduler::write_guaranteed`], of a ring that may come faster than it was promised: `deadline` is counted at
    /// the promised rate, [`Scheduler::given`] included.
    pub(crate) async fn write_promised(
        &self,
        ring: RingId,
        offset: Bytes,
        buffer: Buffer,
        deadline: Moment,
        promised: Option<Promised>,
    ) -> Outcome {
        if let Some(error) = self.failure() {
            return (buffer, Err(error));
        }
        let (pending, result) = Pending::new(Direction::Write, offset, buffer);
        let pending = Pending { deadline, promised, ..pending };
        self.inner.state.borrow_mut().push_of_ring(ring, pending, self.rotates());
        self.pump();
        result.await
    }

    /// Reads for `stream`, when there is slack.
    pub async fn read(&self, stream: StreamId, offset: Bytes, buffer: Buffer) -> Outcome {
        self.read_for(stream, offset, buffer, None).await
    }

    /// As [`Scheduler::read`], unless by the time it could start `wanted` says no: then it fails as expired.
    pub async fn read_while(
        &self,
        stream: StreamId,
        offset: Bytes,
        buffer: Buffer,
        wanted: impl Fn() -> bool + 'static,
    ) -> Outcome {
        self.read_for(stream, offset, buffer, Some(Box::new(wanted))).await
    }

    async fn read_for(
        &self,
        stream: StreamId,
        offset: Bytes,
        buffer: Buffer,
        wanted: Option<Box<dyn Fn() -> bool>>,
    ) -> Outcome {
        let (pending, result) = Pending::new(Direction::Read, offset, buffer);
        self.normal(stream, Pending { wanted, ..pending });
        result.await
    }

    /// Writes for `stream`, when there is slack.
    pub async fn write(&self, stream: StreamId, offset: Bytes, buffer: Buffer) -> Outcome {
        if let Some(error) = self.failure() {
            return (buffer, Err(error));
        }
        let (pending, result) = Pending::new(Direction::Write, offset, buffer);
        self.normal(stream, pending);
        result.await
    }

    fn normal(&self, stream: StreamId, pending: Pending) {
        let pending = Pending { stream: Some(stream), ..pending };
        let rotates = self.rotates();
        self.inner.state.borrow_mut().streams.push(stream, pending, rotates);
        self.pump();
    }

    /// Reads when nothing else is to be done, or for a small share of the time beside it; at most
    /// [`MOST_IN_BACKGROUND`] at once.
    pub async fn read_background(&self, offset: Bytes, buffer: Buffer) -> Outcome {
        self.background(Direction::Read, offset, buffer).await
    }

    /// Writes like [`Scheduler::read_background`] reads.
    pub async fn write_background(&self, offset: Bytes, buffer: Buffer) -> Outcome {
        if let Some(error) = self.failure() {
            return (buffer, Err(error));
        }
        self.background(Direction::Write, offset, buffer).await
    }

    async fn background(&self, direction: Direction, offset: Bytes, buffer: Buffer) -> Outcome {
        if buffer.len() as u64 > MOST_IN_BACKGROUND.0 {
            let why = format!("{} at once are too many in the background", Bytes(buffer.len() as u64));
            return (buffer, Err(Error::usage(why)));
        }
        let (pending, result) = Pending::new(direction, offset, buffer);
        self.inner.state.borrow_mut().background.push_back(pending);
        self.pump();
        result.await
    }

    /// Reads when nothing else is to be done, however long that takes, or fails as expired when
    /// [`Scheduler::refuse_when_quiet`] comes first.
    pub(crate) async fn read_when_quiet(&self, offset: Bytes, buffer: Buffer) -> Outcome {
        let (pending, result) = Pending::new(Direction::Read, offset, buffer);
        self.inner.state.borrow_mut().when_quiet.push_back(pending);
        self.pump();
        result.await
    }

    /// Nobody wants any more what waits until nothing else is to be done.
    pub(crate) fn refuse_when_quiet(&self) {
        let unwanted = std::mem::take(&mut self.inner.state.borrow_mut().when_quiet);
        for Pending { buffer, done, .. } in unwanted {
            done.give((buffer, Err(Error::expired("what was to be read is written anew"))));
        }
    }

    /// How many bytes at `offset` could be read in half of the time that guaranteed writes leave now.
    pub fn spare(&self, offset: Bytes) -> Bytes {
        let profile = self.inner.profile.borrow();
        let slack = slack::slack(&self.inner.state.borrow(), &profile, self.inner.env.clock.now());
        if slack == Duration::MAX { Bytes(u64::MAX) } else { profile.read_rate(offset).bytes_in(slack / 2) }
    }

    /// Writes records to a log, before all that has no guarantee. If they are to be `durable` when this ends, there is no
    /// need of a flush behind them: where nothing rotates, several such writes go on side by side.
    pub async fn write_log(&self, offset: Bytes, buffer: Buffer, durable: bool) -> Outcome {
        if let Some(error) = self.failure() {
            return (buffer, Err(error));
        }
        let (pending, result) = Pending::new(Direction::Write, offset, buffer);
        self.inner.state.borrow_mut().log.push_back(Pending { durable, ..pending });
        self.pump();
        result.await
    }

    /// Where the last I/O ends that was neither a record nor metadata: records go near there.
    pub fn tracker(&self) -> Bytes {
        self.inner.state.borrow().tracker
    }

    /// Forgets a stream that will read no more.
    pub fn end_stream(&self, stream: StreamId) {
        self.inner.state.borrow_mut().streams.end(stream);
        self.pump();
    }

    /// Others wait for what this stream asks for, or for none any more: it has every second turn of normal I/O, and beside a promise,
    /// which leaves few, every one that it wants.
    pub(crate) fn hasten(&self, stream: Option<StreamId>) {
        let changed = {
            let mut state = self.inner.state.borrow_mut();
            let every_turn = state.is_promised();
            state.streams.hasten(stream, every_turn)
        };
        if changed {
            self.pump();
        }
    }

    #[cfg(test)]
    pub(crate) fn hastened(&self) -> Option<StreamId> {
        self.inner.state.borrow().streams.hastened()
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
        let (pending, result) = Pending::new(direction, offset, buffer);
        let deadline = self.inner.env.clock.now() + self.patience();
        self.inner.state.borrow_mut().metadata.push_back(Pending { deadline, ..pending });
        self.pump();
        result.await
    }

    /// As [`Scheduler::flush`], for metadata: waits for a moment between sweeps, unless another flush comes first.
    pub async fn flush_metadata(&self) -> Result<()> {
        if let Some(error) = self.failure() {
            return Err(error);
        }
        let (done, result) = promise();
        let until = self.inner.env.clock.now() + self.patience();
        {
            let mut state = self.inner.state.borrow_mut();
            if state.polite_flushes.is_empty() {
                state.polite_until = until;
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

    /// Starts whatever may start now.
    fn pump(&self) {
        loop {
            let choice = self.choose();
            match choice {
                Choice::Start(class, pending) => self.start(class, pending),
                Choice::Flush(waiting) => self.start_flush(waiting),
                Choice::Refuse(pending) => {
                    pending.done.give((pending.buffer, Err(Error::expired("what was to be read was overwritten"))));
                }
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
        let (choice, swept) = {
            let profile = self.inner.profile.borrow();
            let mut state = self.inner.state.borrow_mut();
            let swept = state.sweeping && state.is_promised_to_several();
            let choice = state.choose(&profile, now);
            (choice, swept && !state.sweeping)
        };
        if swept {
            self.happened(Event::Swept);
        }
        choice
    }

    fn start(&self, class: Class, pending: Pending) {
        if let Some(error) = self.failure().filter(|_| pending.direction == Direction::Write) {
            // It was handed in before the device failed, and would come after.
            if let Some(stream) = pending.stream {
                self.inner.state.borrow_mut().streams.ended(stream, self.inner.env.clock.now());
            }
            return pending.done.give((pending.buffer, Err(error)));
        }
        let now = self.inner.env.clock.now();
        let started = {
            let profile = self.inner.profile.borrow();
            self.inner.state.borrow_mut().started(class, &pending, &profile, now)
        };
        let Pending { direction, offset, buffer, stream, durable, done, .. } = pending;
        let io = match direction {
            Direction::Read => self.inner.env.device.read(offset, buffer),
            Direction::Write if durable => self.inner.env.device.write_durable(offset, buffer),
            Direction::Write => self.inner.env.device.write(offset, buffer),
        };
        let this = self.clone();
        self.inner.env.spawner.detach(async move {
            let (buffer, result) = io.await;
            {
                let now = this.inner.env.clock.now();
                let mut state = this.inner.state.borrow_mut();
                state.ended(&started, &result, now);
                if let Some(stream) = stream {
                    state.streams.ended(stream, now);
                }
            }
            done.give((buffer, result));
            this.pump();
        });
    }

    fn start_flush(&self, waiting: Vec<Giver<Result<()>>>) {
        let io = self.inner.env.device.flush();
        let began = self.inner.env.clock.now();
        let (flush, worst) = {
            let mut state = self.inner.state.borrow_mut();
            let worst = state.flush_worst(&self.inner.profile.borrow());
            state.pace.started(worst, began);
            (Flush { number: state.flushes_begun, began }, worst)
        };
        let this = self.clone();
        self.inner.env.spawner.detach(async move {
            let result = io.await;
            let now = this.inner.env.clock.now();
            {
                let mut state = this.inner.state.borrow_mut();
                state.pace.ended(worst, now);
                state.flushed(&result, now);
            }
            // Who waited for this flush must not believe an earlier failure undone.
            let result = this.failure().map_or(result, Err);
            if result.is_ok() {
                this.happened(Event::Flushed(flush));
            }
            for waiter in waiting {
                waiter.give(result.clone());
            }
            this.pump();
        });
    }
}

#[cfg(test)]
mod tests;
