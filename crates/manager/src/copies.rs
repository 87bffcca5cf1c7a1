//! Copies of what the manager knows, on targets, so that it can be made anew when the engine is gone.
//!
//! A copy is a chain of objects of one volume. Each begins with what was changed since the one before it, and has every change
//! since, and between the changes all that there is, piece by piece; when the last piece is there the objects before it are not
//! needed any more and are removed. A piece is read when it is written, and changes say what a key is from then on: so it does not
//! matter in which order they come, and no change waits for the pieces.
//!
//! Always: what was answered is on all targets that [`Copies`] writes, or on none because none can be written. A target is
//! waited for no longer than [`PATIENCE`], and no other one is tried for an answer when that was over twice. Nothing is removed where a
//! manager wrote that went on with newer metadata than these ([`age`]), which are not used any more as soon as that is seen. Bytes:
//! `docs/format/copies.md`.

pub(crate) mod age;
mod chain;
mod record;
mod sites;
pub(crate) mod targets;
mod unkept;

pub use age::Known;
pub use chain::Chain;
pub use sites::{Site, Way};
pub use targets::{OnTargets, Ways};
pub(crate) use unkept::{Copying, MOST_KEYS, first_batch};

use crate::engine::Pair;
use crate::manager::Manager;
use crate::records::check;
use forebay_env::Clock;
use forebay_env::race::{First, race};
use forebay_env::together::all;
use forebay_model::{Error, Kind, Moment, Result, TargetId, Timestamp};
use record::{Change, Record};
use sites::{Candidate, choose, worth};
use std::collections::{BTreeMap, BTreeSet};
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
/// How long a target that failed is left alone, and for how long no more targets are tried than there are copies on.
const AGAIN: Duration = Duration::from_secs(5);
/// For so long nothing is tried when nothing could be written for [`PATIENCE`] twice: whose network is gone is not asked by each change.
const PAUSE: Duration = Duration::from_secs(10);
/// Each of these is twice as long the next time, and so long at most.
const SELDOM: Duration = Duration::from_secs(600);
/// Pieces that are written with what is answered; and when a second is over, or at the beginning.
const BESIDE: usize = 1;
const AT_ONCE: usize = 16;
/// No piece is begun behind another one when writing has taken so long.
const LONGEST: Duration = Duration::from_secs(1);
/// How large things get.
const SIZES: Sizes = Sizes { part: 256 << 10, keys: 2048, longer: 16 << 20 };
/// So many bytes of pieces are written again so that copies are on more nodes; more than that are written to their end before.
const CHEAP: u64 = 64 << 20;
/// Targets without a copy on which older ones are looked for in a second.
const LOOKED_AT: usize = 8;
/// For how long the manager allows itself what it does on targets of other processes.
const ALLOWED: Duration = Duration::from_secs(120);
/// How many objects were begun since an opening is in these bits of an object's number, the second in which that was in those above
/// them, and how often the manager was opened in the rest: so managers that were made anew of the same copies, and counted their
/// openings from the same number on, do not write in one another's objects, and the later one has the higher numbers.
const COUNT_BITS: u32 = 20;
const SECOND_BITS: u32 = 18;

/// What writing beside the manager comes to.
pub type Doing = Pin<Box<dyn Future<Output = Result<()>>>>;

/// Targets that copies can be on.
pub trait Beside {
    /// Those of the manager's own process.
    fn here(&self) -> Vec<TargetId>;

    /// Whether those of other processes can be reached as well.
    fn reaches_others(&self) -> bool;

    /// Appends to an object of [`VOLUME`], which is made if it is not there; durable when it is done.
    fn append(&self, site: Site, object: u64, bytes: Arc<Vec<u8>>) -> Doing;

    /// Begins to look whether objects of [`VOLUME`] go beyond what is known, and waits for nobody: [`Beside::ahead`] says so then.
    fn look(&self, site: Site, known: Known);

    /// Begins to remove the objects of [`VOLUME`] with lower numbers, unless some go beyond what is known, and waits for nobody: what
    /// stays is removed after the next one.
    fn remove_before(&self, site: Site, object: u64, known: Known);

    /// A target on which some were found that do.
    fn ahead(&self) -> Option<TargetId>;
}

/// No targets at all.
pub struct Nowhere;

impl Beside for Nowhere {
    fn here(&self) -> Vec<TargetId> {
        Vec::new()
    }

    fn reaches_others(&self) -> bool {
        false
    }

    fn append(&self, site: Site, _: u64, _: Arc<Vec<u8>>) -> Doing {
        let target = site.target;
        Box::pin(std::future::ready(Err(Error::missing(format!("there is no way to target {target}")))))
    }

    fn look(&self, _: Site, _: Known) {}

    fn remove_before(&self, _: Site, _: u64, _: Known) {}

    fn ahead(&self) -> Option<TargetId> {
        None
    }
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
    on: Vec<Candidate>,
    /// Targets that could not be written lately.
    failed: BTreeMap<TargetId, Failed>,
    /// Of those that were written last, those that answered.
    answered: Vec<TargetId>,
    /// When nothing could be written, and when something could and something else could not.
    none: Pause,
    more: Pause,
    /// Targets on which older copies may be.
    littered: Vec<TargetId>,
    /// Targets on which a look for copies that are newer than the engine was begun, since they failed last if they did.
    looked_at: BTreeSet<TargetId>,
    /// The object that is written, and how many were begun since the manager was opened; when that was.
    object: u64,
    begun: u64,
    opened: Timestamp,
    /// The key from which on pieces are missing in it.
    from: Option<Vec<u8>>,
    /// Bytes of its pieces, and of all.
    pieces: u64,
    length: u64,
}

/// A target that could not be written.
struct Failed {
    /// It is left alone; in another process, also until its node has reported since then.
    pause: Pause,
    since: Moment,
    /// Its node had reported.
    is_heard: bool,
}

/// Something is not tried again for a while, and for twice as long the next time.
struct Pause {
    until: Moment,
    next: Duration,
}

impl Pause {
    fn new(next: Duration) -> Pause {
        Pause { until: Moment::default(), next }
    }

    fn begin(&mut self, now: Moment) {
        self.until = now + self.next;
        self.next = SELDOM.min(2 * self.next);
    }
}

impl Copies {
    /// On some of these targets.
    pub fn new(beside: Rc<dyn Beside>, clock: Rc<dyn Clock>) -> Copies {
        let opened = clock.wall();
        Copies {
            beside,
            clock,
            sizes: SIZES,
            on: Vec::new(),
            failed: BTreeMap::new(),
            answered: Vec::new(),
            none: Pause::new(PAUSE),
            more: Pause::new(AGAIN),
            littered: Vec::new(),
            looked_at: BTreeSet::new(),
            object: 0,
            begun: 0,
            opened,
            from: None,
            pieces: 0,
            length: 0,
        }
    }

    /// Writes what was changed, and some of what there is.
    pub async fn keep(&mut self, manager: &mut Manager) -> Result<()> {
        // Who comes to be there is looked for at once while there are too few, and where all are only when time has passed.
        let is_better = self.on.len() < WANTED && self.is_better(manager);
        self.write(manager, BESIDE, is_better).await
    }

    /// The same when time has passed: more of what there is, and also where writing failed some time ago.
    pub async fn tick(&mut self, manager: &mut Manager) -> Result<()> {
        let is_better = self.is_better(manager);
        self.write(manager, AT_ONCE, is_better).await?;
        self.clear_some(manager);
        Ok(())
    }

    /// Whether there are none that are written.
    pub(crate) fn are_none(&self) -> bool {
        self.on.is_empty()
    }

    /// On an error nothing can be read from the engine, or it is older than copies. A target that cannot be written is none.
    async fn write(&mut self, manager: &mut Manager, pieces: usize, mut is_better: bool) -> Result<()> {
        if let Some(target) = self.beside.ahead() {
            return Err(manager.outdated(target)?);
        }
        let since = self.clock.now();
        let mut is_tried = false;
        while manager.is_open() {
            let is_long = self.from.is_none() && self.length > self.sizes.longer + 2 * self.pieces;
            if is_long {
                // All is written anew in any case: also where it could not be for a while.
                self.failed.values_mut().for_each(|failed| failed.pause.until = since);
            }
            let is_new = self.on.is_empty() || !manager.copying.is_on() || is_long || is_better;
            let is_late = is_tried || self.clock.now().since(since) >= 2 * PATIENCE;
            is_tried |= std::mem::take(&mut is_better);
            if is_new && !self.begin(manager, is_late).await? {
                manager.copying.wait();
                return Ok(());
            }
            if self.on.is_empty() {
                // One of them failed: others are tried.
                continue;
            }
            if self.changes(manager).await? && self.some(manager, pieces, since).await? {
                return Ok(());
            }
        }
        Ok(())
    }

    /// Targets that can have a copy now.
    fn candidates(&self, manager: &Manager) -> Vec<Candidate> {
        let now = self.clock.now();
        let mut there = manager.candidates(&self.beside.here(), self.beside.reaches_others());
        let is_left_alone = |failed: &Failed, one: &Candidate| {
            // What came while others were waited for was perhaps sent before.
            let is_back = one.node.is_none() || one.reported.is_some_and(|at| at >= failed.since + PATIENCE);
            // What was tried before its node reported says nothing of what it does afterwards.
            failed.is_heard == one.is_heard && (now < failed.pause.until || !is_back)
        };
        there.retain(|one| !self.failed.get(&one.target).is_some_and(|failed| is_left_alone(failed, one)));
        there
    }

    /// Whether copies are to be on other targets than they are. What is nearly written to its end is written to its end before, unless
    /// a target is away for which the next change would wait.
    fn is_better(&self, manager: &Manager) -> bool {
        if self.on.is_empty() {
            return false;
        }
        let there = self.candidates(manager);
        let of = |target: TargetId| there.iter().find(|one| one.target == target).copied();
        let now: Vec<Candidate> = self.on.iter().filter_map(|one| of(one.target)).collect();
        let is_any_away = now.len() < self.on.len();
        let best = choose(there);
        // Whoever is tried may keep an answer waiting.
        let may_be_more = self.clock.now() >= self.more.until && (self.from.is_none() || self.pieces <= CHEAP);
        is_any_away && !best.is_empty() || may_be_more && worth(&best) > worth(&now)
    }

    /// Begins an object on targets that can be written, if it is late only on those that answered; false if there is none. If one of them
    /// failed, it is on none.
    async fn begin(&mut self, manager: &mut Manager, is_late: bool) -> Result<bool> {
        let now = self.clock.now();
        if !self.on.is_empty() {
            self.answered = self.targets();
        }
        let mut there = self.candidates(manager);
        if now < self.none.until {
            there.clear();
        } else if is_late {
            // Somebody waits for that.
            there.retain(|one| self.answered.contains(&one.target));
            if there.is_empty() {
                self.none.begin(now);
            }
        }
        self.on = choose(there);
        if self.on.is_empty() {
            return Ok(false);
        }
        self.look(manager)?;
        let term = manager.term;
        if self.begun == 0 {
            // From now on what this opening writes is known to be of this engine.
            manager.note_written()?;
        }
        self.begun += 1;
        self.object = number(term, self.opened, self.begun);
        let (base, after) = manager.copying.begin(self.object, manager.written.batch, &self.targets());
        (self.from, self.pieces, self.length) = (Some(Vec::new()), 0, 0);
        let begun = self.clock.wall();
        let beginning = Record::Begin { cluster: manager.cluster(), term, base, after, begun };
        self.append(manager, &beginning).await?;
        Ok(true)
    }

    /// Has targets looked at that are to be written: on an error the engine is older than copies there, and not to be used any more. What
    /// cannot be looked at, or takes long, is written, and nothing is removed there before it was looked at.
    fn look(&mut self, manager: &mut Manager) -> Result<()> {
        let known = self.known(manager);
        for target in self.targets() {
            if self.looked_at.insert(target) {
                self.beside.look(self.site(manager, target), known);
            }
        }
        self.beside.ahead().map_or(Ok(()), |target| Err(manager.outdated(target)?))
    }

    /// How far copies go that are no newer than the engine.
    fn known(&self, manager: &Manager) -> Known {
        manager.known.beside(number(manager.term, self.opened, 0) >> COUNT_BITS)
    }

    /// Where they are written.
    fn targets(&self) -> Vec<TargetId> {
        self.on.iter().map(|one| one.target).collect()
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
            if !self.append(manager, &changes).await? {
                return Ok(false);
            }
        }
        manager.copying.kept(batch, &self.targets());
        Ok(true)
    }

    /// Writes some of what there is, and ends those before this one when all of it is there; false if a target failed. Nobody is answered
    /// meanwhile: it is one piece if that takes longer than [`LONGEST`] with what was written `since`.
    async fn some(&mut self, manager: &mut Manager, pieces: usize, since: Moment) -> Result<bool> {
        for done in 0..pieces {
            if done > 0 && self.clock.now().since(since) >= LONGEST {
                return Ok(true);
            }
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
            if !self.append(manager, &Record::Piece { pairs }).await? {
                return Ok(false);
            }
            self.pieces += self.length - before;
            self.from = next;
            if self.from.is_none() {
                if !self.append(manager, &Record::Whole { at: self.clock.wall() }).await? {
                    return Ok(false);
                }
                // Whoever opens this engine next looks at what is behind that, and not at all pieces.
                manager.note_written()?;
                let on = self.targets();
                manager.copying.whole(&on);
                self.failed.retain(|target, _| !on.contains(target));
                self.none.next = PAUSE;
                if on.len() >= WANTED {
                    self.more = Pause::new(AGAIN);
                }
                let others = self.candidates(manager).into_iter().map(|one| one.target);
                self.littered = others.filter(|target| !on.contains(target)).collect();
                on.into_iter().for_each(|target| self.clear(manager, target));
                self.clear_some(manager);
            }
        }
        Ok(true)
    }

    /// Removes what is not needed any more from some of those targets where it is not known whether there is any.
    fn clear_some(&mut self, manager: &mut Manager) {
        // Those before are what is read if this one is never written to its end.
        if self.from.is_some() {
            return;
        }
        let rest = self.littered.len().saturating_sub(LOOKED_AT);
        self.littered.split_off(rest).into_iter().for_each(|target| self.clear(manager, target));
    }

    fn clear(&self, manager: &mut Manager, target: TargetId) {
        let known = self.known(manager);
        self.beside.remove_before(self.site(manager, target), self.object, known);
    }

    fn site(&self, manager: &mut Manager, target: TargetId) -> Site {
        manager.site(target, self.beside.here().contains(&target), self.clock.wall().after(ALLOWED))
    }

    /// Appends to the object on all targets; false if one failed, which is none of them any more.
    async fn append(&mut self, manager: &mut Manager, record: &Record) -> Result<bool> {
        let bytes = Arc::new(record.to_bytes()?);
        self.length += bytes.len() as u64;
        let sites: Vec<Site> = self.on.iter().map(|one| self.site(manager, one.target)).collect();
        let asked = sites.into_iter().map(|site| self.within(self.beside.append(site, self.object, bytes.clone())));
        let answers = all(asked).await;
        if answers.iter().all(|is_done| *is_done) {
            (manager.written.object, manager.written.at) = (self.object, self.length);
            return Ok(true);
        }
        let now = self.clock.now();
        self.answered.clear();
        for (Candidate { target, is_heard, .. }, is_done) in self.on.iter().zip(answers) {
            if is_done {
                self.answered.push(*target);
                continue;
            }
            // What it has is not known when it is back.
            self.looked_at.remove(target);
            let first = || Failed { pause: Pause::new(AGAIN), since: now, is_heard: *is_heard };
            let failed = self.failed.entry(*target).or_insert_with(first);
            (failed.since, failed.is_heard) = (now, *is_heard);
            failed.pause.begin(now);
            // Who has not reported yet may be there in a moment.
            if *is_heard && now >= self.more.until {
                self.more.begin(now);
            }
        }
        // Another object goes on without it, and on another one that is there.
        self.on.clear();
        Ok(false)
    }

    /// Whether something was done in time.
    async fn within(&self, doing: Doing) -> bool {
        matches!(race(doing, self.clock.sleep(PATIENCE)).await, First::Left(Ok(())))
    }
}

/// The number of an object.
fn number(term: u64, opened: Timestamp, count: u64) -> u64 {
    let second = opened.since(Timestamp(0)).as_secs() % (1 << SECOND_BITS);
    (term << SECOND_BITS | second) << COUNT_BITS | count
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
pub(crate) fn is_copied(key: &[u8]) -> bool {
    !matches!(key.first(), None | Some(b'C' | b'H' | b'K' | b'M' | b'Q' | b'R' | b'T' | b'Z'))
}

#[cfg(test)]
pub(crate) mod tests;
