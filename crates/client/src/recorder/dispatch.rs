//! Blocks on their way: buffers, numbers, what is durable, and whoever serves the ring, also when that changes.

use super::RecorderProgress;
use crate::peer::{Block, Lost, Peer, Splitting, WriterLink};
use crate::stopper::Stopper;
use forebay_env::Buffer;
use forebay_model::block::Sealed;
use forebay_model::{Bytes, Error, Gap, Kind, Moment, Result};
use forebay_wire::command::{Durable, WriterOpened};
use std::collections::VecDeque;
use std::sync::Arc;

/// Breaks in a row after which a recorder gives up.
const MOST_BREAKS: u32 = 8;

/// A session's way to its ring.
pub(super) struct Dispatch {
    peer: Arc<dyn Peer>,
    link: Option<Box<dyn WriterLink>>,
    pub(super) ring: String,
    writer: u64,
    pub(super) stopper: Stopper,
    /// Elements accepted so far, and their bytes: counted by whoever packs them.
    pub(super) elements: u64,
    pub(super) bytes: u64,
    /// Blocks sent so far.
    sent: u64,
    /// Of each block that was sent and not yet seen to be durable: its number, and the elements accepted up to its end.
    /// As many as there are buffers, and a few.
    marks: VecDeque<(u64, u64)>,
    /// Elements up to the last block that was seen to be durable.
    settled: u64,
    /// How far the link before had come, if there is none now.
    last: Durable,
    /// Why recording is over, if it is.
    failure: Option<Error>,
}

impl Dispatch {
    /// Begins a session; also what the ring said of itself.
    pub(super) fn open(peer: Arc<dyn Peer>, ring: &str) -> Result<(Dispatch, WriterOpened)> {
        let writer = peer.random();
        let link = peer.open_writer(ring, writer, false)?;
        let opened = link.opened().clone();
        let dispatch = Dispatch {
            peer,
            link: Some(link),
            ring: ring.to_string(),
            writer,
            stopper: Stopper::default(),
            elements: 0,
            bytes: 0,
            sent: 0,
            marks: VecDeque::new(),
            settled: 0,
            last: Durable::default(),
            failure: None,
        };
        Ok((dispatch, opened))
    }

    /// The number of the session.
    pub(super) fn writer(&self) -> u64 {
        self.writer
    }

    /// Where elements may be split now.
    pub(super) fn splitting(&self) -> Splitting {
        self.link.as_ref().map_or(Splitting::Anywhere, |link| link.splitting())
    }

    /// What was given up on its way since this was asked last: it counts as accepted no more.
    pub(super) fn lost(&mut self) -> Vec<Gap> {
        let lost = self.link.as_ref().map_or_else(Vec::new, |link| link.lost());
        for Lost { number, elements, .. } in &lost {
            self.elements = self.elements.saturating_sub(*elements);
            let after = self.marks.iter_mut().filter(|(mark, _)| mark >= number);
            after.for_each(|(_, accepted)| *accepted = accepted.saturating_sub(*elements));
            if self.marks.front().is_none_or(|(mark, _)| mark > number) {
                self.settled = self.settled.saturating_sub(*elements);
            }
        }
        lost.into_iter().map(|lost| lost.gap).collect()
    }

    /// Monotonic time.
    pub(super) fn now(&self) -> Moment {
        self.peer.now()
    }

    /// Whether recording is over.
    pub(super) fn has_failed(&self) -> bool {
        self.failure.is_some()
    }

    /// Why recording is over, if it is.
    pub(super) fn check(&self) -> Result<()> {
        self.failure.clone().map_or(Ok(()), Err)
    }

    /// Notices if the process that serves the ring went away, or cannot go on.
    pub(super) fn look(&mut self) -> Result<()> {
        self.check()?;
        match self.link()?.check() {
            Ok(()) => Ok(()),
            Err(error) => self.recover_from(error),
        }
    }

    /// A buffer, if there is one, and when it was got.
    pub(super) fn take(&mut self, wait: bool) -> Result<Option<(Buffer, Moment)>> {
        loop {
            let stopper = self.stopper.clone();
            match self.link()?.take(wait, &stopper) {
                Ok(Some(buffer)) => return Ok(Some((buffer, self.peer.now()))),
                Ok(None) => return Ok(None),
                Err(error) => self.recover_from(error)?,
            }
        }
    }

    /// Sends a block off.
    pub(super) fn send(&mut self, sealed: Sealed<Buffer>, accepted: Moment) -> Result<()> {
        let mut buffer = sealed.buffer;
        buffer.set_len(sealed.length);
        self.sent += 1;
        let durable = self.durable().number;
        while let Some((_, elements)) = self.marks.pop_front_if(|(number, _)| *number <= durable) {
            self.settled = elements;
        }
        self.marks.push_back((self.sent, self.elements));
        let block = Block { buffer, number: self.sent, accepted };
        match self.link()?.send(block) {
            Ok(()) => Ok(()),
            Err(error) => self.recover_from(error),
        }
    }

    /// Waits until every block that was sent is durable; the sequence after the last element.
    pub(super) fn settle(&mut self) -> Result<u64> {
        loop {
            let sent = self.sent;
            match self.link()?.wait_durable(sent) {
                Ok(durable) if durable.number >= sent => return Ok(durable.sequence),
                Ok(_) => {
                    return Err(Error::full(format!(
                        "everything in {} is pinned, so the last blocks cannot be written; unpin something",
                        self.ring
                    )));
                }
                Err(error) => self.recover_from(error)?,
            }
        }
    }

    /// Ends the session, of which everything is durable.
    pub(super) fn close(&mut self) -> Result<()> {
        match self.link.take().map(WriterLink::close) {
            // All is durable, and the session ended with the process that served it.
            Some(Err(error)) if error.kind != Kind::Disconnected => Err(error),
            _ => Ok(()),
        }
    }

    /// What is known of it now; losses are not.
    pub(super) fn progress(&self) -> RecorderProgress {
        let durable = self.durable();
        let there = self.marks.iter().take_while(|(number, _)| *number <= durable.number);
        RecorderProgress {
            elements: self.elements,
            bytes: Bytes(self.bytes),
            blocks: self.sent,
            durable_elements: there.last().map_or(self.settled, |(_, elements)| *elements),
            durable_blocks: durable.number,
            durable_sequence: durable.sequence,
            full: durable.full,
            ..RecorderProgress::default()
        }
    }

    fn durable(&self) -> Durable {
        self.link.as_ref().map_or(self.last, |link| link.durable())
    }

    fn link(&mut self) -> Result<&mut Box<dyn WriterLink>> {
        let failure = &self.failure;
        self.link.as_mut().ok_or_else(|| {
            failure
                .clone()
                .unwrap_or_else(|| Error::disconnected("the recorder has lost its ring; begin a new session"))
        })
    }

    /// Goes on after `error`: with the process that serves the ring now, if the last one went away.
    fn recover_from(&mut self, error: Error) -> Result<()> {
        match error.kind {
            Kind::Disconnected => {}
            // Of what somebody else holds, or is slow to answer, nothing is over.
            Kind::Busy => return Err(error),
            _ => return Err(self.fail(error)),
        }
        let Some(link) = self.link.take() else { return Err(error) };
        self.last = link.durable();
        let mut blocks = link.unsettled();
        let mut last = error;
        for _ in 0..MOST_BREAKS {
            let mut link = match self.peer.open_writer(&self.ring, self.writer, true) {
                Ok(link) => link,
                Err(error) => {
                    last = error;
                    break;
                }
            };
            let received = link.opened().received;
            blocks.retain(|block| block.number > received);
            let mut broken = false;
            while let Some(block) = blocks.pop_front() {
                match link.send(block) {
                    Ok(()) => {}
                    Err(error) if error.kind == Kind::Disconnected => {
                        last = error;
                        broken = true;
                        break;
                    }
                    Err(error) => return Err(self.fail(error)),
                }
            }
            if !broken {
                self.link = Some(link);
                return Ok(());
            }
            let rest = std::mem::take(&mut blocks);
            blocks = link.unsettled();
            blocks.extend(rest);
        }
        Err(self.fail(last))
    }

    /// Recording is over; says how much of it is there.
    fn fail(&mut self, error: Error) -> Error {
        let RecorderProgress { elements, durable_elements, .. } = self.progress();
        let there = match elements - durable_elements {
            0 => format!("all {elements} elements that were accepted are on disk"),
            lost => format!("the last {lost} of {elements} elements that were accepted are not known to be on disk"),
        };
        let error = error.of(format!("recording into {} cannot go on ({there})", self.ring));
        self.failure.get_or_insert(error).clone()
    }
}
