//! Ours: objects on a target, whose small durable writes go to the log nearest to where the arm is.

use super::place::{BLOCK, SmallWrite};
use super::system::{Doing, System, Tally};
use crate::disk::{Op, SimDisk};
use crate::world::World;
use forebay_env::Clock;
use forebay_model::{Bytes, Error, ObjectId, Result};
use forebay_target::object::Placement;
use forebay_target::object::rows::Quota;
use forebay_target::profile::{MeasureOptions, measure};
use forebay_target::schedule::StreamId;
use forebay_target::{Objects, Target};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// The volume of all objects.
const VOLUME: u64 = 1;
/// What the streaming user reads or writes at once, and how much of it is under way.
const PIECE: Bytes = Bytes::mib(4);
const DEPTH: usize = 2;

pub(super) struct Nearest {
    target: Rc<Target>,
    clock: Rc<dyn Clock>,
    stream: StreamId,
    /// Where the file of the streaming user begins, for each that was met.
    files: RefCell<BTreeMap<u64, ObjectId>>,
    checkpoint: Cell<Duration>,
}

impl Nearest {
    /// Formats the disk, and writes the streaming user's files.
    pub(super) fn build(world: &World, disk: &SimDisk, streamed: &[Range<u64>]) -> Result<Rc<dyn System>> {
        let env = world.env(disk.clone());
        let clock = world.clock();
        let streamed = streamed.to_vec();
        world.run(async move {
            let geometry = env.device.geometry();
            let mut options = MeasureOptions::for_extent(geometry.size, geometry.rotates, true);
            options.budget = Duration::from_secs(60);
            let profile = measure(&env, Bytes::ZERO..geometry.size, options, &mut |_| ()).await?;
            Target::format(env.clone(), profile).await?;
            let target = Target::open(env).await?;
            target.objects().create_volume(VOLUME, Quota::default()).await?;
            let stream = target.stream();
            let nearest = Nearest { target, clock, stream, files: RefCell::default(), checkpoint: Cell::default() };
            for range in streamed {
                let id = nearest.file(range.start).await?;
                let mut at = 0;
                while at < range.end - range.start {
                    let part = vec![7; (range.end - range.start - at).min(Bytes::mib(64).0) as usize];
                    nearest.objects().write(stream, id, at, &part, Placement::Home).await?;
                    at += part.len() as u64;
                }
            }
            nearest.objects().take_home().await?;
            Ok(Rc::new(Rc::new(nearest)) as Rc<dyn System>)
        })
    }

    fn objects(&self) -> &Rc<Objects> {
        self.target.objects()
    }

    /// The object that stands for the file that begins at `start` of the disk; made when it is first met.
    async fn file(&self, start: u64) -> Result<ObjectId> {
        let id = ObjectId { volume: VOLUME, object: start / BLOCK.0 + 1 };
        if self.files.borrow_mut().insert(start, id).is_none() {
            self.objects().create(id, Vec::new()).await?;
        }
        Ok(id)
    }

    /// The file in which the streaming user's byte `at` lies, and where in it.
    fn streamed(&self, at: Bytes) -> Result<(ObjectId, u64)> {
        let files = self.files.borrow();
        let (start, id) = files.range(..=at.0).next_back().ok_or_else(|| Error::missing("no file lies there"))?;
        Ok((*id, at.0 - start))
    }
}

impl System for Rc<Nearest> {
    fn stream(&self, op: Op, at: Bytes, length: Bytes, moved: Rc<Cell<u64>>) -> Doing {
        let this = self.clone();
        let spawner = self.target.disk().env().spawner.clone();
        Box::pin(async move {
            let (id, first) = this.streamed(at)?;
            let (mut from, end) = (first, first + length.0);
            let mut under_way: VecDeque<forebay_env::Task<Result<u64>>> = VecDeque::new();
            loop {
                while from < end && under_way.len() < DEPTH {
                    let (this, part) = (this.clone(), PIECE.0.min(end - from));
                    under_way.push_back(spawner.spawn(async move {
                        match op {
                            Op::Write => {
                                let bytes = vec![9; part as usize];
                                this.objects().write(this.stream, id, from, &bytes, Placement::Home).await?;
                                Ok(part)
                            }
                            _ => Ok(this.objects().read(this.stream, id, from, part).await?.len() as u64),
                        }
                    }));
                    from += part;
                }
                let Some(next) = under_way.pop_front() else { return Ok(()) };
                moved.set(moved.get() + next.await?);
            }
        })
    }

    fn round(&self, writes: Vec<SmallWrite>) -> Doing {
        let this = self.clone();
        let spawner = self.target.disk().env().spawner.clone();
        Box::pin(async move {
            let mut under_way = Vec::new();
            for write in writes {
                let this = this.clone();
                under_way.push(spawner.spawn(async move {
                    let id = this.file(write.file.0).await?;
                    let bytes = vec![5; BLOCK.0 as usize];
                    this.objects().write(this.stream, id, write.at.0 - write.file.0, &bytes, Placement::Auto).await
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
            let begin = this.clock.now();
            this.objects().take_home().await?;
            this.checkpoint.set(this.clock.now().since(begin));
            Ok(())
        })
    }

    fn tally(&self) -> Tally {
        Tally { checkpoint: self.checkpoint.get(), ..Tally::default() }
    }
}
