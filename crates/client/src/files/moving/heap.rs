//! Heaps that lie where nothing is to stay: each is copied unit by unit while it is used, and what was written meanwhile is copied again;
//! while the last is, which is little, nobody uses it. Then it lies elsewhere, with all its commits, and all ids are as they were.
//!
//! Order: all is copied; the manager shuts all others out; what was written since is copied, and durable as a whole; it lies there. Until the
//! manager was told of that, it lies where it lay, and what there is elsewhere is removed.

use super::{End, Moved};
use crate::files::Files;
use crate::granted::{self, nobody_knows};
use crate::nodes::Request;
use bytes::Bytes as Slice;
use forebay_env::together::all;
use forebay_model::{Bytes, Error, Kind, Result, TargetId};
use forebay_wire::control::Change;
use forebay_wire::control::files::{Relocated, Relocation};
use forebay_wire::control::names::FileId;
use forebay_wire::heap::network::{NetworkAsk, NetworkRequest};
use forebay_wire::heap::{HeapAnswer, HeapAsk, HeapReply, HeapStamp, MOST_UNITS, UNIT};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Units that are copied at the same time, in so many requests.
const AT_ONCE: usize = 2;
/// With so few units left, nobody else uses the heap while they are copied: 64 MiB.
const FEW: u64 = 1024;
/// How often it is gone through for that. One that is written faster than it is copied is left for later.
const MOST_PASSES: u32 = 16;

impl Files {
    /// Moves a heap.
    pub(super) async fn move_heap(&self, heap: FileId) -> Result<Moved> {
        self.move_beside(heap, self.copy_heap(heap)).await
    }

    /// How much was copied for that.
    async fn copy_heap(&self, heap: FileId) -> Result<Bytes> {
        let mut copy = HeapCopy::new(self, heap).await?;
        let copied = copy.all_of_it().await;
        copy.end().await;
        copied.map(|()| copy.written.get())
    }
}

/// A heap that is copied.
struct HeapCopy<'a> {
    files: &'a Files,
    heap: FileId,
    way: Relocation,
    addresses: BTreeMap<TargetId, String>,
    /// Under which it is asked for at both ends: another one with each version.
    transaction: u64,
    written: Cell<Bytes>,
}

/// What is known of a heap that is copied, by its target.
struct Known {
    watch: u64,
    stamp: HeapStamp,
    /// Units to be read, and units that it has.
    units: u64,
    space: u32,
}

impl<'a> HeapCopy<'a> {
    async fn new(files: &'a Files, heap: FileId) -> Result<HeapCopy<'a>> {
        let addresses = granted::addresses(granted::map(&*files.control).await?);
        let way = files.relocation(heap).await?;
        let transaction = files.nodes.env().random.next_u64();
        Ok(HeapCopy { files, heap, way, addresses, transaction, written: Cell::default() })
    }

    async fn all_of_it(&mut self) -> Result<()> {
        let (known, mut runs) = self.unread(None, 0).await?;
        match self.ask(End::To, HeapAsk::Receive { stamp: known.stamp, units: known.space }, Slice::new()).await {
            // The answer got lost: nobody else copies it there.
            Err(error) if error.kind == Kind::Exists => {}
            begun => drop(begun?),
        }
        let mut passes = 0;
        loop {
            self.pass(known.watch, runs).await?;
            let (now, next) = self.unread(Some(known.watch), 0).await?;
            runs = next;
            if now.units <= FEW {
                break;
            }
            passes += 1;
            if passes == MOST_PASSES {
                return Err(Error::busy(format!(
                    "{} is written faster than it can be copied: {} are still to be copied; it is tried again",
                    self.heap,
                    UNIT * now.units
                )));
            }
        }
        self.files.relocate(self.heap, true).await?;
        // What is shown from now on shuts all others out at both ends.
        self.end().await;
        self.way = self.files.relocation(self.heap).await?;
        self.transaction = self.files.nodes.env().random.next_u64();
        let units = loop {
            let (now, runs) = self.unread(Some(known.watch), 0).await?;
            if runs.is_empty() {
                break now.space;
            }
            self.pass(known.watch, runs).await?;
        };
        self.ask(End::To, HeapAsk::Received { units }, Slice::new()).await?;
        let Relocation { component, version, .. } = self.way;
        self.files
            .control
            .change(Change::Relocated(Relocated { file: self.heap, component, version, recorded: false }))
            .await
            .map(drop)
    }

    /// Copies what is to be read, from its beginning to its end, once.
    async fn pass(&mut self, watch: u64, mut runs: Vec<(u32, u32)>) -> Result<()> {
        while let Some((first, count)) = runs.last().copied() {
            let pieces: Vec<(u32, u32)> = runs.iter().flat_map(|run| pieces(*run)).collect();
            for some in pieces.chunks(AT_ONCE) {
                self.files.renew_copy(self.heap, &mut self.way).await?;
                let copied = all(some.iter().map(|piece| self.copy(watch, *piece))).await;
                copied.into_iter().collect::<Result<()>>()?;
            }
            runs = self.unread(Some(watch), first + count).await?.1;
        }
        Ok(())
    }

    async fn copy(&self, watch: u64, (first, count): (u32, u32)) -> Result<()> {
        let read = self.ask(End::From, HeapAsk::ReadUnits { watch, first, count }, Slice::new()).await?;
        let bytes = Bytes(read.payload.len() as u64);
        self.ask(End::To, HeapAsk::WriteUnits { first }, Slice::from(read.payload)).await?;
        self.written.set(self.written.get() + bytes);
        Ok(())
    }

    /// What is to be read from a unit on.
    async fn unread(&self, watch: Option<u64>, from: u32) -> Result<(Known, Vec<(u32, u32)>)> {
        match self.ask(End::From, HeapAsk::Unread { watch, from }, Slice::new()).await?.reply {
            HeapReply::Unread { watch, stamp, runs, units, space } => Ok((Known { watch, stamp, units, space }, runs)),
            other => Err(Error::damaged(format!("a node answered what it was not asked: {other:?}"))),
        }
    }

    /// Nothing more is asked under this transaction.
    async fn end(&self) {
        for end in [End::From, End::To] {
            // With the connection it ends anyway.
            drop(self.ask(end, HeapAsk::Abort, Slice::new()).await);
        }
    }

    /// Asks at one end, with what allows it.
    async fn ask(&self, end: End, ask: HeapAsk, payload: Slice) -> Result<HeapAnswer> {
        let component = end.of(&self.way);
        let (target, shown) = (component.target, granted::shown(component)?);
        let most = match ask {
            HeapAsk::ReadUnits { count, .. } => (UNIT * u64::from(count)).0 as usize,
            _ => 0,
        };
        let may_repeat = !matches!(ask, HeapAsk::Received { .. } | HeapAsk::Abort);
        let ask = NetworkAsk::Records { transaction: self.transaction, ask };
        let request = NetworkRequest { target, heap: component.object, ask };
        let payload = if payload.is_empty() { Vec::new() } else { vec![payload] };
        let request = Request { command: request.command(), body: request.body()?, payload, most };
        let address = self.addresses.get(&target).ok_or_else(|| nobody_knows(target))?;
        let nodes = &self.files.nodes;
        let asked = async || match may_repeat {
            true => nodes.ask(address, &request, Some(&shown)).await,
            false => nodes.ask_once(address, &request, Some(&shown)).await,
        };
        let (answer, ..) = self.files.unless_busy(asked).await?;
        Ok(HeapAnswer { reply: forebay_wire::read_body(&answer.body)?, payload: answer.payload.into_vec() })
    }
}

/// A run of units, as many at a time as one request has.
fn pieces((first, count): (u32, u32)) -> impl Iterator<Item = (u32, u32)> {
    (first..first + count).step_by(MOST_UNITS as usize).map(move |at| (at, MOST_UNITS.min(first + count - at)))
}
