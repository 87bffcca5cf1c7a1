//! What one target gives of a ring over several, and what others know of it where it does not answer.

use super::merge::Asked;
use super::rebuild;
use super::source::{Source, only};
use super::writer::is_passing;
use crate::peer::Part;
use forebay_env::pipe::Inlet;
use forebay_model::ring::{Batch, Item, QuerySummary};
use forebay_model::{Result, Timestamp};
use std::rc::Rc;

/// Gives what one target has, and if it does not answer, what others know of it.
pub(super) async fn feed(asked: Rc<Asked>, component: u32, inlet: Inlet<Result<Part>>) {
    let way = asked.ways[component as usize].apart();
    let heard = &asked.heard[component as usize];
    let hold = asked.hold();
    let mut source = Source::new(way, asked.query.clone(), asked.end_of(component), heard.clone()).holding(hold);
    let mut here = None;
    // Who did not answer just now is not asked again, unless what is recorded from now on is wanted.
    let is_there = asked.statuses[component as usize].is_some() || asked.query.follow;
    if is_there {
        loop {
            match source.next().await {
                Ok(Part::Batch(batch)) => {
                    let batch = unclaimed(&asked, component, &mut here, batch);
                    if !batch.items.is_empty() && !inlet.send(Ok(Part::Batch(batch)), 1).await {
                        return;
                    }
                }
                Ok(end) => {
                    inlet.send(Ok(end), 1).await;
                    return;
                }
                // Its recorder goes on elsewhere, and what it had is made of the others.
                Err(_) if asked.query.follow && asked.spread.parity && source.is_elsewhere() => {
                    if rebuild::left_behind(&asked, component, &inlet).await.is_err() {
                        asked.tell_away(since(&source), &inlet).await;
                    }
                    if !inlet.is_open() {
                        return;
                    }
                    let way = asked.ways[component as usize].apart();
                    source = Source::new(way, asked.query.clone(), u64::MAX, heard.clone()).holding(hold);
                }
                // Who follows a ring would not hear of what comes later.
                Err(error) if asked.query.follow && asked.spread.parity => {
                    inlet.send(Err(error), 1).await;
                    return;
                }
                // It is told at once, and what is recorded there when it is opened again comes then.
                Err(error) if asked.query.follow && rebuild::is_of_a_lost_target(&error) && source.wait_for_lost() => {
                    asked.tell_away(since(&source), &inlet).await;
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
    if asked.spread.parity {
        rebuild::component(&asked, component, &inlet).await;
    } else {
        asked.tell_away(since(&source), &inlet).await;
    }
    inlet.send(Ok(Part::End(QuerySummary::default())), 1).await;
}

/// The time of the last element that was given.
fn since(source: &Source) -> Timestamp {
    source.last().map_or(Timestamp::MIN, |last| last.time)
}

/// What one target has in a part, without what others gave of it that was made again. While what is recorded is followed, a
/// target may turn out to have what it was not known to have. `here` is the session and number of the block that comes.
fn unclaimed(asked: &Asked, component: u32, here: &mut Option<(u64, u64)>, batch: Batch) -> Batch {
    let mut claims = asked.claims.borrow_mut();
    let mut yields = |here: Option<(u64, u64)>| match here.filter(|_| asked.query.follow) {
        Some((writer, number)) => claims.yields((component, writer, number)),
        None => true,
    };
    let mut is_its = yields(*here);
    only(batch, &mut |item| match *item {
        Item::Block { writer, number, .. } => {
            *here = Some((writer, number));
            is_its = yields(*here);
            false
        }
        Item::Element { .. } => is_its,
        Item::Gap(_) | Item::Expired { .. } => true,
    })
}
