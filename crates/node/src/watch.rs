//! How far a writer session is durable: told by a target's loop, watched by other threads. Only the latest counts.

use forebay_env::watched::Watched;
use forebay_model::{Error, Result};
use forebay_wire::command::Durable;
use std::collections::BTreeMap;
use std::future::poll_fn;
use std::task::{Poll, Waker};

pub(crate) struct Watch(Watched<State>);

struct State {
    durable: Durable,
    /// Counts what is told only to be heard.
    beats: u64,
    /// The session is over: in order, or for this reason.
    over: Option<Result<()>>,
    /// Tasks that wait, by a number that each has to itself.
    wakers: BTreeMap<u64, Waker>,
    next: u64,
}

/// A task that waits, until this is dropped.
struct Waiting<'a> {
    watch: &'a Watch,
    number: u64,
}

impl Watch {
    pub(crate) fn new(durable: Durable) -> Watch {
        Watch(Watched::new(State { durable, beats: 0, over: None, wakers: BTreeMap::new(), next: 0 }))
    }

    /// Tells how far it is now.
    pub(crate) fn tell(&self, durable: Durable) {
        let mut state = self.0.lock();
        if state.durable != durable {
            state.durable = durable;
            drop(state);
            self.told();
        }
    }

    /// Wakes whoever waits.
    fn told(&self) {
        self.0.tell();
        let wakers = std::mem::take(&mut self.0.lock().wakers);
        wakers.into_values().for_each(Waker::wake);
    }

    /// Ends the session; the first reason counts.
    pub(crate) fn end(&self, over: Result<()>) {
        self.0.lock().over.get_or_insert(over);
        self.told();
    }

    /// How far it is now, and whether it is over.
    pub(crate) fn now(&self) -> (Durable, Option<Result<()>>) {
        let state = self.0.lock();
        (state.durable, state.over.clone())
    }

    /// Says nothing new, but says it.
    pub(crate) fn beat(&self) {
        self.0.change(|state| state.beats += 1);
    }

    /// Waits until it is another than `seen`, or over, or a beat.
    pub(crate) fn beyond(&self, seen: Durable) -> (Durable, Option<Result<()>>) {
        let state = self.0.lock();
        let beats = state.beats;
        let nothing_new = |state: &mut State| state.durable == seen && state.over.is_none() && state.beats == beats;
        let state = self.0.wait_while(state, nothing_new);
        (state.durable, state.over.clone())
    }

    /// Waits as a task until `is_so` says of how far it is, or it is over.
    pub(crate) async fn when(&self, is_so: impl Fn(&Durable) -> bool) -> (Durable, Option<Result<()>>) {
        let waiting = self.waiting();
        poll_fn(|context| {
            let mut state = self.0.lock();
            if is_so(&state.durable) || state.over.is_some() {
                return Poll::Ready((state.durable, state.over.clone()));
            }
            state.wakers.insert(waiting.number, context.waker().clone());
            Poll::Pending
        })
        .await
    }

    fn waiting(&self) -> Waiting<'_> {
        let mut state = self.0.lock();
        state.next += 1;
        Waiting { watch: self, number: state.next }
    }

    /// Waits until block `number` is durable, or cannot be as everything is pinned.
    pub(crate) fn until(&self, number: u64) -> Result<Durable> {
        let mut state = self.0.lock();
        loop {
            if state.durable.number >= number || state.durable.full {
                return Ok(state.durable);
            }
            match &state.over {
                Some(Err(error)) => return Err(error.clone()),
                Some(Ok(())) => return Err(Error::disconnected("the writer session is closed")),
                None => state = self.0.wait(state),
            }
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.watch.0.lock().wakers.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
