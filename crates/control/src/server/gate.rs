//! What is decided of a request before its message is read: whether it is of a session, and whether there is room.

use super::Limits;
use super::connection::Connection;
use crate::SESSION;
use crate::status::{no_room, no_session};
use forebay_env::real::clock;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tonic::service::Interceptor;
use tonic::{Extensions, Request, Status};

/// Lets as many requests through as there is room for.
#[derive(Clone)]
struct Room {
    slots: Arc<Semaphore>,
    size: usize,
}

impl Room {
    fn of(size: usize) -> Room {
        Room { slots: Arc::new(Semaphore::new(size)), size }
    }

    fn enter(&self) -> Result<Entered, Status> {
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

/// Before greetings.
#[derive(Clone)]
pub(super) struct GreetingGate {
    room: Room,
}

impl GreetingGate {
    pub(super) fn new(most: usize) -> GreetingGate {
        GreetingGate { room: Room::of(most) }
    }
}

impl Interceptor for GreetingGate {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let entered = self.room.enter()?;
        request.extensions_mut().insert(entered);
        Ok(request)
    }
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
    idle: Duration,
    principal: PhantomData<fn() -> P>,
}

impl<P> SessionGate<P> {
    pub(super) fn new(limits: &Limits) -> SessionGate<P> {
        SessionGate { room: Room::of(limits.requests), idle: limits.idle, principal: PhantomData }
    }
}

impl<P> Clone for SessionGate<P> {
    fn clone(&self) -> Self {
        SessionGate { room: self.room.clone(), idle: self.idle, principal: PhantomData }
    }
}

impl<P: Send + Sync + 'static> Interceptor for SessionGate<P> {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        let token = request.metadata().get_bin(SESSION).and_then(|token| token.to_bytes().ok());
        let token = token.ok_or_else(|| no_session("there is no session with this request; authenticate"))?;
        let by = connection::<P>(request.extensions()).session(&token, clock::now(), self.idle)?;
        let entered = self.room.enter()?;
        request.extensions_mut().insert(Admitted { by, _entered: entered });
        Ok(request)
    }
}

/// The connection of a request.
pub(super) fn connection<P: Send + Sync + 'static>(extensions: &Extensions) -> &Arc<Connection<P>> {
    extensions.get().expect("the server gives each request its connection")
}
