//! An engine in memory, for simulation: what was committed survives a crash, and nothing else does.
//!
//! Clones are the same engine, as several openings of one file would be: a manager that died is followed by another one
//! on a clone. A crash can be ordered for a commit to come; the engine refuses everything from then on until it is opened
//! again with [`Memory::reopened`], and has some of that commit's transactions, the first ones.

use super::{Engine, Outcome, Pair, Snapshot, Transaction};
use forebay_model::{Error, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::rc::Rc;

type Map = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keys and values in memory.
#[derive(Clone, Default)]
pub struct Memory(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    /// Shared with snapshots, and copied for a commit only while there is one.
    durable: Rc<Map>,
    commits: u64,
    crash: Option<Crash>,
    /// Raised when it crashes: what was opened before is dead.
    dead: bool,
}

struct Crash {
    /// Before this one returns.
    commit: u64,
    /// How many of its transactions are there afterwards.
    kept: usize,
}

impl Memory {
    /// With nothing in it.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// The `nth` commit from now on, counted from 0, ends in a crash that leaves the first `kept` of its transactions.
    pub fn crash_at(&self, nth: u64, kept: usize) {
        let mut state = self.0.borrow_mut();
        state.crash = Some(Crash { commit: state.commits + nth, kept });
    }

    /// The same engine after a crash, or after it was simply left.
    pub fn reopened(&self) -> Memory {
        let state = self.0.borrow();
        let fresh = State { durable: state.durable.clone(), ..State::default() };
        Memory(Rc::new(RefCell::new(fresh)))
    }

    /// How many commits there were.
    pub fn commits(&self) -> u64 {
        self.0.borrow().commits
    }
}

impl Engine for Memory {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        let state = self.0.borrow();
        if state.dead {
            return Err(dead());
        }
        Ok(Box::new(At(state.durable.clone())))
    }

    fn commit(&mut self, transactions: &[Transaction]) -> Result<Vec<Outcome>> {
        transactions.iter().try_for_each(Transaction::check)?;
        let mut state = self.0.borrow_mut();
        if state.dead {
            return Err(dead());
        }
        let commit = state.commits;
        let crash = state.crash.take_if(|crash| crash.commit == commit);
        let kept = crash.as_ref().map_or(transactions.len(), |crash| crash.kept.min(transactions.len()));
        state.commits += 1;
        let map = Rc::make_mut(&mut state.durable);
        let outcomes = transactions[..kept].iter().map(|transaction| carry_out(map, transaction)).collect();
        if crash.is_some() {
            state.dead = true;
            return Err(dead());
        }
        Ok(outcomes)
    }
}

fn carry_out(map: &mut Map, transaction: &Transaction) -> Outcome {
    let holds = transaction.conditions.iter().all(|condition| {
        let there = map.get(condition.key());
        condition.holds(there.map(Vec::as_slice))
    });
    if !holds {
        return Outcome::Refused;
    }
    for write in &transaction.writes {
        match &write.value {
            Some(value) => map.insert(write.key.clone(), value.clone()),
            None => map.remove(&write.key),
        };
    }
    Outcome::Committed
}

fn dead() -> Error {
    Error::device("the engine in memory has crashed; open it again")
}

struct At(Rc<Map>);

impl Snapshot for At {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.0.get(key).cloned())
    }

    fn scan(&self, from: &[u8], to: &[u8], most: usize) -> Result<Vec<Pair>> {
        if from >= to {
            return Ok(Vec::new());
        }
        let range = (Bound::Included(from), Bound::Excluded(to));
        let found = self.0.range::<[u8], _>(range).take(most);
        Ok(found.map(|(key, value)| (key.clone(), value.clone())).collect())
    }
}
