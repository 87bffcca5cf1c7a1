//! Queries under way at one target.

use super::{QueryId, Service};
use async_task::Task;
use forebay_env::pipe::Inlet;
use forebay_model::Result;
use forebay_model::query::Query;
use forebay_model::ring::{Batch, QuerySummary};
use forebay_target::query::{self, Limits};
use forebay_wire::command::QueryRequest;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

#[derive(Default)]
pub(super) struct Queries {
    running: RefCell<BTreeMap<QueryId, Task<()>>>,
}

pub(super) fn start(
    service: &Rc<Service>,
    id: QueryId,
    request: QueryRequest,
    batches: Inlet<Batch>,
    end: Inlet<Result<QuerySummary>>,
) {
    let this = service.clone();
    let task = service.env.spawner.spawn(async move {
        let result = answer(&this, request, batches).await;
        end.send(result, 0).await;
        if let Some(own) = this.queries.running.borrow_mut().remove(&id) {
            own.detach();
        }
    });
    service.queries.running.borrow_mut().insert(id, task);
}

/// Ends a query wherever it is; what it sent is still there.
pub(super) fn cancel(service: &Service, id: QueryId) {
    let task = service.queries.running.borrow_mut().remove(&id);
    drop(task);
}

async fn answer(service: &Rc<Service>, request: QueryRequest, batches: Inlet<Batch>) -> Result<QuerySummary> {
    let ring = service.target.ring(&request.ring)?;
    let query = Query::parse(&request.text, &ring.keys, request.now)?;
    let limits =
        Limits { follow: request.follow, elements: request.limit.unwrap_or(u64::MAX), gaps_only: request.gaps_only };
    if limits.elements == 0 {
        return Ok(QuerySummary::default());
    }
    query::run(ring, query, limits, &batches).await
}
