//! Consecutive I/Os from one place on, several in flight, timed one by one.

use super::{DEPTH, LARGE, PER_PIECE, SMALL};
use forebay_env::{Buffer, DeviceFuture, Env, Slab};
use forebay_model::profile::FLUSH_BURST;
use forebay_model::{Bytes, Moment, Rate, Result};
use std::task::Poll;
use std::time::Duration;

/// What a piece showed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    /// Sustained rate.
    pub rate: Rate,
    /// Slowest I/O.
    pub worst: Duration,
}

/// A read or write under way.
type Transfer = DeviceFuture<(Buffer, Result<()>)>;

pub(super) struct Stream<'a> {
    env: &'a Env,
    slab: &'a Slab,
    next: Bytes,
    in_flight: Vec<(Moment, Transfer)>,
    flushes: Vec<DeviceFuture<Result<()>>>,
    worst: Duration,
}

/// What ended: a read or write, and when, or a flush.
type Ended = Option<Moment>;

#[derive(Clone, Copy, PartialEq)]
enum Direction {
    Read,
    Write,
}

impl<'a> Stream<'a> {
    pub(super) fn new(env: &'a Env, slab: &'a Slab, offset: Bytes) -> Stream<'a> {
        Stream {
            env,
            slab,
            next: offset,
            in_flight: Vec::with_capacity(DEPTH),
            flushes: Vec::new(),
            worst: Duration::ZERO,
        }
    }

    /// Reads `total` bytes.
    pub(super) async fn read(mut self, total: Bytes) -> Result<Seen> {
        let io = io_size(total);
        let ends = self.run(Direction::Read, total / io, io, None).await?;
        // The first I/Os pay for the way here and for filling the queue; from then on it is as it goes on.
        let skipped = DEPTH.min(ends.len() / 2);
        let (from, to) = (ends[skipped - 1], ends[ends.len() - 1]);
        Ok(self.seen(Rate::of(io * (ends.len() - skipped) as u64, to.since(from))))
    }

    /// Writes `total` bytes with flushes among them.
    pub(super) async fn write(mut self, total: Bytes) -> Result<Seen> {
        let io = io_size(total);
        let count = total / io;
        // A cache takes what is written at once, so the time is counted to the end of a flush. What that adds, and
        // what the way here costs, is the same for a short run as for a long one: it cancels out.
        let (short, long) = (count / 4, count - count / 4);
        self.run(Direction::Write, 1, io, None).await?;
        self.flushed().await?;
        let start = self.now();
        self.run(Direction::Write, short, io, None).await?;
        self.flushed().await?;
        let middle = self.now();
        self.run(Direction::Write, long - 1, io, Some(FLUSH_BURST)).await?;
        self.flushed().await?;
        let end = self.now();
        let whole = Rate::of(io * (short + long - 1), end.since(start));
        let first = middle.since(start);
        let second = end.since(middle);
        // An accident in the short run must not make the device look faster than it is.
        let sustained = if second > first { Rate::of(io * (long - 1 - short), second - first) } else { whole };
        let most = Rate(whole.0 + whole.0 / 4);
        Ok(self.seen(sustained.min(most)))
    }

    /// Writes `total` bytes, then flushes: how long that flush takes, with the head there already.
    pub(super) async fn burst(mut self, total: Bytes) -> Result<Duration> {
        let io = io_size(total);
        self.run(Direction::Write, 1, io, None).await?;
        self.flushed().await?;
        self.run(Direction::Write, total / io, io, None).await?;
        let start = self.now();
        self.flushed().await?;
        Ok(self.now().since(start))
    }

    fn seen(&self, rate: Rate) -> Seen {
        Seen { rate: rate.max(Rate(1)), worst: self.worst }
    }

    fn now(&self) -> Moment {
        self.env.clock.now()
    }

    async fn flushed(&mut self) -> Result<()> {
        self.flushes.push(self.env.device.flush());
        while !self.flushes.is_empty() {
            self.one_ended().await?;
        }
        Ok(())
    }

    /// `count` I/Os of `io` bytes, with a flush started after every `flush_every`; the moments at which they ended.
    async fn run(
        &mut self,
        direction: Direction,
        count: u64,
        io: Bytes,
        flush_every: Option<Bytes>,
    ) -> Result<Vec<Moment>> {
        let mut ends = Vec::with_capacity(count as usize);
        let mut started = 0;
        let mut unflushed = Bytes::ZERO;
        while (ends.len() as u64) < count {
            while started < count && self.in_flight.len() < DEPTH {
                let Some(mut buffer) = self.slab.try_take() else { break };
                buffer.set_len(io.0 as usize);
                let future = match direction {
                    Direction::Read => self.env.device.read(self.next, buffer),
                    Direction::Write => self.env.device.write(self.next, buffer),
                };
                self.in_flight.push((self.now(), future));
                self.next += io;
                started += 1;
            }
            if let Some(end) = self.one_ended().await? {
                ends.push(end);
                unflushed += io;
                // One flush at a time, as a ring does.
                if flush_every.is_some_and(|every| unflushed >= every) && self.flushes.is_empty() {
                    unflushed = Bytes::ZERO;
                    self.flushes.push(self.env.device.flush());
                }
            }
        }
        Ok(ends)
    }

    /// Waits for whatever ends next.
    async fn one_ended(&mut self) -> Result<Ended> {
        let (ended, result) = std::future::poll_fn(|context| {
            for at in 0..self.in_flight.len() {
                if let Poll::Ready((_, result)) = self.in_flight[at].1.as_mut().poll(context) {
                    let (started, _) = self.in_flight.swap_remove(at);
                    let now = self.now();
                    self.worst = self.worst.max(now.since(started));
                    return Poll::Ready((Some(now), result));
                }
            }
            for at in 0..self.flushes.len() {
                if let Poll::Ready(result) = self.flushes[at].as_mut().poll(context) {
                    drop(self.flushes.swap_remove(at));
                    return Poll::Ready((None, result));
                }
            }
            Poll::Pending
        })
        .await;
        result.map(|()| ended)
    }
}

/// I/Os as large as they may be while there are enough of them.
fn io_size(total: Bytes) -> Bytes {
    let even = total / PER_PIECE;
    let power = if even < SMALL * 2 { SMALL } else { Bytes(1 << even.0.ilog2()) };
    power.min(LARGE)
}

#[cfg(test)]
mod tests;
