//! What a cluster is reached by. The rest of the crate knows nothing of processes and connections.

use crate::cluster::unexpected;
use crate::heaps::HeapList;
use crate::rings::{KnownRing, RingList};
use crate::stopper::Stopper;
use crate::targets::OfTargets;
use forebay_env::Buffer;
use forebay_model::ring::{Batch, QuerySummary, RingSpec, RingStatus, Spread};
use forebay_model::{Error, Gap, Moment, PlanRequest, Result, TargetId, Timestamp};
use forebay_wire::command::{Durable, QueryRequest, Reply, Request, TargetPlan, TargetProfile, WriterOpened};
use forebay_wire::heap::{HeapAnswer, HeapRequest};
use forebay_wire::object::{ObjectAnswer, ObjectRequest};
use std::collections::VecDeque;
use std::sync::Arc;

/// A way to a cluster: in this process, or in another. Calls block.
///
/// A peer whose other side goes away finds another by itself: an error of kind disconnected means that it tried and
/// gave up, or that a stream ([`WriterLink`], [`AnswerLink`], [`ObjectLink`], [`HeapLink`]) broke and has to be opened again.
pub trait Peer: Send + Sync {
    /// Asks once.
    fn call(&self, request: Request) -> Result<Reply>;

    /// Creates a ring over several targets, where there are such.
    fn create_spread(&self, spec: RingSpec, spread: Spread) -> Result<RingStatus> {
        Err(Error::usage(format!(
            "{} cannot lie over {} targets here: a directory has each ring on one; name a cluster on the network, or leave \
             --targets and --parity out",
            spec.name,
            spread.components()
        )))
    }

    /// All rings with their parts, where rings have such: not in a directory, which says all of them in one answer.
    fn list_rings(&self) -> Result<Option<RingList>> {
        Ok(None)
    }

    /// All heaps, where some may be lost: not in a directory, which has all of them.
    fn list_heaps(&self) -> Result<Option<HeapList>> {
        Ok(None)
    }

    /// A ring with its parts, where rings have such.
    fn survey_ring(&self, _ring: &str) -> Result<Option<KnownRing>> {
        Ok(None)
    }

    /// What was measured of targets, where not all of them need be there: not in a directory, whose owner has them.
    fn profiles(&self) -> Result<Option<OfTargets<TargetProfile>>> {
        Ok(None)
    }

    /// What targets could promise now, likewise.
    fn plans(&self, _request: PlanRequest) -> Result<Option<OfTargets<TargetPlan>>> {
        Ok(None)
    }

    /// Begins (or resumes) recording into a ring.
    fn open_writer(&self, ring: &str, writer: u64, resume: bool) -> Result<Box<dyn WriterLink>>;

    /// Begins a query.
    fn query(&self, request: QueryRequest) -> Result<Box<dyn AnswerLink>>;

    /// A way to the objects.
    fn objects(&self) -> Result<Box<dyn ObjectLink>>;

    /// A way to the records of heaps. On the network it leads to those of one: the first that is named.
    fn heaps(&self) -> Result<Box<dyn HeapLink>>;

    /// The target on which a heap lies.
    fn target_of_heap(&self, heap: &str) -> Result<TargetId> {
        let heaps = match self.call(Request::Heaps)? {
            Reply::Heaps(heaps) => heaps,
            other => return Err(unexpected(&other)),
        };
        let found = heaps.into_iter().find(|found| found.name == heap).map(|found| found.target);
        found.ok_or_else(|| Error::missing(format!("there is no heap {heap}; `forebay ls` lists what there is")))
    }

    /// Whether there are objects, whose names no heap may have: not on the network, where the manager has all names.
    fn has_objects(&self) -> bool {
        true
    }

    /// Monotonic time.
    fn now(&self) -> Moment;

    /// Wall time.
    fn wall(&self) -> Timestamp;

    /// A number by chance.
    fn random(&self) -> u64;

    /// Ends in order: what this process serves is durable and free for others.
    fn close(&self) -> Result<()>;
}

/// A packed block on its way.
pub struct Block {
    /// The block; its length is the block's.
    pub buffer: Buffer,
    /// Its number in the writer session, from 1.
    pub number: u64,
    /// When its first element was accepted.
    pub accepted: Moment,
}

/// What was given up: it was to go to a target that is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lost {
    /// The number of its block in the writer session.
    pub number: u64,
    /// How many of the elements that were accepted.
    pub elements: u64,
    /// What is told instead: of elements, or of what was missing before.
    pub gap: Gap,
}

/// Where elements may be split that do not fit what is left of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Splitting {
    /// Where the block ends.
    Anywhere,
    /// As well, and each begins with a block.
    FromABlock,
    /// Nowhere: an element fits a block.
    Nowhere,
}

/// A writer session that is open.
pub trait WriterLink: Send {
    /// What the ring said when it was opened.
    fn opened(&self) -> &WriterOpened;

    /// A buffer of a block's size. `None` if there is none now and `wait` is false, or if `stopper` ends the wait.
    fn take(&self, wait: bool, stopper: &Stopper) -> Result<Option<Buffer>>;

    /// Takes a block in. After an error of kind disconnected it is among the [`WriterLink::unsettled`].
    fn send(&mut self, block: Block) -> Result<()>;

    /// How far the session is known to be durable, also if nothing more will be.
    fn durable(&self) -> Durable;

    /// An error if nothing more will be durable over this link.
    fn check(&self) -> Result<()>;

    /// Waits until block `number` is durable, or the ring is full and cannot make it so.
    fn wait_durable(&self, number: u64) -> Result<Durable>;

    /// What was given up since this was asked last.
    fn lost(&self) -> Vec<Lost> {
        Vec::new()
    }

    /// Where elements may be split now.
    fn splitting(&self) -> Splitting {
        Splitting::Anywhere
    }

    /// Ends a broken link: the blocks that it was given and that are not known to be durable, in order.
    fn unsettled(self: Box<Self>) -> VecDeque<Block>;

    /// Ends the session.
    fn close(self: Box<Self>) -> Result<()>;
}

/// What comes next in the answer to a query.
pub enum Part {
    /// Items, in order.
    Batch(Batch),
    /// The end.
    End(QuerySummary),
}

/// The answer to a query, as it comes.
pub trait AnswerLink: Send {
    /// Waits for the next part. After the end it is not asked again.
    fn next(&mut self) -> Result<Part>;

    /// What ends the query early, from any thread: its answer ends soon.
    fn canceller(&self) -> Box<dyn Fn() + Send + Sync>;
}

/// Requests about objects, several of them under way. Whoever uses it keeps within the window of
/// [`forebay_wire::object`].
pub trait ObjectLink: Send {
    /// Hands over a request with what it writes; the answer is not waited for.
    fn send(&mut self, request: &ObjectRequest, payload: &Arc<Vec<u8>>) -> Result<()>;

    /// Waits for the answer to the oldest request that has none. An error of the outer kind means that the link broke.
    fn receive(&mut self) -> Result<Result<ObjectAnswer>>;
}

/// Requests about the records of heaps, several of them under way; as an [`ObjectLink`]. What was put and freed over it,
/// and not committed, is undone with its end.
pub trait HeapLink: Send {
    /// Hands over a request with what it puts; the answer is not waited for.
    fn send(&mut self, request: &HeapRequest, payload: &Arc<Vec<u8>>) -> Result<()>;

    /// Waits for the answer to the oldest request that has none. An error of the outer kind means that the link broke.
    fn receive(&mut self) -> Result<Result<HeapAnswer>>;
}
