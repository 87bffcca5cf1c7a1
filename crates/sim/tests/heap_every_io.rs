//! A heap through every I/O of a small workload: the power goes after each of them, and of the writes that were not flushed
//! every subset survives where they are few, and some by chance where they are many; then once more while it is opened. And
//! the Nth write, flush or read fails, for every N, once and from then on.

#![allow(clippy::unwrap_used)]

use forebay_env::Env;
use forebay_model::heap::{HeapMode, HeapSettings, RecordId};
use forebay_model::{Kind, Result};
use forebay_sim::disk::{Fault, Op, Survival, presets};
use forebay_sim::stage::{Scene, Stage};
use forebay_target::Target;
use forebay_target::heap::{Heap, HeapOptions};
use forebay_target::verify::verify;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

const HEAP: &str = "/heap";
const OTHER: &str = "/other";

/// What a commit has.
type Content = (BTreeMap<RecordId, Vec<u8>>, Option<RecordId>);

#[derive(Debug, Default, Clone)]
struct Book {
    now: Content,
    /// What was committed last, and the commits since that were not acknowledged: one that failed may be there.
    committed: Content,
    under_way: Vec<Content>,
    errors: Vec<String>,
    /// Commits that succeeded after something had failed.
    after: usize,
}

struct User {
    heap: Rc<Heap>,
    book: Rc<RefCell<Book>>,
}

impl User {
    fn note<T>(&self, result: Result<T>) -> Option<T> {
        result.map_err(|error| self.book.borrow_mut().errors.push(error.to_string())).ok()
    }

    async fn put(&self, fill: u8, length: usize) {
        if let Some(id) = self.note(self.heap.put(&vec![fill; length]).await) {
            self.book.borrow_mut().now.0.insert(id, vec![fill; length]);
        }
    }

    /// Frees every second record.
    async fn thin(&self) {
        let ids: Vec<RecordId> = self.book.borrow().now.0.keys().copied().step_by(2).collect();
        for id in ids {
            if self.note(self.heap.free(id).await).is_some() {
                self.book.borrow_mut().now.0.remove(&id);
            }
        }
    }

    async fn commit(&self) {
        let next = {
            let mut book = self.book.borrow_mut();
            book.now.1 = book.now.0.keys().next_back().copied();
            book.now.clone()
        };
        self.book.borrow_mut().under_way.push(next.clone());
        if self.note(self.heap.commit(next.1).await).is_some() {
            let book = &mut *self.book.borrow_mut();
            book.committed = next;
            book.under_way.clear();
            book.after += usize::from(!book.errors.is_empty());
        }
    }
}

async fn workload(env: Env, book: Rc<RefCell<Book>>) {
    let opened = async {
        let target = Target::open(env).await?;
        let heap = target.heap(HEAP, HeapOptions { buffers: 6, ..HeapOptions::default() }).await?;
        Ok((target, heap))
    };
    let (target, heap) = match opened.await {
        Ok(opened) => opened,
        Err::<_, forebay_model::Error>(error) => return book.borrow_mut().errors.push(error.to_string()),
    };
    let user = User { heap: heap.clone(), book };
    for n in 0..20u8 {
        user.put(n, 100 + usize::from(n) * 300).await;
    }
    user.commit().await;
    user.thin().await;
    user.put(30, 40_000).await;
    user.commit().await;
    let writer = heap.writer();
    let own = user.note(writer.put(&[31; 3000]).await);
    user.note(heap.abort().await);
    {
        let book = &mut *user.book.borrow_mut();
        book.now = book.committed.clone();
    }
    user.thin().await;
    if let Some(id) = own
        && user.note(writer.merge().await).is_some()
    {
        user.book.borrow_mut().now.0.insert(id, vec![31; 3000]);
    }
    user.commit().await;
    let made = target.create_heap(OTHER, HeapSettings::default(), HeapOptions::default()).await;
    user.note(made);
    // More than the buffers hold, so that some is written before the commit.
    for n in 0..440 {
        user.put(40 + (n % 100) as u8, 8000).await;
    }
    user.commit().await;
    user.note(target.delete_heap(OTHER).await);
    user.thin().await;
    user.commit().await;
}

/// A heap with some records in it, on a target that was not closed.
fn scene(settings: HeapSettings) -> (Scene, Book) {
    let stage = Stage::new(5, presets::ssd().scaled(6_000), |_| ());
    let (env, book) = (stage.env(), Rc::new(RefCell::new(Book::default())));
    let user_book = book.clone();
    stage.world.run(async move {
        let target = Target::open(env).await.unwrap();
        let heap = target.create_heap(HEAP, settings, HeapOptions::default()).await.unwrap();
        let user = User { heap, book: user_book };
        for round in 0..3 {
            for n in 0..10 {
                user.put(60 + round * 10 + n, 50 + usize::from(n) * 700).await;
            }
            user.commit().await;
            user.thin().await;
        }
        user.commit().await;
        assert_eq!(user.book.borrow().errors, [""; 0]);
    });
    stage.world.kill();
    let book = book.borrow().clone();
    (stage.scene(), book)
}

fn settings() -> [HeapSettings; 3] {
    let eager = HeapSettings { threshold: 1, ..HeapSettings::default() };
    let kept = HeapSettings { keep: Duration::from_secs(3600), ..eager };
    [eager, kept, HeapSettings { mode: HeapMode::Worm, ..eager }]
}

/// Whether the heap has this, and nothing else.
async fn has(heap: &Rc<Heap>, (records, root): &Content) -> bool {
    let ids: Vec<RecordId> = records.keys().copied().collect();
    let found = heap.get_many(&ids).await;
    let same = found.iter().zip(records.values()).all(|(found, bytes)| found.as_ref().ok() == Some(bytes));
    let slots = records.values().map(|bytes| if bytes.len() <= 8182 { 1 } else { 1 + bytes.len().div_ceil(8182) });
    let used: u64 = heap.status().classes.iter().map(|class| class.used).sum();
    same && heap.root() == *root && used == slots.sum::<usize>() as u64 + heap.status().archive_slots
}

async fn check(env: Env, book: Book, doing: &str) {
    let found = verify(env.clone(), &mut |_, _| ()).await.unwrap_or_else(|e| panic!("{doing}: {e}"));
    let heap = found.heaps.iter().find(|heap| heap.name == HEAP).unwrap_or_else(|| panic!("{doing}: the heap is gone"));
    assert_eq!((&heap.damage[..], heap.leaked, heap.twice), (&[][..], 0, 0), "{doing}: {heap:?}");
    let target = Target::open(env).await.unwrap_or_else(|e| panic!("{doing}: the target does not open: {e}"));
    let opened = target.heap(HEAP, HeapOptions::default()).await;
    let heap = opened.unwrap_or_else(|e| panic!("{doing}: the heap does not open: {e}"));
    let mut is_known = has(&heap, &book.committed).await;
    for under_way in &book.under_way {
        is_known |= has(&heap, under_way).await;
    }
    assert!(is_known, "{doing}: it is not as it was at its last commit");
    // It goes on.
    let id = heap.put(b"on").await.unwrap_or_else(|e| panic!("{doing}: going on: {e}"));
    heap.commit(Some(id)).await.unwrap_or_else(|e| panic!("{doing}: going on: {e}"));
    match target.delete_heap(OTHER).await {
        Err(error) if error.kind != Kind::Missing => panic!("{doing}: deleting the other: {error}"),
        _ => {}
    }
}

/// Cuts the power after I/O `at`; how many unflushed writes there were. Nothing if the workload was over before.
fn cut(scene: &Scene, before: &Book, at: u64, survival: Survival, again: bool) -> Option<usize> {
    let stage = scene.begin(at);
    let doing = format!("cut after I/O {at}, {survival:?}");
    let book = Rc::new(RefCell::new(before.clone()));
    stage.disk.set_survival(survival);
    stage.disk.cut_after(at);
    let over = stage.world.run_until_cut(workload(stage.env(), book.clone())).is_ok();
    stage.disk.no_cut();
    if over {
        return None;
    }
    let decided = stage.disk.decided();
    if again {
        // Once more, while it is opened.
        stage.disk.set_survival(Survival::Random);
        stage.disk.cut_after(1 + at % 23);
        let env = stage.env();
        let opening = async move {
            if let Ok(target) = Target::open(env).await {
                // It may be cut before it comes to this.
                let _ = target.heap(HEAP, HeapOptions::default()).await;
            }
        };
        let _ = stage.world.run_until_cut(opening);
        stage.disk.no_cut();
        stage.world.kill();
    }
    let book = book.borrow().clone();
    stage.world.run(async { check(stage.env(), book, &doing).await });
    Some(decided)
}

#[test]
fn the_power_may_go_after_any_io_with_any_of_the_unflushed_kept() {
    let mut states = 0;
    for settings in settings() {
        let (scene, book) = scene(settings);
        for at in 1.. {
            let Some(decided) = cut(&scene, &book, at, Survival::Nothing, at % 2 == 0) else { break };
            states += 1;
            let all = match decided {
                0 => 0..0,
                1..=3 => 1..1u64 << decided,
                _ => 0..0,
            };
            for bits in all {
                cut(&scene, &book, at, Survival::Chosen(bits), bits % 2 == 0);
                states += 1;
            }
            if decided > 3 {
                for survival in [Survival::Everything, Survival::Random, Survival::Random] {
                    cut(&scene, &book, at, survival, at % 3 == 0);
                    states += 1;
                }
            }
        }
    }
    assert!(states > 300, "only {states} states");
}

fn with(scene: &Scene, before: &Book, fault: Fault, cut: bool) -> Book {
    let doing = format!("{fault:?}, then {}", if cut { "a power cut" } else { "a kill" });
    let stage = scene.begin(3);
    let book = Rc::new(RefCell::new(before.clone()));
    stage.disk.inject(fault);
    stage.world.run(workload(stage.env(), book.clone()));
    stage.disk.heal();
    if cut {
        stage.world.crash(&[&stage.disk])
    } else {
        stage.world.kill()
    }
    let told = book.borrow().clone();
    stage.world.run(async { check(stage.env(), told.clone(), &doing).await });
    told
}

fn fail_each(op: Op, each: impl Fn(u64, bool, bool, &Book)) {
    for settings in settings() {
        let (scene, book) = scene(settings);
        let stage = scene.begin(3);
        let before = stage.disk.counters();
        stage.world.run(workload(stage.env(), Rc::new(RefCell::new(book.clone()))));
        let done = stage.disk.counters() - before;
        let count = match op {
            Op::Read => done.reads,
            Op::Write => done.writes,
            Op::Flush => done.flushes,
        };
        assert!(count > 8, "only {count} I/Os");
        for sticky in [false, true] {
            // And one more than there are: then nothing fails.
            for nth in 0..=count {
                let told = with(&scene, &book, Fault::Fail { op, nth, sticky }, nth % 2 == 0);
                each(nth, nth < count, sticky, &told);
            }
        }
    }
}

#[test]
fn whichever_write_fails_no_more_commits_succeed_and_the_last_one_is_there() {
    fail_each(Op::Write, |nth, failed, sticky, told| {
        assert_eq!(!told.errors.is_empty(), failed, "write {nth} failed ({sticky}): {:?}", told.errors);
        assert_eq!(told.after, 0, "write {nth} failed ({sticky}), and a commit succeeded: {:?}", told.errors);
    });
}

#[test]
fn whichever_flush_fails_no_more_commits_succeed_and_the_last_one_is_there() {
    fail_each(Op::Flush, |nth, failed, sticky, told| {
        assert_eq!(!told.errors.is_empty(), failed, "flush {nth} failed ({sticky}): {:?}", told.errors);
        assert_eq!(told.after, 0, "flush {nth} failed ({sticky}), and a commit succeeded: {:?}", told.errors);
    });
}

#[test]
fn whichever_read_fails_nothing_is_lost_by_it() {
    fail_each(Op::Read, |_, _, _, _| ());
}
