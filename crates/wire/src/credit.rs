//! Receiver credit: how much of what a client has asked for may be on its way to it, over all of its connections together.
//!
//! Requests go out at once, so that targets read ahead of them; the data waits there until the client lets it come, piece by
//! piece, in the order in which it was asked for. It lets come what is there: only a part of the allowance is given away
//! before a target has said that it has the data, so that slow ones hold up nobody. Where several are asked, each is let send a
//! part of the allowance only, since what a target lets wait at its own port, behind what it sends to others, is lost to all.
//! So however many targets answer at the same time, what is in flight fits the buffer of the client's port, and nothing is
//! dropped (Panasas ActiveScale, 2004, met the collapse; Flat Datacenter Storage, 2012, the cure).
//!
//! Where no port lies between, nothing has to wait: an allowance without a bound lets all come that is asked for.
//!
//! Invariant: `free` and what is under way of all that is asked for make up the whole allowance, but for what a connection
//! that broke took along, which comes back with its end.

use crate::frame::{NO_LIMIT, RequestId};
use crate::link::Shared;
use std::cell::{RefCell, RefMut};
use std::collections::VecDeque;
use std::rc::{Rc, Weak};

/// What is let come at once of one answer.
const MOST_OF_ONE: usize = 256 << 10;
/// It is one part in so many of the allowance, if there are so many answers.
const PARTS: usize = 8;
/// Less than this is not let come, unless it is the rest.
const LEAST: usize = 16 << 10;

/// The allowance of a client. Clones are the same one.
#[derive(Clone)]
pub struct Credit {
    /// None where there is no bound.
    state: Option<Rc<RefCell<State>>>,
}

struct State {
    all: usize,
    free: usize,
    /// In the order in which they were asked.
    wanted: VecDeque<Wanted>,
}

struct Wanted {
    link: Weak<Shared>,
    request: RequestId,
    /// What is there and has not been let come yet; none while that is not known.
    left: Option<usize>,
    /// What has, and is not here.
    under_way: usize,
}

impl Credit {
    /// So many bytes may be in flight.
    pub fn new(bytes: usize) -> Credit {
        let all = bytes.max(2 * LEAST);
        Credit { state: Some(Rc::new(RefCell::new(State { all, free: all, wanted: VecDeque::new() }))) }
    }

    /// All that is asked for may be in flight.
    pub fn boundless() -> Credit {
        Credit { state: None }
    }

    fn state(&self) -> Option<RefMut<'_, State>> {
        self.state.as_ref().map(|state| state.borrow_mut())
    }

    /// An answer of at most `bytes` is asked for: how many of them may come at once. The rest is let come when it is there
    /// and it is its turn.
    pub(crate) fn ask(&self, link: &Rc<Shared>, request: RequestId, bytes: usize) -> u32 {
        let Some(mut state) = self.state() else { return NO_LIMIT };
        // Nobody overtakes who waits, and half is kept for what is there.
        let waits = state.wanted.iter().any(|wanted| wanted.left.is_some_and(|left| left > 0));
        let spare = state.free.saturating_sub(state.all / 2).min(state.piece(bytes, 0));
        let now = if waits || spare < LEAST.min(bytes) { 0 } else { spare };
        state.free -= now;
        let link = Rc::downgrade(link);
        state.wanted.push_back(Wanted { link, request, left: None, under_way: now });
        now as u32
    }

    /// Bytes of an answer have come, and `waiting` more of it are there.
    pub(crate) fn came(&self, link: &Rc<Shared>, request: RequestId, bytes: usize, waiting: usize) {
        let Some(mut state) = self.state() else { return };
        if let Some(index) = state.find(link, request) {
            let wanted = &mut state.wanted[index];
            let back = wanted.under_way.min(bytes);
            wanted.under_way -= back;
            // Said once: what is let come from then on is counted here.
            wanted.left.get_or_insert(waiting);
            state.free += back;
        }
        state.let_come();
    }

    /// An answer is complete, or will never be.
    pub(crate) fn end(&self, link: &Rc<Shared>, request: RequestId) {
        let Some(mut state) = self.state() else { return };
        if let Some(wanted) = state.find(link, request).and_then(|index| state.wanted.remove(index)) {
            state.free += wanted.under_way;
        }
        state.let_come();
    }

    /// Nothing more comes over a connection.
    pub(crate) fn end_link(&self, link: &Rc<Shared>) {
        let Some(mut state) = self.state() else { return };
        let gone = Rc::downgrade(link);
        let back: usize = state.wanted.iter().filter(|w| w.link.ptr_eq(&gone)).map(|w| w.under_way).sum();
        state.wanted.retain(|wanted| !wanted.link.ptr_eq(&gone));
        state.free += back;
        state.let_come();
    }
}

impl State {
    fn find(&self, link: &Rc<Shared>, request: RequestId) -> Option<usize> {
        let link = Rc::downgrade(link);
        self.wanted.iter().position(|wanted| wanted.request == request && wanted.link.ptr_eq(&link))
    }

    /// How much may come now of an answer that lacks `left`, with `under_way` of it on its way.
    fn piece(&self, left: usize, under_way: usize) -> usize {
        let part = (self.all / self.wanted.len().clamp(1, PARTS)).clamp(LEAST, MOST_OF_ONE);
        let piece = left.min(part.saturating_sub(under_way)).min(self.free);
        if piece < LEAST.min(left) { 0 } else { piece }
    }

    fn let_come(&mut self) {
        for index in 0..self.wanted.len() {
            let Wanted { left, under_way, .. } = self.wanted[index];
            let Some(left) = left.filter(|left| *left > 0) else { continue };
            let piece = self.piece(left, under_way);
            if piece == 0 {
                if self.free < LEAST {
                    return;
                }
                continue;
            }
            let wanted = &mut self.wanted[index];
            wanted.left = Some(left - piece);
            wanted.under_way += piece;
            self.free -= piece;
            if let Some(link) = wanted.link.upgrade() {
                link.grant(wanted.request, piece as u32);
            }
        }
    }
}

#[cfg(test)]
mod tests;
