//! Where the mixed load's regions and the opponent's log lie: the same for every policy.

use super::LOGGED;
use crate::disk::SimDisk;
use forebay_env::{Device, PlainZones};
use forebay_model::{Bytes, Error, Result};
use forebay_target::layout::Layout;
use std::ops::Range;

/// Regions on the disk.
pub(super) const REGIONS: u32 = 16;
/// Those that most random accesses go to.
pub(super) const HOT: [u32; 3] = [3, 8, 13];
/// The one that is read in sequence, and the one that is written in sequence.
pub(super) const READ: u32 = 5;
pub(super) const WRITTEN: u32 = 11;
/// Regions are written in pieces of this before the load begins.
pub(super) const PIECE: u64 = Bytes::mib(8).0;
/// Groups that a target does not give to objects lie behind the last region.
const KEPT: u32 = 64;
/// What a log under the arm goes round in where tracks do not overlap anywhere.
const ROUND: Bytes = Bytes::mib(32);
/// A single log of up to so many bytes, at the outer edge: as in the published experiment (Manylogs, 2016, section 4.3).
const LOG: u64 = Bytes::gib(24).0;

/// The regions of one disk.
#[derive(Debug, Clone)]
pub(super) struct Regions {
    pub(super) layout: Layout,
    /// The group of a target whose data area each fills.
    pub(super) groups: Vec<u32>,
    /// The first group behind the last region that is kept free.
    pub(super) behind: u32,
    /// Bytes of each.
    pub(super) length: u64,
    /// The single log.
    pub(super) log: Range<u64>,
    /// Where tracks do not overlap.
    plain: Option<PlainZones>,
}

impl Regions {
    pub(super) fn of(disk: &SimDisk) -> Result<Regions> {
        let geometry = disk.geometry();
        let layout = Layout::for_geometry(&geometry)?;
        let behind = layout.groups.saturating_sub(layout.groups / KEPT + 2 * REGIONS);
        let unit = behind / REGIONS;
        if unit < 16 || layout.data(true).0 < PIECE {
            return Err(Error::usage(format!(
                "{} is too small for {REGIONS} regions far from each other; take a larger disk",
                geometry.size
            )));
        }
        let log = LOG.min(geometry.size.0 / 64);
        Ok(Regions {
            layout,
            groups: (0..REGIONS).map(|n| unit * n + unit / 2).collect(),
            behind,
            length: layout.data(true).0,
            log: layout.areas_at.0..layout.areas_at.0 + log,
            plain: geometry.plain,
        })
    }

    /// A place near `at` where anything can be written, so many bytes behind the first such; round and round.
    pub(super) fn plain_near(&self, at: u64, behind: u64) -> u64 {
        let PlainZones { every, length } = self.plain.unwrap_or(PlainZones { every: self.layout.group, length: ROUND });
        let room = length - Bytes(2 * LOGGED);
        at / every.0 * every.0 + (every - length).0 + behind % room.0
    }

    /// Where a region begins on the disk.
    pub(super) fn at(&self, region: u32) -> u64 {
        self.layout.group_at(self.groups[region as usize]).0
    }
}
