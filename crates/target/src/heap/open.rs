//! Making and opening a heap.

use super::allocation::{self, Allocation, Slot};
use super::allocator::{Allocator, WORDS};
use super::cache::Cache;
use super::commit::Retained;
use super::hot::Hot;
use super::output::{self, OutputCounters};
use super::places::Places;
use super::remains::Named;
use super::root::{self, FIRST_UNIT, PAGE, PER_PAGE, Root};
use super::slot::{Role, Stamp};
use super::space::Space;
use super::tags::Tags;
use super::units::Units;
use super::view::Eye;
use super::{Heap, HeapOptions, UNIT, Work, lost};
use crate::catalog::HeapRecord;
use crate::gate::Gate;
use crate::layout::Layout;
use crate::promise::Signal;
use crate::schedule::StreamId;
use crate::target::Core;
use forebay_env::{Buffer, Slab};
use forebay_model::heap::{HeapMode, HeapSettings, RecordId};
use forebay_model::{Bytes, Error, Kind, Result, Timestamp};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// A heap that is not open.
pub(crate) struct Closed<'a> {
    pub core: &'a Core,
    pub stamp: Stamp,
    pub stream: StreamId,
    pub space: &'a Space,
}

impl Closed<'_> {
    pub(super) async fn read(&self, at: Bytes, length: Bytes) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length.0 as usize);
        for (place, length) in self.space.runs(at, length) {
            let (buffer, result) = lost::read(&self.core.disk, self.stream, place, Buffer::alone(length)?).await;
            result?;
            bytes.extend_from_slice(&buffer);
        }
        Ok(bytes)
    }

    /// Writes bytes from a place in it on; they are not durable yet.
    pub(crate) async fn write(&self, at: Bytes, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        for (place, length) in self.space.runs(at, Bytes(bytes.len() as u64)) {
            let (here, behind) = rest.split_at(length.0 as usize);
            let mut buffer = Buffer::alone(length)?;
            buffer.copy_from_slice(here);
            self.core.disk.write(self.stream, place, buffer).await.1?;
            rest = behind;
        }
        Ok(())
    }

    /// The root in one of the two places, if there ever was one.
    async fn root(&self, which: usize) -> Result<Option<Root>> {
        let (at, first) = (root::root_at(which), Bytes(PAGE as u64));
        let mut bytes = self.read(at, first).await?;
        // Most of its place was never written: what cannot be read there is no part of it.
        let rest = Root::rest(&bytes);
        if rest > Bytes::ZERO {
            bytes.extend(self.read(at + first, rest).await?);
        }
        match Root::decode(self.stamp, &bytes)? {
            Some(root) if root.used_units > self.space.units() => {
                Err(Error::damaged(format!("a root of heap {} names more space than it has", self.stamp.heap)))
            }
            root => Ok(root),
        }
    }

    /// The allocators that a root names.
    async fn allocators(&self, root: &Root) -> Result<Vec<Allocator>> {
        let mut allocators = Vec::new();
        for (page, record) in (0..).zip(&root.pages) {
            let bytes = self.read(Root::place_at(&root.table, record.place), Bytes(PAGE as u64)).await?;
            allocators.extend(root::decode_page(self.stamp, root, page, &bytes)?);
        }
        let used = allocation::used(&allocators, &root.table);
        if let Some(units) = used.windows(2).find(|units| units[0].end > units[1].start) {
            return Err(Error::damaged(format!(
                "the allocators of heap {} have unit {} in use twice",
                self.stamp.heap, units[1].start
            )));
        }
        Ok(allocators)
    }

    /// The newest commit that is whole, in which place it is, and what was found damaged. That an older one is not whole
    /// is not damage: the commit after the newest may have been under way, in its places.
    pub(crate) async fn newest(&self) -> Result<(Root, Vec<Allocator>, usize, Vec<String>)> {
        let (mut roots, mut damage, mut is_missing) = (Vec::new(), Vec::new(), false);
        for which in 0..2 {
            match self.root(which).await {
                Ok(Some(root)) => roots.push((root, which)),
                Ok(None) => is_missing = true,
                Err(error) if error.kind == Kind::Damaged => damage.push(format!(
                    "{} (or the power went while it was being written, and nobody was told that it was)",
                    error.message
                )),
                Err(error) => return Err(error),
            }
        }
        if is_missing && roots.iter().any(|(root, _): &(Root, usize)| root.commit > 1) {
            // The second commit is the first one that goes to the other place.
            damage.push(format!("a root of heap {} is not there any more", self.stamp.heap));
        }
        roots.sort_by_key(|(root, _)| std::cmp::Reverse(root.commit));
        for (root, which) in roots {
            match self.allocators(&root).await {
                Ok(allocators) => {
                    let opened = |what: String| format!("{what}: opened as of commit {}", root.commit);
                    let complaints = damage.into_iter().map(opened).collect();
                    return Ok((root, allocators, which, complaints));
                }
                Err(error) if error.kind == Kind::Damaged => damage.push(error.message),
                Err(error) => return Err(error),
            }
        }
        Err(Error::damaged(format!("no commit of heap {} is whole: {}", self.stamp.heap, damage.join("; "))))
    }
}

impl Heap {
    /// Whether a heap can lie in groups of this layout: its roots have to fit the first of them.
    pub(crate) fn check_groups(layout: &Layout) -> Result<()> {
        let roots = UNIT * u64::from(FIRST_UNIT);
        if layout.data(true) < roots {
            return Err(Error::usage(format!(
                "a heap needs groups of {roots} at least, and those of this device have {}; use a larger device (nothing \
                 was changed)",
                layout.data(true)
            )));
        }
        Ok(())
    }

    /// Writes the first root of a heap on `groups`, durably.
    pub(crate) async fn format(core: &Rc<Core>, stamp: Stamp, groups: &[u32], settings: HeapSettings) -> Result<()> {
        let space = &Space::new(core.layout(), groups.to_vec());
        let closed = Closed { core, stamp, stream: core.next_stream(), space };
        let root = Root {
            target: stamp.target,
            heap: stamp.heap,
            commit: 1,
            time: core.disk.env().clock.wall(),
            root: None,
            settings,
            used_units: FIRST_UNIT,
            allocators: 0,
            table: Vec::new(),
            pages: Vec::new(),
            places: 0,
            oldest: 1,
            archived: 0,
            archive_slots: 0,
            ladder: Vec::new(),
        };
        // What lay here before must not be taken for the other root.
        closed.write(root::root_at(1), &[0; PAGE]).await?;
        closed.write(root::root_at(0), &root.encode()).await?;
        core.disk.flush().await
    }

    /// Opens a heap: as it was at its last commit.
    pub(crate) async fn open(
        core: Rc<Core>,
        number: u64,
        HeapRecord { groups, stamp, .. }: HeapRecord,
        options: HeapOptions,
    ) -> Result<Rc<Heap>> {
        let space = Space::new(core.layout(), groups);
        let stream = core.next_stream();
        let closed = Closed { core: &core, stamp, stream, space: &space };
        let (root, allocators, which, complaints) = closed.newest().await?;
        let allocation = Allocation::new(root.settings, Units::new(root.used_units, space.units()))
            .on(core.disk.rotates())
            .with(allocators, root.table.clone());
        // Ids that were given out and never committed are told from those that come now.
        let next_tag = core.disk.env().random.below(u64::from(RecordId::TAGS)) as u32;
        let work = Work {
            allocation,
            places: Places::new(if root.settings.mode == HeapMode::Worm { root.places } else { 0 }),
            cache: Cache::new(options.buffers),
            hot: Hot::new(options.read_buffers),
            space,
            last: root,
            which,
            next_tag,
            tags: Tags::new(),
            views: BTreeMap::new(),
            seen: BTreeMap::new(),
            retained: VecDeque::new(),
            going: Vec::new(),
            reserved: Vec::new(),
            owns: Vec::new(),
            counters: OutputCounters::default(),
            writing: false,
            committing: false,
            is_changed: false,
            failure: None,
            ended: false,
            complaints,
            watch: None,
            freed_damaged: (0, 0),
            rewritten: 0,
        };
        let buffers = Slab::new(output::MOST, output::UNDER_WAY)?;
        let (work, changed) = (RefCell::new(work), Signal::default());
        let opened =
            Rc::new(Heap { core, number, stamp, stream, options, work, changed, growing: Gate::default(), buffers });
        opened.recall().await?;
        // From now on both roots are those of what is there, so that slots that only an older one has can be used.
        let (other, root) = {
            let work = opened.work.borrow();
            (1 - work.which, work.last.encode())
        };
        opened.write_and_see(&[(root::root_at(other), root)]).await?;
        opened.reserve().await?;
        Ok(opened)
    }

    /// Finds what the commits have that are kept: their slots and places must not be used.
    async fn recall(self: &Rc<Self>) -> Result<()> {
        let now = self.core.disk.env().clock.wall();
        let (last, mut live) = {
            let work = &mut *self.work.borrow_mut();
            work.places.set_units(work.last.table.len());
            work.last.pages.iter().for_each(|page| work.places.take_this(page.place));
            let allocators = 0..work.last.allocators;
            let live: Vec<_> = allocators.map(|number| *work.allocation.get(number).live()).collect();
            (work.last.clone(), live)
        };
        if last.settings.mode == HeapMode::Worm {
            return Ok(());
        }
        let mut newer = last.clone();
        let mut is_over = false;
        while newer.commit > last.oldest {
            match self.recall_one(&last, &newer, &mut live, &mut is_over, now).await {
                Ok(older) => newer = older,
                Err(error) if error.kind == Kind::Damaged => {
                    if !std::mem::replace(&mut is_over, true) {
                        let lost =
                            format!("{}: commits before {} cannot be read any more", error.message, newer.commit);
                        self.work.borrow_mut().complaints.push(lost);
                    }
                    match self.recall_past(&newer, last.oldest).await? {
                        Some(older) => newer = older,
                        None => break,
                    }
                }
                Err(error) => return Err(error),
            }
        }
        let work = &mut *self.work.borrow_mut();
        let found = work.retained.iter().map(|kept| kept.slots.len()).sum::<usize>() + work.going.len();
        let lost = last.archive_slots.saturating_sub(found as u64);
        if lost > 0 {
            work.complaints.push(format!(
                "{lost} slots in which commits of heap {} were kept cannot be found any more, since what names them is \
                 damaged: they stay taken",
                self.stamp.heap
            ));
        }
        Ok(())
    }

    /// The next older commit that can be found where the record which keeps the one before `newer` is damaged, but for what
    /// only that record names. The slots of both go.
    async fn recall_past(self: &Rc<Self>, newer: &Root, oldest: u64) -> Result<Option<Root>> {
        let mut named = newer.ladder.clone();
        named.retain(|(commit, _)| (oldest..newer.commit).contains(commit));
        named.sort_unstable();
        named.dedup();
        for (commit, id) in named.into_iter().rev() {
            let id = RecordId::from_number(id);
            let found = self.kept_as(commit, id).await;
            let remains = match &found {
                Ok(_) => self.slots_of(&Eye::Live, id, Role::Commit).await,
                Err(error) if error.kind == Kind::Damaged => {
                    self.remains(&Eye::Live, id, Role::Commit, Named::Surely).await.map(|remains| remains.slots)
                }
                Err(error) => return Err(error.clone()),
            };
            match remains {
                Ok(slots) => self.work.borrow_mut().going.extend(slots),
                Err(error) if matches!(error.kind, Kind::Damaged | Kind::Missing) => {}
                Err(error) => return Err(error),
            }
            if let Ok(older) = found {
                return Ok(Some(older));
            }
        }
        Ok(None)
    }

    /// The commit before `newer`; `live` has the slots of that one, and then of this.
    async fn recall_one(
        self: &Rc<Self>,
        last: &Root,
        newer: &Root,
        live: &mut [[u64; WORDS]],
        is_over: &mut bool,
        now: Timestamp,
    ) -> Result<Root> {
        let older = self.kept_root(newer, newer.commit - 1).await?;
        let id = newer.towards(older.commit).map(|(_, id)| id).expect("it was found there");
        let mut kept = Retained { commit: older.commit, superseded: newer.time, slots: Vec::new() };
        kept.slots = self.slots_of(&Eye::Live, id, Role::Commit).await?;
        *is_over |= kept.is_over(now, last.settings.keep);
        let (mut freed, mut places) = (Vec::new(), Vec::new());
        if !*is_over {
            match self.recall_pages(last, newer, &older, live).await {
                Ok(found) => (freed, places) = found,
                Err(error) if error.kind == Kind::Damaged => {
                    let lost = format!("{}: commits before {} cannot be read any more", error.message, newer.commit);
                    self.work.borrow_mut().complaints.push(lost);
                    *is_over = true;
                }
                Err(error) => return Err(error),
            }
        }
        let work = &mut *self.work.borrow_mut();
        if *is_over {
            // Nobody can begin to look at it.
            work.going.extend(kept.slots);
            return Ok(older);
        }
        work.allocation.keep(newer.commit, freed);
        places.iter().for_each(|place| work.places.take_this(*place));
        work.places.replaced(newer.commit, places, true);
        work.retained.push_front(kept);
        Ok(older)
    }

    /// What a commit has that the next one has not: slots, and places of pages. `live` has the slots of the next one, and
    /// then of this.
    async fn recall_pages(
        self: &Rc<Self>,
        last: &Root,
        newer: &Root,
        older: &Root,
        live: &mut [[u64; WORDS]],
    ) -> Result<(Vec<Slot>, Vec<u32>)> {
        let (mut freed, mut places) = (Vec::new(), Vec::new());
        for (page, record) in (0..).zip(&older.pages) {
            if newer.pages.get(page as usize) == Some(record) {
                continue;
            }
            let bytes = self.read_page(last, record.place).await?;
            places.push(record.place);
            for (number, allocator) in (page * PER_PAGE..).zip(root::decode_page(self.stamp, older, page, &bytes)?) {
                let newer = &mut live[number as usize];
                freed.extend(only_in(allocator.live(), newer).map(|slot| Slot { allocator: number, slot }));
                *newer = *allocator.live();
            }
        }
        Ok((freed, places))
    }
}

/// Slots that are in one, and not in the other.
fn only_in<'a>(one: &'a [u64; WORDS], other: &'a [u64; WORDS]) -> impl Iterator<Item = u16> + use<> {
    let words = one.iter().zip(other).map(|(one, other)| one & !other);
    let words: Vec<(usize, u64)> = words.enumerate().filter(|(_, word)| *word != 0).collect();
    words
        .into_iter()
        .flat_map(|(nth, word)| (0..64).filter(move |bit| word >> bit & 1 == 1).map(move |bit| (nth * 64 + bit) as u16))
}
