//! Scrub: reads everything that is kept on an open target and compares it with its checksums, in the background, beside
//! all other work, so that damage is found while there is still something to be done about it.
//!
//! Order: the rings, each from its oldest segment on, then objects in the order of their keys: their rows, and the bytes that
//! the rows point to, at home and in logs; then heaps: their roots, pages of allocators, and the records of the last commit.
//! What is being written (the open segments, records on their way) is not looked at; it was read back or is in memory. Nothing is
//! changed, but that a checkpoint of objects may be made before their rows are looked at, and that damaged roots and pages of open
//! heaps are written anew; and nothing damaged is returned as data.
//!
//! How far a scrub is lies in the catalog: it is durable with every commit, and at least every [`KEPT_EVERY`] of work.
//! Who begins again goes on from there; a few things may be looked at twice.

use crate::catalog::{ScrubPlace, ScrubRecord, Segment};
use crate::heap::space::Space;
use crate::heap::{HeapOptions, audit};
use crate::object::rows::Key;
use crate::ring::Ring;
use crate::target::{Core, Target};
use crate::verify::{Damage, RingFound, Verifier};
use forebay_model::scrub::{Finding, Scrubbed};
use forebay_model::{Bytes, Error, Kind, Moment, Rate, Result, RingId};
use std::rc::Rc;
use std::time::Duration;

/// Work after which the place is made durable.
const KEPT_EVERY: Duration = Duration::from_secs(30);
/// Findings that are told at once; a step ends when there are so many.
const MOST_FOUND: usize = 256;

/// How a step of a scrub goes.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Bytes a second at most; as fast as other work leaves if `None`.
    pub rate: Option<Rate>,
    /// How long this step takes, about.
    pub span: Duration,
    /// Begin anew, wherever the last scrub is.
    pub anew: bool,
}

/// Keeps to a rate, and to the time of a step.
pub(crate) struct Pace {
    core: Rc<Core>,
    rate: Option<Rate>,
    until: Moment,
    /// Bytes read in this step.
    pub(crate) moved: Bytes,
}

impl Pace {
    /// So many more bytes were read: waits until the next are due, but not beyond the step.
    pub(crate) async fn moved(&mut self, bytes: Bytes) {
        self.moved_among(bytes, bytes).await;
    }

    /// As [`Pace::moved`], of `bytes` that were read among others, `all` together.
    pub(crate) async fn moved_among(&mut self, bytes: Bytes, all: Bytes) {
        self.moved += bytes;
        if let Some(rate) = self.rate.filter(|rate| *rate > Rate(0)) {
            let (clock, due) = (&self.core.disk.env().clock, &self.core.scrub_due);
            due.set(due.get().max(clock.now()) + rate.time_for(all));
            clock.sleep_until(due.get().min(self.until)).await;
        }
    }

    /// Whether the step is over.
    pub(crate) fn is_over(&self) -> bool {
        self.core.disk.env().clock.now() >= self.until
    }
}

/// One step.
struct Step<'a> {
    target: &'a Target,
    core: Rc<Core>,
    pace: Pace,
    found: Vec<Finding>,
}

impl Target {
    /// Goes on with the scrub of this target for a while. One at a time.
    pub async fn scrub(&self, options: Options) -> Result<Scrubbed> {
        let core = self.core();
        if core.scrubbing.replace(true) {
            return Err(Error::busy(format!("{} is being scrubbed already", core.disk.geometry().name)));
        }
        let result = self.scrub_alone(&core, options).await;
        core.scrubbing.set(false);
        result
    }

    async fn scrub_alone(&self, core: &Rc<Core>, options: Options) -> Result<Scrubbed> {
        let clock = core.disk.env().clock.clone();
        let before = core.with_scrub(|scrub| if options.anew { None } else { scrub.clone() });
        let mut record = before.unwrap_or_else(|| ScrubRecord {
            began: clock.wall(),
            place: ScrubPlace::Ring(RingId(0), 0),
            done: 0,
            damaged: 0,
        });
        let until = clock.now() + options.span;
        let mut pace = Pace { core: core.clone(), rate: options.rate, until, moved: Bytes::ZERO };
        // What the step before read too much.
        pace.moved(Bytes::ZERO).await;
        let mut step = Step { target: self, core: core.clone(), pace, found: Vec::new() };
        let mut next = Some(record.place);
        while let Some(place) = next.filter(|_| !step.pace.is_over() && step.found.len() < MOST_FOUND) {
            next = step.go_on(place).await?;
        }
        record.done += step.pace.moved.0;
        record.damaged += step.found.len() as u64;
        let scrubbed = Scrubbed {
            target: self.id(),
            device: core.disk.geometry().name.clone(),
            began: record.began,
            done: Bytes(record.done),
            total: if next.is_some() { self.kept().max(Bytes(record.done)) } else { Bytes(record.done) },
            finished: next.is_none(),
            damaged: record.damaged,
            found: step.found,
        };
        core.with_scrub(|scrub| *scrub = next.map(|place| ScrubRecord { place, ..record }));
        let now = clock.now();
        if next.is_none() || now.since(core.scrub_kept.get()) >= KEPT_EVERY {
            core.scrub_kept.set(now);
            core.commit().await?;
        }
        Ok(scrubbed)
    }

    /// Bytes that are kept, about.
    fn kept(&self) -> Bytes {
        let core = self.core();
        let rings = core.ring_ids().into_iter().map(|id| {
            core.with_ring(id, |r| r.segment * r.slots.iter().flatten().filter(|s| s.has_content()).count() as u64)
        });
        rings.sum::<Bytes>() + self.objects().kept() + self.kept_by_heaps()
    }
}

impl Step<'_> {
    /// Looks at one segment, or some leaves of rows; where to go on.
    async fn go_on(&mut self, place: ScrubPlace) -> Result<Option<ScrubPlace>> {
        match place {
            ScrubPlace::Ring(from, sequence) => {
                let Some(ring) = self.core.ring_ids().into_iter().find(|id| *id >= from) else {
                    return Ok(Some(ScrubPlace::Objects(Key::FIRST)));
                };
                let sequence = if ring == from { sequence } else { 0 };
                match self.next_segment(ring, sequence) {
                    Some((slot, segment)) => {
                        self.segment(ring, slot, segment).await?;
                        Ok(Some(ScrubPlace::Ring(ring, segment.sequence + 1)))
                    }
                    None => Ok(Some(ScrubPlace::Ring(RingId(ring.0 + 1), 0))),
                }
            }
            ScrubPlace::Objects(from) => {
                let objects = self.target.objects();
                let next = objects.scrub(from, &mut self.pace, &mut self.found).await?;
                Ok(Some(next.map_or(ScrubPlace::Heap(0, 0), ScrubPlace::Objects)))
            }
            ScrubPlace::Heap(from, allocator) => {
                let heaps = self.core.heap_records();
                let Some((number, heap)) = heaps.into_iter().find(|(number, _)| *number >= from) else {
                    return Ok(None);
                };
                let allocator = if number == from { allocator } else { 0 };
                let opened = match self.target.heap(&heap.name, HeapOptions::default()).await {
                    Ok(opened) => opened,
                    // It is being deleted.
                    Err(error) if error.kind == Kind::Missing => return Ok(Some(ScrubPlace::Heap(number + 1, 0))),
                    Err(error) if error.kind == Kind::Damaged => {
                        self.found.push(audit::whole(&heap.name, &Space::new(self.core.layout(), heap.groups), error));
                        return Ok(Some(ScrubPlace::Heap(number + 1, 0)));
                    }
                    Err(error) => return Err(error),
                };
                let more = opened.scrub(&heap.name, allocator, &mut self.pace, &mut self.found).await?;
                Ok(Some(if more { ScrubPlace::Heap(number, allocator + 1) } else { ScrubPlace::Heap(number + 1, 0) }))
            }
        }
    }

    /// The oldest segment from `sequence` on that is durable as a whole.
    fn next_segment(&self, ring: RingId, sequence: u64) -> Option<(u32, Segment)> {
        self.core.with_ring(ring, |r| {
            let sealed = (0..).zip(&r.slots).filter_map(|(slot, segment)| Some((slot, (*segment)?)));
            let kept = sealed.filter(|(slot, s)| s.sequence >= sequence && s.has_content() && !r.path.contains(slot));
            kept.min_by_key(|(_, segment)| segment.sequence)
        })
    }

    async fn segment(&mut self, id: RingId, slot: u32, segment: Segment) -> Result<()> {
        let name = self.core.with_ring(id, |r| r.spec.name.clone());
        let size = self.core.with_ring(id, |r| r.segment);
        let ring: Rc<Ring> = match self.target.ring(&name) {
            Ok(ring) => ring,
            // It is being deleted.
            Err(_) => return Ok(()),
        };
        let verifier = Verifier::in_background(self.core.clone(), id, size);
        let mut found = RingFound::default();
        let looked = verifier.sealed(slot, segment, ring.is_doubtful(segment.sequence), &mut found).await;
        self.pace.moved(size).await;
        // What was overwritten meanwhile is not damaged, but expired.
        let still = self.core.has_ring(id)
            && self.core.with_ring(id, |r| {
                let same =
                    r.slots.get(slot as usize).copied().flatten().is_some_and(|s| s.sequence == segment.sequence);
                same && !r.path.contains(&slot)
            });
        if !still {
            return Ok(());
        }
        looked?;
        self.found.extend(found.damage.into_iter().map(|damage| finding(&name, &damage)));
        Ok(())
    }
}

fn finding(ring: &str, damage: &Damage) -> Finding {
    let Damage { what, segment, at, length, elements, cause } = damage;
    let cost = match elements.end - elements.start {
        0 => "no element is gone".to_string(),
        n => format!("elements {} to {} are gone ({n})", elements.start, elements.end - 1),
    };
    Finding {
        owner: ring.to_string(),
        what: format!("{what} of segment {segment} is {}: {cost}", cause.meaning()),
        at: *at,
        length: *length,
        remedy: "queries tell what is gone and return all the rest; export what is still needed, and look at the disk's own health".into(),
    }
}

#[cfg(test)]
mod tests;
