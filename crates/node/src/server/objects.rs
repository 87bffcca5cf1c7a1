//! Requests about objects on a connection: taken as they come, within a window of bytes, and answered in that order by a
//! thread of their own.

use super::connection::Out;
use crate::objects::{ObjectLink, Pending};
use forebay_env::real::thread;
use forebay_model::{Error, Result};
use forebay_wire::object::{MOST_PENDING, ObjectRequest, WINDOW};
use forebay_wire::{Command, RequestId};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A connection's way to the objects.
pub(super) struct ObjectRequests {
    link: ObjectLink,
    shared: Arc<Shared>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Requests without an answer, and their bytes.
    count: usize,
    bytes: usize,
    closed: bool,
}

struct Waiting {
    request: RequestId,
    command: Command,
    weight: usize,
    pending: Result<Pending>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl ObjectRequests {
    pub(super) fn new(link: ObjectLink, out: Out) -> Result<ObjectRequests> {
        let shared = Arc::new(Shared::default());
        let answering = shared.clone();
        let thread = thread::spawn("objects", move || answer_all(&answering, &out))?;
        Ok(ObjectRequests { link, shared, thread: Some(thread) })
    }

    /// Waits until the window has room for a request of this weight, before memory is taken for it.
    pub(super) fn make_room(&self, weight: usize) {
        let mut state = self.shared.lock();
        while state.count >= MOST_PENDING || state.count > 0 && state.bytes + weight > WINDOW.0 as usize {
            state = self.shared.wait(state);
        }
        state.count += 1;
        state.bytes += weight;
    }

    /// Asks, in room that was made.
    pub(super) fn ask(&self, id: RequestId, weight: usize, request: ObjectRequest, payload: Vec<u8>) {
        let command = request.command();
        let pending = self.link.ask(request, Arc::new(payload));
        self.push(Waiting { request: id, command, weight, pending });
    }

    /// Refuses, in its turn and in room that was made.
    pub(super) fn refuse(&self, id: RequestId, weight: usize, command: Command, error: Error) {
        self.push(Waiting { request: id, command, weight, pending: Err(error) });
    }

    fn push(&self, waiting: Waiting) {
        self.shared.lock().waiting.push_back(waiting);
        self.shared.changed.notify_all();
    }
}

impl Drop for ObjectRequests {
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Answers in the order of the requests until the connection is over and nothing waits any more.
fn answer_all(shared: &Shared, out: &Out) {
    let mut state = shared.lock();
    loop {
        let Some(waiting) = state.waiting.pop_front() else {
            if state.closed {
                return;
            }
            state = shared.wait(state);
            continue;
        };
        drop(state);
        let Waiting { request, command, weight, pending } = waiting;
        // Where it cannot be sent, nobody is there; who takes in requests notices as well.
        let _ = match pending.and_then(Pending::wait) {
            Ok(answer) => answer.send(&mut out.lock(), request, command),
            Err(error) => out.error(request, command, &error),
        };
        state = shared.lock();
        state.count -= 1;
        state.bytes -= weight;
        shared.changed.notify_all();
    }
}
