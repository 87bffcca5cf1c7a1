//! Writer sessions at one target.

use super::{Fenced, Service, SessionId, Shared, fences, queries};
use crate::watch::Watch;
use crate::writer::Opening;
use async_task::Task;
use forebay_env::Buffer;
use forebay_env::pipe::Inlet;
use forebay_env::race::{First, race};
use forebay_model::ring::RingState;
use forebay_model::{Error, Kind, Moment, ObjectId, Result};
use forebay_target::catalog::Writers;
use forebay_target::{Arrival, Ring};
use forebay_wire::command::{Durable, OpenWriter, WriterOpened};
use forebay_wire::ring;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long is waited for a ring to find its tail, so that what it says of itself is exact.
pub(super) const TAIL_PATIENCE: Duration = Duration::from_millis(500);
/// How often it is looked whether a ring is full, and the writer hears something.
const LOOK: Duration = Duration::from_millis(250);

#[derive(Default)]
pub(super) struct Sessions {
    open: RefCell<BTreeMap<SessionId, Session>>,
    /// By ring: the writers that were last, and how far the blocks of each were received.
    received: RefCell<BTreeMap<u64, Writers>>,
}

struct Session {
    ring: Rc<Ring>,
    writer: u64,
    watch: Shared,
    /// Tells the watch what is durable.
    watching: Task<()>,
    /// A wait for a buffer.
    taking: Option<Task<()>>,
    /// Nobody is to wait any more.
    stopped: bool,
    /// What was shown for it.
    fenced: Option<Fenced>,
}

pub(super) async fn open(
    service: &Rc<Service>,
    id: SessionId,
    request: OpenWriter,
    fenced: Option<Fenced>,
) -> Result<Opening> {
    let _entered = fences::enter(service, fenced).await?;
    let OpenWriter { ring: name, writer, resume } = request;
    let ring = service.target.ring(&name)?;
    if service.measuring.get() {
        return Err(Error::busy(format!("the device of {name} is being measured; record when that is done")));
    }
    if resume {
        ring.ready().await?;
    } else if let First::Left(result) = race(ring.ready(), service.env.clock.sleep(TAIL_PATIENCE)).await {
        result?;
    }
    ring.attach(writer).map_err(|error| error.of(&name))?;
    let (status, progress) = (ring.status(), ring.progress());
    let durable =
        Durable { number: ring.durable_of(writer), sequence: progress.sequence, full: status.state == RingState::Full };
    let received = {
        let mut all = service.sessions.received.borrow_mut();
        let writers = all.entry(ring.id.0).or_default();
        let received = writers.last_of(writer).unwrap_or(0).max(durable.number);
        writers.saw(writer, received);
        received
    };
    let is_empty = status.next_sequence == status.begins && received == durable.number;
    // The same writer from a connection that broke: this session takes over from that one.
    let older = {
        let open = service.sessions.open.borrow();
        open.iter().find(|(_, s)| s.ring.id == ring.id && s.writer == writer).map(|(id, _)| *id)
    };
    if let Some(older) = older.and_then(|id| service.sessions.open.borrow_mut().remove(&id)) {
        older.watch.end(Err(Error::busy("the session was resumed elsewhere")));
    }
    let watch = Arc::new(Watch::new(durable));
    let watching = service.env.spawner.spawn(keep_watch(service.clone(), ring.clone(), writer, watch.clone()));
    let opened = WriterOpened {
        newest: status.newest,
        received,
        durable,
        buffers: ring.staging().count() as u32,
        spec: status.spec,
    };
    let opening = Opening {
        opened,
        watch: watch.clone(),
        slab: ring.staging().clone(),
        keys: ring.keys.caller_width(),
        is_empty,
    };
    let session = Session { ring, writer, watch, watching, taking: None, stopped: false, fenced };
    service.sessions.open.borrow_mut().insert(id, session);
    Ok(opening)
}

/// Tells the watch whatever becomes durable, until the session ends.
async fn keep_watch(service: Rc<Service>, ring: Rc<Ring>, writer: u64, watch: Shared) {
    loop {
        let (durable, _) = watch.now();
        match race(ring.durable(writer, durable.number + 1), service.env.clock.sleep(LOOK)).await {
            First::Left(Ok(_)) => tell(&ring, writer, &watch),
            First::Left(Err(error)) => {
                watch.end(Err(error));
                return;
            }
            First::Right(()) => {
                let full = ring.status().state == RingState::Full;
                watch.tell(Durable { full, ..watch.now().0 });
                watch.beat();
            }
        }
    }
}

fn tell(ring: &Ring, writer: u64, watch: &Watch) {
    let progress = ring.progress();
    if progress.writer == writer {
        watch.tell(Durable { number: progress.durable, sequence: progress.sequence, full: false });
    }
}

pub(super) fn take(service: &Rc<Service>, id: SessionId, answer: Inlet<Buffer>) {
    if let Some(session) = service.sessions.open.borrow_mut().get_mut(&id).filter(|session| !session.stopped) {
        let slab = session.ring.staging().clone();
        session.taking = Some(service.env.spawner.spawn(async move {
            let buffer = slab.take().await;
            answer.send(buffer, 0).await;
        }));
    }
}

pub(super) fn stop_taking(service: &Service, id: SessionId) {
    let task = service.sessions.open.borrow_mut().get_mut(&id).and_then(|session| {
        session.stopped = true;
        session.taking.take()
    });
    drop(task);
}

pub(super) fn append(service: &Service, id: SessionId, buffer: Buffer, number: u64, accepted: Moment) {
    let open = service.sessions.open.borrow();
    let Some(session) = open.get(&id) else { return };
    match session.ring.accept(Arrival { buffer, accepted }) {
        Ok(()) => {
            let mut received = service.sessions.received.borrow_mut();
            received.entry(session.ring.id.0).or_default().saw(session.writer, number);
        }
        Err(error) => session.watch.end(Err(error)),
    }
}

pub(super) fn close(service: &Service, id: SessionId) {
    let session = service.sessions.open.borrow_mut().remove(&id);
    if let Some(session) = session {
        session.ring.detach(session.writer);
        tell(&session.ring, session.writer, &session.watch);
        session.watch.end(Ok(()));
        drop(session.watching);
    }
}

/// Ends the sessions of those who are shut out of a ring.
pub(super) fn shut_out(service: &Service, object: ObjectId, version: u64) {
    let stale = Error::stale("what was shown for the ring was revoked; ask the manager for another capability");
    end_those(service, &stale, |session| session.fenced.is_some_and(|fenced| fenced.is_out(object, version)));
}

fn end_those(service: &Service, why: &Error, which: impl Fn(&Session) -> bool) {
    let mut open = service.sessions.open.borrow_mut();
    let ended: Vec<Session> = open.extract_if(.., |_, session| which(session)).map(|(_, session)| session).collect();
    drop(open);
    for session in ended {
        session.ring.detach(session.writer);
        tell(&session.ring, session.writer, &session.watch);
        session.watch.end(Err(why.clone()));
    }
}

/// Removes the ring that this object is, with everything in it and whatever holds on to it, if there is one.
pub(super) async fn remove_ring(service: &Service, object: ObjectId) -> Result<()> {
    let name = ring::name_of(object);
    let ring = match service.target.ring(&name) {
        Ok(ring) => ring,
        // Some of it may have come from another target.
        Err(error) if error.kind == Kind::Missing => {
            return service.target.delete_ring(&name).await.or_else(|error| match error.kind {
                Kind::Missing => Ok(()),
                _ => Err(error),
            });
        }
        Err(error) => return Err(error),
    };
    end_those(service, &Error::missing("the ring was removed"), |session| session.ring.id == ring.id);
    queries::shut_out(service, object, u64::MAX);
    for pin in ring.status().pins {
        service.target.unpin(&name, pin.id).await?;
    }
    service.target.delete_ring(&name).await
}

/// The target is closed: tells every session how far it came, and that it goes no further here.
pub(super) fn end_all(service: &Service) {
    end_those(service, &Error::disconnected("the process that serves the ring is going away"), |_| true);
}
