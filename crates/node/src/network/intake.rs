//! How much may be on its way to a node: so many clients that write at the same time do not overflow its port in the network.
//!
//! Each connection may send so many bytes beyond those that have come. Connections over which something is written share
//! what the port takes, and one share is left for whoever begins; the others keep what they were told last. Whoever sends
//! more than it may harms its own network alone, and so nothing checks it. Nobody's share depends on what another client
//! does with its own: who is let send and does not holds up nobody.
//!
//! Who is on the same machine sends through no port: it may send [`NEAR`], and counts for nobody's share.

use forebay_env::Clock;
use forebay_model::{Bytes, Moment};
use forebay_wire::sink::{Frame, FrameSink, OPENING};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// The smallest share: less would be many small segments. Payloads up to this size are worth no share.
const LEAST: u64 = 8 << 10;
/// What the same machine may have on its way, as good as no bound: each time that it is let send more costs both sides a turn
/// of their loops.
const NEAR: u64 = 1 << 30;
/// Who wrote so long ago or less is still writing.
const PAUSE: Duration = Duration::from_millis(20);

/// What all connections of a node share.
pub(super) struct Intake {
    all: u64,
    clock: Rc<dyn Clock>,
    /// Connections over which something is written, and until when that counts.
    writing: RefCell<BTreeMap<u64, Moment>>,
    next: Cell<u64>,
}

/// What one connection may send.
pub(super) struct Window {
    intake: Rc<Intake>,
    number: u64,
    sink: FrameSink,
    is_near: bool,
    /// Up to which of its bytes.
    edge: Cell<u64>,
    is_writing: Cell<bool>,
}

impl Intake {
    pub(super) fn new(all: Bytes, clock: Rc<dyn Clock>) -> Rc<Intake> {
        let all = all.0.min(u64::from(u32::MAX));
        Rc::new(Intake { all, clock, writing: RefCell::default(), next: Cell::new(0) })
    }

    /// The window of a connection that begins, whose client is told over `sink`, and whether that is on this machine.
    pub(super) fn window(self: &Rc<Self>, sink: FrameSink, is_near: bool) -> Window {
        let number = self.next.get();
        self.next.set(number + 1);
        Window { intake: self.clone(), number, sink, is_near, edge: Cell::new(OPENING), is_writing: Cell::new(false) }
    }

    fn share(&self) -> u64 {
        let now = self.clock.now();
        let mut writing = self.writing.borrow_mut();
        writing.retain(|_, until| *until >= now);
        (self.all / (writing.len() as u64 + 1)).max(LEAST)
    }
}

impl Window {
    /// A payload of so many bytes begins to come.
    pub(super) fn begins(&self, length: usize) {
        if length as u64 > LEAST {
            self.is_writing.set(true);
            if !self.is_near {
                self.intake.writing.borrow_mut().insert(self.number, Moment(u64::MAX));
            }
        }
    }

    /// A payload has come.
    pub(super) fn ends(&self) {
        if self.is_writing.replace(false) && !self.is_near {
            let until = self.intake.clock.now() + PAUSE;
            self.intake.writing.borrow_mut().insert(self.number, until);
        }
    }

    /// So many bytes have come by now.
    pub(super) fn came(&self, came: u64) {
        let share = if self.is_near { NEAR } else { self.intake.share() };
        let left = self.edge.get().saturating_sub(came);
        // Who writes is told before it has to wait, and who does not need not be told of each change.
        let due = if self.is_writing.get() { share } else { share.min(OPENING) };
        if left > due / 2 {
            return;
        }
        let more = (came + share).saturating_sub(self.edge.get());
        // A frame without body and payload is never too large.
        if more > 0
            && let Ok(frame) = Frame::window(more as u32)
        {
            self.edge.set(self.edge.get() + more);
            self.sink.push(frame);
        }
    }

    /// Tells the client that the node is there, and lets no more come.
    pub(super) fn is_here(&self) {
        // Where something waits to go, that says it.
        if !self.sink.is_waiting()
            && let Ok(frame) = Frame::window(0)
        {
            self.sink.push(frame);
        }
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.intake.writing.borrow_mut().remove(&self.number);
    }
}

#[cfg(test)]
pub(super) mod tests;
