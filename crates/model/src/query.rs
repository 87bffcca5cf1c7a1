//! Queries: which elements are wanted.
//!
//! Owns the text of queries, their evaluation on an element, and what they allow to skip. The grammar is in
//! `docs/query.md`. The invariants:
//!
//! - No text makes the parser panic, and its depth and length are bounded; a refusal shows the place with a caret.
//! - A printed query reads back as the same query, whatever the time is then: relative times are resolved when read.
//! - A comparison with a key that an element does not have is false; `!=` and `not in` are `not =` and `not ... in`.
//! - [`Query::matches`] allocates nothing and looks at each test at most once.
//! - Bounds and candidates never exclude a match.

mod blocks;
mod lexer;
mod parser;
mod plan;
mod problem;
mod program;
mod tree;
mod values;

pub use blocks::BlockSet;
pub use plan::Term;

use crate::error::{Error, Result};
use crate::key::{KeySet, KeySpec, KeyValue};
use crate::size::Bytes;
use crate::time::Timestamp;
use plan::Terms;
use program::Program;
use std::fmt;
use tree::Node;

/// The longest query that is read.
pub const MAX_QUERY: Bytes = Bytes::kib(64);

/// A query on a ring with certain keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    tree: Node,
    program: Program,
    /// For printing.
    keys: Vec<KeySpec>,
}

impl Query {
    /// The query that every element satisfies.
    pub fn everything(keys: &KeySet) -> Query {
        Query::of(Node::All, keys)
    }

    /// Reads a query on a ring with these keys; an empty one is everything. Relative times count from `now`.
    pub fn parse(text: &str, keys: &KeySet, now: Timestamp) -> Result<Query> {
        if text.len() as u64 > MAX_QUERY.0 {
            let length = text.len();
            return Err(Error::usage(format!("the query has {length} bytes; it can have {} at most", MAX_QUERY.0)));
        }
        match parser::parse(text, keys, now) {
            Ok(tree) => Ok(Query::of(tree, keys)),
            Err(problem) => Err(problem.into_error(text)),
        }
    }

    fn of(tree: Node, keys: &KeySet) -> Query {
        Query { program: Program::of(&tree), tree, keys: keys.specs().to_vec() }
    }

    /// Whether an element satisfies the query. `keys` has the values of all keys of the ring, in their order;
    /// it may be empty if not [`Query::needs_keys`].
    #[inline]
    pub fn matches(&self, seq: u64, time: Timestamp, keys: &[KeyValue]) -> bool {
        self.program.run(seq, time, keys)
    }

    /// The first and the last time that a match can have. The first is later than the last if there can be no match.
    pub fn time_range(&self) -> (Timestamp, Timestamp) {
        plan::time_bounds(&self.tree).unwrap_or((Timestamp::MAX, Timestamp::MIN))
    }

    /// The first and the last sequence number that a match can have. The first is larger than the last if there can
    /// be no match.
    pub fn seq_range(&self) -> (u64, u64) {
        plan::seq_bounds(&self.tree).unwrap_or((u64::MAX, 0))
    }

    /// Whether the answer depends on sequence numbers: also where it excludes some of them, and [`Query::seq_range`] has all.
    pub fn uses_seq(&self) -> bool {
        plan::uses_seq(&self.tree)
    }

    /// Whether the answer depends on keys at all.
    pub fn needs_keys(&self) -> bool {
        self.keys_used() != 0
    }

    /// The keys that the answer depends on: bit `i` for key number `i`.
    pub fn keys_used(&self) -> u32 {
        plan::keys_used(&self.tree)
    }

    /// The most tests that [`Query::matches`] makes for an element.
    pub fn tests(&self) -> usize {
        self.program.length()
    }

    /// The terms that [`Query::candidates`] may look up, each once.
    pub fn terms(&self) -> Vec<Term> {
        let mut found = Terms::default();
        plan::terms(&self.tree, false, &mut found);
        found.in_order
    }

    /// Which of the `blocks` blocks of a segment may hold a match, judged by keys alone. `look` answers which blocks
    /// may hold an element for which a term holds, as a set of exactly `blocks` blocks; `None` if it cannot tell.
    pub fn candidates(&self, blocks: usize, look: &mut dyn FnMut(&Term) -> Option<BlockSet>) -> BlockSet {
        plan::candidates(&self.tree, false, blocks, look).unwrap_or_else(|| BlockSet::all(blocks))
    }
}

impl fmt::Display for Query {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.tree.print(&self.keys, f)
    }
}

#[cfg(test)]
mod random_tests;
#[cfg(test)]
mod tests;
