//! What the parity has run over: of that, no table says any more what a target missed while it was away.
//!
//! Blocks are numbered in their sessions, and whoever was away begins another one. So a part has all that it was given between two
//! of its blocks that are of one session; where the next session begins, nobody knows what was before it, and that is told.

use super::super::answer::PartAnswer;
use super::super::merge::Asked;
use super::super::stripe::{PART_ABSENT, PART_TABLE, Row, Table};
use super::before_parity;
use super::blocks::{Blocks, Lying};
use super::maker::Maker;
use crate::peer::Part;
use forebay_model::block::View;
use forebay_model::ring::Item;
use forebay_model::{Cause, Gap, Result, Timestamp};
use forebay_wire::ring::RingQuery;
use std::ops::Range;
use std::time::Duration;

/// So many sessions of a part are told apart; what is behind them counts as one.
const MOST_SESSIONS: usize = 16;
/// Where a session ends is found to so many nanoseconds.
const NEAR: i64 = 1_000_000;
/// For so long from a time on is looked first for a block, and then for four times as long.
const AT_ONCE: Duration = Duration::from_secs(2);

/// A block in its session.
#[derive(Debug, Clone, Copy)]
struct Place {
    writer: u64,
    number: u64,
    times: (i64, i64),
}

/// Where the parts begin that reach further back than the parity, as it was before anything was asked of that; nothing if there
/// are none.
#[derive(Default)]
pub(super) struct Beginnings(Option<Vec<Option<Place>>>);

/// The first or the last that tables say of each part, and the time of the first of them.
struct Told {
    rows: Vec<Option<Row>>,
    time: Option<Timestamp>,
}

impl Place {
    fn of(lying: &Lying) -> Result<Place> {
        let view = View::of_sealed(&lying.packed)?;
        let header = view.header();
        let times = (header.min_time.get(), header.max_time.get());
        Ok(Place { writer: header.writer.get(), number: header.number.get(), times })
    }

    fn of_row(row: &Row) -> Place {
        Place { writer: row.writer, number: row.number, times: row.times }
    }
}

impl Beginnings {
    pub(super) async fn look(asked: &Asked) -> Beginnings {
        // If the parity itself was lost, all that is older is told to be unknown.
        let is_lost = asked.replaced.contains(&asked.spread.targets);
        if is_lost || before_parity(asked, asked.gap_from(Timestamp::MIN)).is_none() {
            return Beginnings(None);
        }
        let mut places = Vec::new();
        for component in 0..asked.spread.targets {
            let oldest = asked.statuses[component as usize].as_ref().and_then(|status| status.oldest);
            places.push(match oldest {
                Some(oldest) => {
                    let from = oldest.max(asked.times().0);
                    let mut blocks = Blocks::of_whoever(asked, component as usize);
                    // What cannot be asked is not known.
                    first_from(asked, &mut blocks, component, from.0).await.ok().flatten()
                }
                None => None,
            });
        }
        Beginnings(Some(places))
    }
}

/// Tells what nobody knows of what the parity had at these numbers and has run over. `before` is the time of what it had last
/// before that.
pub(super) async fn tell(
    asked: &Asked,
    maker: &mut Maker<'_>,
    beginnings: &Beginnings,
    numbers: Range<u64>,
    before: Timestamp,
) {
    let from_beginning = numbers.start == 0;
    if from_beginning && beginnings.0.is_none() {
        return;
    }
    let whole = asked.gap_until_now(before);
    let behind = tables(asked, format!("seq >= {}", numbers.end), false).await;
    let behind = behind.unwrap_or(Told { rows: vec![None; asked.spread.targets as usize], time: None });
    let left: Vec<Option<Place>> = match &beginnings.0 {
        Some(places) if from_beginning => places.clone(),
        _ => {
            let far = numbers.start.saturating_sub(8 * u64::from(asked.spread.targets));
            let told = tables(asked, format!("seq >= {far} and seq < {}", numbers.start), true).await;
            told.map(|told| told.rows).unwrap_or_default().iter().map(|row| row.as_ref().map(Place::of_row)).collect()
        }
    };
    let mut ranges = Vec::new();
    for component in 0..asked.spread.targets {
        let at = component as usize;
        // What one has that does not answer is made from the parity, and told where that does not reach.
        if asked.statuses[at].is_none() && !asked.query.follow {
            continue;
        }
        let right = behind.rows.get(at).copied().flatten();
        let end = right.map(|row| row.times.0).or(behind.time.map(|time| time.0)).unwrap_or(whole.last.0);
        let left = left.get(at).copied().flatten();
        let found = match left {
            Some(left) => {
                let others = if from_beginning { beginnings.0.as_deref().unwrap_or_default() } else { &[] };
                if begins_unknown(asked, component, left, from_beginning, others) {
                    ranges.push((before.0, left.times.0.min(end)));
                }
                // What was on a target that is lost is not where its part is now.
                let oldest = asked.statuses[at].as_ref().and_then(|status| status.oldest);
                let is_before = oldest.is_none_or(|oldest| left.times.0 < oldest.0);
                match asked.replaced.contains(&component) && !from_beginning && is_before {
                    true => Ok(vec![(left.times.1, end)]),
                    false => sessions(asked, component, left, right, end).await,
                }
            }
            None => Ok(vec![(before.0, end)]),
        };
        ranges.extend(found.unwrap_or_else(|_| vec![(before.0, end)]));
    }
    ranges.retain(|(first, end)| first < end);
    ranges.sort_unstable();
    let mut joined: Vec<(i64, i64)> = Vec::new();
    for (first, end) in ranges {
        match joined.last_mut().filter(|last| first <= last.1) {
            Some(last) => last.1 = last.1.max(end),
            None => joined.push((first, end)),
        }
    }
    for (first, end) in joined {
        let (first, last) = (Timestamp(first), Timestamp(end - 1));
        asked.tell_gap(Gap { cause: Cause::TargetAway, count: None, first, last }, &mut maker.batch);
    }
}

/// Whether a part may have missed something before the first that it has.
fn begins_unknown(asked: &Asked, component: u32, left: Place, from_beginning: bool, others: &[Option<Place>]) -> bool {
    if !from_beginning || left.number > 1 {
        return false;
    }
    let Some(status) = &asked.statuses[component as usize] else { return true };
    if status.oldest.is_some_and(|oldest| oldest < asked.times().0) {
        return true;
    }
    // What it has run over is told as such. If there is nothing of that, it was there from the beginning unless another one has
    // something older.
    let is_older = |other: &Place| other.times.0 < left.times.0 && other.writer != left.writer;
    status.first_sequence == 0 && others.iter().flatten().any(is_older)
}

/// Between which times a part may have missed something, from this block on to that row of it: where sessions begin.
async fn sessions(asked: &Asked, component: u32, left: Place, right: Option<Row>, end: i64) -> Result<Vec<(i64, i64)>> {
    let mut blocks = Blocks::of_whoever(asked, component as usize);
    let (mut at, mut ranges) = (left, Vec::new());
    for _ in 0..MOST_SESSIONS {
        if at.times.0 >= end || right.is_some_and(|row| !row.absent && row.writer == at.writer) {
            return Ok(ranges);
        }
        let (mut last, mut until, mut next) = (at.times.1, end, None);
        while until.saturating_sub(last) > NEAR {
            let middle = last + (until - last) / 2;
            match first_from(asked, &mut blocks, component, middle).await? {
                Some(found) if found.writer == at.writer => last = found.times.1.max(middle),
                found => (until, next) = (middle, found),
            }
        }
        let Some(next) = next else {
            ranges.push((last, end));
            return Ok(ranges);
        };
        ranges.push((last, next.times.0.min(end)));
        at = next;
    }
    ranges.push((at.times.0, end));
    Ok(ranges)
}

/// The first block of a part from a time on, as far as it had anything when it was asked for its status.
async fn first_from(asked: &Asked, blocks: &mut Blocks, component: u32, from: i64) -> Result<Option<Place>> {
    let newest = asked.statuses[component as usize].as_ref().and_then(|status| status.newest);
    let newest = newest.unwrap_or(asked.query.now).0;
    let (mut from, mut span) = (from, AT_ONCE.as_nanos() as i64);
    while from <= newest {
        let to = from.saturating_add(span);
        blocks.begin((Timestamp(from), Timestamp(to))).await?;
        if let Some(found) = blocks.next().await? {
            return Place::of(&found).map(Some);
        }
        (from, span) = (to, span.saturating_mul(4));
    }
    Ok(None)
}

/// What the first tables of the parity at some numbers say of each part, or the last.
async fn tables(asked: &Asked, numbers: String, is_last: bool) -> Result<Told> {
    let parity = asked.spread.targets as usize;
    let text = format!("(part = {PART_TABLE} or part = {PART_ABSENT}) and {numbers}");
    let limit = Some(4 * u64::from(asked.spread.targets));
    let query = RingQuery {
        text,
        now: asked.query.now,
        follow: false,
        limit,
        gaps_only: false,
        blocks: false,
        numbered: false,
    };
    let mut answer = PartAnswer::open(asked.ways[parity].apart(), query).await?;
    let mut told = Told { rows: vec![None; parity], time: None };
    while let Part::Batch(batch) = answer.next().await? {
        let mut at = 0;
        for item in batch.items {
            let Item::Element { length, caller, time, .. } = item else { continue };
            let bytes = &batch.payload[at..at + length as usize];
            at += length as usize + usize::from(caller);
            let table = Table::read(bytes, asked.spread.targets)?;
            told.time.get_or_insert(time);
            for row in table.rows {
                let kept = &mut told.rows[row.component as usize];
                if is_last || kept.is_none() {
                    *kept = Some(row);
                }
            }
        }
    }
    Ok(told)
}
