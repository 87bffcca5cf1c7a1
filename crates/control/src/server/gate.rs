//! What is decided of a request before its message is read: whether it is of a session, and whether there is room.
//!
//! Reports have room of their own, so that clients do not make nodes look as if they were down.

use super::Limits;
use super::connection::Connection;
use crate::SESSION;
use crate::status::{no_room, no_session};
use forebay_env::real::clock;
use std::marker::PhantomData;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::codegen::{Service, http};
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

/// A request of a session, with its room.
pub(super) struct Admitted<P> {
    /// Who asks.
    pub(super) by: Arc<P>,
    _entered: Entered,
}

impl<P> Clone for Admitted<P> {
    fn clone(&self) -> Self {
        Admitted { by: self.by.clone(), _entered: self._entered.clone() }
    }
}

/// Before what takes a session.
pub(super) struct SessionGate<P> {
    room: Room,
    reports: Room,
    idle: Duration,
    principal: PhantomData<fn() -> P>,
}

impl<P> SessionGate<P> {
    pub(super) fn new(limits: &Limits) -> SessionGate<P> {
        let (room, reports) = (Room::of(limits.requests), Room::of(limits.reports));
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
        let by = connection::<P>(request.extensions()).session(&token, clock::now(), self.idle)?;
        let is_report = request.extensions().get::<IsReport>().is_some();
        let entered = if is_report { self.reports.enter()? } else { self.room.enter()? };
        request.extensions_mut().insert(Admitted { by, _entered: entered });
        Ok(request)
    }
}

/// That a request is a report.
#[derive(Clone, Copy)]
struct IsReport;

/// Before a [`SessionGate`], which does not see what a request is about.
#[derive(Clone)]
pub(super) struct Sorted<S>(pub(super) S);

impl<S: NamedService> NamedService for Sorted<S> {
    const NAME: &'static str = S::NAME;
}

impl<S: Service<http::Request<B>>, B> Service<http::Request<B>> for Sorted<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, mut request: http::Request<B>) -> S::Future {
        if request.uri().path().ends_with("/Report") {
            request.extensions_mut().insert(IsReport);
        }
        self.0.call(request)
    }
}

/// The connection of a request.
pub(super) fn connection<P: Send + Sync + 'static>(extensions: &Extensions) -> &Arc<Connection<P>> {
    extensions.get().expect("the server gives each request its connection")
}
