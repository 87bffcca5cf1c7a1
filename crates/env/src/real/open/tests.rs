use super::*;
use crate::device::Device;
use crate::real::UringDevice;
use forebay_model::Kind;
use std::io::{BufRead, BufReader, Read};
use std::process::{Command, Stdio};

fn folder() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

fn refusal(result: Result<Opened>) -> Error {
    result.err().expect("it was opened")
}

#[test]
fn a_created_file_has_its_space_and_is_ours_alone() {
    let folder = folder();
    let path = folder.path().join("target");
    let opened = create_file(&path, Bytes::mib(3) + Bytes(5000)).unwrap();
    assert_eq!(opened.geometry().size, Bytes::mib(3) + Bytes(4096));
    assert_eq!(opened.geometry().name, path.display().to_string());
    let metadata = std::fs::metadata(&path).unwrap();
    assert!(metadata.blocks() * 512 >= metadata.len(), "its space is not set aside");
    assert_eq!(metadata.mode() & 0o777, 0o600);

    let error = refusal(open(&path, OpenMode::Exclusive));
    assert_eq!(error.kind, Kind::Busy);
    assert!(error.message.contains("in use"), "{error}");
    assert_eq!(open(&path, OpenMode::Inspect).unwrap().mode(), OpenMode::Inspect);
    drop(opened);
    assert_eq!(open(&path, OpenMode::Exclusive).unwrap().mode(), OpenMode::Exclusive);
}

#[test]
fn one_that_stays_in_use_is_waited_for_as_long_as_is_wished_and_told_why() {
    let folder = folder();
    let path = folder.path().join("target");
    drop(create_file(&path, Bytes::mib(2)).unwrap());
    // As the last I/O of a process that was killed has it.
    let mut holding = Some(File::open(&path).unwrap());
    holding.as_ref().unwrap().lock().unwrap();
    let mut asked = 0;
    let refused = refusal(open_waiting(&path, OpenMode::Exclusive, |held| {
        asked += 1;
        assert!(held.message.contains("target is in use"), "{held}");
        asked < 3
    }));
    assert_eq!((refused.kind, asked), (Kind::Busy, 3));
    assert!(refused.message.contains("or I/O of one that was killed has not ended"), "{refused}");
    let opened = open_waiting(&path, OpenMode::Exclusive, |_| {
        drop(holding.take());
        true
    });
    assert_eq!(opened.unwrap().mode(), OpenMode::Exclusive);
}

#[test]
fn what_exists_is_not_created_again() {
    let folder = folder();
    let path = folder.path().join("target");
    std::fs::write(&path, "precious").unwrap();
    assert_eq!(refusal(create_file(&path, Bytes::mib(1))).kind, Kind::Exists);
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("nowhere", &link).unwrap();
    assert_eq!(refusal(create_file(&link, Bytes::mib(1))).kind, Kind::Exists);
}

#[test]
fn more_than_the_file_system_has_is_refused_with_both_numbers_and_leaves_nothing() {
    let folder = folder();
    let path = folder.path().join("target");
    let size = Bytes::gib(1 << 22);
    let error = refusal(create_file(&path, size));
    assert_eq!(error.kind, Kind::Full);
    assert!(error.message.contains(&format!("{} bytes", size.0)) && error.message.contains("free"), "{error}");
    assert!(!path.exists());
}

#[test]
fn of_a_file_that_is_there_the_space_that_it_lacks_is_set_aside_and_what_is_in_it_stays() {
    let folder = folder();
    let path = folder.path().join("sparse");
    let made = File::create(&path).unwrap();
    made.set_len(4 << 20).unwrap();
    made.write_all_at(b"precious", 1 << 20).unwrap();
    made.sync_all().unwrap();
    open(&path, OpenMode::Exclusive).unwrap().set_space_aside().unwrap();
    let metadata = std::fs::metadata(&path).unwrap();
    assert_eq!(metadata.len(), 4 << 20);
    assert!(metadata.blocks() * 512 >= metadata.len(), "its space is not set aside");
    assert_eq!(&std::fs::read(&path).unwrap()[1 << 20..][..8], b"precious");

    // More than there is: nothing of it is taken.
    let path = folder.path().join("larger");
    let room = available(folder.path()).unwrap();
    if File::create(&path).unwrap().set_len(room.0 + (1 << 40)).is_err() {
        println!("skipped: no file can be as large as that here");
        return;
    }
    let before = std::fs::metadata(&path).unwrap().blocks();
    let error = open(&path, OpenMode::Exclusive).unwrap().set_space_aside().unwrap_err();
    assert!(error.kind == Kind::Full && error.message.contains("larger"), "{error}");
    assert_eq!(std::fs::metadata(&path).unwrap().blocks(), before);
}

#[test]
fn nonsense_is_refused_by_name() {
    let folder = folder();
    let missing = folder.path().join("missing");
    assert_eq!(refusal(open(&missing, OpenMode::Exclusive)).kind, Kind::Missing);
    assert_eq!(refusal(create_file(missing.join("target"), Bytes::mib(1))).kind, Kind::Missing);

    let error = refusal(open(folder.path(), OpenMode::Exclusive));
    assert_eq!(error.kind, Kind::Usage);
    assert!(error.message.contains("a directory"), "{error}");
    assert!(refusal(open("/dev/null", OpenMode::Exclusive)).message.contains("neither a block device nor a file"));

    let small = folder.path().join("small");
    std::fs::write(&small, [0; 8192]).unwrap();
    let error = refusal(open(&small, OpenMode::Exclusive));
    assert_eq!(error.kind, Kind::Usage);
    assert!(error.message.contains("too small") && error.message.contains("8 KiB"), "{error}");
    assert!(refusal(create_file(folder.path().join("new"), Bytes::kib(64))).message.contains("too small"));
    assert!(!folder.path().join("new").exists());
}

/// Runs `body` with mounts of its own; false, and a word about it, if that cannot be had.
fn with_own_mounts(body: impl FnOnce() + Send + 'static) -> bool {
    std::thread::spawn(move || {
        // SAFETY: affects this thread only, which ends after the body.
        if unsafe { libc::unshare(libc::CLONE_NEWNS) } != 0 || !shell("mount --make-rprivate /") {
            println!("skipped: no mounts of our own can be had here");
            return false;
        }
        body();
        true
    })
    .join()
    .unwrap()
}

fn shell(command: &str) -> bool {
    Command::new("sh").args(["-c", command]).stdout(Stdio::null()).status().is_ok_and(|status| status.success())
}

#[test]
fn a_full_file_system_ends_the_creation_cleanly() {
    let folder = folder();
    let point = folder.path().to_path_buf();
    with_own_mounts(move || {
        assert!(shell(&format!("mount -t tmpfs -o size=4m none {}", point.display())));
        let path = point.join("target");
        let make = || {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).custom_flags(libc::O_DIRECT).open(&path)
        };
        let Ok(file) = make() else {
            println!("skipped: tmpfs has no direct I/O here");
            return;
        };
        let name = path.display().to_string();
        // The space vanishes between asking and taking.
        let error = refusal(fill(file, &name, Bytes::mib(8), &point));
        assert_eq!(error.kind, Kind::Full);
        std::fs::remove_file(&path).unwrap();

        let error = write_zeros(&make().unwrap(), &name, Bytes::mib(8), &point).unwrap_err();
        assert_eq!(error.kind, Kind::Full);
        std::fs::remove_file(&path).unwrap();
        write_zeros(&make().unwrap(), &name, Bytes::mib(2) + Bytes(4096), &point).unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().len(), (2 << 20) + 4096);
        std::fs::remove_file(&path).unwrap();

        let opened = create_file(&path, Bytes::mib(2)).unwrap();
        assert_eq!(opened.geometry().size, Bytes::mib(2));
    });
}

#[test]
fn a_mounted_device_is_refused_with_the_place() {
    let folder = folder();
    let disk = folder.path().join("disk");
    drop(create_file(&disk, Bytes::mib(16)).unwrap());
    let point = folder.path().join("mount point");
    std::fs::create_dir(&point).unwrap();
    with_own_mounts(move || {
        let (disk, place) = (disk.display(), point.display());
        if !shell(&format!("mkfs.ext4 -q -F {disk}")) || !shell(&format!("mount -o loop {disk} '{place}'")) {
            println!("skipped: no loop device with a file system can be had here");
            return;
        }
        let output = Command::new("findmnt").args(["--noheadings", "--output", "SOURCE"]).arg(&point).output().unwrap();
        let device = String::from_utf8(output.stdout).unwrap().trim().to_string();
        let error = refusal(open(&device, OpenMode::Exclusive));
        assert_eq!(error.kind, Kind::Busy);
        assert!(error.message.contains(&format!("is mounted at {place}")), "{error}");
        drop(open(&device, OpenMode::Inspect).unwrap());
        assert!(shell(&format!("umount '{place}'")));
    });
}

#[test]
fn after_a_kill_the_device_is_free_once_its_last_write_has_ended() {
    let folder = folder();
    let path = folder.path().join("target");
    drop(create_file(&path, Bytes::mib(64)).unwrap());
    for _ in 0..5 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "real::open::tests::a_process_that_writes_until_killed", "--ignored", "--nocapture"])
            .env("FOREBAY_TEST_DEVICE", &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().contains("writing")), "the child has not come to write");
        child.kill().unwrap();
        child.wait().unwrap();
        let device = UringDevice::new(open(&path, OpenMode::Exclusive).unwrap()).unwrap();
        assert_eq!(device.geometry().size, Bytes::mib(64));
    }
}

#[test]
#[ignore = "is killed by another test"]
fn a_process_that_writes_until_killed() {
    let Some(path) = std::env::var_os("FOREBAY_TEST_DEVICE") else { return };
    let opened = open(path, OpenMode::Exclusive).unwrap();
    crate::real::run(crate::real::Options { device: opened }, |env| async move {
        let slab = crate::Slab::new(Bytes::mib(1), 64).unwrap();
        for index in 0.. {
            drop(env.device.write(Bytes::mib(index % 64), slab.take().await));
            if index == 100 {
                println!("writing");
            }
        }
    })
    .unwrap();
    // Not reached, and if it were, not silently.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}
