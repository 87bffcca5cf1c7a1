//! Requests about the objects of the targets of this process, from any thread.
//!
//! What is under way is bounded by whoever asks: a request holds its payload, and the answer to a read its bytes.

use crate::host::{Handles, TargetHandle};
use crate::service::{Fenced, LinkId, Order};
use forebay_env::Buffer;
use forebay_env::pipe::{Outlet, pipe};
use forebay_model::Result;
use forebay_wire::object::{ObjectAnswer, ObjectRequest};
use std::sync::Arc;

/// A way to the objects of all targets; on each of them its I/O is one stream.
pub struct ObjectLink {
    link: LinkId,
    targets: Handles,
}

/// What a request brings.
#[derive(Default)]
pub struct Payload {
    /// Its bytes.
    pub(crate) bytes: Brought,
    /// The CRC-32C of the blocks that they fill, if they are known.
    pub(crate) sums: Vec<u32>,
}

/// Bytes that a request brings.
pub(crate) enum Brought {
    /// In memory of any kind, which whoever asks may have, too.
    Plain(Arc<Vec<u8>>),
    /// In memory for I/O.
    Aligned(Arc<Buffer>),
}

impl Brought {
    /// How many they are.
    pub(crate) fn length(&self) -> usize {
        match self {
            Brought::Plain(bytes) => bytes.len(),
            Brought::Aligned(buffer) => buffer.len(),
        }
    }
}

impl Default for Brought {
    fn default() -> Brought {
        Brought::Plain(Arc::default())
    }
}

impl From<Arc<Vec<u8>>> for Payload {
    fn from(bytes: Arc<Vec<u8>>) -> Payload {
        Payload { bytes: Brought::Plain(bytes), sums: Vec::new() }
    }
}

/// An answer that will come.
pub struct Pending<A> {
    target: TargetHandle,
    answer: Outlet<Result<A>>,
}

impl ObjectLink {
    pub(crate) fn new(link: LinkId, targets: Handles) -> ObjectLink {
        ObjectLink { link, targets }
    }

    /// Asks; the payload is free again when the answer is there.
    pub fn ask(&self, request: ObjectRequest, payload: Arc<Vec<u8>>) -> Result<Pending<ObjectAnswer>> {
        self.order(request, payload.into(), None)
    }

    /// As [`ObjectLink::ask`], if the object's fence is `version`.
    pub(crate) fn ask_fenced(
        &self,
        request: ObjectRequest,
        payload: Payload,
        version: u64,
    ) -> Result<Pending<ObjectAnswer>> {
        self.order(request, payload, Some(version))
    }

    fn order(&self, request: ObjectRequest, payload: Payload, version: Option<u64>) -> Result<Pending<ObjectAnswer>> {
        let target = self.targets.find(request.target)?;
        let fenced = |version| request.about().map(|about| Fenced { object: about.object, version });
        let fenced = version.map(fenced).transpose()?;
        let (inlet, answer) = pipe(0);
        target.order(Order::Object { link: self.link, request, fenced, payload, answer: inlet })?;
        Ok(Pending::new(target, answer))
    }
}

impl Drop for ObjectLink {
    fn drop(&mut self) {
        for (_, target) in self.targets.all() {
            // A target that is gone has no streams.
            let _ = target.order(Order::EndLink(self.link));
        }
    }
}

impl<A: Send> Pending<A> {
    pub(crate) fn new(target: TargetHandle, answer: Outlet<Result<A>>) -> Pending<A> {
        Pending { target, answer }
    }

    /// The answer, awaited by a task.
    pub async fn answer(mut self) -> Result<A> {
        self.answer.receive().await.unwrap_or_else(|| Err(self.target.gone()))
    }

    /// Waits for the answer.
    pub fn wait(mut self) -> Result<A> {
        self.answer.receive_blocking().unwrap_or_else(|| Err(self.target.gone()))
    }
}
