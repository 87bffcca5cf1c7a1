//! How far a writer session is durable: told by a target's loop, watched by other threads. Only the latest counts.

use forebay_model::{Error, Result};
use forebay_wire::command::Durable;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

pub(crate) struct Watch {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    durable: Durable,
    /// Counts what is told only to be heard.
    beats: u64,
    /// The session is over: in order, or for this reason.
    over: Option<Result<()>>,
}

impl Watch {
    pub(crate) fn new(durable: Durable) -> Watch {
        Watch { state: Mutex::new(State { durable, beats: 0, over: None }), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells how far it is now.
    pub(crate) fn tell(&self, durable: Durable) {
        let mut state = self.lock();
        if state.durable != durable {
            state.durable = durable;
            drop(state);
            self.changed.notify_all();
        }
    }

    /// Ends the session; the first reason counts.
    pub(crate) fn end(&self, over: Result<()>) {
        self.lock().over.get_or_insert(over);
        self.changed.notify_all();
    }

    /// How far it is now, and whether it is over.
    pub(crate) fn now(&self) -> (Durable, Option<Result<()>>) {
        let state = self.lock();
        (state.durable, state.over.clone())
    }

    /// Says nothing new, but says it.
    pub(crate) fn beat(&self) {
        self.lock().beats += 1;
        self.changed.notify_all();
    }

    /// Waits until it is another than `seen`, or over, or a beat.
    pub(crate) fn beyond(&self, seen: Durable) -> (Durable, Option<Result<()>>) {
        let mut state = self.lock();
        let beats = state.beats;
        while state.durable == seen && state.over.is_none() && state.beats == beats {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        (state.durable, state.over.clone())
    }

    /// Waits until block `number` is durable, or cannot be as everything is pinned.
    pub(crate) fn until(&self, number: u64) -> Result<Durable> {
        let mut state = self.lock();
        loop {
            if state.durable.number >= number || state.durable.full {
                return Ok(state.durable);
            }
            match &state.over {
                Some(Err(error)) => return Err(error.clone()),
                Some(Ok(())) => return Err(Error::disconnected("the writer session is closed")),
                None => state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}
