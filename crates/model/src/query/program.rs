//! A query compiled for speed: tests in a row, each saying where to go on for yes and for no. Alternatives that ask for one key are
//! one test, which looks the value up: a query may name ten thousand hosts.

use super::tree::{Node, Test};
use crate::key::KeyValue;
use crate::time::Timestamp;
use std::collections::BTreeMap;

const ACCEPT: u32 = u32::MAX;
const REJECT: u32 = u32::MAX - 1;
/// From so many alternatives on it is quicker to look a value up than to compare it with each.
const LISTED: usize = 4;

/// The compiled form of a tree. Steps only lead to earlier steps (the program is laid out from its end), so every run
/// ends, after at most one visit to each test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    steps: Vec<Step>,
    start: u32,
    /// Ranges of values of one width, in their order and apart from each other.
    lists: Vec<Vec<(u128, u128)>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    check: Check,
    yes: u32,
    no: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Seq {
        low: u64,
        high: u64,
    },
    Time {
        low: i64,
        high: i64,
    },
    // As numbers: comparing two machine words is quicker than comparing sixteen bytes.
    Key {
        key: u8,
        width: u8,
        low: u128,
        high: u128,
    },
    /// Whether the value is in the list of this number.
    Listed {
        key: u8,
        width: u8,
        list: u32,
    },
}

impl Program {
    pub(super) fn of(tree: &Node) -> Program {
        let mut program = Program { steps: Vec::new(), start: REJECT, lists: Vec::new() };
        program.start = program.lay(tree, ACCEPT, REJECT);
        program
    }

    /// The most tests that a run makes.
    pub(super) fn length(&self) -> usize {
        self.steps.len()
    }

    #[inline]
    pub(super) fn run(&self, seq: u64, time: Timestamp, keys: &[KeyValue]) -> bool {
        let mut next = self.start;
        while let Some(step) = self.steps.get(next as usize) {
            let holds = match step.check {
                Check::Seq { low, high } => low <= seq && seq <= high,
                Check::Time { low, high } => low <= time.0 && time.0 <= high,
                Check::Key { key, width, low, high } => keys.get(usize::from(key)).is_some_and(|value| {
                    let number = value.as_u128();
                    value.width() == usize::from(width) && low <= number && number <= high
                }),
                Check::Listed { key, width, list } => keys.get(usize::from(key)).is_some_and(|value| {
                    value.width() == usize::from(width) && has(&self.lists[list as usize], value.as_u128())
                }),
            };
            next = if holds { step.yes } else { step.no };
        }
        next == ACCEPT
    }

    /// Lays the steps of `node`, which go on at `yes` or `no`, and answers the first of them.
    fn lay(&mut self, node: &Node, yes: u32, no: u32) -> u32 {
        match node {
            Node::All => yes,
            Node::Nothing => no,
            Node::And(nodes) => nodes.iter().rev().fold(yes, |yes, node| self.lay(node, yes, no)),
            Node::Or(nodes) => {
                let mut values: BTreeMap<(u8, u8), Vec<(u128, u128)>> = BTreeMap::new();
                for (of, range) in nodes.iter().filter_map(asked_for) {
                    values.entry(of).or_default().push(range);
                }
                values.retain(|_, ranges| ranges.len() >= LISTED);
                let is_listed = |node: &&Node| asked_for(node).is_some_and(|(of, _)| values.contains_key(&of));
                let others = nodes.iter().rev().filter(|node| !is_listed(node));
                let no = others.fold(no, |no, node| self.lay(node, yes, no));
                values.into_iter().fold(no, |no, ((key, width), ranges)| {
                    self.lists.push(sorted(ranges));
                    let list = self.lists.len() as u32 - 1;
                    self.step(Check::Listed { key, width, list }, yes, no)
                })
            }
            Node::Not(node) => self.lay(node, no, yes),
            Node::Test(test) => {
                let check = match *test {
                    Test::Seq { low, high } => Check::Seq { low, high },
                    Test::Time { low, high } => Check::Time { low: low.0, high: high.0 },
                    Test::Key { key, low, high } => Check::Key {
                        key: key as u8,
                        width: low.width() as u8,
                        low: low.as_u128(),
                        high: high.as_u128(),
                    },
                };
                self.step(check, yes, no)
            }
        }
    }

    fn step(&mut self, check: Check, yes: u32, no: u32) -> u32 {
        self.steps.push(Step { check, yes, no });
        self.steps.len() as u32 - 1
    }
}

/// The key and the width of what a node asks for, and its values, if it is no more than that.
fn asked_for(node: &Node) -> Option<((u8, u8), (u128, u128))> {
    match node {
        Node::Test(Test::Key { key, low, high }) => {
            Some(((*key as u8, low.width() as u8), (low.as_u128(), high.as_u128())))
        }
        _ => None,
    }
}

/// The same values as ranges in order, of which none touches another.
fn sorted(mut ranges: Vec<(u128, u128)>) -> Vec<(u128, u128)> {
    ranges.sort_unstable();
    ranges.dedup_by(|next, before| {
        let joins = next.0 <= before.1;
        before.1 = if joins { before.1.max(next.1) } else { before.1 };
        joins
    });
    ranges
}

fn has(ranges: &[(u128, u128)], value: u128) -> bool {
    let behind = ranges.partition_point(|range| range.0 <= value);
    behind > 0 && value <= ranges[behind - 1].1
}
