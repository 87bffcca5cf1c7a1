use super::*;
use std::future::Future;
use std::pin::pin;
use std::task::Context;

#[test]
fn a_connection_that_is_polled_again_and_again_waits_to_be_replaced_in_one_place() {
    let sessions = Rc::new(Sessions::default());
    let doing = sessions.begin([1; 16]);
    let mut context = Context::from_waker(Waker::noop());
    let mut replaced = pin!(doing.replaced());
    for _ in 0..1000 {
        assert!(replaced.as_mut().poll(&mut context).is_pending());
    }
    assert_eq!(doing.waiting.borrow().len(), 1, "what it takes does not grow with what happens on it");
    let mut ending = pin!(sessions.end([1; 16]));
    assert!(ending.as_mut().poll(&mut context).is_ready(), "nothing is under way");
    assert!(replaced.as_mut().poll(&mut context).is_ready());
}
