//! Reading ranges of the file: few requests for each component, put together in the order of the file.

use super::components::Slice;
use super::mend::{Locked, Part};
use super::reach::Reach;
use super::rope::Rope;
use super::together::all;
use forebay_model::layout::address::{Piece, Place};
use forebay_model::layout::update::Extent;
use forebay_model::{Bytes, Error, Kind, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Ranges of the file that are named in an error, at most.
const MOST_NAMED: usize = 8;

/// What was read of a file: as long as it was to be, with zeros for what is lost.
#[derive(Debug, Clone, Default)]
pub(super) struct Fetched {
    pub(super) bytes: Rope,
    pub(super) lost: Vec<(Range<u64>, Error)>,
}

impl Fetched {
    /// All of it, or an error that says which bytes are lost or away.
    pub(super) fn whole(self) -> Result<Rope> {
        let Some((_, error)) = self.lost.first() else { return Ok(self.bytes) };
        let ranges = joined(self.lost.iter().map(|(range, _)| range.clone()));
        let named: Vec<String> =
            ranges.iter().take(MOST_NAMED).map(|range| format!("{} to {}", range.start, range.end)).collect();
        let more = ranges.len().saturating_sub(MOST_NAMED);
        let more = if more > 0 { format!(" and {more} ranges more") } else { String::new() };
        // What is only away is read again when it is back.
        let how = match error.kind {
            Kind::Damaged | Kind::Device | Kind::Missing => "are lost, the others are not",
            _ => "cannot be read now, the others can",
        };
        Err(Error::new(error.kind, format!("bytes {}{more} {how}: {}", named.join(", "), error.message)))
    }
}

/// In their order, those that touch as one.
pub(super) fn joined(ranges: impl Iterator<Item = Range<u64>>) -> Vec<Range<u64>> {
    let mut sorted: Vec<Range<u64>> = ranges.collect();
    sorted.sort_by_key(|range| range.start);
    let mut joined: Vec<Range<u64>> = Vec::new();
    for range in sorted {
        match joined.last_mut() {
            Some(last) if last.end >= range.start => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// One request, and the pieces that are in it.
struct Run {
    extent: Extent,
    pieces: Vec<usize>,
}

impl Reach {
    /// Reads a range of the file, behind whose end there is nothing.
    pub(super) async fn fetch(self: &Rc<Self>, range: Range<u64>) -> Result<Fetched> {
        let pieces: Vec<Piece> = self.striping.pieces(range)?.collect();
        let places: Vec<Place> = pieces.iter().map(|piece| self.copy_for(piece.place)).collect();
        let runs = self.runs(&pieces, &places);
        let parts = all(runs.iter().map(|run| self.read(run.extent, Locked::No))).await;
        let mut found: Vec<Slice> = vec![Slice::new(); pieces.len()];
        let mut fetched = Fetched::default();
        for (run, Part { bytes, gone }) in runs.iter().zip(parts) {
            for &nth in &run.pieces {
                let (piece, begin) = (&pieces[nth].bytes, (places[nth].at - run.extent.place.at).0);
                let length = piece.end - piece.start;
                found[nth] = bytes.slice(begin as usize..(begin + length) as usize);
                for lost in &gone {
                    // Where in the piece: what lies between pieces of a run concerns nobody.
                    let from = lost.extent.place.at.max(places[nth].at);
                    let to = (lost.extent.place.at + lost.extent.length).min(places[nth].at + Bytes(length));
                    if from < to {
                        let first = piece.start + (from - places[nth].at).0;
                        fetched.lost.push((first..first + (to - from).0, lost.error.clone()));
                    }
                }
            }
        }
        found.into_iter().for_each(|slice| fetched.bytes.push(slice));
        Ok(fetched)
    }

    /// The copy that is read: in turn, but none that cannot be or is slow. While others may write, what is being written is on one copy
    /// before it is on the next, so all read the first that can be: nobody reads what was there before once somebody has read what is
    /// new. If that one is away or slow, another one is read between two changes ([`Reach::read`]).
    fn copy_for(&self, place: Place) -> Place {
        let family = self.family(place.component);
        if self.striping.raid().copies() == 1 {
            return place;
        }
        if !self.is_alone() {
            let first = family.clone().find(|copy| self.is_sound(*copy));
            return Place { component: first.unwrap_or(place.component), ..place };
        }
        let copies = u64::from(self.striping.raid().copies());
        let turn = (place.at.0 / self.options.request.0) % copies;
        let mut in_turn = (0..copies).map(|nth| family.start + ((turn + nth) % copies) as u32);
        let is_good = |copy: &u32| {
            self.is_sound(*copy) && !self.is_away(*copy) && !self.pace.is_slow(*copy, &family, self.options.hedge_after)
        };
        let copy = in_turn.clone().find(is_good).or_else(|| in_turn.find(|copy| self.is_sound(*copy)));
        Place { component: copy.unwrap_or(place.component), ..place }
    }

    fn runs(&self, pieces: &[Piece], places: &[Place]) -> Vec<Run> {
        let mut open: BTreeMap<u32, usize> = BTreeMap::new();
        let mut runs: Vec<Run> = Vec::new();
        for (nth, (piece, place)) in pieces.iter().zip(places).enumerate() {
            let end = place.at + Bytes(piece.bytes.end - piece.bytes.start);
            if let Some(run) = open.get(&place.component).and_then(|run| runs.get_mut(*run)) {
                let gap = place.at.saturating_sub(run.extent.place.at + run.extent.length);
                if gap <= self.options.bridge && end - run.extent.place.at <= self.options.request {
                    run.extent.length = end - run.extent.place.at;
                    run.pieces.push(nth);
                    continue;
                }
            }
            open.insert(place.component, runs.len());
            runs.push(Run { extent: Extent { place: *place, length: end - place.at }, pieces: vec![nth] });
        }
        runs
    }
}
