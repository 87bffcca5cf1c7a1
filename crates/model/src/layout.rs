//! How the bytes of a file lie on targets: striped, in two levels, with parity that its clients compute.
//!
//! A file is cut into *units*; the units of a *stripe* lie on the targets of one *parity group*, one on each. A *visit* is
//! so many stripes that follow one another on one group; then the next group is visited, so that whoever reads or writes a
//! long run talks to few targets at a time. (Panasas ActiveScale, 2004; the arithmetic is that of Linux's objects RAID
//! engine, 2011, which read and wrote its files.)
//!
//! Each target has one *component*: its bytes of the file, one unit of each stripe of its group behind the other.
//! [`address`] says where a byte lies and which byte lies somewhere, [`update`] what has to be read to write it or to do
//! without it; [`parity`] computes what is lost. No I/O.

pub mod address;
pub mod parity;
pub mod update;

use crate::error::{Error, Result};
use crate::size::Bytes;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// A unit, if nothing else is said.
pub const UNIT: Bytes = Bytes::kib(64);
/// A visit, about, if nothing else is said.
pub const VISIT: Bytes = Bytes::gib(1);
/// The most targets of a parity group: of more, two are lost at the same time too easily.
pub const MOST_IN_GROUP: u32 = 13;
/// The most copies of a byte.
pub const MOST_COPIES: u32 = 4;
/// The most components of a file.
pub const MOST_COMPONENTS: u32 = 4096;
/// The largest file. Sums of places in it, and in its components, are no larger than 64 bits.
pub const LARGEST: Bytes = Bytes(1 << 60);
/// Units are of so many bytes at least, and a multiple of it: the block of a target.
const LEAST_UNIT: Bytes = Bytes::kib(4);
/// Units are of so many bytes at most.
const MOST_UNIT: Bytes = Bytes::mib(16);

/// What is kept beside the bytes themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Raid {
    /// Nothing: a target that is lost takes its bytes along.
    Zero,
    /// So many copies, itself included, each on a target of its own.
    One(u32),
    /// One unit of parity in each stripe, on each target of the group in turn.
    Five,
}

/// How a file is striped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Striping {
    raid: Raid,
    unit: Bytes,
    /// Units of a stripe, with that of parity; copies are not counted.
    width: u32,
    /// Stripes of a visit.
    depth: u32,
    groups: u32,
}

impl Striping {
    /// Stripes of `width` units, with that of parity, over `groups` groups, each visited for `depth` stripes at a time.
    /// [`crate::Kind::Usage`] if there is no such layout.
    pub fn new(raid: Raid, unit: Bytes, width: u32, depth: u32, groups: u32) -> Result<Striping> {
        let striping = Striping { raid, unit, width, depth, groups };
        striping.check()?;
        Ok(striping)
    }

    /// The widest layout over `targets`: of groups that leave the fewest of them out, the widest, but none wider than ten
    /// targets where narrower ones leave out as few. A visit is of about [`VISIT`].
    pub fn over(raid: Raid, unit: Bytes, targets: u32) -> Result<Striping> {
        let copies = raid.copies();
        let columns = targets / copies.max(1);
        let least = if raid == Raid::Five { 3 } else { 1 };
        if columns < least {
            return Err(Error::usage(format!(
                "{raid} takes {} targets at least, and there are {targets}; add targets, or take another one",
                least * copies
            )));
        }
        let preference = |width: &u32| {
            let used = columns.min(MOST_COMPONENTS / copies) / width * width;
            (used, if *width <= 10 { *width as i64 } else { -i64::from(*width) })
        };
        let width = (least..=MOST_IN_GROUP.min(columns)).max_by_key(preference).expect("one is left");
        let groups = columns.min(MOST_COMPONENTS / copies) / width;
        let data = unit.0.max(1).saturating_mul(u64::from(width - raid.parity_units()));
        // With one group, too, though all visits are to that: parity takes turns within a visit.
        let depth = (VISIT.0 / data).clamp(1, u64::from(u32::MAX)) as u32;
        Striping::new(raid, unit, width, depth, groups)
    }

    /// Whether it is a layout: what comes from others is checked before it is used.
    pub fn check(&self) -> Result<()> {
        let Striping { raid, unit, width, depth, groups } = *self;
        let unit_fits = unit >= LEAST_UNIT && unit <= MOST_UNIT && unit.0.is_multiple_of(LEAST_UNIT.0);
        if !unit_fits {
            return Err(Error::usage(format!(
                "a stripe unit has {LEAST_UNIT} to {MOST_UNIT}, a multiple of {LEAST_UNIT}, and not {unit}"
            )));
        }
        let copies = raid.copies();
        if !(1..=MOST_COPIES).contains(&copies) || raid == Raid::One(1) {
            return Err(Error::usage(format!("{raid} keeps 2 to {MOST_COPIES} copies")));
        }
        let least = if raid == Raid::Five { 3 } else { 1 };
        if !(least..=MOST_IN_GROUP).contains(&width) {
            return Err(Error::usage(format!(
                "{raid} has stripes of {least} to {MOST_IN_GROUP} units, and not of {width}"
            )));
        }
        let components = u64::from(width) * u64::from(groups) * u64::from(copies);
        if depth == 0 || groups == 0 || components > u64::from(MOST_COMPONENTS) {
            return Err(Error::usage(format!(
                "{groups} groups of {width} units, {copies} times, in visits of {depth} stripes are {components} components; \
                 there are 1 to {MOST_COMPONENTS}"
            )));
        }
        Ok(())
    }

    /// What is kept beside the bytes.
    pub fn raid(&self) -> Raid {
        self.raid
    }

    /// Bytes of a unit.
    pub fn unit(&self) -> Bytes {
        self.unit
    }

    /// Units of a stripe, with that of parity.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Stripes of a visit.
    pub fn depth(&self) -> u32 {
        self.depth
    }

    /// Parity groups.
    pub fn groups(&self) -> u32 {
        self.groups
    }

    /// Units of a stripe that hold bytes of the file.
    pub fn data_units(&self) -> u32 {
        self.width - self.raid.parity_units()
    }

    /// Bytes of the file in a stripe.
    pub fn stripe(&self) -> Bytes {
        self.unit * u64::from(self.data_units())
    }

    /// Components: one on each target.
    pub fn components(&self) -> u32 {
        self.width * self.groups * self.raid.copies()
    }

    /// The components with which this one shares what can be lost: of these, as many as there are to spare.
    pub fn family(&self, component: u32) -> Range<u32> {
        let together = match self.raid.parity_units() {
            0 => self.raid.copies(),
            _ => self.width,
        };
        let first = component / together * together;
        first..first + together
    }

    /// Components of a stripe that may be lost without any of its bytes.
    pub fn spare(&self) -> u32 {
        self.raid.parity_units() + self.raid.copies() - 1
    }
}

impl Raid {
    /// How often each byte is there.
    pub fn copies(self) -> u32 {
        if let Raid::One(copies) = self { copies } else { 1 }
    }

    /// Units of parity in a stripe.
    pub fn parity_units(self) -> u32 {
        u32::from(self == Raid::Five)
    }
}

impl std::fmt::Display for Raid {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Raid::Zero => f.write_str("RAID 0"),
            Raid::One(copies) => write!(f, "RAID 1 with {copies} copies"),
            Raid::Five => f.write_str("RAID 5"),
        }
    }
}

#[cfg(test)]
mod tests;
