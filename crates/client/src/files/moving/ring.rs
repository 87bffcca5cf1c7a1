//! Rings that lie where nothing is to stay, and that nobody records into: what lies on that target is copied as it lies, segment by segment, while it is
//! read. Who records has it leave by that, and nothing is copied; so this makes way for who records.
//!
//! Order: all is copied; the manager shuts all others out; what the target knows of it is as it was before; all is durable in the other
//! place; it lies there. Until the manager was told of that, it lies where it lay, and what there is elsewhere is removed.

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
use forebay_wire::link::Answer;
use forebay_wire::object::MOST_AT_ONCE;
use forebay_wire::ring::{Image, ImageAsk, RingAsk, RingRequest};
use std::cell::Cell;
use std::collections::BTreeMap;

/// Pieces that are copied at the same time.
const AT_ONCE: usize = 2;

impl Files {
    /// Moves a part of a ring.
    pub(super) async fn move_ring(&self, ring: FileId) -> Result<Moved> {
        if self.rings().is_recorded(ring).await? {
            return Err(Error::busy(format!("somebody records into {ring}, and has it leave by that")));
        }
        self.move_beside(ring, self.copy_ring(ring)).await
    }

    async fn copy_ring(&self, ring: FileId) -> Result<Bytes> {
        let addresses = granted::addresses(granted::map(&*self.control).await?);
        let way = self.relocation(ring).await?;
        let mut copy = RingCopy { files: self, ring, way, addresses, written: Cell::default() };
        copy.all_of_it().await?;
        Ok(copy.written.get())
    }
}

/// A part of a ring that is copied.
struct RingCopy<'a> {
    files: &'a Files,
    ring: FileId,
    way: Relocation,
    addresses: BTreeMap<TargetId, String>,
    written: Cell<Bytes>,
}

impl RingCopy<'_> {
    async fn all_of_it(&mut self) -> Result<()> {
        let (image, portrait) = self.portrait().await?;
        match self.ask(End::To, ImageAsk::Receive, portrait.clone()).await {
            // The answer got lost: nobody else copies it there.
            Err(error) if error.kind == Kind::Exists => {}
            begun => drop(begun?),
        }
        self.bytes(image.length).await?;
        self.is_as_before(&portrait).await?;
        self.files.relocate(self.ring, true).await?;
        // What is shown from now on shuts all others out at both ends.
        self.way = self.files.relocation(self.ring).await?;
        self.is_as_before(&portrait).await?;
        self.ask(End::To, ImageAsk::Received, Slice::new()).await?;
        let Relocation { component, version, .. } = self.way;
        self.files
            .control
            .change(Change::Relocated(Relocated { file: self.ring, component, version, recorded: false }))
            .await
            .map(drop)
    }

    async fn bytes(&mut self, length: Bytes) -> Result<()> {
        let mut pieces =
            (0..length.0).step_by(MOST_AT_ONCE.0 as usize).map(|at| (at, MOST_AT_ONCE.0.min(length.0 - at))).peekable();
        while pieces.peek().is_some() {
            self.files.renew_copy(self.ring, &mut self.way).await?;
            let copied = all(pieces.by_ref().take(AT_ONCE).map(|piece| self.copy(piece))).await;
            copied.into_iter().collect::<Result<()>>()?;
        }
        Ok(())
    }

    async fn copy(&self, (offset, length): (u64, u64)) -> Result<()> {
        let read = self.ask(End::From, ImageAsk::Read { offset, length: length as u32 }, Slice::new()).await?;
        let bytes = Slice::from(read.payload.into_vec());
        if bytes.len() as u64 != length {
            return Err(Error::damaged(format!(
                "a node sent {} bytes of a ring where {length} were asked for",
                bytes.len()
            )));
        }
        self.ask(End::To, ImageAsk::Write { offset }, bytes).await?;
        self.written.set(self.written.get() + Bytes(length));
        Ok(())
    }

    /// How much there is to be copied, and what its target knows of it.
    async fn portrait(&self) -> Result<(Image, Slice)> {
        let answer = self.ask(End::From, ImageAsk::Portrait, Slice::new()).await?;
        Ok((forebay_wire::read_body(&answer.body)?, Slice::from(answer.payload.into_vec())))
    }

    /// [`Kind::Busy`] if anything was recorded, pinned or let go of since its target said this of it.
    async fn is_as_before(&self, portrait: &Slice) -> Result<()> {
        match self.portrait().await?.1 == *portrait {
            true => Ok(()),
            false => Err(Error::busy(format!("{} was changed while it was copied; it is tried again", self.ring))),
        }
    }

    /// Asks at one end, with what allows it.
    async fn ask(&self, end: End, ask: ImageAsk, payload: Slice) -> Result<Answer> {
        let component = end.of(&self.way);
        let (target, shown) = (component.target, granted::shown(component)?);
        let request = RingRequest { target, ring: component.object, ask: RingAsk::Image(ask) };
        let payload = if payload.is_empty() { Vec::new() } else { vec![payload] };
        let request = Request { command: request.command(), body: request.body()?, payload, most: ask.most() };
        let address = self.addresses.get(&target).ok_or_else(|| nobody_knows(target))?;
        let nodes = &self.files.nodes;
        let asked = async || match ask {
            // Asked again it is not taken in any more.
            ImageAsk::Received => nodes.ask_once(address, &request, Some(&shown)).await,
            _ => nodes.ask(address, &request, Some(&shown)).await,
        };
        let (answer, ..) = self.files.unless_busy(asked).await?;
        Ok(answer)
    }
}
