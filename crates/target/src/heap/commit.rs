//! Making, committing and opening a heap.

use super::allocation::{self, Allocation};
use super::allocator::Allocator;
use super::cache::Cache;
use super::output::{self, OutputCounters};
use super::root::{self, FIRST_UNIT, PAGE, PER_PAGE, PER_TABLE_UNIT, PageRecord, ROOT_LEN, Root};
use super::slot::Stamp;
use super::space::Space;
use super::tags::Tags;
use super::units::Units;
use super::{Heap, HeapOptions, UNIT, Work};
use crate::layout::Layout;
use crate::promise::Signal;
use crate::schedule::StreamId;
use crate::target::Core;
use forebay_env::{Buffer, Slab};
use forebay_model::block::crc32c;
use forebay_model::heap::{HeapSettings, RecordId};
use forebay_model::{Bytes, Error, Kind, Result};
use std::cell::RefCell;
use std::rc::Rc;

/// Where the parts of a heap lie, on the device.
struct Places<'a> {
    core: &'a Core,
    stream: StreamId,
    space: &'a Space,
}

impl Places<'_> {
    async fn read(&self, at: Bytes, length: Bytes) -> Result<Vec<u8>> {
        let mut bytes = Vec::with_capacity(length.0 as usize);
        for (place, length) in self.space.runs(at, length) {
            let (buffer, result) = self.core.disk.read(self.stream, place, Buffer::alone(length)?).await;
            result?;
            bytes.extend_from_slice(&buffer);
        }
        Ok(bytes)
    }

    async fn write(&self, at: Bytes, bytes: &[u8]) -> Result<()> {
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
    async fn root(&self, stamp: Stamp, which: usize) -> Result<Option<Root>> {
        let root = Root::decode(stamp, &self.read(root::root_at(which), ROOT_LEN).await?)?;
        match root {
            Some(root) if root.used_units > self.space.units() => {
                Err(Error::damaged(format!("a root of heap {} names more space than it has", stamp.heap)))
            }
            root => Ok(root),
        }
    }

    /// The allocators that a root names.
    async fn allocators(&self, stamp: Stamp, root: &Root) -> Result<Vec<Allocator>> {
        let mut allocators = Vec::new();
        for (page, record) in (0..).zip(&root.pages) {
            let bytes = self.read(Root::page_at(&root.table, page, record.side), Bytes(PAGE as u64)).await?;
            allocators.extend(root::decode_page(stamp, root, page, &bytes)?);
        }
        let used = allocation::used(&allocators, &root.table);
        if let Some(units) = used.windows(2).find(|units| units[0].end > units[1].start) {
            return Err(Error::damaged(format!(
                "the allocators of heap {} have unit {} in use twice",
                stamp.heap, units[1].start
            )));
        }
        Ok(allocators)
    }

    /// The newest commit that is whole, in which place it is, and what was found damaged. That an older one is not whole
    /// is not damage: the commit after the newest may have been under way, in its places.
    async fn newest(&self, stamp: Stamp) -> Result<(Root, Vec<Allocator>, usize, Vec<String>)> {
        let (mut roots, mut damage) = (Vec::new(), Vec::new());
        for which in 0..2 {
            match self.root(stamp, which).await {
                Ok(root) => roots.extend(root.map(|root| (root, which))),
                Err(error) if error.kind == Kind::Damaged => damage.push(format!(
                    "{} (or the power went while it was being written, and nobody was told that it was)",
                    error.message
                )),
                Err(error) => return Err(error),
            }
        }
        roots.sort_by_key(|(root, _)| std::cmp::Reverse(root.commit));
        for (root, which) in roots {
            match self.allocators(stamp, &root).await {
                Ok(allocators) => {
                    let opened = |what: String| format!("{what}: opened as of commit {}", root.commit);
                    let complaints = damage.into_iter().map(opened).collect();
                    return Ok((root, allocators, which, complaints));
                }
                Err(error) if error.kind == Kind::Damaged => damage.push(error.message),
                Err(error) => return Err(error),
            }
        }
        Err(Error::damaged(format!("no commit of heap {} is whole: {}", stamp.heap, damage.join("; "))))
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
    pub(crate) async fn format(core: &Rc<Core>, heap: u64, groups: &[u32], settings: HeapSettings) -> Result<()> {
        let space = Space::new(core.layout(), groups.to_vec());
        let places = Places { core, stream: core.next_stream(), space: &space };
        let root = Root {
            target: core.target_id(),
            heap,
            commit: 1,
            time: core.disk.env().clock.wall(),
            root: None,
            settings,
            used_units: FIRST_UNIT,
            allocators: 0,
            table: Vec::new(),
            pages: Vec::new(),
        };
        // What lay here before must not be taken for the other root.
        places.write(root::root_at(1), &[0; PAGE]).await?;
        places.write(root::root_at(0), &root.encode()).await?;
        core.disk.flush().await
    }

    /// Opens a heap: as it was at its last commit.
    pub(crate) async fn open(core: Rc<Core>, heap: u64, groups: Vec<u32>, options: HeapOptions) -> Result<Rc<Heap>> {
        let stamp = Stamp { target: core.target_id(), heap };
        let space = Space::new(core.layout(), groups);
        let stream = core.next_stream();
        let places = Places { core: &core, stream, space: &space };
        let (root, allocators, which, complaints) = places.newest(stamp).await?;
        let allocation = Allocation::new(root.settings, Units::new(root.used_units, space.units()), PER_TABLE_UNIT)
            .with(allocators, root.table.clone());
        // Ids that were given out and never committed are told from those that come now.
        let next_tag = core.disk.env().random.below(u64::from(RecordId::TAGS)) as u32;
        let work = Work {
            allocation,
            cache: Cache::new(options.buffers),
            space,
            last: root,
            which,
            next_tag,
            tags: Tags::new(),
            counters: OutputCounters::default(),
            writing: false,
            committing: false,
            failure: None,
            complaints,
        };
        let buffers = Slab::new(output::MOST, output::UNDER_WAY)?;
        let (work, changed) = (RefCell::new(work), Signal::default());
        let opened = Rc::new(Heap { core, stamp, stream, options, work, changed, buffers });
        // From now on both roots are those of what is there, so that slots that only an older one has can be used.
        let root = opened.root();
        opened.commit(root).await?;
        Ok(opened)
    }

    /// Makes everything that was put and freed durable, all of it or nothing: the number of the commit. `root` is what
    /// [`Heap::root`] says from then on; [`Kind::Missing`] if there is no such record.
    pub async fn commit(self: &Rc<Self>, root: Option<RecordId>) -> Result<u64> {
        self.gate().await?;
        if let Some(root) = root {
            self.know(root).await?;
            // Another commit may have begun meanwhile.
            self.gate().await?;
        }
        self.work.borrow_mut().committing = true;
        self.changed.until(|| !self.work.borrow().writing).await;
        let result = self.commit_alone(root).await;
        self.work.borrow_mut().committing = false;
        self.changed.notify();
        result.inspect_err(|error| self.fail(error))
    }

    async fn commit_alone(self: &Rc<Self>, root: Option<RecordId>) -> Result<u64> {
        let mut next = self.next_root(root);
        let all = self.work.borrow().cache.all();
        self.write_slots(&all).await?;
        let space = self.work.borrow().space.clone();
        let places = Places { core: &self.core, stream: self.stream, space: &space };
        for (at, page) in self.changed_pages(&mut next) {
            places.write(at, &page).await?;
            self.work.borrow_mut().counters.meta_writes += 1;
        }
        self.core.disk.flush().await?;
        let which = 1 - self.work.borrow().which;
        places.write(root::root_at(which), &next.encode()).await?;
        self.core.disk.flush().await?;
        let mut work = self.work.borrow_mut();
        let before = work.last.commit;
        work.allocation.committed(next.commit, before);
        (work.last, work.which) = (next, which);
        work.counters.commits += 1;
        work.counters.meta_writes += 1;
        Ok(work.last.commit)
    }

    /// What the next root says, but for the pages that will have changed.
    fn next_root(&self, root: Option<RecordId>) -> Root {
        let work = self.work.borrow();
        let allocators = work.allocation.count();
        let mut pages = work.last.pages.clone();
        pages.resize(allocators.div_ceil(PER_PAGE) as usize, PageRecord { side: true, crc: 0 });
        Root {
            commit: work.last.commit + 1,
            time: self.core.disk.env().clock.wall(),
            root: root.map(RecordId::number),
            used_units: work.allocation.units().used(),
            allocators,
            table: work.allocation.table().to_vec(),
            pages,
            ..work.last.clone()
        }
    }

    /// The pages of allocators that have changed, and where they go; `next` names them.
    fn changed_pages(&self, next: &mut Root) -> Vec<(Bytes, Vec<u8>)> {
        let work = self.work.borrow();
        let mut changed: Vec<u32> = work.allocation.changed().iter().map(|number| number / PER_PAGE).collect();
        changed.dedup();
        let encode = |page: u32| {
            let first = page * PER_PAGE;
            let allocators = (first..(first + PER_PAGE).min(next.allocators)).map(|number| work.allocation.get(number));
            let bytes = root::encode_page(self.stamp, first, allocators);
            let record = &mut next.pages[page as usize];
            *record = PageRecord { side: !record.side, crc: crc32c(&bytes) };
            (Root::page_at(&next.table, page, record.side), bytes)
        };
        changed.into_iter().map(encode).collect()
    }
}
