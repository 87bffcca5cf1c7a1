//! What a volume may have: bytes as the sizes of files say, and how many files and directories there are.
//!
//! A hard bound is never passed. A soft one may be, for [`GRACE`]; then it is a hard one until there is less again.

use crate::draft::{Draft, View};
use crate::keys;
use crate::records::VolumeRecord;
use forebay_model::{Bytes, Error, Result, Timestamp};
use forebay_wire::control::volumes::Quota;
use std::time::Duration;

/// How long a soft bound may be passed.
pub(crate) const GRACE: Duration = Duration::from_secs(7 * 24 * 3600);

/// What is put into a volume, or taken out of it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Charge {
    pub(crate) bytes_in: Bytes,
    pub(crate) bytes_out: Bytes,
    pub(crate) files_in: u64,
    pub(crate) files_out: u64,
}

impl Charge {
    /// Bytes and files of a volume with this.
    fn of(self, record: &VolumeRecord) -> (u64, u64) {
        let bytes = (record.bytes.0.saturating_add(self.bytes_in.0)).saturating_sub(self.bytes_out.0);
        (bytes, (record.files + self.files_in).saturating_sub(self.files_out))
    }
}

/// Charges a volume; [`forebay_model::Kind::Full`] if that passes a bound.
pub(crate) fn charge(draft: &mut Draft<'_>, now: Timestamp, volume: u64, charge: Charge) -> Result<()> {
    let record: VolumeRecord = draft.require(&keys::volume(volume))?;
    if record.bytes.0.checked_add(charge.bytes_in.0).is_none() {
        // What is counted no further could not be taken out again.
        return Err(full(volume, record.bytes, charge.bytes_in, Bytes(u64::MAX)));
    }
    let (bytes, files) = charge.of(&record);
    let limits = limits(&record, now);
    if let Some(most) = limits.hard_bytes.filter(|most| bytes > most.0 && bytes > record.bytes.0) {
        return Err(full(volume, record.bytes, Bytes(bytes - record.bytes.0), most));
    }
    if let Some(most) = limits.hard_files.filter(|most| files > *most && files > record.files) {
        return Err(Error::full(format!(
            "volume {volume} has {} files and directories of the {most} that it may have, and {} more are too many; \
             remove some, or have the quota raised",
            record.files,
            files - record.files
        )));
    }
    note(draft, now, volume, charge)
}

/// Charges a volume for what is there, whether or not that passes a bound.
pub(crate) fn note(draft: &mut Draft<'_>, now: Timestamp, volume: u64, charge: Charge) -> Result<()> {
    let key = keys::volume(volume);
    let mut record: VolumeRecord = draft.require(&key)?;
    let (bytes, files) = charge.of(&record);
    (record.bytes, record.files) = (Bytes(bytes), files);
    mark(&mut record, now);
    draft.put(key, &record)
}

/// [`forebay_model::Kind::Full`] if a volume cannot take another byte.
pub(crate) fn require_bytes(draft: &Draft<'_>, now: Timestamp, volume: u64) -> Result<()> {
    let record: VolumeRecord = draft.require(&keys::volume(volume))?;
    match limits(&record, now).hard_bytes {
        Some(most) if record.bytes >= most => Err(full(volume, record.bytes, Bytes(1), most)),
        _ => Ok(()),
    }
}

/// Notes since when each soft bound is passed: one that was passed just now has its whole grace, however long the other is.
pub(crate) fn mark(record: &mut VolumeRecord, now: Timestamp) {
    let bytes = record.quota.soft_bytes.is_some_and(|most| record.bytes > most);
    let files = record.quota.soft_files.is_some_and(|most| record.files > most);
    record.bytes_over_since = bytes.then(|| record.bytes_over_since.unwrap_or(now));
    record.files_over_since = files.then(|| record.files_over_since.unwrap_or(now));
}

/// [`forebay_model::Kind::Usage`] if a soft bound is above the hard one.
pub(crate) fn check(quota: &Quota) -> Result<()> {
    let bytes = (quota.soft_bytes.map(|bytes| bytes.0), quota.hard_bytes.map(|bytes| bytes.0));
    for (soft, hard) in [bytes, (quota.soft_files, quota.hard_files)] {
        if let (Some(soft), Some(hard)) = (soft, hard)
            && soft > hard
        {
            return Err(Error::usage(format!("a soft bound of {soft} is above the hard one of {hard}; lower it")));
        }
    }
    Ok(())
}

/// The bounds that count now.
fn limits(record: &VolumeRecord, now: Timestamp) -> Quota {
    let mut quota = record.quota;
    let is_hard = |since: Option<Timestamp>| since.is_some_and(|since| now.since(since) > GRACE);
    if is_hard(record.bytes_over_since) {
        quota.hard_bytes = quota.soft_bytes.or(quota.hard_bytes);
    }
    if is_hard(record.files_over_since) {
        quota.hard_files = quota.soft_files.or(quota.hard_files);
    }
    quota
}

fn full(volume: u64, there: Bytes, more: Bytes, most: Bytes) -> Error {
    Error::full(format!(
        "volume {volume} has {there} of the {most} that it may have, and {more} more are too many; remove some, or have the \
         quota raised"
    ))
}

#[cfg(test)]
mod tests;
