//! When a command is done: the part of a disk that knows time and place but no content.

use std::ops::Range;

/// Names a command while it is in the disk.
pub(super) type IoId = u64;

/// What the host may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// Read.
    Read,
    /// Write.
    Write,
    /// Flush.
    Flush,
}

impl Op {
    /// What moves bytes, as messages say it.
    pub(super) const fn doing(self) -> Option<&'static str> {
        match self {
            Op::Read => Some("reading"),
            Op::Write => Some("writing"),
            Op::Flush => None,
        }
    }
}

/// A command as the mechanism sees it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    pub(super) id: IoId,
    pub(super) op: Op,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl Request {
    pub(super) fn range(&self) -> Range<u64> {
        self.offset..self.offset + self.length
    }
}

/// What a mechanism wants of the world.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// The command is done at this time.
    Done(IoId, u64),
    /// [`Mechanics::moved`] is to be called at this time with this number.
    Move(u64, u64),
}

/// Time at a disk: now, and how much slower than its specification it is.
#[derive(Debug, Clone, Copy)]
pub(super) struct Now {
    pub(super) nanos: u64,
    pub(super) slowness: f64,
}

impl Now {
    /// `span` nanoseconds of the specification, as long as they take now.
    pub(super) fn stretch(&self, span: u64) -> u64 {
        if self.slowness == 1.0 { span } else { (span as f64 * self.slowness) as u64 }
    }
}

/// What a mechanism did besides completing commands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Work {
    pub(super) seeks: u64,
    pub(super) busy: u64,
}

pub(super) trait Mechanics {
    /// Takes a command.
    fn submit(&mut self, now: Now, request: Request, actions: &mut Vec<Action>);

    /// The move numbered `number` has ended.
    fn moved(&mut self, now: Now, number: u64, actions: &mut Vec<Action>);

    /// Forgets all commands and caches, as without power.
    fn lose_power(&mut self);

    /// What it did so far.
    fn work(&self) -> Work;
}
