//! A query compiled for speed: tests in a row, each saying where to go on for yes and for no.

use super::tree::{Node, Test};
use crate::key::KeyValue;
use crate::time::Timestamp;

const ACCEPT: u32 = u32::MAX;
const REJECT: u32 = u32::MAX - 1;

/// The compiled form of a tree. Steps only lead to earlier steps (the program is laid out from its end), so every run
/// ends, after at most one visit to each test.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    steps: Vec<Step>,
    start: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    check: Check,
    yes: u32,
    no: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Check {
    Seq { low: u64, high: u64 },
    Time { low: i64, high: i64 },
    // As numbers: comparing two machine words is quicker than comparing sixteen bytes.
    Key { key: u8, width: u8, low: u128, high: u128 },
}

impl Program {
    pub(super) fn of(tree: &Node) -> Program {
        let mut steps = Vec::new();
        let start = lay(tree, ACCEPT, REJECT, &mut steps);
        Program { steps, start }
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
            };
            next = if holds { step.yes } else { step.no };
        }
        next == ACCEPT
    }
}

/// Lays the steps of `node`, which go on at `yes` or `no`, and answers the first of them.
fn lay(node: &Node, yes: u32, no: u32, steps: &mut Vec<Step>) -> u32 {
    match node {
        Node::All => yes,
        Node::Nothing => no,
        Node::And(nodes) => nodes.iter().rev().fold(yes, |yes, node| lay(node, yes, no, steps)),
        Node::Or(nodes) => nodes.iter().rev().fold(no, |no, node| lay(node, yes, no, steps)),
        Node::Not(node) => lay(node, no, yes, steps),
        Node::Test(test) => {
            let check = match *test {
                Test::Seq { low, high } => Check::Seq { low, high },
                Test::Time { low, high } => Check::Time { low: low.0, high: high.0 },
                Test::Key { key, low, high } => {
                    Check::Key { key: key as u8, width: low.width() as u8, low: low.as_u128(), high: high.as_u128() }
                }
            };
            steps.push(Step { check, yes, no });
            steps.len() as u32 - 1
        }
    }
}
