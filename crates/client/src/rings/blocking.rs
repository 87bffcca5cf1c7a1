//! Rings on the network for threads that block: what a [`crate::Cluster`] is reached by there.
//!
//! What they ask is done by the loop that does what is asked of files ([`crate::files::blocking`]).

use super::{KnownRing, RING_MODE, Ring, RingList, RingWriter, Rings};
use crate::cluster::Cluster;
use crate::files::blocking::{FilesClient, Way};
use crate::heaps::HeapList;
use crate::heaps::network::blocking::{self as heaps, NetworkLink};
use crate::peer::{AnswerLink, HeapLink, ObjectLink, Part, Peer, WriterLink};
use crate::targets::OfTargets;
use forebay_env::mailbox::{Sender, mailbox};
use forebay_env::pipe::{Outlet, pipe};
use forebay_env::race::{First, race};
use forebay_env::real::{clock, random};
use forebay_model::ring::{Batch, Item, Pin, Pinned, QuerySummary, RingSpec, RingStatus, Spread};
use forebay_model::{Error, Kind, Moment, PlanRequest, Result, TargetId, Timestamp};
use forebay_wire::command::{QueryRequest, Reply, Request, TargetPlan, TargetProfile};
use forebay_wire::ring::{RingQuery, entry_of};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of an answer that may wait for whoever reads it.
const ANSWER_AHEAD: usize = 4 << 20;

/// The rings of a cluster on the network.
struct Network {
    way: Arc<Way>,
    limit: Duration,
}

impl FilesClient {
    /// The rings of the cluster. Who waits for what was recorded to be durable bears a silence of `limit`.
    pub fn cluster(&self, limit: Duration) -> Cluster {
        Cluster::over(Arc::new(Network { way: self.way(), limit }))
    }
}

impl Network {
    fn run<T, F>(&self, work: impl FnOnce(Rings) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + 'static,
    {
        self.way.run(move |here| work(here.files().rings()))
    }

    /// Has something done with a ring, which is opened to be changed if it is to `write`.
    fn with<T, F>(&self, ring: String, write: bool, work: impl FnOnce(Ring) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + 'static,
    {
        self.run(move |rings| async move { work(rings.open(&ring, write).await?).await })
    }
}

impl Network {
    /// Asks once; relatives have what stands for them as their names.
    fn ask(&self, request: Request) -> Result<Reply> {
        match request {
            Request::CreateRing(spec) => self.run(move |rings| async move {
                let (_, status) = rings.create(spec, RING_MODE).await?;
                Ok(Reply::Ring(Box::new(status)))
            }),
            Request::DeleteRing { ring } => {
                self.run(move |rings| async move { rings.remove(&ring).await.map(|()| Reply::Done) })
            }
            Request::Status { ring: Some(ring) } => {
                self.with(ring, false, |ring| async move { Ok(Reply::Rings(vec![ring.status().await?])) })
            }
            Request::ResizeRing { ring, capacity } => {
                self.with(ring, true, move |ring| async move { ring.resize(capacity).await.map(Reply::Capacity) })
            }
            Request::RelateRing { ring, relatives } => self.run(move |rings| async move {
                let status = rings.relate(&ring, &relatives).await?.status().await?;
                Ok(Reply::Ring(Box::new(status)))
            }),
            Request::Pin { ring, label, from, to, .. } => {
                self.run(move |rings| async move { rings.pin(&ring, &label, from, to).await.map(Reply::Pinned) })
            }
            Request::Unpin { ring, pin } => {
                self.run(move |rings| async move { rings.unpin(&ring, pin).await.map(|()| Reply::Done) })
            }
            Request::Pins { ring } => self.with(ring, false, |ring| async move { ring.pins().await.map(Reply::Pins) }),
            Request::Status { ring: None } => self.run(|rings| async move {
                let all = rings.list().await?.rings;
                all.into_iter().map(|ring| ring.status).collect::<Result<_>>().map(Reply::Rings)
            }),
            other => heaps::ask(&self.way, other).unwrap_or_else(|| Err(elsewhere("this"))),
        }
    }

    /// What entries are called that stand for relatives; those that were removed are left out.
    fn names<T: Send + 'static>(
        &self,
        relatives: Vec<T>,
        name: impl Fn(&mut T) -> &mut String + Send + 'static,
    ) -> Result<Vec<T>> {
        if relatives.is_empty() {
            return Ok(relatives);
        }
        self.way.run(move |here| async move {
            let mut named = Vec::with_capacity(relatives.len());
            for mut relative in relatives {
                if let Some(entry) = entry_of(name(&mut relative)) {
                    match here.files().path_of(entry).await {
                        Ok(path) => *name(&mut relative) = path,
                        Err(error) if error.kind == Kind::Missing => continue,
                        // It may be found by others.
                        Err(error) if error.kind == Kind::Forbidden => *name(&mut relative) = entry.to_string(),
                        Err(error) => return Err(error),
                    }
                }
                named.push(relative);
            }
            Ok(named)
        })
    }

    fn named_pin(&self, mut pin: Pin) -> Result<Pin> {
        pin.relatives = self.names(pin.relatives, |(relative, _)| relative)?;
        Ok(pin)
    }

    fn named(&self, mut status: RingStatus) -> Result<RingStatus> {
        status.spec.relatives = self.names(status.spec.relatives, |relative| relative)?;
        status.pins = status.pins.into_iter().map(|pin| self.named_pin(pin)).collect::<Result<_>>()?;
        Ok(status)
    }

    fn named_ring(&self, mut known: KnownRing) -> KnownRing {
        known.status = known.status.and_then(|status| self.named(status));
        known
    }
}

impl Peer for Network {
    fn call(&self, request: Request) -> Result<Reply> {
        Ok(match self.ask(request)? {
            Reply::Ring(status) => Reply::Ring(Box::new(self.named(*status)?)),
            Reply::Rings(rings) => {
                Reply::Rings(rings.into_iter().map(|status| self.named(status)).collect::<Result<_>>()?)
            }
            Reply::Pinned(pinned) => Reply::Pinned(Pinned { pin: self.named_pin(pinned.pin)?, ..pinned }),
            Reply::Pins(pins) => Reply::Pins(pins.into_iter().map(|pin| self.named_pin(pin)).collect::<Result<_>>()?),
            other => other,
        })
    }

    fn create_spread(&self, spec: RingSpec, spread: Spread) -> Result<RingStatus> {
        let created =
            self.run(move |rings| async move { Ok(rings.create_spread(spec, RING_MODE, spread).await?.1) })?;
        self.named(created)
    }

    fn list_rings(&self) -> Result<Option<RingList>> {
        let mut list = self.run(|rings| async move { rings.list().await })?;
        list.rings = list.rings.into_iter().map(|ring| self.named_ring(ring)).collect();
        Ok(Some(list))
    }

    fn list_heaps(&self) -> Result<Option<HeapList>> {
        heaps::list(&self.way).map(Some)
    }

    fn survey_ring(&self, ring: &str) -> Result<Option<KnownRing>> {
        let known = self.with(ring.to_string(), false, |ring| async move { ring.survey().await })?;
        Ok(Some(self.named_ring(known)))
    }

    fn profiles(&self) -> Result<Option<OfTargets<TargetProfile>>> {
        self.way.run(|here| async move { here.files().targets().profiles().await.map(Some) })
    }

    fn plans(&self, request: PlanRequest) -> Result<Option<OfTargets<TargetPlan>>> {
        self.way.run(move |here| async move { here.files().targets().plans(request).await.map(Some) })
    }

    fn open_writer(&self, ring: &str, writer: u64, resume: bool) -> Result<Box<dyn WriterLink>> {
        if resume {
            // A session resumes by itself as long as there is hope.
            return Err(Error::stale(format!("the session of {ring} is over; begin another one")));
        }
        let limit = self.limit;
        let writer: RingWriter =
            self.with(ring.to_string(), true, move |ring| async move { ring.record(writer, limit).await })?;
        Ok(Box::new(writer))
    }

    fn query(&self, request: QueryRequest) -> Result<Box<dyn AnswerLink>> {
        let QueryRequest { ring, text, now, follow, limit, gaps_only, blocks, numbered } = request;
        let query = RingQuery { text, now, follow, limit, gaps_only, blocks, numbered };
        let (parts, outlet) = pipe(ANSWER_AHEAD);
        let (cancel, mut cancelled) = mailbox::<()>();
        self.way.run(move |here| async move {
            let mut answer = here.files().rings().open(&ring, false).await?.query(query).await?;
            here.spawner().detach(async move {
                loop {
                    let part = match race(answer.next(), cancelled.receive()).await {
                        First::Left(part) => part,
                        First::Right(_) => Ok(Part::End(QuerySummary::default())),
                    };
                    let is_last = !matches!(part, Ok(Part::Batch(_)));
                    let weight = match &part {
                        Ok(Part::Batch(batch)) => held(batch) + 1,
                        _ => 1,
                    };
                    if !parts.send(part, weight).await || is_last {
                        return;
                    }
                }
            });
            Ok(())
        })?;
        Ok(Box::new(NetworkAnswer { parts: outlet, cancel }))
    }

    fn objects(&self) -> Result<Box<dyn ObjectLink>> {
        Err(elsewhere("objects"))
    }

    fn heaps(&self) -> Result<Box<dyn HeapLink>> {
        Ok(Box::new(NetworkLink::open(self.way.clone())?))
    }

    fn target_of_heap(&self, heap: &str) -> Result<TargetId> {
        heaps::target(&self.way, heap)
    }

    fn has_objects(&self) -> bool {
        false
    }

    fn now(&self) -> Moment {
        clock::now()
    }

    fn wall(&self) -> Timestamp {
        clock::wall()
    }

    fn random(&self) -> u64 {
        random::number()
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// Bytes of memory that a batch holds.
fn held(batch: &Batch) -> usize {
    batch.payload.capacity() + batch.items.len() * size_of::<Item>()
}

/// An answer that the loop takes in.
struct NetworkAnswer {
    parts: Outlet<Result<Part>>,
    cancel: Sender<()>,
}

impl AnswerLink for NetworkAnswer {
    fn next(&mut self) -> Result<Part> {
        let gone = || Err(Error::disconnected("the client's loop has ended: open the cluster again"));
        self.parts.receive_blocking().unwrap_or_else(gone)
    }

    fn canceller(&self) -> Box<dyn Fn() + Send + Sync> {
        let cancel = self.cancel.clone();
        Box::new(move || {
            // An answer that has ended needs no end.
            let _ = cancel.send(());
        })
    }
}

fn elsewhere(what: &str) -> Error {
    Error::usage(format!(
        "a cluster on the network has files, rings and heaps by their names, and is not asked for {what}; name the directory of the target \
         on the machine that serves it"
    ))
}
