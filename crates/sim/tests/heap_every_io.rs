//! A heap through every I/O of a small workload: the power goes after each of them, and of the writes that were not flushed
//! every subset survives where they are few, and some by chance where they are many; then once more while it is opened. And
//! the Nth write, flush or read fails, for every N, once and from then on. Or the Nth write is acknowledged and never done.

#![allow(clippy::unwrap_used)]

use forebay_env::Env;
use forebay_model::heap::{HeapMode, HeapSettings, RecordId};
use forebay_model::{Kind, Result};
use forebay_sim::disk::{Fault, Op, SimDisk, Survival, presets};
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
    /// The number of the last commit.
    commit: u64,
    /// Writes of the disk that had ended by the time each commit was acknowledged, and I/Os that had begun.
    acknowledged: Vec<(u64, u64)>,
    /// What the heap said of itself in the end.
    complaints: Vec<String>,
}

struct User {
    heap: Rc<Heap>,
    disk: SimDisk,
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
        if let Some(commit) = self.note(self.heap.commit(next.1).await) {
            let book = &mut *self.book.borrow_mut();
            (book.committed, book.commit) = (next, commit);
            book.acknowledged.push((self.disk.counters().writes, self.disk.started()));
            book.under_way.clear();
            book.after += usize::from(!book.errors.is_empty());
        }
    }
}

async fn workload(env: Env, disk: SimDisk, book: Rc<RefCell<Book>>) {
    let opened = async {
        let target = Target::open(env).await?;
        let heap = target.heap(HEAP, HeapOptions { buffers: 6, ..HeapOptions::default() }).await?;
        Ok((target, heap))
    };
    let (target, heap) = match opened.await {
        Ok(opened) => opened,
        Err::<_, forebay_model::Error>(error) => return book.borrow_mut().errors.push(error.to_string()),
    };
    let user = User { heap: heap.clone(), disk, book };
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
    // What does not change after the first one lies where it lay, and both of the last two name it there.
    for _ in 0..3 {
        user.commit().await;
    }
    user.book.borrow_mut().complaints = heap.complaints();
}

/// A heap with some records in it, on a target that was not closed.
fn scene(settings: HeapSettings) -> (Scene, Book) {
    let stage = Stage::new(5, presets::ssd().scaled(6_000), |_| ());
    let (env, book) = (stage.env(), Rc::new(RefCell::new(Book::default())));
    let (user_book, disk) = (book.clone(), stage.disk.clone());
    stage.world.run(async move {
        let target = Target::open(env).await.unwrap();
        let heap = target.create_heap(HEAP, settings, HeapOptions::default()).await.unwrap();
        let user = User { heap, disk, book: user_book };
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
    let book = Book { acknowledged: Vec::new(), ..book.borrow().clone() };
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
    cut_beside(scene, before, (at, None), at, survival, again)
}

/// The same with chance from this seed, and something else that goes wrong.
fn cut_beside(
    scene: &Scene,
    before: &Book,
    (seed, fault): (u64, Option<Fault>),
    at: u64,
    survival: Survival,
    again: bool,
) -> Option<usize> {
    let stage = scene.begin(seed);
    let doing = format!("cut after I/O {at}, {survival:?}, {fault:?}, seed {seed}");
    let book = Rc::new(RefCell::new(before.clone()));
    fault.into_iter().for_each(|fault| stage.disk.inject(fault));
    stage.disk.set_survival(survival);
    stage.disk.cut_after(at);
    let over = stage.world.run_until_cut(workload(stage.env(), stage.disk.clone(), book.clone())).is_ok();
    stage.disk.no_cut();
    stage.disk.calm();
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
    stage.world.run(workload(stage.env(), stage.disk.clone(), book.clone()));
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
        stage.world.run(workload(stage.env(), stage.disk.clone(), Rc::new(RefCell::new(book.clone()))));
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

/// The workload with a write that is acknowledged and not done, and then the end of the process, or of the power; how it ended.
fn lose(scene: &Scene, before: &Book, nth: u64) -> (Stage, Book) {
    let stage = scene.begin(3);
    let book = Rc::new(RefCell::new(before.clone()));
    stage.disk.inject(Fault::LoseWrite { nth });
    stage.world.run(workload(stage.env(), stage.disk.clone(), book.clone()));
    stage.disk.heal();
    match nth.is_multiple_of(2) {
        true => stage.world.crash(&[&stage.disk]),
        false => stage.world.kill(),
    }
    let told = book.borrow().clone();
    (stage, told)
}

/// How many records of the last commit are not there any more. It must be that one, as it was.
async fn lacks(env: Env, told: &Book, doing: &str) -> usize {
    let target = Target::open(env).await.unwrap_or_else(|e| panic!("{doing}: the target does not open: {e}"));
    let opened = target.heap(HEAP, HeapOptions::default()).await;
    let heap = opened.unwrap_or_else(|e| panic!("{doing}: the heap does not open: {e}"));
    let ((records, root), complaints) = (&told.committed, heap.complaints());
    let is_older = complaints.iter().any(|what| what.contains("opened as of"));
    assert!(heap.status().last.commit == told.commit && heap.root() == *root && !is_older, "{doing}: {complaints:?}");
    let ids: Vec<RecordId> = records.keys().copied().collect();
    let mut lacking = 0;
    for (found, bytes) in heap.get_many(&ids).await.into_iter().zip(records.values()) {
        match found {
            Ok(found) => assert!(found == *bytes, "{doing}: it is another record"),
            Err(error) => {
                assert!(matches!(error.kind, Kind::Damaged | Kind::Missing), "{doing}: {error}");
                lacking += 1;
            }
        }
    }
    let id = heap.put(b"on").await.unwrap_or_else(|e| panic!("{doing}: going on: {e}"));
    heap.commit(Some(id)).await.unwrap_or_else(|e| panic!("{doing}: going on: {e}"));
    lacking
}

#[test]
fn whichever_write_is_acknowledged_and_lost_the_last_commit_is_there_but_for_the_records_in_that_write() {
    let (mut written_again, mut lacking) = (0, 0);
    for settings in settings() {
        let (scene, book) = scene(settings);
        let (stage, _) = lose(&scene, &book, u64::MAX);
        let writes = stage.disk.counters().writes;
        assert!(writes > 20, "only {writes} writes");
        for nth in 0..writes {
            let doing = format!("write {nth} of {writes} was lost, {settings:?}");
            let (stage, told) = lose(&scene, &book, nth);
            let lacks = stage.world.run(async { lacks(stage.env(), &told, &doing).await });
            let is_described = told.complaints.iter().any(|what| what.contains("read back"));
            assert!(lacks == 0 || !is_described, "{doing}: {lacks} records are gone: {:?}", told.complaints);
            // A write has 1 MiB at most, and a little.
            assert!(lacks < 150, "{doing}: {lacks} records are gone");
            written_again += usize::from(is_described);
            lacking += usize::from(lacks > 0);
        }
    }
    assert!(written_again > 20 && lacking > 0, "{written_again} pages or roots, and {lacking} writes of records");
}

#[test]
fn a_root_that_is_acknowledged_and_lost_takes_back_no_commit_wherever_the_power_goes_up_to_the_next_one() {
    let mut states = 0;
    for settings in settings() {
        let (scene, book) = scene(settings);
        for seed in [3, 4] {
            let stage = scene.begin(seed);
            let whole = Rc::new(RefCell::new(book.clone()));
            stage.world.run(workload(stage.env(), stage.disk.clone(), whole.clone()));
            let acknowledged = whole.borrow().acknowledged.clone();
            assert_eq!(acknowledged.len(), 7);
            for commits in acknowledged.windows(2) {
                // The root is what a commit writes last. It is written once more, flushed and read when it was not there.
                let ((writes, from), (_, to)) = (commits[0], commits[1]);
                let lost = Fault::LoseWrite { nth: writes - 1 };
                // Of a long way to the next one not everything.
                let step = ((to - from) / 40 + 1) as usize;
                for at in (from - 2..to + 4).step_by(step) {
                    for survival in [Survival::Nothing, Survival::Everything, Survival::Random] {
                        let beside = (seed, Some(lost.clone()));
                        states += usize::from(cut_beside(&scene, &book, beside, at, survival, at % 2 == 0).is_some());
                    }
                }
            }
        }
    }
    assert!(states > 300, "only {states} states");
}

#[test]
fn a_device_that_keeps_a_root_neither_time_is_given_up_and_the_commit_before_is_there() {
    let [eager, _, worm] = settings();
    for settings in [eager, worm] {
        let (scene, book) = scene(settings);
        let acknowledged = lose(&scene, &book, u64::MAX).1.acknowledged;
        assert_eq!(acknowledged.len(), 7);
        for (writes, _) in acknowledged {
            let doing = format!("writes {} and {writes} were lost, {settings:?}", writes - 1);
            let stage = scene.begin(3);
            let told = Rc::new(RefCell::new(book.clone()));
            // The root, which a commit writes last, and the root once more.
            [writes - 1, writes].into_iter().for_each(|nth| stage.disk.inject(Fault::LoseWrite { nth }));
            stage.world.run(workload(stage.env(), stage.disk.clone(), told.clone()));
            stage.disk.heal();
            stage.world.kill();
            let told = told.borrow().clone();
            let is_told = told.errors.iter().any(|error| error.contains("after it was written twice"));
            assert!(is_told && told.after == 0, "{doing}: {:?}", told.errors);
            stage.world.run(async { check(stage.env(), told, &doing).await });
        }
    }
}
