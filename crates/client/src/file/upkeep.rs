//! Looking after a file, stripe by stripe: scrubbing, so that damage is found while it can be repaired, and rebuilding
//! a component that is lost. Both go on from any place, and others may use the file meanwhile if all of them take locks.

use super::components::{Slice, is_lost_or_damaged};
use super::mend::{Gone, Locked, Part, padded, pieces};
use super::together::all;
use super::{File, FileEngine, joined};
use forebay_model::layout::address::Place;
use forebay_model::layout::update::Extent;
use forebay_model::layout::{Raid, parity};
use forebay_model::object::Durability;
use forebay_model::{Bytes, Error, Kind, Result};
use std::ops::Range;
use std::rc::Rc;

/// Units of a component that are rebuilt at the same time.
const AT_ONCE: usize = 4;

/// How far it has come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Progress {
    /// Where in its component, or in those of a group, it goes on.
    pub at: Bytes,
    /// Where it ends.
    pub end: Bytes,
    /// Bytes that were written.
    pub written: Bytes,
    /// Bytes of the component that are lost, since others of which they would be made are damaged.
    pub lost: Bytes,
}

/// What a step of scrubbing found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scrubbed {
    /// Bytes of components that were compared.
    pub compared: Bytes,
    /// Parity or copies that did not agree, and do now.
    pub repaired: Bytes,
    /// Bytes of the file that are lost.
    pub lost: Vec<Range<u64>>,
}

/// What a step of comparing found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Compared {
    /// Bytes of components that were compared.
    pub compared: Bytes,
    /// The units of components of which something is damaged or does not agree, or was written just then.
    pub suspects: Vec<u64>,
}

/// A unit of each component of a family.
struct Unit {
    family: Range<u32>,
    nth: u64,
    at: Bytes,
    length: Bytes,
}

impl FileEngine {
    /// Compares what [`FileEngine::scrub`] would, without locks and with nothing written: what is in doubt then is to be scrubbed.
    /// An error if a component cannot be asked.
    pub async fn compare(&self, from: u64, units: u64) -> Result<(Compared, bool)> {
        self.file.compare(from, units).await
    }

    /// The bytes of the file that are lost in a unit of its components, of one that keeps nothing to make them of.
    pub async fn lost_in(&self, nth: u64) -> Result<Vec<Range<u64>>> {
        self.file.lost_in(nth).await
    }

    /// Scrubs the stripes of one visit of all groups at most, those with the `from`th unit of their components and so many
    /// behind it, and says what was found and whether there is more. Damaged bytes are made good, and parity or copies that
    /// do not agree are made to: the first copy and the data units are believed.
    pub async fn scrub(&self, from: u64, units: u64) -> Result<(Scrubbed, bool)> {
        self.to_its_end(move |file| async move { file.scrub(from, units).await }).await
    }

    /// Begins to rebuild a component: from now on all clients write it, and none reads it.
    pub async fn begin_rebuild(&self, component: u32) -> Result<Progress> {
        self.to_its_end(move |file| async move { file.begin_rebuild(component).await }).await
    }

    /// Rebuilds so much more of a component. What is zero is not written. At the end of it, the component is used again by all;
    /// true then. What is damaged in too many of the others is lost in this one from then on: reading it says so, and it is made of them again
    /// should they be readable later. What others have that cannot be asked is an error that names the bytes of the file.
    pub async fn rebuild(&self, component: u32, progress: &mut Progress, step: Bytes) -> Result<bool> {
        let mut now = *progress;
        let rebuilt = self.to_its_end(move |file| async move {
            let rebuilt = file.rebuild(component, &mut now, step).await;
            Ok((rebuilt, now))
        });
        let (rebuilt, now) = rebuilt.await?;
        *progress = now;
        rebuilt
    }
}

impl File {
    async fn scrub(self: &Rc<Self>, from: u64, units: u64) -> Result<(Scrubbed, bool)> {
        let _quiet = self.quiet().await;
        self.check_failed()?;
        let size = self.size().await?;
        let (units, more) = self.units(size, from..from.saturating_add(units)).await;
        let mut found = Scrubbed::default();
        for unit in units {
            self.scrub_unit(unit, &mut found).await?;
        }
        found.lost = before(size, std::mem::take(&mut found.lost));
        Ok((found, more))
    }

    /// The units of all families with these numbers, and whether there are more behind them. Behind the end of all of a family there is
    /// nothing, however long the file is.
    async fn units(&self, size: Bytes, numbers: Range<u64>) -> (Vec<Unit>, bool) {
        let (reach, unit) = (&self.reach, self.reach.striping.unit());
        let (mut units, mut more, mut family) = (Vec::new(), false, reach.family(0));
        while family.start < reach.striping.components() {
            let longest = family.clone().map(|component| reach.striping.length_of(component, size)).max();
            let longest = self.end_of(family.clone()).await.unwrap_or(Bytes(u64::MAX)).min(longest.unwrap_or_default());
            let count = longest.0.div_ceil(unit.0);
            units.extend((numbers.start..numbers.end.min(count)).map(|nth| {
                let at = unit * nth;
                Unit { family: family.clone(), nth, at, length: (longest - at).min(unit) }
            }));
            more |= numbers.end < count;
            family = reach.family(family.end);
        }
        (units, more)
    }

    /// How far the longest of a family that can be read goes, if all of these say so.
    async fn end_of(&self, family: Range<u32>) -> Result<Bytes> {
        let sound = family.filter(|component| self.reach.is_sound(*component));
        let sizes = all(sound.map(|component| self.reach.components.size(component))).await;
        sizes.into_iter().try_fold(Bytes::ZERO, |longest, size| Ok(longest.max(size?)))
    }

    async fn compare(&self, from: u64, units: u64) -> Result<(Compared, bool)> {
        let _used = self.used().await;
        let (units, more) = self.units(self.size().await?, from..from.saturating_add(units)).await;
        let mut found = Compared::default();
        for unit in units {
            if !self.agrees(&unit, &mut found.compared).await? && !found.suspects.contains(&unit.nth) {
                found.suspects.push(unit.nth);
            }
        }
        Ok((found, more))
    }

    /// Whether a unit of each of a family can be read, and all of them agree.
    async fn agrees(&self, Unit { family, at, length, .. }: &Unit, compared: &mut Bytes) -> Result<bool> {
        let reach = &self.reach;
        let sound: Vec<u32> = family.clone().filter(|component| reach.is_sound(*component)).collect();
        let there = |component: u32| Extent { place: Place { component, at: *at }, length: *length };
        let (mut bytes, mut is_whole) = (Vec::new(), true);
        for read in all(sound.iter().map(|component| reach.direct(there(*component)))).await {
            match read {
                Ok(read) => {
                    *compared += Bytes(read.len() as u64);
                    bytes.push(padded(read, *length));
                }
                Err(error) if error.kind == Kind::Damaged => {
                    *compared += *length;
                    is_whole = false;
                }
                Err(error) => return Err(error),
            }
        }
        if !is_whole || reach.striping.raid() != Raid::Five {
            return Ok(is_whole && bytes.windows(2).all(|pair| pair[0] == pair[1]));
        }
        let mut sum = vec![0; length.0 as usize];
        bytes.iter().for_each(|bytes| parity::add(&mut sum, bytes));
        Ok(sound.len() < family.len() || sum.iter().all(|byte| *byte == 0))
    }

    async fn lost_in(self: &Rc<Self>, nth: u64) -> Result<Vec<Range<u64>>> {
        let _used = self.used().await;
        let size = self.size().await?;
        let (units, _) = self.units(size, nth..nth + 1).await;
        let mut lost = Vec::new();
        for Unit { family, at, length, .. } in units {
            for component in family {
                let part = self.reach.verify(Extent { place: Place { component, at }, length }, Locked::No).await;
                for gone in part.gone {
                    if gone.error.kind != Kind::Damaged {
                        return Err(gone.error);
                    }
                    lost.extend(self.reach.bytes_in(gone.extent));
                }
            }
        }
        Ok(before(size, lost))
    }

    /// A unit of each of a family. What cannot be had as components are away is not lost, but an error.
    async fn scrub_unit(&self, unit: Unit, found: &mut Scrubbed) -> Result<()> {
        let (reach, Unit { family, at, length, .. }) = (&self.reach, &unit);
        let (at, length) = (*at, *length);
        let there = |component: u32| Extent { place: Place { component, at }, length };
        let _guard = match reach.is_alone() {
            true => None,
            false => Some(reach.lock(there(family.start).place).await?),
        };
        let sound: Vec<u32> = family.clone().filter(|component| reach.is_sound(*component)).collect();
        let parts = all(sound.iter().map(|component| reach.verify(there(*component), Locked::Yes))).await;
        let lost: Vec<Gone> = parts.iter().flat_map(|part| part.gone.clone()).collect();
        found.compared += length * sound.len() as u64;
        if !lost.is_empty() {
            if let Some(away) = lost.iter().find(|gone| gone.error.kind != Kind::Damaged) {
                return Err(away.error.clone());
            }
            // What is damaged may be made of one that is away, when that is back.
            self.agrees(&unit, &mut Bytes::default()).await?;
            found.lost.extend(lost.iter().flat_map(|gone| reach.bytes_in(gone.extent)));
            return Ok(());
        }
        let bytes: Vec<Slice> = parts.into_iter().map(|part| part.bytes).collect();
        if reach.striping.raid() != Raid::Five {
            let Some((first, copies)) = bytes.split_first() else { return Ok(()) };
            let differ = sound[1..].iter().zip(copies).filter(|(_, copy)| *copy != first);
            let writes: Vec<_> = differ.map(|(component, _)| (there(*component).place, first.clone())).collect();
            found.repaired += length * writes.len() as u64;
            return reach.write_all(writes).await;
        }
        let mut sum = vec![0; length.0 as usize];
        bytes.iter().for_each(|bytes| parity::add(&mut sum, bytes));
        if sound.len() < family.len() || sum.iter().all(|byte| *byte == 0) {
            return Ok(());
        }
        // What is too much in the sum is too much in the parity.
        let of_parity = |component: &&u32| {
            matches!(reach.held_at(**component, at), forebay_model::layout::address::Holds::Parity(..))
        };
        let Some((component, old)) = sound.iter().zip(&bytes).find(|(component, _)| of_parity(component)) else {
            return Ok(());
        };
        parity::add(&mut sum, old);
        found.repaired += length;
        reach.write_all(vec![(there(*component).place, Slice::from(sum))]).await
    }

    async fn begin_rebuild(self: &Rc<Self>, component: u32) -> Result<Progress> {
        let reach = &self.reach;
        if !reach.has_missed(component) || reach.striping.spare() == 0 {
            return Err(Error::usage(format!(
                "component {component} has missed nothing that could be made of the others"
            )));
        }
        let (_quiet, sent) = self.quiet().await;
        self.flush_to(sent).await?;
        reach.components.filling(component).await?;
        reach.is_filling(component);
        // Behind the end of all others there is nothing. What is written by now may be acknowledged later.
        let others = reach.family(component).filter(|other| reach.is_sound(*other));
        let sizes = all(others.map(|other| reach.components.size(other))).await;
        // All of a parity group are needed to make one anew; of copies one that is left, and what the others may have
        // acknowledged since is in the file's length.
        let is_enough = reach.striping.raid() != Raid::Five;
        let mut end = Bytes::ZERO;
        for size in sizes {
            end = end.max(match size {
                Ok(size) => size,
                Err(_) if is_enough => reach.striping.length_of(component, self.size().await?),
                Err(error) => return Err(error),
            });
        }
        Ok(Progress { end: end.max(self.end_of_begun(component, is_enough).await?), ..Progress::default() })
    }

    /// How far a family reaches when what others began in it is ended, which they did without this component: it is ended when the
    /// stripe is locked to be rebuilt. If one is enough, one that can be asked has all that was begun.
    async fn end_of_begun(&self, component: u32, is_enough: bool) -> Result<Bytes> {
        let (reach, family) = (&self.reach, self.reach.family(component));
        let others = family.clone().filter(|other| *other != component && reach.is_asked(*other));
        let mut end = Bytes::ZERO;
        for left in all(others.map(|other| reach.components.intents(other))).await {
            let left = match left {
                Err(error) if is_enough && is_lost_or_damaged(&error) => continue,
                left => left?,
            };
            // What cannot be is not ended, either.
            for (_, intent) in left.iter().filter(|(_, intent)| reach.check_intent(intent).is_ok()) {
                let written = intent.writes.iter().map(|redo| (redo.place, Bytes(redo.bytes.len() as u64)));
                let all = written.chain(intent.agree.iter().map(|extent| (extent.place, extent.length)));
                let own = all.filter(|(place, _)| family.contains(&place.component));
                end = own.map(|(place, length)| place.at + length).fold(end, Bytes::max);
            }
        }
        Ok(end)
    }

    async fn rebuild(self: &Rc<Self>, component: u32, progress: &mut Progress, step: Bytes) -> Result<bool> {
        let reach = &self.reach;
        let _quiet = self.quiet().await;
        self.check_failed()?;
        reach.check_filling(component)?;
        let to = (progress.at + step.max(reach.striping.unit())).min(progress.end);
        while progress.at < to {
            let (mut wave, mut at, unit) = (Vec::new(), progress.at, reach.striping.unit());
            while at < to && wave.len() < AT_ONCE {
                let length = (at.align_down(unit) + unit).min(to) - at;
                wave.push(Extent { place: Place { component, at }, length });
                at += length;
            }
            for (extent, written) in wave.iter().zip(all(wave.iter().map(|unit| self.rebuild_unit(*unit))).await) {
                let (written, lost) = written?;
                progress.written += written;
                progress.lost += lost;
                progress.at += extent.length;
            }
        }
        if progress.at < progress.end {
            return Ok(false);
        }
        if let Err(error) = reach.components.flush(component).await {
            // It may have lost what was written before, and says so once.
            reach.tear(component);
            return Err(error);
        }
        // What said how long the file is may be lost with it.
        let size = self.size().await?;
        reach.components.grown(size).await?;
        reach.check_filling(component)?;
        reach.components.rebuilt(component).await?;
        reach.is_whole(component);
        if progress.lost > Bytes::ZERO {
            // Who scrubs the file says which bytes of it that are, and of which others.
            reach.components.found_damaged();
        }
        Ok(true)
    }

    /// Rebuilds a part of a unit, and says how much of it was written, and how much is lost.
    async fn rebuild_unit(&self, extent: Extent) -> Result<(Bytes, Bytes)> {
        let (reach, place) = (&self.reach, extent.place);
        let _guard = match reach.is_alone() {
            true => None,
            false => Some(reach.lock(place).await?),
        };
        let part = reach.read(extent, Locked::Yes).await;
        if let Some(gone) = part.gone.iter().find(|gone| gone.error.kind != Kind::Damaged) {
            let lost = joined(part.gone.iter().flat_map(|gone| reach.bytes_in(gone.extent)));
            let named: Vec<String> = lost.iter().map(|range| format!("{} to {}", range.start, range.end)).collect();
            let what = format!("component {} cannot be rebuilt, bytes {} are lost", place.component, named.join(", "));
            return Err(gone.error.clone().of(what));
        }
        let done = self.put_unit(place, part).await;
        if done.as_ref().is_err_and(|error| error.kind == Kind::Restarted) {
            reach.tear(place.component);
        }
        done
    }

    /// Writes what was made of a unit, unless it is zero, and loses the rest; how much of either.
    async fn put_unit(&self, place: Place, part: Part) -> Result<(Bytes, Bytes)> {
        let (components, mut written, mut lost) = (&self.reach.components, Bytes::ZERO, Bytes::ZERO);
        if part.bytes.iter().any(|byte| *byte != 0) {
            written = Bytes(part.bytes.len() as u64);
            for (place, piece) in pieces(place, part.bytes) {
                components.write(place.component, place.at, vec![piece], Durability::Buffered).await?;
            }
        }
        for Gone { extent: Extent { place, length }, .. } in part.gone {
            components.lose(place.component, place.at, length).await?;
            lost += length;
        }
        Ok((written, lost))
    }
}

impl super::reach::Reach {
    /// Which bytes of the file are in a part of a component, within a unit.
    fn bytes_in(&self, extent: Extent) -> Vec<Range<u64>> {
        let unit = self.striping.unit();
        let end = extent.place.at + extent.length;
        let mut found = Vec::new();
        let mut at = extent.place.at;
        while at < end {
            let next = (at.align_down(unit) + unit).min(end);
            if let forebay_model::layout::address::Holds::Data(byte) = self.held_at(extent.place.component, at) {
                found.push(byte.0..(byte + (next - at)).0);
            }
            at = next;
        }
        found
    }
}

/// What of these ranges lies before the end of the file: behind it are only zeros that were never written.
fn before(size: Bytes, ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let cut = ranges.into_iter().map(|range| range.start..range.end.min(size.0));
    joined(cut.filter(|range| !range.is_empty()))
}

#[cfg(test)]
mod tests;
