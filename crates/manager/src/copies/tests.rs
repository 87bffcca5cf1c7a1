use super::age::is_ahead;
use super::{Beside, Chain, Copies, Doing, Known, Site, Sizes, VOLUME, is_copied, number};
use crate::engine::{Engine, Pair, Transaction, Write};
use crate::keys;
use crate::manager::{Manager, Now, Settings};
use crate::seeds;
use crate::testing::{Stage, Still, create, root, unchanged};
use forebay_env::Clock;
use forebay_model::object::ObjectHead;
use forebay_model::{Bytes, Error, Kind, Moment, ObjectId, Result, TargetId, Timestamp};
use forebay_wire::control::Change;
use forebay_wire::control::names::{FileId, Place, RemoveFile, Rename, SetAttributes};
use forebay_wire::object::{Ask, COMPANION, ObjectAnswer, ObjectInfo, ObjectReply};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// Objects of copies in memory.
#[derive(Default)]
pub(crate) struct Shelf {
    objects: RefCell<BTreeMap<(TargetId, u64), Vec<u8>>>,
    targets: RefCell<Vec<TargetId>>,
    /// Whether targets of other processes are reached as well.
    pub(crate) reaches_others: Cell<bool>,
    /// Those that write nothing.
    pub(crate) broken: RefCell<BTreeSet<TargetId>>,
    /// Those that never answer.
    pub(crate) silent: RefCell<BTreeSet<TargetId>>,
    /// What is written is there twice.
    twice: Cell<bool>,
    /// Of what is written next, so many bytes are, and nothing behind them.
    pub(crate) left: RefCell<Option<usize>>,
    /// What happens meanwhile when something is written.
    meanwhile: RefCell<Option<Rc<dyn Fn()>>>,
    /// One on which nothing was removed, since something there is newer than the engine.
    ahead: Cell<Option<TargetId>>,
}

impl Shelf {
    pub(crate) fn with(targets: u128) -> Rc<Shelf> {
        let shelf = Shelf::default();
        *shelf.targets.borrow_mut() = (1..=targets).map(TargetId).collect();
        Rc::new(shelf)
    }

    /// The same once more.
    pub(crate) fn again(&self) -> Rc<Shelf> {
        let (objects, targets) = (self.objects.clone(), self.targets.clone());
        Rc::new(Shelf { objects, targets, ..Shelf::default() })
    }

    /// What one target says alone.
    pub(crate) fn chain(&self, target: TargetId) -> Chain {
        self.said_by(|of| of == target)
    }

    /// What counts of all that targets say.
    pub(crate) fn best(&self) -> Option<Chain> {
        Some(self.together()).filter(Chain::counts)
    }

    /// What targets say together.
    pub(crate) fn together(&self) -> Chain {
        self.said_by(|_| true)
    }

    fn said_by(&self, is_asked: impl Fn(TargetId) -> bool) -> Chain {
        let mut chain = Chain::default();
        let objects = self.objects.borrow();
        let all: BTreeSet<(u64, TargetId)> = objects.keys().map(|(target, object)| (*object, *target)).collect();
        for (object, target) in all.into_iter().filter(|(_, target)| is_asked(*target)) {
            chain.begin(target, object);
            // Bytes come in any parts.
            objects[&(target, object)].chunks(97).for_each(|some| chain.take(some).unwrap());
        }
        chain
    }

    /// One more target is there.
    pub(crate) fn put(&self, target: TargetId) {
        self.targets.borrow_mut().push(target);
    }

    /// All that these had is gone.
    pub(crate) fn lose(&self, lost: &[TargetId]) {
        self.objects.borrow_mut().retain(|(target, _), _| !lost.contains(target));
    }

    /// What a target has there.
    pub(crate) fn written(&self, target: TargetId) -> BTreeMap<u64, Vec<u8>> {
        let objects = self.objects.borrow();
        objects
            .iter()
            .filter(|((of, _), _)| *of == target)
            .map(|((_, object), bytes)| (*object, bytes.clone()))
            .collect()
    }

    /// A target is back, with what it had on another shelf.
    pub(crate) fn bring_back(&self, target: TargetId, other: &Shelf) {
        let back = other.written(target).into_iter().map(|(object, bytes)| ((target, object), bytes));
        self.objects.borrow_mut().extend(back);
    }

    /// What a target answers that is asked about objects of copies.
    fn ask(&self, target: TargetId, ask: Ask) -> Result<ObjectAnswer> {
        if self.broken.borrow().contains(&target) {
            return Err(Error::device("the device is gone"));
        }
        match ask {
            Ask::List { volume: VOLUME, .. } => {
                let info = |(object, bytes): (u64, Vec<u8>)| {
                    let (at, size) = (Timestamp(0), bytes.len() as u64);
                    let (created, modified, changed) = (at, at, at);
                    let head =
                        ObjectHead { size, created, modified, changed, version: 1, used: Bytes(size), volume: None };
                    ObjectInfo { id: ObjectId { volume: VOLUME, object }, head, attributes: Vec::new() }
                };
                let objects = self.written(target).into_iter().map(info).collect();
                Ok(ObjectReply::List { objects, next: None }.into())
            }
            Ask::Read { id, offset, length } => {
                let bytes = self.written(target).remove(&id.object).unwrap();
                let payload = bytes[offset as usize..][..length as usize].to_vec().into();
                Ok(ObjectAnswer { payload, ..ObjectReply::Bytes.into() })
            }
            other => panic!("{other:?}"),
        }
    }

    fn objects_of(&self, target: TargetId) -> usize {
        self.objects.borrow().range((target, 0)..=(target, u64::MAX)).count()
    }
}

/// The shelf, as a manager writes on it.
pub(crate) struct OnShelf(pub(crate) Rc<Shelf>);

impl Beside for OnShelf {
    fn here(&self) -> Vec<TargetId> {
        self.0.targets.borrow().clone()
    }

    fn reaches_others(&self) -> bool {
        self.0.reaches_others.get()
    }

    fn append(&self, Site { target, way }: Site, object: u64, bytes: Arc<Vec<u8>>) -> Doing {
        let shelf = self.0.clone();
        Box::pin(async move {
            assert_eq!(way.is_none(), shelf.targets.borrow().contains(&target), "those of others have a way");
            if shelf.silent.borrow().contains(&target) {
                return std::future::pending().await;
            }
            if shelf.broken.borrow().contains(&target) {
                return Err(Error::device("the device is gone"));
            }
            let meanwhile = shelf.meanwhile.borrow().clone();
            meanwhile.iter().for_each(|happens| happens());
            let mut left = shelf.left.borrow_mut();
            let some = left.map_or(bytes.len(), |left| left.min(bytes.len()));
            if shelf.twice.get() && some == bytes.len() {
                shelf.objects.borrow_mut().entry((target, object)).or_default().extend(&bytes[..]);
            }
            shelf.objects.borrow_mut().entry((target, object)).or_default().extend(&bytes[..some]);
            if let Some(left) = left.as_mut() {
                *left -= some;
            }
            if some < bytes.len() { Err(Error::device("the power is gone")) } else { Ok(()) }
        })
    }

    fn look(&self, Site { target, .. }: Site, known: Known) {
        if done(is_ahead(async |ask| self.0.ask(target, ask), target, known)) == Ok(true) {
            self.0.ahead.set(Some(target));
        }
    }

    fn remove_before(&self, Site { target, .. }: Site, object: u64, known: Known) {
        let is_off = self.0.left.borrow().is_some_and(|left| left == 0);
        if is_off || self.0.broken.borrow().contains(&target) {
            return;
        }
        if done(is_ahead(async |ask| self.0.ask(target, ask), target, known)).unwrap() {
            self.0.ahead.set(Some(target));
            return;
        }
        self.0.objects.borrow_mut().retain(|(of, number), _| *of != target || *number >= object);
    }

    fn ahead(&self) -> Option<TargetId> {
        self.0.ahead.get()
    }
}

/// Small ones, so that little is enough for all cases.
const SMALL: Sizes = Sizes { part: 300, keys: 5, longer: 3000 };

pub(crate) fn copies(shelf: &Rc<Shelf>, now: Now) -> Copies {
    Copies { sizes: SMALL, ..Copies::new(Rc::new(OnShelf(shelf.clone())), Rc::new(Still(now))) }
}

/// Has a future done that waits for nobody.
pub(crate) fn done<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    match std::pin::pin!(future).poll(&mut context) {
        std::task::Poll::Ready(value) => value,
        std::task::Poll::Pending => panic!("it waits for somebody"),
    }
}

/// What the engine has that is copied.
pub(crate) fn there(stage: &Stage) -> Vec<Pair> {
    let all = stage.engine.snapshot().unwrap().scan(&[], &[u8::MAX], usize::MAX).unwrap();
    all.into_iter().filter(|(key, _)| is_copied(key)).collect()
}

/// How far a copy goes, behind whether it is whole.
pub(crate) fn rank(chain: &Chain) -> (bool, u64, u64) {
    (chain.is_whole(), chain.object, chain.batch)
}

pub(crate) fn said(chain: &Chain) -> Vec<Pair> {
    chain.state.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
}

/// Some change, which may be refused.
fn change(chance: &seeds::Chance, stage: &mut Stage) {
    let place = || Place::path(format!("f{}", chance.below(40)));
    let change = match chance.below(6) {
        0..=2 => create(&format!("f{}", chance.below(40)), 0o644),
        3 => Change::Rename(Rename { from: place(), to: place(), exclusive: false }),
        4 => Change::RemoveFile(RemoveFile::at(place())),
        _ => Change::SetAttributes(SetAttributes { size: Some(Bytes(chance.below(9000))), ..unchanged(place()) }),
    };
    drop(stage.change(&root(), change));
}

/// The targets of which whoever asks is told that they have everything.
fn told_to_be_whole(stage: &Stage) -> Vec<TargetId> {
    let told = stage.manager.told_map();
    if told.copied_wholly { told.copied_on } else { Vec::new() }
}

#[test]
fn what_was_kept_is_what_copies_say_whatever_failed_and_whenever_a_manager_ended() {
    seeds::each(100, |chance| {
        let shelf = Shelf::with(1 + u128::from(chance.below(4)));
        // As where a connection ended before the answer came.
        shelf.twice.set(chance.once_in(4));
        let mut stage = Stage::new();
        let mut writing = copies(&shelf, stage.now);
        done(writing.tick(&mut stage.manager)).unwrap();
        let mut was_whole = false;
        for _ in 0..120 {
            (0..chance.below(4)).for_each(|_| change(chance, &mut stage));
            if chance.once_in(12) {
                // Whatever it came to, the next one goes on with that.
                if chance.once_in(2) {
                    *shelf.left.borrow_mut() = Some(chance.below(900) as usize);
                    drop(done(writing.keep(&mut stage.manager)));
                }
                stage.restart();
                *shelf.left.borrow_mut() = None;
                writing = copies(&shelf, stage.now);
                done(writing.keep(&mut stage.manager)).unwrap();
            }
            if chance.once_in(15) {
                let targets = shelf.targets.borrow().clone();
                let broken = targets.iter().filter(|_| chance.once_in(3)).copied();
                *shelf.broken.borrow_mut() = broken.collect();
            }
            let keeping = if chance.once_in(5) {
                done(writing.tick(&mut stage.manager))
            } else {
                done(writing.keep(&mut stage.manager))
            };
            keeping.unwrap();
            for target in told_to_be_whole(&stage) {
                let chain = shelf.chain(target);
                assert!(chain.is_whole() && said(&chain) == there(&stage), "it is told that {target} has everything");
            }
            was_whole |= shelf.best().is_some();
            assert!(!was_whole || shelf.best().is_some(), "what was whole is there until something else is");
            let Some(best) = shelf.best().filter(|_| stage.manager.copying.is_on()) else { continue };
            let Some(first) = writing.on.first() else { continue };
            if best.is_whole() || shelf.chain(first.target).is_whole() {
                assert!(said(&best) == there(&stage), "a whole copy says something else");
            }
        }
        // When all is well again there is a whole one soon, on as many targets as there are to be.
        shelf.broken.borrow_mut().clear();
        stage.restart();
        writing = copies(&shelf, stage.now);
        for _ in 0..40 {
            done(writing.tick(&mut stage.manager)).unwrap();
        }
        assert_eq!(writing.on.len(), shelf.targets.borrow().len().min(3));
        assert_eq!(told_to_be_whole(&stage), writing.targets());
        for target in shelf.targets.borrow().iter().copied() {
            let (chain, is_on) = (shelf.chain(target), writing.targets().contains(&target));
            assert!(!is_on || chain.is_whole() && said(&chain) == there(&stage));
            assert_eq!(shelf.objects_of(target), usize::from(is_on), "what is not needed any more is removed");
        }
    });
}

#[test]
fn a_target_that_missed_something_is_never_taken_for_one_that_has_all() {
    let shelf = Shelf::with(2);
    let mut stage = Stage::new();
    let mut writing = copies(&shelf, stage.now);
    for _ in 0..20 {
        done(writing.tick(&mut stage.manager)).unwrap();
    }
    shelf.broken.borrow_mut().insert(TargetId(1));
    // What is missed last is named in the engine; what was missed before that is not any more.
    for name in ["missed", "named"] {
        stage.file(&root(), name, 0o644).unwrap();
        done(writing.keep(&mut stage.manager)).unwrap();
    }
    shelf.broken.borrow_mut().clear();
    // The next manager writes on both again, and nothing of all there is comes to be written before it ends.
    stage.restart();
    writing = Copies { sizes: Sizes { part: 1, keys: 1, longer: 1 << 30 }, ..copies(&shelf, stage.now) };
    stage.file(&root(), "seen", 0o644).unwrap();
    done(writing.keep(&mut stage.manager)).unwrap();
    assert!(!shelf.chain(TargetId(1)).is_whole(), "it lacks what it missed");
    let other = shelf.chain(TargetId(2));
    assert!(other.is_whole() && said(&other) == there(&stage));
}

#[test]
fn an_object_that_grew_too_long_is_followed_by_another_one() {
    let shelf = Shelf::with(1);
    let mut stage = Stage::new();
    let mut writing = copies(&shelf, stage.now);
    let mut objects = BTreeSet::new();
    for number in 0..400 {
        let size = Some(Bytes(number));
        let place = Place::path("f");
        drop(stage.root(create("f", 0o644)));
        stage.root(Change::SetAttributes(SetAttributes { size, ..unchanged(place) })).unwrap();
        done(writing.keep(&mut stage.manager)).unwrap();
        objects.insert(writing.object);
        let longest = shelf.objects.borrow().values().map(Vec::len).sum::<usize>();
        assert!(longest < 60_000, "{longest} bytes");
    }
    assert!(objects.len() > 3, "{objects:?}");
    assert!(said(&shelf.best().unwrap()) == there(&stage));
}

#[test]
fn numbers_of_objects_rise_with_openings_with_time_and_with_each_one() {
    let at = |seconds: i64| Timestamp(seconds * 1_000_000_000 + 7);
    assert_eq!(number(5, at(9), 3), 5 << 38 | 9 << 20 | 3);
    let rising = [
        number(5, at(-1), 1),
        number(5, at(9), 1),
        number(5, at(9), 2),
        number(5, at(10), 1),
        number(5, at((1 << 18) - 1), 1),
        number(6, at(0), 1),
        number((1 << 24) - 1, at(0), 1),
    ];
    assert!(rising.is_sorted() && rising[6] < COMPANION, "{rising:?}");
}

#[test]
fn nothing_secret_and_nothing_that_clients_were_answered_is_copied() {
    let shelf = Shelf::with(1);
    let mut stage = Stage::new();
    let mut writing = copies(&shelf, stage.now);
    stage.file(&root(), "f", 0o644).unwrap();
    for _ in 0..20 {
        done(writing.tick(&mut stage.manager)).unwrap();
    }
    let kinds: BTreeSet<u8> = shelf.best().unwrap().state.keys().map(|key| key[0]).collect();
    assert!(kinds.contains(&b'I') && !kinds.iter().any(|kind| b"CHKMQRTZ".contains(kind)), "{kinds:?}");
    let all = stage.engine.snapshot().unwrap().scan(&[], &[u8::MAX], usize::MAX).unwrap();
    let secrets = all.iter().filter(|(key, _)| matches!(key[0], b'K' | b'M')).map(|(_, value)| value[3..34].to_vec());
    let written = shelf.objects.borrow().values().flatten().copied().collect::<Vec<u8>>();
    for secret in secrets {
        assert!(
            !written.windows(16).any(|some| secret.windows(16).any(|part| part == some)),
            "a secret is on a target"
        );
    }
}

/// A manager that has copied all that there is, and then lost all targets.
fn without_targets() -> (Rc<Shelf>, Stage, Copies) {
    let shelf = Shelf::with(1);
    let mut stage = Stage::new();
    let mut writing = copies(&shelf, stage.now);
    (0..20).for_each(|_| done(writing.tick(&mut stage.manager)).unwrap());
    stage.file(&root(), "known to copies", 0o644).unwrap();
    done(writing.keep(&mut stage.manager)).unwrap();
    assert!(said(&shelf.best().unwrap()) == there(&stage));
    shelf.targets.borrow_mut().clear();
    stage.restart();
    writing = copies(&shelf, stage.now);
    done(writing.tick(&mut stage.manager)).unwrap();
    (shelf, stage, writing)
}

#[test]
fn what_was_changed_while_no_target_was_there_comes_to_the_copies_that_are_back() {
    let (shelf, mut stage, mut writing) = without_targets();
    stage.file(&root(), "unknown to copies", 0o644).unwrap();
    done(writing.keep(&mut stage.manager)).unwrap();
    assert_eq!(stage.manager.told_map().copied_on, [], "what was answered is in none");
    shelf.targets.borrow_mut().push(TargetId(1));
    assert!(said(&shelf.best().unwrap()) != there(&stage));
    // Nothing of what there is is written before the end, only what was changed.
    stage.restart();
    writing = Copies { sizes: Sizes { part: 1, keys: 1, longer: 1 << 30 }, ..copies(&shelf, stage.now) };
    done(writing.keep(&mut stage.manager)).unwrap();
    assert!(writing.from.is_some() && said(&shelf.best().unwrap()) == there(&stage));
    assert_eq!(stage.manager.told_map().copied_on, [TargetId(1)]);
}

#[test]
fn what_lacks_much_when_its_target_is_back_is_not_gone_on_with_and_counts_until_all_was_written_again() {
    let (shelf, mut stage, mut writing) = without_targets();
    for number in 0.. {
        stage.file(&root(), &format!("unknown to copies {number}"), 0o644).unwrap();
        done(writing.keep(&mut stage.manager)).unwrap();
        if !stage.manager.copying.is_on() {
            break;
        }
        assert!(number < 10_000);
    }
    shelf.targets.borrow_mut().push(TargetId(1));
    stage.file(&root(), "last", 0o644).unwrap();
    stage.restart();
    writing = Copies { sizes: Sizes { part: 1 << 20, keys: 100, longer: 1 << 30 }, ..copies(&shelf, stage.now) };
    done(writing.keep(&mut stage.manager)).unwrap();
    assert!(stage.root(Change::RemoveFile(RemoveFile::at(Place::path("known to copies")))).is_ok());
    loop {
        let name = format!("since {}", writing.length);
        stage.file(&root(), &name, 0o644).unwrap();
        done(writing.keep(&mut stage.manager)).unwrap();
        let best = shelf.best().unwrap();
        let has = |name: &str| best.state.contains_key(&keys::name(FileId::ROOT, name));
        assert!(has(&name) && !has("known to copies"));
        if writing.from.is_none() {
            assert!(best.is_whole() && said(&best) == there(&stage));
            break;
        }
        assert!(!best.is_whole(), "what was changed meanwhile is in none");
        // Pieces say what there is up to them, also of what is not there any more.
        let is_before = |(key, _): &Pair| Some(key) < writing.from.as_ref();
        let some = |all: Vec<Pair>| all.into_iter().filter(is_before).collect::<Vec<Pair>>();
        assert!(some(said(&best)) == some(there(&stage)));
    }
}

#[test]
fn what_is_damaged_is_not_copied_over_what_was_copied_whole() {
    let mut stage = Stage::new();
    let first = stage.file(&root(), "first", 0o644).unwrap();
    let shelf = Shelf::with(2);
    let mut writing = copies(&shelf, stage.now);
    (0..20).for_each(|_| done(writing.tick(&mut stage.manager)).unwrap());
    // Behind the commit of another change nothing names the first file any more.
    stage.file(&root(), "last", 0o644).unwrap();
    (0..20).for_each(|_| done(writing.tick(&mut stage.manager)).unwrap());
    let before = said(&shelf.best().unwrap());
    assert_eq!(before, there(&stage));
    let flip = |stage: &mut Stage, key: &[u8]| {
        let mut value = stage.engine.snapshot().unwrap().get(key).unwrap().unwrap();
        value[7] ^= 1;
        let write = Write { key: key.to_vec(), value: Some(value) };
        stage.engine.commit(&[Transaction { conditions: vec![], writes: vec![write] }]).unwrap();
    };
    flip(&mut stage, &keys::inode(first));
    stage.restart();
    let mut writing = copies(&shelf, stage.now);
    (0..20).for_each(|_| done(writing.tick(&mut stage.manager)).unwrap());
    assert_eq!(said(&shelf.best().unwrap()), before);
    // What changes goes on being copied.
    let last = stage.file(&root(), "more", 0o644).unwrap();
    done(writing.keep(&mut stage.manager)).unwrap();
    assert!(shelf.best().unwrap().state.contains_key(&keys::inode(last)));
    // What may not be in the copies and is damaged is not copied, either: that manager is not opened.
    flip(&mut stage, &keys::inode(last));
    let engine = Box::new(stage.engine.reopened());
    let error = Manager::open(engine, Rc::new(seeds::Chance::of(1)), Settings::default()).err().unwrap();
    assert!(error.kind == Kind::Damaged && error.message.contains(&format!("file or directory {}", last.0)), "{error}");
}

/// A clock that others move.
struct Passing(Rc<Cell<Now>>);

impl Clock for Passing {
    fn now(&self) -> Moment {
        self.0.get().moment
    }

    fn wall(&self) -> Timestamp {
        self.0.get().wall
    }

    fn sleep_until(&self, _: Moment) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(std::future::pending())
    }
}

#[test]
fn beside_a_slow_target_nobody_waits_for_more_than_a_piece_at_a_time_and_all_of_them_are_written() {
    let mut stage = Stage::new();
    for number in 0..30 {
        stage.file(&root(), &format!("f{number}"), 0o644).unwrap();
    }
    let shelf = Shelf::with(1);
    let clock = Rc::new(Cell::new(stage.now));
    let moved = clock.clone();
    let passes: Rc<dyn Fn()> = Rc::new(move || {
        let (now, span) = (moved.get(), Duration::from_secs(2));
        moved.set(Now { wall: now.wall.after(span), moment: now.moment + span });
    });
    *shelf.meanwhile.borrow_mut() = Some(passes);
    let mut writing = Copies { clock: Rc::new(Passing(clock.clone())), ..copies(&shelf, stage.now) };
    for ticks in 1.. {
        let before = clock.get().moment;
        done(writing.tick(&mut stage.manager)).unwrap();
        // The beginning, a piece, and the end.
        let took = clock.get().moment.since(before);
        assert!(took <= Duration::from_secs(6), "{took:?}");
        if writing.from.is_none() {
            assert!(ticks > 5, "all of it was written in {ticks} ticks");
            break;
        }
    }
    assert!(said(&shelf.best().unwrap()) == there(&stage));
}
