//! What a manager knew, made anew from the targets.

use super::*;
use crate::copies::OnHosts;
use crate::recover::{Recovery, What, recover};
use forebay_client::heaps::{HeapSettings, NewRoot};
use forebay_embedded::own;
use forebay_env::real::{self, random};
use forebay_manager::copies::VOLUME;
use forebay_manager::recover::look::Targets;
use forebay_model::Timestamp;
use forebay_model::ring::RingSpec;
use forebay_wire::control::Question;
use forebay_wire::control::names::{Attributes, Entry, FileKind, Place, SetAttributes};
use forebay_wire::control::volumes::{CreateVolume, Quota, Volume};
use forebay_wire::object::{Ask, ObjectAnswer, ObjectReply};
use std::collections::BTreeMap;

/// Directories of nodes in `dir`, each with a target.
pub(super) fn nodes(dir: &Path, count: usize) -> Vec<PathBuf> {
    let dirs: Vec<PathBuf> = (1..=count).map(|n| dir.join(format!("node-{n}"))).collect();
    dirs.iter()
        .for_each(|dir| drop(format(dir, &FormatOptions::file(Bytes::mib(96), Measure::Guess)).expect("a node")));
    dirs
}

fn change(server: &Server, change: Change) -> Reply {
    let by = server.rack.manager().root();
    let sequence = random::number() >> 1;
    let desk = server.rack.manager().desk().expect("it is open");
    desk.change_blocking(by, Call { sequence, change }).expect("it is done")
}

fn volumes(server: &Server) -> Vec<Volume> {
    let by = server.rack.manager().root();
    let desk = server.rack.manager().desk().expect("it is open");
    let asked = real::run_network(move |_| async move { desk.ask(by, Question::Volumes).await });
    match asked.expect("it runs").expect("it is answered") {
        Reply::Volumes(volumes) => volumes,
        other => panic!("{other:?}"),
    }
}

/// What is told of each file, and its bytes.
fn all(server: &Server, paths: &[&str]) -> BTreeMap<String, (Entry, Vec<u8>)> {
    let files = server.files().expect("a way to it");
    let one = |path: &&str| {
        let entry = files.stat(path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let bytes = match entry.attributes.kind {
            FileKind::File => {
                let file = files.open(path, Options::default()).expect("it opens");
                let bytes = file.read_at(Bytes::ZERO, Bytes::mib(8)).unwrap_or_else(|error| panic!("{path}: {error}"));
                file.close().expect("it closes");
                bytes
            }
            FileKind::Heap => {
                let mut heap = files.cluster(Duration::from_secs(30)).heaps().open(path).expect("it opens");
                heap.root(None).expect("it is there").1.expect("it has a root").1
            }
            FileKind::Directory | FileKind::Ring => Vec::new(),
        };
        (path.to_string(), (entry, bytes))
    };
    paths.iter().map(one).collect()
}

const PATHS: [&str; 10] = [
    "/data",
    "/data/deep",
    "/zero",
    "/data/moved",
    "/data/deep/five",
    "/v",
    "/v/in",
    "/empty",
    "/data/ring",
    "/data/heap",
];

/// Directories, files of each kind, a volume with a quota, a ring and a heap.
fn fill(server: &Server) {
    let files = server.files().expect("a way to it");
    files.make_directory("/data", 0o755).expect("a directory");
    files.make_directory("/old", 0o755).expect("a directory");
    files.rename("/old", "/data/deep", true).expect("it moves");
    let quota = Quota { hard_bytes: Some(Bytes::mib(50)), soft_files: Some(7), ..Quota::default() };
    let policy = Policy { raid: Raid::Five, unit: UNIT, targets: 5 };
    let (place, mode, owner, group) = (Place::path("v"), 0o755, 0, 0);
    change(server, Change::CreateVolume(CreateVolume { place, mode, owner, group, quota, policy }));
    let kinds = [
        ("/zero", Raid::Zero, 700_001),
        ("/one", Raid::One(2), 1_000_003),
        ("/data/deep/five", Raid::Five, 2_000_005),
        ("/v/in", Raid::Five, 300_007),
        ("/empty", Raid::Five, 0),
    ];
    for (path, raid, length) in kinds {
        let policy = Policy { raid, unit: UNIT, targets: 5 };
        let file = files.create(path, 0o644, Some(policy), Options::default()).expect("a file");
        if length > 0 {
            file.write_at(Bytes::ZERO, Slice::from(pattern(length, length as u64))).expect("it is taken");
        }
        file.close().expect("it is durable");
    }
    files.rename("/one", "/data/moved", true).expect("it moves");
    let attributes = SetAttributes {
        place: Place::path("data/moved"),
        mode: Some(0o600),
        owner: Some(7),
        group: None,
        size: None,
        modified: None,
        accessed: None,
    };
    change(server, Change::SetAttributes(attributes));
    let rings = files.cluster(Duration::from_secs(30));
    let spec = RingSpec { block: Bytes::kib(64), ..RingSpec::new("/data/ring", Bytes::mib(16)) };
    rings.create_ring(spec).expect("a ring");
    let heaps = rings.heaps();
    heaps.create("/data/heap", HeapSettings::default()).expect("a heap");
    let mut heap = heaps.open("/data/heap").expect("it is there");
    let root = heap.put(b"a record").expect("it is put");
    heap.commit(NewRoot::Record(root)).expect("it is committed");
}

fn made_anew(dir: &Path) -> Recovery {
    recover(dir, &[], false, |_| {}).expect("it is made anew")
}

/// All but when something was read last, which a reader changes.
fn as_told((entry, bytes): &(Entry, Vec<u8>)) -> (Entry, Vec<u8>) {
    let attributes = Attributes { accessed: entry.attributes.created, ..entry.attributes.clone() };
    (Entry { attributes, ..entry.clone() }, bytes.clone())
}

fn compare(before: &BTreeMap<String, (Entry, Vec<u8>)>, after: &BTreeMap<String, (Entry, Vec<u8>)>) {
    for (path, told) in before {
        let (old, new) = (as_told(told), as_told(&after[path]));
        assert_eq!(new.0, old.0, "{path}");
        assert!(new.1 == old.1, "{path}: other bytes");
    }
    assert_eq!(before.len(), after.len());
}

/// A cluster of five nodes whose metadata is gone, and what was answered of it.
struct Wiped {
    dir: tempfile::TempDir,
    dirs: Vec<PathBuf>,
    before: BTreeMap<String, (Entry, Vec<u8>)>,
    charged: Vec<Volume>,
}

fn wiped() -> Wiped {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let dirs = nodes(dir.path(), 5);
    let server = Server::start(dir.path(), &dirs, &options()).expect("it starts");
    fill(&server);
    let (before, charged) = (all(&server, &PATHS), volumes(&server));
    server.close().expect("it ends");
    std::fs::remove_file(dir.path().join(METADATA)).expect("it was there");
    Wiped { dir, dirs, before, charged }
}

#[test]
fn outcome_45_names_sizes_layouts_and_quotas_are_as_they_were_after_the_metadata_was_wiped() {
    let Wiped { dir, dirs, before, charged } = wiped();
    // Nobody makes an empty cluster over all of that.
    let refused = Server::start(dir.path(), &dirs, &options()).err().expect("it does not start");
    assert!(refused.kind == Kind::Missing && refused.message.contains("manager recover"), "{refused}");
    let Recovery { recovered, lost, behind, old, targets, .. } = made_anew(dir.path());
    assert_eq!((recovered.findings, lost.len(), behind, old), (vec![], 0, vec![], None));
    let counts = (recovered.files, recovered.directories, recovered.rings, recovered.heaps, recovered.volumes);
    assert_eq!(counts, (5, 3, 1, 1, 2));
    assert_eq!(targets.len(), 5);
    let server = Server::start(dir.path(), &dirs, &options()).expect("it starts");
    compare(&before, &all(&server, &PATHS));
    assert_eq!(volumes(&server), charged);
    // It is used on: what is there is written, and what is made has a number of its own.
    let files = server.files().expect("a way to it");
    let file = files.open_to_write("/data/deep/five", Options::default()).expect("it opens");
    file.write_at(Bytes(2_000_005), Slice::from_static(b"more")).expect("it is taken");
    file.close().expect("it is durable");
    let file = files.create("/new", 0o644, None, Options::default()).expect("a file");
    assert!(!before.values().any(|(entry, _)| entry.file == file.entry().file));
    file.close().expect("it closes");
    let key = key::read(server.key()).expect("a key");
    let reach = Reach { manager: server.control(), key, tls: None, patience: Duration::from_secs(30) };
    reach.files().expect("the new key opens it").stat("/new").expect("it is there");
    drop(files);
    server.close().expect("it ends");
}

#[test]
fn outcome_45_with_a_target_lost_as_well_what_has_to_spare_reads_as_it_was_and_what_has_not_is_named() {
    let Wiped { dir, dirs, before, charged } = wiped();
    // The node of the last one stays away.
    std::fs::remove_file(dirs[4].join("target.0")).expect("it was there");
    let Recovery { recovered, lost, .. } = made_anew(dir.path());
    assert_eq!(lost.len(), 1);
    assert_eq!(lost[0].0, dirs[4]);
    let found: BTreeMap<&str, bool> = recovered
        .findings
        .iter()
        .map(|it| match &it.what {
            What::Lacks { is_enough, components } if components.len() == 1 => (it.path.as_str(), *is_enough),
            other => panic!("{}: {other:?}", it.path),
        })
        .collect();
    for (path, enough) in [("/zero", false), ("/data/deep/five", true), ("/v/in", true)] {
        assert_eq!(found.get(path), Some(&enough), "{found:?}");
    }
    let server = Server::start(dir.path(), &dirs[..4], &options()).expect("it starts");
    let whole: Vec<&str> = PATHS.into_iter().filter(|path| found.get(path) != Some(&false)).collect();
    let mut before = before;
    let told = before.clone();
    before.retain(|path, _| whole.contains(&path.as_str()));
    compare(&before, &all(&server, &whole));
    assert_eq!(volumes(&server), charged);
    let files = server.files().expect("a way to it");
    assert_eq!(files.stat("/zero").expect("it has its name").attributes, told["/zero"].0.attributes);
    drop(files);
    server.close().expect("it ends");
}

#[test]
fn metadata_that_is_there_is_left_alone_unless_that_is_said_and_then_left_beside() {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let dirs = nodes(dir.path(), 1);
    let server = Server::start(dir.path(), &dirs, &options()).expect("it starts");
    server.files().expect("a way to it").make_directory("/data", 0o755).expect("a directory");
    let busy = recover(dir.path(), &[], true, |_| {}).expect_err("it is served");
    assert_eq!(busy.kind, Kind::Busy);
    server.close().expect("it ends");
    let path = dir.path().join(METADATA);
    let there = std::fs::read(&path).expect("it is there");
    let refused = recover(dir.path(), &[], false, |_| {}).expect_err("it is there");
    assert!(refused.kind == Kind::Exists && refused.message.contains("--over"), "{refused}");
    assert!(std::fs::read(&path).expect("it is there") == there);
    let Recovery { old, .. } = recover(dir.path(), &[], true, |_| {}).expect("it is made anew");
    assert!(std::fs::read(old.expect("it is left")).expect("it is there") == there);
    let server = Server::start(dir.path(), &dirs, &options()).expect("it starts");
    server.files().expect("a way to it").stat("/data").expect("it is there");
    server.close().expect("it ends");
}

#[test]
fn metadata_from_before_what_was_answered_last_are_refused_with_what_helps_however_often_they_are_started() {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let dirs = nodes(dir.path(), 2);
    let start = || Server::start(dir.path(), &dirs, &options());
    let make = |path: &str| {
        let server = start().expect("it starts");
        let files = server.files().expect("a way to it");
        files.make_directory(path, 0o755).expect("a directory");
        drop(files);
        server.close().expect("it ends");
    };
    make("/a");
    let metadata = dir.path().join(METADATA);
    let backup = std::fs::read(&metadata).expect("it is there");
    make("/b");
    std::fs::write(&metadata, backup).expect("it is put back");
    for _ in 0..3 {
        let refused = start().err().expect("it does not start");
        assert_eq!(refused.kind, Kind::Stale, "{refused}");
        for named in ["manager.redb is older than its copies on target", "manager recover --over --cluster"] {
            assert!(refused.message.contains(named), "{refused}");
        }
    }
    recover(dir.path(), &[], true, |_| {}).expect("it is made anew");
    let server = start().expect("it starts");
    let files = server.files().expect("a way to it");
    for path in ["/a", "/b"] {
        files.stat(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    drop(files);
    server.close().expect("it ends");
    // What is as new as its copies is opened, how ever it came there.
    let newest = std::fs::read(&metadata).expect("it is there");
    std::fs::write(&metadata, newest).expect("it is put back");
    make("/c");
}

#[test]
fn what_was_answered_is_in_the_copies_even_if_the_process_was_not_ended() {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let dirs = nodes(dir.path(), 2);
    let server = Server::start(dir.path(), &dirs, &options()).expect("it starts");
    let files = server.files().expect("a way to it");
    for n in 0..50 {
        files.make_directory(&format!("/d{n}"), 0o755).expect("a directory");
    }
    // The devices as they are at this moment, and no metadata.
    let other = tempfile::tempdir().expect("a directory for the test");
    for n in 1..=2 {
        let to = other.path().join(format!("node-{n}"));
        std::fs::create_dir(&to).expect("a directory");
        for name in ["cluster.toml", "target.0"] {
            std::fs::copy(dirs[n - 1].join(name), to.join(name)).expect("a copy");
        }
    }
    drop(files);
    server.close().expect("it ends");
    let Recovery { recovered, .. } = made_anew(other.path());
    assert_eq!((recovered.directories, recovered.findings), (50, vec![]));
}

/// Removes all copies of metadata from the targets of a node that is not served.
fn remove_copies(dir: &Path) {
    let owned = own(dir).expect("nobody serves it");
    let on = OnHosts::new([owned.host()]);
    let removed = real::run_network(move |_| async move {
        for target in on.targets() {
            let list = Ask::List { volume: VOLUME, from: 0, most: 1000, page: None };
            let Ok(ObjectAnswer { reply: ObjectReply::List { objects, .. }, .. }) = on.ask(target, list).await else {
                continue;
            };
            for copy in objects {
                on.ask(target, Ask::Remove { id: copy.id }).await.expect("it is removed");
            }
        }
    });
    removed.expect("it runs");
    owned.close().expect("it ends");
}

#[test]
fn outcome_45_without_any_copy_files_rings_and_heaps_are_made_of_what_targets_have_of_them() {
    let Wiped { dir, dirs, before, .. } = wiped();
    dirs.iter().for_each(|dir| remove_copies(dir));
    let Recovery { recovered, copy, .. } = made_anew(dir.path());
    assert_eq!(copy, None);
    // Of a file that is empty no component was ever made.
    let written = PATHS.into_iter().filter(|path| *path != "/empty");
    let kept: Vec<&str> = written.filter(|path| before[*path].0.attributes.kind != FileKind::Directory).collect();
    let found: BTreeMap<_, &str> = recovered.findings.iter().map(|it| (it.file, it.path.as_str())).collect();
    assert!(recovered.findings.iter().all(|it| it.what == What::Unknown), "{:?}", recovered.findings);
    let server = Server::start(dir.path(), &dirs, &options()).expect("it starts");
    for path in kept {
        let (entry, bytes) = &before[path];
        let now = found[&entry.file];
        let (kind, number) = (entry.attributes.kind, entry.file.0);
        let name = match kind {
            FileKind::Ring => "ring",
            FileKind::Heap => "heap",
            FileKind::File | FileKind::Directory => "file",
        };
        assert!(now.ends_with(&format!("/{name}-{number}")) && now.contains("lost+found"), "{path} is {now}");
        let there = &all(&server, &[now])[now];
        assert_eq!((there.0.attributes.kind, there.0.attributes.size), (kind, entry.attributes.size), "{path}");
        assert!(&there.1 == bytes, "{path}: other bytes");
    }
    // The ring takes elements.
    let ring = found[&before["/data/ring"].0.file];
    let cluster = server.files().expect("a way to it").cluster(Duration::from_secs(30));
    let mut recorder = cluster.recorder(ring).expect("it opens");
    recorder.element(Timestamp(1), &[b"an element"], &[]).expect("it is taken");
    recorder.close().expect("it is durable");
    assert_eq!(cluster.ring(ring).expect("it is there").next_sequence, 1);
    server.close().expect("it ends");
}
