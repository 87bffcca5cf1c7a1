//! What one target does for whoever asks: takes orders from its mailbox and carries them out as tasks on its loop, so
//! that none waits for another.

mod asks;
mod fences;
mod heaps;
mod images;
pub(crate) mod objects;
mod queries;
mod sessions;
pub(crate) mod status;
mod transaction;

use crate::objects::Payload;
use crate::watch::Watch;
use crate::writer::Opening;
use fences::Fences;
use forebay_env::mailbox::Receiver;
use forebay_env::pipe::Inlet;
use forebay_env::{Buffer, Env};
use forebay_model::ring::{Batch, QuerySummary};
use forebay_model::{Moment, ObjectId, Result};
use forebay_target::Target;
use forebay_wire::command::{OpenWriter, QueryRequest, Reply, Request};
use forebay_wire::heap::{HeapAnswer, HeapRequest};
use forebay_wire::object::{ObjectAnswer, ObjectRequest};
use forebay_wire::ring::{ImageAsk, name_of, ring_of};
use heaps::Heaps;
pub use images::ImageAnswer;
pub use objects::LinkId;
use objects::Links;
use queries::Queries;
use sessions::Sessions;
use status::TargetStatus;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;

/// A writer session at this service; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SessionId(pub(crate) u64);

/// A query at this service; never used again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueryId(pub(crate) u64);

/// What the fence of an object has to be for something to be done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fenced {
    /// The object.
    pub(crate) object: ObjectId,
    /// The version that was shown.
    pub(crate) version: u64,
}

impl Fenced {
    /// Whether somebody who showed this is shut out of `object` by `version`.
    fn is_out(&self, object: ObjectId, version: u64) -> bool {
        self.object == object && self.version < version
    }
}

/// What a target is asked to do. Whoever asks chooses the numbers.
pub enum Order {
    /// One request, one answer.
    Ask {
        /// The request.
        request: Request,
        /// What a fence has to be, if that matters.
        fenced: Option<Fenced>,
        /// Where the answer goes.
        answer: Inlet<Result<Reply>>,
    },
    /// How the target is.
    Tell(Inlet<TargetStatus>),
    /// Begin or resume recording.
    OpenWriter {
        /// The session.
        session: SessionId,
        /// What is asked for.
        request: OpenWriter,
        /// What a fence has to be, if that matters.
        fenced: Option<Fenced>,
        /// Where the answer goes.
        answer: Inlet<Result<Opening>>,
    },
    /// A staging buffer, as soon as there is one.
    TakeBuffer {
        /// For this session.
        session: SessionId,
        /// Where it goes; closed without one if the wait was ended.
        answer: Inlet<Buffer>,
    },
    /// End the wait for a buffer, and every later one of this session.
    StopTaking(SessionId),
    /// A packed block.
    Append {
        /// By this session.
        session: SessionId,
        /// The block.
        buffer: Buffer,
        /// Its number.
        number: u64,
        /// When its first element was accepted.
        accepted: Moment,
    },
    /// The session records no more.
    CloseWriter(SessionId),
    /// A query.
    Query {
        /// The query.
        query: QueryId,
        /// What is asked for.
        request: QueryRequest,
        /// What a fence has to be, if that matters.
        fenced: Option<Fenced>,
        /// Where its answer goes.
        batches: Inlet<Batch>,
        /// Where its end goes.
        end: Inlet<Result<QuerySummary>>,
    },
    /// End a query.
    CancelQuery(QueryId),
    /// One request about objects, one answer.
    Object {
        /// Whose I/O it is.
        link: LinkId,
        /// The request.
        request: ObjectRequest,
        /// What a fence has to be, if that matters.
        fenced: Option<Fenced>,
        /// What it writes.
        payload: Payload,
        /// Where the answer goes.
        answer: Inlet<Result<ObjectAnswer>>,
    },
    /// One request about the records of a heap, one answer.
    Heap {
        /// Whose transaction it belongs to.
        link: LinkId,
        /// The request.
        request: HeapRequest,
        /// What a fence has to be, if that matters.
        fenced: Option<Fenced>,
        /// What it puts.
        payload: Arc<Vec<u8>>,
        /// Where the answer goes.
        answer: Inlet<Result<HeapAnswer>>,
    },
    /// One request of who moves a ring, one answer.
    Image {
        /// The ring.
        ring: ObjectId,
        /// The request.
        ask: ImageAsk,
        /// What the fence has to be.
        fenced: Fenced,
        /// What it writes.
        payload: Vec<u8>,
        /// Where the answer goes.
        answer: Inlet<Result<ImageAnswer>>,
    },
    /// Somebody is to have a lock of an object.
    Lock {
        /// What its fence has to be.
        fenced: Fenced,
        /// To which version the fence was raised first since the target is served, if it was.
        answer: Inlet<Result<Option<u64>>>,
    },
    /// From now on what is asked of an object has to be of this version.
    Fence {
        /// The object.
        object: ObjectId,
        /// The version; one that is not newer changes nothing.
        version: u64,
        /// Answered when nothing of another version is under way any more.
        answer: Inlet<Result<()>>,
    },
    /// End an object and its companion, if they are there.
    Discard {
        /// The object.
        object: ObjectId,
        /// Answered when they are gone.
        answer: Inlet<Result<()>>,
    },
    /// Which rings of volumes were made anew of what their segments say, and may have been deleted, or have left.
    MadeAnew(Inlet<Vec<ObjectId>>),
    /// Whether rings of volumes that were made anew are to be there.
    Settle {
        /// The rings, and whether they are.
        rings: BTreeMap<ObjectId, bool>,
        /// Answered when that is durable.
        answer: Inlet<Result<()>>,
    },
    /// Nobody asks over this link any more.
    EndLink(LinkId),
    /// Make everything durable and end.
    Stop(Inlet<Result<()>>),
}

/// A target at work for others.
struct Service {
    env: Env,
    target: Rc<Target>,
    sessions: Sessions,
    queries: Queries,
    links: Links,
    heaps: Heaps,
    fences: Fences,
    /// The device is being measured, past the scheduler.
    measuring: Cell<bool>,
}

impl Service {
    fn new(env: Env, target: Rc<Target>) -> Rc<Service> {
        Rc::new(Service {
            env,
            target,
            sessions: Sessions::default(),
            queries: Queries::default(),
            links: Links::default(),
            heaps: Heaps::default(),
            fences: Fences::default(),
            measuring: Cell::new(false),
        })
    }
}

/// Carries out orders until it is told to stop, or nobody can give one any more.
pub async fn serve(env: Env, target: Rc<Target>, mut orders: Receiver<Order>) {
    let service = Service::new(env, target);
    while let Some(order) = orders.receive().await {
        match order {
            Order::Ask { request, fenced, answer } => {
                let this = service.clone();
                service.env.spawner.detach(async move {
                    let reply = match fences::enter(&this, fenced).await {
                        Ok(_entered) => asks::ask(&this, request, fenced).await,
                        Err(error) => Err(error),
                    };
                    answer.send(reply, 0).await;
                });
            }
            Order::Tell(answer) => {
                let status = status::status(&service);
                service.env.spawner.detach(async move {
                    answer.send(status, 0).await;
                });
            }
            Order::OpenWriter { session, request, fenced, answer } => {
                let this = service.clone();
                service.env.spawner.detach(async move {
                    let opening = sessions::open(&this, session, request, fenced).await;
                    // Nobody may be there any more to close it.
                    let failed = opening.is_err();
                    if !answer.send(opening, 0).await && !failed {
                        sessions::close(&this, session);
                    }
                });
            }
            Order::TakeBuffer { session, answer } => sessions::take(&service, session, answer),
            Order::StopTaking(session) => sessions::stop_taking(&service, session),
            Order::Append { session, buffer, number, accepted } => {
                sessions::append(&service, session, buffer, number, accepted);
            }
            Order::CloseWriter(session) => sessions::close(&service, session),
            Order::Query { query, request, fenced, batches, end } => {
                queries::start(&service, query, (request, fenced), batches, end);
            }
            Order::CancelQuery(query) => queries::cancel(&service, query),
            Order::Object { link, request, fenced, payload, answer } => {
                let this = service.clone();
                service.env.spawner.detach(async move {
                    let result = match fences::enter(&this, fenced).await {
                        Ok(_entered) => objects::ask(&this, link, request, payload, fenced.is_some()).await,
                        Err(error) => Err(error),
                    };
                    answer.send(result, 0).await;
                });
            }
            Order::Heap { link, request, fenced, payload, answer } => {
                heaps::ask(&service, link, (request, fenced), payload, answer);
            }
            Order::Image { ring, ask, fenced, payload, answer } => {
                let this = service.clone();
                service.env.spawner.detach(async move {
                    let result = match fences::enter(&this, Some(fenced)).await {
                        Ok(_entered) => images::ask(&this, &name_of(ring), ask, payload, fenced).await,
                        Err(error) => Err(error),
                    };
                    answer.send(result, 0).await;
                });
            }
            Order::Lock { fenced, answer } => {
                let this = service.clone();
                service.env.spawner.detach(async move {
                    let result = fences::lock(&this, fenced).await;
                    answer.send(result, 0).await;
                });
            }
            Order::Fence { object, version, answer } => {
                let this = service.clone();
                service.env.spawner.detach(async move {
                    let result = fences::raise(&this, object, version).await;
                    answer.send(result, 0).await;
                });
            }
            Order::Discard { object, answer } => {
                let this = service.clone();
                service.env.spawner.detach(async move {
                    let result = objects::discard(&this, object).await;
                    answer.send(result, 0).await;
                });
            }
            Order::MadeAnew(answer) => {
                let rings = service.target.rings_made_anew().iter().filter_map(|name| ring_of(name)).collect();
                service.env.spawner.detach(async move {
                    answer.send(rings, 0).await;
                });
            }
            Order::Settle { rings, answer } => {
                let this = service.clone();
                service.env.spawner.detach(async move {
                    let rings = rings.into_iter().map(|(ring, is_to_be_here)| (name_of(ring), is_to_be_here)).collect();
                    answer.send(this.target.settle_rings(&rings).await, 0).await;
                });
            }
            Order::EndLink(link) => {
                objects::end(&service, link);
                heaps::end(&service, link);
            }
            Order::Stop(answer) => {
                heaps::end_all(&service).await;
                let result = service.target.close().await;
                sessions::end_all(&service);
                answer.send(result, 0).await;
                return;
            }
        }
    }
    // The thread that gives orders is gone without a word: what is accepted is still made durable.
    heaps::end_all(&service).await;
    if service.target.close().await.is_err() {
        sessions::end_all(&service);
    }
}

/// A watch that a session and its writer share.
type Shared = Arc<Watch>;
