//! The answer of several targets as one, in the order of time; what one target has stays in its order.
//!
//! Elements are numbered anew, from 0 in each answer: over several targets there is no number that lasts. Of each target there is
//! one part ahead, whatever it takes. What is recorded meanwhile is given when all targets have something later, or when they
//! had twice as long for it as an element may stay in a recorder's memory: since it came, or since later ones were recorded. An element
//! that comes in pieces is given without anything in between; if its target goes away within it, it is waited for as long.

use super::claims::Claims;
use super::feed::feed;
use super::given::{Depth, Last};
use super::source::Heard;
use super::stripe::Row;
use super::way::Way;
use super::{rebuild, replaced};
use crate::peer::Part;
use forebay_env::pipe::{Inlet, Outlet, pipe};
use forebay_env::race::{First, race};
use forebay_env::together::all;
use forebay_env::{Clock, Task};
use forebay_model::query::Query;
use forebay_model::ring::{Batch, Item, QuerySummary, RingSpec, RingState, RingStatus, Spread};
use forebay_model::{Bytes, Cause, Error, Gap, Moment, Result, Timestamp};
use forebay_wire::command::ITEMS_PER_FRAME;
use forebay_wire::ring::{RingQuery, size};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// A part goes out when it has so many bytes.
const PART_BYTES: usize = 1 << 20;

/// What is asked, and of whom.
pub(super) struct Asked {
    pub(super) ways: Vec<Way>,
    pub(super) spread: Spread,
    /// Parts that lack what the others have: their targets were lost, and they lie elsewhere since.
    pub(super) replaced: BTreeSet<u32>,
    pub(super) query: RingQuery,
    /// The query as it is tested here, and the ring that it is of.
    pub(super) parsed: Query,
    pub(super) spec: RingSpec,
    /// What each part of the ring says of itself; nothing of one that is away.
    pub(super) statuses: Vec<Option<RingStatus>>,
    /// Blocks that may not be where they belong and are made again.
    pub(super) claims: RefCell<Claims>,
    /// How far each part was heard.
    pub(super) heard: Vec<Rc<Heard>>,
    /// Parts that do not answer.
    pub(super) away: RefCell<BTreeSet<u32>>,
    /// The number at the parity before which all that may not be where it belongs is seen to.
    pub(super) seen_to: Cell<u64>,
}

/// An answer that is put together.
pub(super) struct Merged {
    feeds: Vec<Feed>,
    clock: Rc<dyn Clock>,
    /// How long others are waited for, if what is recorded is followed.
    hold: Option<Duration>,
    /// What was recorded before this is not held: all others had their time for what came before it.
    recorded: Rc<Cell<Timestamp>>,
    _watch: Option<Task<()>>,
    limit: u64,
    /// The number of the next element.
    next: u64,
    /// The feed that gave something last: of what has the same time, it goes on, or the one behind it.
    turn: usize,
    /// The feed whose element goes on.
    within: Option<usize>,
    summary: QuerySummary,
    failure: Option<Error>,
}

struct Feed {
    parts: Outlet<Result<Part>>,
    _task: Task<()>,
    batch: Batch,
    item: usize,
    byte: usize,
    came: Moment,
    is_over: bool,
}

impl Asked {
    /// The times that are asked for.
    pub(super) fn times(&self) -> (Timestamp, Timestamp) {
        self.parsed.time_range()
    }

    /// The number on its target of the first element that the answer does not have of this part: what comes there while it is
    /// answered would be in it or not, and nobody else could know which.
    pub(super) fn end_of(&self, component: u32) -> u64 {
        // One that does not know yet what it has gives all that it will turn out to have.
        let knows = |status: &&RingStatus| !self.query.follow && status.state != RingState::Recovering;
        let status = self.statuses[component as usize].as_ref().filter(knows);
        status.map_or(u64::MAX, |status| status.readable_sequence)
    }

    /// How long others are waited for, if what is recorded is followed.
    pub(super) fn hold(&self) -> Option<Duration> {
        self.query.follow.then(|| self.spec.flush_interval.max(Duration::from_millis(50)) * 2)
    }

    /// What is told of a target from `from` on that does not answer.
    pub(super) fn gap_from(&self, from: Timestamp) -> Gap {
        let (first, last) = self.times();
        let told = |pick: fn(&RingStatus) -> Option<Timestamp>| self.statuses.iter().flatten().filter_map(pick);
        let oldest = told(|status| status.oldest).min().unwrap_or(first);
        // As long as the others have run over nothing, the one that does not answer may have what came first.
        let data = &self.statuses[..self.spread.targets as usize];
        let has_first = data.iter().flatten().all(|status| status.first_sequence == status.begins);
        let oldest = if has_first { oldest.min(self.ways[0].created()) } else { oldest };
        let newest = told(|status| status.newest).max().unwrap_or(self.query.now).max(self.query.now);
        let first = if first == Timestamp::MIN { oldest.min(newest) } else { first };
        let last = if last == Timestamp::MAX { newest } else { last };
        let first = first.max(from.min(last));
        Gap { cause: Cause::TargetAway, count: None, first: first.min(last), last }
    }

    /// What is told of a target of whose answer from `from` until now nobody knows what is missing.
    pub(super) fn gap_until_now(&self, from: Timestamp) -> Gap {
        let last = self.ways[0].nodes().env().clock.wall().max(from);
        Gap { cause: Cause::TargetAway, count: None, first: from, last }
    }

    /// Whether a gap was asked for.
    pub(super) fn is_wanted(&self, gap: &Gap) -> bool {
        let (from, to) = self.times();
        gap.first <= to && gap.last >= from
    }

    /// Tells that something is missing, if it was asked for.
    pub(super) fn tell_gap(&self, gap: Gap, batch: &mut Batch) {
        if self.is_wanted(&gap) {
            batch.items.push(Item::Gap(gap));
        }
    }

    /// How much of a block its target gave.
    pub(super) fn given(&self, row: &Row) -> Depth {
        self.heard[row.component as usize].given.borrow().of(row.writer, row.number)
    }

    /// The last element that a part gave.
    pub(super) fn last_of(&self, component: u32) -> Option<Last> {
        self.heard[component as usize].given.borrow().last()
    }

    /// Tells that a target does not answer, from `from` on.
    pub(super) async fn tell_away(&self, from: Timestamp, inlet: &Inlet<Result<Part>>) {
        let gap = match self.query.follow {
            true => self.gap_until_now(from.max(self.gap_from(Timestamp::MIN).first)),
            false => self.gap_from(from),
        };
        let batch = Batch { items: vec![Item::Gap(gap)], payload: Vec::new() };
        inlet.send(Ok(Part::Batch(batch)), 1).await;
    }
}

impl Merged {
    pub(super) fn begin(asked: Asked) -> Merged {
        let env = asked.ways[0].nodes().env().clone();
        let hold = asked.hold();
        let limit = asked.query.limit.unwrap_or(u64::MAX);
        let asked = Rc::new(asked);
        let now = env.clock.now();
        let start = |task: Task<()>, parts| Feed {
            parts,
            _task: task,
            batch: Batch::default(),
            item: 0,
            byte: 0,
            came: now,
            is_over: false,
        };
        let recorded = Rc::new(Cell::new(Timestamp::MIN));
        let watch = hold.map(|hold| env.spawner.spawn(watch(asked.clone(), recorded.clone(), hold)));
        let mut feeds = Vec::new();
        for component in 0..asked.spread.targets {
            let (inlet, parts) = pipe(1);
            feeds.push(start(env.spawner.spawn(feed(asked.clone(), component, inlet)), parts));
        }
        if asked.spread.parity {
            let (inlet, parts) = pipe(1);
            let asked = asked.clone();
            let absent = async move { rebuild::absent(&asked, &inlet).await };
            feeds.push(start(env.spawner.spawn(absent), parts));
        }
        let (clock, summary) = (env.clock.clone(), QuerySummary::default());
        Merged {
            feeds,
            clock,
            hold,
            recorded,
            _watch: watch,
            limit,
            next: 0,
            turn: 0,
            within: None,
            summary,
            failure: None,
        }
    }

    /// The next part.
    pub(super) async fn next(&mut self) -> Result<Part> {
        let mut out = Batch::default();
        loop {
            let is_full = out.payload.len() >= PART_BYTES || out.items.len() >= ITEMS_PER_FRAME / 2;
            if is_full || self.summary.elements >= self.limit && !out.items.is_empty() {
                return Ok(Part::Batch(out));
            }
            if self.summary.elements >= self.limit {
                return Ok(Part::End(self.summary));
            }
            self.take_what_came();
            if let Some(error) = self.failure.take() {
                return Err(error);
            }
            let lagging = self.feeds.iter().any(Feed::lags);
            let first = self.first();
            let until = first.map(|first| self.feeds[first].came).zip(self.hold).map(|(came, hold)| came + hold);
            let is_old =
                first.and_then(|first| self.feeds[first].time()).is_some_and(|time| time <= self.recorded.get());
            let may_go = match (self.within, until) {
                (Some(within), _) => !self.feeds[within].lags(),
                (None, Some(until)) => !lagging || is_old || self.clock.now() >= until,
                (None, None) => !lagging && first.is_some(),
            };
            match self.within.or(first).filter(|_| may_go) {
                Some(feed) => self.give(feed, &mut out),
                None if !out.items.is_empty() => return Ok(Part::Batch(out)),
                None if !lagging => return Ok(Part::End(self.summary)),
                None => self.wait(until.filter(|_| self.within.is_none())).await,
            }
        }
    }

    /// Takes the parts that are there.
    fn take_what_came(&mut self) {
        let now = self.clock.now();
        for at in 0..self.feeds.len() {
            let feed = &mut self.feeds[at];
            if !feed.lags() {
                continue;
            }
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let polled = pin!(feed.parts.receive()).poll(&mut context);
            if let Poll::Ready(came) = polled {
                self.came(at, came, now);
            }
        }
    }

    fn came(&mut self, at: usize, came: Option<Result<Part>>, now: Moment) {
        let feed = &mut self.feeds[at];
        match came {
            Some(Ok(Part::Batch(batch))) => {
                (feed.batch, feed.item, feed.byte, feed.came) = (batch, 0, 0, now);
            }
            Some(Ok(Part::End(summary))) => {
                feed.is_over = true;
                self.summary.read += summary.read;
                self.summary.segments += summary.segments;
                self.summary.blocks += summary.blocks;
                self.summary.expired += summary.expired;
                self.summary.pinned |= summary.pinned;
            }
            Some(Err(error)) => self.failure = Some(error),
            None => feed.is_over = true,
        }
        if feed.is_over && self.within == Some(at) {
            self.within = None;
        }
    }

    /// Waits for a part, or until then.
    async fn wait(&mut self, until: Option<Moment>) {
        let (clock, now) = (self.clock.clone(), self.clock.now());
        let came = {
            let feeds = &mut self.feeds;
            let any = poll_fn(|context| {
                for (at, feed) in feeds.iter_mut().enumerate() {
                    if !feed.lags() {
                        continue;
                    }
                    if let Poll::Ready(came) = pin!(feed.parts.receive()).poll(context) {
                        return Poll::Ready((at, came));
                    }
                }
                Poll::Pending
            });
            match until {
                Some(until) => match race(any, clock.sleep(until.since(now))).await {
                    First::Left(came) => Some(came),
                    First::Right(()) => None,
                },
                None => Some(any.await),
            }
        };
        if let Some((at, came)) = came {
            let now = self.clock.now();
            self.came(at, came, now);
        }
    }

    /// The feed that has what is earliest.
    fn first(&self) -> Option<usize> {
        let feeds = self.feeds.len();
        let in_turn = (0..feeds).map(|step| (self.turn + step) % feeds);
        in_turn.filter(|at| self.feeds[*at].time().is_some()).min_by_key(|at| self.feeds[*at].time())
    }

    /// Gives items of one feed, as long as no other one has something earlier.
    fn give(&mut self, at: usize, out: &mut Batch) {
        let others = (0..self.feeds.len()).filter(|other| *other != at);
        let next = others.filter_map(|other| self.feeds[other].time()).min();
        self.turn = at;
        let feed = &mut self.feeds[at];
        let (mut items, mut bytes) = (0, 0);
        for item in &feed.batch.items[feed.item..] {
            let is_next = self.within == Some(at) || next.is_none_or(|next| time_of(item) <= next);
            let is_enough = self.summary.elements >= self.limit || out.payload.len() + bytes >= PART_BYTES;
            if items > 0 && (!is_next || is_enough) {
                break;
            }
            let mut item = *item;
            items += 1;
            bytes += size(&item);
            match &mut item {
                Item::Element { sequence, length, last, .. } => {
                    *sequence = self.next;
                    self.within = (!*last).then_some(at);
                    self.next += u64::from(*last);
                    self.summary.elements += u64::from(*last);
                    self.summary.bytes += Bytes(u64::from(*length));
                }
                Item::Gap(_) => self.within = None,
                Item::Block { .. } => {}
                Item::Expired { from, to } => {
                    self.within = None;
                    let count = *to - *from;
                    (*from, *to) = (self.next, self.next + count);
                    self.next += count;
                }
            }
            out.items.push(item);
        }
        match feed.byte == 0 && bytes == feed.batch.payload.len() && out.payload.is_empty() {
            // What one target has in a part of its own is handed on as it is.
            true => out.payload = std::mem::take(&mut feed.batch.payload),
            false => {
                out.payload.extend_from_slice(&feed.batch.payload[feed.byte..feed.byte + bytes]);
                feed.byte += bytes;
            }
        }
        feed.item += items;
    }
}

/// Asks again and again up to when was recorded, and tells what all targets had their time for. Without it, one that is away
/// would let no more of the others through than one part of each in the time that is waited for it.
async fn watch(asked: Rc<Asked>, recorded: Rc<Cell<Timestamp>>, hold: Duration) {
    let clock = asked.ways[0].nodes().env().clock.clone();
    loop {
        clock.sleep(hold / 4).await;
        let there = (0..asked.spread.targets as usize).filter(|component| asked.heard[*component].is_there.get());
        let told = all(there.map(|component| race(replaced::status(&asked.ways[component]), clock.sleep(hold)))).await;
        let newest = told.into_iter().filter_map(|told| match told {
            First::Left(Ok(status)) => status.newest,
            _ => None,
        });
        let newest = newest.max();
        let before = newest.map(|newest| Timestamp(newest.0.saturating_sub(hold.as_nanos() as i64)));
        recorded.set(recorded.get().max(before.unwrap_or(Timestamp::MIN)));
    }
}

impl Feed {
    /// Whether nothing of it is there, and more may come.
    fn lags(&self) -> bool {
        !self.is_over && self.item == self.batch.items.len()
    }

    /// The time of what it has first.
    fn time(&self) -> Option<Timestamp> {
        self.batch.items.get(self.item).map(time_of)
    }
}

fn time_of(item: &Item) -> Timestamp {
    match item {
        Item::Element { time, .. } => *time,
        Item::Gap(gap) => gap.first,
        Item::Expired { .. } | Item::Block { .. } => Timestamp::MIN,
    }
}
