//! Where bytes lie on the platters. Zones of whole tracks, each zone with its own number of bytes in a track.
//!
//! A place is told as a *spin*: the nanoseconds that the platters turn while the head streams from the first byte to
//! there. Streaming from a to b takes `spin(b) - spin(a)`; the angle under which a place passes the head is its spin
//! modulo a turn; the arm's position is its spin as a share of the whole.

use super::spec::RotatingSpec;

/// Zones on a disk, if there is room for as many.
const ZONES: u64 = 128;

struct Zone {
    start: u64,
    first_spin: u64,
    track: u64,
}

pub(super) struct Surface {
    zones: Vec<Zone>,
    turn: u64,
    cylinder: u64,
    total: u64,
}

impl Surface {
    pub(super) fn new(spec: &RotatingSpec, size: u64) -> Surface {
        let turn = spec.turn();
        let mut zones = Vec::new();
        let (mut start, mut spin) = (0, 0);
        while start < size {
            // The rate in the middle of the zone to come.
            let middle = (start as f64 + size as f64 / ZONES as f64 / 2.0) / size as f64;
            let bytes = u128::from(spec.rate_at(middle).0) * u128::from(turn) / 1_000_000_000;
            let track = (bytes as u64).next_multiple_of(512);
            let tracks = (size / ZONES / track).max(1);
            zones.push(Zone { start, first_spin: spin, track });
            start += tracks * track;
            spin += tracks * turn;
        }
        let mut surface = Surface { zones, turn, cylinder: turn * u64::from(spec.heads), total: 1 };
        surface.total = surface.spin(size);
        surface
    }

    /// The spin of `offset`.
    pub(super) fn spin(&self, offset: u64) -> u64 {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.start <= offset) - 1];
        let inside = offset - zone.start;
        zone.first_spin + inside / zone.track * self.turn + inside % zone.track * self.turn / zone.track
    }

    /// The first offset whose spin is at least `spin`.
    pub(super) fn offset(&self, spin: u64) -> u64 {
        let zone = &self.zones[self.zones.partition_point(|zone| zone.first_spin <= spin) - 1];
        let inside = spin - zone.first_spin;
        zone.start + inside / self.turn * zone.track + (inside % self.turn * zone.track).div_ceil(self.turn)
    }

    /// Bytes in the track at `offset`.
    pub(super) fn track(&self, offset: u64) -> u64 {
        self.zones[self.zones.partition_point(|zone| zone.start <= offset) - 1].track
    }

    /// How far apart two spins are for the arm.
    pub(super) fn distance(&self, a: u64, b: u64) -> Distance {
        if a / self.turn == b / self.turn {
            Distance::SameTrack
        } else if a / self.cylinder == b / self.cylinder {
            Distance::SameCylinder
        } else {
            Distance::Stroke(a.abs_diff(b) as f64 / self.total as f64)
        }
    }
}

/// How far the arm must move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Distance {
    SameTrack,
    SameCylinder,
    /// A share of the whole stroke.
    Stroke(f64),
}

#[cfg(test)]
mod tests;
