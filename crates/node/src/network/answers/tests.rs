use super::*;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Wake};

/// Counts how often somebody is woken.
#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn who_waits_for_something_for_a_request_hears_that_its_connection_is_over() {
    let answers = Answers::new(FrameSink::default());
    let woken = Arc::new(Count::default());
    let waker = Waker::from(woken.clone());
    let mut context = Context::from_waker(&waker);
    let mut there = pin!(answers.unless_over(RequestId(1), async { 7 }));
    assert_eq!(there.as_mut().poll(&mut context), Poll::Ready(Some(7)));
    let mut waits = pin!(answers.unless_over(RequestId(2), std::future::pending::<u8>()));
    for _ in 0..10 {
        assert!(waits.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(answers.waiting.borrow().len(), 1);
    answers.abandon();
    assert_eq!(woken.0.load(Ordering::Relaxed), 1);
    assert_eq!(waits.as_mut().poll(&mut context), Poll::Ready(None));
    let mut late = pin!(answers.unless_over(RequestId(3), async { 7 }));
    assert_eq!(late.as_mut().poll(&mut context), Poll::Ready(None), "nobody is there");
    assert!(answers.waiting.borrow().is_empty());
}
