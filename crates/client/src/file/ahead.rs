//! Reading ahead of those who read one range behind the other: several streams at a time, each further the longer it goes
//! on, within bounds. What was read ahead and is read is kept no longer.

use super::fetch::Fetched;
use super::options::Options;
use forebay_model::Result;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// What a stream reads ahead at first.
const FIRST: u64 = 64 << 10;
/// A reader may skip so much and still reads one range behind the other.
const SKIP: u64 = 128 << 10;
/// Streams that are told apart.
const MOST_STREAMS: usize = 64;

/// Bytes that are read ahead, or were.
pub(super) struct Chunk {
    pub(super) range: Range<u64>,
    state: RefCell<(Option<Result<Fetched>>, Vec<Waker>)>,
}

impl Chunk {
    /// They are there now.
    pub(super) fn fill(&self, fetched: Result<Fetched>) {
        let wakers = {
            let mut state = self.state.borrow_mut();
            state.0 = Some(fetched);
            std::mem::take(&mut state.1)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    /// Waits for them.
    pub(super) async fn filled(&self) -> Result<Fetched> {
        std::future::poll_fn(|context| {
            let mut state = self.state.borrow_mut();
            match &state.0 {
                Some(fetched) => Poll::Ready(fetched.clone()),
                None => {
                    state.1.push(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

/// Someone who reads one range behind the other.
struct Stream {
    /// Where it is expected to read next.
    next: u64,
    /// How far ahead it may be read for it.
    window: u64,
    /// How far was read ahead.
    edge: u64,
}

/// What is read ahead.
#[derive(Default)]
pub(super) struct Ahead {
    /// Those who read last are last.
    streams: VecDeque<Stream>,
    chunks: BTreeMap<u64, Rc<Chunk>>,
    bytes: u64,
}

impl Ahead {
    /// Somebody reads this, of a file of `size` with stripes of `stripe`: what is to be read ahead now, each to be filled.
    pub(super) fn note(&mut self, range: &Range<u64>, size: u64, stripe: u64, options: &Options) -> Vec<Rc<Chunk>> {
        let fits = |stream: &Stream| range.start >= stream.next && range.start - stream.next <= SKIP;
        let Some(mut stream) = self.streams.iter().position(fits).and_then(|found| self.streams.remove(found)) else {
            if self.streams.len() == MOST_STREAMS {
                self.streams.pop_front();
            }
            self.streams.push_back(Stream { next: range.end, window: 0, edge: range.end });
            return Vec::new();
        };
        let share = (options.cache.0 / (self.streams.len() as u64 + 1)).min(options.ahead.0);
        stream.next = range.end;
        stream.window = (stream.window * 2).max(FIRST).max(2 * (range.end - range.start)).min(share);
        stream.edge = stream.edge.max(range.end);
        let mut chunks = Vec::new();
        // More is read when half of it was used, so that requests are large.
        if stream.edge < size && stream.edge - range.end <= stream.window / 2 {
            let mut end = range.end + stream.window;
            if stream.window >= 2 * stripe {
                end = end / stripe * stripe;
            }
            chunks.extend(self.make(stream.edge..end.min(size), options));
            if let Some(chunk) = chunks.last() {
                stream.edge = chunk.range.end;
            }
        }
        self.streams.push_back(stream);
        chunks
    }

    fn make(&mut self, range: Range<u64>, options: &Options) -> Option<Rc<Chunk>> {
        let overlaps = self.chunks.range(..range.end).next_back().is_some_and(|(_, last)| last.range.end > range.start);
        if range.is_empty() || overlaps {
            return None;
        }
        let length = range.end - range.start;
        // Whoever stopped reading gives way: what nobody took is dropped from the front.
        while self.bytes + length > options.cache.0 {
            let first = *self.chunks.keys().next()?;
            self.remove(first);
        }
        self.bytes += length;
        let chunk = Rc::new(Chunk { range: range.clone(), state: RefCell::default() });
        self.chunks.insert(range.start, chunk.clone());
        Some(chunk)
    }

    fn remove(&mut self, start: u64) {
        if let Some(chunk) = self.chunks.remove(&start) {
            self.bytes -= chunk.range.end - chunk.range.start;
        }
    }

    /// What was read ahead of a range, in its order; of that which is read to its end nothing is kept.
    pub(super) fn take(&mut self, range: &Range<u64>) -> Vec<Rc<Chunk>> {
        let meets = |chunk: &&Rc<Chunk>| chunk.range.end > range.start;
        let mut found: Vec<Rc<Chunk>> =
            self.chunks.range(..range.end).rev().map(|(_, chunk)| chunk).take_while(meets).cloned().collect();
        found.reverse();
        let used = found.iter().filter(|chunk| chunk.range.end <= range.end).map(|chunk| chunk.range.start);
        used.collect::<Vec<u64>>().into_iter().for_each(|start| self.remove(start));
        found
    }

    /// These bytes are no longer what was read ahead.
    pub(super) fn forget(&mut self, range: &Range<u64>) {
        let meets = |(_, chunk): &(&u64, &Rc<Chunk>)| chunk.range.end > range.start;
        let stale: Vec<u64> = self.chunks.range(..range.end).rev().take_while(meets).map(|(start, _)| *start).collect();
        stale.into_iter().for_each(|start| self.remove(start));
        // What is written over has to be read again.
        for stream in self.streams.iter_mut().filter(|stream| range.start < stream.edge && range.end > stream.next) {
            stream.edge = stream.next;
        }
    }
}
