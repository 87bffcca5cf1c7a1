//! Bytes that tasks of one loop may use together; who finds none left waits its turn.
//!
//! Invariant: nobody overtakes who waits, so that large requests come to their turn as well as small ones; and one is always
//! let in when nothing is used, whatever it weighs.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// The allowance. Clones are the same one.
#[derive(Clone)]
pub struct Allowance {
    state: Rc<RefCell<State>>,
}

struct State {
    most: usize,
    used: usize,
    next: u64,
    waiting: VecDeque<(u64, Option<Waker>)>,
}

/// A part of an allowance, until it is dropped.
pub struct Allowed {
    of: Allowance,
    weight: usize,
}

/// A place in the queue, which is left however the wait ends.
struct Place {
    of: Allowance,
    number: u64,
}

impl Allowance {
    /// An allowance of `most` bytes.
    pub fn new(most: usize) -> Allowance {
        let state = State { most, used: 0, next: 0, waiting: VecDeque::new() };
        Allowance { state: Rc::new(RefCell::new(state)) }
    }

    /// Waits until there are `weight` bytes for the caller.
    pub async fn take(&self, weight: usize) -> Allowed {
        let number = {
            let mut state = self.state.borrow_mut();
            state.next += 1;
            let number = state.next;
            state.waiting.push_back((number, None));
            number
        };
        let place = Place { of: self.clone(), number };
        poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            let is_first = state.waiting.front().is_some_and(|(first, _)| *first == number);
            if is_first && (state.used == 0 || state.used + weight <= state.most) {
                state.used += weight;
                return Poll::Ready(());
            }
            let waiting = state.waiting.iter_mut().find(|(waits, _)| *waits == number);
            waiting.expect("it waits until it is let in").1 = Some(context.waker().clone());
            Poll::Pending
        })
        .await;
        drop(place);
        Allowed { of: self.clone(), weight }
    }

    /// Bytes that are used.
    pub fn used(&self) -> usize {
        self.state.borrow().used
    }
}

impl State {
    fn wake_first(&mut self) {
        if let Some(waker) = self.waiting.front_mut().and_then(|(_, waker)| waker.take()) {
            waker.wake();
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.of.state.borrow_mut();
        state.waiting.retain(|(number, _)| *number != self.number);
        state.wake_first();
    }
}

impl Drop for Allowed {
    fn drop(&mut self) {
        let mut state = self.of.state.borrow_mut();
        state.used -= self.weight;
        state.wake_first();
    }
}

#[cfg(test)]
mod tests;
