//! What is decided of a request before its message is read: whether it is of a session, and whether there is room.
//!
//! Reports have room of their own, so that clients do not make nodes look as if they were down; and of both some is left to others,
//! whatever one user asks at a time. A message has to come soon after its header, by which the room of a request is taken.

use super::Limits;
use super::connection::Connection;
use crate::SESSION;
use crate::status::{no_room, no_session};
use forebay_env::real::clock;
use http_body::{Frame, SizeHint};
use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Sleep, sleep};
use tonic::body::Body;
use tonic::codegen::{Bytes, Service, http};
use tonic::server::NamedService;
use tonic::service::Interceptor;
use tonic::{Extensions, Request, Status};

/// Lets as many requests through as there is room for.
#[derive(Clone)]
pub(super) struct Room {
    slots: Arc<Semaphore>,
    size: usize,
}

impl Room {
    pub(super) fn of(size: usize) -> Room {
        Room { slots: Arc::new(Semaphore::new(size)), size }
    }

    pub(super) fn enter(&self) -> Result<Entered, Status> {
        match self.slots.clone().try_acquire_owned() {
            Ok(permit) => Ok(Entered { _permit: Arc::new(permit) }),
            Err(_) => Err(no_room(format!("{} requests are under way, which is all that fit; try again", self.size))),
        }
    }
}

/// The room of a request, for as long as somebody has this.
#[derive(Clone)]
pub(super) struct Entered {
    _permit: Arc<OwnedSemaphorePermit>,
}

/// Room of which no user has more than so much.
#[derive(Clone)]
struct Shared {
    room: Room,
    of_one: usize,
    /// How much each user has that has any.
    users: Arc<Mutex<BTreeMap<u32, usize>>>,
}

impl Shared {
    fn of(size: usize, of_one: usize) -> Shared {
        Shared { room: Room::of(size), of_one, users: Arc::default() }
    }

    fn enter(&self, user: u32) -> Result<OfUser, Status> {
        let entered = self.room.enter()?;
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        let count = users.entry(user).or_default();
        if *count >= self.of_one {
            return Err(no_room(format!(
                "{} requests of user {user} are under way, and the rest of the room is for others; try again",
                self.of_one
            )));
        }
        *count += 1;
        Ok(OfUser { _entered: entered, user, users: self.users.clone() })
    }
}

/// The room of a user's request, until this is dropped.
struct OfUser {
    _entered: Entered,
    user: u32,
    users: Arc<Mutex<BTreeMap<u32, usize>>>,
}

impl Drop for OfUser {
    fn drop(&mut self) {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = users.get_mut(&self.user) {
            *count -= 1;
            if *count == 0 {
                users.remove(&self.user);
            }
        }
    }
}

/// A request of a session, with its room.
pub(super) struct Admitted<P> {
    /// Who asks.
    pub(super) by: Arc<P>,
    _entered: Arc<OfUser>,
}

impl<P> Clone for Admitted<P> {
    fn clone(&self) -> Self {
        Admitted { by: self.by.clone(), _entered: self._entered.clone() }
    }
}

/// Before what takes a session.
pub(super) struct SessionGate<P> {
    room: Shared,
    reports: Shared,
    idle: Duration,
    principal: PhantomData<fn() -> P>,
}

impl<P> SessionGate<P> {
    pub(super) fn new(limits: &Limits) -> SessionGate<P> {
        let room = Shared::of(limits.requests, limits.requests_of_one);
        let reports = Shared::of(limits.reports, limits.reports_of_one);
        SessionGate { room, reports, idle: limits.idle, principal: PhantomData }
    }
}

impl<P> Clone for SessionGate<P> {
    fn clone(&self) -> Self {
        let (room, reports) = (self.room.clone(), self.reports.clone());
        SessionGate { room, reports, idle: self.idle, principal: PhantomData }
    }
}

impl<P: Send + Sync + 'static> Interceptor for SessionGate<P> {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let token = request.metadata().get_bin(SESSION).and_then(|token| token.to_bytes().ok());
        let token = token.ok_or_else(|| no_session("there is no session with this request; authenticate"))?;
        let (by, user) = connection::<P>(request.extensions()).session(&token, clock::now(), self.idle)?;
        let is_report = request.extensions().get::<IsReport>().is_some();
        let entered = if is_report { self.reports.enter(user)? } else { self.room.enter(user)? };
        request.extensions_mut().insert(Admitted { by, _entered: Arc::new(entered) });
        Ok(request)
    }
}

/// That a request is a report.
#[derive(Clone, Copy)]
struct IsReport;

/// Before a [`SessionGate`], which does not see what a request is about, nor its message, that has a time.
#[derive(Clone)]
pub(super) struct Sorted<S> {
    pub(super) inner: S,
    pub(super) message: Duration,
}

impl<S: NamedService> NamedService for Sorted<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Service<http::Request<Body>>> Service<http::Request<Body>> for Sorted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<Body>) -> S::Future {
        if request.uri().path().ends_with("/Report") {
            request.extensions_mut().insert(IsReport);
        }
        let late = Box::pin(sleep(self.message));
        self.inner.call(request.map(|body| Body::new(Message { body, late })))
    }
}

/// A message that is on its way.
struct Message {
    body: Body,
    late: Pin<Box<Sleep>>,
}

impl http_body::Body for Message {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if let Poll::Ready(part) = Pin::new(&mut self.body).poll_frame(context) {
            return Poll::Ready(part);
        }
        self.late.as_mut().poll(context).map(|()| Some(Err(Status::deadline_exceeded("the message took too long"))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The connection of a request.
pub(super) fn connection<P: Send + Sync + 'static>(extensions: &Extensions) -> &Arc<Connection<P>> {
    extensions.get().expect("the server gives each request its connection")
}
