//! No log and no journal: every block is written where it belongs, and the disk's cache is flushed.

use super::array::Array;
use super::place::{BLOCK, SmallWrite};
use super::system::{Doing, Streams, System, Tally};
use crate::disk::Op;
use forebay_model::Bytes;
use std::cell::Cell;
use std::rc::Rc;

pub(super) struct Home {
    array: Rc<Array>,
    streams: Streams,
}

impl Home {
    pub(super) fn new(array: Rc<Array>, streams: Streams) -> Home {
        Home { array, streams }
    }
}

impl System for Home {
    fn stream(&self, op: Op, at: Bytes, length: Bytes, moved: Rc<Cell<u64>>) -> Doing {
        self.streams.stream(op, at, length, moved)
    }

    fn round(&self, writes: Vec<SmallWrite>) -> Doing {
        let array = self.array.clone();
        Box::pin(async move {
            let ranges: Vec<(u64, u64)> = writes.iter().map(|write| (write.at.0, BLOCK.0)).collect();
            array.transfer_all(Op::Write, &ranges).await?;
            array.flush().await
        })
    }

    fn settle(&self) -> Doing {
        Box::pin(std::future::ready(Ok(())))
    }

    fn tally(&self) -> Tally {
        Tally::default()
    }
}
