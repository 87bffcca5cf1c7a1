//! Where a heap lies: units one after the other over the data areas of its groups. Arithmetic only.

use super::classes::UNIT;
use crate::layout::Layout;
use forebay_model::Bytes;

/// The groups of a heap, in the order in which it runs over them.
#[derive(Debug, Clone)]
pub struct Space {
    layout: Layout,
    groups: Vec<u32>,
}

impl Space {
    /// Over these groups.
    pub fn new(layout: Layout, groups: Vec<u32>) -> Space {
        Space { layout, groups }
    }

    /// Units of a group.
    pub fn units_per_group(&self) -> u32 {
        (self.layout.data(true) / UNIT) as u32
    }

    /// Units of all groups.
    pub fn units(&self) -> u32 {
        self.units_per_group() * self.groups.len() as u32
    }

    /// Where so many bytes from `at` on lie on the device: places and lengths, in order.
    pub fn runs(&self, at: Bytes, length: Bytes) -> Vec<(Bytes, Bytes)> {
        let span = UNIT * u64::from(self.units_per_group());
        let mut runs: Vec<(Bytes, Bytes)> = Vec::new();
        let (mut at, end) = (at, at + length);
        while at < end {
            let (group, within) = (self.groups[(at / span) as usize], Bytes(at.0 % span.0));
            let here = (span - within).min(end - at);
            let place = self.layout.group_at(group) + within;
            match runs.last_mut() {
                Some((last, bytes)) if *last + *bytes == place => *bytes += here,
                _ => runs.push((place, here)),
            }
            at += here;
        }
        runs
    }
}

#[cfg(test)]
mod tests;
