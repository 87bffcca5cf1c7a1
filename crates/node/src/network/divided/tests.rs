use super::*;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

const HUNG: TargetId = TargetId(1);
const WELL: TargetId = TargetId(2);

/// What comes of a future that is polled once.
fn now<T>(future: impl Future<Output = T>) -> Option<T> {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => Some(value),
        Poll::Pending => None,
    }
}

#[test]
fn what_is_asked_of_one_target_that_does_not_answer_leaves_a_part_to_others() {
    let all = Divided::new(100, 50);
    let mut held: Vec<Portion> = (0..5).map(|_| now(all.take(HUNG, 10)).expect("there is room")).collect();
    assert!(now(all.take(HUNG, 10)).is_none(), "it has its part");
    let of_others: Vec<Portion> = (0..5).map(|_| now(all.take(WELL, 10)).expect("there is room")).collect();
    assert_eq!(all.used(), 100);
    assert!(now(all.take(TargetId(3), 10)).is_none(), "all is used");
    drop(of_others);
    // What was answered waits for a client, and for no target.
    let answered = held.pop().expect("one of five").answered();
    assert!(now(all.take(HUNG, 10)).is_some());
    assert_eq!(all.used(), 50);
    drop((held, answered));
    assert!(now(all.take(HUNG, 1000)).is_some(), "one is let in whatever it weighs");
    assert_eq!(all.used(), 0);
}
