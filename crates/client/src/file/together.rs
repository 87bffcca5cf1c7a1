//! Several futures of one task: all of them, or the first; and one that a task of its own ends.

pub(super) use forebay_env::together::all;

use forebay_env::Spawner;
use forebay_env::pipe::pipe;
use forebay_env::race::{First, race};
use forebay_model::{Error, Result};
use std::future::Future;

/// Begins it at once, and has it done to its end by a task of its own, also if nobody waits for it any more.
pub(super) fn to_its_end<T: 'static, F: Future<Output = Result<T>> + 'static>(
    spawner: &Spawner,
    work: F,
) -> impl Future<Output = Result<T>> + use<T, F> {
    let (answer, mut outlet) = pipe(0);
    spawner.detach(async move {
        answer.send(work.await, 0).await;
    });
    async move { outlet.receive().await.unwrap_or_else(|| Err(Error::disconnected("the client ends"))) }
}

/// What the first one gives, or the other, if that has something before.
pub(super) async fn either<T>(first: impl Future<Output = T>, other: impl Future<Output = Option<T>>) -> T {
    let other = async {
        match other.await {
            Some(value) => value,
            None => std::future::pending().await,
        }
    };
    let (First::Left(value) | First::Right(value)) = race(first, other).await;
    value
}
