//! A full ring of 1.5 TB opens in seconds, and takes elements in less than one: whatever its size, opening reads the
//! catalog and walks from the last checkpoint to the tail.

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

/// A block: its segment and its number there, and its bytes.
type Made = ((u64, u64), Vec<u8>);

/// What lies in the ring: segments are numbered along it, and hold what their number says.
struct Content {
    target: u128,
    ring: u64,
    segment: Bytes,
    /// Bytes of a block, and blocks in a sealed segment.
    block: u64,
    blocks: u64,
    /// The segment that was being written.
    tail: u64,
    footers: RefCell<BTreeMap<u64, (u64, Vec<u8>)>>,
    /// The block made last.
    last: RefCell<Option<Made>>,
}

impl Content {
    fn first_element(&self, sequence: u64) -> u64 {
        (sequence - 1) * self.blocks * PER_BLOCK
    }

    fn slot(&self, sequence: u64, slots: u64) -> u32 {
        ((sequence - 1) % slots) as u32
    }

    fn make(&self, sequence: u64, slot: u32, index: u64) -> Vec<u8> {
        let first = self.first_element(sequence) + index * PER_BLOCK;
        let mut packer = Packer::new(9);
        packer.give(vec![0u8; 1 << 20]);
        let mut element = [0x5a; ELEMENT];
        for number in first..first + PER_BLOCK {
            element[..8].copy_from_slice(&number.to_le_bytes());
            assert!(packer.push(Timestamp((number * PACE) as i64), &[&element], &[]));
        }
        let mut sealed = packer.seal().unwrap();
        sealed.buffer.truncate(sealed.length);
        let stamp = Stamp {
            target: self.target,
            ring: self.ring,
            segment: sequence,
            slot,
            index: index as u32,
            offset: (index * sealed.length as u64) as u32,
            durable_blocks: index as u32,
            epoch: 1,
            first_sequence: first,
        };
        Header::set_stamp(&mut sealed.buffer, &stamp);
        sealed.buffer
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
        let mut builder = Builder::new(KeySet::none(), IndexBudget::for_segment(self.segment, 0, 0));
        for index in 0..self.blocks {
            let bytes = self.make(sequence, slot, index);
            let view = View::parse(&bytes).unwrap();
            builder.add(&view, (index * self.block) as u32, view.header().first_sequence.get()).unwrap();
            builder.stamped(view.header().header_crc.get());
        }
        let trailer = Trailer {
            target: self.target,
            ring: self.ring,
            slot,
            epoch: 1,
            summary: self.summary(sequence, self.blocks),
            blocks: self.blocks as u32,
            durable_blocks: self.blocks as u32 / 2,
            tables_at: 0,
            tables_len: 0,
            tables_crc: 0,
            writers: forebay_target::catalog::Writers::default(),
        };
        let (start, bytes, _) = encode_footer(builder, self.segment, trailer).unwrap();
        (u64::from(start), bytes)
    }

    /// The page at `offset` of a segment.
    fn page(&self, sequence: u64, slot: u32, offset: u64, page: &mut [u8]) {
        let (index, inside) = (offset / self.block, (offset % self.block) as usize);
        let blocks = if sequence == self.tail { BLOCKS_IN_TAIL } else { self.blocks };
        if index < blocks {
            let mut last = self.last.borrow_mut();
            if last.as_ref().is_none_or(|(which, _)| *which != (sequence, index)) {
                *last = Some(((sequence, index), self.make(sequence, slot, index)));
            }
            let (_, bytes) = last.as_ref().unwrap();
            page.copy_from_slice(&bytes[inside..inside + page.len()]);
        } else if sequence == self.tail {
            // What is left of the lap before does not look like blocks of this one.
            page.fill(0xee);
        } else {
            let mut footers = self.footers.borrow_mut();
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
    let mut content = Content {
        target: superblock.target.0,
        ring: id.0,
        segment: record.segment,
        block: 0,
        blocks: 0,
        tail: 3 * slots + slots / 3,
        footers: RefCell::default(),
        last: RefCell::default(),
    };
    content.block = content.make(1, 0, 0).len() as u64;
    content.blocks = (record.segment.0 - (128 << 10)) / content.block;
    let checkpoint = content.tail - SINCE_CHECKPOINT;
    for sequence in checkpoint - slots..checkpoint {
        record.slots[content.slot(sequence, slots) as usize] = Some(content.summary(sequence, content.blocks));
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

#[test]
fn a_full_ring_of_a_whole_disk_opens_in_ten_seconds_and_takes_elements_in_one() {
    let started = std::time::Instant::now();
    let world = World::new(11);
    let disk = world.disk(presets::wd15ears());
    let env = world.env(disk.clone());
    let (superblock, catalog) = world.run(async {
        Target::format(env.clone(), Profile::guess(disk.geometry().size, true)).await.unwrap();
        let target = Target::open(env.clone()).await.unwrap();
        let free: Vec<_> = target.free_runs();
        target.create_ring(RingSpec::new(NAME, free[0].end - free[0].start)).await.unwrap();
        target.close().await.unwrap();
        let (superblock, catalog, _) = Target::inspect(env.clone()).await.unwrap();
        (superblock, catalog)
    });
    world.kill();
    let content = fill(&disk, superblock, catalog);
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
