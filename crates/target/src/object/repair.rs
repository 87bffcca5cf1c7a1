//! Putting right what rows say against one another, where the truth follows from other rows: how much an object and a
//! volume hold, who shares blocks, what is free, and how much of a log is needed.
//!
//! Owns nothing. Order of durable steps: nothing else takes effect from the first row that is looked at until what was
//! put right is durable with the map ([`super::checkpoint`]); a crash before leaves what was there. Rows that cannot be
//! read might say anything, so then nothing is put right.

use super::apply::Meta;
use super::audit::ObjectsFound;
use super::rows::{Key, Row};
use super::share::around;
use super::space::Run;
use super::{CHANGED_ROWS, Objects};
use forebay_model::{Bytes, ObjectId, Result};

/// What is to be true.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Repair {
    /// An object has so many blocks.
    Blocks(ObjectId, u64),
    /// A volume holds so many objects, and so many blocks.
    Volume(u64, u64, u64),
    /// Blocks of the device belong to so many objects more than one.
    Shared(Run, u32),
    /// Of a group exactly these runs are free, counted from its first block.
    Free(u32, Vec<(u32, u32)>),
    /// So many blocks in the log of a group are needed.
    Log(u32, u32),
}

impl Repair {
    /// The rows that have to be in memory.
    fn needs(&self) -> Option<(Key, Key)> {
        let head = |id| Some((Key::head(id), Key::head(id)));
        match self {
            Repair::Blocks(id, _) => head(*id),
            Repair::Volume(volume, ..) => head(ObjectId::volume(*volume)),
            Repair::Shared(run, _) => Some(around(*run)),
            Repair::Free(group, _) => Some((Key::free(*group), Key::free(*group))),
            Repair::Log(..) => None,
        }
    }

    fn apply(self, meta: &mut Meta) {
        match self {
            Repair::Blocks(id, blocks) => meta.change_head(id, |head| head.blocks = blocks),
            Repair::Volume(volume, objects, blocks) => meta.change_head(ObjectId::volume(volume), |head| {
                let holds = head.volume.get_or_insert_default();
                (holds.objects, holds.blocks) = (objects, blocks);
            }),
            Repair::Shared(run, more) => meta.set_sharers(run, more),
            Repair::Free(group, runs) => {
                meta.tree.put(Key::free(group), Row::Free(runs.clone()));
                meta.data.set(group, &runs);
            }
            Repair::Log(group, needed) => meta.logs.recount(group, needed),
        }
    }
}

impl Objects {
    /// Looks over the rows of a target that nobody uses, and puts right what can be; what was found before that. Bytes
    /// are not read. Tells `progress` how many bytes of how many their rows have told of.
    pub async fn repair(&self, progress: &mut dyn FnMut(Bytes, Bytes)) -> Result<ObjectsFound> {
        self.ready().await?;
        self.alone(async {
            let mut found = ObjectsFound::default();
            let (mut done, total) = (Bytes::ZERO, self.kept());
            let mut told = |bytes| {
                done += bytes;
                progress(done.min(total), total);
            };
            let repairs = self.audit(false, &mut found, &mut told).await?;
            let some = !repairs.is_empty();
            for repair in repairs {
                self.bring(repair.needs().as_slice()).await?;
                repair.apply(&mut self.work.borrow_mut().meta);
                let much = self.work.borrow().changed_rows() > CHANGED_ROWS;
                if much {
                    self.checkpoint_alone(true).await?;
                }
            }
            if some {
                self.checkpoint_alone(true).await?;
            }
            Ok(found)
        })
        .await
    }
}

#[cfg(test)]
mod tests;
