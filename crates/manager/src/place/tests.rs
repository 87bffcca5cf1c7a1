use super::check_name;
use crate::principal::Principal;
use crate::testing::{Stage, create, entry, root, unchanged, user};
use forebay_model::{Bytes, Kind};
use forebay_wire::control::names::{
    FileId, MOST_DEPTH, MakeDirectory, Place, RemoveDirectory, RemoveFile, Rename, SetAttributes,
};
use forebay_wire::control::volumes::{CreateVolume, Policy, Quota, RemoveVolume};
use forebay_wire::control::{Change, Reply};

fn rename(from: &str, to: &str) -> Change {
    Change::Rename(Rename { from: Place::path(from), to: Place::path(to), exclusive: false })
}

fn remove(path: &str) -> Change {
    Change::RemoveFile(RemoveFile::at(Place::path(path)))
}

fn remove_directory(path: &str) -> Change {
    Change::RemoveDirectory(RemoveDirectory { place: Place::path(path) })
}

fn set_mode(path: &str, mode: u32) -> Change {
    Change::SetAttributes(SetAttributes { mode: Some(mode), ..unchanged(Place::path(path)) })
}

/// Outcome 14: names never lead out of the tree, and none is mended.
#[test]
fn bad_names_are_refused_and_never_mended() {
    let mut stage = Stage::new();
    stage.directory(&root(), "a", 0o755).unwrap();
    let long = "n".repeat(256);
    let longest = "n".repeat(255);
    let deep = vec!["a"; MOST_DEPTH + 1].join("/");
    let far = "a/".repeat(2048) + "a";
    for bad in ["a/../a", "..", ".", "a/.", "a//b", "//a", "a/", "a/b\0", &long, &deep, &far] {
        let shown = bad.escape_debug();
        assert_eq!(stage.file(&root(), bad, 0o644).unwrap_err().kind, Kind::Usage, "made {shown}");
        assert_eq!(stage.stat(&root(), Place::path(bad)).unwrap_err().kind, Kind::Usage, "found {shown}");
        assert_eq!(stage.root(rename("a", bad)).unwrap_err().kind, Kind::Usage, "renamed to {shown}");
    }
    assert_eq!(stage.stat(&root(), Place::entry(FileId(2), "/a")).unwrap_err().kind, Kind::Usage);
    assert!(check_name("a/b").unwrap_err().message.contains("slash"));
    for good in [&longest, "%2e%2e", "a b", "\u{e9}", "...", "-"] {
        let file = stage.file(&root(), good, 0o644).unwrap();
        assert_eq!(stage.stat(&root(), Place::path(good)).unwrap().file, file);
        assert_eq!(stage.stat(&root(), Place::path(format!("/{good}"))).unwrap().file, file);
        assert_eq!(stage.stat(&root(), Place::entry(FileId::ROOT, good)).unwrap().file, file);
    }
    assert_eq!(stage.stat(&root(), Place::path("/")).unwrap().file, FileId::ROOT);
    assert_eq!(stage.stat(&root(), Place::path("")).unwrap().file, FileId::ROOT);
}

#[test]
fn what_is_not_there_and_what_is_no_directory_are_told_apart() {
    let mut stage = Stage::new();
    stage.file(&root(), "file", 0o644).unwrap();
    for (path, kind) in [("none", Kind::Missing), ("none/x", Kind::Missing), ("file/x", Kind::Usage)] {
        assert_eq!(stage.stat(&root(), Place::path(path)).unwrap_err().kind, kind, "{path}");
        let expected = if path == "none" { None } else { Some(kind) };
        assert_eq!(stage.directory(&root(), path, 0o755).err().map(|error| error.kind), expected, "{path}");
        stage.root(remove_directory("none")).ok();
    }
    assert_eq!(stage.stat(&root(), Place::of(FileId(99))).unwrap_err().kind, Kind::Missing);
    assert_eq!(stage.root(remove_directory("file")).unwrap_err().kind, Kind::Usage);
    assert_eq!(stage.root(remove("/")).unwrap_err().kind, Kind::Usage);
    stage.directory(&root(), "directory", 0o755).unwrap();
    assert_eq!(stage.root(remove("directory")).unwrap_err().kind, Kind::Usage);
    assert_eq!(stage.file(&root(), "file", 0o644).unwrap_err().kind, Kind::Exists);
}

#[test]
fn each_directory_on_the_way_has_to_allow_a_search_also_if_one_begins_below_it() {
    let mut stage = Stage::new();
    let (owner, other) = (user(5), user(6));
    stage.directory(&root(), "top", 0o777).unwrap();
    stage.directory(&owner, "top/private", 0o700).unwrap();
    let inner = stage.directory(&owner, "top/private/inner", 0o777).unwrap();
    let file = stage.file(&owner, "top/private/inner/file", 0o666).unwrap();
    for place in [
        Place::path("top/private/inner/file"),
        Place::entry(inner, "file"),
        Place::of(file),
        Place::of(inner),
        Place::path("top/private/none"),
    ] {
        assert_eq!(stage.stat(&other, place.clone()).unwrap_err().kind, Kind::Forbidden, "{place:?}");
        if place.path != "top/private/none" {
            assert!(stage.stat(&owner, place.clone()).is_ok() && stage.stat(&root(), place).is_ok());
        }
    }
    // The right to search alone finds names, and does not list them.
    stage.change(&owner, set_mode("top/private", 0o711)).unwrap();
    assert_eq!(stage.stat(&other, Place::of(file)).unwrap().file, file);
    stage.change(&owner, set_mode("top/private", 0o744)).unwrap();
    assert_eq!(stage.stat(&other, Place::of(file)).unwrap_err().kind, Kind::Forbidden);
}

#[test]
fn a_directory_is_never_moved_into_itself_and_a_full_one_never_replaced() {
    let mut stage = Stage::new();
    for path in ["a", "a/b", "a/b/c", "x"] {
        stage.directory(&root(), path, 0o755).unwrap();
    }
    let file = stage.file(&root(), "file", 0o644).unwrap();
    for to in ["a/z", "a/b/z", "a/b/c/z"] {
        assert_eq!(stage.root(rename("a", to)).unwrap_err().kind, Kind::Usage, "{to}");
    }
    assert_eq!(stage.root(rename("x", "a")).unwrap_err().kind, Kind::Refused);
    assert_eq!(stage.root(rename("a", "file")).unwrap_err().kind, Kind::Usage);
    assert_eq!(stage.root(rename("file", "a")).unwrap_err().kind, Kind::Usage);
    assert_eq!(stage.root(rename("a/b", "a")).unwrap_err().kind, Kind::Refused);
    assert_eq!(stage.root(rename("none", "new")).unwrap_err().kind, Kind::Missing);
    // To its own name, it stays; and an empty directory is replaced.
    stage.root(rename("a", "a")).unwrap();
    stage.root(rename("a", "x")).unwrap();
    let moved = entry(stage.root(rename("file", "x/b/c/file")).unwrap());
    assert_eq!(moved.file, file);
    assert_eq!(stage.stat(&root(), Place::path("x/b/c/file")).unwrap(), moved);
    let other = stage.file(&root(), "other", 0o644).unwrap();
    let exclusive = Rename { from: Place::path("other"), to: Place::path("x/b/c/file"), exclusive: true };
    assert_eq!(stage.root(Change::Rename(exclusive)).unwrap_err().kind, Kind::Exists);
    stage.root(rename("other", "x/b/c/file")).unwrap();
    assert_eq!(stage.stat(&root(), Place::path("x/b/c/file")).unwrap().file, other);
    assert_eq!(stage.stat(&root(), Place::of(file)).unwrap_err().kind, Kind::Missing);
    assert_eq!(stage.root(remove_directory("x")).unwrap_err().kind, Kind::Refused);
}

#[test]
fn only_who_may_write_a_directory_changes_its_names_and_only_owners_if_it_is_sticky() {
    let mut stage = Stage::new();
    let (owner, other) = (user(5), user(6));
    stage.directory(&root(), "shared", 0o1777).unwrap();
    stage.directory(&root(), "closed", 0o755).unwrap();
    stage.file(&owner, "shared/file", 0o666).unwrap();
    assert_eq!(stage.file(&owner, "closed/file", 0o666).unwrap_err().kind, Kind::Forbidden);
    assert_eq!(stage.directory(&owner, "closed/new", 0o777).unwrap_err().kind, Kind::Forbidden);
    assert_eq!(stage.change(&other, remove("shared/file")).unwrap_err().kind, Kind::Forbidden);
    assert_eq!(stage.change(&other, rename("shared/file", "shared/x")).unwrap_err().kind, Kind::Forbidden);
    assert_eq!(stage.change(&owner, rename("shared/file", "closed/x")).unwrap_err().kind, Kind::Forbidden);
    stage.file(&other, "shared/theirs", 0o666).unwrap();
    assert_eq!(stage.change(&other, rename("shared/theirs", "shared/file")).unwrap_err().kind, Kind::Forbidden);
    stage.root(set_mode("shared", 0o777)).unwrap();
    stage.change(&other, remove("shared/file")).unwrap();
}

#[test]
fn attributes_are_changed_by_those_who_may_in_posix() {
    let mut stage = Stage::new();
    let (owner, other) = (user(5), user(6));
    stage.directory(&root(), "d", 0o777).unwrap();
    stage.file(&owner, "d/file", 0o6660).unwrap();
    let set = |owner: Option<u32>, group: Option<u32>, size: Option<u64>, mode: Option<u32>| {
        let size = size.map(Bytes);
        let place = Place::path("d/file");
        Change::SetAttributes(SetAttributes { mode, owner, group, size, ..unchanged(place) })
    };
    let kind = |result: forebay_model::Result<Reply>| result.unwrap_err().kind;
    assert_eq!(kind(stage.change(&other, set(None, None, None, Some(0o777)))), Kind::Forbidden);
    assert_eq!(kind(stage.change(&owner, set(Some(6), None, None, None))), Kind::Forbidden);
    assert_eq!(kind(stage.change(&owner, set(None, Some(6), None, None))), Kind::Forbidden);
    assert_eq!(kind(stage.change(&other, set(None, None, Some(9), None))), Kind::Forbidden);
    assert_eq!(kind(stage.change(&owner, set(None, None, Some((1 << 60) + 1), None))), Kind::Usage);
    assert_eq!(kind(stage.change(&owner, set(None, None, None, Some(0o10000)))), Kind::Usage);
    let changed = entry(stage.change(&owner, set(None, Some(50), None, None)).unwrap()).attributes;
    // Whoever gives a file another group does not give away who runs it.
    assert_eq!((changed.group, changed.mode), (50, 0o660));
    let changed = entry(stage.change(&other, set(None, None, Some(9), None)).unwrap()).attributes;
    assert_eq!(changed.size, Bytes(9));
    let changed = entry(stage.root(set(Some(6), Some(6), None, None)).unwrap()).attributes;
    assert_eq!((changed.owner, changed.group), (6, 6));
    assert_eq!(kind(stage.change(&owner, set(None, None, Some(1), None))), Kind::Forbidden);
}

#[test]
fn directories_are_made_so_deep_and_no_deeper() {
    let mut stage = Stage::new();
    let by = user(5);
    let mut at = FileId::ROOT;
    stage.root(set_mode("", 0o777)).unwrap();
    let make = |stage: &mut Stage, at: FileId, by: &Principal| {
        let change = Change::MakeDirectory(MakeDirectory { place: Place::entry(at, "d"), mode: 0o777 });
        stage.change(by, change).map(entry)
    };
    for _ in 0..MOST_DEPTH - 1 {
        at = make(&mut stage, at, &by).unwrap().file;
    }
    let error = make(&mut stage, at, &by).unwrap_err();
    assert_eq!(error.kind, Kind::Usage);
    assert!(error.message.contains("256"), "{error}");
    assert_eq!(stage.stat(&by, Place::of(at)).unwrap().file, at);
    let path = vec!["d"; MOST_DEPTH - 1].join("/");
    assert_eq!(stage.stat(&by, Place::path(path)).unwrap().file, at);
}

#[test]
fn a_volume_is_a_directory_that_only_root_makes_and_nothing_is_moved_across() {
    let mut stage = Stage::new();
    let make = |path: &str| {
        let (quota, policy) = (Quota::default(), Policy::default());
        let place = Place::path(path);
        Change::CreateVolume(CreateVolume { place, mode: 0o777, owner: 5, group: 5, quota, policy })
    };
    let unmake = |path: &str| Change::RemoveVolume(RemoveVolume { place: Place::path(path) });
    assert_eq!(stage.change(&user(5), make("v")).unwrap_err().kind, Kind::Forbidden);
    let Reply::Volume(volume) = stage.root(make("v")).unwrap() else { panic!("no volume") };
    assert_eq!((volume.volume, volume.files), (2, 1));
    assert_eq!(stage.root(make("v")).unwrap_err().kind, Kind::Exists);
    let file = stage.file(&user(5), "v/file", 0o644).unwrap();
    assert_eq!(stage.stat(&root(), Place::of(file)).unwrap().attributes.volume, 2);
    assert_eq!(stage.root(rename("v/file", "file")).unwrap_err().kind, Kind::Refused);
    assert_eq!(stage.root(remove_directory("v")).unwrap_err().kind, Kind::Usage);
    assert_eq!(stage.root(unmake("v")).unwrap_err().kind, Kind::Refused);
    assert_eq!(stage.root(unmake("/")).unwrap_err().kind, Kind::Usage);
    // The directory itself has a name like any other.
    stage.root(rename("v", "w")).unwrap();
    stage.root(remove("w/file")).unwrap();
    stage.root(create("plain", 0o644)).unwrap();
    assert_eq!(stage.root(unmake("plain")).unwrap_err().kind, Kind::Usage);
    stage.root(unmake("w")).unwrap();
    let Reply::Volume(next) = stage.root(make("v")).unwrap() else { panic!("no volume") };
    assert_eq!(next.volume, 3, "no number is given twice");
}
