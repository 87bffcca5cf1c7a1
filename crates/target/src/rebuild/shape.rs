//! How a ring divides its groups: the bytes of a segment, and whether the groups have log areas. A description says it.
//!
//! Without one, few shapes are possible, since segments fill a group's data area as often as they fit. A block says where in its
//! segment it lies, a trailer lies at the segment's end, and both say in which slot: the shape that most of them agree
//! with is the ring's.

use super::sweep::{Sighting, What};
use crate::catalog::RingRecord;
use crate::layout::Layout;
use crate::segment::{Description, TRAILER_LEN};
use forebay_model::Bytes;

/// The smallest segment there is.
const LEAST_SEGMENT: Bytes = Bytes::kib(256);

/// A ring's shape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Shape {
    pub(super) without_logs: bool,
    pub(super) segment: Bytes,
    /// Segments in a group.
    pub(super) per_group: u32,
}

impl Shape {
    /// Of a ring that says what it is; none if no segment of it would fit a group.
    pub(super) fn of(layout: &Layout, description: &Description) -> Option<Shape> {
        let Description { without_logs, spec, .. } = description;
        let per_group = layout.data(!without_logs).0.checked_div(spec.segment.0).unwrap_or(0) as u32;
        (per_group > 0).then_some(Shape { without_logs: *without_logs, segment: spec.segment, per_group })
    }

    /// Where the segment of a slot begins in the group of its place.
    pub(super) fn start(&self, slot: u32) -> u64 {
        self.segment.0 * u64::from(slot % self.per_group)
    }

    /// Whether a sighting lies where this shape has it.
    pub(super) fn fits(&self, layout: &Layout, sighting: &Sighting) -> bool {
        if u64::from(sighting.slot) >= RingRecord::most_slots(layout) {
            return false;
        }
        let start = layout.group_at(sighting.group).0 + self.start(sighting.slot);
        match &sighting.what {
            What::Blocks(blocks) => blocks.at == start && u64::from(blocks.reach) <= self.segment.0,
            What::Trail(trail) => {
                // Room was kept for tables that are some bytes longer, which may have been a page.
                let between = (self.segment.0 - TRAILER_LEN).checked_sub(trail.tables_end);
                trail.end == start + self.segment.0 && between.is_some_and(|bytes| bytes < 2 * TRAILER_LEN)
            }
        }
    }
}

/// The shape that most of the sightings of a ring fit, and whether it is the only one. Of several, that with log areas
/// and the largest segments.
pub(super) fn shape<'a>(
    layout: &Layout,
    sightings: impl Iterator<Item = &'a Sighting> + Clone,
) -> Option<(Shape, bool)> {
    let mut best: Option<(usize, Shape)> = None;
    let mut alone = true;
    for shape in shapes(layout) {
        let fitting = sightings.clone().filter(|sighting| shape.fits(layout, sighting)).count();
        match best {
            _ if fitting == 0 => {}
            Some((most, _)) if fitting < most => {}
            Some((most, _)) if fitting == most => alone = false,
            _ => (best, alone) = (Some((fitting, shape)), true),
        }
    }
    best.map(|(_, shape)| (shape, alone))
}

fn shapes(layout: &Layout) -> impl Iterator<Item = Shape> {
    [false, true].into_iter().flat_map(|without_logs| {
        let data = layout.data(!without_logs).0;
        let mut last = 0;
        (1..=data / LEAST_SEGMENT.0).filter_map(move |per_group| {
            let segment = Bytes(data / per_group).align_down(Bytes(4096));
            let per_group = (data / segment.0) as u32;
            (std::mem::replace(&mut last, segment.0) != segment.0).then_some(Shape { without_logs, segment, per_group })
        })
    })
}
