//! Rings of a cluster on the network: entries of its tree, each on one target.
//!
//! The manager says where a ring lies and who may use it; all else is asked of its target. Tasks of one loop use [`Rings`] and
//! [`Ring`]; threads that block have [`crate::Cluster`] over [`blocking`].

mod answer;
pub mod blocking;
mod way;
mod writer;

pub use answer::RingAnswer;
pub use writer::RingWriter;

use crate::control::{Control, strange};
use crate::nodes::Nodes;
use forebay_model::ring::{Pin, Pinned, RingSpec, RingStatus};
use forebay_model::{Bytes, Error, Kind, Result, Timestamp};
use forebay_wire::command::Reply;
use forebay_wire::control::files::{CreateRing, Grant, OpenRing};
use forebay_wire::control::names::{Place, RemoveFile, SetAttributes};
use forebay_wire::control::{self, Change, Question};
use forebay_wire::ring::{RingAsk, RingQuery};
use std::rc::Rc;
use std::time::Duration;
use way::Way;

/// The mode of rings that are made.
pub const RING_MODE: u32 = 0o644;

/// The rings of a cluster, for one user.
#[derive(Clone)]
pub struct Rings {
    nodes: Nodes,
    control: Rc<dyn Control>,
}

/// A ring that is open.
#[derive(Clone)]
pub struct Ring {
    way: Way,
    control: Rc<dyn Control>,
}

impl Rings {
    /// Reached by these ways.
    pub fn new(nodes: Nodes, control: Rc<dyn Control>) -> Rings {
        Rings { nodes, control }
    }

    /// Makes a ring under the name in `spec`, which is free, on the first target that can promise what it is to be promised:
    /// the manager names one after the other. If none can, the error is of one that came closest.
    pub async fn create(&self, spec: RingSpec, mode: u32) -> Result<(Ring, RingStatus)> {
        spec.check()?;
        let (path, mut refused_by, mut refusal) = (spec.name.clone(), Vec::new(), None);
        loop {
            let place = Place::path(path.clone());
            let create =
                CreateRing { place: place.clone(), mode, capacity: spec.capacity, refused_by: refused_by.clone() };
            let ring = match self.control.change(Change::CreateRing(create)).await {
                Ok(control::Reply::Grant(grant)) => self.ring(&path, grant),
                Ok(other) => return Err(strange(&other)),
                // The manager knows of no other one: what the last said is what is to be known.
                Err(error) if error.kind == Kind::Full => {
                    return Err(refusal.unwrap_or_else(|| error.of(&path)));
                }
                Err(error) => return Err(error.of(&path)),
            };
            match ring.make(spec.clone()).await {
                Ok(status) => return Ok((ring, status)),
                Err(error) => {
                    // An entry whose ring may be there or not is of no use; if this fails as well, anybody may remove it.
                    let removed = self.control.change(Change::RemoveFile(RemoveFile { place })).await;
                    if !matches!(error.kind, Kind::Refused | Kind::Full) {
                        return Err(error);
                    }
                    removed?;
                    refused_by.push(ring.way.target()?);
                    refusal = Some(better(refusal, error));
                }
            }
        }
    }

    /// Opens a ring: to record into it or change it, or to read.
    pub async fn open(&self, path: &str, write: bool) -> Result<Ring> {
        let open = OpenRing { place: Place::path(path), write };
        match self.control.ask(Question::OpenRing(open)).await.map_err(|error| error.of(path))? {
            control::Reply::Grant(grant) => Ok(self.ring(path, grant)),
            other => Err(strange(&other)),
        }
    }

    /// Removes a ring with everything in it, also what is pinned.
    pub async fn remove(&self, path: &str) -> Result<()> {
        // What is not a ring is removed otherwise.
        self.open(path, true).await?;
        let remove = Change::RemoveFile(RemoveFile { place: Place::path(path) });
        match self.control.change(remove).await.map_err(|error| error.of(path))? {
            control::Reply::Done => Ok(()),
            other => Err(strange(&other)),
        }
    }

    fn ring(&self, path: &str, grant: Grant) -> Ring {
        let control = self.control.clone();
        Ring { way: Way::new(self.nodes.clone(), control.clone(), path, grant), control }
    }
}

/// Of two targets that refuse, the one whose answer says what it could have had; else the last.
fn better(before: Option<Error>, now: Error) -> Error {
    match before {
        Some(before) if before.kind == Kind::Refused && now.kind != Kind::Refused => before,
        _ => now,
    }
}

impl Ring {
    async fn make(&self, spec: RingSpec) -> Result<RingStatus> {
        match self.reply(RingAsk::Create(spec)).await {
            Ok(Reply::Ring(status)) => Ok(self.status_as_named(*status)),
            Ok(other) => Err(crate::cluster::unexpected(&other)),
            // It was asked twice: nobody else makes one of this number.
            Err(error) if error.kind == Kind::Exists => self.status().await,
            Err(error) => Err(error),
        }
    }

    /// The ring, as it says of itself.
    pub async fn status(&self) -> Result<RingStatus> {
        match self.reply(RingAsk::Status).await? {
            Reply::Rings(mut rings) if rings.len() == 1 => Ok(self.status_as_named(rings.remove(0))),
            other => Err(crate::cluster::unexpected(&other)),
        }
    }

    /// Gives it another capacity; says what it has now. Its volume is charged before it grows and after it has shrunk, so that
    /// what is charged is never less than what there is.
    pub async fn resize(&self, capacity: Bytes) -> Result<Bytes> {
        self.way.renew().await?;
        let (_, before) = self.way.charged();
        if capacity > before {
            self.charge(capacity).await?;
            self.way.renew().await?;
        }
        match self.reply(RingAsk::Resize(capacity)).await {
            Ok(Reply::Capacity(resized)) => {
                if capacity < before {
                    self.charge(capacity).await?;
                }
                Ok(resized)
            }
            Ok(other) => Err(crate::cluster::unexpected(&other)),
            // Whether it has grown is not known if nobody answered: then it stays charged until somebody resizes it again.
            Err(error) if capacity > before && error.kind != Kind::Disconnected => {
                self.charge(before).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    /// Charges its volume for this capacity.
    async fn charge(&self, capacity: Bytes) -> Result<()> {
        let place = Place::of(self.way.charged().0);
        let size = SetAttributes {
            place,
            mode: None,
            owner: None,
            group: None,
            size: Some(capacity),
            modified: None,
            accessed: None,
        };
        match self.control.change(Change::SetAttributes(size)).await.map_err(|error| error.of(self.way.path()))? {
            control::Reply::Entry(_) => Ok(()),
            other => Err(strange(&other)),
        }
    }

    /// Preserves everything that still exists between `from` and `to`, both included.
    pub async fn pin(&self, label: &str, from: Timestamp, to: Timestamp) -> Result<Pinned> {
        match self.reply(RingAsk::Pin { label: label.to_string(), from, to }).await? {
            Reply::Pinned(pinned) => Ok(pinned),
            other => Err(crate::cluster::unexpected(&other)),
        }
    }

    /// Lets go of a pin.
    pub async fn unpin(&self, pin: u64) -> Result<()> {
        match self.reply(RingAsk::Unpin(pin)).await? {
            Reply::Done => Ok(()),
            other => Err(crate::cluster::unexpected(&other)),
        }
    }

    /// The pins, oldest first.
    pub async fn pins(&self) -> Result<Vec<Pin>> {
        match self.reply(RingAsk::Pins).await? {
            Reply::Pins(pins) => Ok(pins),
            other => Err(crate::cluster::unexpected(&other)),
        }
    }

    /// Begins to record, as session `writer`, over a connection of its own. Who waits for what it recorded to be durable
    /// bears a silence of `limit`.
    pub async fn record(&self, writer: u64, limit: Duration) -> Result<RingWriter> {
        RingWriter::open(self.way.apart(), writer, limit).await
    }

    /// Begins a query, over a connection of its own.
    pub async fn query(&self, query: RingQuery) -> Result<RingAnswer> {
        RingAnswer::open(self.way.apart(), query).await
    }

    async fn reply(&self, ask: RingAsk) -> Result<Reply> {
        let (answer, ..) = self.way.ask(&ask).await?;
        forebay_wire::read_body(&answer.body)
    }

    fn status_as_named(&self, mut status: RingStatus) -> RingStatus {
        status.spec.name = self.way.path().to_string();
        status
    }
}
