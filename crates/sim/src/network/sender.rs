//! The half of a connection's end that sends: what may be sent when, and what is sent again.
//!
//! Slow start, congestion avoidance, fast retransmit and recovery as in NewReno (RFC 5681, RFC 6582), without selective
//! acknowledgements. Sequences are offsets in the stream and never wrap; the end of the stream takes one after the last
//! byte. It always holds: acknowledged <= next <= highest <= end of the stream.

use super::rtt::RoundTrip;
use super::spec::NetworkSpec;

/// Segments that a fresh connection may send at once.
const INITIAL: u64 = 10;
/// Acknowledgements without news that mean a loss.
const DUPLICATES: u32 = 3;
pub(super) const NEVER: u64 = u64::MAX;

/// What to send now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) sequence: u64,
    pub(super) length: u64,
    pub(super) last: bool,
}

/// What came of an acknowledgement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Acked {
    /// Something was acknowledged.
    pub(super) advanced: bool,
    /// It said nothing new.
    pub(super) duplicate: bool,
    /// The first piece that is not acknowledged is to be sent again.
    pub(super) repeat: bool,
}

/// What came of a time-out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimedOut {
    /// Everything from the first piece on is sent again.
    Repeat,
    /// The other side has no room: it is asked whether that still holds.
    Probe,
    /// It has been too long.
    GiveUp,
}

/// What one end sends.
pub(super) struct Sender {
    segment: u64,
    patience: u64,
    /// All before it is acknowledged.
    acked: u64,
    /// What is sent next.
    next: u64,
    /// What was never sent.
    highest: u64,
    /// What was written.
    end: u64,
    closed: bool,
    /// The end of what the other side has room for.
    edge: u64,
    /// The congestion window.
    window: u64,
    threshold: u64,
    /// Acknowledged since the window last grew in congestion avoidance.
    credit: u64,
    duplicates: u32,
    recovering: bool,
    /// What was the highest when something was lost.
    recover: u64,
    /// Whether recovery has got on since it began.
    got_on: bool,
    round_trip: RoundTrip,
    /// When to send again, or to probe.
    deadline: u64,
    /// Since when nothing was acknowledged of what is under way, or there is no room for what was written.
    waiting: u64,
    last_sent: u64,
}

impl Sender {
    pub(super) fn new(spec: &NetworkSpec) -> Sender {
        Sender {
            segment: spec.segment.0,
            patience: spec.patience.as_nanos() as u64,
            acked: 0,
            next: 0,
            highest: 0,
            end: 0,
            closed: false,
            edge: 0,
            window: INITIAL * spec.segment.0,
            threshold: u64::MAX,
            credit: 0,
            duplicates: 0,
            recovering: false,
            recover: 0,
            got_on: false,
            round_trip: RoundTrip::new(spec.shortest_timeout.as_nanos() as u64),
            deadline: NEVER,
            waiting: 0,
            last_sent: 0,
        }
    }

    /// The other side is there, and has room up to `edge`.
    pub(super) fn open(&mut self, edge: u64, round_trip: Option<u64>) {
        self.edge = self.edge.max(edge);
        if let Some(span) = round_trip {
            self.round_trip.sample(span);
        }
    }

    /// Takes `length` more bytes.
    pub(super) fn write(&mut self, length: u64) {
        self.end += length;
    }

    /// Nothing comes after what was written.
    pub(super) fn close(&mut self) {
        self.closed = true;
    }

    pub(super) fn is_closed(&self) -> bool {
        self.closed
    }

    /// Bytes that are not acknowledged.
    pub(super) fn kept(&self) -> u64 {
        self.end.saturating_sub(self.acked)
    }

    /// Bytes that are acknowledged.
    pub(super) fn acked(&self) -> u64 {
        self.acked.min(self.end)
    }

    /// Whether all is acknowledged, the end too.
    pub(super) fn is_done(&self) -> bool {
        self.closed && self.acked == self.last()
    }

    /// What is acknowledged last of all.
    fn last(&self) -> u64 {
        self.end + u64::from(self.closed)
    }

    fn under_way(&self) -> u64 {
        self.next - self.acked
    }

    /// What may go now.
    pub(super) fn offer(&mut self, now: u64) -> Option<Piece> {
        if self.next == self.last() {
            return None;
        }
        let alone = self.under_way() == 0;
        if alone && now > self.last_sent.saturating_add(self.round_trip.timeout()) {
            // After a pause nobody knows what the path still takes.
            self.window = self.window.min(INITIAL * self.segment);
        }
        let data = self.end - self.next;
        let room = (self.acked + self.window).min(self.edge).saturating_sub(self.next);
        let length = data.min(self.segment).min(room);
        if length == 0 && data > 0 {
            if alone && self.deadline == NEVER {
                (self.deadline, self.waiting) = (now + self.round_trip.timeout(), now);
            }
            return None;
        }
        // A small piece in the middle would cost as much as a large one a little later.
        if length < self.segment && length < data && !alone {
            return None;
        }
        let piece = self.piece(self.next, length);
        self.next += length + u64::from(piece.last);
        self.highest = self.highest.max(self.next);
        self.last_sent = now;
        if self.deadline == NEVER {
            (self.deadline, self.waiting) = (now + self.round_trip.timeout(), now);
        }
        Some(piece)
    }

    fn piece(&self, sequence: u64, length: u64) -> Piece {
        Piece { sequence, length, last: self.closed && sequence + length == self.end }
    }

    /// The first piece that is not acknowledged. It says no more than was said before.
    pub(super) fn first(&mut self, now: u64) -> Piece {
        self.last_sent = now;
        let sent = self.highest.min(self.end);
        let piece = self.piece(self.acked, self.segment.min(sent.saturating_sub(self.acked)));
        Piece { last: piece.last && self.highest > self.end, ..piece }
    }

    /// Takes an acknowledgement; `echo` is when what it acknowledges was sent, `pure` whether it is nothing else.
    pub(super) fn ack(&mut self, now: u64, ack: u64, edge: u64, echo: u64, pure: bool) -> Acked {
        let mut outcome = Acked::default();
        if ack > self.highest || ack < self.acked {
            return outcome;
        }
        let widened = edge > self.edge;
        self.edge = self.edge.max(edge);
        if ack > self.acked {
            outcome.advanced = true;
            outcome.repeat = self.advance(now, ack, echo);
        } else if self.under_way() == 0 {
            // An answer to a probe. That the other side is there is not enough: it has to take something some time.
            if widened {
                self.waiting = now;
                self.round_trip.answered();
                self.deadline = NEVER;
            }
        } else if pure && !widened {
            outcome.duplicate = true;
            self.duplicates += 1;
            if self.recovering {
                self.window += self.segment;
            } else if self.duplicates == DUPLICATES && self.acked >= self.recover {
                self.threshold = self.half();
                self.window = self.threshold + u64::from(DUPLICATES) * self.segment;
                (self.recovering, self.got_on, self.recover) = (true, false, self.highest);
                outcome.repeat = true;
            }
        }
        outcome
    }

    fn half(&self) -> u64 {
        (self.under_way() / 2).max(2 * self.segment)
    }

    /// Moves on to `ack`. Whether the first piece is to be sent again.
    fn advance(&mut self, now: u64, ack: u64, echo: u64) -> bool {
        let acked = ack - self.acked;
        // A window that is not used is not widened.
        let used = 2 * self.under_way() >= self.window;
        self.acked = ack;
        self.next = self.next.max(ack);
        self.duplicates = 0;
        self.waiting = now;
        self.round_trip.sample(now.saturating_sub(echo));
        self.round_trip.answered();
        if self.recovering && ack < self.recover {
            // The next hole. Only the first time does the clock begin anew: many holes are left to the time-out.
            self.window = self.window.saturating_sub(acked).max(self.segment) + self.segment;
            if !std::mem::replace(&mut self.got_on, true) {
                self.deadline = now + self.round_trip.timeout();
            }
            return true;
        }
        if self.recovering {
            self.recovering = false;
            self.window = self.threshold;
        } else if used && self.window < self.threshold {
            self.window += acked.min(2 * self.segment);
        } else if used {
            self.credit += acked;
            if self.credit >= self.window {
                self.credit -= self.window;
                self.window += self.segment;
            }
        }
        self.deadline = if self.under_way() == 0 { NEVER } else { now + self.round_trip.timeout() };
        false
    }

    /// When [`Sender::time_out`] is due.
    pub(super) fn deadline(&self) -> u64 {
        self.deadline
    }

    /// The deadline is over.
    pub(super) fn time_out(&mut self, now: u64) -> TimedOut {
        if now.saturating_sub(self.waiting) >= self.patience {
            self.deadline = NEVER;
            return TimedOut::GiveUp;
        }
        self.round_trip.double();
        // Some tries have to fit before it is given up.
        self.deadline = now + self.round_trip.timeout().min(self.patience / 4);
        if self.under_way() == 0 {
            return TimedOut::Probe;
        }
        self.threshold = self.half();
        self.window = self.segment;
        self.credit = 0;
        self.duplicates = 0;
        self.recovering = false;
        self.recover = self.highest;
        self.next = self.acked;
        TimedOut::Repeat
    }
}

#[cfg(test)]
mod tests;
