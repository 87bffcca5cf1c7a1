//! The two users: one streams large requests over a file as fast as it can, one writes rounds at a fixed pace whether or
//! not earlier ones are durable.

use super::place::Places;
use super::system::System;
use crate::disk::Op;
use forebay_env::{Env, Random, Task};
use forebay_model::{Bytes, Moment, Rate, Result};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Rounds under way at most: a program has so many threads. A round that comes later begins when one has ended.
const ROUNDS: usize = 64;

/// A user that streams until dropped.
pub(super) struct Streamer {
    moved: Rc<Cell<u64>>,
    task: Task<Result<()>>,
}

impl Streamer {
    /// Goes over `file` again and again in requests of `request`.
    pub(super) fn start(env: &Env, system: Rc<dyn System>, op: Op, file: Range<u64>, request: Bytes) -> Streamer {
        let moved = Rc::new(Cell::new(0));
        let counter = moved.clone();
        let task = env.spawner.spawn(async move {
            loop {
                let mut at = file.start;
                while at < file.end {
                    let length = request.0.min(file.end - at);
                    system.stream(op, Bytes(at), Bytes(length), counter.clone()).await?;
                    at += length;
                }
            }
        });
        Streamer { moved, task }
    }

    /// Bytes moved so far.
    pub(super) fn moved(&self) -> u64 {
        self.moved.get()
    }

    /// Ends it; what was wrong, if it ended by itself.
    pub(super) async fn stop(self) -> Result<()> {
        if self.task.is_finished() { self.task.await } else { Ok(()) }
    }
}

/// Writes all of a file.
pub(super) async fn write(system: &(impl System + ?Sized), file: &Range<u64>) -> Result<()> {
    let mut at = file.start;
    while at < file.end {
        let length = (file.end - at).min(Bytes::mib(64).0);
        system.stream(Op::Write, Bytes(at), Bytes(length), Rc::default()).await?;
        at += length;
    }
    Ok(())
}

/// The rate of a streamer between two moments of its counter.
pub(super) fn rate(before: u64, after: u64, span: Duration) -> Rate {
    Rate::of(Bytes(after - before), span)
}

/// Begins a round every `period` until `until`; how long after it was due each was durable.
pub(super) async fn write_rounds(
    env: &Env,
    random: &dyn Random,
    system: &Rc<dyn System>,
    places: &Places,
    period: Duration,
    until: Moment,
) -> Result<Vec<Duration>> {
    let Env { clock, spawner, .. } = env;
    let latencies = Rc::new(RefCell::new(Vec::new()));
    let mut under_way: VecDeque<Task<Result<()>>> = VecDeque::new();
    let mut due = clock.now();
    while due < until {
        clock.sleep_until(due).await;
        while under_way.front().is_some_and(Task::is_finished) || under_way.len() >= ROUNDS {
            if let Some(oldest) = under_way.pop_front() {
                oldest.await?;
            }
        }
        if clock.now() >= until {
            break;
        }
        let (clock, latencies) = (clock.clone(), latencies.clone());
        let round = system.round(places.round(random));
        under_way.push_back(spawner.spawn(async move {
            round.await?;
            latencies.borrow_mut().push(clock.now().since(due));
            Ok(())
        }));
        due = due + period;
    }
    for round in under_way {
        round.await?;
    }
    Ok(latencies.take())
}
