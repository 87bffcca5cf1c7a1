//! What one target gives of a ring over several, and what others know of it where it does not answer.

use super::merge::Asked;
use super::rebuild::{self, Blocks};
use super::source::Source;
use super::writer::is_passing;
use crate::peer::Part;
use forebay_env::pipe::Inlet;
use forebay_model::ring::{Batch, Item, QuerySummary};
use forebay_model::{Result, Timestamp};
use forebay_wire::ring::size;
use std::ops::Range;
use std::rc::Rc;

/// Gives what one target has, and if it does not answer, what others know of it.
pub(super) async fn feed(asked: Rc<Asked>, component: u32, inlet: Inlet<Result<Part>>) {
    let way = asked.ways[component as usize].apart();
    let heard = &asked.heard[component as usize];
    let mut source = Source::new(way, asked.query.clone(), asked.end_of(component), heard.clone());
    let mut there = Blocks::of_whoever(&asked, component as usize);
    // Who did not answer just now is not asked again, unless what is recorded from now on is wanted.
    let is_there = asked.statuses[component as usize].is_some() || asked.query.follow;
    if is_there {
        loop {
            match source.next().await {
                Ok(Part::Batch(batch)) => {
                    let batch = unclaimed(&asked, &source, &mut there, batch).await;
                    if !batch.items.is_empty() && !inlet.send(Ok(Part::Batch(batch)), 1).await {
                        return;
                    }
                }
                Ok(end) => {
                    inlet.send(Ok(end), 1).await;
                    return;
                }
                // Its recorder goes on elsewhere.
                Err(_) if asked.query.follow && source.is_elsewhere() => {
                    let given = source.last();
                    if rebuild::left_behind(&asked, component, given, &inlet).await.is_err() {
                        asked.tell_away(given.map_or(Timestamp::MIN, |(time, _)| time), &inlet).await;
                    }
                    if !inlet.is_open() {
                        return;
                    }
                    let way = asked.ways[component as usize].apart();
                    source = Source::new(way, asked.query.clone(), u64::MAX, heard.clone());
                }
                // Who follows a ring would not hear of what comes later.
                Err(error) if asked.query.follow && asked.spread.parity => {
                    inlet.send(Err(error), 1).await;
                    return;
                }
                // It is told at once, and what is recorded there when it is opened again comes then.
                Err(error) if asked.query.follow && rebuild::is_of_a_lost_target(&error) && source.wait_for_lost() => {
                    asked.tell_away(source.last().map_or(Timestamp::MIN, |(time, _)| time), &inlet).await;
                }
                Err(error) if !is_passing(&error) && !rebuild::is_of_a_lost_target(&error) => {
                    inlet.send(Err(error), 1).await;
                    return;
                }
                Err(_) => break,
            }
        }
    }
    asked.away.borrow_mut().insert(component);
    let given = source.last();
    if asked.spread.parity {
        rebuild::component(&asked, component, given, &inlet).await;
    } else {
        asked.tell_away(given.map_or(Timestamp::MIN, |(time, _)| time), &inlet).await;
    }
    inlet.send(Ok(Part::End(QuerySummary::default())), 1).await;
}

/// What one target has in a part, without what others gave of it that was made again. While what is recorded is followed, a
/// target may turn out to have what it was not known to have.
async fn unclaimed(asked: &Asked, source: &Source, there: &mut Blocks, mut batch: Batch) -> Batch {
    if !asked.query.follow || asked.claims.borrow().is_empty() {
        return batch;
    }
    let mut times: Vec<i64> = batch.items.iter().filter_map(element).map(|(time, _)| time.0).collect();
    times.sort_unstable();
    let touched = asked.claims.borrow().touched(source.component(), &times);
    for row in touched {
        let lying = loop {
            let found = there.find((&row).into()).await;
            if source.is_elsewhere() {
                // Nobody can say any more which block these were of: there is one at a time.
                break None;
            }
            match found {
                Ok(Some(lying)) => break Some(lying.first..lying.first + row.elements),
                Ok(None) => break Some(0..0),
                Err(_) => {
                    source.look_again().await;
                    there.count_as_there();
                }
            }
        };
        if lying.as_ref().is_some_and(Range::is_empty) {
            continue;
        }
        if !asked.claims.borrow().is_given(&row) {
            asked.claims.borrow_mut().drop(&row);
            continue;
        }
        batch = without(batch, |time, number| match &lying {
            Some(numbers) => numbers.contains(&number),
            None => (row.times.0..=row.times.1).contains(&time.0),
        });
    }
    batch
}

/// The time and number of an element.
fn element(item: &Item) -> Option<(Timestamp, u64)> {
    match item {
        Item::Element { time, sequence, .. } => Some((*time, *sequence)),
        _ => None,
    }
}

/// A part without these elements of it.
fn without(batch: Batch, is_given: impl Fn(Timestamp, u64) -> bool) -> Batch {
    let (mut kept, mut at) = (Batch::default(), 0);
    for item in batch.items {
        let bytes = &batch.payload[at..at + size(&item)];
        at += bytes.len();
        if element(&item).is_none_or(|(time, number)| !is_given(time, number)) {
            kept.payload.extend_from_slice(bytes);
            kept.items.push(item);
        }
    }
    kept
}
