//! Simulated disks: what they hold ([`SimDisk`] over the store), when they are done (the mechanics), and what goes wrong
//! ([`Fault`], [`Survival`]).
//!
//! Content and time are apart. A write changes the content when it completes; a read copies the content when it
//! completes; how long each takes is the mechanics' affair and never depends on the content. What a power cut may take
//! away is decided by completion and flush alone, so it includes orders in which no one drive would write.

mod cache;
mod counters;
mod course;
mod faults;
mod flight;
mod mechanics;
mod media_cache;
pub mod presets;
mod rotating;
mod shingled;
pub mod spec;
mod ssd;
mod store;
mod surface;
mod unflushed;

pub use counters::Counters;
pub use faults::Fault;
pub use mechanics::Op;
pub use spec::{DiskSpec, Mechanism, RotatingSpec, SeekCurve, ShingledSpec, SsdSpec};
pub use store::Generator;
pub use unflushed::Survival;

use crate::timeline::Timeline;
use faults::{Fate, Faults};
use flight::{InFlight, Pending, Ticket, with_buffer};
use forebay_env::{Buffer, Device, DeviceFuture, Geometry};
use forebay_model::{Bytes, Result};
use mechanics::{Action, Mechanics};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use store::Store;
use unflushed::{Part, Unflushed, write_part};

/// A disk in a simulated world. Clones are handles on one disk.
#[derive(Clone)]
pub struct SimDisk {
    inner: Rc<Inner>,
}

struct Inner {
    timeline: Rc<Timeline>,
    number: u64,
    spec: DiskSpec,
    geometry: Geometry,
    state: RefCell<State>,
}

struct State {
    store: Store,
    mechanics: Box<dyn Mechanics>,
    unflushed: Unflushed,
    faults: Faults,
    survival: Survival,
    random: ChaCha8Rng,
    in_flight: BTreeMap<u64, InFlight>,
    next_id: u64,
    /// I/Os that may still start before the power goes.
    cut_after: Option<u64>,
    /// Writes that the last power cut has decided about.
    decided: usize,
    counters: Counters,
    /// Where the last write that was completed ended.
    write_end: u64,
    actions: Vec<Action>,
}

impl SimDisk {
    pub(crate) fn new(timeline: Rc<Timeline>, seed: u64, number: u64, spec: DiskSpec) -> SimDisk {
        let size = spec.size.0;
        assert!(size > 0 && size.is_multiple_of(spec.block.0), "a disk of {} in blocks of {}", spec.size, spec.block);
        assert!(spec.block.0.is_multiple_of(unflushed::SECTOR), "blocks of {}", spec.block);
        let cache = spec.write_cache.map(|room| room.0);
        let mechanics: Box<dyn Mechanics> = match &spec.mechanism {
            Mechanism::Rotating(rotating) => Box::new(rotating::Rotating::new(rotating, size, cache)),
            Mechanism::Shingled(shingled) => Box::new(shingled::Shingled::new(shingled, size, cache)),
            Mechanism::Ssd(ssd) => Box::new(ssd::Ssd::new(ssd, cache)),
        };
        // A stream of its own, so that what a disk does by chance does not depend on what others draw.
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(number + 1);
        let state = RefCell::new(State {
            store: Store::new(size),
            mechanics,
            unflushed: Unflushed::new(spec.unflushed.0),
            faults: Faults::default(),
            survival: Survival::default(),
            random,
            in_flight: BTreeMap::new(),
            next_id: 0,
            cut_after: None,
            decided: 0,
            counters: Counters::default(),
            write_end: 0,
            actions: Vec::new(),
        });
        let geometry = Geometry {
            size: spec.size,
            block: spec.block,
            rotates: spec.rotating().is_some(),
            plain: spec.plain_zones(),
            name: format!("sim:{}", spec.name),
        };
        SimDisk { inner: Rc::new(Inner { timeline, number, spec, geometry, state }) }
    }

    /// What it is.
    pub fn spec(&self) -> &DiskSpec {
        &self.inner.spec
    }

    /// What it has done so far. Subtract an earlier value to see a span of time.
    pub fn counters(&self) -> Counters {
        let state = self.inner.state.borrow();
        let work = state.mechanics.work();
        Counters { seeks: work.seeks, busy: Duration::from_nanos(work.busy), ..state.counters }
    }

    /// I/Os that have started so far.
    pub fn started(&self) -> u64 {
        self.inner.state.borrow().next_id
    }

    /// Whether I/Os are under way.
    pub fn is_busy(&self) -> bool {
        !self.inner.state.borrow().in_flight.is_empty()
    }

    /// Bytes in completed writes that a power cut could take away now.
    pub fn unflushed(&self) -> Bytes {
        Bytes(self.inner.state.borrow().unflushed.bytes())
    }

    /// Memory that the content takes, to the page: distinct pages only.
    pub fn memory(&self) -> Bytes {
        Bytes(self.inner.state.borrow().store.kept_pages() as u64 * store::PAGE as u64)
    }

    /// Cuts the power of the whole world once `n` more I/Os have started here; the `n`th is in flight then.
    pub fn cut_after(&self, n: u64) {
        assert!(n > 0, "the power can go after the first I/O at the earliest");
        self.inner.state.borrow_mut().cut_after = Some(n);
    }

    /// Takes back [`SimDisk::cut_after`].
    pub fn no_cut(&self) {
        self.inner.state.borrow_mut().cut_after = None;
    }

    /// Which of the unflushed writes the next power cuts leave.
    pub fn set_survival(&self, survival: Survival) {
        self.inner.state.borrow_mut().survival = survival;
    }

    /// Makes something go wrong.
    pub fn inject(&self, fault: Fault) {
        let mut state = self.inner.state.borrow_mut();
        state.faults.inject(&fault);
        if let Fault::FlipBit { offset, bit } = fault {
            let mut byte = [0];
            state.store.read(offset.0, &mut byte);
            byte[0] ^= 1 << bit;
            state.store.write(offset.0, &byte);
        }
    }

    /// Faults injected so far.
    pub fn injected(&self) -> u64 {
        self.inner.state.borrow().faults.injected()
    }

    /// Ends all faults. What they did to the content stays.
    pub fn heal(&self) {
        self.inner.state.borrow_mut().faults.heal();
    }

    /// Ends all faults that are still to come. Sectors that cannot be read stay so.
    pub fn calm(&self) {
        self.inner.state.borrow_mut().faults.calm();
    }

    /// How many writes the last power cut has decided about: not flushed, or under way.
    pub fn decided(&self) -> usize {
        self.inner.state.borrow().decided
    }

    /// The content at `offset` as it is now, in no time.
    pub fn peek(&self, offset: Bytes, to: &mut [u8]) {
        self.inner.state.borrow().store.read(offset.0, to);
    }

    /// Changes the content at `offset` in no time, and durably unless an unflushed write to the same page is taken back.
    pub fn poke(&self, offset: Bytes, bytes: &[u8]) {
        self.inner.state.borrow_mut().store.write(offset.0, bytes);
    }

    /// Makes the content from `offset` on `pattern` over and over for `length` bytes, in no time or memory. The range
    /// begins and ends on 4 KiB.
    pub fn fill_pattern(&self, offset: Bytes, length: Bytes, pattern: &[u8]) {
        let pattern = pattern.to_vec();
        assert!(!pattern.is_empty(), "an empty pattern");
        let start = offset.0;
        self.fill_with(offset, length, move |at, page| {
            let mut phase = ((at - start) % pattern.len() as u64) as usize;
            let mut rest = page;
            while !rest.is_empty() {
                let count = rest.len().min(pattern.len() - phase);
                rest[..count].copy_from_slice(&pattern[phase..phase + count]);
                rest = &mut rest[count..];
                phase = 0;
            }
        });
    }

    /// Makes the content from `offset` on for `length` bytes what `generator` says of each page (its offset, and the
    /// 4096 bytes to fill), in no time or memory. The range begins and ends on 4 KiB.
    pub fn fill_with(&self, offset: Bytes, length: Bytes, generator: impl Fn(u64, &mut [u8]) + 'static) {
        let range = offset.0..offset.0 + length.0;
        assert!(range.end <= self.inner.spec.size.0, "{length} at {offset} on {}", self.inner.spec.size);
        self.inner.state.borrow_mut().store.generate(range, Rc::new(generator));
    }

    /// The power goes: I/Os in flight never end, caches are empty, and of what was not flushed there is what
    /// [`SimDisk::set_survival`] says. The disk is back at once.
    pub(crate) fn lose_power(&self) {
        let mut guard = self.inner.state.borrow_mut();
        let state = &mut *guard;
        state.mechanics.lose_power();
        state.cut_after = None;
        let in_flight = std::mem::take(&mut state.in_flight);
        let writes: Vec<&InFlight> = in_flight.values().filter(|io| io.op == Op::Write).collect();
        let mut sectors = state.unflushed.sectors();
        let completed = sectors.len();
        sectors.extend(writes.iter().map(|io| io.bytes().len() as u64 / unflushed::SECTOR));
        state.decided = sectors.len();
        let parts = state.survival.decide(&sectors, &mut state.random);
        state.unflushed.cut(&mut state.store, &parts[..completed], &mut state.random);
        for (io, part) in writes.iter().zip(&parts[completed..]) {
            let part = if matches!(io.fate, Fate::Healthy | Fate::Torn) { *part } else { Part::Nothing };
            write_part(&mut state.store, io.offset, io.bytes(), part, &mut state.random);
        }
        self.inner.timeline.note(&[self.inner.number, u64::MAX, self.inner.timeline.nanos()]);
        drop(guard);
        // Their buffers go back to slabs, which may wake who waits for one.
        drop(in_flight);
    }

    /// `flushed`: behind a write comes a flush of it alone, and it ends with that.
    fn submit(&self, op: Op, offset: u64, buffer: Option<Buffer>, flushed: bool) -> Pending {
        let ticket = Rc::new(RefCell::new(Ticket::default()));
        let pending = Pending { ticket: ticket.clone() };
        let length = buffer.as_ref().map_or(0, |buffer| buffer.len());
        if let Some(doing) = op.doing()
            && let Err(error) = self.inner.geometry.check(doing, Bytes(offset), length)
        {
            ticket.borrow_mut().outcome = Some((buffer, Err(error)));
            return pending;
        }
        // Without power, or from the destructors of what was killed, nothing reaches the disk.
        if self.inner.timeline.halted() {
            return pending;
        }
        let mut guard = self.inner.state.borrow_mut();
        let state = &mut *guard;
        let (fate, mark) = (state.faults.fate(op), state.unflushed.mark());
        self.inner.begin(state, InFlight { op, offset, fate, mark, buffer, flushed, ticket });
        pending
    }
}

impl Device for SimDisk {
    fn geometry(&self) -> Geometry {
        self.inner.geometry.clone()
    }

    fn read(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        with_buffer(self.submit(Op::Read, offset.0, Some(buffer), false))
    }

    fn write(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        with_buffer(self.submit(Op::Write, offset.0, Some(buffer), false))
    }

    fn write_durable(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        with_buffer(self.submit(Op::Write, offset.0, Some(buffer), true))
    }

    fn flush(&self) -> DeviceFuture<Result<()>> {
        let pending = self.submit(Op::Flush, 0, None, false);
        Box::pin(async move { pending.await.1 })
    }
}

#[cfg(test)]
mod calibration;
#[cfg(test)]
mod tests;
