//! What the one target of a ring answers to whoever follows it.
//!
//! A target gives what is recorded before it is durable. If that is lost in a crash, the next session has its numbers: so what was given is
//! known by sessions and numbers of blocks, as it is of each target of a ring over several ([`Source`]), and nothing is passed over that
//! only has the number of something else. Numbers of elements go back then.

use super::source::{Heard, Source, only};
use super::way::Way;
use crate::peer::Part;
use forebay_model::ring::{Item, QuerySummary};
use forebay_model::{Bytes, Result};
use forebay_wire::ring::RingQuery;
use std::rc::Rc;
use std::time::Duration;

/// For so long the rest of an element is waited for that the target gave in part before its connection broke. What has its number when
/// that is over is looked for from what is known to be durable on.
const HOLD: Duration = Duration::from_secs(2);

/// An answer that goes on while its target comes and goes.
pub(super) struct Followed {
    source: Source,
    /// Elements that are still wanted.
    left: u64,
    summary: QuerySummary,
}

impl Followed {
    pub(super) async fn begin(way: Way, query: RingQuery) -> Result<Followed> {
        let left = query.limit.unwrap_or(u64::MAX);
        let mut source = Source::new(way, query, u64::MAX, Rc::new(Heard::default())).holding(Some(HOLD));
        source.begin().await?;
        Ok(Followed { source, left, summary: QuerySummary::default() })
    }

    /// The next part. A target that is away is waited for.
    pub(super) async fn next(&mut self) -> Result<Part> {
        while self.left > 0 {
            let batch = match self.source.next().await? {
                Part::Batch(batch) => batch,
                Part::End(end) => {
                    let QuerySummary { elements, bytes, .. } = self.summary;
                    return Ok(Part::End(QuerySummary { elements, bytes, ..end }));
                }
            };
            let (left, summary) = (&mut self.left, &mut self.summary);
            let batch = only(batch, &mut |item| match *item {
                Item::Block { .. } => false,
                _ if *left == 0 => false,
                Item::Element { length, last, .. } => {
                    *left -= u64::from(last);
                    summary.elements += u64::from(last);
                    summary.bytes += Bytes(u64::from(length));
                    true
                }
                Item::Gap(_) | Item::Expired { .. } => true,
            });
            if !batch.items.is_empty() {
                return Ok(Part::Batch(batch));
            }
        }
        Ok(Part::End(self.summary))
    }
}
