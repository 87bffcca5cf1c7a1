//! One connection: requests in, answers out. What a peer sends wrong ends its connection, with the reason.

use super::objects::ObjectRequests;
use crate::answer::{Answer, Part};
use crate::check::Expected;
use crate::host::Host;
use crate::service::objects::too_much;
use crate::writer::Writer;
use forebay_env::network::Stream;
use forebay_env::real::{clock, process, thread};
use forebay_model::ring::Batch;
use forebay_model::{Error, Kind, Result, TargetId};
use forebay_wire::command::{
    Append, CancelQuery, CloseWriter, ITEMS_PER_FRAME, OpenWriter, QueryRequest, Reply, Request, WriterEvent,
    send_items, send_summary,
};
use forebay_wire::handshake::{self, PROTOCOL_VERSION, ServerHello};
use forebay_wire::heap::HeapRequest;
use forebay_wire::object::{LARGEST, ObjectRequest};
use forebay_wire::ring;
use forebay_wire::{Command, Flags, FrameReader, FrameWriter, Head, RequestId};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Queries and recorders at once on one connection.
const MOST_STREAMS: usize = 16;

type Frames = FrameWriter<Box<dyn Stream>>;

/// The way out, shared by all who answer on this connection.
#[derive(Clone)]
pub(super) struct Out {
    frames: Arc<Mutex<Frames>>,
}

impl Out {
    pub(super) fn lock(&self) -> MutexGuard<'_, Frames> {
        self.frames.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn error(&self, id: RequestId, command: Command, error: &Error) -> Result<()> {
        self.lock().send_error(id, command, error)
    }
}

pub(super) struct Connection<'a> {
    host: &'a Host,
    reader: FrameReader<Box<dyn Stream>>,
    out: Out,
    recorders: BTreeMap<u64, Recording>,
    queries: BTreeMap<RequestId, Box<dyn Fn() + Send + Sync>>,
    /// Who answers on this connection besides its own thread, and the query that each answers, if it is one.
    streams: Vec<(thread::JoinHandle<()>, Option<RequestId>)>,
    /// Once it has asked for objects or records.
    objects: Option<ObjectRequests>,
}

/// A writer session of a peer.
struct Recording {
    request: RequestId,
    writer: Writer,
    /// What comes next.
    expected: Expected,
}

impl Connection<'_> {
    /// Serves a connection until it ends.
    pub(super) fn serve(host: &Host, stream: Box<dyn Stream>) {
        let (Ok(reading), Ok(writing)) = (stream.try_clone(), stream.try_clone()) else { return };
        let out = Out { frames: Arc::new(Mutex::new(FrameWriter::new(writing))) };
        let mut connection = Connection {
            host,
            reader: FrameReader::new(reading),
            out,
            recorders: BTreeMap::new(),
            queries: BTreeMap::new(),
            streams: Vec::new(),
            objects: None,
        };
        if let Err(error) = connection.talk()
            && error.kind != Kind::Disconnected
        {
            // The reason counts, whether or not it arrives.
            let _ = connection.out.error(RequestId(0), Command::HELLO, &error);
        }
        stream.shutdown();
        connection.end();
    }

    fn talk(&mut self) -> Result<()> {
        let target = self.host.targets().first().copied().unwrap_or(TargetId(0));
        let hello = ServerHello { version: PROTOCOL_VERSION, target, process: process::id(), nonce: [0; 16] };
        let welcome = handshake::accept(&mut self.reader, &mut self.out.lock(), &hello, None);
        if welcome?.is_none() {
            return Ok(());
        }
        while let Some(head) = self.reader.receive()? {
            if head.flags.has(Flags::RESPONSE) {
                return Err(Error::damaged("a client sent a response: it is broken"));
            }
            match head.command {
                Command::QUERY => self.query(head.request)?,
                Command::CANCEL_QUERY => {
                    let CancelQuery { query } = self.reader.decode()?;
                    if let Some(cancel) = self.queries.get(&RequestId(query)) {
                        cancel();
                    }
                }
                Command::OPEN_WRITER => self.open_writer(head.request)?,
                Command::APPEND => self.append(&head)?,
                Command::CLOSE_WRITER => self.close_writer(head.request)?,
                _ => self.ask(&head)?,
            }
        }
        Ok(())
    }

    fn ask(&mut self, head: &Head) -> Result<()> {
        if let Some(request) = ObjectRequest::receive(&mut self.reader, head)? {
            return self.object(head, request);
        }
        if let Some(request) = HeapRequest::receive(&mut self.reader, head)? {
            return self.heap(head, request);
        }
        let Some(request) = Request::receive(&mut self.reader, head)? else {
            let error = Error::usage(format!("this Forebay does not know {}; use a newer one", head.command));
            return self.out.error(head.request, head.command, &error);
        };
        match self.host.call(request) {
            Ok(reply) => self.reply(head.request, head.command, &reply),
            Err(error) => self.out.error(head.request, head.command, &error),
        }
    }

    fn object(&mut self, head: &Head, request: Result<ObjectRequest>) -> Result<()> {
        let objects = requests(&mut self.objects, self.host, &self.out)?;
        let length = head.payload as usize;
        if length as u64 > LARGEST.0 {
            objects.refuse(head.request, head.command, too_much(length));
            return Ok(());
        }
        let request = match request {
            Ok(request) => request,
            Err(error) => {
                objects.refuse(head.request, head.command, error);
                return Ok(());
            }
        };
        let room = objects.make_room(request.weight(length));
        let mut payload = vec![0; length];
        self.reader.payload_into(&mut payload)?;
        objects.ask(head.request, room, request, payload);
        Ok(())
    }

    fn heap(&mut self, head: &Head, request: HeapRequest) -> Result<()> {
        let requests = requests(&mut self.objects, self.host, &self.out)?;
        let length = head.payload as usize;
        if let Err(error) = request.check(length) {
            requests.refuse(head.request, head.command, error);
            return Ok(());
        }
        let room = requests.make_room(request.weight(length));
        let mut payload = vec![0; length];
        self.reader.payload_into(&mut payload)?;
        requests.ask_heap(head.request, room, request, payload);
        Ok(())
    }

    fn reply(&self, id: RequestId, command: Command, reply: &Reply) -> Result<()> {
        let flags = Flags::RESPONSE.and(Flags::END);
        let mut frames = self.out.lock();
        match frames.send(id, command, flags, reply, &[]) {
            // What is too large for a frame is told instead; the connection is as good as before.
            Err(error) if error.kind == Kind::Usage => frames.send_error(id, command, &error),
            sent => sent,
        }
    }

    /// Forgets the streams that have ended, and refuses one too many.
    fn room_for_a_stream(&mut self) -> Result<()> {
        let queries = &mut self.queries;
        self.streams.retain(|(thread, query)| {
            if thread.is_finished() {
                query.map(|id| queries.remove(&id));
            }
            !thread.is_finished()
        });
        if self.streams.len() < MOST_STREAMS {
            return Ok(());
        }
        Err(Error::busy(format!("{MOST_STREAMS} queries and recorders are on this connection already; use another")))
    }

    fn query(&mut self, id: RequestId) -> Result<()> {
        let request: QueryRequest = self.reader.decode()?;
        let begun = self.room_for_a_stream().and_then(|()| self.host.query(request)).and_then(|mut answer| {
            let cancel = answer.canceller();
            let out = self.out.clone();
            let thread = thread::spawn("answer", move || {
                // Where it cannot be sent, nobody is there.
                let _ = send_answer(&mut answer, &out, id);
            })?;
            self.streams.push((thread, Some(id)));
            self.queries.insert(id, Box::new(cancel));
            Ok(())
        });
        match begun {
            Ok(()) => Ok(()),
            Err(error) => self.out.error(id, Command::QUERY, &error),
        }
    }

    fn open_writer(&mut self, id: RequestId) -> Result<()> {
        let request: OpenWriter = self.reader.decode()?;
        let (session, resume) = (request.writer, request.resume);
        let opened = self.room_for_a_stream().and_then(|()| self.host.open_writer(request));
        let writer = match opened {
            Ok(writer) => writer,
            Err(error) => return self.out.error(id, Command::OPEN_WRITER, &error),
        };
        let event = WriterEvent::Opened(Box::new(writer.opened().clone()));
        self.out.lock().send(id, Command::OPEN_WRITER, Flags::RESPONSE, &event, &[])?;
        let (out, watch, seen) = (self.out.clone(), writer.watch(), writer.opened().durable);
        let give_up = writer.interrupter();
        let thread = thread::spawn("acknowledge", move || {
            let mut seen = seen;
            loop {
                let (durable, over) = watch.beyond(seen);
                seen = durable;
                let event = WriterEvent::Durable(durable);
                let flags = match &over {
                    Some(Ok(())) => Flags::RESPONSE.and(Flags::END),
                    _ => Flags::RESPONSE,
                };
                let sent = out.lock().send(id, Command::OPEN_WRITER, flags, &event, &[]);
                if let Some(Err(error)) = &over {
                    // Where it cannot be sent, nobody is there.
                    let _ = out.error(id, Command::OPEN_WRITER, error);
                }
                if over.is_some() {
                    return;
                }
                if sent.is_err() {
                    // Nobody is there any more: who waits for room for their blocks need not.
                    give_up();
                    return;
                }
            }
        })?;
        self.streams.push((thread, None));
        let expected = Expected {
            writer: session,
            number: writer.opened().received + 1,
            goes_on: writer.goes_on(resume),
            caller_width: writer.caller_width(),
        };
        self.recorders.insert(session, Recording { request: id, writer, expected });
        Ok(())
    }

    fn append(&mut self, head: &Head) -> Result<()> {
        let Append { writer: session, age } = self.reader.decode()?;
        let Some(recording) = self.recorders.get_mut(&session) else {
            // The session ended, and was told so, while this block was on its way.
            return Ok(());
        };
        let result = match recording.writer.take() {
            Ok(Some(mut buffer)) if head.payload as usize <= buffer.capacity() => {
                buffer.set_len(head.payload as usize);
                self.reader.payload_into(&mut buffer)?;
                let number = recording.expected.number;
                recording.expected.check(&buffer).and_then(|next| {
                    recording.expected = next;
                    recording.writer.send(buffer, number, clock::now() - age)
                })
            }
            Ok(Some(buffer)) => Err(Error::damaged(format!(
                "a peer sent a block of {} bytes for a ring whose blocks have {}: it is broken",
                head.payload,
                buffer.capacity()
            ))),
            Ok(None) => Ok(()),
            // The session is over; whoever watches it says so.
            Err(_) => Ok(()),
        };
        if let Err(error) = result {
            let request = recording.request;
            self.recorders.remove(&session);
            if error.kind == Kind::Damaged {
                self.out.error(request, Command::OPEN_WRITER, &error)?;
                return Err(error);
            }
        }
        Ok(())
    }

    fn close_writer(&mut self, id: RequestId) -> Result<()> {
        let CloseWriter { writer: session } = self.reader.decode()?;
        let Some(recording) = self.recorders.remove(&session) else {
            let error = Error::missing(format!("there is no session {session:016x} on this connection"));
            return self.out.error(id, Command::CLOSE_WRITER, &error);
        };
        let last = recording.expected.number - 1;
        match recording.writer.wait_durable(last) {
            Ok(durable) if durable.number >= last => {
                drop(recording);
                self.reply(id, Command::CLOSE_WRITER, &Reply::Done)
            }
            Ok(_) => {
                let error = Error::full("everything in the ring is pinned, so the last blocks cannot be written");
                self.out.error(id, Command::CLOSE_WRITER, &error)
            }
            Err(error) => self.out.error(id, Command::CLOSE_WRITER, &error),
        }
    }

    /// The connection is over: so is all that was on it.
    fn end(mut self) {
        self.queries.values().for_each(|cancel| cancel());
        self.recorders.clear();
        self.objects = None;
        for (thread, _) in self.streams.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// The way to objects and records; it is made when it is first needed.
fn requests<'a>(made: &'a mut Option<ObjectRequests>, host: &Host, out: &Out) -> Result<&'a mut ObjectRequests> {
    Ok(match made {
        Some(made) => made,
        none => none.insert(ObjectRequests::new(host, out.clone())?),
    })
}

/// Sends an answer as it comes, to its end.
fn send_answer(answer: &mut Answer, out: &Out, id: RequestId) -> Result<()> {
    loop {
        match answer.next_part() {
            Ok(Part::Batch(batch)) => send_batch(&batch, out, id)?,
            Ok(Part::End(summary)) => return send_summary(&mut out.lock(), id, &summary),
            Err(error) => return out.error(id, Command::QUERY, &error),
        }
    }
}

/// Sends a batch in as many frames as its items need.
fn send_batch(batch: &Batch, out: &Out, id: RequestId) -> Result<()> {
    let mut at = 0;
    for items in batch.items.chunks(ITEMS_PER_FRAME) {
        let end = at + items.iter().map(ring::size).sum::<usize>();
        send_items(&mut out.lock(), id, items, &batch.payload[at..end])?;
        at = end;
    }
    Ok(())
}
