use super::*;
use crate::World;
use forebay_env::conformance;
use forebay_model::{Kind, Moment};

fn buffer(byte: u8, length: u64) -> Buffer {
    let mut buffer = Buffer::alone(Bytes(length)).unwrap();
    buffer.fill(byte);
    buffer
}

fn write(world: &World, disk: &SimDisk, offset: u64, byte: u8, length: u64) -> Result<()> {
    world.run(disk.write(Bytes(offset), buffer(byte, length))).1
}

fn first_byte(disk: &SimDisk, offset: u64) -> u8 {
    let mut byte = [0];
    disk.peek(Bytes(offset), &mut byte);
    byte[0]
}

fn small() -> DiskSpec {
    presets::wd15ears().scaled(1000)
}

#[test]
fn every_disk_conforms_to_the_device_door() {
    crate::seeds::each(5, |seed| {
        for name in presets::NAMES {
            let spec = presets::preset(name).unwrap().scaled(1000);
            for cache in [None, Some(Bytes::mib(1)), spec.write_cache] {
                let world = World::new(seed);
                let disk = world.disk(spec.clone().with_write_cache(cache));
                world.run(conformance::run(world.env(disk))).assert();
            }
        }
    });
}

#[test]
fn a_durable_write_survives_a_cut_and_takes_no_other_with_it() {
    let world = World::new(1);
    let disk = world.disk(small());
    let durable = |offset, byte| world.run(disk.write_durable(Bytes(offset), buffer(byte, 4096))).1.unwrap();
    write(&world, &disk, 0, 1, 4096).unwrap();
    write(&world, &disk, 4096, 2, 4096).unwrap();
    durable(4096, 3);
    write(&world, &disk, 4096, 4, 4096).unwrap();
    durable(8192, 5);
    assert_eq!(disk.unflushed(), Bytes(3 * 4096));
    disk.set_survival(Survival::Nothing);
    world.crash(&[&disk]);
    assert_eq!([0, 4096, 8192].map(|offset| first_byte(&disk, offset)), [0, 3, 5]);
    assert_eq!(disk.decided(), 3);
    // Where nothing is in doubt before it, nothing is kept of it.
    durable(0, 6);
    assert_eq!((disk.unflushed(), first_byte(&disk, 0)), (Bytes::ZERO, 6));
}

#[test]
fn a_durable_write_that_is_lost_makes_no_other_durable_in_its_place() {
    for fault in [Fault::LoseWrite { nth: 0 }, Fault::TearWrite { nth: 0 }] {
        let world = World::new(1);
        let disk = world.disk(small());
        write(&world, &disk, 0, 1, 4096).unwrap();
        disk.inject(fault);
        world.run(disk.write_durable(Bytes(8192), buffer(2, 4096))).1.unwrap();
        assert_eq!(disk.unflushed(), Bytes(4096));
        disk.set_survival(Survival::Nothing);
        world.crash(&[&disk]);
        assert_eq!(first_byte(&disk, 0), 0);
    }
}

#[test]
fn names_are_parsed_and_unknown_ones_are_answered_with_the_known() {
    assert_eq!(presets::parse("sim:wd15ears").unwrap().unwrap(), presets::wd15ears());
    assert!(presets::parse("/dev/sda").is_none());
    let error = presets::parse("sim:floppy").unwrap().unwrap_err();
    assert_eq!(error.kind, Kind::Usage);
    assert_eq!(
        error.message,
        "no simulated disk is called 'floppy'; the names are wd15ears, cheetah15k, sata7200, ssd, smr"
    );
}

#[test]
fn io_off_the_grid_is_refused_with_the_numbers() {
    let world = World::new(0);
    let disk = world.disk(small());
    let error = write(&world, &disk, 512, 1, 4096).unwrap_err();
    assert_eq!(error.kind, Kind::Usage);
    assert_eq!(
        error.message,
        "writing 4096 bytes at offset 512 of sim:wd15ears: both must be multiples of its block of 4096 bytes"
    );
    assert_eq!(disk.started(), 0);
}

#[test]
fn with_the_cache_on_only_a_flush_makes_writes_durable() {
    for name in presets::NAMES {
        let world = World::new(1);
        let disk = world.disk(presets::preset(name).unwrap().scaled(1000).with_write_cache(Some(Bytes::mib(16))));
        disk.set_survival(Survival::Nothing);
        write(&world, &disk, 0, 1, 8192).unwrap();
        world.run(disk.flush()).unwrap();
        write(&world, &disk, 4096, 2, 8192).unwrap();
        assert_eq!(disk.unflushed(), Bytes(8192));
        world.crash(&[&disk]);
        assert_eq!([0, 4096, 8192].map(|at| first_byte(&disk, at)), [1, 1, 0], "{name}");
    }
}

#[test]
fn a_flush_covers_what_was_complete_when_it_started() {
    let world = World::new(1);
    let disk = world.disk(small());
    disk.set_survival(Survival::Nothing);
    world.run(async {
        let early = disk.write(Bytes(0), buffer(1, 4096));
        let flush = disk.flush();
        early.await.1.unwrap();
        flush.await.unwrap();
    });
    world.crash(&[&disk]);
    assert_eq!(first_byte(&disk, 0), 0, "the write had not completed when the flush started");
}

#[test]
fn with_the_cache_off_completed_writes_are_durable_and_only_those_in_flight_tear() {
    let mut outcomes = std::collections::BTreeSet::new();
    for seed in 0..100 {
        let world = World::new(seed);
        let disk = world.disk(presets::cheetah15k().scaled(1000));
        write(&world, &disk, 0, 1, 4096).unwrap();
        disk.cut_after(1);
        world.run_until_cut(disk.write(Bytes(0), buffer(2, 4096))).unwrap_err();
        let mut page = [0; 4096];
        disk.peek(Bytes(0), &mut page);
        let sectors: Vec<u8> = page.chunks(512).map(|sector| sector[0]).collect();
        assert!(page.chunks(512).all(|sector| sector.iter().all(|byte| *byte == sector[0])), "a sector tore");
        assert!(sectors.iter().all(|byte| [1, 2].contains(byte)));
        outcomes.insert(sectors);
    }
    assert!(outcomes.contains(&vec![1; 8]) && outcomes.contains(&vec![2; 8]) && outcomes.len() > 10, "{outcomes:?}");
}

#[test]
fn lost_misdirected_and_torn_writes_are_acknowledged() {
    let world = World::new(2);
    let disk = world.disk(small());
    disk.inject(Fault::LoseWrite { nth: 0 });
    disk.inject(Fault::MisdirectWrite { nth: 1, to: Bytes::mib(1) });
    disk.inject(Fault::TearWrite { nth: 2 });
    for (byte, at) in [(1, 0), (2, 4096), (3, 8192)] {
        write(&world, &disk, at, byte, if byte == 3 { 64 << 10 } else { 4096 }).unwrap();
    }
    assert_eq!([0, 4096, 1 << 20].map(|at| first_byte(&disk, at)), [0, 0, 2]);
    let mut torn = vec![0; 64 << 10];
    disk.peek(Bytes(8192), &mut torn);
    let done = torn.chunks(512).filter(|sector| sector[0] == 3).count();
    assert!((1..128).contains(&done), "{done} of 128 sectors");
    assert_eq!(disk.injected(), 3);
}

#[test]
fn failed_io_is_said_and_counted_and_a_failed_flush_makes_nothing_durable() {
    let world = World::new(3);
    let disk = world.disk(small());
    disk.set_survival(Survival::Nothing);
    disk.inject(Fault::Fail { op: Op::Flush, nth: 0, sticky: false });
    disk.inject(Fault::Fail { op: Op::Write, nth: 1, sticky: true });
    write(&world, &disk, 0, 1, 4096).unwrap();
    assert_eq!(world.run(disk.flush()).unwrap_err().kind, Kind::Device);
    for _ in 0..3 {
        assert_eq!(write(&world, &disk, 4096, 1, 4096).unwrap_err().kind, Kind::Device);
    }
    assert_eq!(disk.counters().failed, 4);
    disk.heal();
    write(&world, &disk, 8192, 1, 4096).unwrap();
    world.crash(&[&disk]);
    assert_eq!(first_byte(&disk, 0), 0);
}

#[test]
fn a_bad_sector_fails_reads_until_it_is_rewritten_and_a_rotten_bit_is_silent() {
    let world = World::new(4);
    let disk = world.disk(small());
    disk.inject(Fault::Unreadable { offset: Bytes(4096), length: Bytes(512), permanent: false });
    let read = || world.run(disk.read(Bytes(0), buffer(0, 8192)));
    let error = read().1.unwrap_err();
    assert_eq!(
        error.message,
        "reading 8192 bytes at offset 0 of sim:wd15ears failed: the sector at 4096 is unreadable"
    );
    write(&world, &disk, 4096, 5, 4096).unwrap();
    let (content, result) = read();
    result.unwrap();
    assert_eq!(content[4096], 5);
    disk.inject(Fault::FlipBit { offset: Bytes(4100), bit: 7 });
    assert_eq!(read().0[4100], 0x85);
}

#[test]
fn a_disk_grows_slow_and_dies_at_its_moments() {
    let world = World::new(5);
    let disk = world.disk(small());
    let timed = |at: u64| {
        let begin = world.now();
        let result = world.run(disk.read(Bytes::mib(at), buffer(0, 4096))).1;
        (world.now().since(begin), result)
    };
    timed(1000).1.unwrap();
    disk.inject(Fault::Slow { factor: 100.0, from: world.now() });
    let (span, result) = timed(10);
    result.unwrap();
    assert!(span > Duration::from_millis(300), "{span:?}");
    disk.inject(Fault::Dead { from: Moment(world.now().0 + 1) });
    world.run_for(Duration::from_nanos(2));
    assert_eq!(timed(20).1.unwrap_err().kind, Kind::Device);
}

#[test]
fn patterns_and_generated_ranges_read_back_and_take_no_memory_until_overwritten() {
    let world = World::new(6);
    let disk = world.disk(presets::wd15ears());
    let size = disk.spec().size;
    disk.fill_pattern(Bytes(4096), size - Bytes(8192), b"forebay");
    disk.fill_with(Bytes::gib(1), Bytes::gib(1), |at, page| page[..8].copy_from_slice(&at.to_le_bytes()));
    assert_eq!(disk.memory(), Bytes(0));
    let mut seen = [0; 14];
    disk.peek(Bytes(4096 + 7 * 100_000), &mut seen);
    assert_eq!(&seen, b"forebayforebay");
    disk.peek(size - Bytes(4096 + 14), &mut seen);
    let phase = ((size.0 - 8192) % 7) as usize;
    assert_eq!(seen[14 - phase..], b"forebay"[..phase]);
    let (page, result) = world.run(disk.read(Bytes::gib(1) + Bytes(40960), buffer(0, 4096)));
    result.unwrap();
    assert_eq!(page[..8], ((1u64 << 30) + 40960).to_le_bytes());
    write(&world, &disk, 1 << 30, 9, 4096).unwrap();
    assert_eq!(first_byte(&disk, 1 << 30), 9);
    assert_eq!(disk.memory(), Bytes(4096));
}

#[test]
fn counters_tell_what_was_done() {
    let world = World::new(7);
    let disk = world.disk(small());
    write(&world, &disk, 0, 1, 8192).unwrap();
    let before = disk.counters();
    world.run(disk.flush()).unwrap();
    world.run(disk.read(Bytes::mib(1000), buffer(0, 4096))).1.unwrap();
    let done = disk.counters() - before;
    assert_eq!((done.reads, done.writes, done.flushes), (1, 0, 1));
    assert_eq!((done.bytes_read, done.seeks), (Bytes(4096), 1));
    assert!(done.busy > Duration::from_millis(5) && done.busy < Duration::from_millis(60), "{:?}", done.busy);
    assert_eq!(disk.started(), 3);
}

/// What a 4 KiB block may hold: its versions since the disk was all zeros, and the oldest that may still be there.
#[derive(Clone)]
struct Block {
    versions: Vec<u8>,
    durable: usize,
}

#[test]
fn a_power_cut_at_any_io_of_a_history_leaves_each_sector_as_some_write_since_the_last_flush_left_it() {
    const BLOCKS: usize = 64;
    crate::seeds::each(60, |seed| {
        let world = World::new(seed);
        let disk = world.disk(presets::preset(presets::NAMES[(seed % 5) as usize]).unwrap().scaled(1000));
        let random = world.random();
        for round in 0..20u64 {
            let survival = [Survival::Random, Survival::Prefix, Survival::Nothing, Survival::Everything];
            disk.set_survival(survival[random.below(4) as usize]);
            disk.cut_after(1 + random.below(50));
            let blocks = RefCell::new(vec![Block { versions: vec![0], durable: 0 }; BLOCKS]);
            let cut = world.run_until_cut(async {
                for step in 1..40u8 {
                    let (first, count) = (random.below(56) as usize, 1 + random.below(8) as usize);
                    blocks.borrow_mut()[first..first + count].iter_mut().for_each(|block| block.versions.push(step));
                    disk.write(Bytes(first as u64 * 4096), buffer(step, count as u64 * 4096)).await.1.unwrap();
                    let durable_at_once = disk.spec().write_cache.is_none();
                    if durable_at_once || random.below(5) == 0 {
                        if !durable_at_once {
                            disk.flush().await.unwrap();
                        }
                        blocks.borrow_mut().iter_mut().for_each(|block| block.durable = block.versions.len() - 1);
                    }
                }
            });
            let mut content = vec![0; BLOCKS * 4096];
            disk.peek(Bytes(0), &mut content);
            for (index, block) in blocks.borrow().iter().enumerate() {
                let valid = match cut {
                    Ok(()) => &block.versions[block.versions.len() - 1..],
                    Err(_) => &block.versions[block.durable..],
                };
                for sector in content[index * 4096..][..4096].chunks(512) {
                    let whole = sector.iter().all(|byte| *byte == sector[0]);
                    assert!(
                        whole && valid.contains(&sector[0]),
                        "round {round}, block {index}: {sector:?}, not {valid:?}"
                    );
                }
            }
            disk.no_cut();
            world.run(disk.flush()).unwrap();
            disk.poke(Bytes(0), &vec![0; BLOCKS * 4096]);
        }
    });
}
