//! What is chosen of logs: for the target in the catalog, for a volume or an object in an attribute that the target
//! itself looks at.
//!
//! Invariant: an attribute on the target's own page is one that it understands.

pub use forebay_model::settings::{LOGGING, Logging, PAGE};

use super::Objects;
use super::logs::{Settings, check_threshold};
use super::rows::{Key, Part, Row};
use forebay_model::settings::{SettingsChange, TargetSettings};
use forebay_model::{Bytes, Error, Kind, ObjectId, Result};
use std::collections::BTreeSet;

/// Refuses an attribute on the target's own page that it does not understand.
pub(super) fn check(page: u32, number: u32, value: Option<&[u8]>) -> Result<()> {
    if page == PAGE && (number != LOGGING || value.is_some_and(|value| Logging::decode(value).is_none())) {
        return Err(Error::usage(format!(
            "attribute {page}/{number} is the target's own, and it knows no such value; take another page"
        )));
    }
    match value.filter(|_| page == PAGE).and_then(Logging::decode) {
        Some(Logging::UpTo(most)) => check_threshold(most),
        _ => Ok(()),
    }
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
        let before = self.core.with_objects_mut(|objects| std::mem::replace(&mut objects.settings, settings));
        self.work.borrow_mut().meta.logs.set_near(settings.near_groups);
        if settings.cache != before.cache {
            self.set_cache(Bytes(settings.cache));
        }
        self.core.commit().await
    }

    /// Chooses some of it anew, durably, unless that is nothing; what is chosen then.
    pub async fn change_settings(&self, change: SettingsChange) -> Result<TargetSettings> {
        self.ready().await?;
        let before = self.settings();
        let chosen = change.over(TargetSettings::from(before));
        if Settings::from(chosen) != before {
            self.set_settings(chosen.into()).await?;
        }
        Ok(chosen)
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
