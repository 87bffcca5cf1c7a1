use super::*;
use forebay_model::Kind;

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
