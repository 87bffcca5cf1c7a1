//! Writes of several components, few for each: what follows what was put before in a component goes with it, up to a
//! bound.

use super::components::Slice;
use super::reach::Reach;
use super::rope::Rope;
use super::together::all;
use forebay_model::layout::address::Place;
use forebay_model::layout::update::Extent;
use forebay_model::object::Durability;
use forebay_model::{Bytes, Error};
use std::collections::BTreeMap;

/// Writes that are gathered by component.
pub(super) struct Batch {
    most: u64,
    runs: BTreeMap<u32, Vec<Run>>,
}

struct Run {
    at: Bytes,
    length: u64,
    slices: Vec<Slice>,
}

impl Batch {
    /// Requests of `most` bytes at most.
    pub(super) fn of(most: Bytes) -> Batch {
        Batch { most: most.0, runs: BTreeMap::new() }
    }

    pub(super) fn put(&mut self, place: Place, mut bytes: Rope) {
        let mut at = place.at;
        while bytes.length() > 0 {
            let part = bytes.take(self.most.max(1));
            let length = part.length();
            self.put_part(Place { at, ..place }, part);
            at += Bytes(length);
        }
    }

    fn put_part(&mut self, place: Place, bytes: Rope) {
        let runs = self.runs.entry(place.component).or_default();
        let length = bytes.length();
        match runs.last_mut() {
            Some(run) if run.at + Bytes(run.length) == place.at && run.length + length <= self.most => {
                run.length += length;
                run.slices.extend(bytes.into_slices());
            }
            _ => runs.push(Run { at: place.at, length, slices: bytes.into_slices() }),
        }
    }

    /// Which parts of components are written.
    pub(super) fn extents(&self) -> Vec<Extent> {
        let of = |(component, runs): (&u32, &Vec<Run>)| -> Vec<Extent> {
            let extent =
                |run: &Run| Extent { place: Place { component: *component, at: run.at }, length: Bytes(run.length) };
            runs.iter().map(extent).collect()
        };
        self.runs.iter().flat_map(of).collect()
    }

    /// Writes all, and says what could not be written.
    pub(super) async fn write(self, reach: &Reach, durability: Durability) -> Vec<(Extent, Error)> {
        let runs = self.runs.into_iter().flat_map(|(component, runs)| {
            runs.into_iter().map(move |run| (Place { component, at: run.at }, run.length, run.slices))
        });
        let writes = runs.map(|(place, length, slices)| async move {
            let written = reach.write(place, slices, durability).await;
            written.err().map(|error| (Extent { place, length: Bytes(length) }, error))
        });
        all(writes).await.into_iter().flatten().collect()
    }
}
