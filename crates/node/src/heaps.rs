//! Requests about the records of heaps on the targets of this process, from any thread.
//!
//! What is under way is bounded by whoever asks: a request holds its payload, and the answer to a get its bytes.

use crate::host::Handles;
use crate::objects::Pending;
use crate::service::{Fenced, LinkId, Order};
use forebay_env::pipe::pipe;
use forebay_model::Result;
use forebay_wire::heap::{HeapAnswer, HeapRequest};
use std::sync::Arc;

/// A way to the heaps of all targets. What was put over it and not committed is undone when it is dropped.
pub struct HeapLink {
    link: LinkId,
    targets: Handles,
}

impl HeapLink {
    pub(crate) fn new(link: LinkId, targets: Handles) -> HeapLink {
        HeapLink { link, targets }
    }

    /// Asks; the payload is free again when the answer is there.
    pub fn ask(&self, request: HeapRequest, payload: Arc<Vec<u8>>) -> Result<Pending<HeapAnswer>> {
        self.order(request, payload, None)
    }

    /// As [`HeapLink::ask`], if the heap's fence is the one that was shown.
    pub(crate) fn ask_fenced(
        &self,
        request: HeapRequest,
        payload: Arc<Vec<u8>>,
        fenced: Fenced,
    ) -> Result<Pending<HeapAnswer>> {
        self.order(request, payload, Some(fenced))
    }

    fn order(
        &self,
        request: HeapRequest,
        payload: Arc<Vec<u8>>,
        fenced: Option<Fenced>,
    ) -> Result<Pending<HeapAnswer>> {
        let target = self.targets.find(request.target)?;
        let (inlet, answer) = pipe(0);
        target.order(Order::Heap { link: self.link, request, fenced, payload, answer: inlet })?;
        Ok(Pending::new(target, answer))
    }
}

impl Drop for HeapLink {
    fn drop(&mut self) {
        for (_, target) in self.targets.all() {
            // On a target that is gone, nothing that is not committed stays.
            let _ = target.order(Order::EndLink(self.link));
        }
    }
}
