//! Copies of what the manager knows, on targets, so that it can be made anew when the engine is gone.
//!
//! A copy is a chain of objects of one volume. Each begins with what was changed since the one before it, and has every change
//! since, and between the changes all that there is, piece by piece; when the last piece is there the objects before it are not
//! needed any more and are removed. A piece is read when it is written, and changes say what a key is from then on: so it does not
//! matter in which order they come, and no change waits for the pieces.
//!
//! Always: what was answered is on all targets that [`Copies`] writes, or on none because none can be written. Bytes:
//! `docs/format/copies.md`.

mod chain;
mod record;
mod unkept;

pub use chain::Chain;
pub(crate) use unkept::Copying;

use crate::engine::Pair;
use crate::manager::Manager;
use crate::records::check;
use forebay_env::Clock;
use forebay_env::race::{First, race};
use forebay_env::together::all;
use forebay_model::{Error, Kind, Moment, Result, TargetId};
use record::{Change, Record};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// The volume in which copies lie, on each target that has one.
pub const VOLUME: u64 = u64::MAX - 1;
/// On how many targets there is one, if there are so many.
const WANTED: usize = 3;
/// How long a target may take to write something before it has no copy any more.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a target that failed is left alone.
const AGAIN: Duration = Duration::from_secs(60);
/// Pieces that are written with what is answered; and when a second is over, or at the beginning.
const BESIDE: usize = 1;
const AT_ONCE: usize = 16;
/// How large things get.
const SIZES: Sizes = Sizes { part: 256 << 10, keys: 2048, longer: 16 << 20 };
/// Openings are in the bits above these of an object's number, and how many were begun in one is in them.
const COUNT_BITS: u32 = 20;

/// What writing beside the manager comes to.
pub type Doing = Pin<Box<dyn Future<Output = Result<()>>>>;

/// Targets that copies can be on.
pub trait Beside {
    /// Those that there are.
    fn targets(&self) -> Vec<TargetId>;

    /// Appends to an object of [`VOLUME`], which is made if it is not there; durable when it is done.
    fn append(&self, target: TargetId, object: u64, bytes: Arc<Vec<u8>>) -> Doing;

    /// Removes the objects of [`VOLUME`] with lower numbers.
    fn remove_before(&self, target: TargetId, object: u64) -> Doing;
}

/// No targets at all: of a manager without any in its process.
pub struct Nowhere;

impl Beside for Nowhere {
    fn targets(&self) -> Vec<TargetId> {
        Vec::new()
    }

    fn append(&self, target: TargetId, _: u64, _: Arc<Vec<u8>>) -> Doing {
        Box::pin(std::future::ready(Err(nowhere(target))))
    }

    fn remove_before(&self, target: TargetId, _: u64) -> Doing {
        Box::pin(std::future::ready(Err(nowhere(target))))
    }
}

fn nowhere(target: TargetId) -> Error {
    Error::missing(format!("there is no target {target} in the manager's process"))
}

/// How large things get.
#[derive(Clone, Copy)]
struct Sizes {
    /// Bytes of a piece, and of the writes of a record of changes, more or less.
    part: usize,
    /// Keys of a piece at most.
    keys: usize,
    /// An object that is longer than twice what there is by so many bytes is followed by another one.
    longer: u64,
}

/// Writes copies.
pub struct Copies {
    beside: Rc<dyn Beside>,
    clock: Rc<dyn Clock>,
    sizes: Sizes,
    /// Where they are written.
    on: Vec<TargetId>,
    failed: BTreeSet<TargetId>,
    failed_at: Moment,
    /// The object that is written, and how many were begun since the manager was opened.
    object: u64,
    begun: u64,
    /// The key from which on pieces are missing in it.
    from: Option<Vec<u8>>,
    /// Bytes of its pieces, and of all.
    pieces: u64,
    length: u64,
}

impl Copies {
    /// On some of these targets.
    pub fn new(beside: Rc<dyn Beside>, clock: Rc<dyn Clock>) -> Copies {
        Copies {
            beside,
            clock,
            sizes: SIZES,
            on: Vec::new(),
            failed: BTreeSet::new(),
            failed_at: Moment::default(),
            object: 0,
            begun: 0,
            from: None,
            pieces: 0,
            length: 0,
        }
    }

    /// Writes what was changed, and some of what there is.
    pub async fn keep(&mut self, manager: &mut Manager) -> Result<()> {
        self.write(manager, BESIDE).await
    }

    /// The same when time has passed: more of what there is, and also where writing failed some time ago.
    pub async fn tick(&mut self, manager: &mut Manager) -> Result<()> {
        if self.on.is_empty() && self.clock.now().since(self.failed_at) >= AGAIN {
            self.failed.clear();
        }
        self.write(manager, AT_ONCE).await
    }

    /// On an error nothing can be read from the engine. A target that cannot be written is none.
    async fn write(&mut self, manager: &mut Manager, pieces: usize) -> Result<()> {
        while manager.is_open() {
            let is_long = self.from.is_none() && self.length > self.sizes.longer + 2 * self.pieces;
            if is_long {
                // All is written anew in any case: also where it could not be for a while.
                self.failed.clear();
            }
            if (self.on.is_empty() || !manager.copying.is_on() || is_long) && !self.begin(manager).await? {
                manager.copying.stop();
                return Ok(());
            }
            if self.changes(manager).await? && self.some(manager, pieces).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Begins an object on targets that can be written; false if there is none.
    async fn begin(&mut self, manager: &mut Manager) -> Result<bool> {
        let mut there = self.beside.targets();
        there.retain(|target| !self.failed.contains(target));
        there.truncate(WANTED);
        self.on = there;
        if self.on.is_empty() {
            return Ok(false);
        }
        self.begun += 1;
        let term = manager.term;
        self.object = term << COUNT_BITS | self.begun;
        let (base, after) = manager.copying.begin(self.object, term);
        (self.from, self.pieces, self.length) = (Some(Vec::new()), 0, 0);
        let begun = self.clock.wall();
        let beginning = Record::Begin { cluster: manager.cluster(), term, base, after, begun };
        self.append(&beginning).await?;
        Ok(true)
    }

    /// Writes what was changed since; false if a target failed.
    async fn changes(&mut self, manager: &mut Manager) -> Result<bool> {
        let Some((batch, writes)) = manager.copying.unkept() else { return Ok(true) };
        let mut parts: Vec<Vec<Change>> = vec![Vec::new()];
        let mut bytes = 0;
        for (key, value) in writes {
            let more = key.len() + value.as_ref().map_or(0, Vec::len);
            if bytes + more > self.sizes.part && bytes > 0 {
                parts.push(Vec::new());
                bytes = 0;
            }
            bytes += more;
            parts.last_mut().into_iter().for_each(|part| part.push((key.clone(), value.clone())));
        }
        let last = parts.len() - 1;
        for (part, writes) in parts.into_iter().enumerate() {
            let changes = Record::Changes { batch, more: part < last, at: self.clock.wall(), writes };
            if !self.append(&changes).await? {
                return Ok(false);
            }
        }
        manager.copying.kept(batch);
        Ok(true)
    }

    /// Writes some of what there is, and ends those before this one when all of it is there; false if a target failed.
    async fn some(&mut self, manager: &mut Manager, pieces: usize) -> Result<bool> {
        for _ in 0..pieces {
            let Some(from) = self.from.take() else { return Ok(true) };
            let (pairs, next) = match piece(manager, &from, self.sizes) {
                Err(error) if error.kind == Kind::Damaged => {
                    // It goes no further: what was copied before stays, and is what this is made anew of.
                    self.from = Some(from);
                    return Ok(true);
                }
                piece => piece?,
            };
            let before = self.length;
            if !self.append(&Record::Piece { pairs }).await? {
                return Ok(false);
            }
            self.pieces += self.length - before;
            self.from = next;
            if self.from.is_none() {
                if !self.append(&Record::Whole { at: self.clock.wall() }).await? {
                    return Ok(false);
                }
                let targets = self.beside.targets();
                let targets = targets.into_iter().filter(|target| !self.failed.contains(target));
                // What stays is removed after the next one.
                all(targets.map(|target| self.within(self.beside.remove_before(target, self.object)))).await;
            }
        }
        Ok(true)
    }

    /// Appends to the object on all targets; false if one failed, which is none of them any more.
    async fn append(&mut self, record: &Record) -> Result<bool> {
        if self.on.is_empty() {
            return Ok(false);
        }
        let bytes = Arc::new(record.to_bytes()?);
        self.length += bytes.len() as u64;
        let asked = self.on.iter().map(|target| self.within(self.beside.append(*target, self.object, bytes.clone())));
        let answers = all(asked).await;
        let failed: Vec<TargetId> =
            self.on.iter().zip(answers).filter(|(_, is_done)| !is_done).map(|(target, _)| *target).collect();
        if failed.is_empty() {
            return Ok(true);
        }
        self.failed.extend(failed);
        self.failed_at = self.clock.now();
        // Another object goes on without it, and on another one that is there.
        self.on.clear();
        Ok(false)
    }

    /// Whether something was done in time.
    async fn within(&self, doing: Doing) -> bool {
        matches!(race(doing, self.clock.sleep(PATIENCE)).await, First::Left(Ok(())))
    }
}

/// What there is from a key on, and where the rest begins.
fn piece(manager: &Manager, from: &[u8], Sizes { part, keys, .. }: Sizes) -> Result<(Vec<Pair>, Option<Vec<u8>>)> {
    let (mut pairs, mut bytes, mut from) = (Vec::new(), 0, from.to_vec());
    loop {
        let found = manager.view()?.scan(&from, &[u8::MAX], keys)?;
        let mut is_last = found.len() < keys;
        for (key, value) in found {
            if bytes >= part {
                return Ok((pairs, Some(key)));
            }
            if !is_copied(&key) {
                // Nothing that begins so is.
                (from, is_last) = (vec![key.first().map_or(1, |first| first + 1)], false);
                break;
            }
            check(&key, &value)?;
            from = [key.as_slice(), &[0]].concat();
            bytes += key.len() + value.len();
            pairs.push((key, value));
        }
        if is_last {
            return Ok((pairs, None));
        }
        if pairs.len() >= keys {
            return Ok((pairs, Some(from)));
        }
    }
}

/// Whether what is under a key is copied: not what is secret, what clients were answered, and what is of this engine alone.
fn is_copied(key: &[u8]) -> bool {
    !matches!(key.first(), None | Some(b'C' | b'K' | b'M' | b'Q' | b'R' | b'T' | b'Z'))
}

#[cfg(test)]
pub(crate) mod tests;
