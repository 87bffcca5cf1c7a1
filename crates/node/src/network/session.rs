//! One connection of a client: requests in, answers out.
//!
//! Each command is checked before anything is done for it, and before memory is taken for what it brings. Numbers of requests
//! rise, so nothing that was heard can be said again. What is malformed ends the connection, with the reason, and so does a
//! peer that drips: it began a frame and does not go on, or does not take what it asked for.

use super::answers::Answers;
use super::locks::Turn;
use super::{Node, TargetDoor};
use crate::objects::ObjectLink;
use forebay_env::allowance::Allowance;
use forebay_env::fabric::Duplex;
use forebay_model::{Error, Kind, Result, TargetId, Timestamp};
use forebay_wire::capability::{Capability, LENGTH, Nonces, Proof, Rights, Said, Wanted};
use forebay_wire::handshake::{self, PROTOCOL_VERSION, ServerHello};
use forebay_wire::lock::{Lock, Locked, Unlock};
use forebay_wire::object::{About, MOST_AT_ONCE, ObjectRequest, WINDOW};
use forebay_wire::sink::{Frame, FrameSink};
use forebay_wire::source::FrameSource;
use forebay_wire::{Command, Flags, Head, RequestId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;

/// Requests of a connection without an answer.
const MOST_PENDING: usize = 1024;
/// Locks that a connection holds or waits for.
const MOST_LOCKS: usize = 1024;
/// What a request or an answer weighs besides its payload.
const OVERHEAD: usize = 1024;

/// Serves a connection until it ends.
pub(super) async fn serve(node: &Rc<Node>, duplex: Duplex) {
    let sink = FrameSink::default();
    let sending = {
        let sink = sink.clone();
        // How it ended, whoever reads finds out as well.
        node.env.spawner.spawn(async move { drop(sink.drive(duplex.write).await) })
    };
    let mut session = Session {
        node: node.clone(),
        source: FrameSource::new(duplex.read),
        answers: Rc::new(Answers::new(sink.clone())),
        last: 0,
        links: RefCell::default(),
        locks: Rc::default(),
        room: Allowance::new(WINDOW.0 as usize),
        received: Rc::default(),
    };
    let watch = session.watch(&sink);
    let ended = either(session.talk(&sink), watch).await;
    if let Err(error) = ended
        && error.kind != Kind::Disconnected
        && let Ok(frame) = Frame::error(RequestId(0), Command::HELLO, &error)
    {
        sink.push(frame);
    }
    std::mem::take(&mut *session.locks.borrow_mut()).into_values().for_each(Turn::desert);
    session.answers.abandon();
    sink.close();
    // What is on its way may still go, but not for ever.
    let patience = node.env.clock.sleep(node.bounds.patience);
    either(sending, patience).await;
    sink.abandon();
}

struct Session {
    node: Rc<Node>,
    source: FrameSource,
    answers: Rc<Answers>,
    /// The number of the last request.
    last: u64,
    /// Ways to the objects of targets, whose I/O is a stream of its own on each.
    links: RefCell<BTreeMap<TargetId, Rc<ObjectLink>>>,
    locks: Rc<RefCell<BTreeMap<RequestId, Turn>>>,
    /// What this connection may have of the node's memory for answers.
    room: Allowance,
    /// Whole frames that came.
    received: Rc<Cell<u64>>,
}

/// What a request shows, and what it asks.
struct Parts<'a> {
    shown: Option<(&'a [u8; LENGTH], Proof)>,
    body: &'a [u8],
}

impl Session {
    async fn talk(&mut self, sink: &FrameSink) -> Result<()> {
        let target = self.node.targets().first().copied().unwrap_or(TargetId(0));
        let nonce = self.nonce();
        let hello = ServerHello { version: PROTOCOL_VERSION, target, process: self.node.process, nonce };
        let Some(client) = handshake::welcome(&mut self.source, sink, &hello, None).await? else { return Ok(()) };
        let nonces = Nonces { client: client.nonce, node: nonce };
        self.received.set(1);
        while let Some(head) = self.source.receive().await? {
            self.received.set(self.received.get() + 1);
            if head.flags.has(Flags::RESPONSE) {
                return Err(Error::damaged("a client sent a response: it is broken"));
            }
            if head.command == Command::GRANT {
                self.answers.grant(head.request, head.credit);
                continue;
            }
            if head.request.0 <= self.last {
                return Err(Error::damaged(format!(
                    "a client asked {} after request {}: numbers of requests rise, and what was asked is not asked again",
                    head.request, self.last
                )));
            }
            self.last = head.request.0;
            if self.answers.pending() >= MOST_PENDING {
                return Err(Error::busy(format!("{MOST_PENDING} requests of this connection have no answer yet")));
            }
            self.answers.open(head.request, head.command, head.credit);
            if let Err(error) = self.take(&head, &nonces).await? {
                self.answers.refuse(head.request, &error, None);
            }
        }
        Ok(())
    }

    /// Takes a request in; the inner error is the answer to it.
    async fn take(&mut self, head: &Head, nonces: &Nonces) -> Result<Result<()>> {
        match head.command {
            Command::LOCK => Ok(self.lock(head, nonces)),
            Command::UNLOCK => self.unlock(head),
            _ => self.object(head, nonces).await,
        }
    }

    async fn object(&mut self, head: &Head, nonces: &Nonces) -> Result<Result<()>> {
        let parts = parts(head, self.source.body())?;
        let request = match ObjectRequest::read(head.command, parts.body)? {
            Some(Ok(request)) => request,
            Some(Err(error)) => return Ok(Err(error)),
            None => return Ok(Err(unknown(head.command))),
        };
        let length = head.payload as usize;
        if length as u64 > MOST_AT_ONCE.0 {
            return Ok(Err(crate::service::objects::too_much(length)));
        }
        let checked =
            request.about_with(length).and_then(|about| self.check(head, nonces, &parts, request.target, about));
        let (capability, link) = match checked.and_then(|shown| Ok((shown, self.link_to(request.target)?))) {
            Ok(both) => both,
            Err(error) => return Ok(Err(error)),
        };
        let (answers, id, version) = (self.answers.clone(), head.request, capability.version);
        let (node, own) = (self.node.clone(), self.room.clone());
        let weight = request.weight(0) + OVERHEAD;
        let written = match length {
            0 => None,
            _ => {
                // Before memory is taken for what is written, there has to be some.
                let room = self.node.incoming.take(length + OVERHEAD).await;
                let mut payload = Vec::new();
                self.source.payload_onto(&mut payload).await?;
                Some((payload, room))
            }
        };
        self.node.env.spawner.detach(async move {
            let answer = async {
                match written {
                    Some((payload, room)) => {
                        let answer = link.ask_fenced(request, Arc::new(payload), version)?.answer().await;
                        drop(room);
                        let own = own.take(OVERHEAD).await;
                        Ok((answer?, own, node.outgoing.take(OVERHEAD).await))
                    }
                    None => {
                        // What is read waits here, so that the client can let others come meanwhile.
                        let own = own.take(weight).await;
                        let room = node.outgoing.take(weight).await;
                        if answers.is_abandoned() {
                            return Err(Error::disconnected("nobody waits for what was to be read"));
                        }
                        Ok((link.ask_fenced(request, Arc::default(), version)?.answer().await?, own, room))
                    }
                }
            };
            match answer.await {
                Ok((answer, own, room)) => {
                    let parts = answer.body().map(|body| (body, answer.payload));
                    answers.answer(id, parts, Rc::new((own, room)));
                }
                Err(error) => {
                    let error: Error = error;
                    node.keys.count(&error);
                    answers.refuse(id, &error, None);
                }
            }
        });
        Ok(Ok(()))
    }

    fn lock(&mut self, head: &Head, nonces: &Nonces) -> Result<()> {
        let parts = parts(head, self.source.body())?;
        let Lock { target, id, part } = forebay_wire::read_body(parts.body)?;
        let about = About { object: id, rights: Rights::WRITE, bytes: 0..0 };
        self.check(head, nonces, &parts, target, about)?;
        if self.locks.borrow().len() >= MOST_LOCKS {
            return Err(Error::busy(format!("{MOST_LOCKS} locks of this connection are held or waited for")));
        }
        let turn = self.node.locks.ask((target, id, part));
        let (answers, locks, request) = (self.answers.clone(), self.locks.clone(), head.request);
        let memory = self.node.outgoing.clone();
        locks.borrow_mut().insert(request, turn);
        self.node.env.spawner.detach(async move {
            let deserted = poll_fn(|context| {
                let held = locks.borrow();
                // It may be given back while it is waited for.
                let Some(turn) = held.get(&request) else { return Poll::Ready(None) };
                pin!(turn.held()).poll(context).map(Some)
            })
            .await;
            match deserted {
                Some(deserted) => {
                    let room = memory.take(OVERHEAD).await;
                    let body = forebay_wire::write_body(&Locked { deserted });
                    answers.answer(request, body.map(|body| (body, Vec::new())), Rc::new(room));
                }
                None => {
                    answers.refuse(request, &Error::usage("the lock was given back before it was held"), None);
                }
            }
        });
        Ok(())
    }

    fn unlock(&mut self, head: &Head) -> Result<Result<()>> {
        let Unlock { request } = self.source.decode()?;
        let held = self.locks.borrow_mut().remove(&RequestId(request));
        let Some(held) = held else {
            return Ok(Err(Error::missing(format!("request {request} of this connection holds no lock"))));
        };
        drop(held);
        let (answers, memory, id) = (self.answers.clone(), self.node.outgoing.clone(), head.request);
        self.node.env.spawner.detach(async move {
            let room = memory.take(OVERHEAD).await;
            answers.answer(id, Ok((Vec::new(), Vec::new())), Rc::new(room));
        });
        Ok(Ok(()))
    }

    /// Whether what was shown allows this; but for the object's version.
    fn check(
        &self,
        head: &Head,
        nonces: &Nonces,
        parts: &Parts<'_>,
        target: TargetId,
        about: About,
    ) -> Result<Capability> {
        let payload = (head.payload_checksum, forebay_model::Bytes(u64::from(head.payload)));
        let said = Said { nonces, request: head.request, command: head.command, body: parts.body, payload };
        let About { object, rights, bytes } = about;
        let wanted = Wanted { object, version: None, rights, bytes };
        let now: Timestamp = self.node.env.clock.wall();
        self.node.keys.check(target, parts.shown, &said, &wanted, now)
    }

    fn link_to(&self, target: TargetId) -> Result<Rc<ObjectLink>> {
        if let Some(link) = self.links.borrow().get(&target) {
            return Ok(link.clone());
        }
        let TargetDoor { id, handle } = self.node.door(target)?;
        let link = Rc::new(ObjectLink::new(self.node.link(), vec![(id, handle)]));
        self.links.borrow_mut().insert(target, link.clone());
        Ok(link)
    }

    fn nonce(&self) -> [u8; 16] {
        let mut nonce = [0; 16];
        let random = &self.node.env.random;
        nonce[..8].copy_from_slice(&random.next_u64().to_le_bytes());
        nonce[8..].copy_from_slice(&random.next_u64().to_le_bytes());
        nonce
    }

    /// Ends when the peer has tried this side's patience.
    fn watch(&self, sink: &FrameSink) -> impl Future<Output = Result<()>> + use<> {
        let (node, answers, received) = (self.node.clone(), self.answers.clone(), self.received.clone());
        let (sink, begun) = (sink.clone(), self.source.begun());
        async move {
            let mut before = None;
            loop {
                node.env.clock.sleep(node.bounds.patience).await;
                let seen = (received.get(), answers.progress(), sink.progress());
                let waits = received.get() == 0 || begun.get() || answers.is_waiting() || sink.is_waiting();
                if waits && before == Some(seen) {
                    let patience = node.bounds.patience;
                    return Err(Error::disconnected(format!("the peer did not go on for {patience:?}")));
                }
                before = Some(seen);
            }
        }
    }
}

/// What a request shows and asks. A frame that shows less than a capability is malformed.
fn parts<'a>(head: &Head, body: &'a [u8]) -> Result<Parts<'a>> {
    if !head.flags.has(Flags::SHOWN) {
        return Ok(Parts { shown: None, body });
    }
    let short =
        || Error::damaged("a frame says that it shows a capability, and is too short for one: its sender is broken");
    let (capability, rest) = body.split_first_chunk::<LENGTH>().ok_or_else(short)?;
    let (proof, body) = rest.split_first_chunk::<16>().ok_or_else(short)?;
    Ok(Parts { shown: Some((capability, Proof(*proof))), body })
}

fn unknown(command: Command) -> Error {
    Error::usage(format!("this Forebay does not know {command} on the network; use a newer one"))
}

/// What whichever ends first gives.
async fn either<T>(left: impl Future<Output = T>, right: impl Future<Output = T>) -> T {
    let (mut left, mut right) = (pin!(left), pin!(right));
    poll_fn(|context| match left.as_mut().poll(context) {
        Poll::Ready(value) => Poll::Ready(value),
        Poll::Pending => right.as_mut().poll(context),
    })
    .await
}
