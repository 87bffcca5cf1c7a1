//! What the scheduler knows, and what it decides from that: no I/O, no waiting.

use super::pace::Pace;
use super::slack;
use super::streams::{ANTICIPATION, Streams, Turn};
use super::{Class, Counters, Direction, Moved, Pending, Waiting};
use crate::promise::Giver;
use forebay_model::{Bytes, Error, Moment, Profile, Rate, Result, RingId};
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The most bytes of guaranteed writes in flight: enough for every device we know to stream.
const GUARANTEED_IN_FLIGHT: Bytes = Bytes::mib(8);
/// The most normal I/Os in flight on a device that rotates: two, so that the second is queued when the first ends.
const NORMAL_IN_FLIGHT_ROTATING: usize = 2;
/// The same of small reads, while nothing is promised: a drive finds short ways between those that it knows.
const LIGHT_IN_FLIGHT: usize = 4;
/// What is small there: the arm takes longer to come than to read it.
const LIGHT: usize = Bytes::kib(256).0 as usize;
/// The same on one that does not: its channels want work.
const NORMAL_IN_FLIGHT_FLAT: usize = 8;
/// And where there is no ring, so that nothing is promised that would have to wait for them.
const NORMAL_IN_FLIGHT_FREE: usize = 32;
/// The most writes of records in flight on a device that does not rotate: while one becomes durable, others are gathered.
pub(crate) const LOGS_IN_FLIGHT: usize = 4;
/// The most metadata I/Os in flight.
const METADATA_IN_FLIGHT: usize = 4;
/// How far writes may run ahead of what the platters take by the profile.
pub(crate) const AHEAD: Duration = Duration::from_millis(30);
/// How much of a sweep goes on beside a flush on its way: as much as keeps the platters busy until it ends, so that they
/// need no turn to find where it went on.
const BESIDE_FLUSH: Duration = Duration::from_millis(60);
/// How long after the last guaranteed write another one is counted on, and with it another flush.
const LULL: Duration = Duration::from_millis(1500);
/// So many steps of a checkpoint others leave time for, and this part of the nearest deadlines at most, as a divisor.
const STEPS_KEPT: u32 = 4;
const KEPT_PART: u32 = 4;
/// How long records gather at most while others have the arm.
const MOST_GATHERED: Duration = Duration::from_millis(500);

/// How a ring's writes will go on coming.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Expected {
    /// At which rate, everything that is written for the promised bytes included.
    pub(crate) rate: Rate,
    /// In runs of which length.
    pub(crate) run: Bytes,
    /// How long after their acceptance they must be durable.
    pub(crate) lag: Duration,
}

impl Expected {
    /// Of a ring that has said nothing.
    pub(super) const NOTHING: Expected = Expected { rate: Rate(0), run: Bytes::mib(64), lag: Duration::from_secs(1) };
}

/// A guaranteed write that no flush has covered yet.
pub(super) struct Undurable {
    pub(super) deadline: Moment,
    /// What it takes the device, by the profile.
    pub(super) takes: Duration,
    ended: bool,
}

#[derive(Default)]
pub(super) struct State {
    pub(super) guaranteed: BTreeMap<RingId, VecDeque<Pending>>,
    /// What rings have written beyond what they were promised, in time at the promised rate.
    pub(super) given: BTreeMap<RingId, Duration>,
    pub(super) expected: BTreeMap<RingId, Expected>,
    pub(super) metadata: VecDeque<Pending>,
    /// Records on their way to logs.
    pub(super) log: VecDeque<Pending>,
    log_in_flight: usize,
    /// When the record began that no flush has covered yet, and until when the next one leaves the arm to others.
    log_began: Option<Moment>,
    log_due: Moment,
    /// What nobody waits for.
    pub(super) background: VecDeque<Pending>,
    /// That of it which waits until nothing else is done, and has no share of the time.
    pub(super) when_quiet: VecDeque<Pending>,
    pub(super) background_in_flight: usize,
    /// When the last I/O ended that was not that; and from when on some of it is begun beside others.
    pub(super) foreground_end: Moment,
    pub(super) background_due: Moment,
    /// Since when the first of it has waited.
    pub(super) background_asked: Option<Moment>,
    /// How many rings, and others, cannot go on before metadata is durable.
    waiting_rings: usize,
    waiting_others: usize,
    /// How many rings need metadata durable in time.
    needing: usize,
    pub(super) streams: Streams,
    pub(super) flushes: VecDeque<Giver<Result<()>>>,
    /// Flushes of metadata, and until when they can wait for a moment between sweeps.
    pub(super) polite_flushes: VecDeque<Giver<Result<()>>>,
    pub(super) polite_until: Moment,
    pub(super) flushing: bool,
    /// Flushes that were begun.
    pub(super) flushes_begun: u64,
    /// How long it takes at the worst to write what was written since the last one began.
    unflushed: Duration,
    guaranteed_in_flight: Bytes,
    normal_in_flight: usize,
    metadata_in_flight: usize,
    /// How long everything in flight takes at the worst, were it all still to be done; and the normal part of it.
    pub(super) busy: Duration,
    pub(super) normal_busy: Duration,
    /// Guaranteed writes in the order of their start, from the one numbered `first_undurable` on.
    pub(super) undurable: VecDeque<Undurable>,
    first_undurable: u64,
    /// Up to which of them the flush under way covers.
    flush_covers: u64,
    /// Whether metadata was written since the last flush began, and before it: such a flush takes the arm away.
    metadata_dirty: bool,
    flush_moves: bool,
    /// Where the last dispatched I/O ends.
    pub(super) head: Bytes,
    /// Where the last one ends that was neither a record nor metadata: what logs are chosen by.
    pub(super) tracker: Bytes,
    pub(super) sweeping: bool,
    /// Bytes of what has turns since the last sweep began: of normal I/O, and of rings beyond what they were promised.
    pub(super) in_turn: Bytes,
    /// When the platters have taken all that was written, by the profile.
    platters_free: Moment,
    /// Until when the platters are busy with normal writes and metadata that the drive has taken, by the profile; and whether
    /// there were any since the last flush began.
    pub(super) owed_until: Moment,
    owed_anew: bool,
    /// Whether anything was written since the last flush began, and when that ended.
    dirty: bool,
    last_guaranteed_end: Moment,
    /// The ring that is being written, and its bytes since it was another one: where all are late, an arm that went
    /// from one to the other with each write would make them all later.
    pub(super) current_ring: Option<RingId>,
    pub(super) run: Bytes,
    /// Rings that the sweep has left.
    pub(super) visited: BTreeSet<RingId>,
    pub(super) timer: Option<Moment>,
    pub(super) failed: Option<Error>,
    pub(super) counters: Counters,
    /// By class, at its place.
    pub(super) moved: [Moved; Class::ALL.len()],
    pub(super) pace: Pace,
}

/// The slack of one decision: found out if somebody asks, and once.
pub(super) struct Slack<'a> {
    pub(super) profile: &'a Profile,
    pub(super) now: Moment,
    found: OnceCell<Duration>,
}

impl Slack<'_> {
    /// Of `state`, whose queues have not changed since the first call.
    pub(super) fn of(&self, state: &State) -> Duration {
        *self.found.get_or_init(|| slack::slack(state, self.profile, self.now))
    }
}

/// What is to be done next.
pub(super) enum Choice {
    Start(Class, Pending),
    Flush(Vec<Giver<Result<()>>>),
    /// Nobody wants it any more.
    Refuse(Pending),
    Wait(Option<Moment>),
}

/// An I/O that was started, for [`State::ended`].
pub(super) struct Started {
    class: Class,
    pub(super) direction: Direction,
    length: Bytes,
    worst: Duration,
    deadline: Moment,
    ticket: u64,
}

#[cfg(test)]
impl Started {
    pub(super) fn length(&self) -> Bytes {
        self.length
    }
}

/// Whether an I/O is a small read. While nothing is promised that could suffer, that goes out beside records and
/// flushes, too, since the drive reads it on its way. Long ones would hold up both.
fn is_light(io: &Pending) -> bool {
    io.direction == Direction::Read && io.buffer.len() <= LIGHT
}

impl State {
    /// The next thing to do at `now`. Whatever is chosen to be started has been taken off its queue.
    pub(super) fn choose(&mut self, profile: &Profile, now: Moment) -> Choice {
        let rotates = profile.rotates;
        if let Some(unwanted) = self.streams.take_unwanted() {
            return Choice::Refuse(unwanted);
        }
        if !self.background.is_empty() {
            self.background_asked.get_or_insert(now);
        }
        let backlog = self.guaranteed.values().any(|q| !q.is_empty());
        let slack = Slack { profile, now, found: OnceCell::new() };
        if !self.flushing && (!self.flushes.is_empty() || self.is_moment_for_polite_flush(backlog, &slack)) {
            return self.begin_flush(backlog);
        }
        if self.is_moment_for_log(&slack)
            && let Some(pending) = self.log.pop_front()
        {
            return Choice::Start(Class::Latency, pending);
        }
        if self.is_moment_for_metadata(backlog, &slack)
            && let Some(pending) = self.metadata.pop_front()
        {
            return Choice::Start(Class::Metadata, pending);
        }
        self.see_beyond(rotates, now);
        let choice = if rotates { self.choose_sweep_or_reads(backlog, &slack) } else { self.choose_both(&slack) };
        match choice {
            Choice::Wait(moment) => {
                if let Some(pending) = self.take_background(&slack) {
                    return Choice::Start(Class::Background, pending);
                }
                let wakes = self
                    .metadata_wakes(now)
                    .into_iter()
                    .chain(self.background_wakes(&slack))
                    .chain(self.log_wakes(&slack))
                    .chain(self.within_at().filter(|moment| *moment > now));
                Choice::Wait(moment.into_iter().chain(wakes).min())
            }
            started => started,
        }
    }

    /// Whether the device has nothing to do but what can wait.
    pub(super) fn is_idle(&self) -> bool {
        let waiting = self.streams.next().is_some() || !self.log.is_empty() || !self.metadata.is_empty();
        let in_flight = self.normal_in_flight + self.log_in_flight + self.metadata_in_flight;
        let guaranteed =
            self.guaranteed_in_flight > Bytes::ZERO || self.guaranteed.values().any(|waiting| !waiting.is_empty());
        !waiting && in_flight == 0 && !guaranteed && !self.flushing
    }

    /// Whether some ring is promised a rate.
    pub(super) fn is_promised(&self) -> bool {
        self.expected.values().any(|expected| expected.rate > Rate(0))
    }

    /// One more cannot go on before metadata is durable, or one less.
    pub(super) fn hurry(&mut self, who: Waiting, hurried: bool) {
        let count = match who {
            Waiting::Ring => &mut self.waiting_rings,
            Waiting::Objects => &mut self.waiting_others,
        };
        *count = if hurried { *count + 1 } else { count.saturating_sub(1) };
    }

    /// One more ring needs metadata durable in time, or one less: what waits now is begun by `latest`.
    pub(super) fn need(&mut self, needed: bool, latest: Moment) {
        self.needing = if needed { self.needing + 1 } else { self.needing.saturating_sub(1) };
        if self.is_needed() {
            self.metadata.iter_mut().for_each(|pending| pending.deadline = pending.deadline.min(latest));
            self.polite_until = self.polite_until.min(latest);
        }
    }

    /// Whether a ring needs metadata durable in time.
    pub(super) fn is_needed(&self) -> bool {
        self.needing > 0
    }

    /// Whether somebody waits for metadata: a ring, or somebody else when what that takes `is_in_time` for what is promised.
    fn is_hurried(&self, profile: &Profile, is_in_time: impl FnOnce() -> bool) -> bool {
        let asks = profile.rotates && self.is_promised();
        self.waiting_rings > 0 || self.waiting_others > 0 && (!asks || is_in_time())
    }

    /// Whether guaranteed writes have time for something beside them.
    fn is_between(&self, backlog: bool, slack: &Slack<'_>) -> bool {
        !backlog && self.guaranteed_in_flight == Bytes::ZERO
            || slack.of(self) > slack.profile.full_seek * 2 + slack.profile.flush
    }

    fn is_moment_for_polite_flush(&self, backlog: bool, slack: &Slack<'_>) -> bool {
        if self.polite_flushes.is_empty() {
            return false;
        }
        // Where a ring will soon want a flush anyway, that one will do.
        let lull =
            self.undurable.is_empty() && (!slack.profile.rotates || slack.now >= self.last_guaranteed_end + LULL);
        let is_between = || self.is_between(backlog, slack);
        self.is_hurried(slack.profile, is_between) || slack.now >= self.polite_until || lull && is_between()
    }

    fn is_moment_for_metadata(&self, backlog: bool, slack: &Slack<'_>) -> bool {
        let Some(first) = self.metadata.front().filter(|_| self.metadata_in_flight < METADATA_IN_FLIGHT) else {
            return false;
        };
        let now = slack.now;
        // The best moment is in a sweep that has time for it: the flush to come covers it.
        let best = self.sweeping || now >= self.last_guaranteed_end + LULL;
        !slack.profile.rotates
            || self.is_hurried(slack.profile, || self.leaves_time(first, slack))
            || now >= first.deadline
            || best && self.is_between(backlog, slack)
    }

    /// Whether a write, at its worst, leaves the guaranteed ones enough time.
    fn leaves_time(&self, next: &Pending, slack: &Slack<'_>) -> bool {
        let length = Bytes(next.buffer.len() as u64);
        let way = slack.profile.position_time(self.head, next.offset);
        let worst = way + slack.profile.write_rate(next.offset).time_for(length);
        slack.of(self) > worst * 2 + slack.profile.flush
    }

    /// Whether a record, at its worst, leaves the guaranteed writes enough time.
    fn is_moment_for_log(&self, slack: &Slack<'_>) -> bool {
        // Side by side only where no ring is promised anything.
        let most = if slack.profile.rotates || !self.expected.is_empty() { 1 } else { LOGS_IN_FLIGHT };
        // While a drive empties its cache it may take records that lie right behind: it writes them on its way.
        let free = self.log_in_flight < most && !(self.flushing && slack.profile.rotates && self.is_promised());
        let Some(next) = self.log.front().filter(|_| free && self.log_wakes(slack).is_none()) else { return false };
        let kept = self.kept_for_metadata(slack.profile);
        self.leaves_time(next, slack) && (kept.is_zero() || slack.of(self) > kept)
    }

    /// Until when records gather, where a promise leaves so little that they and others have to share it: they have the
    /// arm for half of the time at most.
    fn log_wakes(&self, slack: &Slack<'_>) -> Option<Moment> {
        let shared = slack.profile.rotates && self.is_promised();
        let others = shared && !self.log.is_empty() && self.streams.next().is_some();
        Some(self.log_due).filter(|due| others && slack.now < *due)
    }

    /// When metadata that waits for a better moment has to be looked at again.
    fn metadata_wakes(&self, now: Moment) -> Option<Moment> {
        let written = self.metadata.front().map(|first| first.deadline);
        let flushed = (!self.polite_flushes.is_empty() && !self.flushing).then_some(self.polite_until);
        let latest = written.into_iter().chain(flushed).min()?;
        let lull = self.last_guaranteed_end + LULL;
        [latest, lull].into_iter().filter(|moment| *moment > now).min()
    }

    /// Whether a sweep that is flushed on its way goes on meanwhile: only where the arm need not move, and not for long.
    fn goes_on_beside_flush(&self) -> bool {
        let next = self.current_ring.and_then(|ring| self.guaranteed.get(&ring)?.front());
        let stays = !self.flush_moves && next.is_some_and(|next| next.offset == self.head);
        self.sweeping && stays && self.not_covered() < BESIDE_FLUSH
    }

    /// What was started since the flush under way began, or was under way then, takes the device this long.
    fn not_covered(&self) -> Duration {
        let covered = (self.flush_covers - self.first_undurable) as usize;
        self.undurable.range(covered..).map(|write| write.takes).sum()
    }

    fn begin_flush(&mut self, backlog: bool) -> Choice {
        self.flushing = true;
        self.flushes_begun += 1;
        self.owed_anew = false;
        self.dirty = self.guaranteed_in_flight > Bytes::ZERO;
        self.flush_moves = std::mem::replace(&mut self.metadata_dirty, self.metadata_in_flight > 0);
        self.flush_covers = self.first_undurable + self.undurable.iter().take_while(|w| w.ended).count() as u64;
        // What arrives from now on belongs to the next sweep.
        self.sweeping &= backlog || self.guaranteed_in_flight > Bytes::ZERO;
        Choice::Flush(self.flushes.drain(..).chain(self.polite_flushes.drain(..)).collect())
    }

    /// How long the flush that begins takes at the worst: no drive that turns needs longer than for writing anew what it was given since
    /// the last one, however long the longest took when it was measured.
    pub(super) fn flush_worst(&mut self, profile: &Profile) -> Duration {
        // What is under way may be left to the next one.
        let unflushed = std::mem::replace(&mut self.unflushed, self.busy);
        if profile.rotates { profile.flush.min(unflushed + profile.full_seek) } else { profile.flush }
    }

    /// The flush under way has ended.
    pub(super) fn flushed(&mut self, result: &Result<()>, now: Moment) {
        self.flushing = false;
        match result {
            Ok(()) => {
                let covered = (self.flush_covers - self.first_undurable) as usize;
                self.undurable.drain(..covered);
                self.first_undurable = self.flush_covers;
                if self.log_in_flight == 0
                    && let Some(began) = self.log_began.take()
                {
                    self.log_due = now + now.since(began).min(MOST_GATHERED);
                }
                if !self.owed_anew {
                    self.owed_until = now;
                }
                if !self.flush_moves {
                    // Where the drive is slower than its profile, or had to seek, what it still owes is known again.
                    self.platters_free = self.platters_free.max(now + self.not_covered());
                }
            }
            Err(error) => self.fail(error),
        }
    }

    /// On a device that rotates, reads and sweeps of writes take turns.
    fn choose_sweep_or_reads(&mut self, backlog: bool, slack: &Slack<'_>) -> Choice {
        let Slack { profile, now, .. } = *slack;
        let free = !backlog && self.guaranteed_in_flight == Bytes::ZERO && !self.is_promised();
        if free {
            self.streams.let_pass(is_light);
        }
        let light = free && self.streams.next().is_some_and(is_light);
        let writes = free && self.streams.next().is_some_and(|next| next.direction == Direction::Write);
        if self.flushing && !light && !writes && !self.goes_on_beside_flush() {
            // Whatever a drive is given while it empties its cache makes that last longer, and acknowledgements wait for it.
            return Choice::Wait(None);
        }
        // What is beyond what was promised belongs to no sweep where somebody else wants something.
        let others = backlog && self.is_wanted_by_others(now);
        let beyond = others && self.within_at().is_some_and(|moment| moment > now);
        let been = self.sweeping && self.has_been_everywhere();
        if self.sweeping && (!backlog || beyond) {
            // The sweep is over once it is durable; the flush comes from who waits for that, at once.
            let expected = self.last_guaranteed_end + ANTICIPATION;
            if self.guaranteed_in_flight > Bytes::ZERO {
                return Choice::Wait(None);
            }
            if self.dirty && now < expected {
                return Choice::Wait(Some(expected));
            }
        }
        if beyond || been {
            self.sweeping = false;
            self.current_ring = None;
        }
        let turn = self.streams.turn(now, true);
        // A drive would put off a record for as long as reads follow one another.
        let record = self.log_in_flight > 0;
        if !backlog {
            self.sweeping = false;
            self.current_ring = None;
            let most = if light { LIGHT_IN_FLIGHT } else { NORMAL_IN_FLIGHT_ROTATING };
            return match turn {
                _ if record && !light => Choice::Wait(None),
                Turn::Ready if self.normal_in_flight < most => self.start_normal(),
                Turn::Expected(moment) => Choice::Wait(Some(moment)),
                _ => Choice::Wait(None),
            };
        }
        if !self.sweeping {
            let slack = slack.of(self).saturating_sub(self.kept_for_metadata(profile));
            match turn {
                Turn::Ready if slack > self.next_normal_worst(profile) => {
                    // The arm belongs to the readers until slack runs out; their next end will ask again.
                    let writing = self.guaranteed_in_flight > Bytes::ZERO;
                    if record || writing || self.normal_in_flight >= NORMAL_IN_FLIGHT_ROTATING {
                        return Choice::Wait(None);
                    }
                    self.note_slack(slack);
                    return self.start_normal();
                }
                Turn::Ready => self.counters.throttled += 1,
                Turn::Expected(moment) if slack > moment.since(now) + profile.full_seek => {
                    return Choice::Wait(Some(moment));
                }
                Turn::Beyond(ring) if others && slack > self.next_of_ring_worst(ring, profile) => {
                    let full = self.guaranteed_in_flight >= GUARANTEED_IN_FLIGHT;
                    if record || full || self.normal_in_flight > 0 {
                        return Choice::Wait(None);
                    }
                    if self.platters_free > now + AHEAD {
                        return Choice::Wait(Some(self.platters_free - AHEAD));
                    }
                    return self.start_in_turn(ring, now);
                }
                _ => {}
            }
            if self.gathers() && slack > AHEAD {
                return Choice::Wait(Some(now + (slack - AHEAD)));
            }
            self.sweeping = true;
            let had = std::mem::take(&mut self.in_turn);
            self.streams.swept(self.is_promised().then_some(had));
            self.visited.clear();
            self.counters.sweeps += 1;
            // The platters begin when the reads under way have ended.
            self.platters_free = self.platters_free.max(now + self.normal_busy);
        }
        if self.platters_free > now + AHEAD {
            return Choice::Wait(Some(self.platters_free - AHEAD));
        }
        self.start_guaranteed(profile, now)
    }

    /// On a device without position, writes go out as they come, and reads as far as slack allows.
    fn choose_both(&mut self, slack: &Slack<'_>) -> Choice {
        let Slack { profile, now, .. } = *slack;
        let most = if self.expected.is_empty() { NORMAL_IN_FLIGHT_FREE } else { NORMAL_IN_FLIGHT_FLAT };
        let turn = self.streams.turn(now, false);
        if let Turn::Beyond(ring) = turn
            && self.is_wanted_by_others(now)
            && self.guaranteed_in_flight < GUARANTEED_IN_FLIGHT
            && slack.of(self) > self.next_of_ring_worst(ring, profile)
        {
            return self.start_in_turn(ring, now);
        }
        if turn == Turn::Ready && self.normal_in_flight < most {
            let slack = slack.of(self);
            if slack > self.next_normal_worst(profile) {
                if slack < Duration::MAX {
                    self.note_slack(slack);
                }
                return self.start_normal();
            }
            self.counters.throttled += 1;
        }
        self.start_guaranteed(profile, now)
    }

    fn note_slack(&mut self, slack: Duration) {
        let least = self.counters.least_slack;
        self.counters.least_slack = if least.is_zero() { slack } else { least.min(slack) };
    }

    fn start_normal(&mut self) -> Choice {
        Choice::Start(Class::Normal, self.streams.take())
    }

    fn start_guaranteed(&mut self, profile: &Profile, now: Moment) -> Choice {
        let room = self.guaranteed_in_flight < GUARANTEED_IN_FLIGHT;
        let next = if room { self.next_guaranteed(profile, now) } else { None };
        next.map_or(Choice::Wait(None), |pending| Choice::Start(Class::Guaranteed, pending))
    }

    /// The longest that the next normal I/O may take, from where the arm will be.
    fn next_normal_worst(&self, profile: &Profile) -> Duration {
        self.streams.next().map_or(Duration::ZERO, |p| {
            profile.position_time(self.head, p.offset)
                + profile.read_rate(p.offset).time_for(Bytes(p.buffer.len() as u64))
        })
    }

    /// What others leave of the slack while a ring needs metadata durable in time: the steps of its checkpoint do not wait
    /// for promises longer than its patience, so promises would wait for them. Where deadlines are so near that this were
    /// most of their time, others keep theirs.
    fn kept_for_metadata(&self, profile: &Profile) -> Duration {
        if !profile.rotates || !self.is_needed() {
            return Duration::ZERO;
        }
        let promised = self.expected.values().filter(|expected| expected.rate > Rate(0));
        let least = promised.map(|expected| expected.lag / KEPT_PART).min().unwrap_or_default();
        least.min((profile.full_seek * 2 + profile.flush) * STEPS_KEPT)
    }

    /// Counts an I/O as started at `now`.
    pub(super) fn started(&mut self, class: Class, pending: &Pending, profile: &Profile, now: Moment) -> Started {
        let length = Bytes(pending.buffer.len() as u64);
        let offset = pending.offset;
        let rate = match pending.direction {
            Direction::Read => profile.read_rate(offset),
            Direction::Write => profile.write_rate(offset),
        };
        let takes = rate.time_for(length);
        let flush = if pending.durable { profile.flush } else { Duration::ZERO };
        let worst = profile.position_time(self.head, offset) + takes + flush;
        self.busy += worst;
        if pending.direction == Direction::Read && self.owed_until > now {
            // A drive reads first; what it owes waits, and the arm has to go there and back.
            self.owed_until = self.owed_until + worst + profile.full_seek * 2;
        }
        self.pace.started(worst, now);
        if pending.direction == Direction::Write {
            self.unflushed += worst;
        }
        self.head = offset + length;
        if matches!(class, Class::Guaranteed | Class::Normal) {
            self.tracker = self.head;
        }
        let moved = &mut self.moved[class as usize];
        match pending.direction {
            Direction::Read => moved.read += length,
            Direction::Write => moved.written += length,
        }
        let mut ticket = 0;
        match class {
            Class::Guaranteed => {
                self.platters_free = self.platters_free.max(now) + takes;
                if self.owed_until > now && self.is_promised() {
                    // A sweep takes all that the platters can do: what is owed stays owed until a flush.
                    self.owed_until = self.owed_until + takes;
                }
                self.dirty = true;
                self.guaranteed_in_flight += length;
                self.counters.guaranteed += length;
                ticket = self.first_undurable + self.undurable.len() as u64;
                self.undurable.push_back(Undurable { deadline: pending.deadline, takes, ended: false });
            }
            Class::Normal => {
                self.normal_busy += worst;
                self.normal_in_flight += 1;
                self.in_turn += length;
                self.counters.normal += length;
                if pending.direction == Direction::Write {
                    self.platters_free = self.platters_free.max(now) + takes;
                    // Each at its worst: reckoned by the gaps between them, deadlines were missed.
                    self.owed_until = self.owed_until.max(now) + worst;
                    self.owed_anew = true;
                }
            }
            Class::Latency => {
                self.log_in_flight += 1;
                self.log_began.get_or_insert(now);
                self.counters.logged += length;
            }
            Class::Background => {
                self.normal_busy += worst;
                self.background_started(takes, worst, now);
                self.counters.background += length;
                if pending.direction == Direction::Write {
                    self.platters_free = self.platters_free.max(now) + takes;
                }
            }
            Class::Metadata => {
                self.metadata_in_flight += 1;
                if pending.direction == Direction::Write {
                    self.metadata_dirty = true;
                    if self.is_promised() {
                        // The cache takes it at once; the arm goes there at the next flush.
                        self.owed_until = self.owed_until.max(now) + worst;
                        self.owed_anew = true;
                    }
                }
                self.counters.metadata += length;
            }
        }
        Started { class, direction: pending.direction, length, worst, deadline: pending.deadline, ticket }
    }

    /// Counts it as ended.
    pub(super) fn ended(&mut self, io: &Started, result: &Result<()>, now: Moment) {
        self.busy -= io.worst;
        self.pace.ended(io.worst, now);
        if io.class != Class::Background {
            self.foreground_end = now;
        }
        match io.class {
            Class::Guaranteed => {
                self.guaranteed_in_flight -= io.length;
                self.last_guaranteed_end = now;
                self.undurable[(io.ticket - self.first_undurable) as usize].ended = true;
                if now > io.deadline {
                    self.counters.missed_deadlines += 1;
                }
            }
            Class::Normal => {
                self.normal_busy -= io.worst;
                self.normal_in_flight -= 1;
            }
            Class::Latency => self.log_in_flight -= 1,
            Class::Background => {
                self.normal_busy -= io.worst;
                self.background_in_flight -= 1;
            }
            Class::Metadata => self.metadata_in_flight -= 1,
        }
        if io.direction == Direction::Write
            && let Err(error) = result
        {
            self.fail(error);
        }
    }

    pub(super) fn fail(&mut self, error: &Error) {
        if self.failed.is_none() {
            self.failed = Some(Error::device(format!(
                "the target stopped after its device failed ({error}); what was acknowledged before is kept; check the device and open the target again"
            )));
        }
    }
}
