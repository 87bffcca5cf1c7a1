//! Connections for transactions, beside those for all else: a node takes so many transactions of each, and so many requests.
//!
//! Invariant: so many transactions share a connection that all of them together never ask for more than a node takes of one. A
//! connection that was made is kept for those that come.

use crate::nodes::Nodes;
use forebay_wire::heap::network::MOST_TRANSACTIONS;
use forebay_wire::object::MOST_PENDING;
use std::cell::RefCell;
use std::rc::Rc;

/// Transactions of one connection: under what a node takes.
const MOST: usize = MOST_TRANSACTIONS * 3 / 4;
/// Of the requests of each, a node takes 1024 to one target over one connection.
const _: () = assert!(MOST * MOST_PENDING < 1024);

/// The connections of a client's transactions.
#[derive(Default)]
pub(crate) struct Lanes {
    all: RefCell<Vec<Lane>>,
}

struct Lane {
    nodes: Nodes,
    /// Who uses it, beside this.
    users: Rc<()>,
}

/// A place among those that use a connection, until all of its clones are dropped.
#[derive(Clone)]
pub(super) struct Seat(#[expect(dead_code, reason = "it is counted, not read")] Rc<()>);

impl Lanes {
    /// Connections on which there is a place, and the place.
    pub(super) fn take(&self, nodes: &Nodes) -> (Nodes, Seat) {
        let mut all = self.all.borrow_mut();
        let free = all.iter().position(|lane| Rc::strong_count(&lane.users) <= MOST);
        let at = free.unwrap_or_else(|| {
            all.push(Lane { nodes: nodes.apart(), users: Rc::default() });
            all.len() - 1
        });
        (all[at].nodes.clone(), Seat(all[at].users.clone()))
    }
}
