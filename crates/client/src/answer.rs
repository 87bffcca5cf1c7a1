//! The answer to a query, as one stream: also when the process that gave its beginning went away and another goes on.
//!
//! Invariant: no element is given twice, none is left out, and no piece of one; of what lies between elements (gaps,
//! expired ranges) the same holds unless the last element before the break has expired meanwhile, or, of gaps, the ring
//! ran over some of more than 64 in a row that were given.

pub(crate) mod cursor;
#[cfg(test)]
mod tests;

use crate::peer::{AnswerLink, Part, Peer};
use crate::stopper::Stopper;
use cursor::Cursor;
use forebay_model::ring::{Batch, Item, QuerySummary};
use forebay_model::{Bytes, Error, Gap, Kind, Result, Timestamp};
use forebay_wire::command::QueryRequest;
use std::sync::Arc;

pub(crate) use cursor::{check_text, conjunction, later};

/// Breaks in a row, without an item between them, after which an answer gives up.
const MOST_BREAKS: u32 = 8;

/// The most of an element in pieces that is joined in memory.
pub const MOST_JOINED: Bytes = Bytes::gib(1);

/// The answer to a query.
pub struct Answer {
    peer: Arc<dyn Peer>,
    request: QueryRequest,
    link: Option<Box<dyn AnswerLink>>,
    cursor: Cursor,
    stopper: Stopper,
    breaks: u32,
    summary: Option<QuerySummary>,
    /// The beginning of a large element whose pieces are being joined.
    joined: Vec<u8>,
}

/// What an answer is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event<'a> {
    /// An element, whole.
    Element {
        /// Sequence within the ring.
        sequence: u64,
        /// Its time.
        time: Timestamp,
        /// Its bytes.
        payload: &'a [u8],
        /// Its caller-supplied keys.
        caller: &'a [u8],
        /// Bytes that whoever captured it had cut off its end.
        cut: u32,
    },
    /// Something was not stored here.
    Gap(Gap),
    /// What was asked for from sequence `from` to before `to` has been overwritten.
    Expired {
        /// First sequence that is gone.
        from: u64,
        /// Sequence after the last that is gone.
        to: u64,
    },
}

impl Answer {
    pub(crate) fn open(peer: Arc<dyn Peer>, request: QueryRequest) -> Result<Answer> {
        let mut answer = Answer {
            peer,
            request,
            link: None,
            cursor: Cursor::default(),
            stopper: Stopper::default(),
            breaks: 0,
            summary: None,
            joined: Vec::new(),
        };
        answer.connect()?;
        Ok(answer)
    }

    fn connect(&mut self) -> Result<()> {
        let link = self.peer.query(self.cursor.resume(&self.request))?;
        self.stopper.on_stop(link.canceller());
        self.link = Some(link);
        Ok(())
    }

    /// What ends the answer early, from any thread.
    pub fn stopper(&self) -> Stopper {
        self.stopper.clone()
    }

    /// Waits for more of the answer; `None` at its end. An element larger than a block comes in several items.
    pub fn next_batch(&mut self) -> Result<Option<Batch>> {
        while self.summary.is_none() {
            let Some(link) = &mut self.link else {
                self.connect()?;
                continue;
            };
            match link.next() {
                Ok(Part::Batch(batch)) => {
                    let batch = self.cursor.pass(batch);
                    if !batch.items.is_empty() {
                        self.breaks = 0;
                        return Ok(Some(batch));
                    }
                }
                Ok(Part::End(mut summary)) => {
                    (summary.elements, summary.bytes) = self.cursor.totals();
                    self.end(summary);
                }
                Err(error) if error.kind == Kind::Disconnected && self.breaks < MOST_BREAKS => {
                    self.link = None;
                    self.breaks += 1;
                    if self.stopper.is_stopped() {
                        let (elements, bytes) = self.cursor.totals();
                        self.end(QuerySummary { elements, bytes, ..QuerySummary::default() });
                    }
                }
                Err(error) => {
                    self.end(QuerySummary::default());
                    return Err(error);
                }
            }
        }
        Ok(None)
    }

    fn end(&mut self, summary: QuerySummary) {
        self.summary = Some(summary);
        self.link = None;
        self.stopper.clear();
    }

    /// Hands everything to `visit`, in order, large elements whole, until it says false or fails; the summary of what
    /// was returned. An element of more than [`MOST_JOINED`] is an error: [`Answer::next_batch`] gives the pieces of it.
    pub fn for_each(&mut self, mut visit: impl FnMut(Event<'_>) -> Result<bool>) -> Result<QuerySummary> {
        while let Some(batch) = self.next_batch()? {
            if !visit_batch(&batch, &mut self.joined, &mut visit)? {
                let (elements, bytes) = self.cursor.totals();
                self.end(QuerySummary { elements, bytes, ..QuerySummary::default() });
            }
        }
        Ok(self.summary.unwrap_or_default())
    }

    /// What the finished answer says about itself; `None` before its end. (If the answer was ended by the caller, or
    /// by an error, it counts only what was returned.)
    pub fn summary(&self) -> Option<&QuerySummary> {
        self.summary.as_ref()
    }
}

/// Hands the items of a batch to `visit`; `joined` keeps the pieces of an element that goes on in the next batch.
/// False as soon as `visit` says so. An element of more than [`MOST_JOINED`] is an error.
pub fn visit_batch(
    batch: &Batch,
    joined: &mut Vec<u8>,
    visit: &mut impl FnMut(Event<'_>) -> Result<bool>,
) -> Result<bool> {
    visit_within(MOST_JOINED, batch, joined, visit)
}

fn visit_within(
    most: Bytes,
    batch: &Batch,
    joined: &mut Vec<u8>,
    visit: &mut impl FnMut(Event<'_>) -> Result<bool>,
) -> Result<bool> {
    let mut at = 0;
    for item in &batch.items {
        let event = match *item {
            Item::Element { sequence, time, length, caller, cut, first, last } => {
                let middle = at + length as usize;
                let end = middle + usize::from(caller);
                let (payload, keys) = (&batch.payload[at..middle], &batch.payload[middle..end]);
                at = end;
                if first {
                    joined.clear();
                }
                match (first, last) {
                    (true, true) => Event::Element { sequence, time, payload, caller: keys, cut },
                    (_, false) => {
                        join(joined, payload, most, sequence)?;
                        continue;
                    }
                    (false, true) => {
                        join(joined, payload, most, sequence)?;
                        if !visit(Event::Element { sequence, time, payload: joined, caller: keys, cut })? {
                            return Ok(false);
                        }
                        joined.clear();
                        continue;
                    }
                }
            }
            Item::Gap(gap) => {
                // What came of an element before a gap is not whole.
                joined.clear();
                Event::Gap(gap)
            }
            Item::Expired { from, to } => Event::Expired { from, to },
            Item::Block { .. } => continue,
        };
        if !visit(event)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn join(joined: &mut Vec<u8>, piece: &[u8], most: Bytes, sequence: u64) -> Result<()> {
    let length = Bytes((joined.len() + piece.len()) as u64);
    if length > most || joined.try_reserve(piece.len()).is_err() {
        return Err(Error::usage(format!(
            "element {sequence} has {length} or more, and is not held in memory as a whole (at most {most} are, if there is so much); \
             read it in pieces, or leave it out"
        )));
    }
    joined.extend_from_slice(piece);
    Ok(())
}
