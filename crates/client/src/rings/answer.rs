//! The answer to a query of a ring, part by part; each is let come within the client's credit.
//!
//! What comes of one target is asked for one part ahead, over a connection of its own.

use super::followed::Followed;
use super::merge::Merged;
use super::way::Way;
use crate::peer::Part;
use forebay_model::ring::Batch;
use forebay_model::{Kind, Result};
use forebay_wire::link::{Coming, Link};
use forebay_wire::ring::{MOST_OF_PART, PartHead, RingAsk, RingQuery, check};

/// An answer as it comes. The query ends with it.
pub struct RingAnswer {
    from: From,
}

enum From {
    One(PartAnswer),
    Followed(Box<Followed>),
    Several(Box<Merged>),
}

impl RingAnswer {
    pub(super) fn of_one(answer: PartAnswer) -> RingAnswer {
        RingAnswer { from: From::One(answer) }
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

/// What one target answers.
pub(super) struct PartAnswer {
    way: Way,
    link: Link,
    query: u64,
    /// The next part, which is asked for ahead.
    coming: Option<Coming>,
}

impl PartAnswer {
    pub(super) async fn open(way: Way, query: RingQuery) -> Result<PartAnswer> {
        let (_, id, link) = way.ask(&RingAsk::Query(query)).await?;
        let mut answer = PartAnswer { way, link, query: id.0, coming: None };
        answer.coming = Some(answer.ask()?);
        Ok(answer)
    }

    fn ask(&self) -> Result<Coming> {
        self.way.ask_over(&self.link, &RingAsk::Next(self.query), Vec::new(), MOST_OF_PART)
    }

    /// Waits for the next part. An error of kind disconnected means that the query is to be asked again, from the last
    /// element on that was returned.
    pub(super) async fn next(&mut self) -> Result<Part> {
        let mut is_renewed = false;
        let answer = loop {
            let coming = match self.coming.take() {
                Some(coming) => coming,
                None => self.ask()?,
            };
            match coming.await {
                // What allows it ran out while nothing was asked for.
                Err(error) if error.kind == Kind::Stale && !is_renewed => {
                    self.way.renew().await?;
                    is_renewed = true;
                }
                answer => break answer.map_err(|error| self.way.named(error))?,
            }
        };
        match forebay_wire::read_body(&answer.body)? {
            PartHead::Items(items) => {
                let batch = Batch { items, payload: answer.payload.into_vec() };
                check(&batch)?;
                self.coming = Some(self.ask()?);
                Ok(Part::Batch(batch))
            }
            PartHead::End(summary) => Ok(Part::End(summary)),
        }
    }
}

impl Drop for PartAnswer {
    fn drop(&mut self) {
        self.link.close();
    }
}
