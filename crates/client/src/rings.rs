//! Rings of a cluster on the network: entries of its tree, each on one target or over several.
//!
//! The manager says where a ring lies and who may use it; all else is asked of its targets. Tasks of one loop use [`Rings`] and
//! [`Ring`]; threads that block have [`crate::Cluster`] over [`blocking`].
//!
//! On each target lies a ring of its own. Over several, a recorder gives them blocks in turn ([`RingWriter`]), and what they
//! answer is put together by time ([`RingAnswer`]); the last one may have the parity of what the others have.

mod answer;
pub mod blocking;
mod checked;
mod claims;
mod feed;
mod followed;
mod given;
mod listing;
mod merge;
mod moved;
mod parts;
mod pins;
mod rebuild;
mod relatives;
mod replaced;
mod source;
mod spread;
mod stripe;
mod survey;
mod way;
mod writer;

pub use answer::RingAnswer;
pub use listing::RingList;
pub use survey::{KnownRing, PartState, RingPart};
pub use writer::RingWriter;

use crate::control::{Control, strange};
use crate::nodes::Nodes;
use crate::way::until_free;
use answer::PartAnswer;
use followed::Followed;
use forebay_env::together::all;
use forebay_model::layout::Raid;
use forebay_model::query::Query;
use forebay_model::ring::{RingSpec, RingStatus, Spread};
use forebay_model::{Bytes, Error, Kind, Rate, Result, TargetId};
use forebay_wire::command::Reply;
use forebay_wire::control::files::{ComponentState, CreateRing, Grant, OpenRing};
use forebay_wire::control::names::{FileId, Place, RemoveFile, SetAttributes};
use forebay_wire::control::{self, Change, Question};
use forebay_wire::ring::{RingAsk, RingQuery, relative_of};
use merge::{Asked, Merged};
use source::Heard;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
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
    ways: Vec<Way>,
    spread: Spread,
    control: Rc<dyn Control>,
}

impl Rings {
    /// Reached by these ways.
    pub fn new(nodes: Nodes, control: Rc<dyn Control>) -> Rings {
        Rings { nodes, control }
    }

    /// Makes a ring under the name in `spec`, which is free, on one target.
    pub async fn create(&self, spec: RingSpec, mode: u32) -> Result<(Ring, RingStatus)> {
        self.create_spread(spec, mode, Spread::default()).await
    }

    /// Makes a ring under the name in `spec`, which is free, on the first targets that can promise what they are to promise: the
    /// manager names others for those that refuse. If there are none, all is taken back, and the error is of one that came
    /// closest.
    pub async fn create_spread(&self, spec: RingSpec, mode: u32, spread: Spread) -> Result<(Ring, RingStatus)> {
        spec.check()?;
        spread.check()?;
        let spec = RingSpec { relatives: self.relatives(&spec.name, &spec.relatives).await?, ..spec };
        for component in 0..spread.components() {
            spread.part(&spec, component).check().map_err(|error| error.of("the part of a ring on one target"))?;
        }
        let path = spec.name.clone();
        let mut create = CreateRing {
            place: Place::path(path.clone()),
            mode,
            capacity: spec.capacity,
            refused_by: Vec::new(),
            targets: spread.targets,
            parity: spread.parity,
            again: false,
            leaving: None,
        };
        let mut ring = self.placed(&path, create.clone()).await.map_err(|error| error.of(&path))?;
        let file = ring.ways[0].file();
        let mut made = BTreeSet::new();
        let mut refusal: Option<Error> = None;
        while let Some(at) = (0..ring.ways.len()).find(|at| !made.contains(at)) {
            let error = match replaced::make(&ring.ways[at], spread.part(&spec, at as u32)).await {
                Ok(()) => {
                    made.insert(at);
                    continue;
                }
                Err(error) => error,
            };
            let is_refusal = matches!(error.kind, Kind::Refused | Kind::Full);
            let again = if is_refusal {
                create.refused_by.push(ring.ways[at].target());
                refusal = Some(better(refusal, error));
                (create.again, create.place) = (true, Place::of(file));
                self.placed(&path, create.clone()).await
            } else {
                Err(error)
            };
            match again {
                Ok(again) => ring = again,
                Err(error) => {
                    // An entry whose rings may be there or not is of no use; if this fails as well, anybody may remove it.
                    let remove = RemoveFile { place: Place::path(path.clone()), only: Some(file) };
                    let removed = self.control.change(Change::RemoveFile(remove)).await;
                    if error.kind == Kind::Full && is_refusal {
                        removed?;
                        // The manager knows of no other one: what the last said is what is to be known.
                        return Err(short(refusal.unwrap_or(error), &spec, spread, made.len()));
                    }
                    return Err(error.of(&path));
                }
            }
        }
        let status = ring.status().await?;
        Ok((ring, status))
    }

    /// A ring where the manager says that it is to lie.
    async fn placed(&self, path: &str, create: CreateRing) -> Result<Ring> {
        match self.control.change(Change::CreateRing(create)).await? {
            control::Reply::Grant(grant) => self.ring(path, grant),
            other => Err(strange(&other)),
        }
    }

    /// Opens a ring: to record into it or change it, or to read. One of which the last is just copied elsewhere is waited for.
    pub async fn open(&self, path: &str, write: bool) -> Result<Ring> {
        let open = OpenRing { place: Place::path(path), write };
        let opened = until_free(&self.nodes, async || self.control.ask(Question::OpenRing(open.clone())).await);
        match opened.await.map_err(|error| error.of(path))? {
            control::Reply::Grant(grant) => self.ring(path, grant),
            other => Err(strange(&other)),
        }
    }

    /// Whether somebody records into a ring, as far as its targets answer.
    pub(crate) async fn is_recorded(&self, ring: FileId) -> Result<bool> {
        let open = OpenRing { place: Place::of(ring), write: false };
        let opened = match self.control.ask(Question::OpenRing(open)).await? {
            // What stands for it is a name.
            control::Reply::Grant(grant) => self.ring(&relative_of(ring), grant)?,
            other => return Err(strange(&other)),
        };
        let is_away = |error: &Error| error.kind == Kind::Disconnected;
        for status in opened.statuses().await {
            match status {
                Ok(status) if status.recording => return Ok(true),
                Err(error) if !is_away(&error) => return Err(error),
                _ => {}
            }
        }
        Ok(false)
    }

    /// Removes a ring with everything in it, also what is pinned.
    pub async fn remove(&self, path: &str) -> Result<()> {
        // What is not a ring is removed otherwise.
        let only = Some(self.open(path, true).await?.ways[0].file());
        let remove = Change::RemoveFile(RemoveFile { place: Place::path(path), only });
        match self.control.change(remove).await.map_err(|error| error.of(path))? {
            control::Reply::Done => Ok(()),
            other => Err(strange(&other)),
        }
    }

    fn ring(&self, path: &str, grant: Grant) -> Result<Ring> {
        let (parity, count) = (grant.striping.raid() == Raid::Five, grant.components.len() as u32);
        let spread = Spread { targets: count.saturating_sub(u32::from(parity)), parity };
        spread.check()?;
        let control = self.control.clone();
        Ok(Ring { ways: Way::all(&self.nodes, &control, path, grant), spread, control })
    }
}

/// Of two targets that refuse, the one whose answer says what it could have had; else the last.
fn better(before: Option<Error>, now: Error) -> Error {
    match before {
        Some(before) if before.kind == Kind::Refused && now.kind != Kind::Refused => before,
        _ => now,
    }
}

/// What could have been had, of a ring that not all of its targets could promise.
fn short(refusal: Error, spec: &RingSpec, spread: Spread, made: usize) -> Error {
    if spread.components() == 1 {
        return refusal;
    }
    let part = spread.part(spec, 0);
    let could = made.saturating_sub(usize::from(spread.parity)) as u64;
    let message = format!(
        "{} takes {} targets with {} and {} each, and {made} took it, which is {} and {} in all; the one that came closest says: {}",
        spec.name,
        spread.components(),
        part.capacity,
        part.guarantee,
        part.capacity * could,
        Rate(part.guarantee.0 * could),
        refusal.message
    );
    Error { message, ..refusal }
}

impl Ring {
    /// Over how many targets it lies.
    pub fn spread(&self) -> Spread {
        self.spread
    }

    /// The targets on which it lies; that of the parity is the last.
    pub fn targets(&self) -> Vec<TargetId> {
        self.ways.iter().map(Way::target).collect()
    }

    /// Whether each target that has a part of it has all that was recorded there: none of them is lost, and those that took the
    /// places of such have come round since.
    pub fn is_whole(&self) -> bool {
        self.ways.iter().all(|way| way.state() == ComponentState::Whole)
    }

    /// What each part says of itself; an error of one that is away.
    async fn statuses(&self) -> Vec<Result<RingStatus>> {
        all(self.ways.iter().map(replaced::status)).await
    }

    /// Parts that lack what the others have: their targets were lost, and they lie elsewhere since.
    fn replaced(&self) -> BTreeSet<u32> {
        let is_replaced = |way: &&Way| way.state() == ComponentState::Filling;
        self.ways.iter().filter(is_replaced).map(Way::component).collect()
    }

    /// The ring, as it says of itself.
    pub async fn status(&self) -> Result<RingStatus> {
        self.status_of(self.statuses().await)
    }

    /// Gives it another capacity; says what it has now. Its volume is charged before it grows and after it has shrunk, so that
    /// what is charged is never less than what there is.
    pub async fn resize(&self, capacity: Bytes) -> Result<Bytes> {
        self.ways[0].renew().await?;
        let charged = self.ways[0].charged();
        if capacity > charged {
            self.charge(capacity).await?;
            self.ways[0].renew().await?;
        }
        match self.resize_parts(capacity).await {
            Ok(resized) => {
                if capacity < charged {
                    self.charge(capacity).await?;
                }
                Ok(resized)
            }
            // Whether it has grown is not known if nobody answered: then it stays charged until somebody resizes it again.
            Err(error) if capacity > charged && error.kind != Kind::Disconnected => {
                self.charge(charged).await?;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    async fn resize_parts(&self, capacity: Bytes) -> Result<Bytes> {
        let before = self.statuses().await.into_iter().collect::<Result<Vec<_>>>()?;
        let mut whole = before[0].spec.clone();
        whole.capacity = capacity;
        let mut has = Bytes::ZERO;
        for (at, way) in self.ways.iter().enumerate() {
            match resize(way, self.spread.part(&whole, at as u32).capacity).await {
                Ok(part) if at < self.spread.targets as usize => has += part,
                Ok(_) => {}
                Err(error) => {
                    for (way, before) in self.ways[..at].iter().zip(&before) {
                        // One that does not take it back has more than it was to have, or less; nothing depends on it.
                        drop(resize(way, before.spec.capacity).await);
                    }
                    return Err(error);
                }
            }
        }
        Ok(has)
    }

    /// Charges its volume for this capacity.
    async fn charge(&self, capacity: Bytes) -> Result<()> {
        let place = Place::of(self.ways[0].file());
        let size = SetAttributes {
            place,
            mode: None,
            owner: None,
            group: None,
            size: Some(capacity),
            modified: None,
            accessed: None,
        };
        match self.control.change(Change::SetAttributes(size)).await.map_err(|error| error.of(self.path()))? {
            control::Reply::Entry(_) => Ok(()),
            other => Err(strange(&other)),
        }
    }

    /// Begins to record, as session `writer`, over connections of its own. Who waits for what it recorded to be durable
    /// bears a silence of `limit`.
    pub async fn record(&self, writer: u64, limit: Duration) -> Result<RingWriter> {
        if self.is_alone() {
            return RingWriter::open(self.ways[0].apart(), writer, limit).await;
        }
        let ways = self.ways.iter().map(Way::apart).collect();
        RingWriter::open_spread(ways, self.spread, writer, limit).await
    }

    /// Begins a query, over connections of its own.
    pub async fn query(&self, query: RingQuery) -> Result<RingAnswer> {
        if self.is_alone() {
            let way = self.ways[0].apart();
            return Ok(match query.follow && !query.blocks {
                true => RingAnswer::of_followed(Followed::begin(way, query).await?),
                false => RingAnswer::of_one(PartAnswer::open(way, query).await?),
            });
        }
        let statuses: Vec<Option<RingStatus>> = self.statuses().await.into_iter().map(Result::ok).collect();
        let spec = statuses[..self.spread.targets as usize].iter().flatten().map(|status| status.spec.clone()).next();
        let spec = spec.ok_or_else(|| {
            Error::disconnected(format!("no target answers that has elements of {}; start their nodes", self.path()))
        })?;
        let parsed = Query::parse(&query.text, &spec.key_set()?, query.now)?;
        if parsed.uses_seq() {
            return Err(Error::usage(format!(
                "{} lies over several targets, and its elements have no numbers there that last; ask for times instead of seq",
                self.path()
            )));
        }
        Ok(RingAnswer::of_several(Merged::begin(Asked {
            ways: self.ways.clone(),
            spread: self.spread,
            replaced: self.replaced(),
            query,
            parsed,
            spec,
            statuses,
            claims: RefCell::default(),
            heard: self.ways.iter().map(|_| Rc::new(Heard::of(self.spread))).collect(),
            away: RefCell::default(),
            seen_to: Cell::new(0),
        })))
    }

    fn is_alone(&self) -> bool {
        self.ways.len() == 1
    }

    fn path(&self) -> &str {
        self.ways[0].path()
    }
}

async fn reply(way: &Way, ask: RingAsk) -> Result<Reply> {
    let (answer, ..) = way.ask(&ask).await?;
    forebay_wire::read_body(&answer.body)
}

async fn resize(way: &Way, capacity: Bytes) -> Result<Bytes> {
    match reply(way, RingAsk::Resize(capacity)).await? {
        Reply::Capacity(capacity) => checked::capacity(way.target(), capacity),
        other => Err(crate::cluster::unexpected(&other)),
    }
}
