//! A disk with platters and an arm, command by command.
//!
//! One head is anywhere at a time: it moves to a track, waits until the first sector comes round, and streams. What is
//! adjacent and asked for in time costs no turn; what comes a moment late costs a whole one, unless the disk has read
//! on by itself (reads) or has had it in its cache (writes).
//!
//! Invariants: at most one [`Job`] is under way; a command is in exactly one of the queue, the job, the list of writes
//! that wait for room in the cache, the list of flushes, or done.

use super::cache::WriteCache;
use super::mechanics::{Action, IoId, Mechanics, Now, Op, Request, Work};
use super::spec::RotatingSpec;
use super::surface::{Distance, Surface};
use std::collections::VecDeque;
use std::ops::Range;

/// A sector that begins this little before the head can act is still caught: rounding, and the disk's own foresight.
const CATCH: u64 = 2_000;
/// The largest piece of the write cache that is written at once, so that reads need not wait long.
const DRAIN: u64 = 1 << 20;
/// A flush that has waited so many times the disk's patience comes before what was written after it.
const OVERDUE: u64 = 4;

#[derive(Clone, Copy)]
struct Queued {
    request: Request,
    arrived: u64,
}

/// What the head does until its move ends.
struct Job {
    what: What,
    end_spin: u64,
}

enum What {
    Command(Request),
    Drain { range: Range<u64>, epoch: u64 },
}

/// The disk reads on by itself: from `spin` at time `since`, until `limit`. Bytes from `start` on are remembered.
struct ReadAhead {
    start: u64,
    spin: u64,
    since: u64,
    limit: u64,
}

impl ReadAhead {
    fn frontier(&self, now: u64) -> u64 {
        (self.spin + now.saturating_sub(self.since)).min(self.limit)
    }

    /// When it reaches its limit.
    fn stops(&self) -> u64 {
        self.since + (self.limit - self.spin)
    }
}

/// When the head would begin with a command's first sector, and what that costs.
struct Approach {
    /// From now until the first sector is under the head.
    wait: u64,
    moves: bool,
}

pub(super) struct Rotating {
    spec: RotatingSpec,
    surface: Surface,
    size: u64,
    turn: u64,
    head: u64,
    job: Option<Job>,
    moves: u64,
    queue: VecDeque<Queued>,
    cache: Option<WriteCache>,
    blocked: VecDeque<Queued>,
    flushes: Vec<(IoId, u64, u64)>,
    /// Since when the cache is being emptied because it was nearly full; it then is, to a quarter, so that the arm
    /// does not go to and fro for every piece.
    emptying: Option<u64>,
    ahead: Option<ReadAhead>,
    /// Remembered from earlier reads, the latest last.
    segments: VecDeque<Range<u64>>,
    bus_free: u64,
    work: Work,
}

impl Rotating {
    pub(super) fn new(spec: &RotatingSpec, size: u64, cache: Option<u64>) -> Rotating {
        Rotating {
            surface: Surface::new(spec, size),
            size,
            turn: spec.turn(),
            spec: spec.clone(),
            head: 0,
            job: None,
            moves: 0,
            queue: VecDeque::new(),
            cache: cache.map(WriteCache::new),
            blocked: VecDeque::new(),
            flushes: Vec::new(),
            emptying: None,
            ahead: None,
            segments: VecDeque::new(),
            bus_free: 0,
            work: Work::default(),
        }
    }

    fn overhead(&self, now: Now) -> u64 {
        now.stretch(self.spec.overhead.as_nanos() as u64)
    }

    /// When `length` bytes between the disk's memory and the host are through.
    fn over_bus(&mut self, now: Now, length: u64) -> u64 {
        let span = now.stretch(self.spec.interface.time_for(forebay_model::Bytes(length)).as_nanos() as u64);
        self.bus_free = self.bus_free.max(now.nanos + self.overhead(now)) + span;
        self.bus_free
    }

    fn read(&mut self, now: Now, request: Request, actions: &mut Vec<Action>) {
        let range = request.range();
        let in_cache = self.cache.as_ref().is_some_and(|cache| cache.covers(&range)) || self.is_draining(&range);
        if in_cache || self.segments.iter().any(|s| s.start <= range.start && range.end <= s.end) {
            actions.push(Action::Done(request.id, self.over_bus(now, request.length)));
            return;
        }
        if let Some(ahead) = &self.ahead
            && ahead.start <= range.start
            && range.end <= self.surface.offset(ahead.frontier(now.nanos))
        {
            self.read_further(now, range.end);
            actions.push(Action::Done(request.id, self.over_bus(now, request.length)));
            return;
        }
        self.queue.push_back(Queued { request, arrived: now.nanos });
    }

    /// Whether `range` is on its way from the cache to the platters.
    fn is_draining(&self, range: &Range<u64>) -> bool {
        let Some(Job { what: What::Drain { range: drained, .. }, .. }) = &self.job else { return false };
        drained.start <= range.start && range.end <= drained.end
    }

    /// Keeps reading ahead of `end`, which the host has just taken.
    fn read_further(&mut self, now: Now, end: u64) {
        let limit = self.ahead_limit(end);
        let turn = self.turn;
        if let Some(ahead) = &mut self.ahead
            && limit > ahead.limit
        {
            if ahead.stops() < now.nanos {
                let wait = wait_for(ahead.limit, now.nanos, turn);
                (ahead.spin, ahead.since) = (ahead.limit, now.nanos + wait);
            }
            ahead.limit = limit;
        }
    }

    fn ahead_limit(&self, end: u64) -> u64 {
        self.surface.spin((end + self.spec.read_ahead.0).min(self.size))
    }

    /// The head leaves where it reads ahead: keeps the latest of what it has read.
    fn end_ahead(&mut self, now: u64) {
        if let Some(ahead) = self.ahead.take() {
            let spin = ahead.frontier(now);
            self.head = spin;
            let end = self.surface.offset(spin).min(self.size);
            let start = ahead.start.max(end.saturating_sub(2 * self.spec.read_ahead.0));
            if self.segments.len() >= self.spec.segments {
                self.segments.pop_front();
            }
            self.segments.push_back(start..end);
        }
    }

    /// What was read is out of date.
    fn forget(&mut self, now: u64, range: &Range<u64>) {
        self.segments.retain(|s| s.end <= range.start || range.end <= s.start);
        if let Some(ahead) = &self.ahead
            && range.end > ahead.start
            && range.start < self.surface.offset(ahead.limit)
        {
            self.head = ahead.frontier(now);
            self.ahead = None;
        }
    }

    fn write(&mut self, now: Now, request: Request, actions: &mut Vec<Action>) {
        self.forget(now.nanos, &request.range());
        let queued = Queued { request, arrived: now.nanos };
        match &mut self.cache {
            None => self.queue.push_back(queued),
            // What would fill much of the cache streams through it.
            Some(cache) if request.length > cache.room() / 4 => {
                cache.discard(request.range());
                self.queue.push_back(queued);
            }
            Some(_) => {
                self.blocked.push_back(queued);
                self.admit(now, actions);
            }
        }
    }

    /// Takes waiting writes into the cache while there is room.
    fn admit(&mut self, now: Now, actions: &mut Vec<Action>) {
        while let (Some(cache), Some(first)) = (&mut self.cache, self.blocked.front()) {
            let request = first.request;
            if !cache.fits(request.length) {
                return;
            }
            cache.insert(request.range());
            self.blocked.pop_front();
            actions.push(Action::Done(request.id, self.over_bus(now, request.length)));
        }
    }

    fn flush(&mut self, now: Now, id: IoId, actions: &mut Vec<Action>) {
        match self.cache.as_mut().and_then(WriteCache::close) {
            Some(epoch) => self.flushes.push((id, epoch, now.nanos)),
            None => actions.push(Action::Done(id, now.nanos + self.overhead(now))),
        }
    }

    fn end_flushes(&mut self, now: Now, actions: &mut Vec<Action>) {
        if let Some(cache) = &self.cache {
            self.flushes.retain(|&(id, epoch, _)| {
                let clean = cache.is_clean(epoch);
                if clean {
                    actions.push(Action::Done(id, now.nanos));
                }
                !clean
            });
        }
    }

    /// How the head gets from where it is to `offset`, acting at `ready` at the earliest.
    fn approach(&self, now: Now, ready: u64, offset: u64, writes: bool) -> Approach {
        let target = self.surface.spin(offset);
        let start = now.nanos.max(ready);
        let head = self.ahead.as_ref().map_or(self.head, |ahead| ahead.frontier(start));
        let arm = match self.surface.distance(head, target) {
            Distance::SameTrack => 0,
            Distance::SameCylinder => self.spec.head_switch.as_nanos() as u64,
            Distance::Stroke(share) => self.spec.seek.nanos(share),
        };
        let settle = if writes && arm > 0 { self.spec.write_settle.as_nanos() as u64 } else { 0 };
        let arrives = start + now.stretch(arm + settle);
        let wait = arrives + wait_for(target, arrives, self.turn) - now.nanos;
        Approach { wait, moves: arm > self.spec.head_switch.as_nanos() as u64 }
    }

    /// If the disk is reading on towards `range`, or just past its start: until when it goes on reading for it.
    fn continues(&self, now: Now, range: &Range<u64>) -> Option<u64> {
        let ahead = self.ahead.as_ref()?;
        let frontier = self.surface.offset(ahead.frontier(now.nanos));
        if range.start < ahead.start || range.start > frontier + self.surface.track(range.start) {
            return None;
        }
        let end = self.surface.spin(range.end);
        if ahead.stops() >= now.nanos {
            return Some((ahead.since + end.saturating_sub(ahead.spin)).max(now.nanos));
        }
        // It has stopped, and the platters have turned on.
        let ready = now.nanos + self.overhead(now);
        Some(ready + wait_for(ahead.limit, ready, self.turn) + end.saturating_sub(ahead.limit))
    }

    /// How long until the head begins with a command.
    fn cost(&self, now: Now, queued: &Queued) -> Approach {
        let request = &queued.request;
        if request.op == Op::Read
            && let Some(until) = self.continues(now, &request.range())
        {
            let stream = self.surface.spin(request.offset + request.length) - self.surface.spin(request.offset);
            return Approach { wait: (until - now.nanos).saturating_sub(stream), moves: false };
        }
        let ready = queued.arrived + self.overhead(now);
        self.approach(now, ready, request.offset, request.op == Op::Write)
    }

    /// The cost less a bonus for age that makes up for the longest approach once `patience` has passed.
    fn rank(&self, now: Now, wait: u64, arrived: u64) -> i128 {
        let longest = self.spec.seek.nanos(1.0) + self.turn;
        let age = u128::from(now.nanos - arrived) * u128::from(longest) / self.spec.patience.as_nanos().max(1);
        i128::from(wait) - age as i128
    }

    /// Gives the head its next job, if there is one and it has none. What the cache holds can be acted on from
    /// `ready` on.
    fn dispatch(&mut self, now: Now, ready: u64, actions: &mut Vec<Action>) {
        if self.job.is_some() {
            return;
        }
        let mut best: Option<(i128, Option<usize>, Approach)> = None;
        for (index, queued) in self.queue.iter().take(self.spec.queue).enumerate() {
            let approach = self.cost(now, queued);
            let rank = self.rank(now, approach.wait, queued.arrived);
            if best.as_ref().is_none_or(|(least, ..)| rank < *least) {
                best = Some((rank, Some(index), approach));
            }
        }
        let mut drain = None;
        if let Some(cache) = &self.cache {
            let from = self.ahead.as_ref().map_or(self.head, |ahead| ahead.frontier(now.nanos));
            let from = self.surface.offset(from);
            // A stream that the sweep follows must not keep a flush waiting for what lies elsewhere. Only late, since
            // with less to choose from the arm is slower.
            let late = OVERDUE * self.spec.patience.as_nanos() as u64;
            let overdue = self.flushes.first().filter(|(_, _, arrived)| now.nanos - arrived > late);
            drain = overdue.and_then(|(_, epoch, _)| cache.next_until(*epoch, from, DRAIN));
            drain = drain.or_else(|| cache.next(from, DRAIN));
            if cache.used() > cache.room() / 4 * 3 {
                self.emptying.get_or_insert(now.nanos);
            } else if cache.used() <= cache.room() / 4 {
                self.emptying = None;
            }
            let flush = self.flushes.first().map(|(_, _, arrived)| *arrived);
            let blocked = self.blocked.front().map(|queued| queued.arrived);
            let waiting = flush.into_iter().chain(blocked).chain(self.emptying).min();
            if let Some(range) = &drain
                && (waiting.is_some() || self.queue.is_empty())
            {
                let approach = self.approach(now, ready, range.start, true);
                let rank = self.rank(now, approach.wait, waiting.unwrap_or(now.nanos));
                if best.as_ref().is_none_or(|(least, ..)| rank < *least) {
                    best = Some((rank, None, approach));
                }
            }
        }
        match (best, drain) {
            (Some((_, Some(index), approach)), _) => {
                let queued = self.queue.remove(index).expect("the index came from this queue");
                self.begin(now, queued.request, approach, actions);
            }
            (Some((_, None, approach)), Some(range)) => {
                self.end_ahead(now.nanos);
                let epoch = self.cache.as_mut().map_or(0, |cache| cache.take(&range));
                let (from, to) = (self.surface.spin(range.start), self.surface.spin(range.end));
                let until = now.nanos + approach.wait + now.stretch(to - from);
                self.start(
                    now,
                    Job { what: What::Drain { range, epoch }, end_spin: to },
                    approach.moves,
                    until,
                    actions,
                );
            }
            _ => (),
        }
    }

    fn begin(&mut self, now: Now, request: Request, approach: Approach, actions: &mut Vec<Action>) {
        let range = request.range();
        let (from, to) = (self.surface.spin(range.start), self.surface.spin(range.end));
        let on = (request.op == Op::Read).then(|| self.continues(now, &range)).flatten();
        let until = match on {
            Some(until) => until.max(now.nanos + self.overhead(now)),
            None => {
                self.end_ahead(now.nanos);
                now.nanos + approach.wait + now.stretch(to - from)
            }
        };
        self.start(now, Job { what: What::Command(request), end_spin: to }, approach.moves, until, actions);
    }

    fn start(&mut self, now: Now, job: Job, moves: bool, until: u64, actions: &mut Vec<Action>) {
        self.job = Some(job);
        self.moves += 1;
        self.work.seeks += u64::from(moves);
        self.work.busy += until - now.nanos;
        actions.push(Action::Move(self.moves, until));
    }

    /// A read has ended at `end`: reads on from there.
    fn read_on(&mut self, now: Now, range: Range<u64>, end_spin: u64) {
        let start = match &self.ahead {
            Some(ahead) => ahead.start.max(range.end.saturating_sub(2 * self.spec.read_ahead.0)).min(range.start),
            None => range.start,
        };
        // A disk that is slower than it should be does nothing beyond what it is asked.
        let limit = if now.slowness == 1.0 { self.ahead_limit(range.end).max(end_spin) } else { end_spin };
        // When the last piece was read on the way, the head may be further than the end asked for.
        let (spin, since) = match &self.ahead {
            Some(ahead) if ahead.frontier(now.nanos) > end_spin => (ahead.frontier(now.nanos), now.nanos),
            _ => (end_spin, now.nanos),
        };
        self.ahead = Some(ReadAhead { start, spin, since, limit: limit.max(spin) });
    }
}

/// From `at` until the place of `spin` comes under the head.
fn wait_for(spin: u64, at: u64, turn: u64) -> u64 {
    let wait = (spin % turn + turn - at % turn) % turn;
    if wait > turn - CATCH { 0 } else { wait }
}

impl Mechanics for Rotating {
    fn submit(&mut self, now: Now, request: Request, actions: &mut Vec<Action>) {
        match request.op {
            Op::Read => self.read(now, request, actions),
            Op::Write => self.write(now, request, actions),
            Op::Flush => self.flush(now, request.id, actions),
        }
        self.dispatch(now, now.nanos + self.overhead(now), actions);
    }

    fn moved(&mut self, now: Now, number: u64, actions: &mut Vec<Action>) {
        if number != self.moves {
            return;
        }
        let Some(job) = self.job.take() else { return };
        self.head = job.end_spin;
        match job.what {
            What::Command(request) => {
                if request.op == Op::Read {
                    self.read_on(now, request.range(), job.end_spin);
                }
                actions.push(Action::Done(request.id, now.nanos));
            }
            What::Drain { range, epoch } => {
                if let Some(cache) = &mut self.cache {
                    cache.done(epoch, range.end - range.start);
                }
                self.admit(now, actions);
                self.end_flushes(now, actions);
            }
        }
        self.dispatch(now, now.nanos, actions);
    }

    fn lose_power(&mut self) {
        let moves = self.moves + 1;
        let work = self.work;
        let cache = self.cache.as_ref().map(WriteCache::room);
        *self = Rotating::new(&self.spec, self.size, cache);
        (self.moves, self.work) = (moves, work);
    }

    fn work(&self) -> Work {
        self.work
    }
}

#[cfg(test)]
mod tests;
