//! What is chosen of logs: for the target in the catalog, for a volume or an object in an attribute that the target
//! itself looks at.
//!
//! Invariant: an attribute on the target's own page is one that it understands.

use super::Objects;
use super::logs::Settings;
use super::rows::{Key, Part, Row};
use forebay_model::{Bytes, Error, Kind, ObjectId, Result};
use std::collections::BTreeSet;

/// The page of attributes that the target looks at.
pub const PAGE: u32 = u32::MAX;
/// The number of the one that says which writes go to a log.
pub const LOGGING: u32 = 1;

/// Which writes of an object go to a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logging {
    /// Those of up to so many bytes; they go home when there is time.
    UpTo(Bytes),
    /// All that fit a log, and they stay there until logs are full: for what is to be durable and is hardly ever read,
    /// as a database's commit log (Manylogs, 2016, section 3.5).
    Always,
}

impl Logging {
    /// As the attribute has it: 0 and the bytes as `u64`, or 1.
    pub fn encode(self) -> Vec<u8> {
        match self {
            Logging::UpTo(bytes) => [&[0][..], &bytes.0.to_le_bytes()].concat(),
            Logging::Always => vec![1],
        }
    }

    /// Reads an attribute.
    pub fn decode(value: &[u8]) -> Option<Logging> {
        match value {
            [0, bytes @ ..] => Some(Logging::UpTo(Bytes(u64::from_le_bytes(bytes.try_into().ok()?)))),
            [1] => Some(Logging::Always),
            _ => None,
        }
    }
}

/// Refuses an attribute on the target's own page that it does not understand.
pub(super) fn check(page: u32, number: u32, value: Option<&[u8]>) -> Result<()> {
    if page == PAGE && (number != LOGGING || value.is_some_and(|value| Logging::decode(value).is_none())) {
        return Err(Error::usage(format!(
            "attribute {page}/{number} is the target's own, and it knows no such value; take another page"
        )));
    }
    Ok(())
}

impl Objects {
    /// What was chosen for the target.
    pub fn settings(&self) -> Settings {
        self.core.with_objects(|objects| objects.settings)
    }

    /// Chooses, durably.
    pub async fn set_settings(&self, settings: Settings) -> Result<()> {
        settings.check()?;
        self.ready().await?;
        self.core.with_objects_mut(|objects| objects.settings = settings);
        self.work.borrow_mut().meta.logs.set_near(settings.near_groups);
        self.core.commit().await
    }

    /// Chooses for an object, or for all of a volume; `None` leaves it to the volume, or to the target.
    pub async fn set_logging(&self, id: ObjectId, logging: Option<Logging>) -> Result<()> {
        self.set_attributes(id, vec![(PAGE, LOGGING, logging.map(Logging::encode))]).await
    }

    /// Which writes of an object go to a log: what was chosen for it, for its volume, or for the target.
    pub async fn logging(&self, id: ObjectId) -> Result<Logging> {
        let keys = [id, ObjectId::volume(id.volume)]
            .map(|id| Key { id, part: Part::Attribute { page: PAGE, number: LOGGING } });
        self.bring(&keys.map(|key| (key, key))).await?;
        let work = self.work.borrow();
        let chosen = keys.iter().find_map(|key| match work.meta.tree.get(key) {
            Some(Row::Attribute(value)) => Logging::decode(value),
            _ => None,
        });
        Ok(chosen.unwrap_or(Logging::UpTo(Bytes(self.settings().logged_up_to))))
    }

    /// Those of `ids` whose blocks are to stay in logs.
    pub(super) async fn staying(&self, ids: BTreeSet<ObjectId>) -> Result<BTreeSet<ObjectId>> {
        let mut staying = BTreeSet::new();
        for id in ids {
            match self.logging(id).await {
                Ok(Logging::Always) => drop(staying.insert(id)),
                Err(error) if error.kind != Kind::Damaged => return Err(error),
                _ => {}
            }
        }
        Ok(staying)
    }
}

#[cfg(test)]
mod tests;
