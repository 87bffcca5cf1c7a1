//! What every [`Device`](crate::Device) is held to, real or simulated: one list of checks, run on each kind in its own tests.
//! ([`fabric`] has the same for networks.)
//!
//! The checks write to the first [`SPACE`] of the device and need nothing else of it. Each is independent of the
//! others. Chance comes from the environment, so a simulated run is replayed by its seed.

use crate::buffer::{Buffer, Slab};
use crate::device::DeviceFuture;
use crate::{Env, Random};
use forebay_model::{Bytes, Kind, Result};
use std::cell::Cell;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;

/// How much of the device the checks overwrite; it must have at least this much.
pub const SPACE: Bytes = Bytes::mib(8);

/// Why a check failed; an error of the device fails it too.
#[derive(Debug)]
pub struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<forebay_model::Error> for Failure {
    fn from(error: forebay_model::Error) -> Failure {
        Failure(format!("{:?}: {error}", error.kind))
    }
}

type Transfer = DeviceFuture<(Buffer, Result<()>)>;
type Verdict = std::result::Result<(), Failure>;
type Body = fn(Env) -> Pin<Box<dyn Future<Output = Verdict>>>;

/// One thing that a device must do.
pub struct Check {
    /// The sentence that holds if it passes.
    pub name: &'static str,
    body: Body,
}

macro_rules! checks {
    ($($name:literal => $body:ident),* $(,)?) => {
        /// All checks.
        pub const CHECKS: &[Check] = &[$(Check { name: $name, body: |env| Box::pin($body(env)) }),*];
    };
}

checks! {
    "the geometry makes sense" => geometry_makes_sense,
    "a read sees the write that ended before it" => read_your_writes,
    "a later write replaces an earlier one, where they overlap" => overlapping_writes,
    "space never written can be read" => unwritten_space,
    "a transfer off the block grid is refused and touches nothing" => off_the_grid,
    "a transfer past the end is refused and touches nothing" => past_the_end,
    "a transfer of no bytes is refused" => no_bytes,
    "buffers come back, whatever happens" => buffers_come_back,
    "many transfers are in flight at once and may be awaited in any order" => many_in_flight,
    "a transfer that nobody waits for happens all the same" => dropped_futures,
    "a transfer proceeds without being polled" => unpolled_futures,
    "a flush after writes succeeds, also several at once and with nothing to do" => flushes,
    "a durable write is there when it ends, also several at once, and is refused as others are" => durable_writes,
    "long transfers arrive whole" => long_transfers,
    "random transfers agree with a model" => random_transfers,
}

/// Which checks held, and which did not and why.
#[derive(Debug, Default)]
pub struct Report {
    /// Names of the checks that held.
    pub held: Vec<&'static str>,
    /// Names of those that did not, with the reason.
    pub failed: Vec<(&'static str, Failure)>,
}

impl Report {
    /// Panics with everything that failed.
    pub fn assert(&self) {
        let failures: Vec<String> = self.failed.iter().map(|(name, why)| format!("not so: {name}: {why}")).collect();
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}

/// Runs all checks on the device of `env`, one after the other.
pub async fn run(env: Env) -> Report {
    let mut report = Report::default();
    for check in CHECKS {
        match (check.body)(env.clone()).await {
            Ok(()) => report.held.push(check.name),
            Err(failure) => report.failed.push((check.name, failure)),
        }
    }
    report
}

macro_rules! ensure {
    ($condition:expr, $($message:tt)*) => {
        if !$condition {
            return Err(Failure(format!($($message)*)));
        }
    };
}

pub mod fabric;
pub mod streams;

fn block(env: &Env) -> Bytes {
    env.device.geometry().block
}

/// A slab of `count` buffers that hold `blocks` blocks each.
fn slab(env: &Env, blocks: u64, count: usize) -> Result<Slab> {
    let length = block(env) * blocks;
    Slab::new(length.align_up(Bytes(crate::buffer::ALIGN as u64)), count)
}

fn take(slab: &Slab, length: Bytes) -> std::result::Result<Buffer, Failure> {
    let mut buffer = slab.try_take().ok_or_else(|| Failure("a buffer has not come back".into()))?;
    buffer.set_len(length.0 as usize);
    Ok(buffer)
}

/// Fills a buffer with what belongs at `offset` in `round`: no two places and no two rounds look alike.
fn paint(buffer: &mut Buffer, offset: Bytes, round: u64) {
    for (index, word) in buffer.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&pattern(offset.0 / 8 + index as u64, round).to_le_bytes());
    }
}

fn pattern(place: u64, round: u64) -> u64 {
    (place.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ round.wrapping_mul(0xd1b5_4a32_d192_ed03)).rotate_left(29) ^ place
}

fn expect_painted(buffer: &Buffer, offset: Bytes, round: u64) -> Verdict {
    for (index, word) in buffer.chunks_exact(8).enumerate() {
        let place = offset.0 / 8 + index as u64;
        ensure!(word == pattern(place, round).to_le_bytes(), "byte {} is not what round {round} wrote", place * 8);
    }
    Ok(())
}

async fn write_painted(env: &Env, slab: &Slab, offset: Bytes, length: Bytes, round: u64) -> Verdict {
    let mut buffer = take(slab, length)?;
    paint(&mut buffer, offset, round);
    env.device.write(offset, buffer).await.1?;
    Ok(())
}

async fn read_painted(env: &Env, slab: &Slab, offset: Bytes, length: Bytes, round: u64) -> Verdict {
    let (buffer, result) = env.device.read(offset, take(slab, length)?).await;
    result?;
    ensure!(buffer.len() as u64 == length.0, "a read of {} bytes gave {}", length.0, buffer.len());
    expect_painted(&buffer, offset, round)
}

async fn geometry_makes_sense(env: Env) -> Verdict {
    let geometry = env.device.geometry();
    ensure!(geometry.block.0.is_power_of_two() && geometry.block.0 >= 512, "the block is {}", geometry.block);
    ensure!(geometry.size % geometry.block == Bytes::ZERO, "{} is not a number of blocks", geometry.size.0);
    ensure!(geometry.size >= SPACE, "{} is less than the checks need, {SPACE}", geometry.size);
    ensure!(!geometry.name.is_empty(), "it has no name");
    ensure!(env.device.geometry() == geometry, "it says something else the second time");
    Ok(())
}

async fn read_your_writes(env: Env) -> Verdict {
    let slab = slab(&env, 16, 2)?;
    let unit = block(&env);
    for (round, (at, blocks)) in [(0, 1), (3, 16), (100, 7), (0, 16)].into_iter().enumerate() {
        let (offset, length) = (unit * at, unit * blocks);
        write_painted(&env, &slab, offset, length, round as u64).await?;
        read_painted(&env, &slab, offset, length, round as u64).await?;
    }
    Ok(())
}

async fn overlapping_writes(env: Env) -> Verdict {
    let slab = slab(&env, 8, 2)?;
    let unit = block(&env);
    write_painted(&env, &slab, Bytes::ZERO, unit * 8, 11).await?;
    write_painted(&env, &slab, unit * 4, unit * 8, 12).await?;
    write_painted(&env, &slab, unit * 5, unit * 2, 13).await?;
    for (at, blocks, round) in [(0, 4, 11), (4, 1, 12), (5, 2, 13), (7, 5, 12)] {
        read_painted(&env, &slab, unit * at, unit * blocks, round).await?;
    }
    Ok(())
}

async fn unwritten_space(env: Env) -> Verdict {
    let slab = slab(&env, 4, 1)?;
    let geometry = env.device.geometry();
    let length = geometry.block * 4;
    let middle = Bytes(geometry.size.0 / 2).align_down(geometry.block);
    for offset in [SPACE - length, middle - length, geometry.size - length] {
        env.device.read(offset, take(&slab, length)?).await.1?;
    }
    Ok(())
}

async fn expect_usage(what: &str, future: Transfer) -> Verdict {
    let (_, result) = future.await;
    match result {
        Err(e) if e.kind == Kind::Usage => {
            ensure!(!e.message.is_empty(), "{what} was refused without a word");
            Ok(())
        }
        Err(e) => Err(Failure(format!("{what} was refused with {:?}, not as a wrong request: {e}", e.kind))),
        Ok(()) => Err(Failure(format!("{what} was done"))),
    }
}

async fn off_the_grid(env: Env) -> Verdict {
    let slab = slab(&env, 4, 2)?;
    let unit = block(&env);
    write_painted(&env, &slab, Bytes::ZERO, unit * 4, 21).await?;
    for (offset, length) in [
        (Bytes(1), unit),
        (unit / 2, unit),
        (Bytes::ZERO, Bytes(1)),
        (Bytes::ZERO, unit + Bytes(8)),
        (unit, unit / 2),
        (unit - Bytes(1), unit - Bytes(1)),
    ] {
        let what = format!("{} bytes at offset {}", length.0, offset.0);
        let mut buffer = take(&slab, length)?;
        buffer.fill(0xee);
        expect_usage(&format!("a write of {what}"), env.device.write(offset, buffer)).await?;
        expect_usage(&format!("a read of {what}"), env.device.read(offset, take(&slab, length)?)).await?;
    }
    read_painted(&env, &slab, Bytes::ZERO, unit * 4, 21).await
}

async fn past_the_end(env: Env) -> Verdict {
    let slab = slab(&env, 4, 2)?;
    let geometry = env.device.geometry();
    let unit = geometry.block;
    // Left as it is: the last blocks are not ours to write.
    let (before, result) = env.device.read(geometry.size - unit * 2, take(&slab, unit * 2)?).await;
    result?;
    let largest = Bytes(u64::MAX).align_down(unit);
    for offset in [geometry.size - unit, geometry.size, geometry.size + unit * 1000, largest, largest - unit] {
        let length = unit * 2;
        let what = format!("{} bytes at offset {}", length.0, offset.0);
        let mut buffer = take(&slab, length)?;
        buffer.fill(0xee);
        expect_usage(&format!("a write of {what}"), env.device.write(offset, buffer)).await?;
        expect_usage(&format!("a read of {what}"), env.device.read(offset, take(&slab, length)?)).await?;
    }
    let (after, result) = env.device.read(geometry.size - unit * 2, take(&slab, unit * 2)?).await;
    result?;
    ensure!(*before == *after, "the last blocks have changed");
    Ok(())
}

async fn no_bytes(env: Env) -> Verdict {
    let slab = slab(&env, 1, 1)?;
    expect_usage("a write of no bytes", env.device.write(Bytes::ZERO, take(&slab, Bytes::ZERO)?)).await?;
    expect_usage("a read of no bytes", env.device.read(Bytes::ZERO, take(&slab, Bytes::ZERO)?)).await
}

async fn buffers_come_back(env: Env) -> Verdict {
    let slab = slab(&env, 2, 3)?;
    let unit = block(&env);
    for (offset, length) in [(Bytes::ZERO, unit * 2), (unit, unit), (Bytes(3), unit), (Bytes(u64::MAX - 7), unit)] {
        for write in [true, false] {
            let buffer = take(&slab, length)?;
            let address = buffer.address();
            let (buffer, _) =
                if write { env.device.write(offset, buffer) } else { env.device.read(offset, buffer) }.await;
            ensure!(buffer.address() == address, "another buffer came back");
            ensure!(buffer.len() as u64 == length.0, "{} bytes came back as {}", length.0, buffer.len());
        }
    }
    ensure!(slab.available() == slab.count(), "{} of {} buffers are free", slab.available(), slab.count());
    Ok(())
}

async fn many_in_flight(env: Env) -> Verdict {
    let unit = block(&env);
    let count = (SPACE / unit).min(600);
    let slab = slab(&env, 1, count as usize)?;
    // Far from sequential; the stride is prime to every count that can be, so no two places are the same.
    let place = move |index: u64| unit * (index * 7 % count);
    let mut flights = Vec::new();
    for index in 0..count {
        let mut buffer = take(&slab, unit)?;
        paint(&mut buffer, place(index), 31);
        flights.push(env.device.write(place(index), buffer));
    }
    // The last first: an order in which they can hardly have ended.
    while let Some(flight) = flights.pop() {
        flight.await.1?;
    }
    let left = Rc::new(Cell::new(count));
    let mut tasks = Vec::new();
    for index in 0..count {
        let read = env.device.read(place(index), take(&slab, unit)?);
        let left = left.clone();
        tasks.push(env.spawner.spawn(async move {
            let (buffer, result) = read.await;
            left.set(left.get() - 1);
            result?;
            expect_painted(&buffer, place(index), 31)
        }));
    }
    for task in tasks {
        task.await?;
    }
    ensure!(left.get() == 0, "{} reads did not end", left.get());
    ensure!(slab.available() == slab.count(), "{} of {} buffers are free", slab.available(), slab.count());
    Ok(())
}

async fn dropped_futures(env: Env) -> Verdict {
    const COUNT: u64 = 64;
    let slab = slab(&env, 2, COUNT as usize)?;
    let unit = block(&env);
    for index in 0..COUNT {
        let mut buffer = take(&slab, unit * 2)?;
        paint(&mut buffer, unit * (index * 2), 41);
        drop(env.device.write(unit * (index * 2), buffer));
    }
    // A buffer comes back when its write has ended, whether or not anybody waits for it.
    all_back(&slab).await;
    for index in 0..COUNT {
        read_painted(&env, &slab, unit * (index * 2), unit * 2, 41).await?;
    }
    for index in 0..COUNT {
        drop(env.device.read(unit * (index * 2), take(&slab, unit * 2)?));
    }
    drop(env.device.flush());
    all_back(&slab).await;
    env.device.flush().await?;
    Ok(())
}

/// Waits until every buffer of the slab is free.
async fn all_back(slab: &Slab) {
    let mut all = Vec::new();
    while all.len() < slab.count() {
        all.push(slab.take().await);
    }
}

async fn unpolled_futures(env: Env) -> Verdict {
    let (first, second) = (slab(&env, 1, 1)?, slab(&env, 1, 1)?);
    let unit = block(&env);
    let mut buffer = take(&first, unit)?;
    paint(&mut buffer, Bytes::ZERO, 51);
    let unpolled = env.device.write(Bytes::ZERO, buffer);
    // Nobody has polled it; other I/O passes until its effect shows, and that cannot take for ever.
    for _ in 0..100_000 {
        let (seen, result) = env.device.read(Bytes::ZERO, take(&second, unit)?).await;
        result?;
        if expect_painted(&seen, Bytes::ZERO, 51).is_ok() {
            unpolled.await.1?;
            return Ok(());
        }
    }
    Err(Failure("a write that was not polled has not happened in the time of 100 000 reads".into()))
}

async fn durable_writes(env: Env) -> Verdict {
    let slab = slab(&env, 4, 9)?;
    let unit = block(&env);
    let mut under_way = Vec::new();
    for index in 0..8 {
        let mut buffer = take(&slab, unit * 4)?;
        paint(&mut buffer, unit * (index * 4), 63);
        under_way.push(env.device.write_durable(unit * (index * 4), buffer));
    }
    for write in under_way {
        write.await.1?;
    }
    for index in 0..8 {
        read_painted(&env, &slab, unit * (index * 4), unit * 4, 63).await?;
    }
    let size = env.device.geometry().size;
    let (_, result) = env.device.write_durable(size.align_down(unit), take(&slab, unit * 4)?).await;
    ensure!(matches!(&result, Err(e) if e.kind == Kind::Usage), "a durable write past the end gave {result:?}");
    Ok(())
}

async fn flushes(env: Env) -> Verdict {
    let slab = slab(&env, 4, 8)?;
    let unit = block(&env);
    env.device.flush().await?;
    for index in 0..8 {
        write_painted(&env, &slab, unit * (index * 4), unit * 4, 61).await?;
    }
    env.device.flush().await?;
    let mut mixed = Vec::new();
    for index in 0..8 {
        let mut buffer = take(&slab, unit * 4)?;
        paint(&mut buffer, unit * (index * 4), 62);
        mixed.push(env.device.write(unit * (index * 4), buffer));
    }
    let (one, two) = (env.device.flush(), env.device.flush());
    two.await?;
    one.await?;
    for write in mixed {
        write.await.1?;
    }
    env.device.flush().await?;
    for index in 0..8 {
        read_painted(&env, &slab, unit * (index * 4), unit * 4, 62).await?;
    }
    Ok(())
}

async fn long_transfers(env: Env) -> Verdict {
    let slab = Slab::new(SPACE, 2)?;
    write_painted(&env, &slab, Bytes::ZERO, SPACE, 71).await?;
    read_painted(&env, &slab, Bytes::ZERO, SPACE, 71).await?;
    let unit = block(&env);
    read_painted(&env, &slab, unit, SPACE - unit * 2, 71).await
}

/// Transfers of random size and place; those in flight together never overlap, so the model knows every block.
async fn random_transfers(env: Env) -> Verdict {
    const LONGEST: u64 = 64;
    const ROUNDS: u64 = 40;
    let unit = block(&env);
    let blocks = (SPACE / unit).min(4096);
    let slab = slab(&env, LONGEST, 32)?;
    // The round in which each block was last written.
    let mut model: Vec<u64> = vec![u64::MAX; blocks as usize];
    for round in 100..100 + ROUNDS {
        let mut flights: Vec<(u64, u64, Transfer)> = Vec::new();
        let mut written = Vec::new();
        for _ in 0..env.random.below(31) + 1 {
            let (first, count) = place(&*env.random, blocks, LONGEST);
            let taken = |(start, length, _): &(u64, u64, _)| first < start + length && *start < first + count;
            if flights.iter().any(taken) {
                continue;
            }
            let (offset, length) = (unit * first, unit * count);
            let mut buffer = take(&slab, length)?;
            let flight = if env.random.below(2) == 0 {
                paint(&mut buffer, offset, round);
                model[first as usize..(first + count) as usize].fill(round);
                written.push((offset, length));
                env.device.write(offset, buffer)
            } else {
                env.device.read(offset, buffer)
            };
            flights.push((first, count, flight));
        }
        while !flights.is_empty() {
            let chosen = env.random.below(flights.len() as u64) as usize;
            let (first, count, flight) = flights.swap_remove(chosen);
            let (buffer, result) = flight.await;
            result?;
            for index in 0..count {
                let last = model[(first + index) as usize];
                if last == u64::MAX {
                    continue;
                }
                let range = (index * unit.0) as usize..((index + 1) * unit.0) as usize;
                let place = (first + index) * unit.0 / 8;
                let same = buffer[range]
                    .chunks_exact(8)
                    .enumerate()
                    .all(|(word, bytes)| bytes == pattern(place + word as u64, last).to_le_bytes());
                ensure!(same, "block {} is not what round {last} wrote, in round {round}", first + index);
            }
        }
        // At once, before a later round can cover up what went astray.
        for (offset, length) in written {
            read_painted(&env, &slab, offset, length, round).await?;
        }
        if env.random.below(4) == 0 {
            env.device.flush().await?;
        }
    }
    // What a stray write did to a block that no later transfer came to shows only if all are looked at.
    for index in 0..blocks {
        if model[index as usize] != u64::MAX {
            read_painted(&env, &slab, unit * index, unit, model[index as usize]).await?;
        }
    }
    Ok(())
}

fn place(random: &dyn Random, blocks: u64, longest: u64) -> (u64, u64) {
    let count = random.below(longest) + 1;
    (random.below(blocks - count + 1), count)
}

#[cfg(test)]
mod tests;
