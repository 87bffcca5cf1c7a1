//! Where things lie on a device: arithmetic only.
//!
//! `[root 0][root 1][checkpoint area A][checkpoint area B][group 0][group 1]...`; a group is a data area and its log
//! area. Offsets are derived one from the other, in this order.

use forebay_model::{Bytes, Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Bytes of each root.
pub const ROOT_LEN: Bytes = Bytes::kib(64);
/// Offsets of the two roots.
pub const ROOTS: [Bytes; 2] = [Bytes::ZERO, ROOT_LEN];
/// The smallest device that can be formatted.
pub const MIN_DEVICE: Bytes = Bytes::mib(16);
/// Groups begin on multiples of this.
const GROUP_ALIGN: Bytes = Bytes::mib(1);

/// The arithmetic of one formatted device. Fixed at format time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Bytes of the device at format time.
    pub device: Bytes,
    /// Bytes of each of the two checkpoint areas.
    pub area: Bytes,
    /// Where group 0 begins.
    pub groups_at: Bytes,
    /// Bytes of a group: data area and log area.
    pub group: Bytes,
    /// Bytes of a group's log area, at its end.
    pub log: Bytes,
    /// Number of groups.
    pub groups: u32,
}

impl Layout {
    /// The layout for a device: groups of 90 + 10 MiB where the device has room for at least 64 of them, smaller
    /// ones of the same shape elsewhere, so that a small device has segments to run round in, too.
    pub fn for_device(device: Bytes) -> Result<Layout> {
        if device < MIN_DEVICE {
            return Err(Error::usage(format!("a device of {device} is too small; the least is {MIN_DEVICE}")));
        }
        let group_mib = (device.0 / 64 / Bytes::mib(1).0).clamp(1, 100);
        let group = if group_mib == 100 { Bytes::mib(100) } else { Bytes::mib(group_mib) };
        let log = (group / 10).align_down(Bytes::kib(64));
        let area = Bytes(device.0 / 256).align_down(Bytes::kib(64)).clamp(Bytes::kib(256), Bytes::mib(16));
        let groups_at = (ROOT_LEN * 2 + area * 2).align_up(GROUP_ALIGN);
        let groups = device.saturating_sub(groups_at) / group;
        let groups = u32::try_from(groups)
            .map_err(|_| Error::usage(format!("a device of {device} has more groups than this version knows")))?;
        Ok(Layout { device, area, groups_at, group, log, groups })
    }

    /// Whether the parts agree: what was read from a device is not trusted before.
    pub fn check(&self) -> Result<()> {
        let end = self.groups_at.0.checked_add(self.group.0.saturating_mul(u64::from(self.groups)));
        if self.group == Bytes::ZERO
            || self.log >= self.group
            || self.groups_at < ROOT_LEN * 2 + self.area * 2
            || end.is_none_or(|end| end > self.device.0)
        {
            return Err(Error::damaged(format!("the layout in the superblock contradicts itself: {self:?}")));
        }
        Ok(())
    }

    /// Where checkpoint area 0 or 1 begins.
    pub fn area_at(&self, which: usize) -> Bytes {
        ROOT_LEN * 2 + self.area * which as u64
    }

    /// Where group `group` begins.
    pub fn group_at(&self, group: u32) -> Bytes {
        assert!(group < self.groups, "group {group} of {}", self.groups);
        self.groups_at + self.group * u64::from(group)
    }

    /// Where these groups lie; those that follow one another are one run.
    pub fn runs(&self, groups: impl IntoIterator<Item = u32>) -> Vec<Range<Bytes>> {
        let mut runs: Vec<Range<Bytes>> = Vec::new();
        for group in groups {
            let at = self.group_at(group);
            match runs.last_mut() {
                Some(last) if last.end == at => last.end = at + self.group,
                _ => runs.push(at..at + self.group),
            }
        }
        runs
    }

    /// Bytes of a group that hold data: all of it where it is formatted without a log.
    pub fn data(&self, with_logs: bool) -> Bytes {
        if with_logs { self.group - self.log } else { self.group }
    }
}

#[cfg(test)]
mod tests;
