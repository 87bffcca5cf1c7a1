//! Connections that a node ended by itself or did not take, counted by why; and a word about what was malformed, once a minute at
//! most, however much of it comes.

use forebay_env::Clock;
use forebay_model::{Error, Kind, Moment};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

/// How long nothing is said of what is malformed after something was.
const SILENCE: Duration = Duration::from_secs(60);

/// Connections that a node ended by itself or did not take, by why.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CutCounts {
    /// What came was no frame, or said what no frame may.
    pub malformed: u64,
    /// A frame's checksum said that it was changed on its way.
    pub changed: u64,
    /// The peer did not say hello in time, was too slow with a frame or an answer, or hung with a lock for which others waited.
    pub slow: u64,
    /// Nothing that they had shown counted, or counted still, and they made room for others.
    pub stranger: u64,
    /// There was no place for them.
    pub full: u64,
}

/// What came that a node could not take, to be told to people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unwelcome {
    /// From where it came last.
    pub peer: String,
    /// What was wrong with it.
    pub error: Error,
    /// How often something like that has come since it was told last, this time among them.
    pub count: u64,
}

/// Whom it is told.
type Told = Box<dyn Fn(Unwelcome)>;

/// Counts them.
pub(super) struct Cuts {
    clock: Rc<dyn Clock>,
    counts: Cell<CutCounts>,
    told: RefCell<Option<Told>>,
    said: Cell<Option<Moment>>,
    unsaid: Cell<u64>,
}

impl Cuts {
    pub(super) fn new(clock: Rc<dyn Clock>) -> Rc<Cuts> {
        let counts = Cell::new(CutCounts::default());
        Rc::new(Cuts { clock, counts, told: RefCell::default(), said: Cell::default(), unsaid: Cell::default() })
    }

    /// Tells `told` from now on.
    pub(super) fn tell(&self, told: Told) {
        self.told.replace(Some(told));
    }

    pub(super) fn counts(&self) -> CutCounts {
        self.counts.get()
    }

    fn count(&self, change: impl FnOnce(&mut CutCounts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }

    /// A peer was too slow, or hung.
    pub(super) fn slow(&self) {
        self.count(|counts| counts.slow += 1);
    }

    /// A stranger made room.
    pub(super) fn stranger(&self) {
        self.count(|counts| counts.stranger += 1);
    }

    /// There was no place.
    pub(super) fn full(&self) {
        self.count(|counts| counts.full += 1);
    }

    /// A connection of `peer` ended with this error; whether a checksum said it.
    pub(super) fn ended(&self, peer: &str, error: &Error, is_changed: bool) {
        // Whoever goes away, or has to wait, said nothing wrong.
        if !matches!(error.kind, Kind::Damaged | Kind::Version | Kind::Usage) {
            return;
        }
        self.count(|counts| match is_changed {
            true => counts.changed += 1,
            false => counts.malformed += 1,
        });
        let (now, count) = (self.clock.now(), self.unsaid.get() + 1);
        if self.said.get().is_some_and(|said| now.since(said) < SILENCE) {
            return self.unsaid.set(count);
        }
        self.said.set(Some(now));
        self.unsaid.set(0);
        if let Some(told) = &*self.told.borrow() {
            told(Unwelcome { peer: peer.to_string(), error: error.clone(), count });
        }
    }
}

#[cfg(test)]
mod tests;
