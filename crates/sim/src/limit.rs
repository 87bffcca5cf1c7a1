//! What the device itself allows: raw large I/O, alternating between writing at the guaranteed rate and reading.

use crate::disk::{DiskSpec, SimDisk};
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
/// Places along the ring at which the alternation is tried: the middles of as many equal parts.
const SAMPLES: u64 = 32;

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

/// A ring's places as one line of whole pieces that ends where it begins.
struct Line<'a> {
    places: &'a [Range<Bytes>],
    length: u64,
}

impl Line<'_> {
    fn new(places: &[Range<Bytes>]) -> Line<'_> {
        let length = places.iter().map(|p| (p.end - p.start).align_down(PIECE).0).sum();
        Line { places, length }
    }

    /// Where the piece at `offset` of the line lies.
    fn at(&self, offset: u64) -> Bytes {
        let mut offset = Bytes(offset % self.length).align_down(PIECE);
        for place in self.places {
            let length = (place.end - place.start).align_down(PIECE);
            if offset < length {
                return place.start + offset;
            }
            offset -= length;
        }
        unreachable!("the line is as long as its places")
    }
}

/// The rate at which one reader reads beside a writer of `sample.write`, both in turns of 64 MiB, with the writer at
/// evenly spread places of the ring and the reader half a ring away. Zero where the write rate alone is too much.
pub fn alternating(seed: u64, spec: &DiskSpec, sample: &Sample) -> Rate {
    let line = Line::new(&sample.places);
    let sum: u64 = (0..SAMPLES)
        .map(|i| {
            let middle = line.length / (2 * SAMPLES) * (2 * i + 1);
            one(seed + i, spec, &line, middle, sample.write, sample.seconds).0
        })
        .sum();
    Rate(sum / SAMPLES)
}

fn one(seed: u64, spec: &DiskSpec, line: &Line, write_from: u64, rate: Rate, seconds: u64) -> Rate {
    let world = World::new(seed);
    let disk = world.disk(spec.clone());
    let (clock, spawner) = (world.clock(), world.spawner());
    let span = std::time::Duration::from_secs(seconds);
    let read_from = write_from + line.length / 2;
    world.run(async {
        let start = clock.now();
        let (mut written, mut read) = (0u64, 0u64);
        while clock.now().since(start) < span {
            stream(&disk, &spawner, line, write_from + written, TURN, true).await;
            written += TURN.0;
            // Reading lasts until the next turn is due; what it takes too long is taken from the next reading.
            let due = start + rate.time_for(Bytes(written));
            while clock.now() < due {
                let round = PIECE * DEPTH as u64;
                stream(&disk, &spawner, line, read_from + read, round, false).await;
                read += round.0;
            }
        }
        // What the drive still owes is part of the work.
        disk.flush().await.expect("a healthy disk");
        // Time is counted by what was written: a writer that came late has not kept its rate yet.
        Rate::of(Bytes(read), rate.time_for(Bytes(written)).max(clock.now().since(start)))
    })
}

/// Moves `length` bytes from `from` of the line on.
async fn stream(disk: &SimDisk, spawner: &Spawner, line: &Line<'_>, from: u64, length: Bytes, write: bool) {
    let mut in_flight = VecDeque::new();
    let mut done = 0;
    while done < length.0 || !in_flight.is_empty() {
        while done < length.0 && in_flight.len() < DEPTH {
            let buffer = Buffer::alone(PIECE).expect("memory for a buffer");
            let at = line.at(from + done);
            let io = if write { disk.write(at, buffer) } else { disk.read(at, buffer) };
            in_flight.push_back(spawner.spawn(io));
            done += PIECE.0;
        }
        if let Some(io) = in_flight.pop_front() {
            let (_, result) = io.await;
            result.expect("a healthy disk");
        }
    }
}
