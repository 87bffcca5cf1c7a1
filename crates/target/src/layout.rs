//! Where things lie on a device: arithmetic only.
//!
//! `[root 0][root 1][checkpoint area A][checkpoint area B][group 0][group 1]...`; a group is a data area and its log
//! area. Offsets are derived one from the other, in this order.
//!
//! On a device with tracks that overlap, groups are as long as it is from one zone without overlap to the next, so that
//! each log area lies in such a zone (Manylogs, 2016, section 4.3), and so do the checkpoint areas.

use forebay_env::{Geometry, PlainZones};
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
/// The longest log area: what opening reads of all open logs follows from it.
const LONGEST_LOG: Bytes = Bytes::mib(10);
/// A device has so many groups at least.
const FEWEST_GROUPS: u32 = 8;

/// The arithmetic of one formatted device. Fixed at format time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// Bytes of the device at format time.
    pub device: Bytes,
    /// Bytes of each of the two checkpoint areas.
    pub area: Bytes,
    /// Where the first of them begins.
    pub areas_at: Bytes,
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
        let (area, areas_at) = (area(device), ROOT_LEN * 2);
        let groups_at = (areas_at + area * 2).align_up(GROUP_ALIGN);
        let groups = groups(device, groups_at, group)?;
        Ok(Layout { device, area, areas_at, groups_at, group, log, groups })
    }

    /// The layout for a device whose tracks overlap outside of `zones`: logs at the ends of zones, checkpoint areas in
    /// the first one.
    pub fn with_plain_zones(device: Bytes, zones: PlainZones) -> Result<Layout> {
        let PlainZones { every, length } = zones;
        let refused = |why: String| {
            Error::usage(format!(
                "zones of {length} every {every} on a device of {device}: {why} (nothing was changed)"
            ))
        };
        let on_grid = |size: Bytes| size.0 > 0 && size.0.is_multiple_of(GROUP_ALIGN.0);
        if !on_grid(every) || !on_grid(length) || length >= every {
            return Err(refused(
                "both must be multiples of 1 MiB, and the zones shorter than what they recur in".into(),
            ));
        }
        let layout = Layout {
            device,
            area: area(device).min(length / 2).align_down(Bytes::kib(64)),
            areas_at: every - length,
            groups_at: every,
            group: every,
            log: length.min(LONGEST_LOG),
            groups: groups(device, every, every)?,
        };
        if layout.groups < FEWEST_GROUPS {
            return Err(refused(format!("it has {} of them, and {FEWEST_GROUPS} are needed", layout.groups)));
        }
        layout.check()?;
        Ok(layout)
    }

    /// The layout for a device as it describes itself; the one for any device where its zones are too few or too odd.
    pub fn for_geometry(geometry: &Geometry) -> Result<Layout> {
        let zoned = geometry.plain.and_then(|zones| Layout::with_plain_zones(geometry.size, zones).ok());
        zoned.map_or_else(|| Layout::for_device(geometry.size), Ok)
    }

    /// Whether logs lie where tracks do not overlap, while others do.
    pub fn is_zoned(&self) -> bool {
        self.areas_at > ROOT_LEN * 2
    }

    /// Whether the parts agree: what was read from a device is not trusted before.
    pub fn check(&self) -> Result<()> {
        let end = self.groups_at.0.checked_add(self.group.0.saturating_mul(u64::from(self.groups)));
        if self.group == Bytes::ZERO
            || self.log >= self.group
            || self.areas_at < ROOT_LEN * 2
            || self.areas_at.0.checked_add(self.area.0.saturating_mul(2)).is_none_or(|end| end > self.groups_at.0)
            || end.is_none_or(|end| end > self.device.0)
        {
            return Err(Error::damaged(format!("the layout in the superblock contradicts itself: {self:?}")));
        }
        Ok(())
    }

    /// Where checkpoint area 0 or 1 begins.
    pub fn area_at(&self, which: usize) -> Bytes {
        self.areas_at + self.area * which as u64
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

/// Bytes of a checkpoint area.
fn area(device: Bytes) -> Bytes {
    Bytes(device.0 / 256).align_down(Bytes::kib(64)).clamp(Bytes::kib(256), Bytes::mib(16))
}

/// How many groups there are from `at` on.
fn groups(device: Bytes, at: Bytes, group: Bytes) -> Result<u32> {
    u32::try_from(device.saturating_sub(at) / group)
        .map_err(|_| Error::usage(format!("a device of {device} has more groups than this version knows")))
}

#[cfg(test)]
mod tests;
