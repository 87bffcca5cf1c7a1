//! How long a node waits for one client: to say hello, to go on with a frame that it began, and to take what it asked for.
//!
//! A hello may take as long as the node's patience, however it comes. A frame, and what waits for the client, may take the time
//! besides that its bytes need at the least rate; so nobody keeps memory from others by sending or taking a byte now and then.
//! What holds memory for which others wait may have to come faster ([`super::incoming`]).
//! Between frames a client may be silent for ever. Only time counts in which the node waits for the client, and not what it does
//! itself meanwhile: not when it does not listen, and no more than a turn at once, should its own machine have stopped.

use super::answers::Answers;
use super::incoming::Incoming;
use forebay_env::Clock;
use forebay_model::{Bytes, Error, Rate, TargetId};
use forebay_wire::sink::FrameSink;
use forebay_wire::source::FrameSource;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Of the patience: it is looked so often.
const TURNS: u32 = 4;
/// The shortest turn.
const LEAST_TURN: Duration = Duration::from_millis(1);

/// What is waited for.
pub(super) struct Patience {
    answers: Rc<Answers>,
    sink: FrameSink,
    incoming: Rc<Incoming>,
    /// The payload that is coming, as that knows it.
    payload: Cell<Option<u64>>,
    /// The frame that has begun.
    begun: Rc<Cell<Option<u64>>>,
    came: Rc<Cell<u64>>,
    is_met: Cell<bool>,
    /// The node does not listen, and how often it did not.
    rests: Cell<u64>,
    rested: Cell<u64>,
}

/// The node does not listen until this is dropped.
pub(super) struct Rest(Rc<Patience>);

/// A payload that has memory is coming until this is dropped.
pub(super) struct Brings(Rc<Patience>);

/// Something that is waited for, and how much patience that has cost.
struct Wait<T> {
    what: Option<T>,
    moved: u64,
    cost: Duration,
}

/// What waited for a client when it was looked: answers up to this one, and frames up to so many bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Backlog {
    answer: u64,
    bytes: u64,
}

impl<T: PartialEq> Wait<T> {
    fn new() -> Wait<T> {
        Wait { what: None, moved: 0, cost: Duration::ZERO }
    }

    /// A turn is over, after which this is waited for and so many bytes have moved by now: what it has cost.
    fn over(&mut self, turn: Duration, what: Option<T>, moved: u64, least: Rate) -> Duration {
        let is_same = what.is_some() && what == self.what;
        let bytes = moved - std::mem::replace(&mut self.moved, moved);
        // Without a least rate nothing comes of nothing, either.
        let earned = if bytes == 0 { Duration::ZERO } else { least.time_for(Bytes(bytes)) };
        self.cost = if is_same { (self.cost + turn).saturating_sub(earned) } else { Duration::ZERO };
        self.what = what;
        self.cost
    }
}

impl Patience {
    pub(super) fn new(
        source: &FrameSource,
        answers: Rc<Answers>,
        sink: FrameSink,
        incoming: Rc<Incoming>,
    ) -> Rc<Patience> {
        let (begun, came) = (source.begun(), source.came());
        let (is_met, rests, rested) = (Cell::new(false), Cell::new(0), Cell::new(0));
        let payload = Cell::new(None);
        Rc::new(Patience { answers, sink, incoming, payload, begun, came, is_met, rests, rested })
    }

    /// The client has said hello.
    pub(super) fn met(&self) {
        self.is_met.set(true);
    }

    /// The node does something else first.
    pub(super) fn rest(self: &Rc<Self>) -> Rest {
        self.rests.set(self.rests.get() + 1);
        Rest(self.clone())
    }

    /// A payload comes that goes to a target, and for which memory was taken: one at a time.
    pub(super) fn brings(self: &Rc<Self>, target: TargetId, length: usize) -> Brings {
        self.payload.set(Some(self.incoming.begins(target, length, self.came.clone())));
        Brings(self.clone())
    }

    /// Ends when the client has tried the node's patience.
    pub(super) async fn lost(self: Rc<Self>, clock: &Rc<dyn Clock>, patience: Duration, least: Rate) -> Error {
        let turn = (patience / TURNS).max(LEAST_TURN);
        let (mut reading, mut taking, mut unmet) = (Wait::new(), Wait::new(), Duration::ZERO);
        loop {
            let rested = self.rested.get();
            clock.sleep(turn).await;
            let is_listening = self.rests.get() == 0 && self.rested.get() == rested;
            let listened = if is_listening { turn } else { Duration::ZERO };
            if !self.is_met.get() {
                unmet += listened;
                if unmet >= patience {
                    return Error::disconnected(format!("the peer did not say hello for {patience:?}"));
                }
            }
            let hurried = self.payload.get().and_then(|payload| self.incoming.hurries(payload));
            let least_read = hurried.map_or(least, |rate| rate.max(least));
            let read = reading.over(listened, self.begun.get(), self.came.get(), least_read);
            let waits = self.backlog(taking.what);
            let taken = taking.over(turn, waits, self.sink.progress(), least);
            for (cost, least) in [(read, least_read), (taken, least)] {
                if cost >= patience {
                    return Error::disconnected(format!(
                        "the peer did not go on for {patience:?}, or did with less than {least}"
                    ));
                }
            }
        }
    }

    /// What waits for the client: what waited when it was looked first, until nothing of that does any more.
    fn backlog(&self, known: Option<Backlog>) -> Option<Backlog> {
        let (oldest, sent) = (self.answers.oldest(), self.sink.progress());
        if oldest.is_none() && !self.sink.is_waiting() {
            return None;
        }
        let waits = |known: &Backlog| oldest.is_some_and(|oldest| oldest <= known.answer) || sent < known.bytes;
        known.filter(waits).or_else(|| Some(Backlog { answer: self.answers.came(), bytes: self.sink.left() }))
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        self.0.rests.set(self.0.rests.get() - 1);
        self.0.rested.set(self.0.rested.get() + 1);
    }
}

impl Drop for Brings {
    fn drop(&mut self) {
        if let Some(payload) = self.0.payload.take() {
            self.0.incoming.ends(payload);
        }
    }
}

#[cfg(test)]
mod tests;
