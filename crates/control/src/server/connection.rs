//! Connections, and the session that each may have.
//!
//! Always: a connection has one challenge at most, which is answered once, and one session at most, which no other
//! connection can use.

use crate::status::no_session;
use forebay_env::real::random;
use forebay_model::Moment;
use forebay_wire::control::access::{Challenge, Hello};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tonic::Status;

/// What shows that a request is of a session.
pub(crate) type Token = [u8; 16];

/// A connection, as its requests see it.
pub(crate) struct Connection<P> {
    state: Mutex<State<P>>,
}

struct State<P> {
    greeting: Option<Greeting>,
    session: Option<Session<P>>,
}

/// What was said before there is a session.
pub(crate) struct Greeting {
    /// By the client.
    pub(crate) hello: Hello,
    /// By the manager.
    pub(crate) challenge: Challenge,
}

struct Session<P> {
    token: Token,
    by: Arc<P>,
    user: u32,
    /// When something was asked last.
    used: Moment,
}

impl<P> Connection<P> {
    fn new() -> Connection<P> {
        Connection { state: Mutex::new(State { greeting: None, session: None }) }
    }

    fn lock(&self) -> MutexGuard<'_, State<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps a challenge until it is answered; one that was before is void.
    pub(crate) fn greet(&self, hello: Hello, challenge: Challenge) {
        self.lock().greeting = Some(Greeting { hello, challenge });
    }

    /// The challenge that is to be answered: only once.
    pub(crate) fn take_greeting(&self) -> Result<Greeting, Status> {
        let greeting = self.lock().greeting.take();
        greeting.ok_or_else(|| no_session("nothing was asked on this connection that could be proven; say hello first"))
    }

    /// Begins the session of somebody who has proven which user it is; one that the connection had is over.
    pub(crate) fn begin(&self, by: P, user: u32, now: Moment) -> Token {
        let mut token = Token::default();
        random::fill(&mut token);
        self.lock().session = Some(Session { token, by: Arc::new(by), user, used: now });
        token
    }

    /// Who asks, and which user that is, if this is the token of a session that is not over.
    pub(crate) fn session(&self, token: &[u8], now: Moment, idle: Duration) -> Result<(Arc<P>, u32), Status> {
        let mut state = self.lock();
        let session = state.session.as_mut().filter(|session| session.token == token);
        let Some(session) = session else {
            return Err(no_session("this connection has no such session; authenticate"));
        };
        if now.since(session.used) >= idle {
            state.session = None;
            return Err(no_session("the session is over, as nothing was asked for long; authenticate again"));
        }
        session.used = now;
        Ok((session.by.clone(), session.user))
    }

    fn has_session(&self, now: Moment, idle: Duration) -> bool {
        self.lock().session.as_ref().is_some_and(|session| now.since(session.used) < idle)
    }
}

/// All connections of a server.
pub(crate) struct Connections<P> {
    state: Mutex<Open<P>>,
    most: usize,
    /// A session of which nothing was asked for so long is over, whether anybody has noticed or not.
    idle: Duration,
}

struct Open<P> {
    /// In the order in which they came.
    connections: BTreeMap<u64, Member<P>>,
    next: u64,
}

struct Member<P> {
    connection: Arc<Connection<P>>,
    /// Sending, or dropping, it ends the connection.
    _end: oneshot::Sender<()>,
}

/// The place of a connection among the others, until it is dropped.
pub(crate) struct Place<P> {
    number: u64,
    connection: Arc<Connection<P>>,
    connections: Arc<Connections<P>>,
}

impl<P> Connections<P> {
    pub(crate) fn new(most: usize, idle: Duration) -> Connections<P> {
        Connections { state: Mutex::new(Open { connections: BTreeMap::new(), next: 0 }), most, idle }
    }

    fn lock(&self) -> MutexGuard<'_, Open<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more, and what says when it has to end. If all are taken, the one that is there longest without a
    /// session ends; if each has one, there is no place.
    pub(crate) fn join(self: &Arc<Self>, now: Moment) -> Option<(Place<P>, oneshot::Receiver<()>)> {
        let mut open = self.lock();
        if open.connections.len() >= self.most {
            let is_stranger = |member: &Member<P>| !member.connection.has_session(now, self.idle);
            let longest = open.connections.iter().find(|(_, member)| is_stranger(member)).map(|(number, _)| *number)?;
            open.connections.remove(&longest);
        }
        let number = open.next;
        open.next += 1;
        let connection = Arc::new(Connection::new());
        let (end, ended) = oneshot::channel();
        open.connections.insert(number, Member { connection: connection.clone(), _end: end });
        drop(open);
        Some((Place { number, connection, connections: self.clone() }, ended))
    }
}

impl<P> Place<P> {
    /// The connection that has it.
    pub(crate) fn connection(&self) -> &Arc<Connection<P>> {
        &self.connection
    }
}

impl<P> Drop for Place<P> {
    fn drop(&mut self) {
        self.connections.lock().connections.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
