//! Connections, and the session that each may have.
//!
//! Always: a connection has one challenge at most, which is answered once, and one session at most, which no other
//! connection can use. Sessions leave some places to those who have none yet, and who begins one more ends one of whoever has most: so
//! no user keeps all others out, and nobody ends a session who has not proven who it is. Of its own user nobody ends a session that is used:
//! whoever had it would come again, and end the next one.

use crate::status::{no_room, no_session};
use forebay_env::real::random;
use forebay_model::Moment;
use forebay_wire::control::access::{Challenge, Hello, Proven, ROOT_USER};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;
use tonic::Status;

/// What shows that a request is of a session.
pub(crate) type Token = [u8; 16];

/// One place in so many is for those who have no session yet.
const KEPT: usize = 8;
/// A session over which nothing was asked for so long may make room for another one of the same user: clients that are there ask every few
/// seconds.
const UNUSED: Duration = Duration::from_secs(30);

/// A connection, as its requests see it.
pub(crate) struct Connection<P> {
    state: Mutex<State<P>>,
}

struct State<P> {
    greeting: Option<Greeting>,
    session: Option<Session<P>>,
}

/// What was said before there is a session.
#[derive(Clone)]
pub(crate) struct Greeting {
    /// By the client.
    pub(crate) hello: Hello,
    /// By the manager.
    pub(crate) challenge: Challenge,
}

/// With what a session began: whether it counts can be looked at again.
#[derive(Clone)]
pub(crate) struct Shown {
    pub(crate) greeting: Greeting,
    pub(crate) proven: Proven,
}

struct Session<P> {
    token: Token,
    /// What names the session as well, as no other one has the same.
    by: Arc<P>,
    user: u32,
    shown: Shown,
    /// When something was asked last.
    used: Moment,
    /// Whether it is a node's.
    reports: bool,
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

    fn begin(&self, (by, user): (P, u32), shown: Shown, now: Moment) -> Token {
        let mut token = Token::default();
        random::fill(&mut token);
        self.lock().session = Some(Session { token, by: Arc::new(by), user, shown, used: now, reports: false });
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

    /// With what the session of whoever asks began, if it is not over.
    pub(crate) fn shown(&self, by: &Arc<P>) -> Option<Shown> {
        let state = self.lock();
        state.session.as_ref().filter(|session| Arc::ptr_eq(&session.by, by)).map(|session| session.shown.clone())
    }

    /// The session of whoever asks is a node's.
    pub(crate) fn reported(&self, by: &Arc<P>) {
        if let Some(session) = self.lock().session.as_mut().filter(|session| Arc::ptr_eq(&session.by, by)) {
            session.reports = true;
        }
    }

    /// The session of whoever asks is over.
    pub(crate) fn end(&self, by: &Arc<P>) {
        self.lock().session.take_if(|session| Arc::ptr_eq(&session.by, by));
    }

    fn has_session(&self, now: Moment, idle: Duration) -> bool {
        self.lock().session.as_ref().is_some_and(|session| now.since(session.used) < idle)
    }
}

/// All connections of a server.
pub(crate) struct Connections<P> {
    state: Mutex<Open<P>>,
    most: usize,
    most_sessions: usize,
    /// A session of which nothing was asked for so long is over, whether anybody has noticed or not.
    idle: Duration,
}

struct Open<P> {
    /// In the order in which they came.
    connections: BTreeMap<u64, Member<P>>,
    next: u64,
}

/// The sessions of a user.
struct Held {
    count: usize,
    /// When something was asked last in the one that asked longest ago, and the number of its connection.
    oldest: (Moment, u64),
    /// It is root, or has a node.
    is_spared: bool,
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
        let state = Mutex::new(Open { connections: BTreeMap::new(), next: 0 });
        Connections { state, most, most_sessions: most - most / KEPT, idle }
    }

    fn lock(&self) -> MutexGuard<'_, Open<P>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for one more, and what says when it has to end. If all are taken, the one that is there longest without a
    /// session ends; there is no place if each has one, which may be where there are few places in all.
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

    /// Begins the session of somebody who has proven which user it is; one that the connection had is over, and if there are as many as
    /// may be, so is another one, with its connection. There is no room if that one would be of the same user, and all of these are used.
    pub(crate) fn begin(
        &self,
        connection: &Arc<Connection<P>>,
        who: (P, u32),
        shown: Shown,
        now: Moment,
    ) -> Result<Token, Status> {
        let mut open = self.lock();
        if let Some(number) = self.displaced(&open, connection, who.1, now)? {
            open.connections.remove(&number);
        }
        Ok(connection.begin(who, shown, now))
    }

    /// The connection whose session ends for one more of this user, if there are as many as may be: of whoever has most, if the user has no
    /// more than that also then, and otherwise of the user itself, if there is one that is not used. Root and nodes are spared, unless the
    /// user has none and nobody else has two. It is the one that asked longest ago.
    fn displaced(
        &self,
        open: &Open<P>,
        newcomer: &Arc<Connection<P>>,
        user: u32,
        now: Moment,
    ) -> Result<Option<u64>, Status> {
        let mut held: BTreeMap<u32, Held> = BTreeMap::new();
        for (number, member) in open.connections.iter().filter(|(_, it)| !Arc::ptr_eq(&it.connection, newcomer)) {
            let state = member.connection.lock();
            let live = state.session.as_ref().filter(|session| now.since(session.used) < self.idle);
            let Some(session) = live else { continue };
            let last = (session.used, *number);
            let none = || Held { count: 0, oldest: last, is_spared: session.user == ROOT_USER };
            let of_user = held.entry(session.user).or_insert_with(none);
            of_user.count += 1;
            of_user.oldest = of_user.oldest.min(last);
            of_user.is_spared |= session.reports;
        }
        let all: usize = held.values().map(|one| one.count).sum();
        if all < self.most_sessions {
            return Ok(None);
        }
        let own = held.get(&user);
        let then = own.map_or(0, |own| own.count) + 1;
        let others = held.values().filter(|one| !one.is_spared && one.count > then);
        let largest = others.max_by_key(|one| one.count);
        match (largest, own) {
            (None, Some(own)) if now.since(own.oldest.0) < UNUSED => Err(no_room(format!(
                "there are {all} sessions, and no more fit: user {user} has {} of them, over each of which something was asked within {} \
                 s; end some clients of this user, or share one between programs, and try again",
                own.count,
                UNUSED.as_secs()
            ))),
            (None, Some(own)) => Ok(Some(own.oldest.1)),
            (None, None) => Ok(held.values().max_by_key(|one| one.count).map(|one| one.oldest.1)),
            (Some(largest), _) => Ok(Some(largest.oldest.1)),
        }
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
