//! What was kept of each second: the worst of them is what a promise is measured by.
//!
//! With a rate, elements come one after the other at that rate, a large one for as long as its bytes take, and a second
//! has what came in it and was kept. Without, elements come as they can, and a second has what became durable in it.

use forebay_model::Rate;
use std::collections::VecDeque;
use std::time::Duration;

/// Bytes by second.
pub(super) struct Seconds {
    rate: Rate,
    bytes: Vec<u64>,
    /// Bytes that came.
    given: u64,
    /// What is not durable yet, in order: elements accepted up to there, and their bytes.
    under_way: VecDeque<(u64, u64)>,
}

impl Seconds {
    pub fn new(rate: Rate) -> Seconds {
        Seconds { rate, bytes: Vec::new(), given: 0, under_way: VecDeque::new() }
    }

    /// Of `given` bytes that came next `kept` were accepted; all that were accepted make `elements`.
    pub fn came(&mut self, given: u64, kept: u64, elements: u64) {
        let (mut from, to) = (self.given, self.given + kept);
        self.given += given;
        if self.rate == Rate(0) {
            self.under_way.push_back((elements, kept));
            return;
        }
        while from < to {
            let second = from / self.rate.0;
            let end = to.min((second + 1) * self.rate.0);
            self.add(second as usize, end - from);
            from = end;
        }
    }

    /// `elements` are durable, `time` after the beginning.
    pub fn durable(&mut self, elements: u64, time: Duration) {
        while let Some((_, bytes)) = self.under_way.pop_front_if(|(end, _)| *end <= elements) {
            self.add(time.as_secs() as usize, bytes);
        }
    }

    fn add(&mut self, second: usize, bytes: u64) {
        self.bytes.resize(self.bytes.len().max(second + 1), 0);
        self.bytes[second] += bytes;
    }

    /// The least of the seconds that were over after `time`; of what there was of one, if none was.
    pub fn worst(&self, time: Duration) -> Rate {
        let over = if self.rate == Rate(0) { time.as_secs() } else { self.given / self.rate.0 };
        let of = |second: usize| self.bytes.get(second).copied().unwrap_or(0);
        Rate((0..over.max(1) as usize).map(of).min().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests;
