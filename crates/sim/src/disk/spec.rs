//! What a simulated disk is: its size, mechanics and caches, as numbers.

use forebay_env::PlainZones;
use forebay_model::{Bytes, Rate};
use std::time::Duration;

/// Everything about a disk but its content.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskSpec {
    /// What people call it, as in `sim:NAME`.
    pub name: String,
    /// Bytes from the first to the last.
    pub size: Bytes,
    /// Offsets and lengths of I/O are multiples of this.
    pub block: Bytes,
    /// How it moves bytes.
    pub mechanism: Mechanism,
    /// Room of the volatile write cache; `None` if it is off. With a cache, a write completes when it is in the cache
    /// and is durable only after a flush; without, a completed write is durable.
    pub write_cache: Option<Bytes>,
    /// How many bytes of completed writes a power cut may still take away when no flush has passed. Beyond it, the
    /// oldest of them are durable.
    pub unflushed: Bytes,
}

/// How a disk moves bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum Mechanism {
    /// Platters and an arm.
    Rotating(RotatingSpec),
    /// Platters and an arm, with tracks that overlap.
    Shingled(ShingledSpec),
    /// Flash behind channels.
    Ssd(SsdSpec),
}

/// Platters and an arm.
#[derive(Debug, Clone, PartialEq)]
pub struct RotatingSpec {
    /// Rotations in a minute.
    pub rpm: u32,
    /// Sustained sequential rate by position, from 0 (the first byte) to 1 (the end); linear between the points.
    /// Head and track switches are in it.
    pub curve: Vec<(f64, Rate)>,
    /// Tracks in a cylinder, between which the arm does not move.
    pub heads: u32,
    /// Time to move the arm.
    pub seek: SeekCurve,
    /// Time to change to another track of the same cylinder, other than in sequence.
    pub head_switch: Duration,
    /// What a write waits longer than a read after the arm or head has moved.
    pub write_settle: Duration,
    /// From a command's arrival until the disk can act on it.
    pub overhead: Duration,
    /// Between the disk's memory and the host.
    pub interface: Rate,
    /// Commands among which the disk chooses.
    pub queue: usize,
    /// A command that has waited this much longer than another is served first, wherever the head is.
    pub patience: Duration,
    /// How far the disk reads on by itself after a read.
    pub read_ahead: Bytes,
    /// How many separate ranges the disk remembers from earlier reads, each up to twice the read-ahead.
    pub segments: usize,
}

/// Platters and an arm, with tracks that overlap in bands, which the disk hides from the host.
#[derive(Debug, Clone, PartialEq)]
pub struct ShingledSpec {
    /// Platters and arm. The first byte on them is the media cache's.
    pub rotating: RotatingSpec,
    /// Tracks that overlap up to its end, so that changing some means writing all of it.
    pub band: Bytes,
    /// Of so many bands, the last has tracks that do not overlap and can be written anywhere.
    pub plain: u64,
    /// Room for writes that cannot be placed at once, before the first band, beside the size of the disk.
    pub media_cache: Bytes,
    /// After how long without a command it cleans.
    pub quiet: Duration,
}

/// Seek time over a fraction `d` of the stroke, for `d` above 0: `fixed + sqrt * d.sqrt() + linear * d`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SeekCurve {
    /// The shortest seek.
    pub fixed: Duration,
    /// Accelerating and braking.
    pub sqrt: Duration,
    /// Coasting.
    pub linear: Duration,
}

/// Flash behind channels.
#[derive(Debug, Clone, PartialEq)]
pub struct SsdSpec {
    /// How many pieces it works on at once.
    pub channels: usize,
    /// Consecutive bytes on one channel.
    pub stripe: Bytes,
    /// From choosing a page until its first byte.
    pub read_latency: Duration,
    /// From the last byte until a page is programmed.
    pub program_latency: Duration,
    /// What all channels read together.
    pub read_rate: Rate,
    /// What all channels write together, sustained.
    pub write_rate: Rate,
    /// From a command's arrival until the disk can act on it.
    pub overhead: Duration,
    /// Between the disk's memory and the host.
    pub interface: Rate,
}

impl DiskSpec {
    /// The same disk with the `n`th part of the capacity: rates, seek times over the same share of the stroke, rotation
    /// and caches stay as they are, so a pass over the disk takes the `n`th part of the time.
    pub fn scaled(mut self, n: u64) -> DiskSpec {
        assert!(n > 0, "a disk scaled by 0");
        self.size = Bytes(self.size.0 / n).align_down(Bytes::mib(1)).max(Bytes::mib(1));
        if let Mechanism::Shingled(spec) = &mut self.mechanism {
            let least = spec.band * 8;
            spec.media_cache = Bytes(spec.media_cache.0 / n).align_down(Bytes::mib(1)).max(least);
        }
        self
    }

    /// The same disk with `room` of write cache, or with the cache off.
    pub fn with_write_cache(mut self, room: Option<Bytes>) -> DiskSpec {
        self.write_cache = room;
        self
    }

    /// The platters and the arm, if it has them.
    pub fn rotating(&self) -> Option<&RotatingSpec> {
        match &self.mechanism {
            Mechanism::Rotating(spec) => Some(spec),
            Mechanism::Shingled(spec) => Some(&spec.rotating),
            Mechanism::Ssd(_) => None,
        }
    }

    /// Where tracks do not overlap, if others do.
    pub fn plain_zones(&self) -> Option<PlainZones> {
        match &self.mechanism {
            Mechanism::Shingled(spec) => Some(PlainZones { every: spec.band * spec.plain, length: spec.band }),
            _ => None,
        }
    }

    /// The sustained sequential read rate at `offset`.
    pub fn rate_at(&self, offset: Bytes) -> Rate {
        match &self.mechanism {
            Mechanism::Rotating(spec) => spec.rate_at(offset.0 as f64 / self.size.0 as f64),
            Mechanism::Shingled(spec) => {
                let before = spec.media_cache.0;
                spec.rotating.rate_at((before + offset.0) as f64 / (before + self.size.0) as f64)
            }
            Mechanism::Ssd(spec) => Rate(spec.read_rate.0.min(spec.interface.0)),
        }
    }
}

impl RotatingSpec {
    /// The rate at `position` between 0 and 1.
    pub fn rate_at(&self, position: f64) -> Rate {
        let position = position.clamp(0.0, 1.0);
        let next = self.curve.partition_point(|(at, _)| *at < position).clamp(1, self.curve.len() - 1);
        let ((x0, r0), (x1, r1)) = (self.curve[next - 1], self.curve[next]);
        let share = ((position - x0) / (x1 - x0)).clamp(0.0, 1.0);
        Rate((r0.0 as f64 + (r1.0 as f64 - r0.0 as f64) * share) as u64)
    }

    /// Nanoseconds of one rotation.
    pub fn turn(&self) -> u64 {
        60_000_000_000 / u64::from(self.rpm)
    }
}

impl ShingledSpec {
    /// Whether the tracks of the `band`th band do not overlap.
    pub fn is_plain(&self, band: u64) -> bool {
        band % self.plain == self.plain - 1
    }
}

impl SeekCurve {
    /// Nanoseconds to move over `distance`, a fraction of the stroke above 0.
    pub fn nanos(&self, distance: f64) -> u64 {
        let part = |span: Duration| span.as_nanos() as f64;
        (part(self.fixed) + part(self.sqrt) * distance.sqrt() + part(self.linear) * distance) as u64
    }
}
