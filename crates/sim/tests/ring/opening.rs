//! A full ring of 1.5 TB opens in seconds, and takes elements in less than one: whatever its size, opening reads the
//! catalog and walks from the last checkpoint to the tail. A rare value in one hour of it is found by the indexes of that
//! hour's segments.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use forebay_env::Device;
use forebay_model::block::{Header, Packer, Stamp, View, crc32c};
use forebay_model::key::KeySet;
use forebay_model::ring::{Losses, RingSpec};
use forebay_model::{Bytes, Profile, Timestamp};
use forebay_sim::World;
use forebay_sim::disk::{SimDisk, presets};
use forebay_sim::feeder::Feeder;
use forebay_sim::reader::{Event, read};
use forebay_target::Target;
use forebay_target::catalog::{Catalog, RingRecord, Segment};
use forebay_target::layout::{Layout, ROOT_LEN, ROOTS};
use forebay_target::segment::{Builder, IndexBudget, Trailer, encode_footer};
use forebay_target::superblock::Superblock;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::mem::offset_of;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

const NAME: &str = "/full";
/// An element.
const ELEMENT: usize = 4000;
/// Elements of a block.
const PER_BLOCK: u64 = 250;
/// Segments sealed since the last checkpoint: as many as there can be before the next one is durable.
const SINCE_CHECKPOINT: u64 = 40;
/// Blocks in the segment that was being written when the power went.
const BLOCKS_IN_TAIL: u64 = 60;
/// Nanoseconds from one element to the next, at 60 MB/s.
const PACE: u64 = 66_667;

/// A value of the key that one element in the whole ring has.
const RARE: u64 = 7;
/// Footers that are kept once they were made.
const FOOTERS: usize = 16;

/// Odd multiples spread over 64 bits: no value comes twice, and none is small.
fn spread(number: u64) -> u64 {
    (number + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// A block of `numbers`, as if it were the first one of the ring. Element `rare` has the key that no other has.
fn block(numbers: Range<u64>, rare: Option<u64>) -> Vec<u8> {
    let mut packer = Packer::new(9);
    packer.give(vec![0u8; 1 << 20]);
    let mut element = [0x5a; ELEMENT];
    for (at, number) in numbers.enumerate() {
        let key = if rare == Some(number) { RARE } else { spread(number) };
        element[..8].copy_from_slice(&key.to_le_bytes());
        assert!(packer.push(Timestamp((at as u64 * PACE) as i64), &[&element], &[]));
    }
    let mut sealed = packer.seal().unwrap();
    sealed.buffer.truncate(sealed.length);
    sealed.buffer
}

/// What lies in the ring: segments are numbered along it, and differ in what their headers say, but for one block.
struct Content {
    target: u128,
    ring: u64,
    segment: Bytes,
    keys: KeySet,
    budget: IndexBudget,
    /// Blocks of every segment, with the header that was asked for last.
    blocks: RefCell<Vec<Vec<u8>>>,
    /// The block that is not as in the other segments: its segment, its number there, and its bytes.
    rare: (u64, u64, RefCell<Vec<u8>>),
    /// Bytes of a block, and blocks in a sealed segment.
    block: u64,
    per_segment: u64,
    /// The segment that was being written.
    tail: u64,
    footers: RefCell<BTreeMap<u64, (u64, Vec<u8>)>>,
}

impl Content {
    fn first_element(&self, sequence: u64) -> u64 {
        (sequence - 1) * self.per_segment * PER_BLOCK
    }

    fn slot(&self, sequence: u64, slots: u64) -> u32 {
        ((sequence - 1) % slots) as u32
    }

    /// Hands the block with its own header to `look`.
    fn with_block<T>(&self, sequence: u64, slot: u32, index: u64, look: impl FnOnce(&[u8]) -> T) -> T {
        let first = self.first_element(sequence) + index * PER_BLOCK;
        let stamp = Stamp {
            target: self.target,
            ring: self.ring,
            segment: sequence,
            slot,
            index: index as u32,
            offset: (index * self.block) as u32,
            durable_blocks: index as u32,
            epoch: 1,
            first_sequence: first,
        };
        let mut every = self.blocks.borrow_mut();
        let mut rare = self.rare.2.borrow_mut();
        let bytes =
            if (sequence, index) == (self.rare.0, self.rare.1) { &mut *rare } else { &mut every[index as usize] };
        // Times of elements are told from the header's.
        let last = first + PER_BLOCK - 1;
        for (at, number) in [
            (offset_of!(Header, base_time), first),
            (offset_of!(Header, min_time), first),
            (offset_of!(Header, max_time), last),
        ] {
            bytes[at..at + 8].copy_from_slice(&(number * PACE).to_le_bytes());
        }
        Header::set_stamp(bytes, &stamp);
        look(bytes)
    }

    fn summary(&self, sequence: u64, blocks: u64) -> Segment {
        let (first, end) = (self.first_element(sequence), self.first_element(sequence) + blocks * PER_BLOCK);
        Segment {
            sequence,
            first,
            end,
            min_time: (first * PACE) as i64,
            max_time: ((end - 1) * PACE) as i64,
            bytes: (blocks * self.block) as u32,
            losses: Losses::default(),
        }
    }

    fn footer(&self, sequence: u64, slot: u32) -> (u64, Vec<u8>) {
        let mut builder = Builder::new(self.keys.clone(), self.budget);
        for index in 0..self.per_segment {
            self.with_block(sequence, slot, index, |bytes| {
                let view = View::of_sealed(bytes).unwrap();
                builder.add(&view, (index * self.block) as u32, view.header().first_sequence.get()).unwrap();
                builder.stamped(view.header().header_crc.get());
            });
        }
        let trailer = Trailer {
            target: self.target,
            ring: self.ring,
            slot,
            epoch: 1,
            summary: self.summary(sequence, self.per_segment),
            blocks: self.per_segment as u32,
            durable_blocks: self.per_segment as u32 / 2,
            tables_at: 0,
            tables_len: 0,
            tables_crc: 0,
            writers: forebay_target::catalog::Writers::default(),
            description: None,
        };
        let (start, bytes, _) = encode_footer(builder, self.segment, trailer).unwrap();
        assert!(u64::from(start) >= self.per_segment * self.block, "the index of segment {sequence} has room");
        (u64::from(start), bytes)
    }

    /// The page at `offset` of a segment.
    fn page(&self, sequence: u64, slot: u32, offset: u64, page: &mut [u8]) {
        let (index, inside) = (offset / self.block, (offset % self.block) as usize);
        let blocks = if sequence == self.tail { BLOCKS_IN_TAIL } else { self.per_segment };
        if index < blocks {
            self.with_block(sequence, slot, index, |bytes| page.copy_from_slice(&bytes[inside..inside + page.len()]));
        } else if sequence == self.tail {
            // What is left of the lap before does not look like blocks of this one.
            page.fill(0xee);
        } else {
            let mut footers = self.footers.borrow_mut();
            if !footers.contains_key(&sequence) && footers.len() == FOOTERS {
                footers.pop_first();
            }
            let (start, bytes) = footers.entry(sequence).or_insert_with(|| self.footer(sequence, slot));
            match offset.checked_sub(*start) {
                Some(at) => page.copy_from_slice(&bytes[at as usize..at as usize + page.len()]),
                None => page.fill(0),
            }
        }
    }
}

/// Makes the ring on `disk` as full as after several laps: its blocks, and a catalog that is `SINCE_CHECKPOINT` segments
/// old.
fn fill(disk: &SimDisk, superblock: Superblock, mut catalog: Catalog) -> Rc<Content> {
    let layout = superblock.layout;
    let (id, record) = catalog.rings.iter_mut().next().unwrap();
    let slots = record.slots.len() as u64;
    let keys = record.spec.key_set().unwrap();
    let budget = IndexBudget::for_segment(record.segment, record.spec.index_percent, keys.len());
    let size = block(0..PER_BLOCK, None).len() as u64;
    let per_segment = (record.segment.0 - (128 << 10) - budget.bytes) / size;
    let numbers = |index: u64| index * PER_BLOCK..(index + 1) * PER_BLOCK;
    let content = Content {
        target: superblock.target.0,
        ring: id.0,
        segment: record.segment,
        keys,
        budget,
        blocks: RefCell::new((0..per_segment).map(|index| block(numbers(index), None)).collect()),
        // Not far behind the place where the last lap began.
        rare: (3 * slots + 100, 20, RefCell::new(block(numbers(20), Some(20 * PER_BLOCK + 33)))),
        block: size,
        per_segment,
        tail: 3 * slots + slots / 3,
        footers: RefCell::default(),
    };
    let checkpoint = content.tail - SINCE_CHECKPOINT;
    for sequence in checkpoint - slots..checkpoint {
        record.slots[content.slot(sequence, slots) as usize] = Some(content.summary(sequence, content.per_segment));
    }
    record.path = vec![content.slot(checkpoint, slots)];
    record.path_segment = checkpoint;
    record.path_element = content.first_element(checkpoint);
    // The oldest segment lies where the next one was opened; the checkpoint does not tell of it.
    record.slots[record.path[0] as usize] = None;
    let content = Rc::new(content);
    place(disk, &layout, record, content.clone());
    write_roots(disk, superblock, &catalog);
    content
}

/// Puts the content of each slot onto the disk.
fn place(disk: &SimDisk, layout: &Layout, record: &RingRecord, content: Rc<Content>) {
    let slots = record.slots.len() as u64;
    for slot in 0..slots as u32 {
        let at = record.slot_at(layout, slot);
        // The last lap goes up to the tail; behind it lies the one before.
        let lap = (content.tail - 1) / slots * slots + 1;
        let sequence = lap + u64::from(slot);
        let sequence = if sequence <= content.tail { sequence } else { sequence - slots };
        let content = content.clone();
        let generate = move |offset: u64, page: &mut [u8]| content.page(sequence, slot, offset - at.0, page);
        disk.fill_with(at, record.segment, generate);
    }
}

/// Writes both copies of catalog and superblock, as a commit does.
fn write_roots(disk: &SimDisk, mut superblock: Superblock, catalog: &Catalog) {
    let bytes = postcard::to_stdvec(catalog).unwrap();
    superblock.checkpoint_len = bytes.len() as u64;
    superblock.checkpoint_crc = crc32c(&bytes);
    superblock.generation += 1;
    let mut root = vec![0; ROOT_LEN.0 as usize];
    superblock.encode(&mut root).unwrap();
    for (which, at) in ROOTS.into_iter().enumerate() {
        disk.poke(superblock.layout.area_at(which), &bytes);
        disk.poke(at, &root);
    }
}

/// A disk of 1.5 TB with one ring of that size, which has lapped it three times; nobody has opened it since the power
/// went.
fn full(world: &World, keys: &[&str]) -> (SimDisk, Rc<Content>) {
    let disk = world.disk(presets::wd15ears());
    let env = world.env(disk.clone());
    let (superblock, catalog) = world.run(async {
        Target::format(env.clone(), Profile::guess(disk.geometry().size, true)).await.unwrap();
        let target = Target::open(env.clone()).await.unwrap();
        let free: Vec<_> = target.free_runs();
        let mut spec = RingSpec::new(NAME, free[0].end - free[0].start);
        spec.keys = keys.iter().map(|key| (*key).to_owned()).collect();
        target.create_ring(spec).await.unwrap();
        target.close().await.unwrap();
        let (superblock, catalog, _) = Target::inspect(env.clone()).await.unwrap();
        (superblock, catalog)
    });
    world.kill();
    let content = fill(&disk, superblock, catalog);
    (disk, content)
}

#[test]
fn a_full_ring_of_a_whole_disk_opens_in_ten_seconds_and_takes_elements_in_one() {
    let started = std::time::Instant::now();
    let world = World::new(11);
    let (disk, content) = full(&world, &[]);
    let next = content.first_element(content.tail) + BLOCKS_IN_TAIL * PER_BLOCK;
    let set_up = started.elapsed();

    let (clock, start) = (world.clock(), world.now());
    let since = || clock.now().since(start);
    let (opened, accepted, ready, answered, durable) = world.run(async {
        let target = Target::open(world.env(disk.clone())).await.unwrap();
        let opened = since();
        let ring = target.ring(NAME).unwrap();
        assert!(ring.status().spec.capacity > Bytes::gib(1390), "{}", ring.status().spec.capacity);
        let mut feeder = Feeder::new(ring.clone(), clock.clone(), 5).unwrap();
        feeder.element(Timestamp((next * PACE) as i64), &[&[1; ELEMENT]]).await.unwrap();
        feeder.flush().unwrap();
        let accepted = since();
        ring.ready().await.unwrap();
        let ready = since();
        let newest = next - 3;
        let (events, _) = read(ring.clone(), &format!("seq >= {newest}"), &clock, &world.spawner()).await.unwrap();
        let answered = since();
        let sequences: Vec<u64> = events
            .iter()
            .map(|e| match e {
                Event::Element { sequence, .. } => *sequence,
                other => panic!("{other:?} at the tail"),
            })
            .collect();
        assert!(sequences.starts_with(&[newest, newest + 1, newest + 2]), "{sequences:?}");
        assert_eq!(feeder.durable().await.unwrap(), next + 1);
        let durable = since();
        // From the oldest segment, too.
        let status = ring.status();
        let oldest = format!("seq >= {} and seq < {}", status.first_sequence, status.first_sequence + 2);
        let (events, _) = read(ring, &oldest, &clock, &world.spawner()).await.unwrap();
        let elements = events.iter().filter(|e| matches!(e, Event::Element { .. })).count();
        assert_eq!(elements, 2, "{events:?}");
        (opened, accepted, ready, answered, durable)
    });
    println!(
        "opened after {opened:?}, accepts after {accepted:?}, ready after {ready:?}, first answer after {answered:?}, first element durable after {durable:?}; real: {set_up:?} to set up, {:?} to run",
        started.elapsed() - set_up
    );
    assert!(accepted <= Duration::from_secs(1), "accepts after {accepted:?}");
    assert!(answered <= Duration::from_secs(10), "answers after {answered:?}");
    assert!(durable <= Duration::from_secs(10), "durable after {durable:?}");
}

#[test]
fn a_rare_value_in_one_hour_of_a_full_ring_costs_at_most_two_percent_of_that_hour() {
    let started = std::time::Instant::now();
    let world = World::new(12);
    let (disk, content) = full(&world, &["id=u64le@0"]);
    let rare = content.first_element(content.rare.0) + content.rare.1 * PER_BLOCK + 33;
    // An hour at 60 MB/s; on the disk it begins near the end, and goes on at the beginning.
    let elements = 3600 * 1_000_000_000 / PACE;
    let hour = (rare - elements / 2, rare - elements / 2 + elements);
    let segments = elements / (content.per_segment * PER_BLOCK);
    let bytes = (elements * ELEMENT as u64) as f64;
    assert!(segments > 2300 && bytes > 215e9, "{segments} segments, {bytes} bytes");
    let time = |number: u64| Timestamp((number * PACE) as i64);
    world.run(async {
        let target = Target::open(world.env(disk.clone())).await.unwrap();
        let ring = target.ring(NAME).unwrap();
        ring.ready().await.unwrap();
        for (key, expected) in [(RARE, vec![rare]), (RARE + 1, vec![])] {
            let text = format!("id={key} and time >= {} and time < {}", time(hour.0), time(hour.1));
            let (before, from) = (disk.counters().bytes_read.0, world.now());
            let (events, summary) = read(ring.clone(), &text, &world.clock(), &world.spawner()).await.unwrap();
            let found: Vec<u64> = events
                .iter()
                .map(|e| match e {
                    Event::Element { sequence, .. } => *sequence,
                    other => panic!("{other:?}: {text}"),
                })
                .collect();
            assert_eq!(found, expected, "{text}");
            let beyond = (disk.counters().bytes_read.0 - before).saturating_sub(summary.bytes.0) as f64 / bytes;
            let took = world.now().since(from);
            println!("{text}: {:.3} % of {segments} segments read beyond, in {took:?}", 100.0 * beyond);
            assert!(beyond <= 0.02, "{text} read {:.2} % beyond what it returned", 100.0 * beyond);
        }
    });
    println!("real: {:?}", started.elapsed());
}
