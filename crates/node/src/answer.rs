//! The answer of a target of this process to a query, for any thread.

use crate::host::TargetHandle;
use crate::service::{Order, QueryId};
use forebay_env::pipe::Outlet;
use forebay_model::ring::{Batch, QuerySummary};
use forebay_model::{Error, Result};

/// What comes next in an answer.
pub enum Part {
    /// Items, in order.
    Batch(Batch),
    /// The end.
    End(QuerySummary),
}

/// An answer as it comes. The query ends when this is dropped.
pub struct Answer {
    target: TargetHandle,
    query: QueryId,
    batches: Outlet<Batch>,
    end: Outlet<Result<QuerySummary>>,
}

impl Answer {
    pub(crate) fn new(
        target: TargetHandle,
        query: QueryId,
        batches: Outlet<Batch>,
        end: Outlet<Result<QuerySummary>>,
    ) -> Answer {
        Answer { target, query, batches, end }
    }

    /// Waits for the next part.
    pub fn next_part(&mut self) -> Result<Part> {
        if let Some(batch) = self.batches.receive_blocking() {
            return Ok(Part::Batch(batch));
        }
        match self.end.receive_blocking() {
            Some(end) => end.map(Part::End),
            // It was cancelled, or its target went away.
            None => match self.target.failure() {
                Some(error) => Err(error),
                None => Ok(Part::End(QuerySummary::default())),
            },
        }
    }

    /// Waits for the next part as a task.
    pub(crate) async fn next_part_from_task(&mut self) -> Result<Part> {
        if let Some(batch) = self.batches.receive().await {
            return Ok(Part::Batch(batch));
        }
        match self.end.receive().await {
            Some(end) => end.map(Part::End),
            // Its target went away, or ended it.
            None => Err(self.target.failure().unwrap_or_else(|| {
                Error::disconnected("the query was ended where it ran: ask again from the last element on")
            })),
        }
    }

    /// What ends the query early, from any thread.
    pub fn canceller(&self) -> impl Fn() + Send + Sync + 'static {
        let (target, query) = (self.target.clone(), self.query);
        move || {
            // A target that is gone answers nothing more anyway.
            let _ = target.order(Order::CancelQuery(query));
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let _ = self.target.order(Order::CancelQuery(self.query));
    }
}
