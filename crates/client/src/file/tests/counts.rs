//! How many requests it takes, and how much of them is needed.

use super::super::Components;
use super::{Bytes, Open, Options, Raid, Slice, Striping, World, some};
use forebay_model::layout::UNIT;

fn ten_wide() -> Striping {
    Striping::new(Raid::Five, UNIT, 10, 1, 1).expect("a layout")
}

#[test]
fn a_long_run_is_written_without_reads_and_in_few_requests() {
    let world = World::new(ten_wide(), 1);
    let open = Open::new(&world, Options::alone());
    let (total, chunk): (usize, usize) = (64 << 20, 1 << 20);
    let bytes = Slice::from(some(&world.chance, total as u64));
    for at in (0..total).step_by(chunk) {
        let part = bytes.slice(at..at + chunk);
        open.run(|file| async move { file.write_at(Bytes(at as u64), part).await });
    }
    open.flush();
    let counts = world.take_counts();
    // Parity is a ninth of the bytes; the stripe in which the run ends is one of its own.
    assert_eq!((counts.reads, counts.intents, counts.locks), (0, 0, 0));
    assert!(counts.writes <= 90, "{counts:?}");
    assert!(counts.written_bytes <= (total as u64 / 9 + 1) * 10 + 2 * UNIT.0, "{counts:?}");
    world.check();
    // A reader behind its own bytes asks little more than there is.
    let mut at = 0;
    while at < total {
        let length = 100_000.min(total - at);
        assert!(open.read(at as u64, length as u64) == bytes[at..at + length], "{at}");
        at += length;
    }
    let counts = world.take_counts();
    assert!(counts.reads < 400, "{counts:?}");
    assert!(counts.read_bytes < total as u64 * 12 / 10, "{counts:?}");
}

#[test]
fn small_writes_one_behind_the_other_are_gathered() {
    let world = World::new(ten_wide(), 2);
    let open = Open::new(&world, Options::alone());
    let bytes = some(&world.chance, 9 * 64 * 1024 * 4);
    for (nth, part) in bytes.chunks(1000).enumerate() {
        open.write(nth as u64 * 1000, part.to_vec());
    }
    open.flush();
    let counts = world.take_counts();
    assert!(counts.reads == 0 && counts.writes <= 20, "{counts:?}");
    assert!(open.all() == bytes);
}

#[test]
fn a_small_overwrite_reads_and_writes_two_pieces_under_an_intent() {
    let world = World::new(ten_wide(), 3);
    let open = Open::new(&world, Options::alone());
    open.write(0, some(&world.chance, 9 * 64 * 1024));
    open.flush();
    world.take_counts();
    open.write(5000, some(&world.chance, 300));
    open.flush();
    let counts = world.take_counts();
    assert_eq!((counts.reads, counts.read_bytes, counts.writes, counts.intents), (2, 600, 2, 1));
    assert_eq!((counts.locks, world.intents()), (0, 0));
}

#[test]
fn what_is_under_way_is_bounded() {
    let world = World::new(ten_wide(), 4);
    let options = Options { window: Bytes::mib(4), gather: Bytes::mib(2), cache: Bytes::mib(2), ..Options::alone() };
    let open = Open::new(&world, options);
    (0..10).for_each(|component| world.set_delay(component, std::time::Duration::from_millis(50)));
    let bytes = Slice::from(some(&world.chance, 32 << 20));
    let whole = bytes.clone();
    open.run(|file| async move { file.write_at(Bytes::ZERO, whole).await });
    // The bytes themselves, their parity, and one request for each component that had all to itself.
    assert!(world.most_pending() <= 6 << 20, "{} bytes", world.most_pending());
    open.flush();
    assert!(open.all() == bytes[..]);
}

#[test]
fn holes_are_zero_and_what_is_behind_the_end_is_not_there() {
    let world = World::new(ten_wide(), 5);
    let open = Open::new(&world, Options::alone());
    assert_eq!(open.read(0, 100), []);
    open.write(3 << 30, vec![7; 10]);
    assert_eq!(open.read((3 << 30) - 5, 100), [&[0; 5][..], &[7; 10]].concat());
    open.write(0, Vec::new());
    open.flush();
    assert_eq!(open.run(|file| async move { file.size().await }), Bytes((3 << 30) + 10));
    assert_eq!(open.read(u64::MAX - 5, 100), []);
    let far = open.try_run(|file| async move {
        file.write_at(Bytes(forebay_model::layout::LARGEST.0 - 1), Slice::from_static(b"ab")).await
    });
    let error = far.expect("it lives").expect_err("too far");
    assert!(error.kind == forebay_model::Kind::Usage && error.message.contains("write less"), "{error}");
    let length = world.run(&open.link, open.link.length()).expect("it lives").expect("it is known");
    assert_eq!(length, Bytes((3 << 30) + 10));
}

#[test]
fn a_unit_that_is_larger_than_a_request_is_written_in_several() {
    for raid in [Raid::Zero, Raid::One(2), Raid::Five] {
        let world = World::new(Striping::new(raid, Bytes::kib(256), 3, 1, 1).expect("a layout"), 6);
        let options = Options { request: Bytes::kib(100), ..Options::alone() };
        let open = Open::new(&world, options);
        let bytes = some(&world.chance, 2 << 20);
        open.write(0, bytes.clone());
        open.flush();
        assert!(world.largest_write() <= 100 << 10, "{raid}: {} bytes at once", world.largest_write());
        assert!(open.all() == bytes);
        world.check();
    }
}
