//! The published opponents: how a journaling file system makes small writes durable. All commit in groups, in two
//! steps (the blocks with their descriptor, then the record that makes them valid), with a barrier before and after
//! the record where the disk has a volatile cache. A round is a sync of the whole file system.
//!
//! - ordered: data goes home first, then metadata into the journal, and, as a sync does, metadata home.
//! - data: both go into the journal, metadata home with the sync, and data every few seconds, commit by commit.
//! - adaptive: as ordered, but random small data goes into the journal with its metadata, and every few seconds all of
//!   it home in the order of places.

use super::Policy;
use super::array::Array;
use super::group::Group;
use super::log::{Log, Order};
use super::place::{BLOCK, SmallWrite};
use super::system::{Doing, Streams, System, Tally};
use crate::disk::Op;
use forebay_env::Env;
use forebay_model::{Bytes, Result};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// How often what was journaled is brought home, other than with a sync.
const PERIOD: Duration = Duration::from_secs(5);

pub(super) struct Journal {
    group: Rc<Group>,
    log: Rc<Log>,
    streams: Streams,
}

impl Journal {
    pub(super) fn new(env: &Env, policy: Policy, array: Rc<Array>, space: Range<u64>, streams: Streams) -> Journal {
        let order = if policy == Policy::Adaptive { Order::Places } else { Order::Commits };
        let log = Log::new(array.clone(), env.clock.clone(), space, order);
        if policy != Policy::Ordered {
            let (log, clock) = (log.clone(), env.clock.clone());
            env.spawner.detach(async move {
                loop {
                    clock.sleep(PERIOD).await;
                    // A disk that fails shows in the commits.
                    if log.bring_home().await.is_err() {
                        return;
                    }
                }
            });
        }
        let of_log = log.clone();
        let commit =
            move |writes: Vec<SmallWrite>| -> Doing { Box::pin(commit(array.clone(), of_log.clone(), policy, writes)) };
        Journal { group: Group::new(env.spawner.clone(), commit), log, streams }
    }
}

async fn commit(array: Rc<Array>, log: Rc<Log>, policy: Policy, writes: Vec<SmallWrite>) -> Result<()> {
    let data: BTreeSet<u64> = writes.iter().map(|write| write.at.0).collect();
    let metadata: BTreeSet<u64> = writes.iter().map(|write| write.inode.0).collect();
    let mut blocks = 1 + metadata.len();
    if policy != Policy::Ordered {
        blocks += data.len();
    } else {
        let ranges: Vec<(u64, u64)> = data.iter().map(|at| (*at, BLOCK.0)).collect();
        array.transfer_all(Op::Write, &ranges).await?;
    }
    log.append(blocks).await?;
    array.flush().await?;
    log.append(1).await?;
    array.flush().await?;
    if policy == Policy::Adaptive {
        log.keep(data.into_iter().chain(metadata));
        return Ok(());
    }
    if policy == Policy::Data {
        log.keep(data);
    }
    let ranges: Vec<(u64, u64)> = metadata.iter().map(|at| (*at, BLOCK.0)).collect();
    array.transfer_all(Op::Write, &ranges).await
}

impl System for Journal {
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
