//! A query as a tree of tests, kept in a normal form.
//!
//! The normal form: no `All` or `Nothing` below the root, no `And` in an `And`, no `Or` in an `Or`, no `Not` in a
//! `Not`, and at least two children in each `And` and `Or`. Printing relies on it to read back as the same tree.

use crate::key::{KeySpec, KeyType, KeyValue, prefix_length};
use crate::time::Timestamp;
use std::fmt;

/// One question to an element. All ranges include both ends, and are not empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Test {
    Seq {
        low: u64,
        high: u64,
    },
    Time {
        low: Timestamp,
        high: Timestamp,
    },
    /// Both ends have the same width; values of another width, and missing ones, are not in the range.
    Key {
        key: usize,
        low: KeyValue,
        high: KeyValue,
    },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Node {
    All,
    Nothing,
    And(Vec<Node>),
    Or(Vec<Node>),
    Not(Box<Node>),
    Test(Test),
}

impl Node {
    /// What satisfies all of `nodes`.
    pub(super) fn and(nodes: Vec<Node>) -> Node {
        let mut flat = Vec::with_capacity(nodes.len());
        for node in nodes {
            match node {
                Node::All => {}
                Node::Nothing => return Node::Nothing,
                Node::And(children) => flat.extend(children),
                other => flat.push(other),
            }
        }
        match flat.len() {
            0 => Node::All,
            1 => flat.swap_remove(0),
            _ => Node::And(flat),
        }
    }

    /// What satisfies one of `nodes`.
    pub(super) fn or(nodes: Vec<Node>) -> Node {
        let mut flat = Vec::with_capacity(nodes.len());
        for node in nodes {
            match node {
                Node::Nothing => {}
                Node::All => return Node::All,
                Node::Or(children) => flat.extend(children),
                other => flat.push(other),
            }
        }
        match flat.len() {
            0 => Node::Nothing,
            1 => flat.swap_remove(0),
            _ => Node::Or(flat),
        }
    }

    /// What does not satisfy `node`.
    pub(super) fn not(node: Node) -> Node {
        match node {
            Node::All => Node::Nothing,
            Node::Nothing => Node::All,
            Node::Not(inner) => *inner,
            other => Node::Not(Box::new(other)),
        }
    }

    pub(super) fn seq(low: u64, high: u64) -> Node {
        match (low, high) {
            (0, u64::MAX) => Node::All,
            _ if low > high => Node::Nothing,
            _ => Node::Test(Test::Seq { low, high }),
        }
    }

    pub(super) fn time(low: Timestamp, high: Timestamp) -> Node {
        match (low, high) {
            (Timestamp::MIN, Timestamp::MAX) => Node::All,
            _ if low > high => Node::Nothing,
            _ => Node::Test(Test::Time { low, high }),
        }
    }

    pub(super) fn key(key: usize, low: KeyValue, high: KeyValue) -> Node {
        debug_assert_eq!(low.width(), high.width());
        if low > high { Node::Nothing } else { Node::Test(Test::Key { key, low, high }) }
    }

    /// Prints the query with the names and types of these keys; it reads back as the same tree.
    pub(super) fn print(&self, keys: &[KeySpec], f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Node::All => f.write_str("all"),
            Node::Nothing => f.write_str("not all"),
            Node::And(nodes) => print_list(nodes, " and ", keys, f),
            Node::Or(nodes) => print_list(nodes, " or ", keys, f),
            Node::Not(node) => {
                f.write_str("not ")?;
                print_inner(node, keys, f)
            }
            Node::Test(test) => print_test(test, keys, f),
        }
    }
}

fn print_list(nodes: &[Node], between: &str, keys: &[KeySpec], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    for (i, node) in nodes.iter().enumerate() {
        if i > 0 {
            f.write_str(between)?;
        }
        print_inner(node, keys, f)?;
    }
    Ok(())
}

fn print_inner(node: &Node, keys: &[KeySpec], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if !matches!(node, Node::And(_) | Node::Or(_)) {
        return node.print(keys, f);
    }
    f.write_str("(")?;
    node.print(keys, f)?;
    f.write_str(")")
}

fn print_test(test: &Test, keys: &[KeySpec], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    match *test {
        Test::Seq { low, high } if low == high => write!(f, "seq = {low}"),
        Test::Seq { low, high: u64::MAX } => write!(f, "seq >= {low}"),
        Test::Seq { low: 0, high } => write!(f, "seq <= {high}"),
        Test::Seq { low, high } => write!(f, "seq in {low}..{high}"),
        Test::Time { low, high } if low == high => write!(f, "time = {low}"),
        Test::Time { low, high: Timestamp::MAX } => write!(f, "after {low}"),
        Test::Time { low: Timestamp::MIN, high } => write!(f, "before {}", Timestamp(high.0.saturating_add(1))),
        Test::Time { low, high } => write!(f, "time in {low}..{high}"),
        Test::Key { key, low, high } => {
            let spec = &keys[key];
            let name = spec.name();
            let (least, most) = low.bounds_of_width();
            if low == high {
                return write!(f, "{name} = {}", spec.show(low));
            }
            if spec.key_type() == KeyType::Address
                && let Some(length) = prefix_length(low, high)
            {
                return write!(f, "{name} in {}/{length}", spec.show(low));
            }
            match (low == least, high == most) {
                // A range of everything means "has this key", and is kept.
                (_, true) => write!(f, "{name} >= {}", spec.show(low)),
                (true, _) => write!(f, "{name} <= {}", spec.show(high)),
                _ => write!(f, "{name} in {}..{}", spec.show(low), spec.show(high)),
            }
        }
    }
}
