use super::super::intake::tests::Hand;
use super::*;
use forebay_model::{Kind, Timestamp};
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

const PATIENCE: Duration = Duration::from_secs(10);
const TARGET: TargetId = TargetId(1);
const MIB: usize = 1 << 20;

fn incoming() -> (Rc<Incoming>, Rc<Hand>) {
    let clock = Rc::new(Hand(Cell::new(Moment(1))));
    (Incoming::new(Bytes::mib(64), 2, clock.clone(), PATIENCE), clock)
}

#[test]
fn while_others_wait_the_slower_half_of_what_comes_has_to_come_within_patience_and_nobody_otherwise() {
    let (incoming, clock) = incoming();
    let came: Vec<Rc<Cell<u64>>> = (0..4).map(|_| Rc::default()).collect();
    let numbers: Vec<u64> = came.iter().map(|came| incoming.begins(TARGET, 10 * MIB, came.clone())).collect();
    // The second and the fourth are slow.
    for (came, bytes) in came.iter().zip([900, 10, 800, 20]) {
        came.set(bytes);
    }
    clock.0.set(Moment(1) + Duration::from_secs(5));
    let hurry = || numbers.iter().map(|it| incoming.hurries(*it)).collect::<Vec<_>>();
    assert_eq!(hurry(), [None; 4], "nobody waits");
    let within = Some(Rate(MIB as u64));
    {
        let _waits = incoming.waits(None);
        assert_eq!(hurry(), [None, within, None, within]);
        // Which half it is does not change while they are as slow as one another.
        came.iter().for_each(|came| came.set(5 * MIB as u64));
        assert_eq!(hurry(), [within, within, None, None]);
        // However many small ones are slower, they are no half of them.
        let small: Vec<u64> = (0..100).map(|_| incoming.begins(TARGET, 100, Rc::default())).collect();
        came[0].set(6 * MIB as u64);
        clock.0.set(Moment(1) + Duration::from_secs(50));
        assert_eq!(hurry(), [None, within, within, None]);
        small.into_iter().for_each(|it| incoming.ends(it));
    }
    {
        let _waits = incoming.waits(Some(TargetId(2)));
        assert_eq!(hurry(), [None; 4], "what is waited for is not theirs");
    }
    let _waits = incoming.waits(Some(TARGET));
    (1..4).for_each(|it| incoming.ends(numbers[it]));
    assert_eq!(hurry(), [within, None, None, None], "one alone is the slowest");
}

#[test]
fn who_waits_for_memory_is_counted_as_long_as_it_waits() {
    let (incoming, _clock) = incoming();
    let mut context = Context::from_waker(Waker::noop());
    let mut first = pin!(incoming.take(TARGET, 32 * MIB - OVERHEAD));
    let Poll::Ready(Ok(first)) = first.as_mut().poll(&mut context) else { panic!("there is room") };
    assert!(!incoming.is_waited_for(TARGET));
    {
        let mut second = pin!(incoming.take(TARGET, MIB));
        assert!(second.as_mut().poll(&mut context).is_pending());
        assert!(incoming.is_waited_for(TARGET) && !incoming.is_waited_for(TargetId(2)));
        let other = pin!(incoming.take(TargetId(2), MIB)).poll(&mut context);
        assert!(other.is_ready(), "another target's part is free");
    }
    assert!(!incoming.is_waited_for(TARGET));
    drop(first);
    assert_eq!(incoming.used(), 0);
}

/// Time that the test moves, with which waits end.
struct Moving(Rc<Cell<Moment>>);

impl Clock for Moving {
    fn now(&self) -> Moment {
        self.0.get()
    }

    fn wall(&self) -> Timestamp {
        Timestamp(0)
    }

    fn sleep_until(&self, moment: Moment) -> Pin<Box<dyn Future<Output = ()>>> {
        let now = self.0.clone();
        Box::pin(poll_fn(move |_| if now.get() >= moment { Poll::Ready(()) } else { Poll::Pending }))
    }
}

#[test]
fn who_waits_for_what_goes_to_other_targets_that_hang_is_refused_in_the_end_as_who_waits_for_its_own() {
    let now = Rc::new(Cell::new(Moment(1)));
    let incoming = Incoming::new(Bytes::mib(64), 2, Rc::new(Moving(now.clone())), PATIENCE);
    let mut context = Context::from_waker(Waker::noop());
    let mut hang = Vec::new();
    for target in [TARGET, TargetId(2)] {
        let mut taking = pin!(incoming.take(target, 32 * MIB - OVERHEAD));
        let Poll::Ready(Ok(taken)) = taking.as_mut().poll(&mut context) else { panic!("it has its half") };
        hang.push(taken);
    }
    let mut own = pin!(incoming.take(TARGET, MIB));
    let mut other = pin!(incoming.take(TargetId(3), MIB));
    assert!(own.as_mut().poll(&mut context).is_pending() && other.as_mut().poll(&mut context).is_pending());
    now.set(now.get() + WAITS * PATIENCE);
    for (taking, says) in
        [(own.as_mut().poll(&mut context), "to target"), (other.as_mut().poll(&mut context), "other targets")]
    {
        let Poll::Ready(Err(error)) = taking else { panic!("it waits for ever") };
        assert!(error.kind == Kind::Busy && error.message.contains(says), "{error}");
    }
    drop(hang);
    let Poll::Ready(Ok(_)) = pin!(incoming.take(TargetId(3), MIB)).poll(&mut context) else { panic!("there is room") };
}

#[test]
fn a_target_that_gives_nothing_back_and_to_which_nothing_comes_is_not_waited_for_and_one_that_is_slow_is() {
    let now = Rc::new(Cell::new(Moment(1)));
    let incoming = Incoming::new(Bytes::mib(64), 2, Rc::new(Moving(now.clone())), PATIENCE);
    let mut context = Context::from_waker(Waker::noop());
    let pass = |seconds| now.set(now.get() + Duration::from_secs(seconds));
    let mut given = Vec::new();
    for _ in 0..32 {
        let mut taking = pin!(incoming.take(TARGET, MIB - OVERHEAD));
        let Poll::Ready(Ok(taken)) = taking.as_mut().poll(&mut context) else { panic!("there is room") };
        given.push(taken);
    }
    let mut waits = pin!(incoming.take(TARGET, 2 * MIB));
    assert!(waits.as_mut().poll(&mut context).is_pending());
    pass(4);
    drop(given.pop());
    pass(4);
    assert!(waits.as_mut().poll(&mut context).is_pending(), "it gave something back");
    pass(1);
    let refused = |polled: Poll<Result<Taken>>| match polled {
        Poll::Ready(Err(error)) => error.kind == Kind::Busy,
        _ => false,
    };
    assert!(refused(waits.as_mut().poll(&mut context)));
    assert!(refused(pin!(incoming.take(TARGET, 2 * MIB)).poll(&mut context)), "who comes later does not wait at all");
    let number = incoming.begins(TARGET, MIB, Rc::default());
    let mut waits = pin!(incoming.take(TARGET, 2 * MIB));
    assert!(waits.as_mut().poll(&mut context).is_pending(), "that is waited for");
    incoming.ends(number);
    pass(4);
    assert!(waits.as_mut().poll(&mut context).is_pending(), "it was given that just now");
    pass(1);
    assert!(refused(waits.as_mut().poll(&mut context)));
    drop(given);
    assert!(incoming.held.borrow().is_empty() && incoming.used() == 0);
}
