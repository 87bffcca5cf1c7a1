use super::super::testing::{again, device, id, read};
use super::{BLOCK, Durability, How, Placement};
use crate::Target;
use crate::catalog::GroupClass;
use crate::fake::Fake;
use crate::object::Scope;
use crate::object::rows::Quota;
use crate::verify::verify;
use forebay_env::together::all;
use forebay_model::block::crc32c;
use forebay_model::{Bytes, Kind, ObjectId};
use std::rc::Rc;

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
fn many_who_find_no_room_at_the_same_time_take_no_more_than_they_need() {
    let (fake, target) = device(Bytes::mib(512));
    let (objects, content) = (target.objects(), bytes(16));
    (1..=40).for_each(|n| fake.run(objects.create(id(n), Vec::new())).unwrap());
    let how = How { placement: Placement::Home, durability: Durability::Durable, ..How::default() };
    let writes = (1..=40).map(|n| objects.write_as(target.stream(), id(n), Some(0), &content, &how));
    assert!(fake.run(all(writes)).iter().all(Result::is_ok));
    assert!(target.core().groups_of(GroupClass::Objects).len() <= 4);
    assert!(read(&fake, &target, 40) == content);
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

#[test]
fn what_is_lost_is_damaged_until_it_is_written_and_what_is_beside_it_is_as_it_was() {
    let (fake, target) = device(Bytes::mib(64));
    let block = BLOCK.0;
    let written = [bytes(5), vec![7; 100]].concat();
    for ((placement, durability), n) in WAYS.into_iter().zip(1..) {
        write(&fake, &target, n, 0, &written, How { placement, durability, ..How::default() });
        let objects = target.objects();
        fake.run(objects.lose(target.stream(), id(n), block, 2 * block)).unwrap();
        fake.run(objects.lose(target.stream(), id(n), 5 * block, 100)).unwrap();
        fake.run(objects.lose(target.stream(), id(n), 0, 0)).unwrap();
    }
    // Of what is longer than the object, too, and it is that long then.
    write(&fake, &target, 9, 0, &written[..100], How::default());
    fake.run(target.objects().lose(target.stream(), id(9), 2 * block, block)).unwrap();
    let target = again(&fake, target);
    let objects = target.objects();
    let part = |n: u64, at: u64, length: u64| fake.run(objects.read(target.stream(), id(n), at, length));
    let is_lost = |n, at, length| part(n, at, length).is_err_and(|error| error.kind == Kind::Damaged);
    let put = |n: u64, at: u64, bytes: &[u8]| {
        fake.run(objects.write(target.stream(), id(n), at, bytes, Placement::Auto)).map_err(|error| error.kind)
    };
    for (way, n) in WAYS.into_iter().zip(1..) {
        assert_eq!(fake.run(objects.head(id(n))).unwrap().size, 5 * block + 100, "{way:?}");
        assert!(part(n, 0, block).unwrap() == written[..block as usize], "{way:?}");
        assert!(part(n, 3 * block, 2 * block).unwrap() == written[3 * block as usize..5 * block as usize], "{way:?}");
        assert!(is_lost(n, block, 1) && is_lost(n, 3 * block - 1, 1) && is_lost(n, 5 * block + 99, 1), "{way:?}");
        // What is beside a few bytes in their block is not there to be kept.
        assert_eq!(put(n, block + 5, b"few"), Err(Kind::Damaged), "{way:?}");
        put(n, block, &written[..block as usize]).unwrap();
        assert!(part(n, 0, 2 * block).unwrap()[block as usize..] == written[..block as usize], "{way:?}");
        assert!(is_lost(n, 2 * block, 1), "{way:?}: nobody wrote that");
        fake.run(objects.truncate(id(n), 5 * block)).unwrap();
        fake.run(objects.punch(id(n), 2 * block, block)).unwrap();
        assert!(part(n, 2 * block, block).unwrap().iter().all(|byte| *byte == 0), "{way:?}");
    }
    assert_eq!(fake.run(objects.head(id(9))).unwrap().size, 3 * block);
    assert!(
        part(9, 0, 2 * block).unwrap() == [&written[..100], &[0; 2 * 4096 - 100]].concat() && is_lost(9, 2 * block, 1)
    );
    for (at, length) in [(5, block), (block, 5), (0, block - 1), (0, Bytes::mib(65).0)] {
        let refused = fake.run(objects.lose(target.stream(), id(1), at, length)).unwrap_err();
        assert_eq!(refused.kind, Kind::Usage, "{at} {length}: {refused}");
    }
    let missing = fake.run(objects.lose(target.stream(), id(77), 0, block)).unwrap_err();
    assert_eq!(missing.kind, Kind::Missing, "{missing}");
}

#[test]
fn what_is_punched_or_cut_within_a_hole_takes_no_block_and_so_cannot_pass_a_quota() {
    let (fake, target) = device(Bytes::mib(64));
    let (objects, block) = (target.objects(), BLOCK.0);
    write(&fake, &target, 1, 9 * block, &bytes(1), How { placement: Placement::Home, ..How::default() });
    fake.run(objects.set_quota(1, Quota { hard_bytes: block, ..Quota::default() })).unwrap();
    let blocks = || fake.run(objects.head(id(1))).unwrap().blocks;
    (0..9).for_each(|n| fake.run(objects.punch(id(1), n * block + 1, 1)).unwrap());
    fake.run(objects.punch(id(1), 2 * block + 5, 3 * block)).unwrap();
    assert_eq!(blocks(), 1);
    // One edge in a hole, and one in what is there, which has less then.
    fake.run(objects.punch(id(1), 8 * block + 5, block)).unwrap();
    assert_eq!(blocks(), 1);
    let mut expected = [vec![0; 9 * block as usize], bytes(1)].concat();
    expected[8 * block as usize + 5..9 * block as usize + 5].fill(0);
    assert!(read(&fake, &target, 1) == expected);
    fake.run(objects.truncate(id(1), 5 * block + 7)).unwrap();
    assert_eq!(blocks(), 0);
    let target = again(&fake, target);
    assert!(read(&fake, &target, 1) == vec![0; 5 * block as usize + 7]);
}

/// Blocks of an object.
fn blocks(fake: &Fake, target: &Target, object: u64) -> u64 {
    fake.run(target.objects().head(id(object))).unwrap().blocks
}

/// Closes a target, and finds nothing wrong with what is on its device.
fn is_sound(fake: &Fake, target: Rc<Target>) {
    fake.run(target.close()).unwrap();
    drop(target);
    fake.kill();
    let found = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap().objects;
    assert_eq!(found.damage, []);
    let told: Vec<String> = found.contradictions.into_iter().map(|c| c.what).collect();
    assert_eq!(told, Vec::<String>::new());
}

#[test]
fn what_is_appended_and_punched_out_piece_by_piece_leaves_no_block_and_what_is_beside_it_stays() {
    let block = BLOCK.0;
    for placement in [Placement::Log, Placement::Home, Placement::Auto] {
        let (fake, target) = device(Bytes::mib(64));
        let objects = target.objects();
        let append = |bytes: &[u8]| fake.run(objects.append(target.stream(), id(1), bytes, placement)).unwrap();
        let punch = |(at, length): (u64, u64)| fake.run(objects.punch(id(1), at, length)).unwrap();
        fake.run(objects.create(id(1), Vec::new())).unwrap();
        let (mut expected, mut places) = (Vec::new(), Vec::new());
        for n in 0..60 {
            let length = [1536, 4608, 512, 9728, 3584, 8192][n % 6];
            assert_eq!(append(&vec![n as u8 + 1; length]), expected.len() as u64);
            places.push((expected.len() as u64, length as u64));
            expected.resize(expected.len() + length, n as u8 + 1);
        }
        // Those beside it go first, or last; one stays.
        let kept = places.remove(31);
        let (first, last): (Vec<_>, Vec<_>) = places.into_iter().enumerate().partition(|(n, _)| n % 3 == 0);
        first.iter().for_each(|(_, place)| punch(*place));
        fake.run(objects.take_home()).unwrap();
        last.iter().for_each(|(_, place)| punch(*place));
        let (from, to) = (kept.0 as usize, (kept.0 + kept.1) as usize);
        expected[..from].fill(0);
        expected[to..].fill(0);
        let its = (kept.0 + kept.1).div_ceil(block) - kept.0 / block;
        assert_eq!(blocks(&fake, &target, 1), its, "{placement:?}");
        let target = again(&fake, target);
        let objects = target.objects();
        assert_eq!(blocks(&fake, &target, 1), its, "{placement:?}");
        assert!(read(&fake, &target, 1) == expected, "{placement:?}");
        fake.run(objects.punch(id(1), kept.0, kept.1)).unwrap();
        let volume = fake.run(objects.head(ObjectId::volume(1))).unwrap().volume.unwrap();
        assert_eq!((blocks(&fake, &target, 1), volume.blocks), (0, 0), "{placement:?}");
        // What is appended next comes behind all that there was.
        expected.fill(0);
        assert_eq!(
            fake.run(objects.append(target.stream(), id(1), b"next", placement)).unwrap(),
            expected.len() as u64
        );
        expected.extend_from_slice(b"next");
        let target = again(&fake, target);
        assert!(read(&fake, &target, 1) == expected, "{placement:?}");
        assert_eq!(blocks(&fake, &target, 1), 1, "{placement:?}");
        is_sound(&fake, target);
    }
}

#[test]
fn a_block_at_an_edge_of_what_is_punched_goes_if_nothing_else_was_in_it_and_no_other_does() {
    let block = BLOCK.0;
    // Ranges that are punched one after the other, and how many of four blocks are left then.
    let cases: [(&[(u64, u64)], u64); 7] = [
        (&[(block, 100), (block + 100, block - 100)], 3),
        (&[(0, block + 1), (block + 1, block - 1)], 2),
        (&[(0, 5), (2 * block - 5, 5), (5, 2 * block - 10)], 2),
        (&[(0, 5), (5, 2 * block - 10)], 3),
        (&[(2 * block - 5, 5), (5, 2 * block - 10)], 3),
        (&[(0, 5), (3 * block + 5, block - 5), (5, 3 * block)], 0),
        (&[(5, block - 6), (3 * block + 6, block - 6), (0, 3 * block + 5)], 1),
    ];
    for ((placement, durability), way) in WAYS.into_iter().zip(0..) {
        let (fake, target) = device(Bytes::mib(64));
        let how = || How { placement, durability, ..How::default() };
        let filled = vec![7; 4 * block as usize];
        for ((punched, left), n) in cases.into_iter().zip(1..) {
            write(&fake, &target, n, 0, &filled, how());
            // Whoever shares the blocks keeps them.
            fake.run(target.objects().snapshot(id(n), id(100 + n), Vec::new())).unwrap();
            let mut expected = filled.clone();
            for (at, length) in punched {
                fake.run(target.objects().punch(id(n), *at, *length)).unwrap();
                expected[*at as usize..(at + length) as usize].fill(0);
            }
            assert_eq!(blocks(&fake, &target, n), left, "way {way}, case {n}");
            assert!(read(&fake, &target, n) == expected, "way {way}, case {n}");
            assert!(read(&fake, &target, 100 + n) == filled, "way {way}, case {n}");
        }
        let target = again(&fake, target);
        for ((_, left), n) in cases.into_iter().zip(1..) {
            assert_eq!((blocks(&fake, &target, n), blocks(&fake, &target, 100 + n)), (left, 4), "way {way}, case {n}");
        }
        is_sound(&fake, target);
    }
}

#[test]
fn a_small_object_of_which_all_is_punched_out_in_parts_has_no_block_and_can_be_written_again() {
    let (fake, target) = device(Bytes::mib(64));
    write(&fake, &target, 1, 0, &[7; 700], How::default());
    fake.run(target.objects().punch(id(1), 300, 400)).unwrap();
    assert_eq!(blocks(&fake, &target, 1), 1);
    fake.run(target.objects().punch(id(1), 0, 300)).unwrap();
    assert_eq!(blocks(&fake, &target, 1), 0);
    let target = again(&fake, target);
    assert!(blocks(&fake, &target, 1) == 0 && read(&fake, &target, 1) == [0; 700]);
    fake.run(target.objects().write(target.stream(), id(1), 600, b"again", Placement::Auto)).unwrap();
    let target = again(&fake, target);
    assert!(blocks(&fake, &target, 1) == 1 && read(&fake, &target, 1)[600..605] == *b"again");
    is_sound(&fake, target);
}
