//! What one target answers to a query, also over a connection after the other: nothing twice, and nothing left out.

use super::answer::PartAnswer;
use super::rebuild::is_of_a_lost_target;
use super::way::{PAUSE, Way};
use super::writer::is_passing;
use crate::answer::cursor::Cursor;
use crate::peer::Part;
use forebay_model::ring::{Batch, Item, Spread};
use forebay_model::{Error, Kind, Moment, Result, TargetId, Timestamp};
use forebay_wire::command::QueryRequest;
use forebay_wire::ring::{RingQuery, size};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Breaks in a row, without an item between them, after which a target counts as away.
const MOST_BREAKS: u32 = 2;
/// How often the manager is asked where it lies, as long as it does not answer.
const RENEWED: Duration = Duration::from_secs(5);

/// How far who asks a target has heard it, for others who ask for the same ring.
#[derive(Debug, Default)]
pub(super) struct Heard {
    /// Whether others know what it has, and its part lies elsewhere some time if it is lost.
    pub(super) is_covered: bool,
    /// Whether it answers.
    pub(super) is_there: Cell<bool>,
    /// The time of the last element that was given, and how many were given of that time.
    pub(super) last: Cell<Option<(Timestamp, u64)>>,
}

impl Heard {
    /// Of a part of such a ring of which nothing was heard yet.
    pub(super) fn of(spread: Spread) -> Heard {
        Heard { is_covered: spread.parity, ..Heard::default() }
    }
}

/// A query of the part of a ring on one target.
pub(super) struct Source {
    way: Way,
    /// The target that has it: what lies elsewhere by now is another part, with numbers of its own.
    target: TargetId,
    request: QueryRequest,
    /// What was asked for at first.
    asked: String,
    cursor: Cursor,
    answer: Option<PartAnswer>,
    breaks: u32,
    /// When the manager was asked last where it lies.
    renewed: Moment,
    heard: Rc<Heard>,
    /// The number of the first element there that is not given.
    end: u64,
    /// The element that is to come first after a break: the last that was given.
    again: Option<(u64, Timestamp)>,
    /// Whether it was told that what the target has is lost, which is waited for all the same.
    is_told: bool,
    /// What is passed over: so many elements of this time.
    passed: Option<(Timestamp, u64)>,
}

impl Source {
    /// `end` is the number on that target of the first element that is not wanted.
    pub(super) fn new(way: Way, query: RingQuery, end: u64, heard: Rc<Heard>) -> Source {
        let RingQuery { text, now, follow, limit, gaps_only, blocks } = query;
        let asked = text.clone();
        let request = QueryRequest { ring: String::new(), text, now, follow, limit, gaps_only, blocks };
        let (target, renewed) = (way.target(), way.nodes().env().clock.now());
        Source {
            way,
            target,
            renewed,
            request,
            asked,
            cursor: Cursor::default(),
            answer: None,
            breaks: 0,
            heard,
            end,
            again: None,
            is_told: false,
            passed: None,
        }
    }

    /// The next part. An error means that the target is away, or cannot answer; while what is recorded is followed, one that is
    /// away is waited for.
    pub(super) async fn next(&mut self) -> Result<Part> {
        loop {
            if self.is_elsewhere() {
                return Err(Error::missing(format!(
                    "{} lies elsewhere by now, and target {} is lost",
                    self.way.path(),
                    self.target
                )));
            }
            match self.try_next().await {
                Ok(Part::Batch(batch)) => {
                    self.heard.is_there.set(true);
                    if self.is_another(&batch) {
                        self.go_on_by_time();
                        continue;
                    }
                    let batch = self.cursor.pass(before(batch, self.end));
                    let batch = self.pass_over(batch);
                    if !batch.items.is_empty() {
                        (self.breaks, self.is_told) = (0, false);
                        self.note(&batch);
                        return Ok(Part::Batch(batch));
                    }
                }
                Ok(end) => return Ok(end),
                Err(error) => {
                    self.answer = None;
                    self.heard.is_there.set(false);
                    self.breaks += 1;
                    // Who follows a ring waits for a target that is lost, too, until its part lies elsewhere.
                    let is_borne = match self.request.follow {
                        true => {
                            let is_waited_for = self.heard.is_covered || self.is_told;
                            is_passing(&error) || is_waited_for && is_of_a_lost_target(&error)
                        }
                        false => is_passing(&error) && self.breaks <= MOST_BREAKS,
                    };
                    if !is_borne {
                        return Err(error);
                    }
                    let clock = &self.way.nodes().env().clock;
                    if self.request.follow && clock.now() >= self.renewed + RENEWED {
                        // It may be lost by now. If that cannot be asked, it is the next time.
                        match self.way.renew().await {
                            Err(error) if error.kind == Kind::Missing => return Err(error),
                            renewed => drop(renewed),
                        }
                        self.renewed = clock.now();
                    }
                    clock.sleep(PAUSE).await;
                }
            }
        }
    }

    /// Waits from now on also for a target of which nobody knows what it has, since that is told: it may be opened again. False if
    /// it did so before.
    pub(super) fn wait_for_lost(&mut self) -> bool {
        !std::mem::replace(&mut self.is_told, true)
    }

    /// Whether its target is lost, and another one has its part since.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.way.target() != self.target
    }

    /// The part of the ring that it asks.
    pub(super) fn component(&self) -> u32 {
        self.way.component()
    }

    /// Waits, and asks the manager where it lies.
    pub(super) async fn look_again(&self) {
        self.way.nodes().env().clock.sleep(PAUSE * 5).await;
        // If that cannot be asked, it is the next time.
        drop(self.way.renew().await);
    }

    async fn try_next(&mut self) -> Result<Part> {
        let answer = match &mut self.answer {
            Some(answer) => answer,
            none => {
                let QueryRequest { text, now, follow, limit, gaps_only, blocks, .. } =
                    self.cursor.resume(&self.request);
                let query = RingQuery { text, now, follow, limit, gaps_only, blocks };
                self.again = self.cursor.comes_again().zip(self.heard.last.get().map(|(time, _)| time));
                let answer = none.insert(PartAnswer::open(self.way.clone(), query).await?);
                self.heard.is_there.set(true);
                answer
            }
        };
        answer.next().await
    }

    /// Whether a target has another element where the last was that it gave. It gave some that were not durable and were lost in
    /// a crash, and numbers those that came since from there on.
    fn is_another(&mut self, batch: &Batch) -> bool {
        let Some(first) = batch.items.iter().find(|item| !matches!(item, Item::Gap(_))) else { return false };
        let Some(again) = self.again.take().filter(|_| self.request.follow) else { return false };
        matches!(*first, Item::Element { sequence, time, .. } if (sequence, time) != again)
    }

    /// Asks for what has the time of the last element or a later one.
    fn go_on_by_time(&mut self) {
        (self.answer, self.cursor, self.passed) = (None, Cursor::default(), self.last());
        if let Some((last, _)) = self.last() {
            let text = self.asked.trim();
            let of_it = if text.is_empty() { String::new() } else { format!("({text}) and ") };
            self.request.text = format!("{of_it}after {last}");
        }
    }

    /// A part without what was given before the target was asked by time.
    fn pass_over(&mut self, batch: Batch) -> Batch {
        let Some((last, mut left)) = self.passed.take() else { return batch };
        let is_passed = |item: &Item| matches!(item, Item::Element { time, .. } if *time == last);
        let (mut kept, mut at) = (Batch::default(), 0);
        for item in batch.items {
            let bytes = &batch.payload[at..at + size(&item)];
            at += bytes.len();
            if left > 0 && is_passed(&item) {
                left -= u64::from(matches!(item, Item::Element { last: true, .. }));
                continue;
            }
            kept.payload.extend_from_slice(bytes);
            kept.items.push(item);
        }
        if kept.items.is_empty() {
            self.passed = Some((last, left));
        }
        kept
    }

    fn note(&mut self, batch: &Batch) {
        for item in &batch.items {
            if let Item::Element { time, last: true, .. } = *item {
                let so_far = self.last().filter(|(last, _)| *last == time).map_or(0, |(_, count)| count);
                self.heard.last.set(Some((time, so_far + 1)));
            }
        }
    }

    /// The time of the last element that was given, and how many were given of that time.
    pub(super) fn last(&self) -> Option<(Timestamp, u64)> {
        self.heard.last.get()
    }
}

/// What a batch has of elements before this one, and its gaps.
fn before(mut batch: Batch, end: u64) -> Batch {
    let is_before = |item: &Item| !matches!(item, Item::Element { sequence, .. } if *sequence >= end);
    if batch.items.iter().all(is_before) {
        return batch;
    }
    // Elements come in the order of their numbers.
    let bytes = batch.items.iter().filter(|item| is_before(item)).map(size).sum();
    batch.payload.truncate(bytes);
    batch.items.retain(is_before);
    batch
}
