//! The answer to a query of a ring, part by part; each is let come within the client's credit.

use super::way::Way;
use crate::peer::Part;
use forebay_model::ring::Batch;
use forebay_model::{Kind, Result};
use forebay_wire::link::{Coming, Link};
use forebay_wire::ring::{MOST_OF_PART, PartHead, RingAsk, RingQuery, check};

/// An answer as it comes. The query ends with it.
pub struct RingAnswer {
    way: Way,
    link: Link,
    query: u64,
    /// The next part, which is asked for ahead.
    coming: Option<Coming>,
}

impl RingAnswer {
    pub(super) async fn open(way: Way, query: RingQuery) -> Result<RingAnswer> {
        let (_, id, link) = way.ask(&RingAsk::Query(query)).await?;
        let mut answer = RingAnswer { way, link, query: id.0, coming: None };
        answer.coming = Some(answer.ask()?);
        Ok(answer)
    }

    fn ask(&self) -> Result<Coming> {
        self.way.ask_over(&self.link, &RingAsk::Next(self.query), Vec::new(), MOST_OF_PART)
    }

    /// Waits for the next part. An error of kind disconnected means that the query is to be asked again, from the last
    /// element on that was returned.
    pub async fn next(&mut self) -> Result<Part> {
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
                let batch = Batch { items, payload: answer.payload };
                check(&batch)?;
                self.coming = Some(self.ask()?);
                Ok(Part::Batch(batch))
            }
            PartHead::End(summary) => Ok(Part::End(summary)),
        }
    }
}

impl Drop for RingAnswer {
    fn drop(&mut self) {
        self.link.close();
    }
}
