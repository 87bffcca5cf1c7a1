//! Queries under way at one target.

use super::{Fenced, QueryId, Service, fences};
use async_task::Task;
use forebay_env::pipe::Inlet;
use forebay_model::query::Query;
use forebay_model::ring::{Batch, QuerySummary};
use forebay_model::{ObjectId, Result};
use forebay_target::query::{self, Limits};
use forebay_wire::command::QueryRequest;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

#[derive(Default)]
pub(super) struct Queries {
    running: RefCell<BTreeMap<QueryId, Running>>,
}

struct Running {
    /// What was shown for it.
    fenced: Option<Fenced>,
    task: Task<()>,
}

pub(super) fn start(
    service: &Rc<Service>,
    id: QueryId,
    (request, fenced): (QueryRequest, Option<Fenced>),
    batches: Inlet<Batch>,
    end: Inlet<Result<QuerySummary>>,
) {
    let this = service.clone();
    let task = service.env.spawner.spawn(async move {
        let result = answer(&this, request, fenced, batches).await;
        end.send(result, 0).await;
        if let Some(own) = this.queries.running.borrow_mut().remove(&id) {
            own.task.detach();
        }
    });
    service.queries.running.borrow_mut().insert(id, Running { fenced, task });
}

/// Ends the queries of those who are shut out of a ring.
pub(super) fn shut_out(service: &Service, object: ObjectId, version: u64) {
    let is_out = |query: &Running| query.fenced.is_some_and(|fenced| fenced.is_out(object, version));
    let ended: Vec<_> = service.queries.running.borrow_mut().extract_if(.., |_, query| is_out(query)).collect();
    drop(ended);
}

/// Ends a query wherever it is; what it sent is still there.
pub(super) fn cancel(service: &Service, id: QueryId) {
    let task = service.queries.running.borrow_mut().remove(&id);
    drop(task);
}

async fn answer(
    service: &Rc<Service>,
    request: QueryRequest,
    fenced: Option<Fenced>,
    batches: Inlet<Batch>,
) -> Result<QuerySummary> {
    // Only while it begins: from then on it ends when its fence is raised.
    drop(fences::enter(service, fenced).await?);
    let ring = service.target.ring(&request.ring)?;
    let query = Query::parse(&request.text, &ring.keys, request.now)?;
    let limits = Limits {
        follow: request.follow,
        elements: request.limit.unwrap_or(u64::MAX),
        gaps_only: request.gaps_only,
        blocks: request.blocks,
        numbered: request.numbered,
    };
    if limits.elements == 0 {
        return Ok(QuerySummary::default());
    }
    query::run(ring, query, limits, &batches).await
}
