use super::*;
use forebay_model::Kind;
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
    assert!(sessions.end([1; 16]).is_none(), "nothing is under way");
    assert!(replaced.as_mut().poll(&mut context).is_ready());
}

const ONE: TargetId = TargetId(1);
const OTHER: TargetId = TargetId(2);

/// A connection that replaces the one of `before`, and has not waited until what that asked was done.
fn next(sessions: &Rc<Sessions>, before: u8, nonce: u8) -> Rc<Doing> {
    let former = sessions.end([before; 16]);
    let doing = sessions.begin([nonce; 16]);
    if let Some(former) = former {
        doing.follow(&former).expect("few came behind it");
    }
    doing
}

#[test]
fn what_hangs_at_one_target_keeps_who_connects_again_from_changing_that_one_alone() {
    let sessions = Rc::new(Sessions::default());
    let first = sessions.begin([1; 16]);
    let hangs = first.begin(ONE).expect("it begins");
    let second = next(&sessions, 1, 2);
    assert_eq!(first.begin(OTHER).err().map(|error| error.kind), Some(Kind::Disconnected), "it was replaced");
    assert_eq!(second.begin(ONE).err().map(|error| error.kind), Some(Kind::Busy));
    drop(second.begin(OTHER).expect("the other one serves"));
    drop(hangs);
    drop(second.begin(ONE).expect("nothing of before is under way any more"));
}

#[test]
fn what_hangs_is_known_to_all_that_come_behind_in_whatever_order_they_end() {
    let sessions = Rc::new(Sessions::default());
    let first = sessions.begin([1; 16]);
    let hangs = first.begin(ONE).expect("it begins");
    let second = next(&sessions, 1, 2);
    let other = second.begin(OTHER).expect("it begins");
    drop(first);
    let third = next(&sessions, 2, 3);
    drop(second);
    let busy = |doing: &Rc<Doing>| [ONE, OTHER].map(|target| doing.begin(target).is_err());
    assert_eq!(busy(&third), [true, true]);
    drop(third);
    drop(other);
    // Of the third nothing was ever under way, and the second is done.
    let fourth = next(&sessions, 3, 4);
    assert_eq!(busy(&fourth), [true, false]);
    let fifth = next(&sessions, 2, 5);
    assert_eq!(busy(&fifth), [true, false], "a client may not have heard of those between");
    drop((fourth, fifth));
    drop(hangs);
    assert!(sessions.all.borrow().is_empty(), "nothing is left of what has ended");
}

#[test]
fn who_connects_again_waits_until_all_is_done_that_came_before() {
    let sessions = Rc::new(Sessions::default());
    let first = sessions.begin([1; 16]);
    let hangs = first.begin(ONE).expect("it begins");
    let second = next(&sessions, 1, 2);
    let other = second.begin(OTHER).expect("it begins");
    let former = sessions.end([2; 16]).expect("something is under way");
    let mut context = Context::from_waker(Waker::noop());
    let mut done = pin!(former.done());
    assert!(done.as_mut().poll(&mut context).is_pending());
    drop(other);
    assert!(done.as_mut().poll(&mut context).is_pending(), "what the first one asked is not done");
    drop(hangs);
    assert!(done.as_mut().poll(&mut context).is_ready());
}
