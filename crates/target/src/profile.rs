//! Measures a device: rate and latency by position, seeks, stalls, flushes.
//!
//! Each position is read, and written if that is allowed, with several large I/Os in flight, as a ring writes: with
//! flushes among the writes, so that what flushes cost is in the write rate. The time this takes is bounded: pieces
//! become shorter where the device is slow, and where even short ones take too long, only some positions are written,
//! and the others get the share of their read rate that those show. Nothing but the given extent is touched.

mod seeks;
mod stream;

use forebay_env::{Buffer, Env, Slab};
use forebay_model::profile::{FLUSH_BURST, Point};
use forebay_model::{Bytes, Error, Moment, Profile, Rate, Result};
use std::ops::Range;
use std::time::Duration;
use stream::Stream;

/// The largest I/O.
const LARGE: Bytes = Bytes::mib(1);
/// The smallest, where there is little room or time.
const SMALL: Bytes = Bytes::kib(64);
/// I/Os in flight.
const DEPTH: usize = 8;
/// I/Os in a piece: enough for the first few, which fill the queue, to count for little.
const PER_PIECE: u64 = 24;
/// The smallest extent worth measuring.
const LEAST_EXTENT: Bytes = Bytes::mib(4);
/// Share of the budget for rates; the rest is for seeks and flushes.
const RATES_PERCENT: u32 = 80;
/// Set aside for each positioning where the head has to move.
const WAY: Duration = Duration::from_millis(20);
/// A write rate that is still to be filled in.
const UNKNOWN: Rate = Rate(0);
/// What a piece of writing takes at the least, if there is room.
const WRITE_TIME: Duration = Duration::from_millis(180);
/// What a piece of writing moves at the least, if there is room.
const WRITE_ROOM: Bytes = Bytes::mib(16);
/// Assumed at the least of a device that rotates: one that has to try a sector again turns a few dozen times, and a
/// short measurement does not meet one.
const STALL_ROTATING: Duration = Duration::from_millis(500);
/// The same of one that does not: collecting garbage.
const STALL_FLAT: Duration = Duration::from_millis(150);

/// How a device is to be measured.
#[derive(Debug, Clone, PartialEq)]
pub struct MeasureOptions {
    /// Positions, spread evenly; at least 2.
    pub points: usize,
    /// Bytes moved at each position and in each direction, at most.
    pub bytes_per_point: Bytes,
    /// Whether the extent may be overwritten.
    pub writes: bool,
    /// Share of the read rate that is taken for the write rate where `writes` is false, in percent.
    pub writes_percent: u32,
    /// Time for all of it, roughly.
    pub budget: Duration,
}

impl MeasureOptions {
    /// What suits `extent` of a device: three seconds for little or for flash, two minutes for a large disk.
    pub fn for_extent(extent: Bytes, rotates: bool, writes: bool) -> MeasureOptions {
        let large = rotates && extent >= Bytes::gib(128);
        MeasureOptions {
            points: if large { 128 } else { 64 },
            bytes_per_point: Bytes::mib(32),
            writes,
            // A disk writes as fast as it reads, less what verifying a position costs; flash may write at half.
            writes_percent: if rotates { 97 } else { 50 },
            budget: Duration::from_secs(if large { 105 } else { 3 }),
        }
    }
}

/// Measures `extent` of the device of `env`. `progress` hears of shares between 0 and 1.
///
/// With `options.writes`, everything in the extent is lost. Without, write rates are the stated share of read rates.
pub async fn measure(
    env: &Env,
    extent: Range<Bytes>,
    options: MeasureOptions,
    progress: &mut dyn FnMut(f32),
) -> Result<Profile> {
    let geometry = env.device.geometry();
    let grid = SMALL.max(geometry.block);
    let extent = extent.start.align_up(grid)..extent.end.min(geometry.size).align_down(grid);
    let length = extent.end.saturating_sub(extent.start);
    if length < LEAST_EXTENT || options.points < 2 {
        return Err(Error::usage(format!(
            "{}: {} positions on {length} cannot be measured; the least is 2 on {LEAST_EXTENT}",
            geometry.name, options.points
        )));
    }
    let slab = Slab::new(LARGE, DEPTH)?;
    fill_by_chance(env, &slab);
    let mut session = Session {
        env,
        slab,
        extent,
        points: options.points as u64,
        rotates: geometry.rotates,
        began: env.clock.now(),
        stall: if geometry.rotates { STALL_ROTATING } else { STALL_FLAT },
        options,
    };
    let result = session.measure(progress).await;
    result.map_err(|error| error.of(format!("measuring {}", geometry.name)))
}

/// Content that no device can compress or has seen before.
fn fill_by_chance(env: &Env, slab: &Slab) {
    let mut buffers: Vec<Buffer> = std::iter::from_fn(|| slab.try_take()).collect();
    for word in buffers.iter_mut().flat_map(|buffer| buffer.chunks_exact_mut(8)) {
        word.copy_from_slice(&env.random.next_u64().to_le_bytes());
    }
}

struct Session<'a> {
    env: &'a Env,
    slab: Slab,
    extent: Range<Bytes>,
    points: u64,
    rotates: bool,
    options: MeasureOptions,
    began: Moment,
    stall: Duration,
}

impl Session<'_> {
    fn length(&self) -> Bytes {
        self.extent.end - self.extent.start
    }

    fn spent(&self) -> Duration {
        self.env.clock.now().since(self.began)
    }

    /// The most bytes of one piece: a quarter of the way to the next, so that a point says something of a place.
    fn most(&self) -> Bytes {
        (self.length() / self.points / 4).min(self.options.bytes_per_point).max(SMALL * 4)
    }

    /// Where the position of this number is.
    fn offset(&self, number: u64) -> Bytes {
        let room = self.length().saturating_sub(self.most());
        let share = u128::from(room.0) * u128::from(number) / u128::from(self.points - 1);
        (self.extent.start + Bytes(share as u64)).align_down(SMALL)
    }

    async fn measure(&mut self, progress: &mut dyn FnMut(f32)) -> Result<Profile> {
        let points = self.rates(progress).await?;
        let flush = if self.options.writes { Some(self.flush().await?) } else { None };
        progress(0.9);
        let seeks = seeks::measure(self.env, &self.slab, &self.extent, self.options.budget / 8).await?;
        progress(1.0);
        let slowest = points.iter().map(|p| p.write).min().unwrap_or(Rate(1));
        // A flush that nobody has timed moves the burst, and the arm.
        let flush = flush.unwrap_or_else(|| seeks.full_worst + slowest.time_for(FLUSH_BURST));
        Ok(Profile {
            points,
            rotates: self.rotates,
            short_seek: seeks.short_worst,
            full_seek: seeks.full_worst,
            mean_short_seek: seeks.short_mean,
            mean_full_seek: seeks.full_mean,
            stall: self.stall.max(flush),
            flush,
            writes_measured: self.options.writes,
            measured: self.env.clock.wall(),
        })
    }

    /// Reads each position, and writes as many as there is time and room for.
    async fn rates(&mut self, progress: &mut dyn FnMut(f32)) -> Result<Vec<Point>> {
        let budget = self.options.budget * RATES_PERCENT / 100;
        let passes = if self.options.writes { 2 } else { 1 };
        let way = if self.rotates { WAY * passes } else { Duration::ZERO };
        let every = self.points.div_ceil(self.written_points(budget));
        let most_written = (self.length() / self.points * every / 4).clamp(SMALL * 4, self.options.bytes_per_point);
        // A guess for the first piece, and for the others what the one before has shown.
        let mut rate = if self.rotates { Rate::mb(60) } else { Rate::mb(200) };
        let mut points = Vec::with_capacity(self.points as usize);
        // Downwards, since drives read on upwards by themselves: what a piece reads was not in their memory.
        for number in (0..self.points).rev() {
            let spent = self.spent();
            if spent > self.options.budget * 4 {
                return Err(Error::busy(format!(
                    "only {} of {} positions were measured in {spent:?}; the device is too slow for that, or busy: give it more time, or nothing else to do",
                    points.len(),
                    self.points,
                )));
            }
            let left = budget.saturating_sub(spent) / (number + 1) as u32;
            let time = left.saturating_sub(way) * 9 / 10 / passes;
            let offset = self.offset(number);
            let read = self.stream(offset).read(rate.bytes_in(time).clamp(SMALL * 4, self.most())).await?;
            rate = read.rate;
            let mut point = Point { offset, write: UNKNOWN, read: read.rate, worst: read.worst };
            if self.options.writes && (number == 0 || (self.points - 1 - number).is_multiple_of(every)) {
                let piece = rate.bytes_in((time * every as u32).max(WRITE_TIME)).clamp(SMALL * 4, most_written);
                let write = self.stream(offset).write(piece.min(self.extent.end - offset)).await?;
                self.stall = self.stall.max(write.worst);
                rate = rate.min(write.rate);
                (point.write, point.worst) = (write.rate, point.worst.max(write.worst));
            }
            points.push(point);
            progress(0.85 * points.len() as f32 / self.points as f32);
        }
        points.reverse();
        let share = f64::from(self.options.writes_percent) / 100.0;
        fill_in(&mut points, share);
        Ok(points)
    }

    /// At how many positions there is time and room to write: pieces long enough for flushes and turns to even out.
    fn written_points(&self, time: Duration) -> u64 {
        let fit = (time / 2).as_nanos() / (WRITE_TIME + WAY).as_nanos();
        let room = self.length() / (WRITE_ROOM * 4);
        (fit as u64).min(room).max(4).min(self.points)
    }

    /// The longest flush after a burst, where the device is fast and where it is slow.
    async fn flush(&mut self) -> Result<Duration> {
        let burst = FLUSH_BURST.min(self.length() / 4).align_down(SMALL);
        let mut longest = Duration::ZERO;
        for offset in [self.extent.end - burst * 2, self.extent.start] {
            longest = longest.max(self.stream(offset).burst(burst).await?);
        }
        Ok(longest)
    }

    fn stream(&self, offset: Bytes) -> Stream<'_> {
        Stream::new(self.env, &self.slab, offset)
    }
}

/// Gives positions that were not written the share of their read rate that the nearest written ones show, or `share`
/// where none was; in any case nothing outside of what these two wrote.
fn fill_in(points: &mut [Point], share: f64) {
    let written: Vec<usize> = (0..points.len()).filter(|at| points[*at].write != UNKNOWN).collect();
    for at in (0..points.len()).filter(|at| points[*at].write == UNKNOWN).collect::<Vec<_>>() {
        let after = written.partition_point(|w| *w < at);
        let near = [after.checked_sub(1).map(|i| written[i]), written.get(after).copied()];
        let near: Vec<Point> = near.into_iter().flatten().map(|w| points[w]).collect();
        let shares = near.iter().map(|p| p.write.0 as f64 / p.read.0.max(1) as f64);
        let estimate = Rate((points[at].read.0 as f64 * shares.reduce(f64::min).unwrap_or(share)) as u64);
        let low = near.iter().map(|p| p.write).min().unwrap_or(Rate(1));
        let high = near.iter().map(|p| p.write).max().unwrap_or(estimate.max(low));
        points[at].write = estimate.clamp(low, high).max(Rate(1));
    }
}

#[cfg(test)]
mod tests;
