//! The time of an answer, and the room of what strangers ask: for as long as an answer is under way, also one that comes in
//! parts as long as somebody takes them, as of health and reflection.

use super::gate::{Entered, Room};
use http_body::Frame;
use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::{Instant, Sleep, sleep_until, timeout_at};
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::http::{HeaderMap, Request, Response};
use tonic::codegen::{BoxFuture, Bytes, Service};
use tonic::server::NamedService;

/// A service whose answers have a time, and perhaps bounded room.
#[derive(Clone)]
pub(super) struct Bounded<S> {
    inner: S,
    room: Option<Room>,
    time: Duration,
}

impl<S> Bounded<S> {
    /// With room that others may share.
    pub(super) fn within(inner: S, room: &Room, time: Duration) -> Bounded<S> {
        Bounded { inner, room: Some(room.clone()), time }
    }

    /// With a time alone.
    pub(super) fn of(inner: S, time: Duration) -> Bounded<S> {
        Bounded { inner, room: None, time }
    }
}

impl<S: NamedService> NamedService for Bounded<S> {
    const NAME: &'static str = S::NAME;
}

impl<S, B> Service<Request<Body>> for Bounded<S>
where
    S: Service<Request<Body>, Response = Response<B>, Error = Infallible, Future: Send + 'static>,
    B: http_body::Body<Data = Bytes, Error = Status> + Send + 'static,
{
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Response<Body>, Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let entered = match self.room.as_ref().map(Room::enter).transpose() {
            Ok(entered) => entered,
            Err(status) => return Box::pin(std::future::ready(Ok(status.into_http()))),
        };
        if let Some(entered) = &entered {
            request.extensions_mut().insert(entered.clone());
        }
        let (until, answering) = (Instant::now() + self.time, self.inner.call(request));
        Box::pin(async move {
            let Ok(answered) = timeout_at(until, answering).await else { return Ok(late().into_http()) };
            Ok(answered?.map(|body| {
                let late = Box::pin(sleep_until(until));
                Body::new(Under { body: Some(Body::new(body)), late, _entered: entered })
            }))
        })
    }
}

/// An answer that is under way.
struct Under {
    /// None when its time is over.
    body: Option<Body>,
    late: Pin<Box<Sleep>>,
    _entered: Option<Entered>,
}

impl http_body::Body for Under {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Some(body) = &mut self.body else { return Poll::Ready(None) };
        if let Poll::Ready(part) = Pin::new(body).poll_frame(context) {
            return Poll::Ready(part);
        }
        if self.late.as_mut().poll(context).is_pending() {
            return Poll::Pending;
        }
        self.body = None;
        let mut trailers = HeaderMap::new();
        Poll::Ready(Some(late().add_header(&mut trailers).map(|()| Frame::trailers(trailers))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(http_body::Body::is_end_stream)
    }
}

/// As it would be without us: not known to be an error of the manager, and worth while to ask again.
fn late() -> Status {
    Status::deadline_exceeded("the answer took too long")
}
