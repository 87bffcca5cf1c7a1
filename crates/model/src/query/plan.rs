//! What a query allows to skip: bounds of time and sequence, and the blocks that may hold a match.
//!
//! Everything here errs to one side: what it excludes holds no match; what it leaves need not hold one.

use super::blocks::BlockSet;
use super::tree::{Node, Test};
use crate::key::KeyValue;
use crate::time::Timestamp;
use std::collections::BTreeSet;

/// A question to the index of a segment: which blocks hold an element whose key has such a value?
/// Elements without the key never do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Term {
    /// The key has this value.
    Equals {
        /// The number of the key in its [`crate::key::KeySet`].
        key: usize,
        /// The value.
        value: KeyValue,
    },
    /// The key has a value of the width of `low` and `high`, from `low` to `high`, both included.
    Range {
        /// The number of the key in its [`crate::key::KeySet`].
        key: usize,
        /// The first value.
        low: KeyValue,
        /// The last value, of the same width.
        high: KeyValue,
    },
}

impl Term {
    fn of(test: &Test) -> Option<Term> {
        match *test {
            Test::Key { key, low, high } if low == high => Some(Term::Equals { key, value: low }),
            Test::Key { key, low, high } => Some(Term::Range { key, low, high }),
            Test::Seq { .. } | Test::Time { .. } => None,
        }
    }

    /// The number of the key that is asked about.
    pub fn key(&self) -> usize {
        match *self {
            Term::Equals { key, .. } | Term::Range { key, .. } => key,
        }
    }

    /// Whether `value` is a value that is asked for.
    #[inline]
    pub fn holds(&self, value: KeyValue) -> bool {
        match *self {
            Term::Equals { value: wanted, .. } => value == wanted,
            Term::Range { low, high, .. } => value.width() == low.width() && low <= value && value <= high,
        }
    }
}

/// A range of numbers with both ends; `None` holds nothing.
type Bounds<T> = Option<(T, T)>;

fn both<T: Ord>(a: Bounds<T>, b: Bounds<T>) -> Bounds<T> {
    let ((a, b), (c, d)) = (a?, b?);
    let (low, high) = (a.max(c), b.min(d));
    (low <= high).then_some((low, high))
}

fn either<T: Ord>(a: Bounds<T>, b: Bounds<T>) -> Bounds<T> {
    match (a, b) {
        (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
        (one, None) | (None, one) => one,
    }
}

/// The bounds of what satisfies `node` (or, if `negated`, does not), where `of` gives those of one test.
fn bounds<T: Ord + Copy>(
    node: &Node,
    negated: bool,
    full: (T, T),
    of: &impl Fn(&Test, bool) -> Bounds<T>,
) -> Bounds<T> {
    match node {
        Node::All => (!negated).then_some(full),
        Node::Nothing => negated.then_some(full),
        Node::Not(node) => bounds(node, !negated, full, of),
        Node::Test(test) => of(test, negated),
        Node::And(nodes) | Node::Or(nodes) => {
            let parts = nodes.iter().map(|node| bounds(node, negated, full, of));
            // What does not satisfy all fails one of them.
            if matches!(node, Node::And(_)) != negated {
                parts.fold(Some(full), both)
            } else {
                parts.fold(None, either)
            }
        }
    }
}

/// What lies outside `low..=high`, as one range: exact if the range touches an end of `full`.
fn outside<T: Ord + Copy>(low: T, high: T, full: (T, T), before: impl Fn(T) -> T, after: impl Fn(T) -> T) -> Bounds<T> {
    match (low == full.0, high == full.1) {
        (true, true) => None,
        (true, false) => Some((after(high), full.1)),
        (false, true) => Some((full.0, before(low))),
        (false, false) => Some(full),
    }
}

pub(super) fn time_bounds(tree: &Node) -> Bounds<Timestamp> {
    let full = (Timestamp::MIN, Timestamp::MAX);
    bounds(tree, false, full, &|test, negated| match *test {
        Test::Time { low, high } if negated => outside(low, high, full, |t| Timestamp(t.0 - 1), |t| Timestamp(t.0 + 1)),
        Test::Time { low, high } => Some((low, high)),
        Test::Seq { .. } | Test::Key { .. } => Some(full),
    })
}

pub(super) fn seq_bounds(tree: &Node) -> Bounds<u64> {
    let full = (0, u64::MAX);
    bounds(tree, false, full, &|test, negated| match *test {
        Test::Seq { low, high } if negated => outside(low, high, full, |n| n - 1, |n| n + 1),
        Test::Seq { low, high } => Some((low, high)),
        Test::Time { .. } | Test::Key { .. } => Some(full),
    })
}

/// Whether the tree looks at sequence numbers.
pub(super) fn uses_seq(node: &Node) -> bool {
    match node {
        Node::All | Node::Nothing => false,
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().any(uses_seq),
        Node::Not(node) => uses_seq(node),
        Node::Test(test) => matches!(test, Test::Seq { .. }),
    }
}

/// The keys that the tree looks at, one bit each.
pub(super) fn keys_used(node: &Node) -> u32 {
    match node {
        Node::All | Node::Nothing => 0,
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().fold(0, |used, node| used | keys_used(node)),
        Node::Not(node) => keys_used(node),
        Node::Test(Test::Key { key, .. }) => 1 << key,
        Node::Test(Test::Seq { .. } | Test::Time { .. }) => 0,
    }
}

/// Terms, each once.
#[derive(Default)]
pub(super) struct Terms {
    pub(super) in_order: Vec<Term>,
    known: BTreeSet<Term>,
}

/// Adds the terms that [`candidates`] may look up.
pub(super) fn terms(node: &Node, negated: bool, found: &mut Terms) {
    match node {
        Node::All | Node::Nothing => {}
        Node::And(nodes) | Node::Or(nodes) => nodes.iter().for_each(|node| terms(node, negated, found)),
        Node::Not(node) => terms(node, !negated, found),
        Node::Test(test) => {
            if let (false, Some(term)) = (negated, Term::of(test))
                && found.known.insert(term)
            {
                found.in_order.push(term);
            }
        }
    }
}

/// The blocks that may hold an element that satisfies `node` (or, if `negated`, does not); `None` is all of them.
pub(super) fn candidates(
    node: &Node,
    negated: bool,
    blocks: usize,
    look: &mut dyn FnMut(&Term) -> Option<BlockSet>,
) -> Option<BlockSet> {
    match node {
        Node::All | Node::Nothing if matches!(node, Node::All) != negated => None,
        Node::All | Node::Nothing => Some(BlockSet::none(blocks)),
        Node::Not(node) => candidates(node, !negated, blocks, look),
        // That a value occurs in a block says nothing about what else occurs there.
        Node::Test(_) if negated => None,
        Node::Test(test) => look(&Term::of(test)?),
        Node::And(nodes) | Node::Or(nodes) => {
            if matches!(node, Node::And(_)) != negated {
                let mut chosen: Option<BlockSet> = None;
                for node in nodes {
                    let part = candidates(node, negated, blocks, look);
                    match (&mut chosen, part) {
                        (Some(chosen), Some(part)) => chosen.and(&part),
                        (None, part) => chosen = part,
                        (Some(_), None) => {}
                    }
                    if chosen.as_ref().is_some_and(BlockSet::is_empty) {
                        break;
                    }
                }
                chosen
            } else {
                let mut chosen = BlockSet::none(blocks);
                for node in nodes {
                    chosen.or(&candidates(node, negated, blocks, look)?);
                }
                Some(chosen)
            }
        }
    }
}
