//! The answer to a query of a ring, part by part; each is let come within the client's credit.
//!
//! What comes of one target is asked for one part ahead, over a connection of its own.

use super::followed::Followed;
use super::merge::Merged;
use super::way::{PAUSE, Way};
use super::{moved, replaced};
use crate::peer::Part;
use forebay_env::race::{First, race};
use forebay_model::ring::{Batch, Item, QuerySummary};
use forebay_model::{Error, Gap, Kind, Result, TargetId};
use forebay_wire::control::files::ComponentState;
use forebay_wire::link::{Answer, Coming, Link};
use forebay_wire::ring::{MOST_OF_PART, PartHead, RingAsk, RingQuery, check};

/// An answer as it comes. The query ends with it.
pub struct RingAnswer {
    from: From,
}

enum From {
    One(Box<PartAnswer>),
    Followed(Box<Followed>),
    Several(Box<Merged>),
}

impl RingAnswer {
    pub(super) fn of_one(answer: PartAnswer) -> RingAnswer {
        RingAnswer { from: From::One(Box::new(answer)) }
    }

    pub(super) fn of_followed(followed: Followed) -> RingAnswer {
        RingAnswer { from: From::Followed(Box::new(followed)) }
    }

    pub(super) fn of_several(merged: Merged) -> RingAnswer {
        RingAnswer { from: From::Several(Box::new(merged)) }
    }

    /// Waits for the next part. An error of kind disconnected means that the query is to be asked again, from the last
    /// element on that was returned.
    pub async fn next(&mut self) -> Result<Part> {
        match &mut self.from {
            From::One(answer) => answer.next().await,
            From::Followed(followed) => followed.next().await,
            From::Several(merged) => merged.next().await,
        }
    }
}

/// What one part answers: its target, and before it the one on which it lay until it left for that.
pub(super) struct PartAnswer {
    /// Where it is asked now.
    way: Way,
    target: TargetId,
    link: Link,
    query: u64,
    /// The next part, which is asked for ahead.
    coming: Option<Coming>,
    /// What is asked where the part lies, when all is given that it has in another place.
    behind: Option<(Way, RingQuery)>,
    /// The part that is followed where it lay, as it does not go on yet where it lies.
    stays: Option<Way>,
    /// Whether the place that answers began with what another one had: lower numbers were not run over there.
    has_begun_late: bool,
    /// Elements that it counts as expired for that.
    before: u64,
    /// What is told first.
    missing: Option<Gap>,
    /// Of what was given before.
    summary: QuerySummary,
}

impl PartAnswer {
    pub(super) async fn open(way: Way, query: RingQuery) -> Result<PartAnswer> {
        loop {
            let Some(former) = way.former() else {
                // Where it lay before it is lost: what is not there is made of others.
                let has_begun_late = way.state() == ComponentState::Filling;
                let mut answer = PartAnswer::ask_one(way, query).await?;
                answer.has_begun_late = has_begun_late;
                return Ok(answer);
            };
            // Before that is known, nothing is asked: what is recorded there until then is given there.
            let stays = query.follow && matches!(moved::goes_on(&way).await, Ok(false));
            let before = RingQuery { follow: stays, ..query.clone() };
            match PartAnswer::ask_one(former.clone(), before).await {
                Ok(mut answer) => {
                    match stays {
                        true => answer.stays = Some(way),
                        false => answer.behind = Some((way.apart(), query)),
                    }
                    return Ok(answer);
                }
                // It was copied from there meanwhile, or the ring has run over it.
                Err(_) if way.has_left(&former) => {}
                Err(error) if !stays && !way.is_covered() && is_gone(&error) => {
                    return PartAnswer::open_without(way, query).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Of what there is where it lies alone.
    async fn open_without(way: Way, query: RingQuery) -> Result<PartAnswer> {
        let missing = moved::gap_before(&way, &query).await?;
        let mut answer = PartAnswer::ask_one(way, query).await?;
        (answer.has_begun_late, answer.missing) = (true, missing);
        Ok(answer)
    }

    async fn ask_one(way: Way, query: RingQuery) -> Result<PartAnswer> {
        let (_, id, link) = way.ask(&RingAsk::Query(query)).await?;
        let (target, summary) = (way.target(), QuerySummary::default());
        let mut answer = PartAnswer {
            way,
            target,
            link,
            query: id.0,
            coming: None,
            behind: None,
            stays: None,
            has_begun_late: false,
            before: 0,
            missing: None,
            summary,
        };
        answer.coming = Some(answer.ask()?);
        Ok(answer)
    }

    fn ask(&self) -> Result<Coming> {
        if self.way.target() != self.target {
            return Err(Error::disconnected(format!("a part of {} lies elsewhere by now", self.way.path())));
        }
        self.way.ask_over(&self.link, &RingAsk::Next(self.query), Vec::new(), MOST_OF_PART)
    }

    /// Waits for the next part. An error of kind disconnected means that the query is to be asked again, from the last
    /// element on that was returned.
    pub(super) async fn next(&mut self) -> Result<Part> {
        if let Some(missing) = self.missing.take() {
            return Ok(Part::Batch(Batch { items: vec![Item::Gap(missing)], payload: Vec::new() }));
        }
        loop {
            match self.next_head().await? {
                (PartHead::Items(items), payload) => {
                    let mut batch = Batch { items, payload };
                    check(&batch)?;
                    self.coming = Some(self.ask()?);
                    self.leave_out_what_is_before(&mut batch).await?;
                    return Ok(Part::Batch(batch));
                }
                (PartHead::End(end), _) => {
                    let expired = end.expired.saturating_sub(self.before);
                    let end = sum(self.summary, QuerySummary { expired, ..end });
                    let Some((way, query)) = self.behind.take() else { return Ok(Part::End(end)) };
                    let left = query.limit.map(|limit| limit.saturating_sub(end.elements));
                    if left == Some(0) {
                        return Ok(Part::End(end));
                    }
                    let mut next = PartAnswer::ask_one(way, RingQuery { limit: left, ..query }).await?;
                    (next.has_begun_late, next.summary) = (true, end);
                    *self = next;
                }
            }
        }
    }

    /// What has a lower number than the first that was ever recorded there was not run over there.
    async fn leave_out_what_is_before(&mut self, batch: &mut Batch) -> Result<()> {
        let tells_of_some = || batch.items.iter().any(|item| matches!(item, Item::Expired { .. }));
        if !self.has_begun_late || !tells_of_some() {
            return Ok(());
        }
        let (begins, before) = (replaced::own_status(&self.way).await?.begins, &mut self.before);
        batch.items.retain_mut(|item| {
            let Item::Expired { from, to } = item else { return true };
            let end = (*to).min(begins);
            *before += end.saturating_sub(*from);
            *from = (*from).max(end);
            from < to
        });
        Ok(())
    }

    async fn next_head(&mut self) -> Result<(PartHead, Vec<u8>)> {
        let mut is_renewed = false;
        let answer = loop {
            let coming = match self.coming.take() {
                Some(coming) => coming,
                None => self.ask()?,
            };
            let came = match &self.stays {
                Some(way) => until_it_goes_on(way, coming).await,
                None => coming.await,
            };
            match came {
                // What allows it ran out while nothing was asked for.
                Err(error) if error.kind == Kind::Stale && !is_renewed => {
                    self.way.renew().await?;
                    is_renewed = true;
                }
                // It did not run out, but counts no more since something of the ring went elsewhere: with that the query was ended.
                Err(error) if error.kind == Kind::Missing && is_renewed => {
                    return Err(Error::disconnected(format!(
                        "something of {} went elsewhere just now, and with that the answer ended; ask again",
                        self.way.path()
                    )));
                }
                answer => break answer.map_err(|error| self.way.named(error))?,
            }
        };
        Ok((forebay_wire::read_body(&answer.body)?, answer.payload.into_vec()))
    }
}

/// What comes of a part that is followed where it lay, until it goes on where it lies: then all that is there is asked for once more.
async fn until_it_goes_on(way: &Way, mut coming: Coming) -> Result<Answer> {
    let clock = way.nodes().env().clock.clone();
    let began = clock.now();
    loop {
        // Who records goes on there in a moment, if anybody does.
        let pause = (clock.now().since(began) / 8).clamp(PAUSE, PAUSE * 10);
        match race(&mut coming, clock.sleep(pause)).await {
            First::Left(came) => return came,
            First::Right(()) if !matches!(moved::goes_on(way).await, Ok(true)) => {}
            First::Right(()) => {
                return Err(Error::disconnected(format!("a part of {} goes on elsewhere by now", way.path())));
            }
        }
    }
}

fn sum(before: QuerySummary, now: QuerySummary) -> QuerySummary {
    QuerySummary {
        elements: before.elements + now.elements,
        bytes: before.bytes + now.bytes,
        read: before.read + now.read,
        segments: before.segments + now.segments,
        blocks: before.blocks + now.blocks,
        expired: before.expired + now.expired,
        pinned: before.pinned || now.pinned,
    }
}

/// Whether a part cannot be asked any more where it lay before.
fn is_gone(error: &Error) -> bool {
    matches!(error.kind, Kind::Disconnected | Kind::Missing | Kind::Device | Kind::Damaged)
}

impl Drop for PartAnswer {
    fn drop(&mut self) {
        self.link.close();
    }
}
