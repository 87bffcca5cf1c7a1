//! What one target answers to a query, also over a connection after the other: nothing twice, and nothing left out.
//!
//! Of an element that comes in pieces and does not go on since the connection broke, the rest is given up while what is recorded is
//! followed: a gap tells that, so that what others have does not wait for it. If it is there after all, it is given again, as a whole.

use super::answer::PartAnswer;
use super::given::{Depth, Given, Last};
use super::rebuild::is_of_a_lost_target;
use super::way::{PAUSE, Way};
use super::writer::is_passing;
use crate::answer::cursor::{Cursor, conjunction};
use crate::peer::Part;
use forebay_env::race::{First, race};
use forebay_model::ring::{Batch, Item, Spread};
use forebay_model::{Cause, Error, Gap, Kind, Moment, Result, TargetId, Timestamp};
use forebay_wire::command::QueryRequest;
use forebay_wire::ring::{RingQuery, size};
use std::cell::{Cell, RefCell};
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
    /// What was given of it.
    pub(super) given: RefCell<Given>,
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
    /// The block that what comes is of, and how far it came.
    here: Option<(Place, Depth)>,
    /// The number there after the last element that came.
    came: Option<u64>,
    /// And after the last that was known to be durable.
    durable: u64,
    /// Whether it was told that what the target has is lost, which is waited for all the same.
    is_told: bool,
    /// Whether what was given may come again.
    is_back: bool,
    /// For so long the rest of an element is waited for, if what is recorded is followed.
    hold: Option<Duration>,
    /// The element that was given in part: its number there, its time, and the session that it is of.
    open: Option<Open>,
    /// Since when it does not go on, as the connection broke.
    broken: Option<Moment>,
}

/// An element that was given in part.
#[derive(Debug, Clone, Copy)]
struct Open {
    sequence: u64,
    time: Timestamp,
    writer: Option<u64>,
}

/// A block of a target: its session and number, and the number there of its first element.
#[derive(Debug, Clone, Copy)]
struct Place {
    writer: u64,
    number: u64,
    first: u64,
}

impl Source {
    /// `end` is the number on that target of the first element that is not wanted.
    pub(super) fn new(way: Way, query: RingQuery, end: u64, heard: Rc<Heard>) -> Source {
        let RingQuery { text, now, follow, limit, gaps_only, blocks, .. } = query;
        let asked = text.clone();
        // What comes again while what is recorded is followed does not count: whoever puts answers together ends it.
        let limit = limit.filter(|_| !follow);
        let request = QueryRequest { ring: String::new(), text, now, follow, limit, gaps_only, blocks, numbered: true };
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
            here: None,
            came: None,
            durable: 0,
            is_told: false,
            is_back: false,
            hold: None,
            open: None,
            broken: None,
        }
    }

    /// The same, where the rest of an element is waited for so long when the connection broke.
    pub(super) fn holding(self, hold: Option<Duration>) -> Source {
        Source { hold, ..self }
    }

    /// Asks already: an error is of what is asked, or means that the target is away.
    pub(super) async fn begin(&mut self) -> Result<()> {
        self.ask().await.map(drop)
    }

    /// The next part. An error means that the target is away, or cannot answer; while what is recorded is followed, one that is
    /// away is waited for.
    pub(super) async fn next(&mut self) -> Result<Part> {
        loop {
            if self.goes_on_elsewhere() {
                // With its numbers: what it had there is asked for all the same.
                self.target = self.way.target();
            }
            if self.is_elsewhere() {
                return Err(Error::missing(format!(
                    "a part of {} lies elsewhere by now than on target {}; ask again",
                    self.way.path(),
                    self.target
                )));
            }
            let Some(part) = self.next_in_time().await else { return Ok(Part::Batch(self.give_up_rest())) };
            match part {
                Ok(Part::Batch(batch)) => {
                    self.heard.is_there.set(true);
                    if self.is_of_another(&batch) {
                        return Ok(Part::Batch(self.give_up_rest()));
                    }
                    let batch = self.cursor.pass(before(batch, self.end));
                    let batch = self.new_of(batch);
                    if batch.items.iter().any(|item| !matches!(item, Item::Block { .. })) {
                        (self.breaks, self.is_told, self.broken) = (0, false, None);
                        return Ok(Part::Batch(batch));
                    }
                }
                Ok(end) => return Ok(end),
                Err(error) => {
                    self.answer = None;
                    self.heard.is_there.set(false);
                    self.breaks += 1;
                    // Who follows a ring waits for a target that is lost, too, until its part lies elsewhere.
                    let is_borne = self.goes_on_elsewhere()
                        || match self.request.follow {
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
                    if self.request.follow && self.cursor.is_within() {
                        self.broken.get_or_insert(clock.now());
                    }
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
        if self.cursor.is_within() {
            // What tells that ends the element.
            self.give_up_rest();
        }
        !std::mem::replace(&mut self.is_told, true)
    }

    /// Whether its target is lost, and another one has its part since.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.way.target() != self.target
    }

    /// Whether its part left that target or was copied from there, which is all that becomes of what no parity covers.
    fn goes_on_elsewhere(&self) -> bool {
        let has_left = || self.way.former().is_some_and(|former| former.target() == self.target);
        self.is_elsewhere() && (!self.way.is_covered() || has_left())
    }

    /// The next part; nothing if what came is of an element that does not go on in time since the connection broke.
    async fn next_in_time(&mut self) -> Option<Result<Part>> {
        let Some((since, hold)) = self.broken.zip(self.hold) else { return Some(self.try_next().await) };
        let clock = self.way.nodes().env().clock.clone();
        let left = (since + hold).since(clock.now());
        match race(self.try_next(), clock.sleep(left)).await {
            First::Left(part) => Some(part),
            First::Right(()) => None,
        }
    }

    /// Whether the number of the element that was given in part is by now that of another one: what it gave and was not durable was
    /// lost in a crash.
    fn is_of_another(&self, batch: &Batch) -> bool {
        let Some(open) = self.open.filter(|_| self.request.follow && self.broken.is_some()) else { return false };
        let mut writers = batch.items.iter().filter_map(|item| match item {
            Item::Block { writer, .. } => Some(*writer),
            _ => None,
        });
        open.writer.zip(writers.next()).is_some_and(|(of_it, here)| of_it != here)
    }

    /// Gives up what is still to come of the element that was given in part, and tells that. If it is there, it comes again.
    fn give_up_rest(&mut self) -> Batch {
        let items = self.open.take().map(|Open { sequence, time, .. }| {
            self.came = Some(sequence);
            Item::Gap(Gap { cause: Cause::TargetAway, count: None, first: time, last: time })
        });
        (self.answer, self.broken, self.cursor) = (None, None, Cursor::default());
        Batch { items: items.into_iter().collect(), payload: Vec::new() }
    }

    async fn try_next(&mut self) -> Result<Part> {
        self.ask().await?.next().await
    }

    /// The answer that comes, which is asked for if there is none.
    async fn ask(&mut self) -> Result<&mut PartAnswer> {
        match &mut self.answer {
            Some(_) => {}
            none => {
                if let Some(came) = self.came.filter(|_| self.request.follow && !self.cursor.is_within()) {
                    // What it gave and was not durable may be lost in a crash, and others have the numbers of that by now.
                    let from = came.min(self.durable);
                    self.request.text = if from == 0 { self.asked.clone() } else { conjunction(&self.asked, from) };
                    (self.cursor, self.here, self.came, self.is_back) = (Cursor::default(), None, Some(from), true);
                }
                let QueryRequest { text, now, follow, limit, gaps_only, blocks, numbered, .. } =
                    self.cursor.resume(&self.request);
                let query = RingQuery { text, now, follow, limit, gaps_only, blocks, numbered };
                *none = Some(PartAnswer::open(self.way.clone(), query).await?);
                self.heard.is_there.set(true);
            }
        }
        Ok(self.answer.as_mut().expect("it was asked for just now"))
    }

    /// What is new in a part, which counts as given from now on.
    fn new_of(&mut self, batch: Batch) -> Batch {
        let mut given = self.heard.given.borrow_mut();
        let mut is_new = |item: &Item| match (*item, &mut self.here) {
            (Item::Block { writer, number, first, durable }, here) => {
                *here = Some((Place { writer, number, first }, Depth::NOTHING));
                self.durable = self.durable.max(durable);
                true
            }
            (Item::Element { sequence, time, last, .. }, here) => {
                let writer = here.as_ref().map(|(place, _)| place.writer);
                self.open = (!last).then_some(Open { sequence, time, writer });
                let Some((Place { writer, number, first }, depth)) = here else { return true };
                let before = sequence.saturating_sub(*first);
                *depth = Depth { elements: before.saturating_add(1), gaps: 0 };
                self.came = Some(sequence.saturating_add(1));
                let is_new = before >= given.of(*writer, *number).elements;
                if is_new && last {
                    given.element(Last { writer: *writer, number: *number, time }, before);
                }
                self.is_back &= !is_new;
                is_new
            }
            (Item::Gap(_), here) => {
                self.open = None;
                let Some((Place { writer, number, .. }, depth)) = here else { return true };
                // Of a gap nobody can say but by its place whether it was given.
                let is_new = !self.is_back || *depth >= given.of(*writer, *number);
                depth.gaps += 1;
                if is_new {
                    given.gap(*writer, *number);
                }
                is_new
            }
            (Item::Expired { .. }, _) => {
                self.open = None;
                true
            }
        };
        only(batch, &mut is_new)
    }

    /// The last element that was given.
    pub(super) fn last(&self) -> Option<Last> {
        self.heard.given.borrow().last()
    }
}

/// What of a part is kept.
pub(super) fn only(batch: Batch, is_kept: &mut impl FnMut(&Item) -> bool) -> Batch {
    let keeps: Vec<bool> = batch.items.iter().map(is_kept).collect();
    let mut left_out = batch.items.iter().zip(&keeps).filter(|(_, keep)| !**keep);
    if left_out.all(|(item, _)| size(item) == 0) {
        let items = batch.items.into_iter().zip(keeps).filter_map(|(item, keep)| keep.then_some(item)).collect();
        return Batch { items, payload: batch.payload };
    }
    let (mut kept, mut at) = (Batch::default(), 0);
    for (item, keep) in batch.items.into_iter().zip(keeps) {
        let bytes = &batch.payload[at..at + size(&item)];
        at += bytes.len();
        if keep {
            kept.payload.extend_from_slice(bytes);
            kept.items.push(item);
        }
    }
    kept
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
