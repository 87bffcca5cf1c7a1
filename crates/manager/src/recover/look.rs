//! What targets have of a manager that is gone: its copies, and the components of files.

use super::{Component, Seen};
use crate::copies::age::is_ahead;
use crate::copies::targets::{list, strange};
use crate::copies::{Chain, Known, VOLUME};
use crate::engine::Engine;
use forebay_env::Clock;
use forebay_env::race::{First, race};
use forebay_env::together::all;
use forebay_model::layout::LARGEST;
use forebay_model::object::{FENCE, FENCES, FIRST_FENCE, LENGTHS};
use forebay_model::{Bytes, Kind, ObjectId, Result, TargetId};
use forebay_wire::object::{Ask, COMPANION, DESCRIBED, Described, MOST_AT_ONCE, ObjectAnswer, ObjectInfo, ObjectReply};
use std::collections::BTreeMap;
use std::future::Future;
use std::time::Duration;

/// Where something is damaged, so much is read at once.
const LEAST_AT_ONCE: u64 = 4096;

/// Targets that are looked at.
pub trait Targets {
    /// All of them.
    fn targets(&self) -> Vec<TargetId>;

    /// Asks one.
    fn ask(&self, target: TargetId, ask: Ask) -> impl Future<Output = Result<ObjectAnswer>>;
}

/// How far it is.
#[derive(Debug, Clone, Copy)]
pub struct Progress {
    /// Targets that were looked at, and all.
    pub targets: (usize, usize),
    /// Objects that were found.
    pub objects: u64,
}

/// Whether any target has a copy.
pub async fn has_copies(on: &impl Targets) -> Result<bool> {
    for target in on.targets() {
        if !objects(on, target, VOLUME, None).await?.is_empty() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// One of the targets, if any, with a copy that is newer than what an engine has, whose cluster nobody has opened yet. What takes longer
/// than `patience`, or cannot be looked at, says nothing.
pub async fn newer_copy(
    on: &impl Targets,
    engine: &dyn Engine,
    clock: &dyn Clock,
    patience: Duration,
) -> Result<Option<TargetId>> {
    let known = Known::load(&*engine.snapshot()?)?;
    let looking = on.targets().into_iter().map(move |target| async move {
        let looking = is_ahead(async |ask| on.ask(target, ask).await, target, known);
        matches!(race(looking, clock.sleep(patience)).await, First::Left(Ok(true))).then_some(target)
    });
    Ok(all(looking).await.into_iter().flatten().next())
}

/// Looks at all that is on targets but rings and heaps.
pub async fn look(on: &impl Targets, mut told: impl FnMut(Progress)) -> Result<Seen> {
    let targets = on.targets();
    let mut seen = Seen { targets: targets.iter().copied().collect(), ..Seen::default() };
    let mut copies = BTreeMap::new();
    for (at, target) in targets.iter().copied().enumerate() {
        told(Progress { targets: (at, targets.len()), objects: seen.components.len() as u64 });
        for info in objects(on, target, VOLUME, None).await? {
            copies.insert((info.id.object, target), Bytes(info.head.size));
        }
        let volumes = objects(on, target, 0, None).await?;
        for volume in volumes.into_iter().map(|info| info.id.volume).filter(|volume| *volume != VOLUME) {
            seen.components.extend(components(on, target, volume).await?);
        }
    }
    told(Progress { targets: (targets.len(), targets.len()), objects: seen.components.len() as u64 });
    // What one of them lacks another one may have.
    for ((object, target), size) in copies {
        seen.chain.begin(target, object);
        read_copy(on, target, object, size, &mut seen.chain).await?;
    }
    Ok(seen)
}

/// Reads an object of copies.
async fn read_copy(on: &impl Targets, target: TargetId, object: u64, size: Bytes, chain: &mut Chain) -> Result<()> {
    let id = ObjectId { volume: VOLUME, object };
    let (mut offset, mut most) = (0, MOST_AT_ONCE.0);
    while offset < size.0 {
        let length = (size.0 - offset).min(most) as u32;
        match on.ask(target, Ask::Read { id, offset, length }).await {
            Ok(ObjectAnswer { reply: ObjectReply::Bytes, payload, .. }) => chain.take(&payload.into_vec())?,
            Ok(answer) => return Err(strange(target, &answer.reply)),
            // What is before the damage counts.
            Err(error) if error.kind == Kind::Damaged && most > LEAST_AT_ONCE => {
                most = LEAST_AT_ONCE.max(most / 8);
                continue;
            }
            // What follows counts only with what is damaged; another target may have it.
            Err(error) if error.kind == Kind::Damaged => {
                chain.take_damaged(size.0 - offset);
                return Ok(());
            }
            Err(error) => {
                return Err(error.of(format!(
                    "reading a copy of metadata on target {target}; to do without it, move its directory away"
                )));
            }
        }
        offset += u64::from(length);
    }
    Ok(())
}

/// What may be components of files in a volume of a target.
async fn components(on: &impl Targets, target: TargetId, volume: u64) -> Result<Vec<Component>> {
    let mut found: BTreeMap<ObjectId, Component> = BTreeMap::new();
    for ObjectInfo { id, head, attributes } in objects(on, target, volume, Some(DESCRIBED)).await? {
        if id.object & COMPANION == 0 {
            let described = Described::find(&attributes);
            let (size, modified) = (Bytes(head.size), head.modified);
            found.insert(
                id,
                Component { target, object: id, size, modified, fence: FIRST_FENCE, said: None, described },
            );
        }
    }
    for ObjectInfo { id, attributes, .. } in objects(on, target, volume, Some(FENCES)).await? {
        let fence = attributes.iter().find(|(number, _)| *number == FENCE).and_then(|(_, value)| number(value, 0));
        if let (Some(component), Some(fence)) = (found.get_mut(&id), fence) {
            component.fence = fence;
        }
    }
    for ObjectInfo { id, attributes, .. } in objects(on, target, volume, Some(LENGTHS)).await? {
        let said = attributes.iter().filter_map(|(_, value)| Some((number(value, 0)?, Bytes(number(value, 8)?))));
        // Nobody who is of good will says that a file is longer than one can be.
        let said = said.filter(|(_, size)| *size <= LARGEST).max();
        found.entry(id).and_modify(|component| component.said = said);
    }
    Ok(found.into_values().collect())
}

fn number(value: &[u8], at: usize) -> Option<u64> {
    value.get(at..at + 8)?.try_into().ok().map(u64::from_le_bytes)
}

/// The objects of a volume, with what they have on a page of attributes; none if there is no such volume.
async fn objects(on: &impl Targets, target: TargetId, volume: u64, page: Option<u32>) -> Result<Vec<ObjectInfo>> {
    list(async |ask| on.ask(target, ask).await, target, volume, page).await
}

#[cfg(test)]
mod tests;
