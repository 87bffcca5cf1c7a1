//! Objects against their checksums, a leaf of rows at a time, in the order of the rows.
//!
//! Nothing is locked: what is not as the rows say is looked at again, and counts only if the rows still say the same.

use super::audit::{Audit, ObjectsFound};
use super::rows::{BLOCK, Key, Part, Row};
use super::stretch::Source;
use super::{Objects, read};
use crate::catalog::GroupClass;
use crate::scrub::Pace;
use forebay_env::Buffer;
use forebay_model::block::crc32c;
use forebay_model::scrub::Finding;
use forebay_model::{Bytes, Kind, ObjectId, Result};

/// Blocks read at once: what others may have to wait for.
const AT_ONCE: u64 = Bytes::mib(1).0 / BLOCK.0;

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

    /// Looks at the leaf that has `from`, and at what it tells of from there on, as long as the step lasts; where to go
    /// on.
    pub(crate) async fn scrub(&self, from: Key, pace: &mut Pace, found: &mut Vec<Finding>) -> Result<Option<Key>> {
        match self.ready().await {
            // What cannot be opened was said, and says so to everybody who asks.
            Err(error) if error.kind == Kind::Damaged => {
                found.push(Finding {
                    owner: "objects".into(),
                    what: error.message,
                    at: Bytes::ZERO,
                    length: Bytes::ZERO,
                    remedy: "objects are not served; look at the target with `forebay check`".into(),
                });
                return Ok(None);
            }
            ready => ready?,
        }
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
        let (lying, next) = {
            let work = self.work.borrow();
            let lying: Vec<Lying> = work.meta.tree.rest_of_leaf(from).filter_map(lying).collect();
            (lying, work.meta.tree.leaf_end(from, Key::LAST))
        };
        for (n, run) in lying.into_iter().enumerate() {
            if n > 0 && pace.is_over() {
                return Ok(Some(run.key));
            }
            self.compare_all(&run, Some(pace), found).await?;
        }
        Ok(next)
    }

    /// Looks over all objects of a target that nobody uses, without changing anything: what opening would find in the
    /// logs, the rows and what they say of one another, and all bytes.
    pub(crate) async fn look_over(&self, progress: &mut dyn FnMut(Bytes)) -> Result<ObjectsFound> {
        let mut found = ObjectsFound::default();
        match self.replay_in_memory().await {
            Ok(records) => found.records = records.unwrap_or(0),
            Err(error) if error.kind == Kind::Damaged => {
                found.contradictions.push(format!("objects are not served: {}", error.message));
                return Ok(found);
            }
            Err(error) => return Err(error),
        }
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
                work.meta.tree.rest_of_leaf(from).filter_map(lying).collect()
            };
            for run in lying {
                self.compare_all(&run, None, &mut found.damage).await?;
                found.blocks += run.crcs.len() as u64;
                progress(BLOCK * run.crcs.len() as u64);
            }
            self.work.borrow_mut().meta.tree.trim(super::ROWS_IN_MEMORY);
        }
        let groups = self.core.groups_of(GroupClass::Objects);
        let work = self.work.borrow();
        audit.end(&groups, &work.meta.data, &work.meta.logs, &mut found);
        Ok(found)
    }

    async fn compare_all(&self, run: &Lying, mut pace: Option<&mut Pace>, found: &mut Vec<Finding>) -> Result<()> {
        for skip in (0..run.crcs.len() as u64).step_by(AT_ONCE as usize) {
            let blocks = AT_ONCE.min(run.crcs.len() as u64 - skip);
            self.compare(run, skip, blocks, found).await?;
            if let Some(pace) = &mut pace {
                pace.moved(BLOCK * blocks).await;
            }
        }
        Ok(())
    }

    /// Compares some blocks with their checksums.
    async fn compare(&self, run: &Lying, skip: u64, blocks: u64, found: &mut Vec<Finding>) -> Result<()> {
        let at = run.at + skip;
        if self.work.borrow().unwritten.contains_key(&at) {
            return Ok(());
        }
        let buffer = Buffer::alone(BLOCK * blocks)?;
        let (buffer, result) = self.core.disk.read_background(BLOCK * at, buffer).await;
        let crcs = &run.crcs[skip as usize..(skip + blocks) as usize];
        for (n, crc) in (0..).zip(crcs) {
            let from = (n * BLOCK.0) as usize;
            if result.is_ok() && crc32c(&buffer[from..from + BLOCK.0 as usize]) == *crc {
                continue;
            }
            // Once more, alone: a failure may pass, and one block does not hide the others.
            let alone = Buffer::alone(BLOCK)?;
            let (bytes, again) = self.core.disk.read_background(BLOCK * (at + n), alone).await;
            if again.is_ok() && crc32c(&bytes) == *crc {
                continue;
            }
            let block = run.first + skip + n;
            if !self.says(run.key.id, block, at + n, *crc).await? {
                continue;
            }
            let why = again.err().map_or_else(|| read::MISMATCH.to_owned(), |error| error.message);
            found.push(Finding {
                owner: run.key.id.to_string(),
                what: format!("damaged at offset {}: {why}", block * BLOCK.0),
                at: BLOCK * (at + n),
                length: BLOCK,
                remedy: "reading there says damaged; write these bytes again, or put the object anew".into(),
            });
        }
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

fn lying((key, row): (&Key, &Row)) -> Option<Lying> {
    let key = *key;
    match (key.part, row) {
        (Part::Piece(first), Row::Piece(piece)) => Some(Lying { key, first, at: piece.at, crcs: piece.crcs.0.clone() }),
        (Part::Logged(first), Row::Logged(logged)) => Some(Lying { key, first, at: logged.at, crcs: vec![logged.crc] }),
        _ => None,
    }
}
