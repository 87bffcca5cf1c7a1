//! What competes: a system that serves one streaming user and one small durable writer on the same disks.

use super::array::Array;
use super::place::SmallWrite;
use crate::disk::Op;
use forebay_model::{Bytes, Error, Result};
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// Something under way that may fail.
pub type Doing = Pin<Box<dyn Future<Output = Result<()>>>>;

/// What a system did beside serving its users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Tally {
    /// Logs that changed places with others.
    pub log_swaps: u64,
    /// How long blocks were being brought home from logs.
    pub checkpoint: Duration,
}

/// A system under test. It owns how the streaming user's requests are cut, and where and when small writes go.
pub trait System {
    /// Does one large request of the streaming user, and adds to `moved` what has been moved as it goes.
    fn stream(&self, op: Op, at: Bytes, length: Bytes, moved: Rc<Cell<u64>>) -> Doing;

    /// Writes 4 KiB at each of these places and makes them durable: one round of the small writer.
    fn round(&self, writes: Vec<SmallWrite>) -> Doing;

    /// Brings home all that lies in logs.
    fn settle(&self) -> Doing;

    /// What it did so far.
    fn tally(&self) -> Tally;
}

/// How a kernel cuts large transfers of one user: so long a piece, so many at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Window {
    /// One piece on a single disk; on several, two stripes if that is more.
    pub piece: Bytes,
    /// Pieces under way.
    pub depth: usize,
}

/// The streaming user through a kernel's page cache: read ahead and written behind in a small window.
pub(super) struct Streams {
    array: Rc<Array>,
    /// Of reads and of writes.
    windows: [Window; 2],
}

impl Streams {
    pub(super) fn new(array: Rc<Array>, windows: [Window; 2]) -> Streams {
        Streams { array, windows }
    }

    pub(super) fn stream(&self, op: Op, at: Bytes, length: Bytes, moved: Rc<Cell<u64>>) -> Doing {
        let window = &self.windows[usize::from(op == Op::Write)];
        let stripes = if self.array.width() == 1 { 0 } else { super::array::STRIPE.0 * self.array.width() * 2 };
        let (piece, depth) = (window.piece.0.max(stripes), window.depth);
        let (array, end) = (self.array.clone(), at.0 + length.0);
        if depth == 0 {
            return Box::pin(async { Err(Error::usage("a window of no pieces; let one be under way at least")) });
        }
        Box::pin(async move {
            let mut at = at.0;
            let mut under_way = VecDeque::new();
            loop {
                while at < end && under_way.len() < depth {
                    let length = piece.min(end - at);
                    under_way.push_back((array.transfer(op, at, length), length));
                    at += length;
                }
                let Some((next, length)) = under_way.pop_front() else { return Ok(()) };
                next.await?;
                moved.set(moved.get() + length);
            }
        })
    }
}
