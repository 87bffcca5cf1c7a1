//! One end of a connection, as the kernel of its machine has it: opening, sending, receiving, ending.
//!
//! What it sends is put into an [`Outbox`] and goes out when it has been dealt with, as do those whom it wakes: nothing
//! in here reaches a link or a task.

use super::counters::Counters;
use super::receiver::Receiver;
use super::segment::{Purpose, Segment, SocketId};
use super::sender::{NEVER, Piece, Sender, TimedOut};
use super::spec::NetworkSpec;
use super::stream::Shared;
use std::io::ErrorKind;
use std::task::{Context, Poll, Waker};

/// The first wait for an answer to a wish to connect.
const FIRST_WAIT: u64 = 1_000_000_000;

/// How far a connection is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// It has asked, and waits for an answer.
    Asking,
    /// It was asked and has answered, and waits to hear that this came.
    Asked,
    /// Both sides know of it.
    Open,
    /// It has ended, for this reason; what had come can still be read.
    Broken(ErrorKind),
}

/// What is left to do once a connection was dealt with.
#[derive(Default)]
pub(super) struct Outbox {
    pub(super) segments: Vec<Segment>,
    pub(super) wakes: Vec<Waker>,
}

/// What became of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Became {
    /// It goes on.
    Same,
    /// It has just opened on the side that was asked.
    Opened,
    /// Nobody needs it any more.
    Gone,
}

/// One end of a connection.
pub(super) struct Socket {
    pub(super) id: SocketId,
    pub(super) host: u32,
    pub(super) peer_host: u32,
    pub(super) peer: SocketId,
    /// The port that was asked for.
    pub(super) port: u16,
    /// The port of the side that asked.
    pub(super) own_port: u16,
    /// The end that was made for this one where it asked.
    pub(super) answered: SocketId,
    pub(super) phase: Phase,
    pub(super) outgoing: Shared,
    pub(super) incoming: Shared,
    /// When its timer is set to, if it is; what is due may be later.
    pub(super) timer: u64,
    pub(super) counters: Counters,
    sender: Sender,
    receiver: Receiver,
    /// Whether somebody still reads, and whether somebody still writes.
    reads: bool,
    writes: bool,
    opener: Option<Waker>,
    reader: Option<Waker>,
    writer: Option<Waker>,
    /// When the other side was last heard of.
    heard: u64,
    /// When to see whether it is still there; only while something is wrong with the path to it.
    watch: u64,
    /// When to ask or answer again, how long the wait was, and when to give up.
    again: u64,
    wait: u64,
    give_up: u64,
}

/// Who an end is, and where its bytes are.
pub(super) struct Ends {
    pub(super) id: SocketId,
    pub(super) host: u32,
    pub(super) peer_host: u32,
    pub(super) peer: SocketId,
    pub(super) port: u16,
    pub(super) own_port: u16,
    pub(super) outgoing: Shared,
    pub(super) incoming: Shared,
}

impl Socket {
    /// An end that asks, if `ends` knows no peer, or was asked. It has yet to [`Socket::greet`].
    pub(super) fn new(now: u64, ends: Ends, spec: &NetworkSpec) -> Socket {
        let Ends { id, host, peer_host, peer, port, own_port, outgoing, incoming } = ends;
        let asks = peer == SocketId::NOBODY;
        let limit = if asks { spec.connect_limit } else { spec.patience };
        Socket {
            id,
            host,
            peer_host,
            peer,
            port,
            own_port,
            answered: SocketId::NOBODY,
            phase: if asks { Phase::Asking } else { Phase::Asked },
            outgoing,
            incoming,
            timer: NEVER,
            counters: Counters::default(),
            sender: Sender::new(spec),
            receiver: Receiver::new(spec),
            reads: true,
            writes: true,
            opener: None,
            reader: None,
            writer: None,
            heard: now,
            watch: NEVER,
            again: now + FIRST_WAIT,
            wait: FIRST_WAIT,
            give_up: now + limit.as_nanos() as u64,
        }
    }

    fn segment(&mut self, now: u64, purpose: Purpose) -> Segment {
        let (ack, edge, echo) = self.receiver.tell();
        Segment {
            from_host: self.host,
            to_host: self.peer_host,
            from: self.id,
            to: self.peer,
            purpose,
            length: 0,
            sequence: 0,
            ack,
            edge,
            sent: now,
            echo,
        }
    }

    fn put(&mut self, segment: Segment, out: &mut Outbox) {
        self.counters.segments += 1;
        out.segments.push(segment);
    }

    fn put_piece(&mut self, now: u64, piece: Piece, out: &mut Outbox) {
        let header = self.segment(now, if piece.last { Purpose::Final } else { Purpose::Data });
        self.put(Segment { sequence: piece.sequence, length: piece.length as u32, ..header }, out);
    }

    fn put_empty(&mut self, now: u64, purpose: Purpose, out: &mut Outbox) {
        let segment = self.segment(now, purpose);
        self.put(segment, out);
    }

    /// Asks for the connection, or answers that.
    pub(super) fn greet(&mut self, now: u64, echo: u64, out: &mut Outbox) {
        let purpose = if self.phase == Phase::Asking { Purpose::Open(self.port) } else { Purpose::Welcome };
        let header = self.segment(now, purpose);
        self.put(Segment { echo, ..header }, out);
    }

    /// Sends what may go.
    fn pump(&mut self, now: u64, out: &mut Outbox) {
        if self.phase == Phase::Open {
            while let Some(piece) = self.sender.offer(now) {
                self.put_piece(now, piece, out);
            }
        }
    }

    /// Takes a segment from the other side.
    pub(super) fn arrive(&mut self, now: u64, segment: &Segment, spec: &NetworkSpec, out: &mut Outbox) -> Became {
        self.heard = now;
        if segment.purpose == Purpose::Reset {
            let refused = self.phase == Phase::Asking;
            return self.fail(if refused { ErrorKind::ConnectionRefused } else { ErrorKind::ConnectionReset }, out);
        }
        let mut became = Became::Same;
        match (self.phase, segment.purpose) {
            (Phase::Broken(_), _) => {
                self.put_empty(now, Purpose::Reset, out);
                return Became::Same;
            }
            (Phase::Asking, Purpose::Welcome) => {
                self.peer = segment.from;
                self.opened(segment.edge, Some(now.saturating_sub(segment.echo)));
                self.put_empty(now, Purpose::Data, out);
                out.wakes.extend(self.opener.take());
                return Became::Same;
            }
            (Phase::Asking, _) => return Became::Same,
            (Phase::Asked, Purpose::Open(_)) => {
                self.greet(now, segment.sent, out);
                return Became::Same;
            }
            (Phase::Open, Purpose::Open(_)) => return Became::Same,
            (_, Purpose::Welcome) => {
                // The answer to it was lost.
                self.put_empty(now, Purpose::Data, out);
                return Became::Same;
            }
            (Phase::Asked, _) => {
                self.opened(segment.edge, None);
                became = Became::Opened;
            }
            (Phase::Open, _) => {}
        }
        self.proceed(now, segment, spec, out);
        if self.is_needless() { Became::Gone } else { became }
    }

    fn opened(&mut self, edge: u64, round_trip: Option<u64>) {
        self.phase = Phase::Open;
        self.again = NEVER;
        self.sender.open(edge, round_trip);
    }

    /// Acknowledgement and data of an open connection.
    fn proceed(&mut self, now: u64, segment: &Segment, spec: &NetworkSpec, out: &mut Outbox) {
        let pure = segment.length == 0 && segment.purpose == Purpose::Data;
        let acked = self.sender.ack(now, segment.ack, segment.edge, segment.echo, pure);
        self.counters.duplicate_acks += u64::from(acked.duplicate);
        let taken = self.receiver.take(now, segment);
        self.counters.bytes.0 += taken.bytes;
        if taken.bytes > 0 && !self.reads && !self.writes {
            // Nobody is left to read it, and the other side should know.
            self.put_empty(now, Purpose::Reset, out);
            self.phase = Phase::Broken(ErrorKind::ConnectionAborted);
            return;
        }
        if taken.bytes > 0 || taken.ended {
            out.wakes.extend(self.reader.take());
        }
        // Few large pieces cost less than many small ones.
        if acked.advanced && self.writer.is_some() && 4 * self.sender.kept() <= 3 * spec.send_buffer.0 {
            out.wakes.extend(self.writer.take());
        }
        let before = out.segments.len();
        if acked.repeat {
            let piece = self.sender.first(now);
            self.counters.fast_retransmits += 1;
            self.put_piece(now, piece, out);
        }
        self.pump(now, out);
        if (taken.tell || segment.purpose == Purpose::Probe) && out.segments.len() == before {
            self.put_empty(now, Purpose::Data, out);
        }
    }

    /// Whether it has ended.
    pub(super) fn is_broken(&self) -> bool {
        matches!(self.phase, Phase::Broken(_))
    }

    /// Whether nobody will use it again, and nothing has to be said any more.
    fn is_needless(&self) -> bool {
        !self.reads && !self.writes && (self.is_broken() || self.sender.is_done())
    }

    /// Ends it for `why`, without a word to the other side.
    pub(super) fn fail(&mut self, why: ErrorKind, out: &mut Outbox) -> Became {
        if self.phase == Phase::Asked {
            // Nobody here knows of it yet.
            return Became::Gone;
        }
        if !self.is_broken() {
            self.phase = Phase::Broken(why);
        }
        out.wakes.extend(self.opener.take());
        out.wakes.extend(self.reader.take());
        out.wakes.extend(self.writer.take());
        if self.is_needless() { Became::Gone } else { Became::Same }
    }

    /// When its timer has to go off.
    pub(super) fn due(&self) -> u64 {
        match self.phase {
            Phase::Broken(_) => NEVER,
            Phase::Asking | Phase::Asked => self.again.min(self.give_up),
            Phase::Open => self.sender.deadline().min(self.receiver.due()).min(self.watch),
        }
    }

    /// Does what is due; `whole` is whether the path to the other side is in order.
    pub(super) fn time(&mut self, now: u64, spec: &NetworkSpec, whole: bool, out: &mut Outbox) -> Became {
        match self.phase {
            Phase::Broken(_) => {}
            Phase::Asking | Phase::Asked => {
                if now >= self.give_up {
                    return self.fail(ErrorKind::TimedOut, out);
                }
                if now >= self.again {
                    self.wait *= 2;
                    self.again = now + self.wait;
                    self.greet(now, now, out);
                }
            }
            Phase::Open => {
                if now >= self.watch && self.watched(now, spec, whole, out) == Became::Gone {
                    return Became::Gone;
                }
                if now >= self.sender.deadline() {
                    match self.sender.time_out(now) {
                        TimedOut::GiveUp => return self.fail(ErrorKind::TimedOut, out),
                        TimedOut::Probe => self.put_empty(now, Purpose::Probe, out),
                        TimedOut::Repeat => {
                            self.counters.timeouts += 1;
                            self.pump(now, out);
                        }
                    }
                }
                if now >= self.receiver.due() {
                    self.put_empty(now, Purpose::Data, out);
                }
            }
        }
        Became::Same
    }

    fn watched(&mut self, now: u64, spec: &NetworkSpec, whole: bool, out: &mut Outbox) -> Became {
        if whole {
            self.watch = NEVER;
            return Became::Same;
        }
        if now.saturating_sub(self.heard) >= spec.patience.as_nanos() as u64 {
            self.watch = NEVER;
            return self.fail(ErrorKind::TimedOut, out);
        }
        self.watch = now + spec.silence.as_nanos() as u64;
        self.put_empty(now, Purpose::Probe, out);
        Became::Same
    }

    /// Something is wrong with the path: look after the other side once it has been silent for a while. Kernels do so
    /// always; here it would only move time.
    pub(super) fn watch(&mut self, now: u64, spec: &NetworkSpec) {
        if self.watch == NEVER {
            self.watch = now.max(self.heard + spec.silence.as_nanos() as u64);
        }
    }

    /// Waits until it is open.
    pub(super) fn poll_open(&mut self, context: &Context<'_>, out: &mut Outbox) -> Poll<Result<(), ErrorKind>> {
        match self.phase {
            Phase::Open => Poll::Ready(Ok(())),
            Phase::Broken(why) => Poll::Ready(Err(why)),
            Phase::Asking | Phase::Asked => {
                keep(&mut self.opener, context, out);
                Poll::Pending
            }
        }
    }

    /// Reads what has come.
    pub(super) fn poll_read(
        &mut self,
        now: u64,
        context: &Context<'_>,
        into: &mut [u8],
        out: &mut Outbox,
    ) -> Poll<Result<usize, ErrorKind>> {
        let length = self.receiver.readable().min(into.len() as u64);
        if length > 0 || into.is_empty() {
            self.incoming.borrow_mut().read(self.receiver.position(), &mut into[..length as usize]);
            if self.receiver.read(length) && self.phase == Phase::Open {
                self.put_empty(now, Purpose::Data, out);
            }
            return Poll::Ready(Ok(length as usize));
        }
        if self.receiver.is_ended() {
            return Poll::Ready(Ok(0));
        }
        if let Phase::Broken(why) = self.phase {
            return Poll::Ready(Err(why));
        }
        keep(&mut self.reader, context, out);
        Poll::Pending
    }

    /// Takes what there is room for.
    pub(super) fn poll_write(
        &mut self,
        now: u64,
        context: &Context<'_>,
        parts: &[&[u8]],
        spec: &NetworkSpec,
        out: &mut Outbox,
    ) -> Poll<Result<usize, ErrorKind>> {
        if let Phase::Broken(why) = self.phase {
            return Poll::Ready(Err(why));
        }
        if self.sender.is_closed() {
            return Poll::Ready(Err(ErrorKind::BrokenPipe));
        }
        let mut room = spec.send_buffer.0.saturating_sub(self.sender.kept()) as usize;
        let wanted: usize = parts.iter().map(|part| part.len()).sum();
        if room == 0 && wanted > 0 {
            keep(&mut self.writer, context, out);
            return Poll::Pending;
        }
        let mut taken = 0;
        for part in parts {
            let some = &part[..part.len().min(room)];
            self.outgoing.borrow_mut().write(some, self.sender.acked());
            taken += some.len();
            room -= some.len();
        }
        self.sender.write(taken as u64);
        self.pump(now, out);
        Poll::Ready(Ok(taken))
    }

    /// Nothing comes after what was written.
    pub(super) fn close(&mut self, now: u64, out: &mut Outbox) {
        if !self.sender.is_closed() {
            self.sender.close();
            self.pump(now, out);
        }
    }

    /// Nobody reads any more. What becomes of the connection.
    pub(super) fn drop_reader(&mut self, now: u64, out: &mut Outbox) -> Became {
        self.reads = false;
        out.wakes.extend(self.reader.take());
        self.abandoned(now, out)
    }

    /// Nobody writes any more. What becomes of the connection.
    pub(super) fn drop_writer(&mut self, now: u64, out: &mut Outbox) -> Became {
        self.writes = false;
        out.wakes.extend(self.writer.take());
        self.close(now, out);
        self.abandoned(now, out)
    }

    /// Nobody reads or writes any more, from one moment to the next: the end is not announced if something was unread.
    pub(super) fn close_both(&mut self, now: u64, out: &mut Outbox) -> Became {
        (self.reads, self.writes) = (false, false);
        out.wakes.extend(self.reader.take());
        out.wakes.extend(self.writer.take());
        match self.abandoned(now, out) {
            Became::Same => {
                self.close(now, out);
                if self.is_needless() { Became::Gone } else { Became::Same }
            }
            became => became,
        }
    }

    fn abandoned(&mut self, now: u64, out: &mut Outbox) -> Became {
        if !self.reads && !self.writes && self.phase == Phase::Open && self.receiver.readable() > 0 {
            self.put_empty(now, Purpose::Reset, out);
            return Became::Gone;
        }
        if self.is_needless() { Became::Gone } else { Became::Same }
    }

    /// Ends it with a word to the other side.
    pub(super) fn reset(&mut self, now: u64, out: &mut Outbox) {
        if self.peer != SocketId::NOBODY && !self.is_broken() {
            self.put_empty(now, Purpose::Reset, out);
        }
        // It is over for whoever waits for it; nobody waits for most.
        self.fail(ErrorKind::ConnectionAborted, out);
    }
}

/// Keeps the waker of `context`; another one that was kept is woken, since it waits no more.
fn keep(kept: &mut Option<Waker>, context: &Context<'_>, out: &mut Outbox) {
    if kept.as_ref().is_none_or(|kept| !kept.will_wake(context.waker())) {
        out.wakes.extend(kept.replace(context.waker().clone()));
    }
}
