use super::*;
use std::future::Future;
use std::pin::pin;
use std::task::Context;

#[test]
fn who_waits_no_more_leaves_nothing_behind() {
    let watch = Watch::new(Durable::default());
    let mut context = Context::from_waker(Waker::noop());
    for _ in 0..3 {
        let mut one = pin!(watch.when(|durable| durable.number > 0));
        let mut other = Box::pin(watch.when(|durable| durable.number > 0));
        assert!(one.as_mut().poll(&mut context).is_pending() && other.as_mut().poll(&mut context).is_pending());
        assert!(one.as_mut().poll(&mut context).is_pending());
        assert_eq!(watch.0.lock().wakers.len(), 2);
        drop(other);
        assert_eq!(watch.0.lock().wakers.len(), 1);
    }
    assert!(watch.0.lock().wakers.is_empty());
}
