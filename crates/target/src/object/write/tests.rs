use super::super::testing::{again, device, id, read};
use super::{BLOCK, Durability, How, Placement};
use crate::Target;
use crate::fake::Fake;
use crate::object::Scope;
use forebay_model::block::crc32c;
use forebay_model::{Bytes, Kind};

const WAYS: [(Placement, Durability); 3] = [
    (Placement::Log, Durability::Durable),
    (Placement::Home, Durability::Durable),
    (Placement::Auto, Durability::Buffered),
];

fn bytes(blocks: usize) -> Vec<u8> {
    (0..blocks * BLOCK.0 as usize).map(|n| (n * 31 + n / 4093) as u8).collect()
}

/// Writes with checksums that somebody says are those of the blocks.
fn write(fake: &Fake, target: &Target, object: u64, offset: u64, bytes: &[u8], how: How) {
    fake.run(target.objects().create(id(object), Vec::new())).unwrap();
    fake.run(target.objects().write_as(target.stream(), id(object), Some(offset), bytes, &how)).unwrap();
}

#[test]
fn checksums_that_came_with_the_bytes_are_what_reading_compares_so_what_changed_since_is_found() {
    let (fake, target) = device(Bytes::mib(64));
    let good = bytes(5);
    let crcs: Vec<u32> = good.chunks(BLOCK.0 as usize).map(crc32c).collect();
    // What becomes of the bytes between where they were summed and here.
    let mut bad = good.clone();
    bad[3 * BLOCK.0 as usize + 17] ^= 4;
    for ((placement, durability), n) in WAYS.into_iter().zip(1..) {
        let how = || How { placement, durability, crcs: crcs.clone(), ..How::default() };
        write(&fake, &target, 2 * n, 0, &good, how());
        write(&fake, &target, 2 * n + 1, 0, &bad, how());
    }
    fake.run(target.objects().flush_buffered(Scope::Target, None)).unwrap();
    let target = again(&fake, target);
    for (way, n) in WAYS.into_iter().zip(1..) {
        assert!(read(&fake, &target, 2 * n) == good, "{way:?}");
        let found = fake.run(target.objects().read(target.stream(), id(2 * n + 1), 0, 1 << 20)).unwrap_err();
        assert_eq!(found.kind, Kind::Damaged, "{way:?}: {found}");
        let place = format!("offset {}", 3 * BLOCK.0);
        assert!(found.message.contains(&place), "{way:?}: {found}");
    }
}

#[test]
fn checksums_of_bytes_that_do_not_fill_the_objects_blocks_are_not_looked_at() {
    let (fake, target) = device(Bytes::mib(64));
    let written = bytes(3);
    for ((placement, durability), n) in WAYS.into_iter().zip(1..) {
        let how = |crcs| How { placement, durability, crcs, ..How::default() };
        write(&fake, &target, 2 * n, 100, &written, how(vec![7; 3]));
        write(&fake, &target, 2 * n + 1, 0, &written[..BLOCK.0 as usize + 9], how(vec![7]));
    }
    fake.run(target.objects().flush_buffered(Scope::Target, None)).unwrap();
    let target = again(&fake, target);
    for (way, n) in WAYS.into_iter().zip(1..) {
        assert!(read(&fake, &target, 2 * n)[100..] == written, "{way:?}");
        assert!(read(&fake, &target, 2 * n + 1) == written[..BLOCK.0 as usize + 9], "{way:?}");
    }
}
