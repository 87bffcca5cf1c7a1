use super::service::{DEPTHS, Service, best_ring};
use super::*;
use crate::buffer::Slab;
use crate::real::reactor::drive;
use crate::real::{Options, create_file, open, run, run_on};
use crate::{conformance, real};
use forebay_model::Kind;
use std::path::Path;
use std::process::Command;

/// The suite, with chance that can be replayed.
async fn suite(mut env: crate::Env) -> conformance::Report {
    env.random = Rc::new(crate::random::seeded::Seeded::announced("conformance"));
    conformance::run(env).await
}

fn file(size: Bytes) -> (tempfile::TempDir, Opened) {
    let folder = tempfile::tempdir().unwrap();
    let opened = create_file(folder.path().join("device"), size).unwrap();
    (folder, opened)
}

#[test]
fn a_preallocated_file_keeps_all_that_a_device_promises() {
    let (_folder, opened) = file(Bytes::mib(32));
    let report = run(Options { device: opened }, suite).unwrap();
    report.assert();
    assert_eq!(report.held.len(), conformance::CHECKS.len());
}

/// A loop device over a file, as a raw block device; detached when dropped.
struct Loop(String);

impl Loop {
    fn over(path: &Path) -> Option<Loop> {
        let output = Command::new("losetup").args(["--find", "--show", "--direct-io=on"]).arg(path).output();
        match output {
            Ok(output) if output.status.success() => {
                Some(Loop(String::from_utf8_lossy(&output.stdout).trim().to_string()))
            }
            Ok(output) => skip(&String::from_utf8_lossy(&output.stderr)),
            Err(e) => skip(&e.to_string()),
        }
    }
}

fn skip(why: &str) -> Option<Loop> {
    println!("skipped: no loop device can be had here: {}", why.trim());
    None
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &self.0]).status();
    }
}

#[test]
fn a_block_device_keeps_all_that_a_device_promises_and_is_ours_alone() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    drop(create_file(&path, Bytes::mib(32)).unwrap());
    let Some(device) = Loop::over(&path) else { return };
    let opened = open(&device.0, OpenMode::Exclusive).unwrap();
    assert_eq!(opened.geometry().size, Bytes::mib(32));
    let refused = open(&device.0, OpenMode::Exclusive).err().unwrap();
    assert_eq!(refused.kind, Kind::Busy);
    assert!(refused.message.contains("in use"), "{refused}");
    run(Options { device: opened }, suite).unwrap().assert();
    // Free again as soon as the loop has ended.
    drop(open(&device.0, OpenMode::Exclusive).unwrap());
}

#[test]
fn slabs_are_registered_and_forgotten_when_nobody_holds_them() {
    let (_folder, opened) = file(Bytes::mib(4));
    run_on(Options { device: opened }, |env, device| async move {
        let first = Slab::new(Bytes::kib(8), 4).unwrap();
        let (buffer, result) = env.device.read(Bytes(0), first.try_take().unwrap()).await;
        result.unwrap();
        let registration = device.registered();
        if registration.reason.is_some() {
            println!("skipped: the kernel registers no buffers here: {registration:?}");
            return;
        }
        assert_eq!(registration.registered, Bytes::kib(32));
        drop((buffer, first));
        let second = Slab::new(Bytes::kib(4), 2).unwrap();
        env.device.read(Bytes(0), second.try_take().unwrap()).await.1.unwrap();
        assert_eq!(device.registered().registered, Bytes::kib(8));
        // A buffer of its own is not worth it.
        env.device.read(Bytes(0), Buffer::alone(Bytes::kib(4)).unwrap()).await.1.unwrap();
        assert_eq!(device.registered().registered, Bytes::kib(8));
        assert_eq!(device.registered().refused, Bytes(0));
    })
    .unwrap();
}

#[test]
fn more_slabs_than_the_kernel_has_slots_for_work_all_the_same() {
    let (_folder, opened) = file(Bytes::mib(4));
    run_on(Options { device: opened }, |env, device| async move {
        let slabs: Vec<Slab> = (0..300).map(|_| Slab::new(Bytes::kib(4), 2).unwrap()).collect();
        for (index, slab) in slabs.iter().enumerate() {
            let mut buffer = slab.try_take().unwrap();
            buffer.fill(index as u8);
            env.device.write(Bytes::kib(4) * index as u64, buffer).await.1.unwrap();
        }
        for (index, slab) in slabs.iter().enumerate() {
            let (buffer, result) = env.device.read(Bytes::kib(4) * index as u64, slab.try_take().unwrap()).await;
            result.unwrap();
            assert!(buffer.iter().all(|b| *b == index as u8));
        }
        let registration = device.registered();
        assert!(registration.refused > Bytes(0) && registration.reason.is_some(), "{registration:?}");
    })
    .unwrap();
}

#[test]
fn io_under_way_ends_and_frees_its_buffer_when_the_loop_ends() {
    let (folder, opened) = file(Bytes::mib(8));
    let slab = Slab::new(Bytes::mib(1), 8).unwrap();
    let lent = slab.clone();
    run(Options { device: opened }, |env| async move {
        for index in 0..8 {
            let mut buffer = lent.try_take().unwrap();
            buffer.fill(0x5a);
            drop(env.device.write(Bytes::mib(index), buffer));
        }
    })
    .unwrap();
    assert_eq!(slab.available(), 8);
    let content = std::fs::read(folder.path().join("device")).unwrap();
    assert!(content.iter().all(|b| *b == 0x5a));
}

#[test]
fn an_inspected_device_is_read_and_never_written() {
    let (folder, opened) = file(Bytes::mib(1));
    let inspected = open(folder.path().join("device"), OpenMode::Inspect).unwrap();
    drop(opened);
    run(Options { device: inspected }, |env| async move {
        env.device.read(Bytes(0), Buffer::alone(Bytes::kib(4)).unwrap()).await.1.unwrap();
        let refused = env.device.write(Bytes(0), Buffer::alone(Bytes::kib(4)).unwrap()).await.1.unwrap_err();
        assert_eq!(refused.kind, Kind::Usage);
    })
    .unwrap();
}

#[test]
fn a_failed_read_names_the_device_the_place_and_the_cause() {
    let (folder, opened) = file(Bytes::mib(2));
    // The file loses its second half behind the device's back.
    std::fs::OpenOptions::new().write(true).open(folder.path().join("device")).unwrap().set_len(1 << 20).unwrap();
    let error = run(Options { device: opened }, |env| async move {
        env.device.read(Bytes::kib(1020), Buffer::alone(Bytes::kib(8)).unwrap()).await.1.unwrap_err()
    })
    .unwrap();
    assert_eq!(error.kind, Kind::Device);
    for part in ["reading 8192 bytes", "offset 1044480", "device", "after 4096 bytes"] {
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn a_kernel_error_becomes_a_device_error_with_its_number() {
    let (_folder, opened) = file(Bytes::mib(1));
    let geometry = opened.geometry().clone();
    let reply = Rc::new(RefCell::new(Reply::Waiting(None)));
    let buffer = Some(Buffer::alone(Bytes::kib(8)).unwrap());
    let mut flight = Flight { action: Action::Write, offset: 4096, buffer, slot: None, done: 0, attempts: 0, reply };
    let Step::Ended(Err(error)) = flight.advance(-libc::EIO, &geometry) else { panic!("not an error") };
    assert_eq!(error.kind, Kind::Device);
    assert!(error.message.contains("writing 8192 bytes at offset 4096") && error.message.contains("os error 5"));
    // Short transfers go on where they ended; what makes no sense is an error.
    assert!(matches!(flight.advance(4096, &geometry), Step::Again));
    assert_eq!(flight.done, 4096);
    assert!(matches!(flight.advance(-libc::EAGAIN, &geometry), Step::Again));
    assert!(matches!(flight.advance(1, &geometry), Step::Ended(Err(_))));
    assert!(matches!(flight.advance(0, &geometry), Step::Ended(Err(_))));
    assert!(matches!(flight.advance(4096, &geometry), Step::Ended(Ok(()))));
}

#[test]
fn what_had_no_memory_is_tried_again_unless_it_flushes() {
    let (_folder, opened) = file(Bytes::mib(1));
    let geometry = opened.geometry().clone();
    for (action, is_again) in
        [(Action::Read, true), (Action::Write, true), (Action::WriteDurable, false), (Action::Flush, false)]
    {
        let reply = Rc::new(RefCell::new(Reply::Waiting(None)));
        let buffer = (action != Action::Flush).then(|| Buffer::alone(Bytes::kib(8)).unwrap());
        let mut flight = Flight { action, offset: 4096, buffer, slot: None, done: 0, attempts: 0, reply };
        let step = flight.advance(-libc::ENOMEM, &geometry);
        assert_eq!(matches!(step, Step::Again), is_again, "{action:?}");
        // Not for ever.
        let ended = (0..1000).any(|_| matches!(flight.advance(-libc::ENOMEM, &geometry), Step::Ended(Err(_))));
        assert!(ended, "{action:?}");
    }
}

#[test]
fn what_cannot_be_waited_for_any_more_keeps_its_lock() {
    let (folder, opened) = file(Bytes::mib(1));
    let path = folder.path().join("device");
    // As the kernel has it while it is not done.
    let kept = opened.file.try_clone().unwrap();
    let device = UringDevice::new(opened).unwrap();
    let reading = device.read(Bytes(0), Buffer::alone(Bytes::kib(4)).unwrap());
    let nothing = std::fs::File::open("/dev/null").unwrap();
    // SAFETY: both descriptors are open; the ring's leads to something that is no ring from now on, which is an error to the kernel.
    assert!(unsafe { libc::dup2(nothing.as_raw_fd(), device.core.borrow().ring.as_raw_fd()) } >= 0);
    drop((device, reading));
    assert_eq!(open(&path, OpenMode::Exclusive).err().map(|error| error.kind), Some(Kind::Busy));
    drop(kept);
    assert!(open(&path, OpenMode::Exclusive).is_ok());
}

#[test]
fn lesser_kernels_serve_too() {
    for service in [Service::Deferred, Service::Cooperative, Service::Plain] {
        for registering in [true, false] {
            let (_folder, opened) = file(Bytes::mib(16));
            let ring = match patiently(GRACE, || service.ring(64), out_of_memory) {
                Ok(ring) => ring,
                // A kernel too old for a service says so in this way; every kernel that we run on has the plain one.
                Err(e) if e.raw_os_error() == Some(libc::EINVAL) && service != Service::Plain => {
                    println!("skipped: this kernel has no {service:?} service");
                    continue;
                }
                Err(e) => panic!("no ring with {service:?} service: {e}"),
            };
            let device = UringDevice::with(opened, ring, registering).unwrap();
            drive(device, |env, _| suite(env)).unwrap().assert();
        }
    }
}

#[test]
fn a_shallow_ring_takes_the_same_load_in_turns() {
    let (_folder, opened) = file(Bytes::mib(16));
    let device = UringDevice::with(opened, best_ring(DEPTHS[2]).unwrap(), true).unwrap();
    drive(device, |env, _| suite(env)).unwrap().assert();
}

/// Sequential writes through the device beside fio on the same file, in turns:
/// `cargo test --release -p forebay-env throughput -- --ignored --nocapture`, with `FOREBAY_TEST_DIR` on the disk.
#[test]
#[ignore = "measures the machine; needs fio"]
fn throughput_of_sequential_writes_beside_fio() {
    let folder = match std::env::var_os("FOREBAY_TEST_DIR") {
        Some(folder) => tempfile::tempdir_in(folder).unwrap(),
        None => tempfile::tempdir().unwrap(),
    };
    let path = folder.path().join("device");
    let size = Bytes::gib(2);
    drop(create_file(&path, size).unwrap());
    // The first pass turns space set aside into written space, which is a cost of its own.
    sequential(&path, size, 1, Content::Random);
    for round in 0..4 {
        let plain = fio(&path, &[]);
        let (rate, cpu) = sequential(&path, size, 4, Content::Random);
        let fixed = fio(&path, &["--fixedbufs=1", "--registerfiles=1"]);
        let (zeros, _) = sequential(&path, size, 4, Content::Zeros);
        let fio_zeros = fio(&path, &["--fixedbufs=1", "--registerfiles=1", "--zero_buffers"]);
        println!(
            "round {round}, MB/s: forebay {rate} ({cpu} ns of CPU per MiB), fio {plain}, fio with registered buffers \
             {fixed}; of zeros: forebay {zeros}, fio {fio_zeros}"
        );
    }
}

/// What is written: disks and their hosts may treat zeros as nothing.
#[derive(Clone, Copy, PartialEq)]
enum Content {
    Zeros,
    Random,
}

/// Writes `size` bytes `passes` times, 8 transfers of 1 MiB at once, and flushes; MB/s and CPU nanoseconds per MiB.
fn sequential(path: &Path, size: Bytes, passes: u64, content: Content) -> (u64, u128) {
    let opened = open(path, OpenMode::Exclusive).unwrap();
    run(Options { device: opened }, move |env| async move {
        let slab = Slab::new(Bytes::mib(1), 8).unwrap();
        let mut buffers: Vec<Buffer> = (0..8).map(|_| slab.try_take().unwrap()).collect();
        for buffer in &mut buffers {
            match content {
                Content::Zeros => buffer.fill(0),
                Content::Random => real::random::fill(buffer),
            }
        }
        let (start, cpu) = (real::clock::now(), real::process::cpu_time());
        let next = Rc::new(std::cell::Cell::new(0));
        let total = size / Bytes::mib(1) * passes;
        let writers = buffers.into_iter().map(|mut buffer| {
            let (env, next) = (env.clone(), next.clone());
            env.clone().spawner.spawn(async move {
                while next.get() < total {
                    let index = next.replace(next.get() + 1);
                    let result;
                    (buffer, result) = env.device.write(Bytes::mib(index) % size, buffer).await;
                    result.unwrap();
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await;
        }
        env.device.flush().await.unwrap();
        let (end, cpu) = (real::clock::now(), real::process::cpu_time() - cpu);
        (forebay_model::Rate::of(Bytes::mib(total), end.since(start)).0 / 1_000_000, cpu.as_nanos() / u128::from(total))
    })
    .unwrap()
}

/// MB/s of the same writes by fio.
fn fio(path: &Path, more: &[&str]) -> u64 {
    let output = Command::new("fio")
        .args(["--name=write", "--rw=write", "--bs=1M", "--iodepth=8", "--ioengine=io_uring", "--direct=1"])
        .args(["--size=2G", "--io_size=8G", "--end_fsync=1", "--minimal"])
        .args(more)
        .arg(format!("--filename={}", path.display()))
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    // Field 48 of the terse format is the write bandwidth in KiB/s.
    text.split(';').nth(47).and_then(|kib| kib.parse::<u64>().ok()).map_or(0, |kib| kib * 1024 / 1_000_000)
}
