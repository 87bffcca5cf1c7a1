//! Histories by chance: changes by several users, in batches, with crashes at any commit, each beside a plain tree.
//!
//! Checked: every answer; that after a crash what is there is what some first part of the batch does, and no less than
//! was acknowledged; that a batch that is asked for again is carried out once; that the bytes in the engine fit together.

mod model;

use crate::draft::View;
use crate::engine::{Engine, Snapshot};
use crate::keys;
use crate::manager::Asked;
use crate::principal::Principal;
use crate::records::{Absence, Inode, Layout, Named, Next, UserNumber, UserRecord, VolumeRecord, Writers, decode};
use crate::seeds::{Chance, each};
use crate::testing::{Stage, root, unchanged};
use forebay_model::{Bytes, Kind};
use forebay_wire::control::files::{
    After, ClientGone, Close, CreateHeap, CreateRing, GiveUp, OpenToWrite, Rebuilt, Refill, Revoke, Scrubbed,
};
use forebay_wire::control::names::{
    CreateFile, FileId, FileKind, List, MakeDirectory, Place, RemoveDirectory, RemoveFile, Rename, SetAttributes,
};
use forebay_wire::control::volumes::{CreateVolume, Policy, Quota, RemoveVolume};
use forebay_wire::control::{Call, Change, Question, Reply};
use model::{Did, Model, striping};
use std::collections::{BTreeMap, BTreeSet};

fn somebody(chance: &Chance) -> Principal {
    let (user, groups, client) = match chance.below(5) {
        0 | 1 => (0, vec![0], 1),
        2 => (5, vec![50], 2),
        3 => (6, vec![60, 50], 3),
        _ => (5, vec![50], 4),
    };
    Principal { user, groups, client, key: None }
}

fn path(chance: &Chance) -> String {
    let names: Vec<&str> =
        (0..1 + chance.below(4).min(chance.below(4))).map(|_| ["a", "b", "c"][chance.below(3) as usize]).collect();
    names.join("/")
}

/// A place by a path, or from a directory on that is probably there.
fn place(chance: &Chance, model: &Model) -> Place {
    match chance.below(12) {
        0 => Place::path(format!("/{}", path(chance))),
        1 => Place::path(["", "a/", "a//b", "..", "a/./b", "x\0"][chance.below(6) as usize]),
        2 | 3 => Place { from: FileId(1 + chance.below(model.next)), path: path(chance) },
        4 => Place::of(FileId(1 + chance.below(model.next))),
        _ => Place::path(path(chance)),
    }
}

fn mode(chance: &Chance) -> u32 {
    let rare = [0o755, 0o700, 0o770, 0o1777, 0o444, 0o10000];
    if chance.once_in(3) { rare[chance.below(6) as usize] } else { 0o777 }
}

/// The next step for a component of a file that somebody has open to write, and now and then another one.
fn absence(chance: &Chance, model: &Model, by: &Principal) -> Change {
    let open = model.writers.iter().filter(|(_, clients)| clients.contains(&by.client));
    let open: Vec<u64> = open.map(|(file, _)| *file).collect();
    let number = match open.len() as u64 {
        0 => 1 + chance.below(model.next),
        there => open[chance.below(there) as usize],
    };
    let version = model.nodes.get(&number).map_or(1, |node| node.version) + u64::from(chance.once_in(9));
    let there: Vec<u32> = model.absent.get(&number).into_iter().flat_map(|absent| absent.keys().copied()).collect();
    let component = match there[..] {
        [first, ..] if !chance.once_in(4) => first,
        _ => chance.below(u64::from(striping().components()) + 1) as u32,
    };
    let file = FileId(number);
    let step = match model.absence(number, component) {
        _ if chance.once_in(4) => chance.below(4),
        None => 0,
        Some(Absence::Missed) => 1,
        Some(Absence::Emptying(_)) => 2,
        Some(Absence::Filling(_)) => 3,
    };
    match step {
        // One too many is about devices, which is not remembered: asked again later it may be another answer.
        0 if model.may_spare(number, component) => {
            Change::GiveUp(GiveUp { file, components: vec![component], version })
        }
        1 | 2 => Change::Refill(Refill { file, component, version, emptied: step == 2 }),
        _ => Change::Rebuilt(Rebuilt { file, component, version }),
    }
}

/// A change by chance.
fn change(chance: &Chance, model: &Model, by: &Principal) -> Change {
    let place = || place(chance, model);
    let file = || FileId(1 + chance.below(model.next));
    let size = || chance.once_in(2).then(|| Bytes(chance.below(6) * 100));
    match chance.below(37) {
        0..6 => {
            let (exclusive, open) = (chance.once_in(2), chance.once_in(3));
            Change::CreateFile(CreateFile {
                place: place(),
                mode: mode(chance),
                exclusive,
                policy: None,
                open,
                alone: false,
                cached: false,
            })
        }
        6..11 => Change::MakeDirectory(MakeDirectory { place: place(), mode: mode(chance) }),
        11..13 => Change::SetAttributes(SetAttributes {
            place: place(),
            mode: chance.once_in(2).then(|| mode(chance)),
            owner: chance.once_in(9).then(|| chance.below(7) as u32),
            group: chance.once_in(9).then_some(50),
            size: size(),
            modified: None,
            accessed: None,
        }),
        13..17 => Change::Rename(Rename { from: place(), to: place(), exclusive: chance.once_in(4) }),
        17 => Change::RemoveFile(RemoveFile { place: place(), only: chance.once_in(3).then(file) }),
        18 => Change::RemoveDirectory(RemoveDirectory { place: place() }),
        19 => {
            let hard_bytes = chance.once_in(2).then(|| Bytes(chance.below(1500)));
            let hard_files = chance.once_in(2).then(|| 1 + chance.below(5));
            let quota = Quota { hard_bytes, hard_files, ..Quota::default() };
            let (owner, group, policy) = (chance.below(7) as u32, 50, Policy::default());
            Change::CreateVolume(CreateVolume { place: place(), mode: 0o777, owner, group, quota, policy })
        }
        20 => Change::RemoveVolume(RemoveVolume { place: place() }),
        21 | 22 => Change::OpenToWrite(OpenToWrite {
            place: place(),
            alone: false,
            upkeep: false,
            yields: false,
            cached: false,
        }),
        23 => Change::Close(Close {
            file: file(),
            size: size(),
            modified: None,
            upkeep: false,
            unfinished: chance.once_in(4),
            cuts: None,
        }),
        24 | 25 if chance.once_in(3) => Change::ClientGone(ClientGone { client: 1 + chance.below(4) }),
        27 | 28 => Change::Revoke(Revoke { file: file() }),
        29 | 30 => {
            let capacity = Bytes(chance.below(6) * 100);
            Change::CreateRing(CreateRing {
                place: place(),
                mode: mode(chance),
                capacity,
                refused_by: vec![],
                targets: 1,
                parity: false,
                again: false,
                leaving: None,
            })
        }
        31..36 => absence(chance, model, by),
        36 => Change::CreateHeap(CreateHeap { place: place(), mode: mode(chance), refused_by: vec![] }),
        _ => Change::Scrubbed(Scrubbed { file: file() }),
    }
}

/// What a reply says was done.
fn did(reply: &Reply) -> Did {
    match reply {
        Reply::Entry(entry) => Did::Entry(entry.file.0),
        Reply::Grant(grant) => Did::Opened(grant.entry.file.0),
        Reply::Volume(volume) => Did::Volume(volume.volume, volume.root.0),
        Reply::Unscrubbed(left) => Did::Left(left.files.iter().map(|file| file.0).collect()),
        Reply::Done => Did::Done,
        other => panic!("{other:?} is no answer to a change"),
    }
}

/// Everything that root sees.
fn seen(stage: &mut Stage, chance: &Chance) -> Model {
    let mut model = Model::default();
    model.nodes.clear();
    let mut waiting = vec![FileId::ROOT];
    let top = stage.stat(&root(), Place::of(FileId::ROOT)).unwrap();
    model.see(&top.attributes, top.file, top.parent);
    while let Some(directory) = waiting.pop() {
        let mut after = String::new();
        loop {
            let most = 1 + chance.below(3) as u32;
            let list = List { place: Place::of(directory), after, most, attributes: true };
            let Reply::Page(page) = stage.ask(&root(), &Question::List(list)).unwrap() else { panic!("no page") };
            for listed in &page.entries {
                model.see(listed.attributes.as_ref().unwrap(), listed.file, directory);
                model.nodes.get_mut(&directory.0).unwrap().children.insert(listed.name.clone(), listed.file.0);
                if listed.kind == FileKind::Directory {
                    waiting.push(listed.file);
                }
            }
            if !page.more {
                break;
            }
            after = page.entries.last().unwrap().name.clone();
        }
    }
    let Reply::Volumes(volumes) = stage.ask(&root(), &Question::Volumes).unwrap() else { panic!("no volumes") };
    for volume in volumes {
        model.volumes.insert(volume.volume, (volume.quota.hard_bytes.map(|bytes| bytes.0), volume.quota.hard_files));
        assert_eq!(model.usage(volume.volume), (volume.bytes.0, volume.files), "the sums of volume {}", volume.volume);
    }
    let all = After { file: FileId(0), most: 4096 };
    let Reply::OpenFiles(open) = stage.ask(&root(), &Question::OpenFiles(all)).unwrap() else { panic!("no files") };
    for file in open.files {
        model.writers.entry(file.file.0).or_default().insert(file.client);
    }
    let Reply::Unscrubbed(left) = stage.ask(&root(), &Question::Unscrubbed(all)).unwrap() else { panic!("no files") };
    model.left = left.files.iter().map(|file| file.0).collect();
    let engine = stage.engine.snapshot().unwrap();
    let (from, to) = keys::all(keys::LAYOUTS);
    for (key, value) in engine.scan(&from, &to, usize::MAX).unwrap() {
        let layout: Layout = decode(&key, &value).unwrap();
        if !layout.absent.is_empty() {
            let absent = layout.absent.iter().map(|absent| (absent.component, absent.absence));
            model.absent.insert(keys::number(&key), absent.collect());
        }
    }
    let next: Next = engine.read(keys::NEXT).unwrap().unwrap();
    (model.next, model.next_volume) = (next.file, next.volume);
    model
}

/// What the bytes in the engine have to do with one another.
pub(crate) fn check(view: &dyn Snapshot) {
    let all = |prefix| {
        let (from, to) = keys::all(prefix);
        view.scan(&from, &to, usize::MAX).unwrap()
    };
    let next: Next = view.read(keys::NEXT).unwrap().unwrap();
    let mut inodes: BTreeMap<u64, Inode> = BTreeMap::new();
    for (key, value) in all(b'I') {
        inodes.insert(keys::number(&key), decode(&key, &value).unwrap());
    }
    let mut reached = BTreeSet::from([1]);
    let mut entries: BTreeMap<u64, u64> = BTreeMap::new();
    for (key, value) in all(b'D') {
        let named: Named = decode(&key, &value).unwrap();
        assert!(reached.insert(named.file.0), "{} has two names", named.file);
        let inode = &inodes[&named.file.0];
        assert_eq!((inode.parent.0, inode.attributes.kind), (keys::number(&key), named.kind));
        *entries.entry(inode.parent.0).or_default() += 1;
    }
    assert!(inodes.keys().eq(&reached), "there is something without a name");
    assert!(inodes.keys().all(|file| *file < next.file));
    let layouts: BTreeSet<u64> = all(b'L').iter().map(|(key, _)| keys::number(key)).collect();
    let mut sums: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (file, inode) in &inodes {
        let attributes = &inode.attributes;
        assert_eq!(attributes.entries, entries.get(file).copied().unwrap_or(0), "entries of {file}");
        assert_eq!(layouts.contains(file), attributes.kind != FileKind::Directory, "the layout of {file}");
        let sum = sums.entry(attributes.volume).or_default();
        *sum = (sum.0 + attributes.size.0, sum.1 + 1);
    }
    assert_eq!(layouts.len(), inodes.values().filter(|inode| !inode.is_directory()).count());
    let degraded: BTreeSet<u64> = all(keys::DEGRADED).iter().map(|(key, _)| keys::number(key)).collect();
    for (key, value) in all(b'L') {
        let file = keys::number(&key);
        let layout: Layout = decode(&key, &value).unwrap();
        let different: BTreeSet<_> = layout.targets.iter().collect();
        assert_eq!(
            (different.len(), layout.targets.len() as u32),
            (layout.targets.len(), layout.striping.components())
        );
        assert_eq!(degraded.contains(&file), !layout.absent.is_empty(), "what {file} lacks is on the list");
        for absent in &layout.absent {
            let family = layout.striping.family(absent.component);
            let lacking = layout.absent.iter().filter(|one| family.contains(&one.component)).count();
            assert!(lacking as u32 <= layout.striping.spare(), "{file} lacks more than can be made again");
        }
    }
    assert!(degraded.is_subset(&layouts));
    let volumes = all(b'V');
    assert_eq!(volumes.len(), sums.len());
    for (key, value) in volumes {
        let record: VolumeRecord = decode(&key, &value).unwrap();
        assert_eq!((record.bytes.0, record.files), sums[&keys::number(&key)]);
        assert!(keys::number(&key) < next.volume);
    }
    for (key, value) in all(b'W') {
        let Writers(writers) = decode(&key, &value).unwrap();
        assert!(!writers.is_empty() && inodes[&keys::number(&key)].written);
    }
    assert!(all(b'S').iter().all(|(key, _)| inodes.contains_key(&keys::number(key))));
    assert!(all(b'O').iter().all(|(key, _)| !inodes.contains_key(&keys::number(key))));
    let removed: BTreeSet<u64> = all(b'O').iter().map(|(key, _)| keys::number(key)).collect();
    for (key, _) in all(b'F') {
        let file = keys::number(&key);
        assert!(inodes.get(&file).is_some_and(|inode| inode.written) || removed.contains(&file), "fences of {file}");
    }
    for (key, value) in all(b'U') {
        let user: UserRecord = decode(&key, &value).unwrap();
        let UserNumber(number) = view.read(&keys::user_name(&user.name)).unwrap().unwrap();
        assert_eq!(keys::user_of(&key), Some(number));
    }
}

/// What came of a run, so that one in which nothing happened counts as nothing.
#[derive(Default)]
struct Tally {
    done: u64,
    refused: BTreeSet<u16>,
    crashes: u64,
    partly: u64,
    again: u64,
    rings: u64,
    heaps: u64,
    rebuilt: u64,
}

fn live(chance: &Chance, batches: u64) -> Tally {
    let mut tally = Tally::default();
    let mut stage = Stage::new();
    let mut model = Model::default();
    let top = SetAttributes { mode: Some(0o777), ..unchanged(Place::of(FileId::ROOT)) };
    model.carry_out(&root(), &Change::SetAttributes(top.clone())).unwrap();
    stage.root(Change::SetAttributes(top)).unwrap();
    let mut sequences: BTreeMap<u64, u64> = BTreeMap::from([(1, stage.sequence)]);
    let mut answered: Vec<(Asked, std::result::Result<Did, Kind>)> = Vec::new();
    for _ in 0..batches {
        let mut asked = Vec::new();
        let mut expected = Vec::new();
        let mut states = vec![model.clone()];
        for _ in 0..1 + chance.below(60) {
            let by = somebody(chance);
            let change = change(chance, &model, &by);
            let sequence = sequences.entry(by.client).or_default();
            *sequence += 1;
            expected.push(model.carry_out(&by, &change));
            states.push(model.clone());
            asked.push(Asked { by, call: Call { sequence: *sequence, change } });
        }
        let crashes = chance.once_in(4);
        if crashes {
            stage.engine.crash_at(0, chance.below(8) as usize);
            for answer in stage.manager.apply(stage.now, &asked) {
                assert_eq!(answer.unwrap_err().kind, Kind::Disconnected);
            }
            stage.restart();
            let found = seen(&mut stage, chance);
            let kept = states.iter().position(|state| state.is_like(&found));
            tally.crashes += 1;
            tally.partly += u64::from(kept.expect("what is there is what a first part of the batch does") > 0);
        }
        // After a crash this asks for all of it again.
        let answers = stage.manager.apply(stage.now, &asked);
        for ((asked, answer), expected) in asked.iter().zip(answers).zip(expected) {
            let got = answer.as_ref().map(did).map_err(|error| error.kind);
            let is_gone_since = matches!(expected, Ok(Did::Opened(_))) && got.is_err();
            if !is_gone_since {
                assert_eq!(got, expected, "{asked:?}: {answer:?}");
            }
            tally.done += u64::from(got.is_ok());
            match asked.call.change {
                Change::CreateRing(_) => tally.rings += u64::from(got.is_ok()),
                Change::CreateHeap(_) => tally.heaps += u64::from(got.is_ok()),
                Change::Rebuilt(_) => tally.rebuilt += u64::from(got.is_ok()),
                _ => {}
            }
            tally.refused.extend(got.err().map(Kind::code));
            answered.push((asked.clone(), expected));
        }
        assert!(seen(&mut stage, chance).is_like(&model), "what is there is not what was answered");
        check(&*stage.engine.snapshot().unwrap());
        if chance.once_in(3) {
            // What was answered lately is answered so again, and another change under its number is not done.
            let (asked, expected) =
                answered[answered.len() - 1 - chance.below(answered.len().min(99) as u64) as usize].clone();
            let got = stage.manager.apply(stage.now, std::slice::from_ref(&asked)).remove(0).map(|reply| did(&reply));
            if !matches!(expected, Ok(Did::Opened(_))) {
                assert_eq!(got.map_err(|error| error.kind), expected);
            }
            let change = Change::RemoveFile(RemoveFile::at(Place::path("never/asked")));
            let other = Asked { call: Call { change, ..asked.call }, ..asked };
            assert_eq!(stage.manager.apply(stage.now, &[other]).remove(0).unwrap_err().kind, Kind::Exists);
            tally.again += 1;
        }
        if chance.once_in(8) {
            stage.restart();
        }
    }
    tally
}

#[test]
fn histories_with_crashes_are_those_of_a_plain_tree() {
    let total = std::cell::RefCell::new(Tally::default());
    each(60, |chance| {
        let tally = live(chance, 25);
        let mut total = total.borrow_mut();
        total.done += tally.done;
        total.refused.extend(tally.refused);
        total.crashes += tally.crashes;
        total.partly += tally.partly;
        total.again += tally.again;
        total.rings += tally.rings;
        total.heaps += tally.heaps;
        total.rebuilt += tally.rebuilt;
    });
    let total = total.take();
    println!("{} done, {} crashes, {} of them within a batch", total.done, total.crashes, total.partly);
    if !crate::seeds::is_replay() {
        assert!(total.done > 4000 && total.crashes > 100 && total.partly > 30 && total.again > 100);
        assert!(total.rings > 100 && total.rebuilt > 30, "{} rings, {} rebuilt", total.rings, total.rebuilt);
        assert!(total.heaps > 50, "{} heaps", total.heaps);
        let kinds = [
            Kind::Usage,
            Kind::Refused,
            Kind::Missing,
            Kind::Exists,
            Kind::Forbidden,
            Kind::Full,
            Kind::Stale,
            Kind::Busy,
        ];
        assert!(kinds.iter().all(|kind| total.refused.contains(&kind.code())), "{:?}", total.refused);
    }
}
