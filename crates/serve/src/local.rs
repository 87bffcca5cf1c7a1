//! Clients and nodes that are in the manager's process, or in its simulation: they ask its loop directly.

use forebay_client::control::Control;
use forebay_client::file::components::Asked;
use forebay_env::fabric::FabricFuture;
use forebay_manager::Principal;
use forebay_manager::desk::Desk;
use forebay_model::Result;
use forebay_node::network::ToManager;
use forebay_wire::control::cluster::{Report, Reported};
use forebay_wire::control::{Call, Change, Question, Reply};
use std::cell::Cell;

/// A user's way to the manager.
pub struct LocalControl {
    desk: Desk,
    by: Principal,
    sequence: Cell<u64>,
}

/// A node's way to the manager.
pub struct LocalReports {
    desk: Desk,
    by: Principal,
}

impl LocalControl {
    /// As this user and client; a client's number is taken once.
    pub fn new(desk: Desk, by: Principal) -> LocalControl {
        LocalControl { desk, by, sequence: Cell::new(0) }
    }
}

impl Control for LocalControl {
    fn change(&self, change: Change) -> Asked<Reply> {
        self.sequence.set(self.sequence.get() + 1);
        let (desk, by, sequence) = (self.desk.clone(), self.by.clone(), self.sequence.get());
        Box::pin(async move { desk.change(by, Call { sequence, change }).await })
    }

    fn ask(&self, question: Question) -> Asked<Reply> {
        let (desk, by) = (self.desk.clone(), self.by.clone());
        Box::pin(async move { desk.ask(by, question).await })
    }

    fn client(&self) -> u64 {
        self.by.client
    }
}

impl LocalReports {
    /// As this user.
    pub fn new(desk: Desk, by: Principal) -> LocalReports {
        LocalReports { desk, by }
    }
}

impl ToManager for LocalReports {
    fn report(&self, report: Report) -> FabricFuture<Result<Reported>> {
        let (desk, by) = (self.desk.clone(), self.by.clone());
        Box::pin(async move { desk.report(by, report).await })
    }
}
