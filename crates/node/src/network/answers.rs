//! Answers on their way to one client: sent in pieces, as far as the client lets them come.
//!
//! A client that asked says how much it lets come at once. When an answer is there and is longer, each frame of it says how much
//! still waits, if need be one without bytes; so the client lets come what is there, and nothing of it is held back for what a
//! slow device does not have yet.
//!
//! Invariant: what waits here has its room in the node's memory, which is free again when its last byte has gone, or
//! the connection.

use forebay_env::race::{First, race};
use forebay_model::{Error, Result, TargetId};
use forebay_wire::frame::NO_LIMIT;
use forebay_wire::pieces::Pieces;
use forebay_wire::sink::{Frame, FrameSink};
use forebay_wire::{Command, Flags, RequestId};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The most bytes of a payload in one frame, so that answers take turns.
const PIECE: usize = 256 << 10;

/// Room in the node's memory, free again when it is dropped.
pub(super) type Room = Rc<dyn Any>;

/// The answers of a connection.
pub(super) struct Answers {
    sink: FrameSink,
    /// Requests that have no complete answer yet.
    open: RefCell<BTreeMap<RequestId, Open>>,
    /// Those of them to each target that has not answered: each has one of these.
    of_targets: RefCell<BTreeMap<TargetId, Rc<()>>>,
    /// Answers that have come by now.
    came: Cell<u64>,
    /// Nobody is there to take an answer.
    is_abandoned: Cell<bool>,
    /// Who is to hear of that, by request.
    waiting: RefCell<BTreeMap<RequestId, Waker>>,
}

struct Open {
    command: Command,
    /// What may be sent and has not been.
    credit: u64,
    /// It counts among those to a target that has not answered.
    of_target: Option<Rc<()>>,
    answer: Option<Answered>,
}

/// What is known of an answer once it is there.
struct Answered {
    /// Which one of its connection it is, counted from 1.
    number: u64,
    body: Vec<u8>,
    payload: Pieces,
    room: Room,
    /// The client was told how much there is.
    is_announced: bool,
}

impl Answers {
    pub(super) fn new(sink: FrameSink) -> Answers {
        Answers {
            sink,
            open: RefCell::default(),
            of_targets: RefCell::default(),
            came: Cell::new(0),
            is_abandoned: Cell::new(false),
            waiting: RefCell::default(),
        }
    }

    /// A request was taken in, which says how much of its answer may be sent at once.
    pub(super) fn open(&self, request: RequestId, command: Command, credit: u32) {
        let credit = if credit == NO_LIMIT { u64::MAX } else { u64::from(credit) };
        self.open.borrow_mut().insert(request, Open { command, credit, of_target: None, answer: None });
    }

    /// A request is for a target. [`forebay_model::Kind::Busy`] if that has not answered so many of this connection as it may not.
    pub(super) fn concerns(&self, request: RequestId, target: TargetId, most: usize) -> Result<()> {
        let of_target = self.of_targets.borrow_mut().entry(target).or_default().clone();
        // One is in the table, and one here.
        if Rc::strong_count(&of_target) - 2 >= most {
            return Err(Error::busy(format!(
                "{most} requests of this connection have no answer of target {target} yet, and more to it are not taken; wait for some"
            )));
        }
        if let Some(open) = self.open.borrow_mut().get_mut(&request) {
            open.of_target = Some(of_target);
        }
        Ok(())
    }

    /// The connection is over: drops what waits here. Requests that still run hold on to this, so nothing else would.
    pub(super) fn abandon(&self) {
        self.is_abandoned.set(true);
        let left = std::mem::take(&mut *self.open.borrow_mut());
        drop(left);
        self.waiting.take().into_values().for_each(Waker::wake);
    }

    /// What comes of what a request waits for; nothing once the connection is over. So who is gone waits for no room, and does not
    /// stand before others who do.
    pub(super) async fn unless_over<T>(&self, request: RequestId, what: impl Future<Output = T>) -> Option<T> {
        let over = poll_fn(|context| {
            if self.is_abandoned.get() {
                return Poll::Ready(());
            }
            self.waiting.borrow_mut().insert(request, context.waker().clone());
            Poll::Pending
        });
        let first = race(what, over).await;
        self.waiting.borrow_mut().remove(&request);
        match first {
            First::Left(came) if !self.is_abandoned.get() => Some(came),
            _ => None,
        }
    }

    /// Whether the connection is over.
    pub(super) fn is_abandoned(&self) -> bool {
        self.is_abandoned.get()
    }

    /// Requests without a complete answer.
    pub(super) fn pending(&self) -> usize {
        self.open.borrow().len()
    }

    /// The number of the answer that waits longest for the client to let it come; answers are counted from 1.
    pub(super) fn oldest(&self) -> Option<u64> {
        self.open.borrow().values().filter_map(|open| Some(open.answer.as_ref()?.number)).min()
    }

    /// The number of the answer that came last.
    pub(super) fn came(&self) -> u64 {
        self.came.get()
    }

    /// The client lets more of an answer come. One that is complete meanwhile needs none.
    pub(super) fn grant(&self, request: RequestId, bytes: u32) {
        let mut all = self.open.borrow_mut();
        if let Some(open) = all.get_mut(&request) {
            open.credit = open.credit.saturating_add(u64::from(bytes));
        }
        drop(all);
        self.send(request);
    }

    /// The answer is there: the body of its last frame, and its payload. `room` is what both have in memory.
    pub(super) fn answer(&self, request: RequestId, answer: Result<(Vec<u8>, Pieces)>, room: Room) {
        match answer {
            Ok((body, payload)) => {
                let number = self.came.get() + 1;
                self.came.set(number);
                let answered = Answered { number, body, payload, room, is_announced: false };
                if let Some(open) = self.open.borrow_mut().get_mut(&request) {
                    open.answer = Some(answered);
                    // What waits from now on waits for the client.
                    open.of_target = None;
                }
                self.send(request);
            }
            Err(error) => self.refuse(request, &error, Some(room)),
        }
    }

    /// Ends a request with an error.
    pub(super) fn refuse(&self, request: RequestId, error: &Error, room: Option<Room>) {
        let Some(open) = self.open.borrow_mut().remove(&request) else { return };
        self.end_with(request, open.command, error, room);
    }

    fn end_with(&self, request: RequestId, command: Command, error: &Error, room: Option<Room>) {
        // A message that is too long for a frame is no message of ours.
        let Ok(frame) = Frame::error(request, command, error) else { return };
        self.sink.push(match room {
            Some(room) => frame.with_guard(room),
            None => frame,
        });
    }

    /// Sends what may be sent of an answer.
    fn send(&self, request: RequestId) {
        let mut all = self.open.borrow_mut();
        let Some(open) = all.get_mut(&request) else { return };
        let Open { command, credit, answer: Some(answer), .. } = open else { return };
        loop {
            let piece = answer.payload.len().min(PIECE).min(usize::try_from(*credit).unwrap_or(usize::MAX));
            let is_last = piece == answer.payload.len();
            if piece == 0 && !is_last && answer.is_announced {
                return;
            }
            answer.is_announced = true;
            let (flags, body) = match is_last {
                true => (Flags::RESPONSE.and(Flags::END), &answer.body[..]),
                false => (Flags::RESPONSE.and(Flags::MORE), &[][..]),
            };
            *credit = credit.saturating_sub(piece as u64);
            let payload = answer.payload.take(piece);
            let command = *command;
            let waits = u32::try_from(answer.payload.len()).unwrap_or(NO_LIMIT);
            match Frame::new(request, command, flags, waits, body, payload) {
                Ok(frame) => self.sink.push(frame.with_guard(answer.room.clone())),
                // What is too large for a frame is told instead; the connection is as good as before.
                Err(error) => {
                    all.remove(&request);
                    drop(all);
                    return self.end_with(request, command, &error, None);
                }
            }
            if is_last {
                all.remove(&request);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
