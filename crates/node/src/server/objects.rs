//! Requests about objects and records on a connection: taken as they come, within a window of bytes, and answered in that order
//! by a thread of their own.

use super::connection::Out;
use crate::heaps::HeapLink;
use crate::host::Host;
use crate::objects::{ObjectLink, Pending};
use forebay_env::real::thread;
use forebay_env::window::{Room, Window};
use forebay_model::{Error, Result};
use forebay_wire::heap::{HeapAnswer, HeapRequest};
use forebay_wire::object::{MOST_PENDING, ObjectAnswer, ObjectRequest, WINDOW};
use forebay_wire::{Command, RequestId};
use std::sync::Arc;

/// A connection's way to objects and records.
pub(super) struct ObjectRequests {
    objects: ObjectLink,
    heaps: HeapLink,
    window: Arc<Window<Waiting>>,
    thread: Option<thread::JoinHandle<()>>,
}

/// A request that was asked, or refused.
pub(super) struct Waiting {
    request: RequestId,
    command: Command,
    pending: Result<Coming>,
}

/// An answer that will come.
enum Coming {
    Object(Pending<ObjectAnswer>),
    Heap(Pending<HeapAnswer>),
}

impl ObjectRequests {
    pub(super) fn new(host: &Host, out: Out) -> Result<ObjectRequests> {
        let window = Window::new(MOST_PENDING, WINDOW.0 as usize);
        let answering = window.clone();
        let thread = thread::spawn("objects", move || answer_all(&answering, &out))?;
        Ok(ObjectRequests { objects: host.objects(), heaps: host.heaps(), window, thread: Some(thread) })
    }

    /// Waits until the window has room for a request of this weight, before memory is taken for it.
    pub(super) fn make_room(&self, weight: usize) -> Room<Waiting> {
        self.window.make_room(weight)
    }

    /// Asks, in room that was made.
    pub(super) fn ask(&self, id: RequestId, room: Room<Waiting>, request: ObjectRequest, payload: Vec<u8>) {
        let command = request.command();
        let pending = self.objects.ask(request, Arc::new(payload)).map(Coming::Object);
        room.fill(Waiting { request: id, command, pending });
    }

    /// Asks of a heap, in room that was made.
    pub(super) fn ask_heap(&self, id: RequestId, room: Room<Waiting>, request: HeapRequest, payload: Vec<u8>) {
        let command = request.command();
        let pending = self.heaps.ask(request, Arc::new(payload)).map(Coming::Heap);
        room.fill(Waiting { request: id, command, pending });
    }

    /// Refuses, in its turn.
    pub(super) fn refuse(&self, id: RequestId, command: Command, error: Error) {
        self.make_room(0).fill(Waiting { request: id, command, pending: Err(error) });
    }
}

impl Drop for ObjectRequests {
    fn drop(&mut self) {
        self.window.close();
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Answers in the order of the requests until the connection is over and nothing waits any more.
fn answer_all(window: &Arc<Window<Waiting>>, out: &Out) {
    while let Some((Waiting { request, command, pending }, _room)) = window.take() {
        // Where it cannot be sent, nobody is there; who takes in requests notices as well.
        let sent = pending.and_then(|coming| match coming {
            Coming::Object(pending) => pending.wait().map(|answer| answer.send(&mut out.lock(), request, command)),
            Coming::Heap(pending) => pending.wait().map(|answer| answer.send(&mut out.lock(), request, command)),
        });
        if let Err(error) = sent {
            let _ = out.error(request, command, &error);
        }
    }
}
