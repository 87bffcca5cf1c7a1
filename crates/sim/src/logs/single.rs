//! One log at one fixed place without a file system: each commit appends its blocks with a record that describes and
//! proves them, in one write; blocks go home when the log is nearly full, or when nothing else is asked.

use super::array::Array;
use super::group::Group;
use super::log::{Log, Order};
use super::place::SmallWrite;
use super::system::{Doing, Streams, System, Tally};
use crate::disk::Op;
use forebay_env::Env;
use forebay_model::{Bytes, Result};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;

pub(super) struct Single {
    group: Rc<Group>,
    log: Rc<Log>,
    streams: Streams,
}

impl Single {
    pub(super) fn new(env: &Env, array: Rc<Array>, space: Range<u64>, streams: Streams) -> Single {
        let log = Log::new(array.clone(), env.clock.clone(), space, Order::Places);
        let of_log = log.clone();
        let commit =
            move |writes: Vec<SmallWrite>| -> Doing { Box::pin(commit(array.clone(), of_log.clone(), writes)) };
        Single { group: Group::new(env.spawner.clone(), commit), log, streams }
    }
}

async fn commit(array: Rc<Array>, log: Rc<Log>, writes: Vec<SmallWrite>) -> Result<()> {
    let data: BTreeSet<u64> = writes.iter().map(|write| write.at.0).collect();
    log.append(1 + data.len()).await?;
    array.flush().await?;
    log.keep(data);
    Ok(())
}

impl System for Single {
    fn stream(&self, op: Op, at: Bytes, length: Bytes, moved: Rc<Cell<u64>>) -> Doing {
        self.streams.stream(op, at, length, moved)
    }

    fn round(&self, writes: Vec<SmallWrite>) -> Doing {
        self.group.join(writes)
    }

    fn settle(&self) -> Doing {
        let log = self.log.clone();
        Box::pin(async move { log.bring_home().await })
    }

    fn tally(&self) -> Tally {
        Tally { log_swaps: 0, checkpoint: self.log.homeward() }
    }
}
