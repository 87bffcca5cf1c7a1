//! A disk of flash: channels that work side by side, each a queue of pieces. There is no position, only contention.

use super::mechanics::{Action, Mechanics, Now, Op, Request, Work};
use super::spec::SsdSpec;
use forebay_model::{Bytes, Rate};
use std::time::Duration;

pub(super) struct Ssd {
    spec: SsdSpec,
    cache: Option<u64>,
    /// When each channel has done all that it was given.
    free: Vec<u64>,
    bus_free: u64,
    work: Work,
}

impl Ssd {
    pub(super) fn new(spec: &SsdSpec, cache: Option<u64>) -> Ssd {
        Ssd { spec: spec.clone(), cache, free: vec![0; spec.channels], bus_free: 0, work: Work::default() }
    }

    /// Gives the pieces of a command to their channels; when the last of them is done.
    fn spread(&mut self, now: Now, request: &Request) -> u64 {
        let (rate, latency) = match request.op {
            Op::Read => (self.spec.read_rate, self.spec.read_latency),
            _ => (self.spec.write_rate, self.spec.program_latency),
        };
        let rate = Rate(rate.0 / self.spec.channels as u64);
        let latency = now.stretch(nanos(latency));
        let begin = now.nanos + now.stretch(nanos(self.spec.overhead));
        let mut last = begin;
        let range = request.range();
        let mut at = range.start;
        while at < range.end {
            let end = range.end.min((at / self.spec.stripe.0 + 1) * self.spec.stripe.0);
            let channel = (at / self.spec.stripe.0) as usize % self.spec.channels;
            let span = now.stretch(nanos(rate.time_for(Bytes(end - at))));
            self.free[channel] = self.free[channel].max(begin) + span;
            self.work.busy += span / self.spec.channels as u64;
            last = last.max(self.free[channel] + latency);
            at = end;
        }
        last
    }

    fn over_bus(&mut self, now: Now, length: u64) -> u64 {
        let span = now.stretch(nanos(self.spec.interface.time_for(Bytes(length))));
        self.bus_free = self.bus_free.max(now.nanos + now.stretch(nanos(self.spec.overhead))) + span;
        self.bus_free
    }

    /// Bytes in the cache that are not yet programmed.
    fn backlog(&self, now: u64) -> u64 {
        let left: u64 = self.free.iter().map(|free| free.saturating_sub(now)).sum();
        self.spec.write_rate.bytes_in(Duration::from_nanos(left / self.spec.channels as u64)).0
    }
}

fn nanos(span: Duration) -> u64 {
    span.as_nanos() as u64
}

impl Mechanics for Ssd {
    fn submit(&mut self, now: Now, request: Request, actions: &mut Vec<Action>) {
        let done = match request.op {
            Op::Read => self.spread(now, &request).max(self.over_bus(now, request.length)),
            Op::Write => {
                let transferred = self.over_bus(now, request.length);
                let programmed = self.spread(now, &request);
                match self.cache {
                    None => programmed.max(transferred),
                    Some(room) => {
                        let excess = Bytes(self.backlog(now.nanos).saturating_sub(room));
                        let wait = now.stretch(nanos(self.spec.write_rate.time_for(excess)));
                        transferred.max(now.nanos + wait)
                    }
                }
            }
            Op::Flush => {
                let begin = now.nanos + now.stretch(nanos(self.spec.overhead));
                match (self.cache, self.free.iter().max()) {
                    (Some(_), Some(&busy)) if busy > begin => busy + now.stretch(nanos(self.spec.program_latency)),
                    _ => begin,
                }
            }
        };
        actions.push(Action::Done(request.id, done));
    }

    fn moved(&mut self, _: Now, _: u64, _: &mut Vec<Action>) {}

    fn lose_power(&mut self) {
        self.free.fill(0);
        self.bus_free = 0;
    }

    fn work(&self) -> Work {
        self.work
    }
}

#[cfg(test)]
mod tests;
