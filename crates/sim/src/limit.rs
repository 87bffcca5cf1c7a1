//! What the device itself allows: raw large I/O, alternating between writing at the guaranteed rate and reading.

use crate::disk::DiskSpec;
use crate::world::World;
use forebay_env::{Buffer, Env};
use forebay_model::{Bytes, Error, Rate, Result};
use std::collections::VecDeque;
use std::ops::Range;
use std::time::Duration;

/// Bytes written before the arm goes to the other side.
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

    /// The middle of part `i` of as many equal ones as `parts`.
    fn middle(&self, i: u64, parts: u64) -> u64 {
        self.length / (2 * parts) * (2 * i + 1)
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
    let span = Duration::from_secs(sample.seconds);
    let sum: u64 = (0..SAMPLES)
        .map(|i| {
            let world = World::new(seed + i);
            let env = world.env(world.disk(spec.clone()));
            let rate = world.run(async {
                let mut raw = Raw::new(&env, &line, TURN, &|_| ()).expect("memory for buffers");
                raw.alternate(line.middle(i, SAMPLES), sample.write, span).await
            });
            rate.expect("a healthy disk").0
        })
        .sum();
    Rate(sum / SAMPLES)
}

/// The same on any device, at as many of the places as there is a turn for in about `span` of its time; where the rate
/// is so low that `span` has no two turns, they are shorter. `fill` makes what is written.
pub async fn on_device(
    env: &Env,
    places: &[Range<Bytes>],
    write: Rate,
    span: Duration,
    fill: &dyn Fn(&mut Buffer),
) -> Result<Rate> {
    let line = Line::new(places);
    if line.length == 0 {
        return Err(Error::usage(format!("the ring has no {PIECE} in one place to read and write; make it larger")));
    }
    let turn = Bytes(write.bytes_in(span).0 / 2).min(TURN).align_down(PIECE).max(PIECE);
    let turns = write.bytes_in(span).0 / turn.0;
    let samples = turns.clamp(1, SAMPLES);
    let mut raw = Raw::new(env, &line, turn, fill)?;
    let mut sum = 0;
    for i in 0..samples {
        sum += raw.alternate(line.middle(i, samples), write, span / samples as u32).await?.0;
    }
    Ok(Rate(sum / samples))
}

/// Raw I/O along a line, with buffers that are used again and again.
struct Raw<'a> {
    env: &'a Env,
    line: &'a Line<'a>,
    /// Bytes of a turn of writing.
    turn: Bytes,
    to_write: Vec<Buffer>,
    to_read: Vec<Buffer>,
}

impl Raw<'_> {
    fn new<'a>(env: &'a Env, line: &'a Line<'a>, turn: Bytes, fill: &dyn Fn(&mut Buffer)) -> Result<Raw<'a>> {
        let buffers = || (0..DEPTH).map(|_| Buffer::alone(PIECE)).collect::<Result<Vec<Buffer>>>();
        let (mut to_write, to_read) = (buffers()?, buffers()?);
        to_write.iter_mut().for_each(fill);
        Ok(Raw { env, line, turn, to_write, to_read })
    }

    /// Writes at `rate` from `write_from` on, and reads half a line away in the time that is left.
    async fn alternate(&mut self, write_from: u64, rate: Rate, span: Duration) -> Result<Rate> {
        let read_from = write_from + self.line.length / 2;
        let clock = self.env.clock.clone();
        let start = clock.now();
        let (mut written, mut read) = (0u64, 0u64);
        while clock.now().since(start) < span {
            self.stream(write_from + written, self.turn, true).await?;
            written += self.turn.0;
            // Reading lasts until the next turn is due; what it takes too long is taken from the next reading.
            let due = start + rate.time_for(Bytes(written));
            while clock.now() < due {
                let round = PIECE * DEPTH as u64;
                self.stream(read_from + read, round, false).await?;
                read += round.0;
            }
        }
        // What the drive still owes is part of the work.
        self.env.device.flush().await?;
        // Time is counted by what was written: a writer that came late has not kept its rate yet.
        Ok(Rate::of(Bytes(read), rate.time_for(Bytes(written)).max(clock.now().since(start))))
    }

    /// Moves `length` bytes from `from` of the line on.
    async fn stream(&mut self, from: u64, length: Bytes, write: bool) -> Result<()> {
        let Raw { env, line, to_write, to_read, .. } = self;
        let free = if write { to_write } else { to_read };
        let mut in_flight = VecDeque::new();
        let mut done = 0;
        while done < length.0 || !in_flight.is_empty() {
            while done < length.0
                && let Some(buffer) = free.pop()
            {
                let at = line.at(from + done);
                let io = if write { env.device.write(at, buffer) } else { env.device.read(at, buffer) };
                in_flight.push_back(env.spawner.spawn(io));
                done += PIECE.0;
            }
            if let Some(io) = in_flight.pop_front() {
                let (buffer, result) = io.await;
                result?;
                free.push(buffer);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
