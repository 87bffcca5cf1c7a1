//! What the bench on a real disk records: made before anything is measured, so that making it costs nothing then.

use crate::input::RealTime;
use forebay_capture::generator::{Content as Generated, GeneratorSource, PacketSizes};
use forebay_capture::{Sink, Source};
use forebay_model::{Bytes, Gap, Result, Timestamp};
use std::sync::Arc;

/// What is recorded, made before anything is measured.
pub(super) enum Elements {
    /// All of one size, each beginning elsewhere in a pattern.
    Pattern { pattern: Vec<u8>, size: usize },
    /// Of `SIZES`, each with its share of the bytes: which comes when.
    Mixed { pattern: Vec<u8>, order: Vec<u8> },
    /// Packets of many flows, one after the other.
    Frames { memory: Vec<u8>, ends: Vec<usize> },
}

/// Sizes of mixed elements, each with its share of the bytes, as in simulation.
const SIZES: [(u64, u64); 5] = [(20, 1), (1 << 10, 2), (64 << 10, 2), (1 << 20, 2), (60_000_000, 3)];
/// Places in the pattern at which elements begin, one after the other.
const BEGINNINGS: usize = 512;

/// Frames that are made: as many as make flows come as often as they should.
const FRAMES: u64 = 1 << 16;

impl Elements {
    pub fn parse(text: &str) -> Result<Elements> {
        let sizes = match (text, text.strip_prefix("packets:")) {
            ("mixed", _) => {
                let largest = SIZES.iter().map(|(size, _)| *size).max().unwrap_or(0);
                return Ok(Elements::Mixed { pattern: pattern(largest as usize), order: order() });
            }
            ("packets", _) => PacketSizes::Mix,
            (_, Some(size)) => PacketSizes::Fixed(Bytes::parse(size)?.0.min(u64::from(u16::MAX)) as u16),
            _ => {
                let size = Bytes::parse(text)?.0 as usize;
                return Ok(Elements::Pattern { pattern: pattern(size), size });
            }
        };
        let mut frames = Collected { memory: Vec::new(), ends: vec![0] };
        let content = Generated::Packets(sizes);
        GeneratorSource::new(content, None, Some(FRAMES), 1, Arc::new(RealTime))?.run(&mut frames)?;
        Ok(Elements::Frames { memory: frames.memory, ends: frames.ends })
    }

    /// The largest.
    pub fn largest(&self) -> Bytes {
        Bytes(match self {
            Elements::Pattern { size, .. } => *size as u64,
            Elements::Mixed { .. } => SIZES[4].0,
            Elements::Frames { .. } => u64::from(u16::MAX),
        })
    }

    #[inline]
    pub fn number(&self, n: usize) -> &[u8] {
        let from = (n % BEGINNINGS * 61) % 4096;
        match self {
            Elements::Pattern { pattern, size } => &pattern[from..from + size],
            Elements::Mixed { pattern, order } => {
                &pattern[from..from + SIZES[usize::from(order[n % order.len()])].0 as usize]
            }
            Elements::Frames { memory, ends } => {
                let n = n % (ends.len() - 1);
                &memory[ends[n]..ends[n + 1]]
            }
        }
    }
}

/// What elements of up to `size` bytes are cut from.
fn pattern(size: usize) -> Vec<u8> {
    (0..size + 4096).map(|i| (i % 251) as u8).collect()
}

/// One round of mixed elements: the size that has had the least of its share comes next, until the largest has come
/// once and all have had as much.
fn order() -> Vec<u8> {
    let mut had = [0; SIZES.len()];
    let mut order = Vec::new();
    loop {
        let next = (0..SIZES.len()).min_by_key(|i| had[*i] / SIZES[*i].1).unwrap_or(0);
        if next == SIZES.len() - 1 && had[next] > 0 {
            return order;
        }
        had[next] += SIZES[next].0;
        order.push(next as u8);
    }
}

/// Takes what a generator makes.
struct Collected {
    memory: Vec<u8>,
    ends: Vec<usize>,
}

impl Sink for Collected {
    fn element(&mut self, _: Timestamp, parts: &[&[u8]], _: &[u8]) -> Result<()> {
        parts.iter().for_each(|part| self.memory.extend_from_slice(part));
        self.ends.push(self.memory.len());
        Ok(())
    }

    fn begin(&mut self, _: Timestamp, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn part(&mut self, bytes: &[u8]) -> Result<()> {
        self.memory.extend_from_slice(bytes);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.ends.push(self.memory.len());
        Ok(())
    }

    fn gap(&mut self, _: Gap) -> Result<()> {
        Ok(())
    }

    fn tick(&mut self) -> Result<bool> {
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
