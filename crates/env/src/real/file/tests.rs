use super::*;
use forebay_model::Kind;
use rustix::io::ReadWriteFlags;
use std::io::IoSliceMut;
use std::os::unix::fs::PermissionsExt;

#[test]
fn content_is_replaced_whole_and_leaves_no_draft() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("settings");
    replace(&path, b"one").unwrap();
    replace(&path, b"three").unwrap();
    assert_eq!(read_text(&path).unwrap(), "three");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    let error = replace(folder.path().join("missing/settings"), b"x").unwrap_err();
    assert_eq!(error.kind, Kind::Missing);
}

#[test]
fn files_are_created_and_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    File::create(&path).unwrap().write_all(b"a").unwrap();
    let mut file = File::open(&path).unwrap();
    assert_eq!(file.size().unwrap(), Bytes(1));
    let mut content = String::new();
    file.read_to_string(&mut content).unwrap();
    assert_eq!(content, "a");
    drop(File::create(&path).unwrap());
    assert_eq!(read(&path).unwrap(), b"");
}

#[test]
fn missing_things_are_missing() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("missing");
    assert!(!exists(&path) && !is_directory(&path));
    assert!(!remove(&path).unwrap());
    for error in [
        File::open(&path).unwrap_err(),
        read(&path).unwrap_err(),
        absolute(&path).unwrap_err(),
        available(&path).unwrap_err(),
    ] {
        assert_eq!(error.kind, Kind::Missing);
        assert!(error.message.contains("missing"), "{error}");
    }
}

#[test]
fn directories_come_and_go() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("folder");
    make_directory(folder.join("a/b")).unwrap();
    std::os::unix::fs::symlink("b", folder.join("a/link")).unwrap();
    assert_eq!(absolute(folder.join("a/link")).unwrap(), absolute(folder.join("a/b")).unwrap());
    assert!(available(&folder).unwrap() > Bytes(0));
    remove_directory(&folder).unwrap();
    assert!(!exists(&folder));
}

#[test]
fn a_lock_has_one_holder_and_passes_on() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("lock");
    let first = Lock::try_take(&path).unwrap().unwrap();
    assert!(Lock::try_take(&path).unwrap().is_none());
    drop(first);
    let second = Lock::try_take(&path).unwrap().unwrap();
    assert!(Lock::try_take(&path).unwrap().is_none());
    drop(second);
    assert!(Lock::try_take(&path).unwrap().is_some());
}

#[test]
fn a_secret_is_there_as_a_whole_or_not_at_all_and_only_where_nothing_was() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("root.key");
    // What a power cut left of one that was never there.
    std::fs::write(folder.path().join("root.key.1.0123456789abcdef"), b"torn").unwrap();
    let content = vec![7; 32 << 20];
    std::thread::scope(|scope| {
        let made = scope.spawn(|| create_secret(&path, &content));
        while !made.is_finished() {
            if let Ok(there) = std::fs::metadata(&path) {
                assert_eq!(there.len(), content.len() as u64, "a part of it is there");
            }
        }
        made.join().unwrap().unwrap();
    });
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(create_secret(&path, b"another").unwrap_err().kind, Kind::Exists);
    assert!(read(&path).unwrap() == content);
    let missing = create_secret(folder.path().join("not/there"), b"x").unwrap_err();
    assert_eq!(missing.kind, Kind::Missing);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 2, "a draft is left");
}

/// Whether the kernel has a part of a file in memory; nothing if it does not say so here.
fn is_cached(file: &std::fs::File) -> Option<bool> {
    let mut bytes = [0; 4096];
    match rustix::io::preadv2(file, &mut [IoSliceMut::new(&mut bytes)], 64 << 10, ReadWriteFlags::NOWAIT) {
        Ok(_) => Some(true),
        Err(Errno::AGAIN) => Some(false),
        Err(_) => None,
    }
}

#[test]
fn what_is_cached_of_a_file_is_forgotten_and_read_from_its_device() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metadata");
    assert_eq!(forget_cached(&path).unwrap_err().kind, Kind::Missing);
    // Not synced: what is not written yet is written first, and not lost.
    std::fs::write(&path, vec![7; 1 << 20]).unwrap();
    let file = std::fs::File::open(&path).unwrap();
    let before = is_cached(&file);
    forget_cached(&path).unwrap();
    let is_on_disk = rustix::fs::fstatfs(&file).unwrap().f_type != libc::TMPFS_MAGIC as _;
    match before {
        Some(true) if is_on_disk => assert_eq!(is_cached(&file), Some(false)),
        _ => println!("skipped: nothing says here what is cached"),
    }
    assert!(read(&path).unwrap() == [7; 1 << 20]);
}
