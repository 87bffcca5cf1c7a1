//! Ours: objects on targets, one for each disk, whose small durable writes go to the log nearest to where the arm is. On
//! several disks each file has a component object on each of them, striped as files are.

use super::array::split;
use super::content::Content;
use super::disks::Disks;
use super::place::{BLOCK, SmallWrite};
use super::system::{Doing, System, Tally};
use crate::disk::Op;
use crate::fresh;
use forebay_env::{Env, Spawner};
use forebay_model::{Bytes, Error, ObjectId, Result};
use forebay_target::object::{CACHE, Placement};
use forebay_target::schedule::StreamId;
use forebay_target::{Objects, Target};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// The volume of all objects.
const VOLUME: u64 = 1;
/// What the streaming user reads or writes at once on each disk, and how much of it is under way.
const PIECE: Bytes = Bytes::mib(4);
const DEPTH: usize = 2;
/// Of the streaming user's files no more than this part is kept in memory, so that nobody finds them there.
const KEPT: u64 = 4;

/// One disk's.
struct Disk {
    target: Rc<Target>,
    stream: StreamId,
}

impl Disk {
    fn objects(&self) -> &Rc<Objects> {
        self.target.objects()
    }
}

pub(super) struct Nearest {
    disks: Vec<Disk>,
    spawner: Spawner,
    content: Content,
    /// Where the file of the streaming user begins, for each that was met.
    files: RefCell<BTreeMap<u64, ObjectId>>,
    /// How long the targets were at work for themselves before they were used.
    before: Cell<Duration>,
}

impl Nearest {
    /// Formats the disks, and writes the streaming user's files.
    pub(super) async fn build(env: &Env, disks: &Disks, streamed: &[Range<u64>]) -> Result<Rc<dyn System>> {
        let mut nearest = Nearest {
            disks: Vec::new(),
            spawner: env.spawner.clone(),
            content: Content::new(PIECE.0 as usize, disks.real),
            files: RefCell::default(),
            before: Cell::default(),
        };
        let shortest = streamed.iter().map(|range| range.end - range.start).min();
        let cache = shortest.map_or(CACHE, |length| CACHE.min(Bytes(length / KEPT / disks.each.len() as u64)));
        for env in &disks.each {
            let disk = open(env.clone(), disks.measuring).await?;
            disk.objects().set_cache(cache);
            nearest.disks.push(disk);
        }
        let nearest = Rc::new(nearest);
        for range in streamed {
            nearest.file(range.start).await?;
            super::users::write(&nearest, range).await?;
        }
        nearest.settle().await?;
        nearest.before.set(nearest.upkeep());
        Ok(Rc::new(nearest) as Rc<dyn System>)
    }

    /// How long the targets were at work for themselves: the one that was so for longest.
    fn upkeep(&self) -> Duration {
        self.disks.iter().map(|disk| disk.objects().counters().upkeep).max().unwrap_or_default()
    }

    /// The object that stands for the file that begins at `start` of the disks; made when it is first met.
    async fn file(&self, start: u64) -> Result<ObjectId> {
        let id = ObjectId { volume: VOLUME, object: start / BLOCK.0 + 1 };
        if self.files.borrow_mut().insert(start, id).is_none() {
            // On all disks at once: who comes next finds it being made on each.
            let create = |disk: &Disk| {
                let objects = disk.objects().clone();
                self.spawner.spawn(async move { objects.create(id, Vec::new()).await })
            };
            let under_way: Vec<_> = self.disks.iter().map(create).collect();
            for created in under_way {
                created.await?;
            }
        }
        Ok(id)
    }

    /// The file in which the streaming user's byte `at` lies, and where in it.
    fn streamed(&self, at: Bytes) -> Result<(ObjectId, u64)> {
        let files = self.files.borrow();
        let (start, id) = files.range(..=at.0).next_back().ok_or_else(|| Error::missing("no file lies there"))?;
        Ok((*id, at.0 - start))
    }

    /// The parts of a range of a file on each disk.
    fn parts(&self, at: u64, length: u64) -> Vec<Vec<(u64, u64)>> {
        let mut parts = vec![Vec::new(); self.disks.len()];
        split(self.disks.len() as u64, at, length, &mut parts);
        parts
    }

    /// Moves a range of a file, on all disks at once.
    async fn piece(self: Rc<Self>, op: Op, id: ObjectId, at: u64, length: u64) -> Result<u64> {
        let mut under_way = Vec::new();
        for (disk, parts) in self.parts(at, length).into_iter().enumerate() {
            let this = self.clone();
            under_way.push(self.spawner.spawn(async move {
                let Disk { target, stream } = &this.disks[disk];
                let mut moved = 0;
                for (at, length) in parts {
                    moved += match op {
                        Op::Write => {
                            let bytes = this.content.at(at, length as usize);
                            target.objects().write(*stream, id, at, bytes, Placement::Home).await?;
                            length
                        }
                        _ => target.objects().read(*stream, id, at, length).await?.len() as u64,
                    };
                }
                Ok(moved)
            }));
        }
        let mut moved = 0;
        for part in under_way {
            moved += part.await?;
        }
        Ok(moved)
    }
}

/// Formats a disk, by what it measures, and opens it.
async fn open(env: Env, measuring: Duration) -> Result<Disk> {
    let profile = fresh::measured(&env, measuring).await?;
    let target = fresh::target(env, profile, VOLUME).await?;
    let stream = target.stream();
    Ok(Disk { target, stream })
}

impl System for Rc<Nearest> {
    fn stream(&self, op: Op, at: Bytes, length: Bytes, moved: Rc<Cell<u64>>) -> Doing {
        let this = self.clone();
        Box::pin(async move {
            let (id, first) = this.streamed(at)?;
            let (mut from, end) = (first, first + length.0);
            let piece = PIECE.0 * this.disks.len() as u64;
            let mut under_way: VecDeque<forebay_env::Task<Result<u64>>> = VecDeque::new();
            loop {
                while from < end && under_way.len() < DEPTH {
                    let part = piece.min(end - from);
                    under_way.push_back(this.spawner.spawn(this.clone().piece(op, id, from, part)));
                    from += part;
                }
                let Some(next) = under_way.pop_front() else { return Ok(()) };
                moved.set(moved.get() + next.await?);
            }
        })
    }

    fn round(&self, writes: Vec<SmallWrite>) -> Doing {
        let this = self.clone();
        Box::pin(async move {
            let mut under_way = Vec::new();
            for write in writes {
                let nearest = this.clone();
                under_way.push(this.spawner.spawn(async move {
                    let id = nearest.file(write.file.0).await?;
                    let bytes = nearest.content.at(write.at.0, BLOCK.0 as usize);
                    for (disk, parts) in nearest.parts(write.at.0 - write.file.0, BLOCK.0).into_iter().enumerate() {
                        let Disk { target, stream } = &nearest.disks[disk];
                        for (at, _) in parts {
                            target.objects().write(*stream, id, at, bytes, Placement::Auto).await?;
                        }
                    }
                    Ok(())
                }));
            }
            for write in under_way {
                write.await?;
            }
            Ok(())
        })
    }

    fn settle(&self) -> Doing {
        let this = self.clone();
        Box::pin(async move {
            let homing = |disk: &Disk| {
                let objects = disk.objects().clone();
                this.spawner.spawn(async move { objects.take_home().await })
            };
            let under_way: Vec<_> = this.disks.iter().map(homing).collect();
            for homing in under_way {
                homing.await?;
            }
            Ok(())
        })
    }

    fn tally(&self) -> Tally {
        let log_swaps = self.disks.iter().map(|disk| disk.objects().counters().swaps).sum();
        Tally { checkpoint: self.upkeep().saturating_sub(self.before.get()), log_swaps }
    }
}
