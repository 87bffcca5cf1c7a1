//! The manager over gRPC: what serves its loop to others, and how clients and nodes of other processes reach it.

use forebay_client::control::Control;
use forebay_client::file::components::Asked;
use forebay_control::ControlClient;
use forebay_control::{Handler, HandlerFuture};
use forebay_env::fabric::FabricFuture;
use forebay_manager::Principal;
use forebay_manager::desk::Desk;
use forebay_model::Result;
use forebay_node::network::ToManager;
use forebay_wire::control::access::{Challenge, Hello, Proven};
use forebay_wire::control::cluster::{Report, Reported};
use forebay_wire::control::{Call, Change, Question, Reply};
use std::sync::Arc;

/// Passes on what comes to a manager's loop.
pub struct DeskHandler(pub Desk);

/// A user's way to a manager in another process.
pub struct GrpcControl(pub ControlClient);

/// A node's way to a manager in another process.
pub struct GrpcReports(pub ControlClient);

impl Handler for DeskHandler {
    type Principal = Principal;

    fn user(&self, by: &Principal) -> u32 {
        by.user
    }

    fn challenge(&self) -> HandlerFuture<Challenge> {
        let desk = self.0.clone();
        Box::pin(async move { desk.challenge().await })
    }

    fn authenticate(&self, hello: Hello, challenge: Challenge, proven: Proven) -> HandlerFuture<Principal> {
        let desk = self.0.clone();
        Box::pin(async move { desk.authenticate(hello, challenge, proven).await })
    }

    fn call(&self, by: Arc<Principal>, call: Call) -> HandlerFuture<Reply> {
        let desk = self.0.clone();
        Box::pin(async move { desk.change((*by).clone(), call).await })
    }

    fn ask(&self, by: Arc<Principal>, question: Question) -> HandlerFuture<Reply> {
        let desk = self.0.clone();
        Box::pin(async move { desk.ask((*by).clone(), question).await })
    }

    fn report(&self, by: Arc<Principal>, report: Report) -> HandlerFuture<Reported> {
        let desk = self.0.clone();
        Box::pin(async move { desk.report((*by).clone(), report).await })
    }
}

impl Control for GrpcControl {
    fn change(&self, change: Change) -> Asked<Reply> {
        let client = self.0.clone();
        Box::pin(async move { client.change(change).await })
    }

    fn ask(&self, question: Question) -> Asked<Reply> {
        let client = self.0.clone();
        Box::pin(async move { client.ask(question).await })
    }

    fn client(&self) -> u64 {
        self.0.client()
    }
}

impl ToManager for GrpcReports {
    fn report(&self, report: Report) -> FabricFuture<Result<Reported>> {
        let client = self.0.clone();
        Box::pin(async move { client.report(report).await })
    }
}
