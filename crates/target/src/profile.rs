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
const RATES_PERCENT: u32 = 75;
/// Set aside for each positioning where the head has to move.
const WAY: Duration = Duration::from_millis(20);
/// No device reads faster; memory does.
const PLAUSIBLE: Rate = Rate::mb(20_000);
/// Positioning that takes less does not wait for a platter.
const ROTATES: Duration = Duration::from_millis(1);
/// A rate that is still to be filled in.
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
            budget: if large { Duration::from_secs(105) } else { Duration::from_millis(2400) },
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
        let rotates = self.rotates;
        let plan = seeks::Plan::new(self.env, &self.extent, rotates, self.options.budget / 8);
        let positions: Vec<Bytes> = (0..self.points).map(|number| self.offset(number)).collect();
        let blank = |offset: &Bytes| Point { offset: *offset, write: UNKNOWN, read: UNKNOWN, worst: Duration::ZERO };
        let mut points: Vec<Point> = positions.iter().map(blank).collect();
        let budget = self.options.budget * RATES_PERCENT / 100;
        let mut reads_from = 0.0;
        if self.options.writes {
            // A file system reads what was never written without its device, so all that will be read is written
            // first; and long before, so that no drive has it still in memory.
            plan.prepare(self.env, &self.slab).await?;
            reads_from = 0.5;
            self.write_all(&mut points, budget / 2, &mut |share| progress(share * 0.5)).await?;
        }
        self.read_all(&mut points, budget, &mut |share| progress(reads_from + (0.9 - reads_from) * share)).await?;
        let share = f64::from(self.options.writes_percent) / 100.0;
        if self.options.writes {
            fill_in(&mut points)
        } else {
            derive(&mut points, share)?
        }
        let flush = if self.options.writes { Some(self.flush().await?) } else { None };
        progress(0.95);
        let seeks = plan.measure(self.env, &self.slab).await?;
        progress(1.0);
        let slowest = points.iter().map(|p| p.write).min().unwrap_or(Rate(1));
        // A flush that nobody has timed moves the burst, and the arm.
        let flush = flush.unwrap_or_else(|| seeks.full_worst + slowest.time_for(FLUSH_BURST));
        Ok(Profile {
            points,
            // Virtual disks often say that they rotate when nothing does.
            rotates: rotates && seeks.full_mean >= ROTATES,
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

    /// Writes as many of the positions as there is time and room for, in `budget`.
    async fn write_all(&mut self, points: &mut [Point], budget: Duration, progress: &mut dyn FnMut(f32)) -> Result<()> {
        let count = self.written_points(budget);
        let every = self.points.div_ceil(count);
        let room = (self.length() / self.points * every / 4).clamp(SMALL * 4, self.options.bytes_per_point);
        // A guess for the first piece, and for the others what the one before has shown.
        let mut rate = self.guess();
        let last = points.len() as u64 - 1;
        let chosen: Vec<usize> =
            (0..points.len()).filter(|at| *at == 0 || (last - *at as u64).is_multiple_of(every)).collect();
        for (done, at) in chosen.iter().rev().enumerate() {
            let time = self.time_left(budget, chosen.len() - done)?;
            let offset = points[*at].offset;
            let piece = rate.bytes_in(time.max(WRITE_TIME)).clamp(SMALL * 4, room).min(self.extent.end - offset);
            let seen = self.stream(offset).write(piece).await?;
            rate = seen.rate;
            self.stall = self.stall.max(seen.worst);
            (points[*at].write, points[*at].worst) = (seen.rate, seen.worst);
            progress((done + 1) as f32 / chosen.len() as f32);
        }
        Ok(())
    }

    /// Reads all positions, until `budget` is spent.
    async fn read_all(&mut self, points: &mut [Point], budget: Duration, progress: &mut dyn FnMut(f32)) -> Result<()> {
        let mut rate = self.guess();
        let count = points.len();
        // Downwards, since drives read on upwards by themselves: what a piece reads was not in their memory.
        for (done, point) in points.iter_mut().rev().enumerate() {
            let time = self.time_left(budget, count - done)?;
            let piece = rate.bytes_in(time).clamp(SMALL * 4, self.most());
            let seen = self.stream(point.offset).read(piece).await?;
            rate = seen.rate.min(PLAUSIBLE);
            (point.read, point.worst) = (seen.rate, point.worst.max(seen.worst));
            progress((done + 1) as f32 / count as f32);
        }
        Ok(())
    }

    fn guess(&self) -> Rate {
        if self.rotates { Rate::mb(60) } else { Rate::mb(200) }
    }

    /// Time for each of `pieces` more pieces, the way there not counted.
    fn time_left(&self, budget: Duration, pieces: usize) -> Result<Duration> {
        let spent = self.spent();
        if spent > self.options.budget * 4 {
            return Err(Error::busy(format!(
                "after {spent:?} there are still {pieces} positions to go; the device is too slow for a budget of {:?}, or busy: give it more time, or nothing else to do",
                self.options.budget
            )));
        }
        let way = if self.rotates { WAY } else { Duration::ZERO };
        Ok((budget.saturating_sub(spent) / pieces as u32).saturating_sub(way) * 9 / 10)
    }

    /// At how many positions there is time and room to write: pieces long enough for flushes and turns to even out.
    fn written_points(&self, time: Duration) -> u64 {
        let fit = time.as_nanos() / (WRITE_TIME + WAY).as_nanos();
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

/// Gives positions that were not written the share of their read rate that the nearest written ones show. What was
/// never written may read faster than any device: no rate lies outside of what these two have.
fn fill_in(points: &mut [Point]) {
    let written: Vec<usize> = (0..points.len()).filter(|at| points[*at].write != UNKNOWN).collect();
    for at in (0..points.len()).filter(|at| points[*at].write == UNKNOWN).collect::<Vec<_>>() {
        let after = written.partition_point(|w| *w < at);
        let near = [after.checked_sub(1).map(|i| written[i]), written.get(after).copied()];
        let near: Vec<Point> = near.into_iter().flatten().map(|w| points[w]).collect();
        let range = |rate: fn(&Point) -> Rate| near.iter().map(rate).min().zip(near.iter().map(rate).max());
        let (Some((low, high)), Some((slow, fast))) = (range(|p| p.write), range(|p| p.read)) else { continue };
        let shares = near.iter().map(|p| p.write.0 as f64 / p.read.0.max(1) as f64);
        let read = points[at].read;
        let estimate = Rate((read.0 as f64 * shares.fold(f64::INFINITY, f64::min)) as u64);
        // A read beyond both says nothing of the place.
        points[at].write = if read > fast { low } else { estimate.clamp(low, high) };
        points[at].read = read.clamp(slow, fast);
    }
}

/// Takes `share` of the read rates for write rates.
fn derive(points: &mut [Point], share: f64) -> Result<()> {
    let Some(slowest) = points.iter().map(|p| p.read).filter(|rate| *rate <= PLAUSIBLE).min() else {
        return Err(Error::usage(
            "it was never written, so reading shows nothing; measure it with writes, or a part of it that may be written",
        ));
    };
    for point in points {
        // What was never written does not come from the device.
        point.read = if point.read > PLAUSIBLE { slowest } else { point.read };
        point.write = Rate((point.read.0 as f64 * share) as u64).max(Rate(1));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
