//! One connection of a client: requests in, answers out.
//!
//! Each command is checked before anything is done for it, and before memory is taken for what it brings. Numbers of requests
//! rise, so nothing that was heard can be said again. What is malformed ends the connection, with the reason. Without a word it ends
//! when its peer drips ([`super::patience`]), or is a stranger whose place others need ([`super::places`]).

use super::Node;
use super::answers::Answers;
use super::divided::Divided;
use super::heaps::Heaps;
use super::incoming::Taken;
use super::intake::Window;
use super::locks::{Holder, Turn};
use super::patience::Patience;
use super::places::Place;
use super::rings::Rings;
use super::sessions::Doing;
use crate::host::Handles;
use crate::objects::{Brought, ObjectLink, Payload};
use forebay_env::allowance::Allowance;
use forebay_env::fabric::Duplex;
use forebay_env::race::{First, race};
use forebay_env::random;
use forebay_model::{Error, Kind, Result, TargetId, Timestamp};
use forebay_wire::capability::{Capability, LENGTH, Nonces, Proof, Said, Wanted};
use forebay_wire::command::Request;
use forebay_wire::frame::MAX_BODY;
use forebay_wire::handshake::{self, PROTOCOL_VERSION, ServerHello};
use forebay_wire::heap::network::NetworkRequest;
use forebay_wire::object::{About, Ask, LARGEST, MOST_ATTRIBUTES, MOST_RIDING, ObjectRequest, WINDOW};
use forebay_wire::pieces::Pieces;
use forebay_wire::ring::RingRequest;
use forebay_wire::sink::{Frame, FrameSink};
use forebay_wire::source::FrameSource;
use forebay_wire::target::{TargetAsk, TargetRequest};
use forebay_wire::{Command, Flags, Head, Limits, RequestId};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Requests of a connection without an answer.
const MOST_PENDING: usize = 2048;
/// Of which so many are to one target that has not answered, but for those for locks: so a few that hang leave some for others.
const MOST_OF_ONE: usize = MOST_PENDING / 2;
/// The same of a stranger, none of whose requests begins anything.
const MOST_OF_STRANGER: usize = 16;
/// What a request or an answer weighs besides its payload.
pub(super) const OVERHEAD: usize = 1024;
/// Answers without a payload that wait in one connection for the client to take them: none of them takes more than
/// [`OVERHEAD`] of it, and who does not take them gets no further.
const SMALL: usize = 64 << 10;
/// Of which a refusal of a stranger takes so much, so that there are few of them.
const OF_STRANGER: usize = SMALL / 16;
/// Answers with a payload, in one connection: so many bytes, of few requests.
const ROOM: usize = WINDOW.0 as usize + SMALL;
/// Of which one target has so much that has not answered: as many pieces of 4 MiB as with all of it but one, which is left for others.
const ROOM_OF_ONE: usize = WINDOW.0 as usize / 4 * 3 + SMALL / 2;
/// Answers without a payload that may be large, in one connection: what they weigh at most is taken before they are asked for.
const TOLD: usize = 4 << 20;
/// The most that one about objects weighs: attributes, and those that ride on it.
const MOST_OF_OBJECTS: usize = MOST_ATTRIBUTES + MOST_RIDING + OVERHEAD;
/// And of any other: no body is larger.
const MOST_TOLD: usize = MAX_BODY as usize + OVERHEAD;
/// So long a hello waits until nothing of the connection before is under way: far less than a client gives it. What hangs at a target is
/// waited for by what is to be changed there, and nobody else waits for it.
const WELCOME: Duration = Duration::from_secs(1);
/// So often a client hears that the node is there while nothing is read of its connection, for want of memory.
const SIGN: Duration = Duration::from_secs(1);

/// Serves a connection until it ends, or loses its place.
pub(super) async fn serve(node: &Rc<Node>, duplex: Duplex, place: Rc<Place>) {
    let peer = duplex.peer;
    let sink = FrameSink::default();
    let sending = {
        let sink = sink.clone();
        // How it ended, whoever reads finds out as well.
        node.env.spawner.spawn(async move { drop(sink.drive(duplex.write).await) })
    };
    let nonce = random::bytes(&*node.env.random);
    let mut source = FrameSource::new(duplex.read);
    let window = Rc::new(node.intake.window(sink.clone(), duplex.is_near));
    source.tell({
        let window = window.clone();
        move |came| window.came(came)
    });
    let answers = Rc::new(Answers::new(sink.clone()));
    let patience = Patience::new(&source, answers.clone(), sink.clone(), node.incoming.clone());
    let doing = node.sessions.begin(nonce);
    let holder = Holder::new(doing.clone(), source.came());
    let mut session = Session {
        node: node.clone(),
        source,
        answers,
        last: 0,
        nonce,
        doing: doing.clone(),
        holder,
        links: RefCell::default(),
        locks: Rc::default(),
        rings: Rc::default(),
        heaps: Rc::default(),
        room: Divided::new(ROOM, ROOM_OF_ONE),
        small: Allowance::new(SMALL),
        told: Divided::new(TOLD, TOLD / 4 * 3),
        patience: patience.clone(),
        place: place.clone(),
        window,
    };
    place.may_go_when(session.is_spent(&sink));
    let slow = patience.lost(&node.env.clock, node.bounds.patience, node.bounds.least_rate);
    let over = race(slow, race(place.lost(), doing.replaced()));
    let first = race(session.talk(&sink), over).await;
    // Who tried the node's patience, or made room, has had its time.
    let mut lingers = true;
    let ended = match first {
        First::Left(ended) => ended.inspect_err(|error| {
            node.cuts.ended(&peer, error, session.source.is_changed());
        }),
        First::Right(First::Left(slow)) => {
            node.cuts.slow();
            lingers = false;
            Err(slow)
        }
        First::Right(First::Right(First::Left(()))) => {
            lingers = false;
            Ok(())
        }
        // Its client has another one, or others need what it holds.
        First::Right(First::Right(First::Right(()))) => match doing.why() {
            Some(why) => {
                node.cuts.slow();
                Err(why)
            }
            None => Ok(()),
        },
    };
    if let Err(error) = ended
        && error.kind != Kind::Disconnected
        && let Ok(frame) = Frame::error(RequestId(0), Command::HELLO, &error)
    {
        sink.push(frame);
    }
    session.rings.end();
    session.heaps.end();
    std::mem::take(&mut *session.locks.borrow_mut()).into_values().for_each(Turn::desert);
    session.answers.abandon();
    sink.close();
    // What is on its way may still go, but not for ever.
    if lingers {
        race(sending, race(place.lost(), node.env.clock.sleep(node.bounds.patience))).await;
    }
    sink.abandon();
}

pub(super) struct Session {
    pub(super) node: Rc<Node>,
    pub(super) source: FrameSource,
    pub(super) answers: Rc<Answers>,
    /// The number of the last request.
    last: u64,
    nonce: [u8; 16],
    pub(super) doing: Rc<Doing>,
    /// This connection, as one that holds locks.
    pub(super) holder: Holder,
    /// Ways to the objects of targets, whose I/O is a stream of its own on each.
    links: RefCell<BTreeMap<TargetId, Rc<ObjectLink>>>,
    pub(super) locks: Rc<RefCell<BTreeMap<RequestId, Turn>>>,
    /// Recorders and queries of rings.
    pub(super) rings: Rc<Rings>,
    /// Transactions with heaps.
    pub(super) heaps: Rc<Heaps>,
    /// What this connection may have of the node's memory for answers with payloads.
    pub(super) room: Divided,
    /// And for those without.
    pub(super) small: Allowance,
    /// And for those of them that may be large. They wait for no credit, and so for none of those with a payload.
    told: Divided,
    pub(super) patience: Rc<Patience>,
    place: Rc<Place>,
    pub(super) window: Rc<Window>,
}

/// What a request shows, and what it asks.
pub(super) struct Parts<'a> {
    shown: Option<(&'a [u8; LENGTH], Proof)>,
    pub(super) body: &'a [u8],
}

impl Session {
    async fn talk(&mut self, sink: &FrameSink) -> Result<()> {
        let target = self.node.targets.borrow().keys().next().copied().unwrap_or(TargetId(0));
        let hello = ServerHello { version: PROTOCOL_VERSION, target, process: self.node.process, nonce: self.nonce };
        let replaced = async |nonce| {
            let _waits = self.patience.rest();
            let Some(former) = self.node.sessions.end(nonce) else { return Ok(()) };
            let limit = self.node.env.clock.sleep(WELCOME.min(self.node.bounds.patience));
            match race(former.done(), limit).await {
                First::Left(()) => Ok(()),
                First::Right(()) => self.doing.follow(&former),
            }
        };
        let welcome = handshake::welcome(&mut self.source, sink, &hello, None, replaced);
        let Some(client) = welcome.await? else { return Ok(()) };
        let nonces = Nonces { client: client.nonce, node: self.nonce };
        self.patience.met();
        while let Some(head) = self.next().await? {
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
            let (most, refusal) = match self.place.is_stranger() {
                true => (MOST_OF_STRANGER, OF_STRANGER),
                false => (MOST_PENDING, OVERHEAD),
            };
            let is_too_many = self.answers.pending() >= most;
            self.answers.open(head.request, head.command, head.credit);
            let taken = match is_too_many && head.command != Command::UNLOCK {
                true => Err(Error::busy(format!(
                    "{most} requests of this connection have no answer yet, and more are not taken; wait for some"
                ))),
                false => self.take(&head, &nonces).await?,
            };
            if let Err(error) = taken {
                // Who is refused and does not listen is not heard either.
                let room = self.small.take(refusal).await;
                self.answers.refuse(head.request, &error, Some(Rc::new(room)));
            }
        }
        Ok(())
    }

    /// The next frame. What was taken in last may have shown a capability that counts.
    async fn next(&mut self) -> Result<Option<Head>> {
        if !self.place.is_stranger() {
            self.source.set_limits(Limits::SESSION);
        }
        self.source.receive().await
    }

    /// Takes a request in; the inner error is the answer to it.
    async fn take(&mut self, head: &Head, nonces: &Nonces) -> Result<Result<()>> {
        match head.command {
            Command::LOCK => self.lock(head, nonces),
            Command::UNLOCK => self.unlock(head),
            Command::PING => {
                self.answer_nothing(head.request);
                Ok(Ok(()))
            }
            _ => {
                let parts = parts(head, self.source.body())?;
                if let Some(request) = TargetRequest::read(head.command, parts.body)? {
                    return Ok(self.ask_target(head, nonces, &parts, request));
                }
                if let Some(request) = NetworkRequest::read(head.command, parts.body)? {
                    // What a connection began it may end whatever counts by now, as it would by ending itself.
                    if let Some(own) = self.heaps.ends(head, &request) {
                        return Ok(self.abort(head, own));
                    }
                    return match self.check_heap(head, nonces, &parts, &request) {
                        Ok(capability) => self.heap(head, request, capability).await,
                        Err(error) => Ok(Err(error)),
                    };
                }
                let Some(request) = RingRequest::read(head.command, parts.body)? else {
                    return self.object(head, nonces).await;
                };
                match self.check_ring(head, nonces, &parts, &request) {
                    Ok(capability) => self.ring(head, request, capability).await,
                    Err(error) => Ok(Err(error)),
                }
            }
        }
    }

    /// What a target says of itself.
    fn ask_target(&self, head: &Head, nonces: &Nonces, parts: &Parts<'_>, request: TargetRequest) -> Result<()> {
        self.check(head, nonces, parts, request.target, request.about())?;
        if head.payload > 0 {
            return Err(Error::usage(format!("{} has no payload, and {} bytes came", head.command, head.payload)));
        }
        let handle = self.node.door(request.target)?.handle;
        let asked = match request.ask {
            TargetAsk::Profile => Request::Profiles,
            TargetAsk::Plan(request) => Request::Plan(request),
        };
        self.answer_later(
            head.request,
            async move { forebay_wire::write_body(&handle.call_from_task(asked, None).await?) },
        );
        Ok(())
    }

    async fn object(&mut self, head: &Head, nonces: &Nonces) -> Result<Result<()>> {
        let parts = parts(head, self.source.body())?;
        let request = match ObjectRequest::read(head.command, parts.body)? {
            Some(Ok(request)) => request,
            Some(Err(error)) => return Ok(Err(error)),
            None => return Ok(Err(unknown(head.command))),
        };
        let length = head.payload as usize;
        if length as u64 > LARGEST.0 {
            return Ok(Err(crate::service::objects::too_much(length)));
        }
        let checked =
            request.about_with(length).and_then(|about| self.check(head, nonces, &parts, request.target, about));
        let (capability, link) = match checked.and_then(|shown| Ok((shown, self.link_to(request.target)?))) {
            Ok(both) => both,
            Err(error) => return Ok(Err(error)),
        };
        let (answers, id, version) = (self.answers.clone(), head.request, capability.version);
        let (node, small) = (self.node.clone(), self.small.clone());
        let (own, told) = (self.room.clone(), self.told.clone());
        let (target, weight) = (request.target, request.weight(0) + OVERHEAD);
        let reads = matches!(request.ask, Ask::Read { .. });
        let looks = reads || matches!(request.ask, Ask::Attributes { .. } | Ask::List { .. });
        let begun = match looks {
            // What changes nothing may end whenever it likes.
            true => None,
            false => match self.doing.begin(request.target) {
                Ok(begun) => Some(begun),
                Err(replaced) => return Ok(Err(replaced)),
            },
        };
        let mut payload = Payload::default();
        let room = match length {
            0 => None,
            _ => {
                let room = match self.room_to_write(target, length).await {
                    Ok(room) => room,
                    Err(busy) => return Ok(Err(busy)),
                };
                let brings = self.patience.brings(target, length);
                self.window.begins(length);
                let buffer = self.node.payloads.borrow_mut().take(length);
                payload = match buffer {
                    Some(mut buffer) => {
                        let sums = self.source.payload_summed_into(&mut buffer).await?;
                        Payload { bytes: Brought::Aligned(Arc::new(buffer)), sums }
                    }
                    None => {
                        let mut bytes = Vec::new();
                        let sums = self.source.payload_summed_onto(&mut bytes).await?;
                        Payload { bytes: Brought::Plain(Arc::new(bytes)), sums }
                    }
                };
                self.window.ends();
                drop(brings);
                // What only looks has no use for it, and is not to keep it while it waits for its client.
                match looks {
                    true => {
                        payload = Payload::default();
                        None
                    }
                    false => Some(room),
                }
            }
        };
        self.node.env.spawner.detach(async move {
            let answer = async {
                if !looks {
                    let answer = link.ask_fenced(request, payload, version)?.answer().await;
                    drop((begun, room));
                    // Nobody waits here for those who read.
                    let own = small.take(OVERHEAD).await;
                    return Ok((answer?, own, (None, node.small.take(OVERHEAD).await)));
                }
                // What is read waits here, so that the client can let others come meanwhile.
                let room = async {
                    match reads {
                        true => {
                            let own = own.take(target, weight).await;
                            (own, node.room_to_read(target, weight).await)
                        }
                        false => {
                            let own = told.take(target, MOST_OF_OBJECTS).await;
                            (own, (None, node.told.take(target, MOST_OF_OBJECTS).await))
                        }
                    }
                };
                let over = || Error::disconnected("nobody waits for what was to be read");
                let (own, (large, room)) = answers.unless_over(id, room).await.ok_or_else(over)?;
                let answer = link.ask_fenced(request, Payload::default(), version)?.answer().await?;
                Ok((answer, own.answered(), (large, room.answered())))
            };
            let answer: Result<_> = answer.await;
            match answer {
                Ok((answer, own, room)) => {
                    let parts = answer.body().map(|body| (body, answer.payload));
                    answers.answer(id, parts, Rc::new((own, room)));
                }
                Err(error) => {
                    node.keys.count(&error);
                    let room = small.take(OVERHEAD).await;
                    answers.refuse(id, &error, Some(Rc::new(room)));
                }
            }
        });
        Ok(Ok(()))
    }

    /// Waits for memory for what comes with a request, before any is taken. That is not the client's fault, whose question whether the
    /// node is there nobody reads meanwhile: it is told.
    pub(super) async fn room_to_write(&self, target: TargetId, length: usize) -> Result<Taken> {
        let _waits = self.patience.rest();
        let mut taking = pin!(self.node.incoming.take(target, length));
        loop {
            match race(taking.as_mut(), self.node.env.clock.sleep(SIGN)).await {
                First::Left(taken) => return taken,
                First::Right(()) => self.window.is_here(),
            }
        }
    }

    /// Answers with the body that comes of this.
    pub(super) fn answer_later(&self, id: RequestId, answer: impl Future<Output = Result<Vec<u8>>> + 'static) {
        let (answers, small, node) = (self.answers.clone(), self.small.clone(), self.node.clone());
        self.node.env.spawner.detach(async move {
            let answer = answer.await.inspect_err(|error| node.keys.count(error));
            let room = small.take(OVERHEAD).await;
            answers.answer(id, answer.map(|body| (body, Pieces::default())), Rc::new(room));
        });
    }

    /// The same, where the body may be a large one: the target is asked for it when there is room, and somebody who waits for it.
    pub(super) fn tell_later(
        &self,
        id: RequestId,
        target: TargetId,
        answer: impl Future<Output = Result<Vec<u8>>> + 'static,
    ) {
        let (answers, small, node) = (self.answers.clone(), self.small.clone(), self.node.clone());
        let told = self.told.clone();
        self.node.env.spawner.detach(async move {
            let room = async { (told.take(target, MOST_TOLD).await, node.told.take(target, MOST_TOLD).await) };
            let Some((own, room)) = answers.unless_over(id, room).await else { return };
            let answer = answer.await;
            let room = (own.answered(), room.answered());
            match answer {
                Ok(body) => answers.answer(id, Ok((body, Pieces::default())), Rc::new(room)),
                Err(error) => {
                    drop(room);
                    node.keys.count(&error);
                    let room = small.take(OVERHEAD).await;
                    answers.refuse(id, &error, Some(Rc::new(room)));
                }
            }
        });
    }

    /// Says whether nothing counts any more of what was shown last, and nothing is held or under way.
    fn is_spent(&self, sink: &FrameSink) -> impl Fn() -> bool + 'static + use<> {
        let (doing, answers, sink) = (self.doing.clone(), self.answers.clone(), sink.clone());
        let (locks, rings, heaps) = (self.locks.clone(), self.rings.clone(), self.heaps.clone());
        let clock = self.node.env.clock.clone();
        move || {
            let has_asked = answers.pending() > 0 || sink.is_waiting();
            let holds = !locks.borrow().is_empty() || !rings.is_empty() || !heaps.is_empty();
            !has_asked && !holds && doing.is_over(clock.wall())
        }
    }

    /// Answers with nothing.
    pub(super) fn answer_nothing(&self, id: RequestId) {
        self.answer_later(id, async { Ok(Vec::new()) });
    }

    /// Whether what was shown allows this, but for the object's version; and whether its target may be asked one more thing.
    pub(super) fn check(
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
        let is_served = self.node.targets.borrow().contains_key(&target);
        let checked = self.node.keys.check(target, is_served, parts.shown, &said, &wanted, now);
        let shown = checked?;
        self.place.known();
        self.doing.shows(shown.client, shown.until);
        // Who waits for a lock waits for whoever has it, and that one is to be heard.
        if head.command != Command::LOCK {
            self.answers.concerns(head.request, target, MOST_OF_ONE)?;
        }
        Ok(shown)
    }

    fn link_to(&self, target: TargetId) -> Result<Rc<ObjectLink>> {
        if let Some(link) = self.links.borrow().get(&target) {
            return Ok(link.clone());
        }
        let handle = self.node.door(target)?.handle;
        let link = Rc::new(ObjectLink::new(self.node.link(), Handles::one(target, handle)));
        self.links.borrow_mut().insert(target, link.clone());
        Ok(link)
    }
}

/// What a request shows and asks. A frame that shows less than a capability is malformed.
pub(super) fn parts<'a>(head: &Head, body: &'a [u8]) -> Result<Parts<'a>> {
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
