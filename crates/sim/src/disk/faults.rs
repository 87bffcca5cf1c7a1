//! What goes wrong with a disk on purpose, and when.
//!
//! Faults that name an `nth` I/O count I/Os of their kind from the moment of injection: 0 is the next one.

use super::mechanics::Op;
use super::unflushed::SECTOR;
use forebay_model::{Bytes, Moment};
use std::collections::BTreeMap;
use std::ops::Range;

/// One thing that goes wrong.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Reads of these sectors fail until the sectors are rewritten, or for ever.
    Unreadable {
        /// The first byte.
        offset: Bytes,
        /// How many bytes.
        length: Bytes,
        /// Whether rewriting does not help.
        permanent: bool,
    },
    /// One bit changes, now.
    FlipBit {
        /// The byte.
        offset: Bytes,
        /// Which of its bits, from 0.
        bit: u8,
    },
    /// The `nth` write is acknowledged and not done.
    LoseWrite {
        /// Counted from 0.
        nth: u64,
    },
    /// The `nth` write is acknowledged and done at another place.
    MisdirectWrite {
        /// Counted from 0.
        nth: u64,
        /// Where it goes instead.
        to: Bytes,
    },
    /// Of the `nth` write, any of its sectors are done, and it is acknowledged.
    TearWrite {
        /// Counted from 0.
        nth: u64,
    },
    /// The `nth` I/O of a kind fails; of a write that fails, any of its sectors are done.
    Fail {
        /// Reads, writes or flushes.
        op: Op,
        /// Counted from 0.
        nth: u64,
        /// Whether all later ones of its kind fail too.
        sticky: bool,
    },
    /// Everything takes `factor` times as long from a moment on.
    Slow {
        /// 1 is as specified.
        factor: f64,
        /// When it begins.
        from: Moment,
    },
    /// Every I/O fails from a moment on.
    Dead {
        /// When it begins.
        from: Moment,
    },
}

/// What happens to one I/O.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Fate {
    #[default]
    Healthy,
    Fails,
    Lost,
    Torn,
    Misdirected(u64),
}

struct Planned {
    op: Op,
    /// How many of its kind still pass before it.
    left: u64,
    fate: Fate,
    sticky: bool,
}

#[derive(Default)]
pub(super) struct Faults {
    planned: Vec<Planned>,
    /// Unreadable sectors, and whether for ever.
    unreadable: BTreeMap<u64, bool>,
    slow: Option<(f64, u64)>,
    dead: Option<u64>,
    injected: u64,
}

impl Faults {
    /// Takes a fault that is not of the content.
    pub(super) fn inject(&mut self, fault: &Fault) {
        self.injected += 1;
        let mut plan = |op, nth, fate, sticky| self.planned.push(Planned { op, left: nth, fate, sticky });
        match *fault {
            Fault::LoseWrite { nth } => plan(Op::Write, nth, Fate::Lost, false),
            Fault::TearWrite { nth } => plan(Op::Write, nth, Fate::Torn, false),
            Fault::MisdirectWrite { nth, to } => plan(Op::Write, nth, Fate::Misdirected(to.0), false),
            Fault::Fail { op, nth, sticky } => plan(op, nth, Fate::Fails, sticky),
            Fault::Slow { factor, from } => self.slow = Some((factor, from.0)),
            Fault::Dead { from } => self.dead = Some(from.0),
            Fault::Unreadable { offset, length, permanent } => {
                self.unreadable.extend(sectors(&(offset.0..offset.0 + length.0)).map(|sector| (sector, permanent)));
            }
            Fault::FlipBit { .. } => (),
        }
    }

    /// Faults injected so far.
    pub(super) fn injected(&self) -> u64 {
        self.injected
    }

    /// Ends everything but what has happened already.
    pub(super) fn heal(&mut self) {
        *self = Faults { injected: self.injected, ..Faults::default() };
    }

    /// Ends everything that is still to come; sectors that cannot be read stay so.
    pub(super) fn calm(&mut self) {
        let unreadable = std::mem::take(&mut self.unreadable);
        *self = Faults { injected: self.injected, unreadable, ..Faults::default() };
    }

    /// The fate of the I/O that comes now.
    pub(super) fn fate(&mut self, op: Op) -> Fate {
        let mut fate = Fate::Healthy;
        self.planned.retain_mut(|planned| {
            if planned.op != op {
                return true;
            }
            if planned.left > 0 {
                planned.left -= 1;
                return true;
            }
            fate = planned.fate;
            planned.sticky
        });
        fate
    }

    pub(super) fn is_dead(&self, now: u64) -> bool {
        self.dead.is_some_and(|from| now >= from)
    }

    pub(super) fn slowness(&self, now: u64) -> f64 {
        match self.slow {
            Some((factor, from)) if now >= from => factor,
            _ => 1.0,
        }
    }

    /// The first sector of `range` that cannot be read, as an offset.
    pub(super) fn unreadable(&self, range: &Range<u64>) -> Option<u64> {
        self.unreadable.range(sectors(range)).next().map(|(sector, _)| sector * SECTOR)
    }

    /// `range` was written: the disk replaces the sectors there that it can.
    pub(super) fn rewritten(&mut self, range: &Range<u64>) {
        if self.unreadable.is_empty() {
            return;
        }
        let healed: Vec<u64> =
            self.unreadable.range(sectors(range)).filter(|(_, permanent)| !**permanent).map(|(s, _)| *s).collect();
        for sector in healed {
            self.unreadable.remove(&sector);
        }
    }
}

fn sectors(range: &Range<u64>) -> Range<u64> {
    range.start / SECTOR..range.end.div_ceil(SECTOR)
}

#[cfg(test)]
mod tests;
