//! Reading records: from the write cache, from those that were read lately, or from the device; many of them sorted by
//! where they lie, in as few reads as gaps allow.

use super::gather;
use super::slot::{self, Role};
use super::view::Eye;
use super::{Heap, lost};
use crate::coalesce;
use forebay_env::Buffer;
use forebay_model::heap::RecordId;
use forebay_model::{Bytes, Error, Kind, Result};
use std::ops::Range;
use std::rc::Rc;

/// Reads under way at once for one who wants many records.
const UNDER_WAY: usize = 8;
/// Records that are read at once to know whether they are there: 16 MiB of memory at most.
const AT_ONCE: usize = 2048;
/// Bytes between two records that are read for nothing rather than passed over: with an arm, and without.
const GAPS: [u64; 2] = [256 << 10, 16 << 10];

/// What is known of a record before it is read.
enum Found {
    Here(Vec<u8>),
    Lies(Range<u64>),
}

impl Heap {
    /// The bytes of a record. [`forebay_model::Kind::Missing`] if there is none of this id,
    /// [`forebay_model::Kind::Damaged`] if it is not whole.
    pub async fn get(self: &Rc<Self>, id: RecordId) -> Result<Vec<u8>> {
        self.get_as(&Eye::Live, id, Role::Record).await
    }

    /// The bytes of records, each as [`Heap::get`] has it, in the order of the ids. They are read by where they lie,
    /// neighbours together.
    pub async fn get_many(self: &Rc<Self>, ids: &[RecordId]) -> Vec<Result<Vec<u8>>> {
        self.get_many_as(&Eye::Live, ids).await
    }

    pub(super) async fn get_as(self: &Rc<Self>, eye: &Eye, id: RecordId, role: Role) -> Result<Vec<u8>> {
        let bytes = self.bring(eye, id, role).await?;
        if id.is_chain() { self.bring_chain(eye, id, &bytes).await } else { Ok(bytes) }
    }

    pub(super) async fn get_many_as(self: &Rc<Self>, eye: &Eye, ids: &[RecordId]) -> Vec<Result<Vec<u8>>> {
        let mut all = self.bring_many(eye, ids, Role::Record).await;
        for (id, result) in ids.iter().zip(&mut all) {
            if id.is_chain()
                && let Ok(bytes) = result
            {
                *result = self.bring_chain(eye, *id, bytes).await;
            }
        }
        all
    }

    /// What lies in the slot of a record.
    pub(super) async fn bring(&self, eye: &Eye, id: RecordId, role: Role) -> Result<Vec<u8>> {
        let lies = match self.look(eye, id, role)? {
            Found::Here(bytes) => return Ok(bytes),
            Found::Lies(lies) => lies,
        };
        let pages = gather::pages(&lies);
        let mut found = None;
        self.read(pages.clone(), |at, bytes| found = Some(cut(&lies, at, bytes, found.take()))).await?;
        self.open_record(eye, id, role, &found.unwrap_or_default())
    }

    /// What lies in the slots of records.
    pub(super) async fn bring_many(self: &Rc<Self>, eye: &Eye, ids: &[RecordId], role: Role) -> Vec<Result<Vec<u8>>> {
        let mut results: Vec<Result<Vec<u8>>> = Vec::with_capacity(ids.len());
        let mut lying: Vec<(Range<u64>, usize)> = Vec::new();
        for (nth, id) in ids.iter().enumerate() {
            match self.look(eye, *id, role) {
                Ok(Found::Here(bytes)) => results.push(Ok(bytes)),
                Ok(Found::Lies(lies)) => {
                    lying.push((lies, nth));
                    results.push(Ok(Vec::new()));
                }
                Err(error) => results.push(Err(error)),
            }
        }
        let gap = GAPS[usize::from(!self.core.disk.rotates())];
        let pieces = lying.into_iter().map(|(lies, nth)| (lies.clone(), (lies, nth))).collect();
        let runs = coalesce::runs(pieces, |run, next, _| {
            next.start <= run.at.end + gap && next.end - run.at.start <= gather::LONGEST
        });
        let mut under_way = std::collections::VecDeque::new();
        for run in runs {
            if under_way.len() == UNDER_WAY
                && let Some(first) = under_way.pop_front()
            {
                self.put_results(eye, ids, role, first, &mut results).await;
            }
            let heap = self.clone();
            under_way.push_back(self.core.disk.env().spawner.spawn(async move { heap.bring_run(run.pieces).await }));
        }
        for run in under_way {
            self.put_results(eye, ids, role, run, &mut results).await;
        }
        results
    }

    /// The bytes of slots that lie near each other.
    async fn bring_run(self: Rc<Self>, run: Vec<(Range<u64>, usize)>) -> Vec<(usize, Result<Vec<u8>>)> {
        let end = run.iter().map(|(lies, _)| lies.end).max().unwrap_or(0);
        let pages = gather::pages(&(run[0].0.start..end));
        let mut found: Vec<Option<Vec<u8>>> = vec![None; run.len()];
        let read = self
            .read(pages, |at, bytes| {
                for ((lies, _), found) in run.iter().zip(&mut found) {
                    *found = Some(cut(lies, at, bytes, found.take()));
                }
            })
            .await;
        let result = |((_, nth), found): (&(Range<u64>, usize), Option<Vec<u8>>)| {
            (*nth, read.clone().map(|()| found.unwrap_or_default()))
        };
        run.iter().zip(found).map(result).collect()
    }

    async fn put_results(
        self: &Rc<Self>,
        eye: &Eye,
        ids: &[RecordId],
        role: Role,
        run: impl Future<Output = Vec<(usize, Result<Vec<u8>>)>>,
        results: &mut [Result<Vec<u8>>],
    ) {
        let run = run.await;
        let is_one = run.len() == 1;
        for (nth, read) in run {
            results[nth] = match read {
                Ok(bytes) => self.open_record(eye, ids[nth], role, &bytes),
                // It may be the neighbours that cannot be read.
                Err(_) if !is_one => self.bring(eye, ids[nth], role).await,
                Err(error) => Err(error),
            };
        }
    }

    /// Where a record is.
    fn look(&self, eye: &Eye, id: RecordId, role: Role) -> Result<Found> {
        let work = &mut *self.work.borrow_mut();
        let slot = work.check(eye, id, role)?;
        // What a commit has may have been freed since: no cache knows it any more, or knows it as it was.
        let here = work.cache.read(slot).or_else(|| work.hot.get(slot));
        match here.map(|bytes| slot::open(self.stamp, id, role, bytes)) {
            Some(Ok(bytes)) => Ok(Found::Here(bytes.to_vec())),
            Some(Err(error)) => Err(error),
            None => Ok(Found::Lies(gather::extent(&work.allocation, slot))),
        }
    }

    /// The record in a slot that was read.
    fn open_record(&self, eye: &Eye, id: RecordId, role: Role, bytes: &[u8]) -> Result<Vec<u8>> {
        let work = &mut *self.work.borrow_mut();
        // It may have been freed meanwhile, and its slot be another's.
        let slot = work.check(eye, id, role)?;
        let found = slot::open(self.stamp, id, role, bytes)?.to_vec();
        if !matches!(eye, Eye::At(_)) {
            work.tags.set(slot, slot::distinction(id, role));
            work.hot.put(slot, &bytes[..slot::end(bytes)]);
        }
        Ok(found)
    }

    /// Sees to it that there are records of these ids: those are read that nobody did since opening.
    pub(super) async fn know(self: &Rc<Self>, eye: &Eye, ids: &[RecordId], role: Role) -> Result<()> {
        self.find_damaged(eye, ids, role).await?.pop().map_or(Ok(()), |(_, error)| Err(error))
    }

    /// As [`Heap::know`], for whom it is all the same whether they are whole: those that are not, and why.
    pub(super) async fn find_damaged(
        self: &Rc<Self>,
        eye: &Eye,
        ids: &[RecordId],
        role: Role,
    ) -> Result<Vec<(RecordId, Error)>> {
        let mut unknown = Vec::new();
        {
            let work = self.work.borrow();
            for id in ids {
                if work.tags.get(work.check(eye, *id, role)?).is_none() && !work.is_last_root(*id, role) {
                    unknown.push(*id);
                }
            }
        }
        let mut damaged = Vec::new();
        for ids in unknown.chunks(AT_ONCE) {
            for (id, record) in ids.iter().zip(self.bring_many(eye, ids, role).await) {
                match record {
                    Err(error) if error.kind == Kind::Damaged => damaged.push((*id, error)),
                    record => drop(record?),
                }
            }
        }
        Ok(damaged)
    }

    /// Reads pages, and hands over what each place on the device has of them, with where it begins in the heap.
    pub(super) async fn read(&self, pages: Range<u64>, mut have: impl FnMut(u64, &[u8])) -> Result<()> {
        let runs = self.work.borrow().space.runs(Bytes(pages.start), Bytes(pages.end - pages.start));
        let mut at = pages.start;
        for (place, length) in runs {
            let mut buffer = match self.buffers.try_take() {
                Some(buffer) => buffer,
                None => Buffer::alone(length)?,
            };
            buffer.set_len(length.0 as usize);
            let (buffer, result) = lost::read(&self.core.disk, self.stream, place, buffer).await;
            result
                .map_err(|error| Error { message: format!("heap {}: {}", self.stamp.heap, error.message), ..error })?;
            have(at, &buffer);
            at += length.0;
        }
        Ok(())
    }
}

/// Those of the bytes that begin `at` which are those of a slot, behind what there was of it already.
fn cut(lies: &Range<u64>, at: u64, bytes: &[u8], before: Option<Vec<u8>>) -> Vec<u8> {
    let mut found = before.unwrap_or_default();
    let end = at + bytes.len() as u64;
    let here = lies.start.clamp(at, end)..lies.end.clamp(at, end);
    found.extend_from_slice(&bytes[(here.start - at) as usize..(here.end - at) as usize]);
    found
}
