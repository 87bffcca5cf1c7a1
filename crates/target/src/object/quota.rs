//! What a volume may hold: beyond the hard quota commands are refused, beyond the soft one they are answered with a
//! warning.
//!
//! Counted are blocks that objects occupy, buffered ones among them. What is overwritten counts once. Attributes are not
//! counted: they are bounded for each object ([`MOST_ATTRIBUTES`]), and so by how many objects there are.

use super::Objects;
use super::apply::Meta;
use super::commands::attribute_weight;
use super::rows::{BLOCK, Key, Part, Row};
use forebay_model::object::{AttributeChange, OverQuota};
use forebay_model::{Bytes, Error, ObjectId, Result};
use std::collections::BTreeMap;

/// Bytes that the attributes of one object take at most: a snapshot, or removing it, brings all of them to memory.
pub const MOST_ATTRIBUTES: Bytes = Bytes::mib(2);

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

fn within_most(id: ObjectId, bytes: u64) -> Result<()> {
    if bytes <= MOST_ATTRIBUTES.0 {
        return Ok(());
    }
    Err(Error::usage(format!(
        "attributes of {id} would take {bytes} bytes, and {} is the most; remove some, or keep them in an object (nothing was changed)",
        MOST_ATTRIBUTES.0
    )))
}

impl Objects {
    /// Refuses changes by which the attributes of a locked object would take more than they may. What adds nothing is never
    /// refused.
    pub(super) async fn check_attributes(&self, id: ObjectId, set: &[AttributeChange]) -> Result<()> {
        if set.is_empty() {
            return Ok(());
        }
        let (before, after) = self.attributes_after(id, set).await?;
        if after > before { within_most(id, after) } else { Ok(()) }
    }

    /// Refuses a snapshot whose attributes, those of `of` with these changes, would take more than they may.
    pub(super) async fn check_attributes_of(&self, of: ObjectId, set: &[AttributeChange]) -> Result<()> {
        let (_, after) = self.attributes_after(of, set).await?;
        within_most(of, after)
    }

    /// Bytes that the attributes of an object take, and would take with these changes.
    async fn attributes_after(&self, id: ObjectId, set: &[AttributeChange]) -> Result<(u64, u64)> {
        let at = |page, number| Key { id, part: Part::Attribute { page, number } };
        let (from, to) = (at(0, 0), at(u32::MAX, u32::MAX));
        self.bring(&[(from, to)]).await?;
        let work = self.work.borrow();
        let weighed = work.meta.tree.range(from, to).filter_map(|(key, row)| match (key.part, row) {
            (Part::Attribute { page, number }, Row::Attribute(value)) => {
                Some(((page, number), attribute_weight(value)))
            }
            _ => None,
        });
        let mut weights: BTreeMap<(u32, u32), usize> = weighed.collect();
        let sum = |weights: &BTreeMap<(u32, u32), usize>| weights.values().sum::<usize>() as u64;
        let before = sum(&weights);
        for (page, number, value) in set {
            match value {
                Some(value) => weights.insert((*page, *number), attribute_weight(value)),
                None => weights.remove(&(*page, *number)),
            };
        }
        Ok((before, sum(&weights)))
    }

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
