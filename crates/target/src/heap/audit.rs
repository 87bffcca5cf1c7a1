//! Looking over a heap without changing it: whether what a commit has is there, whole, and once.
//!
//! Every slot that the last commit has holds a record that says it lies there, and matches its checksum. Parts of chained
//! records, and records that keep commits, say so: one that nobody names is *leaked*, one that is named twice, or shares
//! its place with another one, is *used twice*. There must be none of either. Memory: 8 bytes for each part and each record
//! that keeps a commit, twice.
//!
//! Of a heap that is open, what describes the last commit is in memory: a scrub that finds a page of allocators or a root damaged has it
//! written anew. What looks damaged is so only if no commit has written it meanwhile.

use super::allocation::Slot;
use super::allocator::Allocator;
use super::chain::{Chain, ids};
use super::classes::{BLOCK_SLOTS, BLOCKS};
use super::gather;
use super::open::Closed;
use super::root::{self, PAGE, PER_PAGE, Root};
use super::slot::{self, Role, Stamp};
use super::space::Space;
use super::{Heap, Work, lost};
use crate::catalog::HeapRecord;
use crate::scrub::Pace;
use crate::target::Core;
use forebay_env::Buffer;
use forebay_model::block::crc32c;
use forebay_model::heap::{HeapMode, RecordId};
use forebay_model::scrub::Finding;
use forebay_model::{Bytes, Error, Kind, Result};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

/// Bytes that are read at once, about.
const STEP: u64 = 1 << 20;
/// Findings that are told one by one.
const MOST_TOLD: usize = 64;

/// What was found of a heap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct HeapFound {
    /// Its name.
    pub name: String,
    /// The commit that opening takes.
    pub commit: u64,
    /// Records that are whole, but for parts of chained ones and those that keep commits.
    pub records: u64,
    /// Slots that hold anything.
    pub slots: u64,
    /// Slots that hold what nobody names; also the parts of a list that is damaged.
    pub leaked: u64,
    /// Slots that are used twice.
    pub twice: u64,
    /// What is wrong with a root or a page, which opening does without.
    pub complaints: Vec<String>,
    /// What is damaged.
    pub damage: Vec<Finding>,
    /// How much that is: only so many are told.
    pub damaged: u64,
}

/// What slots say of one another.
#[derive(Default)]
struct Named {
    parts: Vec<RecordId>,
    commits: BTreeSet<RecordId>,
    found_parts: Vec<RecordId>,
    found_commits: Vec<RecordId>,
    /// Slots that hold nothing whole.
    bad: Vec<Slot>,
}

/// A run of slots of an allocator that is read at once: the first of them, how many, and where they lie.
struct Piece {
    allocator: u32,
    first: u16,
    size: u64,
    held: Vec<u16>,
    at: u64,
    length: u64,
}

/// The pieces of an allocator in which `held` slots lie.
fn pieces(number: u32, allocator: &Allocator, held: impl Fn(u16) -> bool) -> Vec<Piece> {
    let size = u64::from(allocator.class().slot());
    let per_piece = (STEP / size) as u16;
    let blocks = (0..BLOCKS as u16).filter(|block| allocator.starts()[usize::from(*block)] > 0);
    let firsts = blocks.flat_map(|block| {
        let begin = block * BLOCK_SLOTS as u16;
        let end = begin + BLOCK_SLOTS as u16;
        (begin..end).step_by(usize::from(per_piece)).map(move |first| (first, end.min(first + per_piece)))
    });
    let piece = |(first, end): (u16, u16)| {
        let held: Vec<u16> = (first..end).filter(|slot| held(*slot)).collect();
        let (from, to) = (*held.first()?, *held.last()? + 1);
        let (unit, within) = allocator.place(from).expect("its block has a place");
        let at = u64::from(unit) * super::UNIT.0 + within;
        Some(Piece { allocator: number, first: from, size, held, at, length: u64::from(to - from) * size })
    };
    firsts.filter_map(piece).collect()
}

impl Piece {
    /// Of the slots, those that hold whole records, as `have` is told, and those that do not: `bytes` begin where it does.
    fn look<'a>(
        &self,
        stamp: Stamp,
        bytes: &'a [u8],
        mut have: impl FnMut(RecordId, Role, &'a [u8]),
    ) -> Vec<(Slot, u64)> {
        let mut bad = Vec::new();
        for held in &self.held {
            let (slot, at) =
                (Slot { allocator: self.allocator, slot: *held }, u64::from(held - self.first) * self.size);
            match slot::find(stamp, slot.allocator, slot.slot, &bytes[at as usize..(at + self.size) as usize]) {
                Some((id, role, record)) => have(id, role, record),
                None => bad.push((slot, self.at + at)),
            }
        }
        bad
    }
}

fn rotted(slot: Slot) -> String {
    format!(
        "slot {} of allocator {} does not hold the record that it should: it rotted, or a write was lost",
        slot.slot, slot.allocator
    )
}

fn finding(name: &str, space: &Space, what: String, at: u64, size: u64) -> Finding {
    let (at, _) = space.runs(Bytes(at), Bytes(1))[0];
    let remedy = "reading it is refused, and all others are whole; free it and put it again from where it came, and look \
                  at the disk's own health";
    Finding { owner: name.to_owned(), what, at, length: Bytes(size), remedy: remedy.into() }
}

impl HeapFound {
    fn tell(&mut self, name: &str, space: &Space, what: String, at: u64, size: u64) {
        self.damaged += 1;
        if self.damage.len() < MOST_TOLD {
            self.damage.push(finding(name, space, what, at, size));
        }
    }
}

/// Looks over a heap that is not open.
pub(crate) async fn look_over(
    core: &Rc<Core>,
    HeapRecord { name, groups, stamp }: HeapRecord,
    progress: &mut dyn FnMut(Bytes),
) -> Result<HeapFound> {
    let space = &Space::new(core.layout(), groups);
    let name = &name;
    let closed = Closed { core, stamp, stream: core.next_stream(), space };
    let mut found = HeapFound { name: name.to_owned(), ..HeapFound::default() };
    let (root, allocators, _, complaints) = match closed.newest().await {
        Ok(newest) => newest,
        Err(error) if error.kind == Kind::Damaged => {
            found.damage.push(whole(name, space, error));
            found.damaged = 1;
            return Ok(found);
        }
        Err(error) => return Err(error),
    };
    (found.commit, found.complaints) = (root.commit, complaints);
    let mut named = Named::default();
    let mut deep = Vec::new();
    for (number, allocator) in (0..).zip(&allocators) {
        for piece in pieces(number, allocator, |slot| allocator.is_live(slot)) {
            let bytes = closed.read_pages(piece.at, piece.length).await?;
            let bad = piece.look(stamp, &bytes, |id, role, record| {
                found.slots += 1;
                match role {
                    Role::Record => found.records += 1,
                    Role::Part => named.found_parts.push(id),
                    Role::Commit => named.found_commits.push(id),
                }
                match id.is_chain().then(|| Chain::decode(id, record)) {
                    Some(Ok(list)) if list.levels == 0 => named.parts.extend(list.parts),
                    Some(Ok(list)) => deep.push(list),
                    _ => {}
                }
            });
            for (slot, at) in bad {
                found.tell(name, space, rotted(slot), at, piece.size);
                named.bad.push(slot);
            }
            progress(Bytes(piece.length));
        }
    }
    for list in deep {
        closed.name_lists(&allocators, list, &mut named).await?;
    }
    if let Err(error) = closed.name_commits(&allocators, &root, &mut named).await {
        found.complaints.push(error.message);
    }
    named.parts.sort_unstable();
    named.found_parts.sort_unstable();
    named.bad.sort_unstable();
    let twice = named.parts.windows(2).filter(|two| two[0] == two[1]).count();
    let is_leaked = |id: &&RecordId| named.parts.binary_search(id).is_err();
    let leaked = named.found_parts.iter().filter(is_leaked).count();
    let commits = named.found_commits.iter().filter(|id| !named.commits.contains(id)).count();
    (found.twice, found.leaked) = (twice as u64, (leaked + commits) as u64);
    for part in named.parts.iter().filter(|id| named.found_parts.binary_search(id).is_err()) {
        let slot = Slot::of(*part);
        let there = allocators.get(slot.allocator as usize);
        let place = there.and_then(|allocator| Some((allocator.place(slot.slot)?, allocator.class().slot())));
        let ((unit, within), size) = place.unwrap_or_default();
        // One that is held and does not hold what it should was told.
        if named.bad.binary_search(&slot).is_err() {
            let what = format!("part {part} of a chained record is not where its list says that it is");
            found.tell(name, space, what, u64::from(unit) * super::UNIT.0 + within, u64::from(size));
        }
    }
    Ok(found)
}

/// Nothing of a heap can be read.
pub(crate) fn whole(name: &str, space: &Space, error: Error) -> Finding {
    let (at, length) = space.runs(Bytes::ZERO, super::root::ROOT_LEN)[0];
    Finding {
        owner: name.to_owned(),
        what: error.message,
        at,
        length,
        remedy:
            "the heap cannot be opened; look at the disk's own health, and make it anew from where its records came"
                .into(),
    }
}

impl Closed<'_> {
    /// Bytes that need not begin or end where pages do.
    async fn read_pages(&self, at: u64, length: u64) -> Result<Vec<u8>> {
        let pages = gather::pages(&(at..at + length));
        let bytes = match self.read(Bytes(pages.start), Bytes(pages.end - pages.start)).await {
            Err(error) if error.kind == Kind::Damaged => self.read_by_pages(pages.clone()).await?,
            bytes => bytes?,
        };
        Ok(bytes[(at - pages.start) as usize..][..length as usize].to_vec())
    }

    /// Reads what can be read of these pages, and zeros where that is lost, which are no record.
    async fn read_by_pages(&self, pages: Range<u64>) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity((pages.end - pages.start) as usize);
        for page in pages.step_by(PAGE) {
            match self.read(Bytes(page), Bytes(PAGE as u64)).await {
                Err(error) if error.kind == Kind::Damaged => bytes.resize(bytes.len() + PAGE, 0),
                read => bytes.extend(read?),
            }
        }
        Ok(bytes)
    }

    /// What lies in the slot of a record of the newest commit.
    async fn record(&self, allocators: &[Allocator], id: RecordId, role: Role) -> Result<Vec<u8>> {
        let slot = Slot::of(id);
        let allocator = allocators.get(slot.allocator as usize).filter(|allocator| allocator.is_live(slot.slot));
        let place = allocator.and_then(|allocator| Some((allocator.class(), allocator.place(slot.slot)?)));
        let Some((class, (unit, within))) = place else {
            return Err(Error::damaged(format!("record {id} is named, and is not there")));
        };
        let bytes = self.read_pages(u64::from(unit) * super::UNIT.0 + within, u64::from(class.slot())).await?;
        slot::open(self.stamp, id, role, &bytes).map(<[u8]>::to_vec)
    }

    /// All parts of a list of lists are named; those of the record are returned.
    async fn name_lists(&self, allocators: &[Allocator], list: Chain, named: &mut Named) -> Result<Vec<RecordId>> {
        let mut parts = list.parts;
        for _ in 0..list.levels {
            named.parts.extend_from_slice(&parts);
            let mut bytes = Vec::new();
            for part in parts {
                match self.record(allocators, part, Role::Part).await {
                    Ok(record) => bytes.extend(record),
                    // It is told already.
                    Err(error) if matches!(error.kind, Kind::Damaged | Kind::Missing) => {}
                    Err(error) => return Err(error),
                }
            }
            parts = ids(&bytes);
        }
        named.parts.extend_from_slice(&parts);
        Ok(parts)
    }

    /// The records that keep commits, as far back as the root says that they can be read.
    async fn name_commits(&self, allocators: &[Allocator], root: &Root, named: &mut Named) -> Result<()> {
        let mut at = root.clone();
        let oldest = if root.settings.mode == HeapMode::Worm { 1 } else { root.oldest };
        while at.commit > oldest
            && let Some((_, id)) = at.towards(at.commit - 1)
        {
            named.commits.insert(id);
            let mut body = self.record(allocators, id, Role::Commit).await?;
            if id.is_chain() {
                let list = Chain::decode(id, &body)?;
                body = Vec::with_capacity(list.length as usize);
                // Its parts are named where it was found.
                let mut aside = Named::default();
                for part in self.name_lists(allocators, list, &mut aside).await? {
                    body.extend(self.record(allocators, part, Role::Part).await?);
                }
            }
            at = Root::decode_body(self.stamp, &body)?;
        }
        Ok(())
    }
}

/// What describes a commit is damaged.
fn described(name: &str, space: &Space, what: String, at: Bytes, remedy: &str) -> Finding {
    let (at, length) = space.runs(at, Bytes(PAGE as u64))[0];
    Finding { owner: name.to_owned(), what, at, length, remedy: remedy.into() }
}

impl Work {
    /// The last commit, if none is under way: whatever is so before and after a read of a root, was so all the while.
    fn at_rest(&self) -> Option<u64> {
        let rests = !self.committing && self.failure.is_none();
        rests.then_some(self.last.commit)
    }

    /// Whether these bytes are those of a root that may lie in this place: of the last commit, or, in the other place, the one before.
    fn is_root(&self, stamp: Stamp, which: usize, bytes: &[u8]) -> bool {
        match Root::decode(stamp, bytes) {
            Ok(Some(root)) => root == self.last || which != self.which && root.commit + 1 == self.last.commit,
            _ => false,
        }
    }
}

impl Heap {
    /// Looks over the slots of one allocator that commits have, beside all other work, and what describes it; whether there are more.
    pub(crate) async fn scrub(
        self: &Rc<Self>,
        name: &str,
        number: u32,
        pace: &mut Pace,
        found: &mut Vec<Finding>,
    ) -> Result<bool> {
        if number == 0 {
            for which in 0..2 {
                self.scrub_root(name, which, pace, found).await?;
            }
        }
        if number.is_multiple_of(PER_PAGE) {
            self.scrub_page(name, number / PER_PAGE, pace, found).await?;
        }
        let pieces = {
            let work = self.work.borrow();
            let Some(allocator) = work.allocation.find(number) else { return Ok(false) };
            pieces(number, allocator, |slot| allocator.is_committed(slot))
        };
        for piece in pieces {
            let bad = self.scrub_piece(&piece, pace).await?;
            // What was freed and put anew meanwhile is not damaged.
            let again = if bad.is_empty() { bad } else { self.scrub_piece(&piece, pace).await? };
            let work = self.work.borrow();
            if work.ended {
                // What is there is that of others.
                return Ok(false);
            }
            let is_there = |slot: Slot, at: u64| {
                let allocator = work.allocation.find(slot.allocator);
                allocator.is_some_and(|allocator| allocator.is_committed(slot.slot))
                    && gather::place(&work.allocation, slot).is_some_and(|lies| lies.start == at)
            };
            let damaged = again.iter().filter(|(slot, at)| is_there(*slot, *at));
            found.extend(damaged.map(|(slot, at)| finding(name, &work.space, rotted(*slot), *at, piece.size)));
        }
        Ok(true)
    }

    /// Looks at a root, and writes one anew that is damaged: the other one may be so, too, and the next commit writes over that first.
    async fn scrub_root(
        self: &Rc<Self>,
        name: &str,
        which: usize,
        pace: &mut Pace,
        found: &mut Vec<Finding>,
    ) -> Result<()> {
        if self.gate().await.is_err() {
            // Whoever uses it is told.
            return Ok(());
        }
        let Some(before) = self.work.borrow().at_rest() else { return Ok(()) };
        let at = root::root_at(which);
        let mut bytes = self.read_aside(at.0..at.0 + PAGE as u64, pace).await?;
        let (Bytes(rest), behind) = (Root::rest(&bytes), at.0 + PAGE as u64);
        if rest > 0 {
            bytes.extend(self.read_aside(behind..behind + rest, pace).await?);
        }
        let anew = {
            let work = &mut *self.work.borrow_mut();
            if work.at_rest() != Some(before) || work.is_root(self.stamp, which, &bytes) {
                return Ok(());
            }
            let remedy = "it was written anew, and no commit is lost; look at the disk's own health";
            let what =
                format!("root {which} is not that of a commit that it should be: it rotted, or a write went astray");
            found.push(described(name, &work.space, what, at, remedy));
            // No commit is begun beside it.
            work.committing = true;
            work.last.encode()
        };
        let written = self.write_and_see(&[(at, anew)]).await;
        let written = written.inspect_err(|error| self.fail(error));
        self.work.borrow_mut().committing = false;
        self.changed.notify();
        written
    }

    /// Looks at a page of allocators. One that is damaged is written by the next commits, in another place: at once, if nothing waits
    /// for its user to commit it.
    async fn scrub_page(
        self: &Rc<Self>,
        name: &str,
        page: u32,
        pace: &mut Pace,
        found: &mut Vec<Finding>,
    ) -> Result<()> {
        let named = self.work.borrow().last.pages.get(page as usize).copied();
        let Some(record) = named else { return Ok(()) };
        let at = Root::place_at(&self.work.borrow().last.table, record.place);
        // A read may fail, and the next one not.
        for _ in 0..2 {
            let lies = self.read_aside(at.0..at.0 + PAGE as u64, pace).await?;
            if crc32c(&lies) == record.crc {
                return Ok(());
            }
        }
        {
            let work = &mut *self.work.borrow_mut();
            // As long as the last commit names it, nobody writes there.
            if work.failure.is_some() || work.last.pages.get(page as usize) != Some(&record) {
                return Ok(());
            }
            let remedy = "nothing is lost as long as the heap is open, and it is written elsewhere by its next commit: at once, if \
                          nothing waited to be committed; look at the disk's own health";
            let what =
                format!("page {page} of the allocators does not match its checksum: it rotted, or a write went astray");
            found.push(described(name, &work.space, what, at, remedy));
            work.allocation.describe_anew(page * PER_PAGE);
        }
        // With the second one no root names it any more.
        for _ in 0..2 {
            if !self.commit_again().await? {
                break;
            }
        }
        Ok(())
    }

    /// Page by page, where not all of it can be read.
    async fn scrub_pages(&self, place: Bytes, length: Bytes, pace: &mut Pace, bytes: &mut Vec<u8>) -> Result<()> {
        for page in (place.0..(place + length).0).step_by(PAGE) {
            let buffer = Buffer::alone(Bytes(PAGE as u64))?;
            let (buffer, result) = self.core.disk.read_background(Bytes(page), buffer).await;
            pace.moved(Bytes(PAGE as u64)).await;
            match result.map_err(|error| lost::meaning(&self.core.disk, error)) {
                Err(error) if error.kind == Kind::Damaged => bytes.resize(bytes.len() + PAGE, 0),
                result => {
                    result?;
                    bytes.extend_from_slice(&buffer);
                }
            }
        }
        Ok(())
    }

    async fn scrub_piece(&self, piece: &Piece, pace: &mut Pace) -> Result<Vec<(Slot, u64)>> {
        let pages = gather::pages(&(piece.at..piece.at + piece.length));
        let from = (piece.at - pages.start) as usize;
        let bytes = self.read_aside(pages, pace).await?;
        Ok(piece.look(self.stamp, &bytes[from..], |_, _, _| ()))
    }

    /// Reads pages beside all other work: zeros where that cannot be, which are no record, nor anything else.
    async fn read_aside(&self, pages: Range<u64>, pace: &mut Pace) -> Result<Vec<u8>> {
        let runs = self.work.borrow().space.runs(Bytes(pages.start), Bytes(pages.end - pages.start));
        let mut bytes = Vec::with_capacity((pages.end - pages.start) as usize);
        for (place, length) in runs {
            let (buffer, result) = self.core.disk.read_background(place, Buffer::alone(length)?).await;
            pace.moved(length).await;
            match result {
                Ok(()) => bytes.extend_from_slice(&buffer),
                Err(_) => self.scrub_pages(place, length, pace, &mut bytes).await?,
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests;
