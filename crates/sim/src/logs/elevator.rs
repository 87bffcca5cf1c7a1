//! The queue between a file system and one disk, as a kernel has it: requests wait in the order of their places, reads
//! apart from writes; neighbours merge; one side is served upwards for a batch, reads before writes, unless writes have
//! starved or a request has waited too long. What has been handed to the disk is the disk's to order.

use super::batch::Batch;
use super::content;
use crate::disk::Op;
use forebay_env::{Buffer, Env, Slab};
use forebay_model::{Bytes, Moment, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// How the queue behaves.
#[derive(Debug, Clone, PartialEq)]
pub struct ElevatorSpec {
    /// Requests in the disk at once.
    pub depth: usize,
    /// The longest request.
    pub longest: Bytes,
    /// Requests of one side in a row, upwards.
    pub batch: u32,
    /// Batches of reads that writes let pass.
    pub starved: u32,
    /// A read that has waited this long is next.
    pub read_patience: Duration,
    /// A write that has waited this long is next.
    pub write_patience: Duration,
}

impl Default for ElevatorSpec {
    /// The usual values of a kernel. That the disk has four requests at once is found by calibration: with one or two,
    /// random writes are slower than published; with many, a disk that orders them itself keeps them from its reader.
    fn default() -> ElevatorSpec {
        ElevatorSpec {
            depth: 4,
            longest: Bytes::kib(512),
            batch: 16,
            starved: 2,
            read_patience: Duration::from_millis(500),
            write_patience: Duration::from_secs(5),
        }
    }
}

/// One disk's queue. Clones are handles on one queue.
#[derive(Clone)]
pub(super) struct Elevator {
    inner: Rc<Inner>,
}

struct Inner {
    spec: ElevatorSpec,
    /// The disk, and the loop that it is on.
    env: Env,
    slab: Slab,
    state: RefCell<State>,
}

#[derive(Default)]
struct State {
    reads: Side,
    writes: Side,
    /// Which side the batch is of, where it goes on, and how many it has served.
    serves_writes: bool,
    position: u64,
    served: u32,
    passed: u32,
    serial: u64,
    in_disk: usize,
    /// Who waits for the next flush, and whether one is under way.
    flushes: Vec<Rc<Batch>>,
    flushing: bool,
}

/// The waiting requests of one side, by place; `(offset, serial)`, since several may be for one place.
#[derive(Default)]
struct Side {
    waiting: BTreeMap<(u64, u64), Waiting>,
    /// Serial to offset: the oldest first.
    ages: BTreeMap<u64, u64>,
}

struct Waiting {
    length: u64,
    arrived: Moment,
    batches: Vec<Rc<Batch>>,
}

impl Side {
    fn add(&mut self, offset: u64, serial: u64, waiting: Waiting, longest: u64) {
        if let Some((_, before)) = self
            .waiting
            .range_mut(..(offset, 0))
            .next_back()
            .filter(|((at, _), before)| at + before.length == offset && before.length + waiting.length <= longest)
        {
            before.length += waiting.length;
            before.batches.extend(waiting.batches);
            return;
        }
        self.ages.insert(serial, offset);
        self.waiting.insert((offset, serial), waiting);
    }

    fn take(&mut self, key: (u64, u64)) -> Option<(u64, Waiting)> {
        self.ages.remove(&key.1);
        self.waiting.remove(&key).map(|waiting| (key.0, waiting))
    }

    /// The first request at or above `position`, or `None` above the last.
    fn above(&self, position: u64) -> Option<(u64, u64)> {
        self.waiting.range((position, 0)..).next().map(|(key, _)| *key)
    }

    fn oldest(&self) -> Option<(u64, u64)> {
        self.ages.first_key_value().map(|(serial, offset)| (*offset, *serial))
    }

    fn has_waited(&self, now: Moment, patience: Duration) -> bool {
        let oldest = self.oldest().and_then(|key| self.waiting.get(&key));
        oldest.is_some_and(|waiting| now.since(waiting.arrived) >= patience)
    }
}

impl Elevator {
    /// In front of the device of `env`.
    pub(super) fn new(spec: ElevatorSpec, env: Env) -> Result<Elevator> {
        let slab = Slab::new(spec.longest, spec.depth)?;
        Ok(Elevator { inner: Rc::new(Inner { spec, env, slab, state: RefCell::default() }) })
    }

    /// From now on what is written is no zeros: a real disk may make those cheap.
    pub(super) fn write_no_zeros(&self) {
        let slab = &self.inner.slab;
        let mut buffers: Vec<Buffer> = std::iter::from_fn(|| slab.try_take()).collect();
        for buffer in &mut buffers {
            buffer.set_len(buffer.capacity());
            content::fill(buffer);
        }
    }

    /// Queues `ranges`, all of one caller at once; `batch` is told of each as it ends.
    pub(super) fn submit(&self, op: Op, ranges: &[(u64, u64)], batch: &Rc<Batch>) {
        let inner = &self.inner;
        let longest = inner.spec.longest.0;
        let mut state = inner.state.borrow_mut();
        let arrived = inner.env.clock.now();
        for &(offset, length) in ranges {
            let (mut at, end) = (offset, offset + length);
            while at < end {
                let length = longest.min(end - at);
                batch.add();
                let serial = state.serial;
                state.serial += 1;
                let side = if op == Op::Write { &mut state.writes } else { &mut state.reads };
                side.add(at, serial, Waiting { length, arrived, batches: vec![batch.clone()] }, longest);
                at += length;
            }
        }
        drop(state);
        inner.clone().dispatch();
    }

    /// A flush goes to the disk past the queue: at once, unless one is under way. Those that come meanwhile share the
    /// next, as in kernels.
    pub(super) fn flush(&self, batch: &Rc<Batch>) {
        batch.add();
        self.inner.state.borrow_mut().flushes.push(batch.clone());
        self.inner.clone().begin_flush();
    }
}

impl State {
    fn choose(&mut self, spec: &ElevatorSpec, now: Moment) -> Option<(Op, u64, Waiting)> {
        let side = if self.serves_writes { &self.writes } else { &self.reads };
        let mut key = (self.served < spec.batch).then(|| side.above(self.position)).flatten();
        if key.is_none() {
            let writes_wait = !self.writes.waiting.is_empty();
            let reads_wait = !self.reads.waiting.is_empty();
            self.serves_writes = writes_wait && (!reads_wait || self.passed >= spec.starved);
            self.passed = if self.serves_writes || !writes_wait { 0 } else { self.passed + 1 };
            let (side, patience) = if self.serves_writes {
                (&self.writes, spec.write_patience)
            } else {
                (&self.reads, spec.read_patience)
            };
            let upwards = side.above(self.position).filter(|_| !side.has_waited(now, patience));
            key = upwards.or_else(|| side.oldest());
            self.served = 0;
        }
        let side = if self.serves_writes { &mut self.writes } else { &mut self.reads };
        let (offset, waiting) = side.take(key?)?;
        self.served += 1;
        self.position = offset + waiting.length;
        Some((if self.serves_writes { Op::Write } else { Op::Read }, offset, waiting))
    }
}

impl Inner {
    fn begin_flush(self: Rc<Self>) {
        let mut state = self.state.borrow_mut();
        if state.flushing || state.flushes.is_empty() {
            return;
        }
        state.flushing = true;
        let waiting = std::mem::take(&mut state.flushes);
        drop(state);
        let (flush, inner) = (self.env.device.flush(), self.clone());
        self.env.spawner.detach(async move {
            let result = flush.await;
            inner.state.borrow_mut().flushing = false;
            inner.clone().begin_flush();
            waiting.iter().for_each(|batch| batch.end(result.clone()));
        });
    }

    /// Hands requests to the disk while it takes more.
    fn dispatch(self: Rc<Self>) {
        loop {
            let mut state = self.state.borrow_mut();
            if state.in_disk >= self.spec.depth {
                return;
            }
            let Some((op, offset, waiting)) = state.choose(&self.spec, self.env.clock.now()) else { return };
            state.in_disk += 1;
            drop(state);
            let mut buffer = self.slab.try_take().expect("as many buffers as requests in the disk");
            buffer.set_len(waiting.length as usize);
            let at = Bytes(offset);
            let disk = &self.env.device;
            let io = if op == Op::Write { disk.write(at, buffer) } else { disk.read(at, buffer) };
            let inner = self.clone();
            self.env.spawner.detach(async move {
                let (buffer, result) = io.await;
                drop(buffer);
                for batch in &waiting.batches {
                    batch.end(result.clone());
                }
                inner.state.borrow_mut().in_disk -= 1;
                inner.dispatch();
            });
        }
    }
}

#[cfg(test)]
mod tests;
