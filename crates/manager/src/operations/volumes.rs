//! Making, changing and removing volumes.

use super::Operation;
use super::inodes::exists;
use crate::copies;
use crate::draft::View;
use crate::keys;
use crate::place;
use crate::placement;
use crate::quota;
use crate::records::{Answer, Fresh, Next, VolumeRecord};
use forebay_model::{Error, Result};
use forebay_wire::control::Reply;
use forebay_wire::control::names::FileKind;
use forebay_wire::control::volumes::{CreateVolume, RemoveVolume, SetVolume};

impl Operation<'_> {
    /// Makes a directory that is a volume.
    pub(super) fn create_volume(&mut self, asked: &CreateVolume) -> Result<Answer> {
        self.by.require_root("make volumes")?;
        quota::check(&asked.quota)?;
        placement::check(&asked.policy)?;
        let slot = place::slot(&self.draft, self.by, &asked.place)?;
        if slot.there.is_some() {
            return Err(exists(&slot));
        }
        self.require_depth(slot.directory.file)?;
        let mut next: Next = self.draft.require(keys::NEXT)?;
        let volume = next.volume;
        if volume >= copies::VOLUME {
            return Err(Error::full(
                "there are no numbers left for volumes: those behind are of what clusters keep for themselves",
            ));
        }
        next.volume += 1;
        self.draft.put(keys::NEXT.to_vec(), &next)?;
        let CreateVolume { mode, owner, group, quota, policy, .. } = *asked;
        let found = self.make(&slot, Fresh { kind: FileKind::Directory, mode, owner, group, volume })?;
        let mut record = VolumeRecord::fresh(found.file, quota, policy);
        quota::mark(&mut record, self.now.wall);
        self.draft.put(keys::volume(volume), &record)?;
        Ok(Answer::Reply(Reply::Volume(record.volume(volume))))
    }

    /// Gives a volume another quota or policy.
    pub(super) fn set_volume(&mut self, asked: &SetVolume) -> Result<Answer> {
        self.by.require_root("change volumes")?;
        let mut record = self.volume_record(asked.volume)?;
        if let Some(quota) = asked.quota {
            quota::check(&quota)?;
            record.quota = quota;
        }
        if let Some(policy) = asked.policy {
            placement::check(&policy)?;
            record.policy = policy;
        }
        quota::mark(&mut record, self.now.wall);
        self.draft.put(keys::volume(asked.volume), &record)?;
        Ok(Answer::Reply(Reply::Volume(record.volume(asked.volume))))
    }

    /// Removes a volume with nothing in it, and its directory.
    pub(super) fn remove_volume(&mut self, asked: &RemoveVolume) -> Result<()> {
        self.by.require_root("remove volumes")?;
        let slot = place::slot(&self.draft, self.by, &asked.place)?;
        let found = place::taken(&self.draft, &slot)?;
        let attributes = &found.inode.attributes;
        let volume = attributes.volume;
        if volume == slot.directory.inode.attributes.volume {
            return Err(Error::usage(format!("'{}' is not the root of a volume; name one", slot.name)));
        }
        if attributes.entries > 0 {
            return Err(Error::refused(format!(
                "volume {volume} has {} entries at its root; remove them first",
                attributes.entries
            )));
        }
        self.unmake(&slot, &found)?;
        self.draft.delete(keys::volume(volume));
        Ok(())
    }

    fn volume_record(&self, volume: u64) -> Result<VolumeRecord> {
        let missing = || Error::missing(format!("there is no volume {volume}; ask for all of them"));
        self.draft.read(&keys::volume(volume))?.ok_or_else(missing)
    }
}
