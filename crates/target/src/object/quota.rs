//! What a volume may hold: beyond the hard quota commands are refused, beyond the soft one they are answered with a
//! warning.
//!
//! Counted are blocks that objects occupy, buffered ones among them. What is overwritten counts once.

use super::Objects;
use super::apply::Meta;
use super::rows::BLOCK;
use forebay_model::object::OverQuota;
use forebay_model::{Bytes, Error, ObjectId, Result};

/// Whether the volume of `id` may hold so much more. What adds nothing is never refused.
pub(super) fn within(meta: &Meta, id: ObjectId, objects: u64, blocks: u64) -> Result<()> {
    let volume = ObjectId::volume(id.volume);
    let head = meta
        .head(volume)
        .ok_or_else(|| Error::missing(format!("there is no volume {:x}; create it first", id.volume)))?;
    let Some(held) = &head.volume else { return Ok(()) };
    let now = held.blocks + meta.buffered.get(&id.volume).copied().unwrap_or(0);
    let bytes = BLOCK * (now + blocks);
    if blocks > 0 && bytes.0 > held.quota.hard_bytes {
        return Err(Error::refused(format!(
            "volume {:x} may hold {}, holds {}, and would hold {bytes}; remove something or raise its quota (nothing was changed)",
            id.volume,
            Bytes(held.quota.hard_bytes),
            BLOCK * now
        )));
    }
    if objects > 0 && held.objects + objects > held.quota.hard_objects {
        return Err(Error::refused(format!(
            "volume {:x} may hold {} objects and holds {}; remove some or raise its quota (nothing was changed)",
            id.volume, held.quota.hard_objects, held.objects
        )));
    }
    Ok(())
}

impl Objects {
    /// What the volume of `id` holds beyond its soft quota, if it does.
    pub async fn over_quota(&self, id: ObjectId) -> Result<Option<OverQuota>> {
        let Some(held) = self.head(ObjectId::volume(id.volume)).await?.volume else { return Ok(None) };
        let over = OverQuota {
            volume: id.volume,
            used: BLOCK * held.blocks,
            soft_bytes: Bytes(held.quota.soft_bytes),
            objects: held.objects,
            soft_objects: held.quota.soft_objects,
        };
        Ok((over.used > over.soft_bytes || over.objects > over.soft_objects).then_some(over))
    }
}
