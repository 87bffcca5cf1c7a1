//! The first of two futures.

use std::future::Future;
use std::pin::pin;
use std::task::Poll;

/// Which one was first.
pub enum First<A, B> {
    /// The left one.
    Left(A),
    /// The right one.
    Right(B),
}

/// Waits for the first of both, the left one if both are there; the other one is dropped.
pub async fn race<A, B>(left: impl Future<Output = A>, right: impl Future<Output = B>) -> First<A, B> {
    let (mut left, mut right) = (pin!(left), pin!(right));
    std::future::poll_fn(|context| {
        if let Poll::Ready(value) = left.as_mut().poll(context) {
            return Poll::Ready(First::Left(value));
        }
        right.as_mut().poll(context).map(First::Right)
    })
    .await
}
