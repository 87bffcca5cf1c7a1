//! What is asked of a ring over the [`Way`] to one of its parts.

use crate::nodes::Request;
pub(super) use crate::way::{PAUSE, Way};
use bytes::Bytes as Slice;
use forebay_model::{Error, ObjectId, Result, TargetId};
use forebay_wire::RequestId;
use forebay_wire::link::{Answer, Coming, Link};
use forebay_wire::ring::{RingAsk, RingRequest, name_of};

impl Way {
    /// Asks of the ring until it is answered or patience ends; also the number of the request, and the link that answered.
    pub(super) async fn ask(&self, ask: &RingAsk) -> Result<(Answer, RequestId, Link)> {
        // What was pinned twice would be there twice.
        let may_repeat = !matches!(ask, RingAsk::Pin { .. });
        self.ask_about(about(ask, 0), may_repeat).await.map_err(|error| self.named(error))
    }

    /// Asks over this link, once.
    pub(super) fn ask_over(&self, link: &Link, ask: &RingAsk, payload: Vec<Slice>, most: usize) -> Result<Coming> {
        self.ask_over_about(link, about(ask, most), payload)
    }

    /// The error, with the name of the ring that its user knows.
    pub(super) fn named(&self, error: Error) -> Error {
        self.with_name(error, name_of)
    }
}

fn about(ask: &RingAsk, most: usize) -> impl Fn(TargetId, ObjectId) -> Result<Request> {
    move |target, ring| {
        let request = RingRequest { target, ring, ask: ask.clone() };
        Ok(Request { command: request.command(), body: request.body()?, payload: Vec::new(), most })
    }
}
