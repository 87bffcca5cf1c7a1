//! What the device itself allows: raw large I/O, alternating between writing at the guaranteed rate and reading.

use crate::disk::DiskSpec;
use crate::world::World;
use forebay_env::{Buffer, Device, Spawner};
use forebay_model::{Bytes, Rate};
use std::collections::VecDeque;
use std::ops::Range;

/// Bytes written or read before the arm goes to the other side.
const TURN: Bytes = Bytes::mib(64);
/// One I/O.
const PIECE: Bytes = Bytes::mib(4);
/// I/Os in flight.
const DEPTH: usize = 4;
/// Places along the ring at which the alternation is tried.
const SAMPLES: u64 = 8;

/// Where and how fast.
#[derive(Debug, Clone)]
pub struct Sample {
    /// The places of the ring.
    pub places: Vec<Range<Bytes>>,
    /// The rate to be written.
    pub write: Rate,
    /// How long at each place.
    pub seconds: u64,
}

/// The rate at which one reader reads beside a writer of `sample.write`, both in turns of 64 MiB, with the writer at
/// evenly spread places of the ring and the reader half a ring away. Zero where the write rate alone is too much.
pub fn alternating(seed: u64, spec: &DiskSpec, sample: &Sample) -> Rate {
    let total: u64 = sample.places.iter().map(|p| (p.end - p.start).0).sum();
    let at = |mut offset: u64| {
        for place in &sample.places {
            let length = (place.end - place.start).0;
            if offset < length {
                return place.start + Bytes(offset).align_down(PIECE);
            }
            offset -= length;
        }
        sample.places[0].start
    };
    let sum: u64 = (0..SAMPLES)
        .map(|i| {
            let (write, read) = (at(total * i / SAMPLES), at((total * i / SAMPLES + total / 2) % total));
            let end = sample.places.last().map_or(Bytes::ZERO, |p| p.end);
            one(seed + i, spec, write, read, end, sample.write, sample.seconds).0
        })
        .sum();
    Rate(sum / SAMPLES)
}

fn one(seed: u64, spec: &DiskSpec, write_at: Bytes, read_at: Bytes, end: Bytes, rate: Rate, seconds: u64) -> Rate {
    let world = World::new(seed);
    let disk = world.disk(spec.clone());
    let (clock, spawner) = (world.clock(), world.spawner());
    let span = std::time::Duration::from_secs(seconds);
    let room = |start: Bytes| (end.saturating_sub(start)).align_down(PIECE).max(PIECE);
    world.run(async {
        let start = clock.now();
        let (mut written, mut read) = (0u64, 0u64);
        while clock.now().since(start) < span {
            let from = write_at + Bytes(written % room(write_at).0);
            let turn = TURN.min(room(from));
            stream(&disk, &spawner, from, turn, true).await;
            written += turn.0;
            // Reading lasts until the next turn is due; what it takes too long is taken from the next reading.
            let due = start + rate.time_for(Bytes(written));
            while clock.now() < due {
                let from = read_at + Bytes(read % room(read_at).0);
                stream(&disk, &spawner, from, PIECE * DEPTH as u64, false).await;
                read += PIECE.0 * DEPTH as u64;
            }
        }
        // Time is counted by what was written: a writer that came late has not kept its rate yet.
        Rate::of(Bytes(read), rate.time_for(Bytes(written)).max(clock.now().since(start)))
    })
}

async fn stream(disk: &crate::disk::SimDisk, spawner: &Spawner, from: Bytes, length: Bytes, write: bool) {
    let mut in_flight = VecDeque::new();
    let mut at = Bytes::ZERO;
    while at < length || !in_flight.is_empty() {
        while at < length && in_flight.len() < DEPTH {
            let buffer = Buffer::alone(PIECE).expect("memory for a buffer");
            let io = if write { disk.write(from + at, buffer) } else { disk.read(from + at, buffer) };
            in_flight.push_back(spawner.spawn(io));
            at += PIECE;
        }
        if let Some(io) = in_flight.pop_front() {
            let (_, result) = io.await;
            result.expect("a healthy disk");
        }
    }
}
