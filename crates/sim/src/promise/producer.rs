//! What comes to a ring: elements at a rate, whether or not there is room for them.

use super::{Elements, LARGEST};
use crate::feeder::Feeder;
use forebay_env::Clock;
use forebay_model::{Rate, Result};
use forebay_target::Ring;
use std::rc::Rc;
use std::time::Duration;

/// A producer that never waits: what there is no room for is lost.
pub(super) struct Source {
    feeder: Feeder,
    clock: Rc<dyn Clock>,
    elements: Elements,
    payload: Vec<u8>,
    lost: u64,
    count: u64,
    /// Bytes of each size of mixed elements so far.
    mixed: [u64; 5],
}

impl Source {
    /// Becomes the ring's `writer`.
    pub(super) fn new(ring: Rc<Ring>, clock: Rc<dyn Clock>, writer: u64, elements: Elements) -> Result<Source> {
        let feeder = Feeder::new(ring, clock.clone(), writer)?;
        let payload = (0..elements.largest().0).map(|i| (i % 64) as u8).collect();
        Ok(Source { feeder, clock, elements, payload, lost: 0, count: 0, mixed: [0; 5] })
    }

    /// Elements that came so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Elements for which there was no room so far.
    pub(super) fn lost(&self) -> u64 {
        self.lost
    }

    /// Waits until all that was kept is durable.
    pub(super) async fn durable(&mut self) -> Result<()> {
        self.feeder.durable().await.map(drop)
    }

    fn next_size(&mut self) -> usize {
        match self.elements {
            Elements::Fixed(size) => size.0 as usize,
            Elements::Mixed => {
                const SIZES: [(u64, u64); 5] = [(20, 1), (1 << 10, 2), (64 << 10, 2), (1 << 20, 2), (LARGEST.0, 3)];
                // The size that has had the least of its share comes next.
                let at = (0..5).min_by_key(|i| self.mixed[*i] / SIZES[*i].1).expect("five sizes");
                self.mixed[at] += SIZES[at].0;
                SIZES[at].0 as usize
            }
        }
    }

    /// Adds elements of at least `bytes`, as they would have come by now; `given` came before. Says how many bytes it was.
    async fn add(&mut self, bytes: u64, given: u64, arrivals: &mut Arrivals) -> Result<u64> {
        let time = self.clock.wall();
        let mut used = 0;
        while used < bytes {
            let size = self.next_size();
            used += size as u64;
            self.count += 1;
            if self.feeder.room_or_take(size) {
                self.feeder.element(time, &[&self.payload[..size]]).await?;
                arrivals.kept(given + used - size as u64, given + used);
            } else {
                self.lost += 1;
            }
        }
        Ok(used)
    }
}

/// What came and was kept in each second: elements come one after the other at the rate, and a large one for as long
/// as its bytes take.
pub(super) struct Arrivals {
    rate: Rate,
    seconds: Vec<u64>,
}

impl Arrivals {
    pub(super) fn new(rate: Rate) -> Arrivals {
        Arrivals { rate, seconds: Vec::new() }
    }

    /// Bytes `from..to` of the stream were kept.
    pub(super) fn kept(&mut self, mut from: u64, to: u64) {
        while from < to {
            let second = from / self.rate.0;
            let end = to.min((second + 1) * self.rate.0);
            self.seconds.resize(self.seconds.len().max(second as usize + 1), 0);
            self.seconds[second as usize] += end - from;
            from = end;
        }
    }

    /// The worst of the seconds that are over when `given` bytes have come.
    pub(super) fn worst(&self, given: u64) -> Rate {
        let over = (given / self.rate.0) as usize;
        let kept = |second| self.seconds.get(second).copied().unwrap_or(0);
        Rate((0..over).map(kept).min().unwrap_or(0))
    }
}

/// Feeds what comes at the rate, until that much was given; how much it was.
pub(super) async fn feed(source: &mut Source, until: impl Fn(u64) -> bool, arrivals: &mut Arrivals) -> Result<u64> {
    let clock = source.clock.clone();
    let start = clock.now();
    let mut given = 0u64;
    while !until(given) {
        let due = arrivals.rate.bytes_in(clock.now().since(start)).0;
        if due > given {
            given += source.add(due - given, given, arrivals).await?;
        }
        source.feeder.tick(Duration::from_millis(400))?;
        clock.sleep(Duration::from_millis(5)).await;
    }
    Ok(given)
}
