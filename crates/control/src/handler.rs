//! What is behind the server: whoever owns the manager.

use forebay_model::Result;
use forebay_wire::control::access::{Challenge, Hello, Proven};
use forebay_wire::control::cluster::{Report, Reported};
use forebay_wire::control::{Call, Question, Reply};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// An answer that comes later. It is waited for also when nobody wants it any more: until it is there, whoever asked has its room.
pub type HandlerFuture<T> = Pin<Box<dyn Future<Output = Result<T>> + Send>>;

/// Answers what was asked. It is called on the thread of the server, which it must not hold up: it sends a message to the
/// thread of the manager, and gives a future of the answer.
///
/// An answer of kind [`forebay_model::Kind::Disconnected`] has clients ask again under the same number.
pub trait Handler: Send + Sync + 'static {
    /// Whoever proved who it is, as the manager knows it.
    type Principal: Send + Sync + 'static;

    /// Which user that is: none takes all the room, and none all sessions.
    fn user(&self, by: &Self::Principal) -> u32;

    /// What a client has to prove itself against: never the same twice.
    fn challenge(&self) -> HandlerFuture<Challenge>;

    /// Who said hello, if that was proven: asked once for each challenge, and again when whoever that was is told that something is forbidden.
    /// If it is forbidden to it then to say who it is, its session is over.
    fn authenticate(&self, hello: Hello, challenge: Challenge, proven: Proven) -> HandlerFuture<Self::Principal>;

    /// Changes something; when it is answered, it is durable.
    fn call(&self, by: Arc<Self::Principal>, call: Call) -> HandlerFuture<Reply>;

    /// Answers a question.
    fn ask(&self, by: Arc<Self::Principal>, question: Question) -> HandlerFuture<Reply>;

    /// Takes a node's report.
    fn report(&self, by: Arc<Self::Principal>, report: Report) -> HandlerFuture<Reported>;
}
