//! How something came to be damaged, as far as what lies there instead tells: rot, a write that was lost, or one that
//! went elsewhere. Blocks and trailers say where they belong and how old they are; what carries no such stamp (tables,
//! index pages) counts as rotten.

use crate::segment::Trailer;
use forebay_model::block::Header;

/// How damage came about. Of two that are seen in one place the greater counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Nothing whole is there: it rotted, was torn, or cannot be read.
    #[default]
    Rot,
    /// What was there before is still there: the device acknowledged a write and lost it.
    LostWrite,
    /// What is there belongs elsewhere: the device wrote it to the wrong place.
    Misdirected,
}

impl Cause {
    /// What programs call it.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Rot => "rot",
            Cause::LostWrite => "lost_write",
            Cause::Misdirected => "misdirected_write",
        }
    }

    /// What it means, for people.
    pub fn meaning(self) -> &'static str {
        match self {
            Cause::Rot => "damaged",
            Cause::LostWrite => "older than it should be, since the device lost a write",
            Cause::Misdirected => "that of another place, since the device wrote it here",
        }
    }
}

/// The place of a segment: what is stamped on whatever belongs there.
#[derive(Clone, Copy)]
pub(super) struct Spot {
    pub(super) target: u128,
    pub(super) ring: u64,
    pub(super) segment: u64,
    pub(super) slot: u32,
}

impl Spot {
    /// What lies where a block of this segment should begin, `offset` bytes into it.
    pub(super) fn instead_of_block(&self, here: &[u8], offset: u32) -> Cause {
        let Ok(header) = Header::read(here) else { return Cause::Rot };
        let stamp = header.stamp();
        let segment = stamp.segment;
        match (stamp.target, stamp.ring, stamp.slot, stamp.offset) == (self.target, self.ring, self.slot, offset) {
            // Header and place agree, so what is wrong is behind the header.
            true if segment == self.segment => Cause::Rot,
            true if segment < self.segment => Cause::LostWrite,
            _ => Cause::Misdirected,
        }
    }

    /// The same of its trailer.
    pub(super) fn instead_of_trailer(&self, trailer: &Trailer) -> Cause {
        let older = trailer.is_at(self.target, self.ring, self.slot, trailer.summary.sequence)
            && trailer.summary.sequence < self.segment;
        if older { Cause::LostWrite } else { Cause::Misdirected }
    }
}

#[cfg(test)]
mod tests;
