//! What is changed of a ring (a pin made or let go, more or fewer groups, what others make durable while it looks for its end)
//! changes which slot is next. The power goes before and after the change is durable, while somebody records: what was
//! acknowledged is there.

#![allow(clippy::unwrap_used)]

use forebay_env::Env;
use forebay_model::{Bytes, Result, Timestamp};
use forebay_sim::disk::{Survival, presets};
use forebay_sim::feeder::Feeder;
use forebay_sim::seeds;
use forebay_sim::stage::{Book, Ending, NAME, Scene, Stage, element, look_whole, record};
use forebay_target::Target;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// What is changed while somebody records.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// What was pinned returns: the slot that is overwritten next lies elsewhere.
    Unpin,
    /// New slots are the next ones.
    Grow,
    /// The oldest slots are gone.
    Shrink,
    /// More slots ahead of the writer are skipped than opening would look behind.
    PinMany,
}

const CHANGES: [Change; 4] = [Change::Unpin, Change::Grow, Change::Shrink, Change::PinMany];

async fn make(change: Change, target: &Rc<Target>) -> Result<()> {
    let ring = target.ring(NAME)?;
    let size = ring.status().spec.capacity;
    match change {
        Change::Unpin => target.unpin(NAME, ring.status().pins[0].id).await,
        Change::Grow => target.resize_ring(NAME, size + Bytes::mib(4)).await.map(drop),
        Change::Shrink => target.resize_ring(NAME, size - Bytes::mib(2)).await.map(drop),
        Change::PinMany => {
            let (oldest, newest) = (ring.status().oldest.unwrap(), ring.status().newest.unwrap());
            let to = Timestamp(oldest.0 + (newest.0 - oldest.0) / 2);
            target.pin(NAME, "many", oldest, to).await.map(drop)
        }
    }
}

/// A ring of some fifty segments that has come round, with a few of them pinned, and half a lap beyond that.
fn start() -> Scene {
    let stage = Stage::new(17, presets::ssd().scaled(6_000), |spec| {
        spec.capacity = Bytes::mib(14);
        spec.pin_budget_percent = 70;
    });
    stage.record(5_000, Ending::Closed);
    let env = stage.env();
    stage.world.run(async move {
        let target = Target::open(env).await.unwrap();
        let ring = target.ring(NAME).unwrap();
        ring.ready().await.unwrap();
        let oldest = ring.status().oldest.unwrap();
        target.pin(NAME, "few", oldest, oldest.after(Duration::from_millis(200))).await.unwrap();
        target.close().await.unwrap();
    });
    stage.world.kill();
    stage.record(2_500, Ending::Closed);
    stage.scene()
}

/// Elements of which four fill a segment, each until it is durable.
async fn fill(env: &Env, target: &Rc<Target>, book: &Rc<RefCell<Book>>) -> Result<()> {
    let ring = target.ring(NAME)?;
    let mut feeder = Feeder::new(ring.clone(), env.clock.clone(), env.random.next_u64())?;
    let first = ring.status().next_sequence;
    for number in first..first + 40 {
        let known = element(env.clock.wall(), number, 60_000);
        book.borrow_mut().known.insert(number, known.clone());
        feeder.element(known.time, &[&known.bytes]).await?;
        book.borrow_mut().acknowledged = feeder.durable().await?;
    }
    Ok(())
}

/// The ring has what was acknowledged, and goes on.
async fn check(env: Env, book: Rc<RefCell<Book>>, doing: String) {
    let target = Target::open(env.clone()).await.unwrap_or_else(|e| panic!("{doing}: the target does not open: {e}"));
    let seen = look_whole(&env, &target, &book, &doing).await;
    // What others hold begins with that, and goes on later.
    seen.status.pins.iter().filter(|pin| pin.label == "few").for_each(|pin| seen.holds(pin, &doing));
    record(&env, &target, &book, 300).await.unwrap_or_else(|e| panic!("{doing}: recording on: {e}"));
    target.close().await.unwrap_or_else(|e| panic!("{doing}: closing: {e}"));
}

#[test]
fn what_is_acknowledged_beside_a_change_of_the_lap_is_there_wherever_the_power_goes() {
    let start = start();
    seeds::each(160, |seed| {
        let stage = start.begin(seed);
        let change = CHANGES[seed as usize % CHANGES.len()];
        let (env, book) = (stage.env(), stage.book.clone());
        let random = env.random.clone();
        // A segment takes some hundred elements.
        let (before, cut) = (random.below(120), 1 + random.below(16));
        let doing = format!("seed {seed}: {change:?} after {before} elements, cut after {cut} I/Os of it");
        stage.disk.set_survival(Survival::Random);
        let disk = stage.disk.clone();
        let run = async move {
            let target = Target::open(env.clone()).await.unwrap();
            record(&env, &target, &book, before).await.unwrap();
            disk.cut_after(cut);
            let changed = target.clone();
            env.spawner.detach(async move { drop(make(change, &changed).await) });
            // As long as the power is there.
            while fill(&env, &target, &book).await.is_ok() {}
        };
        assert!(stage.world.run_until_cut(run).is_err(), "{doing}: the power did not go");
        stage.disk.no_cut();
        let (env, book) = (stage.env(), stage.book.clone());
        stage.world.run(check(env, book, doing));
        stage.world.kill();
    });
}

#[test]
fn what_others_make_durable_while_a_ring_looks_for_its_end_hides_nothing_of_it() {
    let start = start();
    seeds::each(20, |seed| {
        let stage = start.begin(seed);
        stage.record(900, Ending::Cut);
        let (env, book) = (stage.env(), stage.book.clone());
        let commits = Rc::new(RefCell::new(0));
        let counted = commits.clone();
        stage.world.run(async move {
            let target = Target::open(env.clone()).await.unwrap();
            let ring = target.ring(NAME).unwrap();
            let (other, found) = (target.clone(), Rc::new(RefCell::new(false)));
            let is_found = found.clone();
            env.spawner.detach(async move {
                while !*is_found.borrow() {
                    other.fence_ring(NAME, 7).await.unwrap();
                    *counted.borrow_mut() += u64::from(!*is_found.borrow());
                }
            });
            ring.ready().await.unwrap();
            *found.borrow_mut() = true;
            record(&env, &target, &book, 40).await.unwrap();
        });
        stage.world.crash(&[&stage.disk]);
        let (env, book) = (stage.env(), stage.book.clone());
        stage.world.run(check(env, book, format!("seed {seed}")));
        stage.world.kill();
        assert!(*commits.borrow() > 0, "seed {seed}: nothing was made durable meanwhile");
    });
}
