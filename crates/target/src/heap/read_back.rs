//! Looking whether the device has kept what describes a commit: pages of allocators, and roots.
//!
//! A page that does not change is the only copy of what it says, for both roots; and a root that is not there takes back a commit that was
//! acknowledged, and lets what the root before it names be written over. So what was written of these is read before anything counts on
//! it, and written once more if it is not there. A device that keeps it neither time is given up.
//!
//! These reads wait for slack, as the writes before them do: they cost no promise, and are made beside one, too.

use super::gather;
use super::root::PAGE;
use super::{Heap, Work};
use forebay_model::{Bytes, Error, Kind, Result};

/// Pages that are read at once.
const AT_ONCE: usize = gather::LONGEST as usize / PAGE;

/// What is written, and where in the heap: a page, or a root.
pub(super) type Written = (Bytes, Vec<u8>);

impl Work {
    /// What is to be said of pages and roots that were not there.
    pub(super) fn of_rewritten(&self) -> Option<String> {
        let count = self.rewritten;
        (count > 0).then(|| {
            format!(
                "{count} pages and roots were not there when they were read back, and were written again since the heap was opened: \
                 the device loses writes; look at its health"
            )
        })
    }
}

impl Heap {
    /// Writes pages, or one root, durably, and sees to it that the device has kept them; with what was written before.
    pub(super) async fn write_and_see(&self, all: &[Written]) -> Result<()> {
        for (at, bytes) in all {
            self.write(*at, bytes).await?;
        }
        self.core.disk.flush().await?;
        let all: Vec<&Written> = all.iter().collect();
        let missing = self.not_there(&all).await?;
        if missing.is_empty() {
            return Ok(());
        }
        self.work.borrow_mut().rewritten += missing.len() as u64;
        for (at, bytes) in &missing {
            self.write(*at, bytes).await?;
        }
        self.core.disk.flush().await?;
        if self.not_there(&missing).await?.is_empty() {
            return Ok(());
        }
        Err(self.core.disk.give_up(Error::device(format!(
            "what describes a commit of heap {} is not there when it is read back, after it was written twice; replace the device",
            self.stamp.heap
        ))))
    }

    /// Those of what was written that the device does not have. What cannot be read is not there, nor what is read with it: to write
    /// that once more costs little.
    async fn not_there<'a>(&self, written: &[&'a Written]) -> Result<Vec<&'a Written>> {
        let mut missing = Vec::new();
        let runs = written.chunk_by(|one, next| one.0.0 + one.1.len() as u64 == next.0.0);
        for part in runs.flat_map(|run| run.chunks(AT_ONCE)) {
            let (first, last) = (part[0], part[part.len() - 1]);
            let lies = first.0.0..last.0.0 + last.1.len() as u64;
            let mut there = Vec::with_capacity((lies.end - lies.start) as usize);
            let read = self.read(lies.clone(), |_, bytes| there.extend_from_slice(bytes)).await;
            match read {
                Err(error) if error.kind == Kind::Damaged => missing.extend_from_slice(part),
                Err(error) => return Err(error),
                Ok(()) => {
                    let of_part = part.iter().copied();
                    missing.extend(
                        of_part.filter(|(at, bytes)| !there[(at.0 - lies.start) as usize..].starts_with(bytes)),
                    );
                }
            }
        }
        Ok(missing)
    }
}
