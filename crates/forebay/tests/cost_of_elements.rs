//! What an element costs: no allocation, and not many times the work that its bytes need anyway. A machine is as fast
//! as it is, so the work is compared with the same run's copy and checksum of the same bytes.

// A test drives the real program through real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use forebay_client::{Cluster, RecorderOptions};
use forebay_embedded::{FormatOptions, Measure, Options};
use forebay_env::real::process::cpu_time;
use forebay_model::block::crc32c;
use forebay_model::ring::{Overflow, RingSpec};
use forebay_model::{Bytes, Timestamp};
use std::alloc::{GlobalAlloc, Layout, System};
use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counts what all threads allocate.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: all memory comes from the system's allocator, unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as our caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: as our caller promises.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// At most so many times what copying and checksums alone take. When this was written it was 2.6 times, also beside three
/// busy loops, and 4 times on a disk so slow that recording waits most of the time.
const TIMES: f64 = 6.0;
/// Bytes of an element.
const ELEMENT: usize = 16;
/// Elements of a round, in a ring that holds fewer than those of two.
const ELEMENTS: u64 = 4 << 20;

/// Elements are counted and timed by the process, so one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// A cluster with a ring that has `keys`.
fn cluster(keys: &[&str]) -> (tempfile::TempDir, Cluster) {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // By a guess writes would be paced as on an old disk, and waiting costs work of its own.
    let measure = Measure::For(Duration::from_secs(1));
    forebay_embedded::format(dir.path().join("cluster"), &FormatOptions::file(Bytes::mib(256), measure)).unwrap();
    let cluster = forebay_embedded::open(dir.path().join("cluster"), Options::default()).unwrap();
    let mut spec = RingSpec::new("/r", Bytes::mib(128));
    spec.keys = keys.iter().map(ToString::to_string).collect();
    spec.overflow = Overflow::Block;
    cluster.create_ring(spec).unwrap();
    (dir, cluster)
}

/// Records a round; its allocations and CPU time, of all threads, until all is durable.
fn round(cluster: &Cluster, begin: u64) -> (u64, Duration) {
    let mut recorder = cluster.recorder_with("/r", RecorderOptions::default()).unwrap();
    let mut element = [0x5a; ELEMENT];
    let (allocations, cpu) = (ALLOCATIONS.load(Ordering::Relaxed), cpu_time());
    for n in begin..begin + ELEMENTS {
        element[..8].copy_from_slice(&n.to_le_bytes());
        recorder.element(Timestamp(n as i64), &[&element], &[]).unwrap();
    }
    let progress = recorder.close().unwrap();
    assert_eq!(progress.durable_elements, ELEMENTS);
    (ALLOCATIONS.load(Ordering::Relaxed) - allocations, cpu_time() - cpu)
}

/// CPU time of copying a round's elements into blocks and taking their checksums.
fn copy_and_checksum() -> Duration {
    let mut block = vec![0; 1 << 20];
    let mut element = [0x5a; ELEMENT];
    let cpu = cpu_time();
    for n in (0..ELEMENTS).step_by(block.len() / ELEMENT) {
        for (i, place) in block.chunks_exact_mut(ELEMENT).enumerate() {
            element[..8].copy_from_slice(&(n + i as u64).to_le_bytes());
            place.copy_from_slice(black_box(&element));
        }
        black_box(crc32c(&block));
    }
    cpu_time() - cpu
}

#[test]
fn an_element_costs_no_allocation_with_keys_or_without() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    for keys in [&[][..], &["number=u64le@0", "low=u16le@0", "rest=bytes8@8"]] {
        let (_dir, cluster) = cluster(keys);
        round(&cluster, 1);
        let (allocations, _) = round(&cluster, 1 + ELEMENTS);
        println!("keys {keys:?}: {allocations} allocations for {ELEMENTS} elements");
        // Some for a block of thousands, none for an element.
        assert!(allocations < ELEMENTS / 100, "{allocations} allocations for {ELEMENTS} elements with keys {keys:?}");
        cluster.close().unwrap();
    }
}

#[test]
fn an_element_costs_a_few_times_its_copy_and_checksum() {
    let _alone = ALONE.lock().unwrap_or_else(|e| e.into_inner());
    let (_dir, cluster) = cluster(&[]);
    // The least of some rounds in turns: others on the machine only add.
    let (mut recording, mut plain) = (Duration::MAX, Duration::MAX);
    for n in 0..8 {
        recording = recording.min(round(&cluster, 1 + n * ELEMENTS).1);
        plain = plain.min(copy_and_checksum());
    }
    cluster.close().unwrap();
    let times = recording.as_secs_f64() / plain.as_secs_f64();
    println!("recording {recording:?}, copying and checksums alone {plain:?}: {times:.1} times");
    assert!(times < TIMES, "recording took {times:.1} times the CPU of copying and checksums");
}
