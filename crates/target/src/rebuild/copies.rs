//! Superblocks that lie beside checkpoints: where both roots are gone, an area still says itself what it is.
//!
//! Where the areas lie only a superblock says, so they are looked for where they are by rule, and then as far as zones that
//! nobody knows of any more may have put them. What is found counts if it names the place where it lies, and if the checkpoint
//! before it is the one that it tells of: one that was left behind by a longer checkpoint, or by another target, does not.

use crate::catalog::Catalog;
use crate::checkpoint;
use crate::layout::{Layout, ROOT_LEN, ROOTS};
use crate::salvage::Salvage;
use crate::schedule::Scheduler;
use crate::superblock::{MAGIC, Superblock};
use forebay_model::{Bytes, Kind, Result, TargetId};
use std::ops::Range;

/// Areas in a zone end with the first one, and a device has so many at least.
const ZONES: u64 = 8;
/// It is not looked further: zones are shorter.
const FAR: Bytes = Bytes::gib(1);
/// What is read at once.
const PIECE: Bytes = Bytes::mib(1);
/// Superblocks begin where blocks do.
const BLOCK: usize = 4096;

/// A checkpoint with the superblock beside it.
pub(super) struct Beside {
    /// The area in which both lie.
    pub(super) which: usize,
    pub(super) superblock: Superblock,
    pub(super) catalog: Catalog,
}

/// The newest that is whole, of the target that is `wanted` and not before `generation`, where `layout` is the one by rule;
/// tells `progress` how many bytes of how many are done.
pub(super) async fn newest(
    disk: &Scheduler,
    salvage: &Salvage,
    layout: &Layout,
    (wanted, generation): (Option<TargetId>, u64),
    progress: &mut dyn FnMut(Bytes, Bytes),
) -> Result<Option<Beside>> {
    let size = disk.geometry().size;
    let by_rule = layout.area_at(0)..layout.groups_at;
    for Range { start, end } in [by_rule, ROOTS[1] + ROOT_LEN..FAR.min(size / ZONES)] {
        let (mut at, mut found): (_, Option<Beside>) = (start, None);
        while at < end {
            let length = PIECE.min(end - at);
            let bytes = salvage.read(at, length.0 as usize).await?;
            for (n, _) in bytes.chunks(BLOCK).enumerate().filter(|(_, block)| block.starts_with(&MAGIC)) {
                let place = at + Bytes((n * BLOCK) as u64);
                let Some(beside) = look(disk, salvage, place).await? else { continue };
                let Superblock { target, formatted, generation: its, .. } = beside.superblock;
                let is_wanted = wanted.is_none_or(|wanted| wanted == target) && its >= generation;
                let is_newer =
                    |found: &Beside| (formatted, its) > (found.superblock.formatted, found.superblock.generation);
                if is_wanted && found.as_ref().is_none_or(is_newer) {
                    found = Some(beside);
                }
            }
            at += length;
            progress(at, end);
        }
        if found.is_some() {
            return Ok(found);
        }
    }
    Ok(None)
}

/// What lies at `place`, if it is the superblock of the checkpoint before it.
async fn look(disk: &Scheduler, salvage: &Salvage, place: Bytes) -> Result<Option<Beside>> {
    let geometry = disk.geometry();
    let bytes = salvage.read(place, ROOT_LEN.min(geometry.size - place).0 as usize).await?;
    let superblock = match Superblock::decode(&bytes) {
        Ok(Some(superblock)) if superblock.layout.device == geometry.size => superblock,
        Err(error) if error.kind == Kind::Version => return Err(error.of(&geometry.name)),
        _ => return Ok(None),
    };
    let Some(which) = (0..ROOTS.len()).find(|which| superblock.beside(*which) == place) else { return Ok(None) };
    let catalog = checkpoint::load_catalog(disk, &superblock, which).await.ok();
    Ok(catalog.map(|catalog| Beside { which, superblock, catalog }))
}
