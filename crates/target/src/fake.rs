//! For tests: a device in memory, and time that moves to the next event when nothing is ready.

use crate::promise::Signal;
use crate::query::{Limits, run};
use crate::{Arrival, Ring, Target};
use forebay_env::pipe::pipe;
use forebay_env::{Buffer, Clock, Device, DeviceFuture, Env, Executor, Geometry, Random};
use forebay_model::block::Packer;
use forebay_model::gap::Gap;
use forebay_model::query::Query;
use forebay_model::ring::{Batch, Item, QuerySummary, RingSpec};
use forebay_model::{Bytes, Error, Moment, Profile, Rate, Result, Timestamp};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

/// Bytes a second that the device moves, after [`LATENCY`].
const RATE: Rate = Rate::mb(200);
const LATENCY: Duration = Duration::from_micros(200);

/// What a device was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Read(Bytes),
    Write(Bytes),
    Flush,
}

#[derive(Default)]
struct Time {
    now: Cell<u64>,
    sleepers: RefCell<BTreeMap<(u64, u64), Waker>>,
    next: Cell<u64>,
}

/// The clock as it is handed out.
struct Hand(Rc<Time>);

impl Clock for Hand {
    fn now(&self) -> Moment {
        Moment(self.0.now.get())
    }

    fn wall(&self) -> Timestamp {
        Timestamp(self.0.now.get() as i64)
    }

    fn sleep_until(&self, moment: Moment) -> Pin<Box<dyn Future<Output = ()>>> {
        let time = self.0.clone();
        let mut key = None;
        Box::pin(std::future::poll_fn(move |context| {
            if time.now.get() >= moment.0 {
                return Poll::Ready(());
            }
            let key = *key.get_or_insert_with(|| {
                time.next.set(time.next.get() + 1);
                (moment.0, time.next.get())
            });
            time.sleepers.borrow_mut().insert(key, context.waker().clone());
            Poll::Pending
        }))
    }
}

struct Numbers(Cell<u64>);

impl Random for Numbers {
    fn next_u64(&self) -> u64 {
        self.0.set(self.0.get().wrapping_add(0x9e37_79b9_7f4a_7c15));
        let mixed = (self.0.get() ^ self.0.get() >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed ^ mixed >> 29
    }
}

/// Whether a future is to be asked again.
#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Relaxed);
    }
}

type Pages = BTreeMap<u64, Box<[u8; 4096]>>;

/// Which writes wait.
#[derive(Default)]
struct Hold {
    /// So many more do not; none does if there is no number.
    passing: Cell<Option<usize>>,
    let_go: Signal,
}

/// The device. Writes are kept at once and end in their turn, but for those that are held.
pub(crate) struct Memory {
    size: Bytes,
    rotates: bool,
    clock: Hand,
    pages: Rc<RefCell<Pages>>,
    hold: Rc<Hold>,
    free_at: Cell<Moment>,
    log: RefCell<Vec<Op>>,
    fail_writes: Cell<bool>,
    /// Reads that have not ended, and the most that there were since [`Memory::most_reads`].
    reads: Rc<Cell<(usize, usize)>>,
    /// Pages that cannot be read before they are written again.
    lost: RefCell<BTreeSet<u64>>,
}

impl Memory {
    /// The page in which this byte lies cannot be read before it is written again.
    pub(crate) fn lose(&self, at: Bytes) {
        self.lost.borrow_mut().insert(at.0 / 4096);
    }

    /// How many reads were under way at once since the last call.
    pub(crate) fn most_reads(&self) -> usize {
        let (now, most) = self.reads.get();
        self.reads.set((now, now));
        most
    }

    /// Everything can be read again.
    pub(crate) fn find_again(&self) {
        self.lost.borrow_mut().clear();
    }

    /// What it was asked for since the last call.
    pub(crate) fn log(&self) -> Vec<Op> {
        self.log.take()
    }

    /// Writes fail from now on, or no longer.
    pub(crate) fn fail_writes(&self, fail: bool) {
        self.fail_writes.set(fail);
    }

    /// From now on this many writes go on, and all others wait, with nothing of them on the device, until they are let go.
    pub(crate) fn hold_writes_after(&self, passing: usize) {
        self.hold.passing.set(Some(passing));
    }

    /// The writes that are held go on, and no more are.
    pub(crate) fn let_writes_go(&self) {
        self.hold.passing.set(None);
        self.hold.let_go.notify();
    }

    /// Whether a write that comes now is held.
    fn holds_next(&self) -> bool {
        match self.hold.passing.get() {
            None => false,
            Some(0) => true,
            Some(passing) => {
                self.hold.passing.set(Some(passing - 1));
                false
            }
        }
    }

    /// Changes a byte.
    pub(crate) fn flip(&self, at: Bytes) {
        let mut pages = self.pages.borrow_mut();
        pages.entry(at.0 / 4096).or_insert_with(|| Box::new([0; 4096]))[(at.0 % 4096) as usize] ^= 1;
    }

    fn done(&self, op: Op, length: usize) -> Pin<Box<dyn Future<Output = ()>>> {
        self.log.borrow_mut().push(op);
        self.turn(length)
    }

    /// Comes to an end when everything before it has, and these bytes were moved.
    fn turn(&self, length: usize) -> Pin<Box<dyn Future<Output = ()>>> {
        let start = self.free_at.get().max(self.clock.now());
        self.free_at.set(start + LATENCY + RATE.time_for(Bytes(length as u64)));
        self.clock.sleep_until(self.free_at.get())
    }
}

impl Device for Memory {
    fn geometry(&self) -> Geometry {
        Geometry { size: self.size, block: Bytes(4096), rotates: self.rotates, plain: None, name: "memory".to_owned() }
    }

    fn read(&self, offset: Bytes, mut buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        let done = self.done(Op::Read(offset), buffer.len());
        let (now, most) = self.reads.get();
        self.reads.set((now + 1, most.max(now + 1)));
        let reads = self.reads.clone();
        let pages = self.pages.borrow();
        for (i, part) in buffer.chunks_mut(4096).enumerate() {
            match pages.get(&(offset.0 / 4096 + i as u64)) {
                Some(page) => part.copy_from_slice(&page[..part.len()]),
                None => part.fill(0),
            }
        }
        let is_lost =
            self.lost.borrow().range(offset.0 / 4096..(offset.0 + buffer.len() as u64).div_ceil(4096)).count() > 0;
        Box::pin(async move {
            done.await;
            reads.set((reads.get().0 - 1, reads.get().1));
            (buffer, if is_lost { Err(Error::device("a page cannot be read")) } else { Ok(()) })
        })
    }

    fn write(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        let done = self.done(Op::Write(offset), buffer.len());
        if self.holds_next() {
            let (hold, pages) = (self.hold.clone(), self.pages.clone());
            return Box::pin(async move {
                hold.let_go.until(|| hold.passing.get().is_none()).await;
                keep(&mut pages.borrow_mut(), offset, &buffer);
                done.await;
                (buffer, Ok(()))
            });
        }
        let failed = self.fail_writes.get();
        if !failed {
            let first = offset.0 / 4096;
            let end = first + (buffer.len() as u64).div_ceil(4096);
            self.lost.borrow_mut().retain(|page| !(first..end).contains(page));
            keep(&mut self.pages.borrow_mut(), offset, &buffer);
        }
        Box::pin(async move {
            done.await;
            (buffer, if failed { Err(Error::device("the device is broken")) } else { Ok(()) })
        })
    }

    fn write_durable(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        // It takes as long as a flush behind it, and is none: of other writes it promises nothing.
        let (write, flushed) = (self.write(offset, buffer), self.turn(0));
        Box::pin(async move {
            let written = write.await;
            flushed.await;
            written
        })
    }

    fn flush(&self) -> DeviceFuture<Result<()>> {
        let done = self.done(Op::Flush, 0);
        Box::pin(async move {
            done.await;
            Ok(())
        })
    }
}

fn keep(pages: &mut Pages, offset: Bytes, bytes: &[u8]) {
    for (i, part) in (0..).zip(bytes.chunks(4096)) {
        let page = pages.entry(offset.0 / 4096 + i).or_insert_with(|| Box::new([0; 4096]));
        page[..part.len()].copy_from_slice(part);
    }
}

/// A world of one device.
pub(crate) struct Fake {
    executor: Executor,
    time: Rc<Time>,
    pub(crate) disk: Rc<Memory>,
    random: Rc<Numbers>,
}

impl Fake {
    /// A device of `size`.
    pub(crate) fn new(size: Bytes, rotates: bool) -> Fake {
        Fake::with_chance(size, rotates, 7)
    }

    /// The same with numbers by chance that begin otherwise.
    pub(crate) fn with_chance(size: Bytes, rotates: bool, seed: u64) -> Fake {
        let time = Rc::new(Time::default());
        let disk = Memory {
            size,
            rotates,
            clock: Hand(time.clone()),
            pages: Rc::default(),
            hold: Rc::default(),
            free_at: Cell::new(Moment(0)),
            log: RefCell::default(),
            fail_writes: Cell::new(false),
            reads: Rc::default(),
            lost: RefCell::default(),
        };
        Fake { executor: Executor::new(|| ()), time, disk: Rc::new(disk), random: Rc::new(Numbers(Cell::new(seed))) }
    }

    /// All that a target may touch.
    pub(crate) fn env(&self) -> Env {
        Env {
            device: self.disk.clone(),
            clock: Rc::new(Hand(self.time.clone())),
            random: self.random.clone(),
            spawner: self.executor.spawner(),
        }
    }

    /// The time.
    pub(crate) fn now(&self) -> Timestamp {
        Timestamp(self.time.now.get() as i64)
    }

    /// Lets time pass.
    pub(crate) fn wait(&self, span: Duration) {
        self.run(self.env().clock.sleep(span));
    }

    /// A number below `bound`, by chance.
    pub(crate) fn below(&self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    /// Runs `future` to its end, and what else there is beside it.
    pub(crate) fn run<F: Future>(&self, future: F) -> F::Output {
        let mut future = std::pin::pin!(future);
        let woken = Arc::new(Woken::default());
        let waker = Waker::from(woken.clone());
        let mut context = std::task::Context::from_waker(&waker);
        for _ in 0..5_000_000 {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return output;
            }
            // What became ready by that comes first, and is asked after again.
            if self.executor.run_ready(1) && !woken.0.swap(false, Relaxed) {
                let first = self.time.sleepers.borrow_mut().pop_first();
                let ((moment, _), waker) = first.expect("everything waits and nothing will happen");
                self.time.now.set(self.time.now.get().max(moment));
                waker.wake();
            }
        }
        panic!("the run does not end");
    }

    /// Ends all tasks, as `kill -9` does.
    pub(crate) fn kill(&self) {
        self.executor.kill_all();
        self.time.sleepers.borrow_mut().clear();
    }

    /// Formats the device and opens it.
    pub(crate) fn target(&self) -> Rc<Target> {
        self.run(async {
            let profile = Profile::guess(self.disk.size, self.disk.rotates);
            Target::format(self.env(), profile).await.expect("a healthy device can be formatted");
            Target::open(self.env()).await.expect("a formatted device opens")
        })
    }

    /// Creates a ring.
    pub(crate) fn create(&self, target: &Target, spec: RingSpec) -> Result<Rc<Ring>> {
        self.run(async {
            let ring = target.create_ring(spec).await?;
            ring.ready().await?;
            Ok(ring)
        })
    }

    /// Asks a ring.
    pub(crate) fn ask(&self, ring: &Rc<Ring>, text: &str) -> (Vec<Told>, QuerySummary) {
        self.try_ask(ring, text, u64::MAX).expect("a query ends well")
    }

    /// Asks a ring for `elements` elements at most.
    pub(crate) fn try_ask(&self, ring: &Rc<Ring>, text: &str, elements: u64) -> Result<(Vec<Told>, QuerySummary)> {
        let query = Query::parse(text, &ring.keys, self.now())?;
        let limits = Limits { follow: false, elements, gaps_only: false, blocks: false, numbered: false };
        let ring = ring.clone();
        self.run(async {
            let (inlet, mut outlet) = pipe::<Batch>(4 << 20);
            let task = self.executor.spawner().spawn(async move { run(ring, query, limits, &inlet).await });
            let mut told = Vec::new();
            while let Some(batch) = outlet.receive().await {
                tell(&batch, &mut told);
            }
            Ok((told, task.await?))
        })
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        // Tasks hold the device, and the device those who wait for it.
        self.kill();
    }
}

/// One thing that a query told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// An element, or a piece of one: sequence and bytes.
    Element(u64, Vec<u8>),
    /// Something was not stored.
    Gap(Gap),
    /// A range is gone.
    Expired(u64, u64),
}

/// Adds what is in a batch; pieces of an element become one.
pub(crate) fn tell(batch: &Batch, told: &mut Vec<Told>) {
    let mut at = 0;
    for item in &batch.items {
        match *item {
            Item::Element { sequence, length, caller, first, .. } => {
                let bytes = &batch.payload[at..at + length as usize];
                at += length as usize + usize::from(caller);
                match told.last_mut() {
                    Some(Told::Element(last, whole)) if *last == sequence && !first => whole.extend_from_slice(bytes),
                    _ => told.push(Told::Element(sequence, bytes.to_vec())),
                }
            }
            Item::Gap(gap) => told.push(Told::Gap(gap)),
            Item::Expired { from, to } => told.push(Told::Expired(from, to)),
            Item::Block { .. } => {}
        }
    }
}

/// The sequences of what was told, gaps and expired ranges left out.
pub(crate) fn sequences(told: &[Told]) -> Vec<u64> {
    told.iter().filter_map(|t| if let Told::Element(sequence, _) = t { Some(*sequence) } else { None }).collect()
}

/// Packs elements and hands blocks in, as a client does.
pub(crate) struct Writer {
    ring: Rc<Ring>,
    clock: Rc<dyn Clock>,
    packer: Packer<Buffer>,
    writer: u64,
    number: u64,
}

impl Writer {
    pub(crate) fn new(fake: &Fake, ring: &Rc<Ring>) -> Writer {
        let writer = fake.random.next_u64();
        ring.attach(writer).expect("nobody else records");
        Writer { ring: ring.clone(), clock: fake.env().clock, packer: Packer::new(writer), writer, number: 0 }
    }

    /// Adds an element of now, which may be larger than a block.
    pub(crate) async fn element(&mut self, bytes: &[u8]) -> Result<()> {
        let time = self.clock.wall();
        if self.packer.has_buffer() && self.packer.push(time, &[bytes], &[]) {
            return Ok(());
        }
        self.send()?;
        self.packer.give(self.ring.staging().take().await);
        if self.packer.push(time, &[bytes], &[]) {
            return Ok(());
        }
        assert!(self.packer.begin(time, &[], 0));
        let mut rest = bytes;
        while !rest.is_empty() {
            let n = self.packer.part(rest);
            rest = &rest[n..];
            if !rest.is_empty() {
                self.send()?;
                self.packer.give(self.ring.staging().take().await);
            }
        }
        self.packer.end();
        Ok(())
    }

    /// Records a gap.
    pub(crate) async fn gap(&mut self, gap: &Gap) -> Result<()> {
        if !self.packer.has_buffer() || !self.packer.gap(gap) {
            self.send()?;
            self.packer.give(self.ring.staging().take().await);
            assert!(self.packer.gap(gap));
        }
        Ok(())
    }

    /// Waits until everything so far is durable; the sequence after it.
    pub(crate) async fn durable(&mut self) -> Result<u64> {
        self.send()?;
        self.ring.durable(self.writer, self.number).await
    }

    pub(crate) fn send(&mut self) -> Result<()> {
        if let Some(mut sealed) = self.packer.seal() {
            sealed.buffer.set_len(sealed.length);
            self.number += 1;
            self.ring.accept(Arrival { buffer: sealed.buffer, accepted: self.clock.now() })?;
        }
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.ring.detach(self.writer);
    }
}

/// A small ring: blocks of 16 KiB, segments of 256 KiB.
pub(crate) fn small(name: &str, capacity: Bytes) -> RingSpec {
    let mut spec = RingSpec::new(name, capacity);
    spec.block = Bytes::kib(16);
    spec.segment = Bytes::kib(256);
    spec.flush_interval = Duration::from_millis(200);
    spec
}
