//! The half of a connection's end that receives: what has come in order, what waits for a hole before it to be filled,
//! and when to say so.

use super::segment::Segment;
use super::sender::NEVER;
use super::spec::NetworkSpec;

/// Segments that one acknowledgement may stand for.
const TOGETHER: u32 = 2;

/// What one end receives.
pub(super) struct Receiver {
    segment: u64,
    capacity: u64,
    delay: u64,
    /// All before it has come.
    next: u64,
    /// All before it was read.
    read: u64,
    /// The end of the room that the other side was told of.
    edge: u64,
    /// What has come after a hole, in order and apart from one another.
    islands: Vec<(u64, u64)>,
    /// Where the stream ends.
    end: Option<u64>,
    /// Segments that are not acknowledged.
    pending: u32,
    /// When they have to be.
    due: u64,
    /// When the first of them was sent.
    echo: u64,
}

/// What came of a segment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Taken {
    /// Bytes that can be read now and could not before.
    pub(super) bytes: u64,
    /// The end has come.
    pub(super) ended: bool,
    /// The other side is to be told at once.
    pub(super) tell: bool,
}

impl Receiver {
    pub(super) fn new(spec: &NetworkSpec) -> Receiver {
        Receiver {
            segment: spec.segment.0,
            capacity: spec.receive_buffer.0,
            delay: spec.ack_delay.as_nanos() as u64,
            next: 0,
            read: 0,
            edge: spec.receive_buffer.0,
            islands: Vec::new(),
            end: None,
            pending: 0,
            due: NEVER,
            echo: 0,
        }
    }

    /// Bytes that can be read.
    pub(super) fn readable(&self) -> u64 {
        self.end.map_or(self.next, |end| end.min(self.next)) - self.read
    }

    /// What is read next.
    pub(super) fn position(&self) -> u64 {
        self.read
    }

    /// Whether all has come.
    pub(super) fn is_ended(&self) -> bool {
        self.end.is_some_and(|end| self.next > end)
    }

    /// `length` bytes were read. Whether the other side should hear at once that there is room again.
    pub(super) fn read(&mut self, length: u64) -> bool {
        self.read += length;
        let told = self.edge - self.next.min(self.edge);
        let room = (self.read + self.capacity).saturating_sub(self.next);
        !self.is_ended()
            && 2 * told <= self.capacity
            && room >= 2 * told
            && room - told >= self.segment.min(self.capacity / 2)
    }

    /// Takes a segment with data, with the end, or with both.
    pub(super) fn take(&mut self, now: u64, segment: &Segment) -> Taken {
        let (from, to) =
            (segment.sequence, segment.sequence + u64::from(segment.length) + u64::from(segment.is_final()));
        if from == to {
            return Taken::default();
        }
        // What was had before, or came where no room was, is said again.
        if to <= self.next || to > self.edge + 1 {
            return Taken { tell: true, ..Taken::default() };
        }
        if segment.is_final() {
            self.end = Some(to - 1);
        }
        if from > self.next {
            self.keep(from, to);
            return Taken { tell: true, ..Taken::default() };
        }
        let readable = self.readable();
        if self.pending == 0 {
            self.echo = segment.sent;
        }
        let holes = !self.islands.is_empty();
        self.next = to;
        let reached = self.islands.iter().take_while(|(from, _)| *from <= self.next).count();
        for (_, to) in self.islands.drain(..reached) {
            self.next = self.next.max(to);
        }
        self.pending += 1;
        let ended = self.is_ended();
        let tell = holes || ended || self.pending >= TOGETHER;
        if !tell {
            self.due = now + self.delay;
        }
        Taken { bytes: self.readable() - readable, ended, tell }
    }

    fn keep(&mut self, from: u64, to: u64) {
        // Nearly always behind all others.
        let first = self.islands.iter().rposition(|(_, end)| *end < from).map_or(0, |before| before + 1);
        let after = first + self.islands[first..].iter().take_while(|(start, _)| *start <= to).count();
        let merged = self.islands[first..after].iter().fold((from, to), |(a, b), (c, d)| (a.min(*c), b.max(*d)));
        self.islands.splice(first..after, [merged]);
    }

    /// What a segment that leaves now says: what is expected next, up to where there is room, and when what it
    /// acknowledges was sent.
    pub(super) fn tell(&mut self) -> (u64, u64, u64) {
        self.pending = 0;
        self.due = NEVER;
        let edge = self.read + self.capacity;
        // Room for less than a segment invites small ones.
        if edge >= self.edge + self.segment.min(self.capacity / 2) {
            self.edge = edge;
        }
        (self.next, self.edge, self.echo)
    }

    /// When the other side has to be told.
    pub(super) fn due(&self) -> u64 {
        self.due
    }
}

#[cfg(test)]
mod tests;
