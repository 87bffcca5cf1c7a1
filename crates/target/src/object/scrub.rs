//! Objects against their checksums, some leaves of rows at a time, in the order of the rows.
//!
//! What the rows tell of lies scattered, the more so in logs: of what some leaves tell together, what lies near each other
//! is read at once, in the order of the disk. Nothing is locked: what is not as the rows say is looked at again, and counts
//! only if the rows still say the same. What records say that are newer than the last checkpoint nobody would look at: each
//! pass begins with one, unless that takes turns which others wait for.

use super::audit::{Audit, Contradiction, ObjectsFound};
use super::repair::Repair;
use super::rows::{BLOCK, Key, Part, Row};
use super::stretch::Source;
use super::{Objects, read};
use crate::catalog::GroupClass;
use crate::schedule::MOST_IN_BACKGROUND;
use crate::scrub::Pace;
use forebay_env::Buffer;
use forebay_model::block::crc32c;
use forebay_model::scrub::Finding;
use forebay_model::{Bytes, Kind, ObjectId, Result};

/// What is read together of what lies scattered.
struct Reach {
    /// Blocks read at once, at most: what others may have to wait for.
    at_once: u64,
    /// Blocks between two others that are read with them rather than passed over: that takes no longer.
    between: u64,
    /// Blocks that are put in the order of the disk, about: what is looked at twice where a scrub is cut off.
    together: u64,
}

/// Where an arm has to come.
const ROTATING: Reach = Reach {
    at_once: MOST_IN_BACKGROUND.0 / BLOCK.0,
    between: Bytes::kib(512).0 / BLOCK.0,
    together: Bytes::mib(32).0 / BLOCK.0,
};
/// Where none has to.
const FLAT: Reach = Reach {
    at_once: Bytes::mib(1).0 / BLOCK.0,
    between: Bytes::kib(32).0 / BLOCK.0,
    together: Bytes::mib(1).0 / BLOCK.0,
};
/// Leaves that tell of blocks that are looked at together, at most.
const LEAVES: usize = 32;

/// Blocks of an object that lie together.
struct Lying {
    key: Key,
    first: u64,
    at: u64,
    crcs: Vec<u32>,
}

impl Objects {
    /// Bytes of objects that are kept, at home and in logs.
    pub(crate) fn kept(&self) -> Bytes {
        let work = self.work.borrow();
        BLOCK * (work.meta.data.capacity() - work.meta.data.free() + work.meta.logs.live())
    }

    /// Looks at the leaf that has `from` and some behind it, and at what they tell of from there on; where to go on.
    pub(crate) async fn scrub(&self, from: Key, pace: &mut Pace, found: &mut Vec<Finding>) -> Result<Option<Key>> {
        let ready = self.ready().await;
        if let Some(lost) = self.lost() {
            found.push(Finding {
                owner: "objects".into(),
                what: lost.message,
                at: Bytes::ZERO,
                length: Bytes::ZERO,
                remedy: "objects are not served; look at the target with `forebay check`".into(),
            });
            return Ok(None);
        }
        ready?;
        if from == Key::FIRST {
            self.cover().await?;
        }
        let (mut lying, mut next) = (Vec::new(), Some(from));
        for _ in 0..LEAVES {
            let Some(from) = next else { break };
            next = self.scrub_leaf(from, pace, &mut lying, found).await?;
            if pace.is_over() || blocks(&lying) >= self.reach().together {
                break;
            }
        }
        self.compare_all(&lying, Some(pace), found).await?;
        Ok(next)
    }

    /// Looks at the leaf that has `from`, and adds what it tells of from there on to `lying`; where to go on.
    async fn scrub_leaf(
        &self,
        from: Key,
        pace: &mut Pace,
        lying: &mut Vec<Lying>,
        found: &mut Vec<Finding>,
    ) -> Result<Option<Key>> {
        // One that was begun already is not read again.
        let record = self.work.borrow().meta.tree.leaf_of(from).filter(|leaf| leaf.first == from);
        if let Some(record) = record {
            let length = BLOCK * u64::from(record.place.blocks);
            let read = self.read_leaf(&record).await;
            pace.moved(length).await;
            let still = self.work.borrow().meta.tree.leaf_of(from) == Some(record);
            match read {
                Ok(_) => {}
                Err(error) if error.kind == Kind::Damaged && still => {
                    self.alive()?;
                    found.push(Finding {
                        owner: format!("objects from {} on", record.first.id),
                        what: error.message,
                        at: BLOCK * record.place.at,
                        length,
                        remedy: "what is in it cannot be read; put these objects again from where they came".into(),
                    });
                    return Ok(self.work.borrow().meta.tree.leaf_end(from, Key::LAST));
                }
                Err(error) if still => return Err(error),
                Err(_) => {}
            }
        }
        self.bring(&[(from, from)]).await?;
        let work = self.work.borrow();
        let mut room = self.reach().together.saturating_sub(blocks(lying));
        for run in work.meta.tree.rest_of_leaf(from).filter_map(Lying::of) {
            if room == 0 {
                return Ok(Some(run.key));
            }
            room = room.saturating_sub(run.crcs.len() as u64);
            lying.push(run);
        }
        Ok(work.meta.tree.leaf_end(from, Key::LAST))
    }

    /// Looks over all objects of a target that nobody uses, without changing anything: what opening would find in the
    /// logs, the rows and what they say of one another, and all bytes.
    pub(crate) async fn look_over(&self, progress: &mut dyn FnMut(Bytes)) -> Result<ObjectsFound> {
        let mut found = ObjectsFound::default();
        match self.replay_in_memory().await {
            Ok(records) => found.records = records.unwrap_or(0),
            Err(error) if error.kind == Kind::Damaged => {
                let what = format!("objects are not served: {}", error.message);
                found.contradictions.push(Contradiction { what, repairable: false });
                return Ok(found);
            }
            Err(error) => return Err(error),
        }
        self.audit(true, &mut found, progress).await?;
        Ok(found)
    }

    /// Looks over all rows and what they say of one another, with their `bytes` or without; what can be put right.
    pub(super) async fn audit(
        &self,
        bytes: bool,
        found: &mut ObjectsFound,
        progress: &mut dyn FnMut(Bytes),
    ) -> Result<Vec<Repair>> {
        let layout = self.core.layout();
        let mut audit = Audit::new(layout);
        let mut next = Some(Key::FIRST);
        while let Some(from) = next {
            next = self.work.borrow().meta.tree.leaf_end(from, Key::LAST);
            if let Err(error) = self.bring(&[(from, from)]).await {
                if error.kind != Kind::Damaged {
                    return Err(error);
                }
                audit.skipped();
                let place = self.work.borrow().meta.tree.leaf_of(from).map(|leaf| leaf.place);
                found.damage.push(Finding {
                    owner: format!("objects from {} on", from.id),
                    what: error.message,
                    at: place.map_or(Bytes::ZERO, |place| BLOCK * place.at),
                    length: place.map_or(Bytes::ZERO, |place| BLOCK * u64::from(place.blocks)),
                    remedy: "what is in it cannot be read or made anew; put these objects again".into(),
                });
                continue;
            }
            let lying: Vec<Lying> = {
                let work = self.work.borrow();
                work.meta.tree.rest_of_leaf(from).for_each(|(key, row)| audit.row(key, row, &work.meta.logs));
                work.meta.tree.rest_of_leaf(from).filter_map(Lying::of).collect()
            };
            if bytes {
                self.compare_all(&lying, None, &mut found.damage).await?;
                found.blocks += blocks(&lying);
            }
            progress(BLOCK * blocks(&lying));
            self.work.borrow_mut().meta.tree.trim();
        }
        let groups = self.core.groups_of(GroupClass::Objects);
        let work = self.work.borrow();
        Ok(audit.end(&groups, &work.meta.data, &work.meta.logs, found))
    }

    fn reach(&self) -> &'static Reach {
        if self.core.disk.rotates() { &ROTATING } else { &FLAT }
    }

    /// Compares blocks with their checksums, in the order in which they lie.
    async fn compare_all(&self, runs: &[Lying], mut pace: Option<&mut Pace>, found: &mut Vec<Finding>) -> Result<()> {
        for read in reads(runs, self.reach()) {
            self.compare(&read, found).await?;
            if let Some(pace) = &mut pace {
                pace.moved_among(BLOCK * read.counts, BLOCK * (read.to - read.from)).await;
            }
        }
        Ok(())
    }

    async fn compare(&self, read: &Read<'_>, found: &mut Vec<Finding>) -> Result<()> {
        let buffer = Buffer::alone(BLOCK * (read.to - read.from))?;
        let (buffer, result) = self.core.disk.read_background(BLOCK * read.from, buffer).await;
        for part in &read.parts {
            for (at, (block, crc)) in (part.at..).zip((part.first..).zip(part.crcs)) {
                let from = (BLOCK * (at - read.from)).0 as usize;
                if result.is_ok() && crc32c(&buffer[from..from + BLOCK.0 as usize]) == *crc {
                    continue;
                }
                self.look_again(part.id, block, at, *crc, found).await?;
            }
        }
        Ok(())
    }

    /// Looks at a block once more, alone: a failure may pass, and one block does not hide the others.
    async fn look_again(&self, id: ObjectId, block: u64, at: u64, crc: u32, found: &mut Vec<Finding>) -> Result<()> {
        // A record on its way is in memory.
        if self.work.borrow().unwritten.contains_key(&at) {
            return Ok(());
        }
        let (bytes, again) = self.core.disk.read_background(BLOCK * at, Buffer::alone(BLOCK)?).await;
        if again.is_ok() && crc32c(&bytes) == crc || !self.says(id, block, at, crc).await? {
            return Ok(());
        }
        let why = again.err().map_or_else(|| read::MISMATCH.to_owned(), |error| error.message);
        found.push(Finding {
            owner: id.to_string(),
            what: format!("damaged at offset {}: {why}", block * BLOCK.0),
            at: BLOCK * at,
            length: BLOCK,
            remedy: "reading there says damaged; write these bytes again, or put the object anew".into(),
        });
        Ok(())
    }

    /// Whether the rows say that this block lies there.
    async fn says(&self, id: ObjectId, block: u64, at: u64, crc: u32) -> Result<bool> {
        self.bring(&super::apply::touching(id, block, block + 1)).await?;
        let work = self.work.borrow();
        // A block at home that one in a log hides is not returned to anybody.
        let stretches = work.stretches(id, block, block + 1);
        Ok(stretches.iter().any(|s| matches!(s.source, Source::Device) && s.at == at && s.crcs == [crc]))
    }
}

impl Lying {
    fn of((key, row): (&Key, &Row)) -> Option<Lying> {
        let key = *key;
        match (key.part, row) {
            (Part::Piece(first), Row::Piece(piece)) => {
                Some(Lying { key, first, at: piece.at, crcs: piece.crcs.0.clone() })
            }
            (Part::Logged(first), Row::Logged(logged)) => {
                Some(Lying { key, first, at: logged.at, crcs: vec![logged.crc] })
            }
            _ => None,
        }
    }
}

fn blocks(runs: &[Lying]) -> u64 {
    runs.iter().map(|run| run.crcs.len() as u64).sum()
}

/// What is read at once.
struct Read<'a> {
    from: u64,
    to: u64,
    /// Blocks of these that somebody has.
    counts: u64,
    parts: Vec<Held<'a>>,
}

/// What one object has there.
struct Held<'a> {
    id: ObjectId,
    /// The first block, in the object and on the device.
    first: u64,
    at: u64,
    crcs: &'a [u32],
}

/// How `runs` are read: in the order in which they lie, those that lie near each other at once. What several have is
/// read once.
fn reads<'a>(runs: &'a [Lying], reach: &Reach) -> Vec<Read<'a>> {
    let Reach { at_once: most, between, .. } = *reach;
    let mut parts: Vec<Held<'_>> = Vec::new();
    for run in runs {
        for (skip, crcs) in (0..).step_by(most as usize).zip(run.crcs.chunks(most as usize)) {
            parts.push(Held { id: run.key.id, first: run.first + skip, at: run.at + skip, crcs });
        }
    }
    parts.sort_unstable_by_key(|part| part.at);
    let mut reads: Vec<Read<'_>> = Vec::new();
    for part in parts {
        let end = part.at + part.crcs.len() as u64;
        match reads.last_mut() {
            Some(read) if part.at <= read.to + between && end.max(read.to) - read.from <= most => {
                read.counts += end.saturating_sub(part.at.max(read.to));
                read.to = read.to.max(end);
                read.parts.push(part);
            }
            _ => reads.push(Read { from: part.at, to: end, counts: end - part.at, parts: vec![part] }),
        }
    }
    reads
}
