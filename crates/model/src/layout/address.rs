//! Where each byte of a striped file lies, and which byte lies somewhere.
//!
//! The components of group `g` are those from `g * width` on; copies follow one another: the component of column `c` that
//! has copy `k` is `c * copies + k`. A component has, of each stripe of its group, one unit, in the order of stripes: so
//! unit `n` of a component is that of the `n`-th stripe of its group.

use super::{LARGEST, Raid, Striping};
use crate::error::{Error, Result};
use crate::size::Bytes;
use std::ops::Range;

/// A stripe: how many are before it in the file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StripeId(pub u64);

/// A part of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    /// The component; its first copy.
    pub component: u32,
    /// Where in it.
    pub at: Bytes,
}

/// Bytes of a file that lie one behind the other in a component: within a unit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// Which bytes of the file.
    pub bytes: Range<u64>,
    /// Where they lie.
    pub place: Place,
}

/// What a byte of a component is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// This byte of the file.
    Data(Bytes),
    /// Parity of the bytes of a stripe that lie so far from the beginning of their units.
    Parity(StripeId, Bytes),
}

impl Striping {
    /// The stripe in which a byte lies.
    pub fn stripe_of(&self, byte: Bytes) -> StripeId {
        StripeId(byte.0 / self.stripe().0)
    }

    /// The bytes of the file in a stripe.
    pub fn bytes_of(&self, stripe: StripeId) -> Range<u64> {
        let stripe_bytes = self.stripe().0;
        stripe.0 * stripe_bytes..(stripe.0 + 1) * stripe_bytes
    }

    /// The group of a stripe, and how many of the group's stripes are before it.
    fn visit(&self, StripeId(stripe): StripeId) -> (u32, u64) {
        let (depth, groups) = (u64::from(self.depth()), u64::from(self.groups()));
        let visit = stripe / depth;
        ((visit % groups) as u32, visit / groups * depth + stripe % depth)
    }

    /// The `nth` stripe of a group.
    fn nth_of_group(&self, group: u32, nth: u64) -> StripeId {
        let (depth, groups) = (u64::from(self.depth()), u64::from(self.groups()));
        StripeId((nth / depth * groups + u64::from(group)) * depth + nth % depth)
    }

    /// By how many columns a stripe is turned. Each visit begins anew.
    fn turn(&self, nth: u64) -> u32 {
        match self.raid() {
            Raid::Five => (nth % u64::from(self.depth()) % u64::from(self.width())) as u32,
            _ => 0,
        }
    }

    fn component(&self, group: u32, column: u32) -> u32 {
        (group * self.width() + column) * self.raid().copies()
    }

    /// Where unit `unit` of a stripe's data begins.
    pub fn unit_of(&self, stripe: StripeId, unit: u32) -> Place {
        assert!(unit < self.data_units(), "unit {unit} of the {} of a stripe", self.data_units());
        let (group, nth) = self.visit(stripe);
        let column = (self.width() + unit - self.turn(nth)) % self.width();
        Place { component: self.component(group, column), at: self.unit() * nth }
    }

    /// The components of a stripe, or the copies of a unit of `component`, in the order in which they are asked for its lock.
    pub fn holders(&self, component: u32, stripe: StripeId) -> Vec<u32> {
        match self.parity_of(stripe) {
            None => self.family(component).collect(),
            Some(parity) => {
                let data = (0..self.data_units()).map(|unit| self.unit_of(stripe, unit).component);
                std::iter::once(parity.component).chain(data).collect()
            }
        }
    }

    /// Where a stripe's parity begins; `None` if it has none.
    pub fn parity_of(&self, stripe: StripeId) -> Option<Place> {
        let (group, nth) = self.visit(stripe);
        (self.raid().parity_units() == 1).then(|| {
            let column = (2 * self.width() - 1 - self.turn(nth)) % self.width();
            Place { component: self.component(group, column), at: self.unit() * nth }
        })
    }

    /// Where a byte of the file lies.
    pub fn place_of(&self, byte: Bytes) -> Place {
        let (stripe, within) = (self.stripe_of(byte), byte.0 % self.stripe().0);
        let Place { component, at } = self.unit_of(stripe, (within / self.unit().0) as u32);
        Place { component, at: at + Bytes(within % self.unit().0) }
    }

    /// The pieces of a range of a file, in its order. [`crate::Kind::Usage`] if it ends behind [`LARGEST`].
    pub fn pieces(&self, bytes: Range<u64>) -> Result<impl Iterator<Item = Piece> + use<>> {
        if bytes.end > LARGEST.0 || bytes.start > bytes.end {
            return Err(Error::usage(format!(
                "bytes {} to {} are no range of a file, which has {LARGEST} at most",
                bytes.start, bytes.end
            )));
        }
        let (striping, unit) = (*self, self.unit().0);
        let units = bytes.start / unit..bytes.end.div_ceil(unit);
        let none = bytes.is_empty();
        Ok(units.filter(move |_| !none).map(move |nth| {
            let here = bytes.start.max(nth * unit)..bytes.end.min((nth + 1) * unit);
            Piece { place: striping.place_of(Bytes(here.start)), bytes: here }
        }))
    }

    /// What a byte of a component is.
    pub fn held_at(&self, place: Place) -> Holds {
        assert!(place.component < self.components(), "component {} of {}", place.component, self.components());
        let column = place.component / self.raid().copies();
        let (group, column) = (column / self.width(), column % self.width());
        let (nth, within) = (place.at.0 / self.unit().0, Bytes(place.at.0 % self.unit().0));
        let stripe = self.nth_of_group(group, nth);
        let unit = (column + self.turn(nth)) % self.width();
        match unit < self.data_units() {
            true => Holds::Data(Bytes(self.bytes_of(stripe).start) + self.unit() * u64::from(unit) + within),
            false => Holds::Parity(stripe, within),
        }
    }

    /// Bytes that a component has of a file of `size` without holes. Parity is as long as the longest unit of its stripe.
    pub fn length_of(&self, component: u32, size: Bytes) -> Bytes {
        assert!(component < self.components(), "component {component} of {}", self.components());
        if size == Bytes::ZERO {
            return Bytes::ZERO;
        }
        let group = component / self.raid().copies() / self.width();
        let stripe_bytes = self.stripe().0;
        // Whole stripes, and the one in which the file ends, whole or not.
        let (whole, rest) = (size.0 / stripe_bytes, size.0 % stripe_bytes);
        let before = self.of_group_before(group, whole);
        let (last_group, nth) = self.visit(StripeId(whole));
        if rest == 0 || last_group != group {
            return self.unit() * before;
        }
        let begin = Place { component, at: self.unit() * nth };
        let within = match self.held_at(begin) {
            Holds::Data(byte) => size.saturating_sub(byte),
            Holds::Parity(..) => Bytes(rest),
        };
        self.unit() * before + within.min(self.unit())
    }

    /// How many of the first `stripes` are of a group.
    fn of_group_before(&self, group: u32, stripes: u64) -> u64 {
        let (depth, groups) = (u64::from(self.depth()), u64::from(self.groups()));
        let round = depth * groups;
        let begun = (stripes % round).saturating_sub(u64::from(group) * depth).min(depth);
        stripes / round * depth + begun
    }

    /// The size of the smallest file of which a component has so many bytes; a file is as large as the largest of these.
    pub fn size_from(&self, component: u32, length: Bytes) -> Bytes {
        if length == Bytes::ZERO {
            return Bytes::ZERO;
        }
        let last = Place { component, at: length - Bytes(1) };
        match self.held_at(last) {
            Holds::Data(byte) => byte + Bytes(1),
            // Some unit of the stripe is as long; the first one is always.
            Holds::Parity(stripe, within) => Bytes(self.bytes_of(stripe).start) + within + Bytes(1),
        }
    }
}

#[cfg(test)]
mod tests;
