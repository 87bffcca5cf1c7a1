use super::{Component, Recovered, RingPart, Seen, What, recover};
use crate::copies::tests::{Shelf, copies, done, said, there};
use crate::copies::{Chain, Copying};
use crate::engine::{Engine, Memory};
use crate::history;
use crate::keys;
use crate::manager::{Manager, Settings};
use crate::principal::Principal;
use crate::records::{
    Absence, Absent, Copied, Inode, Layout, Move, Moves, Orders, RingMove, RingMoves, component_of, decode, encode,
    object,
};
use crate::seeds::{self, Chance};
use crate::testing::{NODES, Stage, close, create, entry, report, root, unchanged, user};
use forebay_model::layout::{LARGEST, Raid, Striping, UNIT};
use forebay_model::ring::{RingSpec, Spread};
use forebay_model::{Bytes, Kind, ObjectId, TargetId, Timestamp};
use forebay_wire::control::access::User;
use forebay_wire::control::files::{Close, CreateHeap, CreateRing, OpenToWrite};
use forebay_wire::control::names::{
    Entry, FileId, FileKind, MakeDirectory, Place, RemoveFile, Rename, SetAttributes, Stat,
};
use forebay_wire::control::volumes::{CreateVolume, Policy, Quota};
use forebay_wire::control::{Change, Question, Reply};
use forebay_wire::object::Described;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

/// What is done to a copy.
type Harm = Box<dyn Fn(&mut BTreeMap<Vec<u8>, Vec<u8>>)>;

/// A cluster with something of everything in it.
pub(super) fn full() -> Stage {
    let mut stage = Stage::new();
    stage.root(Change::SetUser(User { user: 5, name: "ada".to_string(), groups: vec![5] })).unwrap();
    stage.directory(&root(), "d", 0o777).unwrap();
    stage.directory(&root(), "d/e", 0o777).unwrap();
    let quota = Quota { hard_bytes: Some(Bytes::gib(1)), soft_files: Some(9), ..Quota::default() };
    let policy = Policy { raid: Raid::One(2), unit: UNIT, targets: 4 };
    let (place, mode, owner, group) = (Place::path("v"), 0o777, 0, 0);
    stage.root(Change::CreateVolume(CreateVolume { place, mode, owner, group, quota, policy })).unwrap();
    for (path, size) in [("a", 0), ("d/b", 1_000_000), ("d/e/c", 77), ("v/x", 3_000_000), ("v/y", 5)] {
        let file =
            entry(stage.change(&user(5), create(path, 0o640)).or_else(|_| stage.root(create(path, 0o640))).unwrap());
        written(&mut stage, file.file, size);
    }
    let (from, to) = (Place::path("d/b"), Place::path("v-b"));
    stage.root(Change::Rename(Rename { from, to, exclusive: true })).unwrap();
    stage.root(Change::SetAttributes(SetAttributes { mode: Some(0o600), ..unchanged(Place::path("d/e/c")) })).unwrap();
    let ring = CreateRing {
        place: Place::path("d/r"),
        mode: 0o600,
        capacity: Bytes::gib(1),
        refused_by: Vec::new(),
        targets: 2,
        parity: true,
        again: false,
        leaving: None,
    };
    stage.root(Change::CreateRing(ring)).unwrap();
    let heap = CreateHeap { place: Place::path("d/h"), mode: 0o600, refused_by: Vec::new() };
    stage.root(Change::CreateHeap(heap)).unwrap();
    stage
}

fn written(stage: &mut Stage, file: FileId, size: u64) {
    let place = Place::of(file);
    stage
        .root(Change::OpenToWrite(OpenToWrite { place, alone: true, upkeep: false, yields: false, cached: false }))
        .unwrap();
    stage.root(Change::Close(Close { size: Some(Bytes(size)), ..close(file) })).unwrap();
}

/// The layouts of all that an engine has.
pub(super) fn layouts(engine: &Memory) -> BTreeMap<FileId, Layout> {
    let (from, to) = keys::all(keys::LAYOUTS);
    let found = engine.snapshot().unwrap().scan(&from, &to, usize::MAX).unwrap();
    found.into_iter().map(|(key, value)| (FileId(keys::number(&key)), decode(&key, &value).unwrap())).collect()
}

/// What targets have of a cluster: each component as long as it should be, the rings and the heaps.
pub(super) fn seen(stage: &mut Stage, shelf: Option<&Rc<Shelf>>) -> Seen {
    let chain = shelf.map(|shelf| shelf.together()).unwrap_or_default();
    let mut seen = Seen { chain, ..Seen::default() };
    for (file, layout) in layouts(&stage.engine) {
        let Entry { attributes, .. } = stage.stat(&root(), Place::of(file)).unwrap();
        for (number, target) in layout.components() {
            let of = object(attributes.volume, file, number);
            match attributes.kind {
                FileKind::Ring => {
                    let parity = layout.striping.raid() == Raid::Five;
                    let targets = layout.targets.len() as u32 - u32::from(parity);
                    let spec = RingSpec { block: Bytes::kib(64), ..RingSpec::new("/ring", attributes.size) };
                    let spec = Spread { targets, parity }.part(&spec, number);
                    let times = [Timestamp(1), Timestamp(2)].map(Some);
                    let part =
                        RingPart { spec, elements: 0..9, begins: 0, oldest: times[0], newest: times[1], last_pin: 0 };
                    seen.rings.insert((target, of), part);
                }
                FileKind::Heap => drop(seen.heaps.insert((target, of), 0)),
                FileKind::File | FileKind::Directory => {}
            }
            if attributes.kind != FileKind::File {
                continue;
            }
            let size = layout.striping.length_of(number, attributes.size);
            if size > Bytes::ZERO {
                let described = Described::of(&attributes, layout.striping, layout.targets.iter().copied());
                seen.components.push(Component {
                    target,
                    object: of,
                    size,
                    modified: attributes.modified,
                    fence: attributes.version,
                    said: Some((0, attributes.size)),
                    described: Some(described),
                });
            }
        }
    }
    seen
}

/// Copies of all that there is.
pub(super) fn copied(stage: &mut Stage) -> Rc<Shelf> {
    let shelf = Shelf::with(3);
    let mut writing = copies(&shelf, stage.now);
    (0..40).for_each(|_| done(writing.tick(&mut stage.manager)).unwrap());
    shelf
}

/// What copies say of which the newest was not written to its end.
pub(super) fn not_whole(stage: &mut Stage, shelf: &Shelf) -> Chain {
    let next = Shelf::with(1);
    next.bring_back(TargetId(1), shelf);
    stage.restart();
    stage.manager.copying = Copying::Off { is_named: false };
    let mut writing = copies(&next, stage.now);
    done(writing.keep(&mut stage.manager)).unwrap();
    next.together()
}

/// The cluster that comes of it.
pub(super) fn recovered(stage: &Stage, seen: Seen) -> (Recovered, Stage) {
    let mut engine = Memory::new();
    let found = recover(&mut engine, seen, Policy::default(), stage.now.wall, &Chance::of(11)).unwrap();
    let mut next = Stage::empty();
    next.now = stage.now;
    next.engine = engine.reopened();
    next.manager = Manager::open(Box::new(next.engine.clone()), Rc::new(Chance::of(12)), Settings::default()).unwrap();
    assert!(next.manager.told_map().nodes.iter().all(|node| !node.up), "nobody has reported yet");
    // Without a copy no node is known.
    (1..=NODES).for_each(|node| drop(next.report(&report(node))));
    (found, next)
}

/// All that there is by its path, as people are told.
fn tree(stage: &mut Stage) -> BTreeMap<String, Entry> {
    let paths = ["a", "d", "d/e", "d/b", "d/r", "d/h", "d/e/c", "v", "v/x", "v/y", "v-b"];
    let stat = |path: &&str| Some((path.to_string(), stage.stat(&root(), Place::path(*path)).ok()?));
    paths.iter().filter_map(stat).collect()
}

fn volumes(stage: &mut Stage) -> Reply {
    stage.ask(&root(), &Question::Volumes).unwrap()
}

#[test]
fn of_a_copy_and_whole_targets_everything_is_as_it_was() {
    let mut stage = full();
    let shelf = copied(&mut stage);
    let seen = seen(&mut stage, Some(&shelf));
    let (found, mut next) = recovered(&stage, seen);
    assert_eq!(found.findings, []);
    assert_eq!((found.files, found.directories, found.rings, found.heaps, found.volumes), (5, 3, 1, 1, 2));
    assert_eq!(found.cluster, stage.manager.cluster());
    let before = tree(&mut stage);
    assert_eq!(before.len(), 10);
    assert_eq!(tree(&mut next), before);
    assert_eq!(layouts(&next.engine), layouts(&stage.engine));
    assert_eq!(volumes(&mut next), volumes(&mut stage));
    assert_eq!(next.ask(&root(), &Question::Users).unwrap(), stage.ask(&root(), &Question::Users).unwrap());
    // What is made from now on is nothing that was.
    let made = next.file(&root(), "new", 0o644).unwrap();
    assert!(!before.values().any(|entry| entry.file == made));
}

#[test]
fn what_was_allowed_before_is_not_any_more() {
    let mut stage = full();
    let grant = |stage: &mut Stage| {
        let open = OpenToWrite { place: Place::path("a"), alone: false, upkeep: false, yields: false, cached: false };
        match stage.root(Change::OpenToWrite(open)).unwrap() {
            Reply::Grant(grant) => grant,
            other => panic!("{other:?}"),
        }
    };
    let before = grant(&mut stage);
    let map = stage.manager.told_map();
    let shelf = copied(&mut stage);
    let seen = seen(&mut stage, Some(&shelf));
    let (found, mut next) = recovered(&stage, seen);
    let after = next.manager.told_map();
    assert!(after.least_epoch > map.epoch, "capabilities of an older epoch are refused");
    for (old, new) in map.targets.iter().zip(&after.targets) {
        assert!(new.key >= old.key + 2, "targets keep the last two keys");
    }
    let key = |stage: &Stage, target| stage.manager.cluster.root_key.of_target(target, 1).to_bytes();
    assert_ne!(key(&stage, TargetId(2)), key(&next, TargetId(2)));
    // Who had it open is gone: what may be half written is looked through.
    assert!(next.engine.snapshot().unwrap().get(&keys::to_scrub(before.entry.file)).unwrap().is_some());
    assert_eq!(grant(&mut next).entry.file, before.entry.file);
    let keys = next.engine.snapshot().unwrap().scan(b"K", b"L", 10).unwrap();
    assert_eq!(keys.len(), 1, "of all keys only the new one of root counts");
    assert_eq!(keys[0].0, keys::access_key(found.issued.key));
}

#[test]
fn what_lacks_components_is_named_with_whether_the_others_are_enough() {
    let mut stage = full();
    let shelf = copied(&mut stage);
    let mut seen = seen(&mut stage, Some(&shelf));
    let all = layouts(&stage.engine);
    let file = |stage: &mut Stage, path: &str| stage.stat(&root(), Place::path(path)).unwrap().file;
    let (twice, lost) = (file(&mut stage, "v/x"), file(&mut stage, "v-b"));
    let gone = |file: FileId, number: u32| (number, all[&file].targets[number as usize]);
    let is_gone = |it: &Component| {
        let of = component_of(it.object);
        of == (twice, 0) || of.0 == lost
    };
    seen.components.retain(|it| !is_gone(it));
    let (found, mut next) = recovered(&stage, seen);
    let whats: BTreeMap<&str, &What> = found.findings.iter().map(|it| (it.path.as_str(), &it.what)).collect();
    assert_eq!(whats["/v/x"], &What::Lacks { components: vec![gone(twice, 0)], is_enough: true });
    assert!(matches!(whats["/v-b"], What::Lacks { is_enough: false, .. }), "{whats:?}");
    assert_eq!(whats.len(), 2);
    assert_eq!(tree(&mut next), tree(&mut stage), "it is there all the same");
}

/// A component to which nothing was ever written is not made: only a target that was not looked at lacks it for sure.
#[test]
fn what_is_not_on_targets_that_were_looked_at_is_told_apart_from_what_was_not_found() {
    let mut stage = full();
    let shelf = copied(&mut stage);
    let mut seen = seen(&mut stage, Some(&shelf));
    let file = stage.stat(&root(), Place::path("v-b")).unwrap().file;
    let all: Vec<(u32, TargetId)> = layouts(&stage.engine)[&file].components();
    seen.components.retain(|it| component_of(it.object).0 != file);
    let whats = |found: &Recovered| {
        found.findings.iter().filter(|it| it.file == file).map(|it| it.what.clone()).collect::<Vec<What>>()
    };
    let (away, there) = all.split_at(1);
    seen.targets.extend(there.iter().map(|(_, target)| *target));
    let (found, _) = recovered(&stage, seen);
    let lacks = |what: &What| matches!(what, What::Lacks { components, .. } if components == away);
    let unwritten = What::Unwritten { components: there.to_vec() };
    let told = whats(&found);
    assert!(told.len() == 2 && told.contains(&unwritten) && told.iter().any(lacks), "{told:?} of {all:?}");
}

#[test]
fn without_any_copy_files_are_made_of_what_their_components_say() {
    let mut stage = full();
    let seen = seen(&mut stage, None);
    let before = tree(&mut stage);
    let (found, mut next) = recovered(&stage, seen);
    let kept: Vec<&str> = vec!["d/e/c", "v-b", "v/x", "v/y"];
    assert_eq!((found.files, found.at), (kept.len() as u64, None), "{found:?}");
    for path in kept {
        let Entry { file, attributes, .. } = before[path].clone();
        let Entry { attributes: now, .. } = next.stat(&root(), Place::of(file)).unwrap();
        let as_it_was =
            |it: &forebay_wire::control::names::Attributes| (it.size, it.mode, it.owner, it.volume, it.created);
        assert_eq!(as_it_was(&now), as_it_was(&attributes), "{path}");
        assert!(now.version > attributes.version);
        assert_eq!(layouts(&next.engine)[&file], layouts(&stage.engine)[&file]);
        let named = found.findings.iter().find(|it| it.file == file && it.what == What::Unknown).unwrap();
        assert!(named.path.starts_with("/lost+found/"), "{}", named.path);
        let by_name = next.stat(&root(), Place::path(&named.path[1..])).unwrap();
        assert_eq!(by_name.file, file);
    }
    let made = next.directory(&root(), "new", 0o755).unwrap();
    assert!(!before.values().any(|entry| entry.file == made));
    // Of rings and heaps it is not known whose they were.
    for (path, kind) in [("d/r", "ring"), ("d/h", "heap")] {
        let Entry { file, attributes, .. } = before[path].clone();
        let Entry { attributes: now, .. } =
            next.stat(&root(), Place::path(format!("lost+found/{kind}-{}", file.0))).unwrap();
        assert_eq!((now.kind, now.size, now.mode, now.owner), (attributes.kind, attributes.size, 0o600, 0), "{path}");
        assert_eq!(layouts(&next.engine)[&file], layouts(&stage.engine)[&file]);
        assert!(found.findings.iter().any(|it| it.file == file && it.what == What::Unknown), "{path}");
    }
}

#[test]
fn a_copy_that_is_behind_gives_way_to_what_components_say() {
    let mut stage = full();
    let shelf = copied(&mut stage);
    // What comes now is in no copy.
    let (grown, removed) = (stage.stat(&root(), Place::path("v/y")).unwrap().file, Place::path("a"));
    written(&mut stage, grown, 12_345);
    let made = stage.file(&root(), "d/late", 0o604).unwrap();
    written(&mut stage, made, 99);
    stage.root(Change::RemoveFile(RemoveFile::at(removed))).unwrap();
    let mut seen = seen(&mut stage, Some(&shelf));
    seen.components.iter_mut().filter(|it| component_of(it.object).0 == grown).for_each(|it| it.fence += 1);
    let (found, mut next) = recovered(&stage, seen);
    let newer = next.stat(&root(), Place::path("v/y")).unwrap();
    assert_eq!(newer.attributes.size, Bytes(12_345));
    assert!(newer.attributes.version > 2, "capabilities for the file count at its components");
    let late = next.stat(&root(), Place::path(format!("lost+found/file-{}", made.0))).unwrap();
    assert_eq!((late.file, late.attributes.size, late.attributes.mode), (made, Bytes(99), 0o604));
    assert!(next.stat(&root(), Place::path("a")).is_ok(), "nothing says that it was removed");
    let whats: Vec<&What> = found.findings.iter().map(|it| &it.what).collect();
    assert_eq!(whats, [&What::Unknown, &What::Newer { size: Bytes(12_345) }]);
    let Reply::Volumes(volumes) = volumes(&mut next) else { panic!("volumes were asked for") };
    assert_eq!(volumes[1].bytes, Bytes(3_000_000 + 12_345), "counted anew");
}

#[test]
fn what_has_no_name_gets_one_whatever_led_there() {
    let mut stage = full();
    let file = |stage: &mut Stage, path: &str| stage.stat(&root(), Place::path(path)).unwrap().file;
    let (d, e, c, v) =
        (file(&mut stage, "d"), file(&mut stage, "d/e"), file(&mut stage, "d/e/c"), file(&mut stage, "v"));
    let shelf = copied(&mut stage);
    let cases: Vec<(&str, Harm, Vec<FileId>)> = vec![
        ("a name is gone", Box::new(move |state| drop(state.remove(&keys::name(e, "c")))), vec![c]),
        ("a directory is gone", Box::new(move |state| drop(state.remove(&keys::inode(e)))), vec![c]),
        (
            "the name of a volume is gone",
            Box::new(move |state| drop(state.remove(&keys::name(FileId::ROOT, "v")))),
            vec![v],
        ),
        (
            "directories are in one another",
            Box::new(move |state| {
                let (from, to) = (keys::name(FileId::ROOT, "d"), keys::name(e, "d"));
                let named: crate::records::Named = decode(&from, &state.remove(&from).unwrap()).unwrap();
                let value = crate::records::encode(&to, &named).unwrap();
                state.insert(to, value);
                let key = keys::inode(d);
                let mut inode: crate::records::Inode = decode(&key, &state[&key]).unwrap();
                inode.parent = e;
                let value = crate::records::encode(&key, &inode).unwrap();
                state.insert(key, value);
            }),
            vec![d],
        ),
    ];
    for (case, harm, lost) in cases {
        let mut seen = seen(&mut stage, Some(&shelf));
        harm(&mut seen.chain.state);
        let (found, mut next) = recovered(&stage, seen);
        for file in lost {
            let named = found.findings.iter().find(|it| it.file == file && it.what == What::Nameless);
            let path = named.unwrap_or_else(|| panic!("{case}: {:?}", found.findings)).path.clone();
            assert!(path.starts_with("/lost+found/"), "{case}: {path}");
            assert_eq!(next.stat(&root(), Place::path(&path[1..])).unwrap().file, file, "{case}");
        }
        assert!(next.stat(&root(), Place::of(c)).is_ok(), "{case}");
    }
}

#[test]
fn an_engine_that_has_a_cluster_is_left_as_it_is() {
    let mut stage = full();
    let seen = seen(&mut stage, None);
    let before = stage.engine.snapshot().unwrap().scan(&[], &[u8::MAX], usize::MAX).unwrap();
    let mut engine = stage.engine.reopened();
    let refused = recover(&mut engine, seen, Policy::default(), Timestamp(0), &Chance::of(1)).unwrap_err();
    assert_eq!(refused.kind, Kind::Exists);
    assert!(engine.snapshot().unwrap().scan(&[], &[u8::MAX], usize::MAX).unwrap() == before);
}

#[test]
fn objects_with_numbers_by_chance_take_no_numbers_from_files() {
    let mut stage = full();
    let shelf = copied(&mut stage);
    let mut seen = seen(&mut stage, Some(&shelf));
    let other = Component {
        target: TargetId(2),
        object: ObjectId { volume: 1, object: 0x7fff_ffff_ffff_f001 },
        size: Bytes(5),
        modified: stage.now.wall,
        fence: 1,
        said: None,
        described: None,
    };
    seen.components.push(other);
    let (found, mut next) = recovered(&stage, seen);
    assert_eq!(found.findings, []);
    let by: Principal = root();
    let made = next.file(&by, "new", 0o644).unwrap();
    assert!(made.0 < 1000, "{made:?}");
    assert!(matches!(next.ask(&by, &Question::Stat(Stat { place: Place::of(made) })), Ok(Reply::Entry(_))));
}

#[test]
fn a_manager_that_is_lost_again_before_its_first_copy_is_whole_is_made_anew_with_all_that_was_answered() {
    let mut stage = full();
    let shelf = copied(&mut stage);
    // A file of which copies know nothing, so that there is something that was found out.
    let made = stage.file(&root(), "d/late", 0o604).unwrap();
    written(&mut stage, made, 99);
    // The copies are older than what the first one that was made anew tells.
    stage.pass(Duration::from_secs(86_400));
    let mut was_whole = false;
    for cut in (0..).step_by(149) {
        let shelf = shelf.again();
        let seen_first = seen(&mut stage, Some(&shelf));
        let (_, mut next) = recovered(&stage, seen_first);
        let before = tree(&mut next);
        let (from, to) = (Place::path(format!("lost+found/file-{}", made.0)), Place::path("found"));
        *shelf.left.borrow_mut() = Some(cut);
        let mut writing = copies(&shelf, next.now);
        let is_answered = |next: &mut Stage, writing: &mut crate::copies::Copies| {
            done(writing.keep(&mut next.manager)).unwrap();
            // What was answered otherwise was so while no target could be written.
            *shelf.left.borrow() > Some(0)
        };
        let mut answered = BTreeMap::new();
        next.root(Change::Rename(Rename { from, to, exclusive: true })).unwrap();
        if is_answered(&mut next, &mut writing) {
            answered.insert("found".to_string(), made);
            for number in 0..20 {
                let name = format!("since-{number}");
                let file = next.file(&root(), &name, 0o640).unwrap();
                if !is_answered(&mut next, &mut writing) {
                    break;
                }
                answered.insert(name, file);
            }
        }
        next.pass(Duration::from_secs(1));
        let map = next.manager.told_map();
        let seen_again = seen(&mut next, Some(&shelf));
        was_whole = seen_again.chain.is_whole() && !answered.is_empty();
        let (found, mut last) = recovered(&next, seen_again);
        assert_eq!(tree(&mut last), before, "cut at {cut}: {found:?}");
        for (name, file) in answered {
            let there = last.stat(&root(), Place::path(&name)).unwrap_or_else(|error| panic!("cut at {cut}: {error}"));
            assert_eq!(there.file, file, "cut at {cut}: {name}");
        }
        let after = last.manager.told_map();
        assert!(after.least_epoch > map.epoch, "cut at {cut}");
        for (old, new) in map.targets.iter().zip(&after.targets) {
            assert!(new.key > old.key, "cut at {cut}: targets take newer keys only");
        }
        if was_whole {
            break;
        }
        assert!(cut < 1 << 20);
    }
    assert!(was_whole);
}

/// Some change of names and files, which may be refused.
fn somehow(chance: &Chance, stage: &mut Stage) {
    let path = || {
        let depth = 1 + chance.below(3);
        let names: Vec<&str> = (0..depth).map(|_| ["a", "b", "c", "v"][chance.below(4) as usize]).collect();
        names.join("/")
    };
    let size = || Some(Bytes(chance.below(900_000)));
    let name = |number: u64| format!("user-{number}");
    let change = match chance.below(9) {
        0 | 1 => create(&path(), 0o644),
        2 => Change::MakeDirectory(MakeDirectory { place: Place::path(path()), mode: 0o755 }),
        3 | 4 => Change::Rename(Rename { from: Place::path(path()), to: Place::path(path()), exclusive: false }),
        5 => Change::RemoveFile(RemoveFile::at(Place::path(path()))),
        6 => Change::SetAttributes(SetAttributes { size: size(), ..unchanged(Place::path(path())) }),
        7 => {
            let place = Place::path(path());
            Change::OpenToWrite(OpenToWrite { place, alone: false, upkeep: false, yields: false, cached: false })
        }
        _ => {
            let user = 5 + chance.below(3) as u32;
            Change::SetUser(User { user, name: name(chance.below(5)), groups: vec![user] })
        }
    };
    drop(stage.root(change));
}

#[test]
fn of_a_copy_that_was_not_written_to_its_end_over_an_older_one_everything_comes_to_fit_together() {
    let partly = Cell::new(0);
    seeds::each(200, |chance| {
        let mut stage = full();
        (0..20).for_each(|_| somehow(chance, &mut stage));
        let shelf = copied(&mut stage);
        // What is changed now is in no copy, but in pieces of the next one.
        stage.restart();
        stage.manager.copying = Copying::Off { is_named: false };
        (0..1 + chance.below(30)).for_each(|_| somehow(chance, &mut stage));
        let mut writing = copies(&shelf, stage.now);
        for _ in 0..1 + chance.below(25) {
            somehow(chance, &mut stage);
            done(writing.keep(&mut stage.manager)).unwrap();
        }
        let chain = shelf.best().unwrap();
        partly.set(partly.get() + u64::from(!chain.is_whole()));
        let mut engine = Memory::new();
        let seen = Seen { chain, ..Seen::default() };
        recover(&mut engine, seen, Policy::default(), stage.now.wall, &Chance::of(11)).unwrap();
        history::check(&*engine.snapshot().unwrap());
        Manager::open(Box::new(engine.reopened()), Rc::new(Chance::of(12)), Settings::default()).unwrap();
    });
    assert!(seeds::is_replay() || partly.get() > 50, "{} were not whole", partly.get());
}

/// What an engine has under a key.
fn kept<T: serde::de::DeserializeOwned>(stage: &Stage, key: &[u8]) -> Option<T> {
    stage.engine.snapshot().unwrap().get(key).unwrap().map(|value| decode(key, &value).unwrap())
}

#[test]
fn what_was_removed_while_nothing_was_copied_does_not_come_back_however_far_the_next_copy_comes() {
    let mut stage = full();
    let shelf = copied(&mut stage);
    let components = seen(&mut stage, None).components;
    let files = ["v/x", "v-b"].map(|path| stage.stat(&root(), Place::path(path)).unwrap().file);
    let versions = files.map(|file| stage.stat(&root(), Place::of(file)).unwrap().attributes.version);
    let before = layouts(&stage.engine);
    // No target can be written for long.
    stage.restart();
    stage.manager.copying = Copying::Off { is_named: false };
    for path in ["v/x", "v-b"] {
        stage.root(Change::RemoveFile(RemoveFile::at(Place::path(path)))).unwrap();
    }
    let mut writing = copies(&shelf, stage.now);
    let mut partly = 0;
    loop {
        done(writing.keep(&mut stage.manager)).unwrap();
        let chain = shelf.together();
        let (is_whole, is_known) = (chain.is_whole(), chain.state.contains_key(&keys::removals(files[0])));
        let is_there = files.map(|file| chain.state.contains_key(&keys::inode(file)));
        partly += u32::from(is_there == [false; 2] && !is_known);
        // Of one of the targets nothing is found now.
        let (away, mut there) = (before[&files[0]].targets[0], components.clone());
        there.retain(|it| it.target != away);
        let (found, next) = recovered(&stage, Seen { chain, components: there, ..Seen::default() });
        for at in (0..2).filter(|at| !is_there[*at]) {
            let file = files[at];
            let unknown = found.findings.iter().find(|it| it.file == file);
            assert_eq!(unknown, None, "with {partly} pieces behind inodes");
            let Orders { mut pending, version, .. } = kept(&next, &keys::removals(file)).unwrap();
            pending.sort();
            assert_eq!(pending, before[&file].components(), "also where it is away");
            assert_eq!(version, versions[at]);
            assert_eq!(kept::<Layout>(&next, &keys::layout(file)), None);
        }
        history::check(&*next.engine.snapshot().unwrap());
        if is_whole {
            break;
        }
    }
    assert!(partly > 0);
}

#[test]
fn what_has_a_name_is_not_taken_for_removed_when_its_inode_is_gone() {
    let mut stage = full();
    let shelf = copied(&mut stage);
    let components = seen(&mut stage, None).components;
    let file = stage.stat(&root(), Place::path("v/x")).unwrap().file;
    stage.restart();
    stage.manager.copying = Copying::Off { is_named: false };
    // As a key that rots while the engine is open.
    stage.put_raw([(keys::inode(file), None)]);
    let mut writing = copies(&shelf, stage.now);
    while shelf.together().state.contains_key(&keys::inode(file)) {
        done(writing.keep(&mut stage.manager)).unwrap();
    }
    let chain = shelf.together();
    assert!(!chain.is_whole());
    let (found, mut next) = recovered(&stage, Seen { chain, components, ..Seen::default() });
    assert_eq!(next.stat(&root(), Place::path("v/x")).unwrap().file, file);
    assert_eq!(kept::<Orders>(&next, &keys::removals(file)), None);
    let whats: Vec<&What> = found.findings.iter().filter(|it| it.file == file).map(|it| &it.what).collect();
    assert_eq!(whats, [&What::Unknown]);
}

#[test]
fn what_a_layout_names_is_not_removed_and_nothing_is_copied_to_where_its_file_lies() {
    let mut stage = full();
    let file = stage.stat(&root(), Place::path("v/x")).unwrap().file;
    let shelf = copied(&mut stage);
    let mut seen = seen(&mut stage, Some(&shelf));
    let targets = layouts(&stage.engine)[&file].targets.clone();
    let other = (2..).map(TargetId).find(|target| !targets.contains(target)).unwrap();
    let last = (2..12).map(TargetId).rfind(|target| !targets.contains(target)).unwrap();
    let volume = seen.components[0].object.volume;
    let mut put = |key: Vec<u8>, value: Vec<u8>| drop(seen.chain.state.insert(key, value));
    // Lists of another time: it lay elsewhere, and was copied there.
    let (left, moves) = (keys::leftovers(file), keys::moves(file));
    let pending = vec![(0, targets[0]), (1, other), (0, targets[1])];
    let orders = Orders { volume, version: 1, due: stage.now.wall, pending };
    let to = |component, to| Move { component, to, by: 0, even: true, former: false };
    let copied = Moves(vec![to(0, targets[0]), to(1, other), to(1, last), to(2, targets[3])]);
    put(left.clone(), encode(&left, &orders).unwrap());
    put(moves.clone(), encode(&moves, &copied).unwrap());
    // Of another file nothing but what it has in use is named.
    let whole = stage.stat(&root(), Place::path("v/y")).unwrap().file;
    let key = keys::leftovers(whole);
    let orders = Orders { pending: layouts(&stage.engine)[&whole].components(), ..orders };
    put(key.clone(), encode(&key, &orders).unwrap());
    // A ring that has left a target is read there.
    let ring = stage.stat(&root(), Place::path("d/r")).unwrap().file;
    let (of_ring, left_by_ring) = (keys::ring_moves(ring), keys::leftovers(ring));
    let lie = layouts(&stage.engine)[&ring].targets.clone();
    let mut free = (2..12).map(TargetId).filter(|target| !lie.contains(target));
    let (former, gone) = (free.next().unwrap(), free.next().unwrap());
    let both = RingMoves(vec![RingMove { component: 0, target: former, moved: true }]);
    put(of_ring.clone(), encode(&of_ring, &both).unwrap());
    let orders = Orders { pending: vec![(0, former), (0, gone)], ..orders };
    put(left_by_ring.clone(), encode(&left_by_ring, &orders).unwrap());
    let (found, next) = recovered(&stage, seen);
    assert_eq!(found.findings, []);
    assert_eq!(kept::<RingMoves>(&next, &of_ring), Some(both));
    assert_eq!(kept::<Orders>(&next, &left_by_ring).unwrap().pending, [(0, gone)]);
    let Orders { pending, .. } = kept(&next, &left).unwrap();
    assert_eq!(pending, [(1, other), (0, targets[1])]);
    assert_eq!(kept::<Orders>(&next, &key), None);
    assert_eq!(kept::<Moves>(&next, &moves).unwrap(), Moves(vec![to(1, last)]));
    assert_eq!(layouts(&next.engine)[&file].targets, targets);
}

#[test]
fn what_was_left_behind_of_something_that_was_removed_since_is_still_to_be_removed_and_is_not_taken_for_it() {
    let mut stage = full();
    for (path, kind) in [("v/x", FileKind::File), ("d/r", FileKind::Ring), ("d/h", FileKind::Heap)] {
        let Entry { file, attributes, .. } = stage.stat(&root(), Place::path(path)).unwrap();
        assert_eq!(attributes.kind, kind);
        let shelf = copied(&mut stage);
        let mut seen = seen(&mut stage, Some(&shelf));
        // All that the layout named is removed already, and the list of that is done.
        let (_, lies) = layouts(&stage.engine)[&file].components()[0];
        let is_first = |object: ObjectId, target: TargetId| component_of(object) == (file, 0) && target == lies;
        seen.components.retain(|it| component_of(it.object).0 != file || is_first(it.object, it.target));
        seen.rings.retain(|(target, ring), _| component_of(*ring).0 != file || is_first(*ring, *target));
        seen.heaps.retain(|(target, heap), _| component_of(*heap).0 != file || is_first(*heap, *target));
        let named = seen.chain.state.keys().find(|key| {
            key.first() == Some(&b'D')
                && decode::<crate::records::Named>(key, &seen.chain.state[*key]).is_ok_and(|named| named.file == file)
        });
        let gone = [keys::inode(file), keys::layout(file), named.unwrap().clone()];
        gone.iter().for_each(|key| drop(seen.chain.state.remove(key)));
        let left = keys::leftovers(file);
        let orders = Orders { volume: attributes.volume, version: 1, due: stage.now.wall, pending: vec![(0, lies)] };
        seen.chain.state.insert(left.clone(), encode(&left, &orders).unwrap());
        let (found, mut next) = recovered(&stage, seen);
        assert_eq!(found.findings, [], "{path}");
        assert!(next.stat(&root(), Place::of(file)).is_err(), "{path}");
        let kept = next.engine.snapshot().unwrap().get(&left).unwrap();
        assert_eq!(decode::<Orders>(&left, &kept.unwrap()).unwrap(), orders, "{path}");
    }
}

#[test]
fn a_component_that_is_on_several_targets_lies_where_it_is_newest_if_the_copy_may_be_older() {
    let mut stage = full();
    let file = stage.stat(&root(), Place::path("v/x")).unwrap().file;
    let shelf = copied(&mut stage);
    let targets = layouts(&stage.engine)[&file].targets.clone();
    let other = (2..).map(TargetId).find(|target| !targets.contains(target)).unwrap();
    // How much newer the other one is told to be, whether all of it was written there, on which list it is, and whether the copy has all
    // that there was.
    for (newer, is_all, list, is_whole, lies) in [
        (1, true, None, true, other),
        (1, true, None, false, other),
        (1, true, Some(keys::MOVES), false, other),
        (0, true, None, false, other),
        // The copy knows of that version.
        (0, true, None, true, targets[1]),
        (1, false, None, true, targets[1]),
        (1, false, None, false, targets[1]),
        (0, true, Some(keys::MOVES), false, targets[1]),
        (1, true, Some(keys::LEFTOVERS), false, targets[1]),
    ] {
        let mut seen = seen(&mut stage, Some(&shelf));
        if !is_whole {
            seen.chain = not_whole(&mut stage, &shelf);
        }
        assert_eq!(seen.chain.is_whole(), is_whole);
        let is_old = |it: &&Component| component_of(it.object) == (file, 1);
        let old = seen.components.iter().find(is_old).unwrap().clone();
        if list == Some(keys::MOVES) {
            let key = keys::moves(file);
            let moves = Moves(vec![Move { component: 1, to: other, by: 7, even: false, former: false }]);
            let value = encode(&key, &moves).unwrap();
            seen.chain.state.insert(key, value);
        }
        if list == Some(keys::LEFTOVERS) {
            let key = keys::leftovers(file);
            let pending = vec![(1, other)];
            let orders = Orders { volume: old.object.volume, version: 1, due: stage.now.wall, pending };
            let value = encode(&key, &orders).unwrap();
            seen.chain.state.insert(key, value);
        }
        let modified = old.modified.after(Duration::from_secs(1));
        let described = old.described.clone().filter(|_| is_all);
        seen.components.push(Component { target: other, fence: old.fence + newer, modified, described, ..old.clone() });
        let (found, next) = recovered(&stage, seen);
        let case = format!("{newer} {is_all} {list:?} {is_whole}");
        let layout = &layouts(&next.engine)[&file];
        assert_eq!(layout.targets[1], lies, "{case}");
        assert!((0..).zip(&targets).all(|(at, target)| at == 1 || layout.targets[at] == *target), "{case}");
        let left: Option<Orders> = kept(&next, &keys::leftovers(file));
        let left = left.map(|left| (left.volume, left.pending));
        let is_left = lies == other || list == Some(keys::LEFTOVERS);
        let where_not = if lies == other { targets[1] } else { other };
        assert_eq!(left, is_left.then(|| (old.object.volume, vec![(1, where_not)])), "{case}");
        // Whether all of it came there before the manager was lost is not known, and the other copy makes up for it.
        let since = kept::<Inode>(&next, &keys::inode(file)).unwrap().attributes.version;
        let missed = Absent { component: 1, since, absence: Absence::Missed };
        assert_eq!(layout.absent, if lies == other { vec![missed] } else { vec![] }, "{case}");
        let whats: Vec<&What> = found.findings.iter().filter(|it| it.file == file).map(|it| &it.what).collect();
        let lacks = What::Lacks { components: vec![(1, other)], is_enough: true };
        assert_eq!(whats, if lies == other { vec![&lacks] } else { vec![] }, "{case}");
        history::check(&*next.engine.snapshot().unwrap());
    }
}

#[test]
fn a_component_of_which_nothing_is_left_where_the_copy_says_lies_where_it_is_now() {
    let mut stage = full();
    let file = stage.stat(&root(), Place::path("v/x")).unwrap().file;
    let shelf = copied(&mut stage);
    let targets = layouts(&stage.engine)[&file].targets.clone();
    let other = (2..).map(TargetId).find(|target| !targets.contains(target)).unwrap();
    // How much newer than the copy the one elsewhere is told to be, whether all of it was written there, on which list it is, whether the
    // copy has all that there was, and whether the target was looked at where the copy says that it lies.
    for (newer, is_all, list, is_whole, is_looked_at, lies) in [
        (1, true, None, true, true, other),
        (0, true, None, false, true, other),
        (1, true, Some(keys::MOVES), true, true, other),
        (0, true, Some(keys::MOVES), false, true, targets[1]),
        (1, true, Some(keys::LEFTOVERS), true, true, targets[1]),
        (1, false, None, true, true, targets[1]),
        // The copy knows of that version.
        (0, true, None, true, true, targets[1]),
        // It may be there, and newer.
        (1, true, None, true, false, targets[1]),
    ] {
        let mut seen = seen(&mut stage, Some(&shelf));
        if !is_whole {
            seen.chain = not_whole(&mut stage, &shelf);
        }
        seen.targets = (2..12).map(TargetId).filter(|target| is_looked_at || *target != targets[1]).collect();
        let at = seen.components.iter().position(|it| component_of(it.object) == (file, 1)).unwrap();
        let old = seen.components.remove(at);
        if list == Some(keys::MOVES) {
            let key = keys::moves(file);
            let moves = Moves(vec![Move { component: 1, to: other, by: 7, even: false, former: false }]);
            let value = encode(&key, &moves).unwrap();
            seen.chain.state.insert(key, value);
        }
        if list == Some(keys::LEFTOVERS) {
            let key = keys::leftovers(file);
            let pending = vec![(1, other)];
            let orders = Orders { volume: old.object.volume, version: 1, due: stage.now.wall, pending };
            let value = encode(&key, &orders).unwrap();
            seen.chain.state.insert(key, value);
        }
        let described = old.described.clone().filter(|_| is_all);
        seen.components.push(Component { target: other, fence: old.fence + newer, described, ..old });
        let (found, next) = recovered(&stage, seen);
        let case = format!("{newer} {is_all} {list:?} {is_whole} {is_looked_at}");
        let layout = &layouts(&next.engine)[&file];
        assert_eq!(layout.targets[1], lies, "{case}");
        assert!((0..).zip(&targets).all(|(at, target)| at == 1 || layout.targets[at] == *target), "{case}");
        // Nothing is to be removed where nothing is.
        let left: Option<Orders> = kept(&next, &keys::leftovers(file));
        let is_left = list == Some(keys::LEFTOVERS);
        assert_eq!(left.map(|left| left.pending), is_left.then(|| vec![(1, other)]), "{case}");
        let Inode { attributes, .. } = kept(&next, &keys::inode(file)).unwrap();
        assert_eq!(attributes.version > old.fence, newer > 0 || lies == other, "{case}");
        let missed = Absent { component: 1, since: attributes.version, absence: Absence::Missed };
        assert_eq!(layout.absent, if lies == other { vec![missed] } else { vec![] }, "{case}");
        let whats: Vec<&What> = found.findings.iter().filter(|it| it.file == file).map(|it| &it.what).collect();
        let components = vec![(1, lies)];
        let what = match lies == other || !is_looked_at {
            true => What::Lacks { components, is_enough: true },
            false => What::Unwritten { components },
        };
        assert_eq!(whats, [&what], "{case}");
        history::check(&*next.engine.snapshot().unwrap());
    }
}

#[test]
fn of_what_components_say_of_a_file_and_how_long_they_are_only_what_can_be_counts() {
    let mut stage = full();
    let file = stage.stat(&root(), Place::path("v/x")).unwrap().file;
    let targets = layouts(&stage.engine)[&file].targets.clone();
    for is_narrow in [true, false] {
        let mut seen = seen(&mut stage, None);
        let mut narrow = Bytes::ZERO;
        for it in seen.components.iter_mut().filter(|it| component_of(it.object).0 == file) {
            it.said = None;
            match (component_of(it.object).1, is_narrow) {
                // Whoever may write it may say that it has this component alone, or has one be as long as an object can be.
                (0, true) => {
                    let (fence, described) = (it.fence + 1, it.described.clone().unwrap());
                    let striping = Striping::new(Raid::Zero, UNIT, 1, 1, 1).unwrap();
                    let described = Some(Described { striping, targets: vec![it.target], ..described });
                    (it.fence, it.described, narrow) = (fence, described, it.size);
                }
                (0, false) => it.size = Bytes(u64::MAX),
                _ => {}
            }
        }
        let (found, mut next) = recovered(&stage, seen);
        assert!(found.findings.iter().any(|it| it.file == file && it.what == What::Unknown));
        let size = next.stat(&root(), Place::of(file)).unwrap().attributes.size;
        let lies = &layouts(&next.engine)[&file].targets;
        match is_narrow {
            true => assert_eq!((size, &lies[..]), (narrow, &targets[..1])),
            false => assert_eq!((size, lies), (Bytes(3_000_000), &targets)),
        }
    }
}

#[test]
fn files_that_are_said_to_have_more_together_than_can_be_counted_are_counted_as_far_as_can_be() {
    let mut stage = full();
    let mut seen = seen(&mut stage, None);
    let file = stage.stat(&root(), Place::path("v/y")).unwrap().file;
    let first = seen.components.iter().find(|it| component_of(it.object) == (file, 0)).unwrap().clone();
    let volume = first.object.volume;
    let said = Some((0, LARGEST));
    let like = |file: u64| Component { object: object(volume, FileId(file), 0), said, ..first.clone() };
    seen.components.extend((1000..1020).map(like));
    let (_, mut next) = recovered(&stage, seen);
    assert_eq!(next.stat(&root(), Place::of(FileId(1000))).unwrap().attributes.size, LARGEST);
    let Reply::Volumes(volumes) = volumes(&mut next) else { panic!("volumes were asked for") };
    assert_eq!(volumes.iter().find(|it| it.volume == volume).unwrap().bytes, Bytes(u64::MAX));
}

#[test]
fn the_beginning_of_a_copy_is_not_taken_for_a_component_of_a_file_that_no_copy_knows() {
    let mut stage = full();
    let mut seen = seen(&mut stage, None);
    let file = stage.stat(&root(), Place::path("v/x")).unwrap().file;
    let first = seen.components.iter().find(|it| component_of(it.object).0 == file).unwrap().clone();
    let begun = Component { target: TargetId(99), fence: first.fence + 1, described: None, ..first };
    seen.components.push(begun);
    let (_, next) = recovered(&stage, seen);
    assert_eq!(layouts(&next.engine)[&file], layouts(&stage.engine)[&file]);
}

#[test]
fn the_next_copy_begins_with_all_that_is_not_as_copies_say() {
    let mut stage = full();
    let shelf = copied(&mut stage);
    let before = shelf.together().state;
    let mut seen = seen(&mut stage, Some(&shelf));
    // A name that leads nowhere is dropped.
    let key = keys::name(FileId::ROOT, "nowhere");
    let value = encode(&key, &crate::records::Named { file: FileId(7777), kind: FileKind::File }).unwrap();
    seen.chain.state.insert(key.clone(), value);
    let mut engine = Memory::new();
    recover(&mut engine, seen, Policy::default(), stage.now.wall, &Chance::of(11)).unwrap();
    let all = engine.snapshot().unwrap().scan(&[], &[u8::MAX], usize::MAX).unwrap();
    let now: BTreeMap<Vec<u8>, Vec<u8>> = all.into_iter().filter(|(key, _)| crate::copies::is_copied(key)).collect();
    let mut other: Vec<Vec<u8>> = now.keys().filter(|key| now.get(*key) != before.get(*key)).cloned().collect();
    other.push(key);
    other.sort();
    let value = engine.snapshot().unwrap().get(keys::COPIED).unwrap().unwrap();
    let Copied { base, batch, keys } = decode(keys::COPIED, &value).unwrap();
    assert_eq!((base, batch), (0, 0));
    assert_eq!(keys, other);
    assert!(keys.contains(&keys::EPOCHS.to_vec()) && keys.len() < now.len());
}

#[test]
fn managers_that_were_made_anew_of_the_same_copies_a_moment_apart_do_not_go_on_with_one_anothers() {
    let mut stage = full();
    let shelf = copied(&mut stage);
    let first_shelf = shelf.again();
    first_shelf.broken.borrow_mut().extend([TargetId(2), TargetId(3)]);
    let seen_first = seen(&mut stage, Some(&shelf));
    let (_, mut first) = recovered(&stage, seen_first);
    let mut writing = copies(&first_shelf, first.now);
    for number in 0..9 {
        first.directory(&root(), &format!("first-{number}"), 0o755).unwrap();
        done(writing.keep(&mut first.manager)).unwrap();
    }
    // That one is lost, and the only target that it could write is away.
    stage.pass(Duration::from_secs(1));
    shelf.lose(&[TargetId(1)]);
    shelf.broken.borrow_mut().insert(TargetId(1));
    let seen_second = seen(&mut stage, Some(&shelf));
    let (_, mut second) = recovered(&stage, seen_second);
    assert_eq!(second.manager.term, first.manager.term);
    let mut writing = copies(&shelf, second.now);
    let mut answered = Vec::new();
    for number in 0..3 {
        let name = format!("second-{number}");
        second.directory(&root(), &name, 0o755).unwrap();
        done(writing.keep(&mut second.manager)).unwrap();
        answered.push(name);
    }
    let is_all_there = |shelf: &Rc<Shelf>| {
        let best = shelf.best().unwrap();
        let is_there = |name: &String| best.state.contains_key(&keys::name(FileId::ROOT, name));
        assert!(answered.iter().all(is_there), "{:?}", answered.iter().map(is_there).collect::<Vec<bool>>());
        best
    };
    is_all_there(&shelf);
    // It is back, with what the first one wrote.
    shelf.bring_back(TargetId(1), &first_shelf);
    is_all_there(&shelf);
    shelf.broken.borrow_mut().clear();
    second.restart();
    let mut writing = copies(&shelf, second.now);
    (0..60).for_each(|_| done(writing.tick(&mut second.manager)).unwrap());
    let best = is_all_there(&shelf);
    assert!(best.is_whole() && said(&best) == there(&second));
    assert_eq!((1..=3).map(|target| shelf.written(TargetId(target)).len()).collect::<Vec<usize>>(), [1, 1, 1]);
}
