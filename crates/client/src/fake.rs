//! A peer for tests: a ring in memory whose other side can be slow, and can go away.

use crate::peer::{AnswerLink, Block, HeapLink, ObjectLink, Part, Peer, WriterLink};
use crate::stopper::Stopper;
use forebay_env::{Buffer, Slab};
use forebay_model::block::View;
use forebay_model::ring::{Batch, Item, QuerySummary, RingSpec};
use forebay_model::{Error, Gap, Moment, Result, Timestamp};
use forebay_wire::command::{Durable, QueryRequest, Reply, Request, WriterOpened};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// splitmix64
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// The seed of a random test: from this variable, to replay; told in any case.
#[allow(clippy::disallowed_methods)]
pub(crate) fn seed(variable: &str) -> u64 {
    let seed = std::env::var(variable).ok().map_or(1, |text| text.parse().expect("a number"));
    println!("{variable}={seed}");
    seed
}

/// What a ring holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kept {
    Element { time: Timestamp, payload: Vec<u8>, caller: Vec<u8> },
    Gap(Gap),
}

pub(crate) struct State {
    pub(crate) spec: RingSpec,
    pub(crate) newest: Option<Timestamp>,
    pub(crate) now: Moment,
    /// Blocks stay in their buffers, and are not durable.
    pub(crate) slow: bool,
    /// The other side catches up with whoever waits for what is durable.
    pub(crate) catches_up: bool,
    waiting: VecDeque<Block>,
    pub(crate) blocks: Vec<Vec<u8>>,
    /// The sessions that are connected; a break takes a new number.
    connection: u64,
    pub(crate) opened: u64,
    /// After so many blocks more the other side goes away.
    pub(crate) breaks_after: Option<u64>,
    /// The device is dead: what waits is never durable.
    pub(crate) dead: bool,
    /// What queries find, and how they break.
    pub(crate) items: Batch,
    pub(crate) chance: Chance,
    pub(crate) query_breaks: bool,
    /// Queries break before they say anything.
    pub(crate) silent: bool,
    pub(crate) queries: Vec<QueryRequest>,
}

impl State {
    fn check(&self, connection: u64) -> Result<()> {
        match self.connection == connection {
            _ if self.dead => Err(Error::device("the device has failed")),
            true => Ok(()),
            false => Err(broken()),
        }
    }
}

pub(crate) struct Fake {
    state: Mutex<State>,
    changed: Condvar,
    slab: Slab,
}

impl Fake {
    pub(crate) fn new(spec: RingSpec, buffers: usize) -> Arc<Fake> {
        let slab = Slab::new(spec.block, buffers).expect("memory");
        let state = State {
            spec,
            newest: None,
            now: Moment(0),
            slow: false,
            catches_up: false,
            waiting: VecDeque::new(),
            blocks: Vec::new(),
            connection: 0,
            opened: 0,
            breaks_after: None,
            dead: false,
            items: Batch::default(),
            chance: Chance(1),
            query_breaks: false,
            silent: false,
            queries: Vec::new(),
        };
        Arc::new(Fake { state: Mutex::new(state), changed: Condvar::new(), slab })
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic")
    }

    /// The other side is fast from now on.
    pub(crate) fn hurry(&self) {
        let mut state = self.state();
        state.slow = false;
        while let Some(block) = state.waiting.pop_front() {
            state.blocks.push(block.buffer.to_vec());
        }
        drop(state);
        self.changed.notify_all();
    }

    pub(crate) fn pass(&self, span: Duration) {
        let mut state = self.state();
        state.now = state.now + span;
    }

    /// Everything that arrived, pieces joined.
    pub(crate) fn kept(&self) -> Vec<Kept> {
        let mut kept = Vec::new();
        let mut joined = Vec::new();
        for (number, bytes) in self.state().blocks.iter().enumerate() {
            let view = View::of_sealed(bytes).expect("a block");
            assert_eq!(view.header().number.get(), number as u64 + 1);
            view.verify().expect("checksums");
            let mut gaps = view.gaps().peekable();
            for entry in view.entries() {
                let entry = entry.expect("a directory");
                while let Some((_, gap)) = gaps.next_if(|(before, _)| *before <= entry.index) {
                    kept.push(Kept::Gap(gap));
                }
                if entry.first {
                    joined.clear();
                }
                joined.extend_from_slice(&bytes[entry.payload]);
                if entry.last && !entry.torn {
                    let caller = bytes[entry.caller_keys].to_vec();
                    kept.push(Kept::Element { time: entry.time, payload: joined.clone(), caller });
                }
            }
            kept.extend(gaps.map(|(_, gap)| Kept::Gap(gap)));
        }
        kept
    }
}

fn broken() -> Error {
    Error::disconnected("the other side went away")
}

struct FakeWriter {
    fake: Arc<Fake>,
    opened: WriterOpened,
    connection: u64,
    unsettled: VecDeque<Block>,
}

impl Peer for Arc<Fake> {
    fn call(&self, _: Request) -> Result<Reply> {
        Ok(Reply::Done)
    }

    fn open_writer(&self, _: &str, _: u64, resume: bool) -> Result<Box<dyn WriterLink>> {
        let mut state = self.state();
        state.opened += 1;
        assert_eq!(resume, state.opened > 1);
        let number = state.blocks.len() as u64;
        let opened = WriterOpened {
            spec: state.spec.clone(),
            newest: state.newest,
            received: number,
            durable: Durable { number, sequence: 0, full: false },
            buffers: self.slab.count() as u32,
        };
        let connection = state.connection;
        Ok(Box::new(FakeWriter { fake: self.clone(), opened, connection, unsettled: VecDeque::new() }))
    }

    fn query(&self, request: QueryRequest) -> Result<Box<dyn AnswerLink>> {
        let mut state = self.state();
        let from = request.text.rsplit("seq >= ").next().and_then(|n| n.parse().ok()).unwrap_or(0);
        let rest = parts(&mut state, from, request.limit);
        state.queries.push(request);
        Ok(Box::new(FakeAnswer(rest)))
    }

    fn objects(&self) -> Result<Box<dyn ObjectLink>> {
        Err(Error::usage("it has no objects"))
    }

    fn heaps(&self) -> Result<Box<dyn HeapLink>> {
        Err(Error::usage("it has no heaps"))
    }

    fn now(&self) -> Moment {
        self.state().now
    }

    fn wall(&self) -> Timestamp {
        Timestamp(0)
    }

    fn random(&self) -> u64 {
        7
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

impl WriterLink for FakeWriter {
    fn opened(&self) -> &WriterOpened {
        &self.opened
    }

    fn take(&self, wait: bool, stopper: &Stopper) -> Result<Option<Buffer>> {
        let fake = self.fake.clone();
        stopper.on_stop(move || {
            drop(fake.state());
            fake.changed.notify_all();
        });
        let mut state = self.fake.state();
        loop {
            state.check(self.connection)?;
            if let Some(buffer) = self.fake.slab.try_take() {
                return Ok(Some(buffer));
            }
            if !wait || stopper.is_stopped() {
                return Ok(None);
            }
            state = self.fake.changed.wait(state).expect("no panic");
        }
    }

    fn send(&mut self, block: Block) -> Result<()> {
        let mut state = self.fake.state();
        if state.breaks_after == Some(0) {
            state.breaks_after = None;
            state.connection += 1;
        }
        if let Err(error) = state.check(self.connection) {
            self.unsettled.push_back(block);
            return Err(error);
        }
        state.breaks_after = state.breaks_after.map(|left| left - 1);
        // What arrived may still be thought lost: it comes again, and is not to be sent again.
        if state.chance.below(2) == 0 {
            let mut twin = Buffer::alone(forebay_model::Bytes(block.buffer.capacity() as u64))?;
            twin.set_len(block.buffer.len());
            twin.copy_from_slice(&block.buffer);
            self.unsettled.push_back(Block { buffer: twin, number: block.number, accepted: block.accepted });
        }
        if state.slow {
            state.waiting.push_back(block);
        } else {
            state.blocks.push(block.buffer.to_vec());
        }
        Ok(())
    }

    fn durable(&self) -> Durable {
        Durable { number: self.fake.state().blocks.len() as u64, sequence: 0, full: false }
    }

    fn check(&self) -> Result<()> {
        self.fake.state().check(self.connection)
    }

    fn wait_durable(&self, number: u64) -> Result<Durable> {
        let catches_up = self.fake.state().catches_up;
        if catches_up {
            self.fake.hurry();
        }
        let durable = self.durable();
        self.check().map(|()| Durable { full: durable.number < number, ..durable })
    }

    fn unsettled(self: Box<Self>) -> VecDeque<Block> {
        self.unsettled
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

struct FakeAnswer(VecDeque<Result<Part>>);

impl AnswerLink for FakeAnswer {
    fn next(&mut self) -> Result<Part> {
        self.0.pop_front().unwrap_or_else(|| Err(broken()))
    }

    fn canceller(&self) -> Box<dyn Fn() + Send + Sync> {
        Box::new(|| {})
    }
}

/// An answer from `from` on, cut into batches by chance, and perhaps broken off.
fn parts(state: &mut State, from: u64, limit: Option<u64>) -> VecDeque<Result<Part>> {
    let mut parts = VecDeque::new();
    if state.silent {
        return parts;
    }
    let mut batch = Batch::default();
    let (mut at, mut given, mut begun) = (0, 0, from == 0);
    let items = std::mem::take(&mut state.items);
    for (index, item) in items.items.iter().enumerate() {
        let (size, sequence) = match item {
            Item::Element { sequence, length, caller, .. } => {
                (*length as usize + usize::from(*caller), Some(*sequence))
            }
            _ => (0, None),
        };
        let bytes = &items.payload[at..at + size];
        at += size;
        // Gaps that lie shortly before the first element come along, as from a device.
        begun |= sequence.is_some_and(|s| s >= from) || index + 3 >= items.items.len();
        let near = items.items[index..]
            .iter()
            .take(3)
            .any(|i| matches!(i, Item::Element { sequence, .. } if *sequence >= from));
        if sequence.is_some_and(|s| s < from) || sequence.is_none() && !begun && !near {
            continue;
        }
        if state.query_breaks && state.chance.below(40) == 0 {
            state.items = items;
            parts.push_back(Ok(Part::Batch(batch)));
            parts.push_back(Err(broken()));
            return parts;
        }
        batch.items.push(*item);
        batch.payload.extend_from_slice(bytes);
        if state.chance.below(3) == 0 {
            parts.push_back(Ok(Part::Batch(std::mem::take(&mut batch))));
        }
        if let Item::Element { last: true, .. } = item {
            given += 1;
            if limit == Some(given) {
                break;
            }
        }
    }
    state.items = items;
    parts.push_back(Ok(Part::Batch(batch)));
    parts.push_back(Ok(Part::End(QuerySummary::default())));
    parts
}
