//! How far a part of a ring was given: of each session up to which block, and how far into that.
//!
//! A target gives what it has of a session in the order of its blocks, whose numbers rise whatever the clock of who recorded them
//! says.

use forebay_model::Timestamp;
use std::collections::BTreeMap;

/// So many sessions are kept; those that came first are forgotten first.
const MOST: usize = 1 << 14;

/// What was given of one part of a ring.
#[derive(Debug, Default)]
pub(super) struct Given {
    sessions: BTreeMap<u64, Session>,
    /// How many sessions there were.
    count: u64,
    last: Option<Last>,
}

#[derive(Debug)]
struct Session {
    /// How many there were before it.
    before: u64,
    /// The last block of which something was given, and how much.
    number: u64,
    depth: Depth,
}

/// How far into a block: elements from its first on, and gaps behind them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Depth {
    pub(super) elements: u64,
    pub(super) gaps: u64,
}

/// The last element that was given: its block, and its time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) writer: u64,
    pub(super) number: u64,
    pub(super) time: Timestamp,
}

impl Depth {
    /// Nothing of it.
    pub(super) const NOTHING: Depth = Depth { elements: 0, gaps: 0 };
    /// All of it.
    pub(super) const ALL: Depth = Depth { elements: u64::MAX, gaps: u64::MAX };
}

impl Given {
    /// How far into this block.
    pub(super) fn of(&self, writer: u64, number: u64) -> Depth {
        match self.sessions.get(&writer) {
            Some(session) if number < session.number => Depth::ALL,
            Some(session) if number == session.number => session.depth,
            _ => Depth::NOTHING,
        }
    }

    /// The last element.
    pub(super) fn last(&self) -> Option<Last> {
        self.last
    }

    /// An element is given, behind so many others of its block.
    pub(super) fn element(&mut self, last: Last, before: u64) {
        self.last = Some(last);
        let depth = Depth { elements: before.saturating_add(1), gaps: 0 };
        let session = self.session(last.writer, last.number);
        if session.number == last.number {
            session.depth = session.depth.max(depth);
        }
    }

    /// A gap is given that a block has.
    pub(super) fn gap(&mut self, writer: u64, number: u64) {
        let session = self.session(writer, number);
        if session.number == number {
            session.depth.gaps = session.depth.gaps.saturating_add(1);
        }
    }

    /// A session, which has come to this block at least.
    fn session(&mut self, writer: u64, number: u64) -> &mut Session {
        if self.sessions.len() >= MOST && !self.sessions.contains_key(&writer) {
            let first = self.sessions.iter().min_by_key(|(_, session)| session.before).map(|(writer, _)| *writer);
            first.map(|first| self.sessions.remove(&first));
        }
        let count = &mut self.count;
        let session = self.sessions.entry(writer).or_insert_with(|| {
            *count += 1;
            Session { before: *count - 1, number, depth: Depth::NOTHING }
        });
        if session.number < number {
            (session.number, session.depth) = (number, Depth::NOTHING);
        }
        session
    }
}

#[cfg(test)]
mod tests;
