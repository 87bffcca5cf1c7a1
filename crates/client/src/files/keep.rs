//! Looking after the files of a cluster for as long as a client is there: what others left half written is mended, what was
//! given up is rebuilt, what lies where it is not to stay is moved, and what nobody read for long is scrubbed.

use super::Files;
use super::left::Mended;
use super::moving::Moved;
use super::rebuild::Rebuilt;
use super::scrub::{Scrubbed, Scrubbing};
use forebay_model::{Rate, Result};
use forebay_wire::control::names::FileId;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

/// How files are looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keeping {
    /// How long it is waited before it is looked again whether there is anything to do.
    pub pause: Duration,
    /// How files are scrubbed.
    pub scrubbing: Scrubbing,
    /// So fast at most a component is moved so that targets are filled evenly; at no rate: as fast as it goes.
    pub even_rate: Rate,
}

/// What was done for a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kept {
    /// It was left half written, and is whole.
    Mended(Mended),
    /// Components of it were given up, and are whole again.
    Rebuilt(Rebuilt),
    /// A component of it lay where nothing is to stay or too much lies, and lies elsewhere.
    Moved(Moved),
    /// All of it was read and compared.
    Scrubbed(Scrubbed),
}

/// Tells of each file that something was done for it, and once that it cannot be.
struct News<F> {
    told: F,
    failed: RefCell<BTreeSet<FileId>>,
}

impl<F: Fn(FileId, Result<Kept>)> News<F> {
    fn of(told: F) -> News<F> {
        News { told, failed: RefCell::default() }
    }

    fn tell(&self, file: FileId, kept: Result<Kept>) {
        let is_news = match &kept {
            Err(_) => self.failed.borrow_mut().insert(file),
            Ok(_) => {
                self.failed.borrow_mut().remove(&file);
                true
            }
        };
        if is_news {
            (self.told)(file, kept);
        }
    }
}

impl Files {
    /// Mends what others left open to write, again and again; `told` of each file that is whole again, and once of one that
    /// cannot be mended.
    pub async fn keep_mending(&self, pause: Duration, told: impl Fn(FileId, Result<Kept>)) {
        let news = News::of(told);
        self.mend_for_ever(pause, |file, mended| news.tell(file, mended.map(Kept::Mended))).await;
    }

    /// Rebuilds what was given up, likewise.
    pub async fn keep_rebuilding(&self, pause: Duration, told: impl Fn(FileId, Result<Kept>)) {
        let (news, resting) = (News::of(told), self.resting());
        loop {
            drop(self.rebuild_missing_but(&resting, |file, rebuilt| news.tell(file, rebuilt.map(Kept::Rebuilt))).await);
            self.nodes.env().clock.sleep(pause).await;
        }
    }

    /// Moves what lies where nothing is to stay, likewise; and what is to lie elsewhere so that targets are filled evenly, at this rate.
    pub async fn keep_moving(&self, pause: Duration, rate: Rate, told: impl Fn(FileId, Result<Kept>)) {
        let news = News::of(told);
        self.move_for_ever(pause, rate, |file, moved| news.tell(file, moved.map(Kept::Moved))).await;
    }

    /// Scrubs what was not for long, likewise.
    pub async fn keep_scrubbing(&self, pause: Duration, how: Scrubbing, told: impl Fn(FileId, Result<Kept>)) {
        let news = News::of(told);
        loop {
            drop(self.scrub_due(how, |file, scrubbed| news.tell(file, scrubbed.map(Kept::Scrubbed))).await);
            self.nodes.env().clock.sleep(pause).await;
        }
    }
}
