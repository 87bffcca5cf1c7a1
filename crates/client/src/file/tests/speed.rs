//! What the engine itself costs, over components that do nothing.
//!
//! `cargo test --release -p forebay-client what_the_engine_costs -- --ignored --nocapture`

use super::super::{Absence, Asked, Begun, Components, Intent, IntentId, Lock};
use super::{Bytes, FileEngine, Options, Raid, Rc, Result, Slice, Striping};
use forebay_env::real::RealClock;
use forebay_env::{Clock, Executor};
use forebay_model::layout::UNIT;
use forebay_model::layout::address::StripeId;
use forebay_model::object::Durability;
use std::cell::Cell;

/// Components that take everything in and have a part of the same bytes for whoever reads.
struct Nothing {
    bytes: Slice,
    length: Cell<u64>,
}

fn at_once<T: 'static>(value: T) -> Asked<T> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Components for Nothing {
    fn begun(&self, _: u32, _: StripeId) -> Asked<Option<Begun>> {
        at_once(Some(Begun::default()))
    }
    fn read(&self, _: u32, at: Bytes, length: Bytes) -> Asked<Slice> {
        let from = at.0 as usize % (self.bytes.len() / 2);
        at_once(self.bytes.slice(from..from + length.0 as usize))
    }
    fn write(&self, _: u32, _: Bytes, _: Vec<Slice>, _: Durability) -> Asked<()> {
        at_once(())
    }
    fn lose(&self, _: u32, _: Bytes, _: Bytes) -> Asked<()> {
        at_once(())
    }
    fn truncate(&self, _: u32, _: Bytes) -> Asked<()> {
        at_once(())
    }
    fn size(&self, _: u32) -> Asked<Bytes> {
        at_once(Bytes::ZERO)
    }
    fn flush(&self, _: u32) -> Asked<()> {
        at_once(())
    }
    fn lock(&self, _: u32, _: StripeId) -> Asked<Lock> {
        at_once(Lock { guard: Box::new(()), left: Vec::new() })
    }
    fn intend(&self, _: u32, _: Intent) -> Asked<IntentId> {
        at_once(IntentId(0))
    }
    fn settle(&self, _: u32, _: IntentId) -> Asked<()> {
        at_once(())
    }
    fn intents(&self, _: u32) -> Asked<Vec<(IntentId, Intent)>> {
        at_once(Vec::new())
    }
    fn shut_out(&self) -> Asked<()> {
        at_once(())
    }
    fn missed(&self, _: Vec<u32>) -> Asked<()> {
        at_once(())
    }
    fn absent(&self) -> Vec<(u32, Absence)> {
        Vec::new()
    }

    fn is_slow(&self, _: u32) -> bool {
        false
    }

    fn is_silent(&self, _: u32) -> bool {
        false
    }

    fn leave(&self, _: u32) {}

    fn missing(&self) -> Asked<Vec<(u32, Absence)>> {
        at_once(Vec::new())
    }
    fn filling(&self, _: u32) -> Asked<()> {
        at_once(())
    }
    fn rebuilt(&self, _: u32) -> Asked<()> {
        at_once(())
    }
    fn grown(&self, size: Bytes) -> Asked<()> {
        self.length.set(size.0);
        at_once(())
    }
    fn cut(&self, size: Bytes) -> Asked<()> {
        self.length.set(size.0);
        at_once(())
    }
    fn length(&self) -> Asked<Bytes> {
        at_once(Bytes(self.length.get()))
    }
}

#[test]
#[ignore = "measures, and says nothing unless it is optimised"]
fn what_the_engine_costs_for_each_byte() {
    let total = 4_u64 << 30;
    for (raid, width) in [(Raid::Five, 10), (Raid::Zero, 9), (Raid::One(2), 5)] {
        let clock = Rc::new(RealClock::default());
        let executor = Executor::new(|| ());
        let striping = Striping::new(raid, UNIT, width, 1, 1).expect("a layout");
        let bytes = Slice::from(vec![7; 16 << 20]);
        let nothing = Rc::new(Nothing { bytes: bytes.clone(), length: Cell::new(0) });
        let (spawner, time) = (executor.spawner(), clock.clone());
        let task = executor.spawner().spawn(async move {
            let file = FileEngine::open(nothing, striping, Options::alone(), spawner, time.clone()).await?;
            let begun = time.now();
            for at in (0..total).step_by(1 << 20) {
                let from = at as usize % bytes.len();
                file.write_at(Bytes(at), bytes.slice(from..from + (1 << 20))).await?;
            }
            file.flush().await?;
            let written = time.now();
            for at in (0..total).step_by(1 << 20) {
                std::hint::black_box(file.read_slices(Bytes(at), Bytes::mib(1)).await?);
            }
            let read = time.now();
            for at in (0..total).step_by(1 << 20) {
                std::hint::black_box(file.read_at(Bytes(at), Bytes::mib(1)).await?);
            }
            let copied = time.now();
            Result::Ok([written.since(begun), read.since(written), copied.since(read)])
        });
        while !task.is_finished() {
            executor.run_ready(1000);
        }
        let result = Rc::new(Cell::new(None));
        let to = result.clone();
        executor.spawner().detach(async move { to.set(Some(task.await)) });
        executor.run_ready(10);
        let spans = result.take().expect("it has ended").expect("nothing fails");
        let [write, read, copy] = spans.map(|span| span.as_nanos() as f64 / total as f64);
        println!("{raid}: writing {write:.3} ns a byte, reading {read:.3}, reading with a copy {copy:.3}");
    }
}
