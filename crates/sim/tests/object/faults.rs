//! The Nth write or flush fails while commands change objects, for every N, once and from then on: the target stops and
//! says so, and what was acknowledged is there after opening again. And reads that fail are read again, or said.

#![allow(clippy::unwrap_used)]

use forebay_env::Env;
use forebay_model::object::Durability;
use forebay_model::{Kind, ObjectId, Result};
use forebay_sim::disk::{Fault, Op, presets};
use forebay_sim::stage::{Scene, Stage};
use forebay_target::Target;
use forebay_target::object::Placement::{self, Home, Log};
use forebay_target::object::rows::Quota;
use forebay_target::object::{How, Scope};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const OBJECTS: u64 = 4;

fn id(object: u64) -> ObjectId {
    ObjectId { volume: 1, object }
}

/// What each object may be: one thing, or two while a command to it has not been acknowledged.
type Book = Rc<RefCell<BTreeMap<u64, Vec<Option<Vec<u8>>>>>>;

#[derive(Debug, Default, Clone)]
struct Told {
    errors: Vec<String>,
    /// Commands that succeeded after one had failed.
    after: usize,
}

/// Commands to objects; each is tried, whatever became of those before it.
struct User {
    target: Rc<Target>,
    book: Book,
    told: Rc<RefCell<Told>>,
}

impl User {
    async fn try_to(&self, object: u64, next: Option<Vec<u8>>, command: impl Future<Output = Result<()>>) {
        self.book.borrow_mut().entry(object).or_insert_with(|| vec![None]).push(next.clone());
        match command.await {
            Ok(()) => {
                self.book.borrow_mut().insert(object, vec![next]);
                let mut told = self.told.borrow_mut();
                told.after += usize::from(!told.errors.is_empty());
            }
            Err(error) => self.told.borrow_mut().errors.push(error.to_string()),
        }
    }

    fn now(&self, object: u64) -> Vec<u8> {
        self.book.borrow().get(&object).and_then(|states| states[0].clone()).unwrap_or_default()
    }

    async fn write(&self, object: u64, offset: usize, length: usize, place: Placement) {
        let tag = (object * 40 + length as u64 % 31) as u8 | 1;
        let bytes: Vec<u8> = (0..length).map(|n| tag.wrapping_add((n / 4096) as u8)).collect();
        let mut next = self.now(object);
        next.resize(next.len().max(offset + length), 0);
        next[offset..offset + length].copy_from_slice(&bytes);
        let write = self.target.objects().write(self.target.stream(), id(object), offset as u64, &bytes, place);
        self.try_to(object, Some(next), write).await;
    }

    /// Buffers two writes, and flushes them: each may be there before, and the second never without the first.
    async fn buffer(&self, object: u64, offset: usize, length: usize) {
        let how = How { durability: Durability::Buffered, ..How::default() };
        let objects = self.target.objects();
        let mut next = self.now(object);
        for tag in [250, 251] {
            let (at, bytes) = (offset + usize::from(tag) * 100, vec![tag; length]);
            next.resize(next.len().max(at + length), 0);
            next[at..at + length].copy_from_slice(&bytes);
            let write = objects.write_as(self.target.stream(), id(object), Some(at as u64), &bytes, &how);
            let tried = write.await.map(drop);
            self.book.borrow_mut().entry(object).or_default().push(Some(next.clone()));
            self.told.borrow_mut().errors.extend(tried.err().map(|error| error.to_string()));
        }
        let flush = objects.flush_buffered(Scope::Object(id(object)), Some(objects.boot_epoch()));
        self.try_to(object, Some(next), async { flush.await.map(drop) }).await;
    }

    async fn truncate(&self, object: u64, size: usize) {
        let mut next = self.now(object);
        next.resize(size, 0);
        self.try_to(object, Some(next), self.target.objects().truncate(id(object), size as u64)).await;
    }
}

async fn workload(env: Env, book: Book, told: Rc<RefCell<Told>>) {
    let target = match Target::open(env).await {
        Ok(target) => target,
        Err(error) => return told.borrow_mut().errors.push(error.to_string()),
    };
    let user = User { target: target.clone(), book, told: told.clone() };
    let objects = target.objects();
    let note = |result: Result<()>| told.borrow_mut().errors.extend(result.err().map(|e| e.to_string()));
    user.write(1, 0, 5000, Log).await;
    user.write(1, 3000, 60_000, Home).await;
    user.write(2, 100, 9000, Log).await;
    user.write(2, 4096, 4096, Log).await;
    user.try_to(4, Some(Vec::new()), objects.create(id(4), Vec::new())).await;
    user.write(4, 40_000, 20_000, Log).await;
    user.truncate(1, 30_000).await;
    note(objects.take_home().await.map(|_| ()));
    user.write(2, 0, 3000, Log).await;
    user.write(3, 0, 300_000, Home).await;
    user.try_to(3, None, objects.remove(id(3))).await;
    user.write(4, 0, 50_000, Home).await;
    user.buffer(2, 3000, 7000).await;
    user.try_to(5, Some(user.now(2)), objects.snapshot(id(2), id(5), Vec::new())).await;
    user.write(2, 2000, 3000, Log).await;
    user.write(5, 9000, 9000, Home).await;
    note(objects.take_home().await.map(|_| ()));
    user.try_to(2, None, objects.remove(id(2))).await;
    note(objects.checkpoint().await);
    user.write(1, 0, 100, Log).await;
    note(target.close().await);
}

/// A volume with three objects on a target that was not closed.
fn scene() -> (Scene, Book) {
    let stage = Stage::new(3, presets::ssd().scaled(15_000), |_| ());
    let (env, book) = (stage.env(), Book::default());
    let kept = book.clone();
    stage.world.run(async move {
        let target = Target::open(env).await.unwrap();
        let told = Rc::default();
        let user = User { target: target.clone(), book: kept, told };
        target.objects().create_volume(1, Quota::default()).await.unwrap();
        for object in 1..OBJECTS {
            user.try_to(object, Some(Vec::new()), target.objects().create(id(object), Vec::new())).await;
        }
        user.write(1, 0, 100_000, Home).await;
        user.write(2, 0, 20_000, Log).await;
        user.write(3, 8192, 8192, Log).await;
        assert!(user.told.borrow().errors.is_empty());
    });
    stage.world.kill();
    (stage.scene(), book)
}

/// Opens the target and compares all objects with what they may be.
async fn verify(env: Env, book: Book, doing: String) {
    let target = Target::open(env).await.unwrap_or_else(|e| panic!("{doing}: the target does not open: {e}"));
    let objects = target.objects();
    objects.ready().await.unwrap_or_else(|e| panic!("{doing}: objects are not served: {e}"));
    let all = book.borrow().clone();
    for (object, states) in &all {
        let found = match objects.read(target.stream(), id(*object), 0, 1 << 20).await {
            Ok(bytes) => Some(bytes),
            Err(error) if error.kind == Kind::Missing => None,
            Err(error) => panic!("{doing}: {} cannot be read: {error}", id(*object)),
        };
        let lengths: Vec<_> = states.iter().map(|s| s.as_ref().map(Vec::len)).collect();
        let length = found.as_ref().map(Vec::len);
        assert!(states.contains(&found), "{doing}: object {object} has {length:?} bytes, and may have {lengths:?}");
    }
    // And it goes on.
    objects.write(target.stream(), id(1), 0, b"on", Log).await.unwrap_or_else(|e| panic!("{doing}: going on: {e}"));
    objects.take_home().await.unwrap_or_else(|e| panic!("{doing}: taking home: {e}"));
    target.close().await.unwrap_or_else(|e| panic!("{doing}: closing: {e}"));
}

fn with(scene: &Scene, before: &Book, fault: Option<Fault>, cut: bool) -> Told {
    let doing = format!("{fault:?}, then {}", if cut { "a power cut" } else { "a kill" });
    let stage = scene.begin(3);
    let book: Book = Rc::new(RefCell::new(before.borrow().clone()));
    let told: Rc<RefCell<Told>> = Rc::default();
    if let Some(fault) = fault {
        stage.disk.inject(fault);
    }
    stage.world.run(workload(stage.env(), book.clone(), told.clone()));
    stage.disk.heal();
    if cut {
        stage.world.crash(&[&stage.disk])
    } else {
        stage.world.kill()
    }
    stage.world.run(verify(stage.env(), book, doing));
    told.take()
}

/// How many I/Os of a kind the workload takes on a healthy disk.
fn reached(scene: &Scene, book: &Book, op: Op) -> u64 {
    let stage = scene.begin(3);
    let before = stage.disk.counters();
    let book: Book = Rc::new(RefCell::new(book.borrow().clone()));
    stage.world.run(workload(stage.env(), book, Rc::default()));
    let done = stage.disk.counters() - before;
    match op {
        Op::Read => done.reads,
        Op::Write => done.writes,
        Op::Flush => done.flushes,
    }
}

fn fail_each(op: Op, each: impl Fn(u64, bool, bool, &Told)) {
    let (scene, book) = scene();
    let count = reached(&scene, &book, op);
    assert!(count > 10, "only {count} I/Os");
    for sticky in [false, true] {
        // And one more than there are: then nothing fails.
        for nth in 0..=count {
            let told = with(&scene, &book, Some(Fault::Fail { op, nth, sticky }), nth % 2 == 0);
            each(nth, nth < count, sticky, &told);
        }
    }
}

#[test]
fn whichever_write_fails_no_more_commands_succeed_and_what_was_acknowledged_is_there() {
    fail_each(Op::Write, |nth, failed, sticky, told| {
        assert_eq!(!told.errors.is_empty(), failed, "write {nth} failed ({sticky}): {:?}", told.errors);
        assert_eq!(told.after, 0, "write {nth} failed ({sticky}), and commands succeeded: {:?}", told.errors);
    });
}

#[test]
fn whichever_flush_fails_no_more_commands_succeed_and_what_was_acknowledged_is_there() {
    fail_each(Op::Flush, |nth, failed, sticky, told| {
        assert_eq!(!told.errors.is_empty(), failed, "flush {nth} failed ({sticky}): {:?}", told.errors);
        assert_eq!(told.after, 0, "flush {nth} failed ({sticky}), and commands succeeded: {:?}", told.errors);
    });
}

#[test]
fn whichever_read_fails_nothing_is_lost_by_it() {
    fail_each(Op::Read, |nth, _, sticky, told| {
        // What fails once is read again.
        assert!(sticky || told.errors.is_empty(), "read {nth} failed once: {:?}", told.errors);
    });
}
