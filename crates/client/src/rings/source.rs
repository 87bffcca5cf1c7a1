//! What one target answers to a query, also over a connection after the other: nothing twice, and nothing left out.

use super::answer::PartAnswer;
use super::way::{PAUSE, Way};
use super::writer::is_passing;
use crate::answer::cursor::Cursor;
use crate::peer::Part;
use forebay_model::ring::{Batch, Item};
use forebay_model::{Error, Moment, Result, TargetId, Timestamp};
use forebay_wire::command::QueryRequest;
use forebay_wire::ring::{RingQuery, size};
use std::time::Duration;

/// Breaks in a row, without an item between them, after which a target counts as away.
const MOST_BREAKS: u32 = 2;
/// How often the manager is asked where it lies, as long as it does not answer.
const RENEWED: Duration = Duration::from_secs(5);

/// A query of the part of a ring on one target.
pub(super) struct Source {
    way: Way,
    /// The target that has it: what lies elsewhere by now is another part, with numbers of its own.
    target: TargetId,
    request: QueryRequest,
    cursor: Cursor,
    answer: Option<PartAnswer>,
    breaks: u32,
    /// When the manager was asked last where it lies.
    renewed: Moment,
    /// The time of the last element that was given, and how many were given of that time.
    last: Option<(Timestamp, u64)>,
    /// The number of the first element there that is not given.
    end: u64,
}

impl Source {
    /// `end` is the number on that target of the first element that is not wanted.
    pub(super) fn new(way: Way, query: RingQuery, end: u64) -> Source {
        let RingQuery { text, now, follow, limit, gaps_only, blocks } = query;
        let request = QueryRequest { ring: String::new(), text, now, follow, limit, gaps_only, blocks };
        let (target, renewed) = (way.target(), way.nodes().env().clock.now());
        Source { way, target, renewed, request, cursor: Cursor::default(), answer: None, breaks: 0, last: None, end }
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
                    let batch = self.cursor.pass(before(batch, self.end));
                    if !batch.items.is_empty() {
                        self.breaks = 0;
                        self.note(&batch);
                        return Ok(Part::Batch(batch));
                    }
                }
                Ok(end) => return Ok(end),
                Err(error) => {
                    self.answer = None;
                    self.breaks += 1;
                    if !is_passing(&error) || !self.request.follow && self.breaks > MOST_BREAKS {
                        return Err(error);
                    }
                    let clock = &self.way.nodes().env().clock;
                    if self.request.follow && clock.now() >= self.renewed + RENEWED {
                        // It may be lost by now. If that cannot be asked, it is the next time.
                        drop(self.way.renew().await);
                        self.renewed = clock.now();
                    }
                    clock.sleep(PAUSE).await;
                }
            }
        }
    }

    /// Whether its target is lost, and another one has its part since.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.way.target() != self.target
    }

    async fn try_next(&mut self) -> Result<Part> {
        let answer = match &mut self.answer {
            Some(answer) => answer,
            none => {
                let QueryRequest { text, now, follow, limit, gaps_only, blocks, .. } =
                    self.cursor.resume(&self.request);
                let query = RingQuery { text, now, follow, limit, gaps_only, blocks };
                none.insert(PartAnswer::open(self.way.clone(), query).await?)
            }
        };
        answer.next().await
    }

    fn note(&mut self, batch: &Batch) {
        for item in &batch.items {
            if let Item::Element { time, last: true, .. } = *item {
                let so_far = self.last.filter(|(last, _)| *last == time).map_or(0, |(_, count)| count);
                self.last = Some((time, so_far + 1));
            }
        }
    }

    /// The time of the last element that was given, and how many were given of that time.
    pub(super) fn last(&self) -> Option<(Timestamp, u64)> {
        self.last
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
