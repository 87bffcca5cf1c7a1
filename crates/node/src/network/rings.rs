//! What is asked of rings over one connection: recorders, which take blocks in, and queries, whose answers are asked for part by
//! part. A recorder and a query end with their connection, at the latest.
//!
//! A block goes from the connection into a buffer of its ring, and nowhere else. A client that keeps no more blocks than the
//! ring has buffers always finds one; whoever has none is not listened to until there is one.

use super::answers::Room;
use super::session::{OVERHEAD, Parts, Session};
use crate::answer::{Answer, Part};
use crate::check::Expected;
use crate::service::{Fenced, QueryId, SessionId};
use crate::writer::Writer;
use forebay_env::race::{First, race};
use forebay_model::ring::{Batch, Item, QuerySummary};
use forebay_model::{Error, Moment, ObjectId, Result, TargetId};
use forebay_wire::capability::Capability;
use forebay_wire::command::{Durable, ITEMS_PER_FRAME, OpenWriter, QueryRequest, Request};
use forebay_wire::object::About;
use forebay_wire::ring::{
    BEAT, MOST_OF_PART, PartHead, RingAsk, RingQuery, RingRequest, check_relatives, name_of, size,
};
use forebay_wire::{Head, RequestId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// Recorders and queries at once on one connection.
const MOST_STREAMS: usize = 16;
/// Of the answer to a query over the network one batch waits at its target, however little that is: clients ask for a part ahead.
const AHEAD: usize = 0;

/// What a connection does with rings.
#[derive(Default)]
pub(super) struct Rings {
    recorders: RefCell<BTreeMap<u64, Rc<Recording>>>,
    queries: RefCell<BTreeMap<u64, Running>>,
}

/// A query of a client, which ends at its target when this is dropped, also while a part of its answer is waited for.
struct Running {
    place: Place,
    cancel: Box<dyn Fn()>,
    _one: Rc<()>,
}

/// Where a query is, while no part of its answer is asked for.
type Place = Rc<RefCell<Option<Asking>>>;

/// A writer session of a client.
struct Recording {
    writer: Writer,
    of: (TargetId, ObjectId),
    /// What was shown for it.
    version: u64,
    expected: Cell<Expected>,
    /// When the client was heard of last: one that is gone without a word does not keep the ring from others.
    heard: Cell<Moment>,
}

/// A query of a client.
struct Asking {
    answer: Answer,
    of: (TargetId, ObjectId),
    /// What has come and was not asked for yet: items from here on, and their bytes.
    batch: Batch,
    item: usize,
    byte: usize,
}

impl Drop for Running {
    fn drop(&mut self) {
        (self.cancel)();
    }
}

impl Rings {
    /// The connection is over: so is all that was on it.
    pub(super) fn end(&self) {
        drop(self.recorders.take());
        drop(self.queries.take());
    }

    /// Whether there is neither a recorder nor a query.
    pub(super) fn is_empty(&self) -> bool {
        self.recorders.borrow().is_empty() && self.queries.borrow().is_empty()
    }

    /// [`forebay_model::Kind::Busy`] if there are as many as there may be.
    fn room_for_a_stream(&self) -> Result<()> {
        if self.recorders.borrow().len() + self.queries.borrow().len() < MOST_STREAMS {
            return Ok(());
        }
        Err(Error::busy(format!("{MOST_STREAMS} queries and recorders are on this connection already; use another")))
    }

    fn recorder(&self, writer: u64, of: (TargetId, ObjectId), now: Moment) -> Result<Rc<Recording>> {
        let found = self.recorders.borrow().get(&writer).filter(|recording| recording.of == of).cloned();
        let found = found.ok_or_else(|| {
            Error::disconnected(format!("session {writer:016x} is not on this connection any more; resume it"))
        })?;
        found.heard.set(now);
        Ok(found)
    }

    fn over(&self, query: u64) {
        let ended = self.queries.borrow_mut().remove(&query);
        drop(ended);
    }

    fn query(&self, query: u64) -> Result<Place> {
        let found = self.queries.borrow().get(&query).map(|running| running.place.clone());
        found.ok_or_else(|| Error::missing(format!("request {query} of this connection is no query that goes on")))
    }
}

impl Session {
    /// Takes a request about a ring in; the inner error is the answer to it.
    pub(super) async fn ring(
        &mut self,
        head: &Head,
        request: RingRequest,
        capability: Capability,
    ) -> Result<Result<()>> {
        let RingRequest { target, ring, ask } = request;
        let fenced = Fenced { object: ring, version: capability.version };
        if head.payload > 0 && !matches!(ask, RingAsk::Append { .. } | RingAsk::Image(_)) {
            return Ok(Err(Error::usage(format!("{} has no payload, and {} bytes came", head.command, head.payload))));
        }
        let of = (target, ring);
        Ok(match ask {
            RingAsk::Append { writer, number, age } => {
                return self.append(head, of, fenced, (writer, number, age)).await;
            }
            RingAsk::Image(ask) => return self.image(head, of, fenced, ask).await,
            RingAsk::OpenWriter { writer, resume } => self.open_writer(head.request, of, fenced, (writer, resume)),
            RingAsk::Durable { writer, seen } => self.tell_durable(head.request, of, writer, seen),
            RingAsk::CloseWriter(writer) => self.close_writer(head.request, of, writer),
            RingAsk::Query(query) => self.begin_query(head.request, of, fenced, query),
            RingAsk::Next(query) => self.next_of_query(head.request, of, query),
            ask => self.ask_of_ring(head.request, of, fenced, ask),
        })
    }

    /// What is asked once and answered once.
    fn ask_of_ring(
        &self,
        id: RequestId,
        (target, ring): (TargetId, ObjectId),
        fenced: Fenced,
        ask: RingAsk,
    ) -> Result<()> {
        let handle = self.node.door(target)?.handle;
        let looks = matches!(ask, RingAsk::Status | RingAsk::Pins);
        let request = in_words_of_the_target(ring, ask)?;
        if looks {
            // All pins of a ring are in it. What changes nothing may end whenever it likes.
            self.tell_later(id, target, async move {
                forebay_wire::write_body(&handle.call_from_task(request, Some(fenced)).await?)
            });
            return Ok(());
        }
        let begun = self.doing.begin(target)?;
        self.answer_later(id, async move {
            let reply = handle.call_from_task(request, Some(fenced)).await;
            drop(begun);
            forebay_wire::write_body(&reply?)
        });
        Ok(())
    }

    fn open_writer(
        &self,
        id: RequestId,
        of: (TargetId, ObjectId),
        fenced: Fenced,
        (writer, resume): (u64, bool),
    ) -> Result<()> {
        self.rings.room_for_a_stream()?;
        let handle = self.node.door(of.0)?.handle;
        let session = SessionId(self.node.next());
        let request = OpenWriter { ring: name_of(of.1), writer, resume };
        let (rings, node, begun) = (self.rings.clone(), self.node.clone(), self.doing.begin(of.0)?);
        let (answers, patience) = (self.answers.clone(), self.node.bounds.patience);
        self.answer_later(id, async move {
            let opened = handle.open_writer_from_task(session, request, fenced).await;
            drop(begun);
            let recorder = opened?;
            if answers.is_abandoned() {
                return Err(Error::disconnected("nobody waits for the recorder that was opened"));
            }
            // Others that were asked for at the same time may be here by now.
            rings.room_for_a_stream()?;
            let opened = recorder.opened().clone();
            let expected = Expected {
                writer,
                number: opened.received + 1,
                goes_on: recorder.goes_on(resume),
                caller_width: recorder.caller_width(),
            };
            let recording = Rc::new(Recording {
                writer: recorder,
                of,
                version: fenced.version,
                expected: Cell::new(expected),
                heard: Cell::new(node.env.clock.now()),
            });
            node.env.spawner.detach({
                let (rings, clock) = (rings.clone(), node.env.clock.clone());
                let recording = Rc::downgrade(&recording);
                async move {
                    while let Some(heard) = recording.upgrade().map(|recording| recording.heard.get()) {
                        if clock.now().since(heard) >= patience {
                            let gone = rings.recorders.borrow_mut().remove(&writer);
                            drop(gone);
                            return;
                        }
                        clock.sleep(patience / 4).await;
                    }
                }
            });
            rings.recorders.borrow_mut().insert(writer, recording);
            forebay_wire::write_body(&opened)
        });
        Ok(())
    }

    /// Takes a block in.
    async fn append(
        &mut self,
        head: &Head,
        of: (TargetId, ObjectId),
        fenced: Fenced,
        (writer, number, age): (u64, u64, Duration),
    ) -> Result<Result<()>> {
        let found = self.rings.recorder(writer, of, self.node.env.clock.now());
        let recording = match found {
            Ok(recording) if recording.version == fenced.version => recording,
            Ok(_) => return Ok(Err(Error::stale("the session was begun with another capability; resume it"))),
            Err(error) => return Ok(Err(error)),
        };
        let expected = recording.expected.get();
        if number != expected.number {
            return Ok(Err(Error::usage(format!(
                "block {number} of session {writer:016x} came where block {} follows; resume the session",
                expected.number
            ))));
        }
        let _begun = match self.doing.begin(of.0) {
            Ok(begun) => begun,
            Err(replaced) => return Ok(Err(replaced)),
        };
        let taken = {
            let _waits = self.patience.rest();
            recording.writer.take_from_task().await
        };
        let mut buffer = match taken {
            Ok(Some(buffer)) => buffer,
            Ok(None) => return Ok(Err(Error::disconnected("the session is over; resume it"))),
            Err(error) => return Ok(Err(error)),
        };
        let length = head.payload as usize;
        if length == 0 || length > buffer.capacity() {
            return Err(Error::damaged(format!(
                "a client sent a block of {length} bytes for a ring whose blocks have {}: it is broken",
                buffer.capacity()
            )));
        }
        buffer.set_len(length);
        self.window.begins(length);
        self.source.payload_into(&mut buffer).await?;
        self.window.ends();
        // What is no block ends the connection, as all that is malformed does.
        let next = expected.check(&buffer)?;
        // Nobody is let record who was not heard of for longer: what says that it is older would have what others were promised.
        let age = age.min(self.node.bounds.patience);
        let sent = recording.writer.send(buffer, number, self.node.env.clock.now() - age);
        if sent.is_ok() {
            recording.expected.set(next);
            self.answer_nothing(head.request);
        }
        Ok(sent)
    }

    /// Answers when something else is durable, or after a while.
    fn tell_durable(&self, id: RequestId, of: (TargetId, ObjectId), writer: u64, seen: Durable) -> Result<()> {
        let recording = self.rings.recorder(writer, of, self.node.env.clock.now())?;
        let watch = recording.writer.watch();
        drop(recording);
        let clock = self.node.env.clock.clone();
        self.answer_later(id, async move {
            let waited = race(watch.when(|durable| *durable != seen), clock.sleep(BEAT)).await;
            let (durable, over) = match waited {
                First::Left(told) => told,
                First::Right(()) => watch.now(),
            };
            // What is known to be durable is said before why nothing more will be.
            match over {
                Some(Err(error)) if durable == seen => Err(error),
                _ => forebay_wire::write_body(&durable),
            }
        });
        Ok(())
    }

    fn close_writer(&self, id: RequestId, of: (TargetId, ObjectId), writer: u64) -> Result<()> {
        let recording = self.rings.recorder(writer, of, self.node.env.clock.now())?;
        let (watch, rings) = (recording.writer.watch(), self.rings.clone());
        let last = recording.expected.get().number - 1;
        drop(recording);
        self.answer_later(id, async move {
            let (durable, over) = watch.when(|durable| durable.number >= last || durable.full).await;
            if durable.number >= last {
                let closed = rings.recorders.borrow_mut().remove(&writer);
                drop(closed);
                return Ok(Vec::new());
            }
            Err(match over {
                Some(Err(error)) => error,
                Some(Ok(())) => Error::disconnected("the session is over"),
                None => Error::full("everything in the ring is pinned, so the last blocks cannot be written"),
            })
        });
        Ok(())
    }

    fn begin_query(&self, id: RequestId, of: (TargetId, ObjectId), fenced: Fenced, asked: RingQuery) -> Result<()> {
        self.rings.room_for_a_stream()?;
        let most = self.node.bounds.queries;
        if Rc::strong_count(&self.node.queries) > most {
            return Err(Error::busy(format!(
                "{most} queries go on at this node, which is the most; wait until some have ended (nothing was begun)"
            )));
        }
        let RingQuery { text, now, follow, limit, gaps_only, blocks, numbered } = asked;
        let request = QueryRequest { ring: name_of(of.1), text, now, follow, limit, gaps_only, blocks, numbered };
        let query = QueryId(self.node.next());
        let answer = self.node.door(of.0)?.handle.query(query, request, Some(fenced), AHEAD)?;
        let cancel = Box::new(answer.canceller());
        let asking = Asking { answer, of, batch: Batch::default(), item: 0, byte: 0 };
        let place = Rc::new(RefCell::new(Some(asking)));
        self.rings.queries.borrow_mut().insert(id.0, Running { place, cancel, _one: self.node.queries.clone() });
        self.answer_nothing(id);
        Ok(())
    }

    fn next_of_query(&self, id: RequestId, of: (TargetId, ObjectId), query: u64) -> Result<()> {
        let place = self.rings.query(query)?;
        let taken = place.borrow_mut().take_if(|asking| asking.of == of);
        let Some(mut asking) = taken else {
            return Err(Error::usage(format!(
                "a part of query {query} is asked for already, or the query is of another ring; wait for the answer"
            )));
        };
        let (rings, node, own) = (self.rings.clone(), self.node.clone(), self.room.clone());
        let (answers, small) = (self.answers.clone(), self.small.clone());
        self.node.env.spawner.detach(async move {
            let part = asking.next().await;
            match part {
                Ok((head, payload)) => {
                    if matches!(head, PartHead::End(_)) {
                        rings.over(query);
                    } else {
                        place.replace(Some(asking));
                    }
                    let weight = payload.len() + OVERHEAD;
                    let own = own.take_answered(weight).await;
                    let room: Room = Rc::new((own, node.outgoing.take_answered(weight).await));
                    answers.answer(id, forebay_wire::write_body(&head).map(|body| (body, payload.into())), room);
                }
                Err(error) => {
                    rings.over(query);
                    node.keys.count(&error);
                    let room = small.take(OVERHEAD).await;
                    answers.refuse(id, &error, Some(Rc::new(room)));
                }
            }
        });
        Ok(())
    }

    /// Checks what is shown for a request about a ring.
    pub(super) fn check_ring(
        &self,
        head: &Head,
        nonces: &forebay_wire::capability::Nonces,
        parts: &Parts<'_>,
        request: &RingRequest,
    ) -> Result<Capability> {
        let about = About { object: request.ring, rights: request.rights(), bytes: request.bytes() };
        self.check(head, nonces, parts, request.target, about)
    }
}

impl Asking {
    /// As much of the answer as one frame carries, when there is some.
    async fn next(&mut self) -> Result<(PartHead, Vec<u8>)> {
        while self.item == self.batch.items.len() {
            match self.answer.next_part_from_task().await? {
                Part::Batch(batch) => (self.batch, self.item, self.byte) = (batch, 0, 0),
                Part::End(summary) => return Ok(end(summary)),
            }
        }
        let rest = &self.batch.items[self.item..];
        let (mut count, mut bytes) = (0, 0);
        for item in rest.iter().take(ITEMS_PER_FRAME) {
            if count > 0 && bytes + size(item) > MOST_OF_PART {
                break;
            }
            count += 1;
            bytes += size(item);
        }
        let items: Vec<Item> = rest[..count].to_vec();
        let whole = self.byte == 0 && bytes == self.batch.payload.len();
        let payload = match whole {
            true => std::mem::take(&mut self.batch.payload),
            false => self.batch.payload[self.byte..self.byte + bytes].to_vec(),
        };
        self.item += count;
        self.byte += bytes;
        Ok((PartHead::Items(items), payload))
    }
}

fn end(summary: QuerySummary) -> (PartHead, Vec<u8>) {
    (PartHead::End(summary), Vec::new())
}

/// The same, as a target is asked of one of its rings.
fn in_words_of_the_target(ring: ObjectId, ask: RingAsk) -> Result<Request> {
    let ring = name_of(ring);
    Ok(match ask {
        RingAsk::Create(spec) => {
            check_relatives(&spec.relatives)?;
            Request::CreateRing(forebay_model::ring::RingSpec { name: ring, ..spec })
        }
        RingAsk::Relate(relatives) => {
            check_relatives(&relatives)?;
            Request::RelateRing { ring, relatives }
        }
        RingAsk::Begin(beginning) => Request::BeginRing { ring, beginning },
        RingAsk::Resize(capacity) => Request::ResizeRing { ring, capacity },
        RingAsk::Pin { label, from, to, along } => {
            check_relatives(along.iter().map(|(relative, _)| relative))?;
            Request::Pin { ring, label, from, to, along }
        }
        RingAsk::Unpin(pin) => Request::Unpin { ring, pin },
        RingAsk::Pins => Request::Pins { ring },
        RingAsk::Status => Request::Status { ring: Some(ring) },
        RingAsk::OpenWriter { .. }
        | RingAsk::Append { .. }
        | RingAsk::Durable { .. }
        | RingAsk::CloseWriter(_)
        | RingAsk::Query(_)
        | RingAsk::Next(_)
        | RingAsk::Image(_) => {
            return Err(Error::usage("that is asked of a recorder, a query or who moves it, and not of its ring"));
        }
    })
}
