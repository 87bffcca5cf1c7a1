use super::super::intake::tests::Hand;
use super::*;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};

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
    let std::task::Poll::Ready(Ok(first)) = first.as_mut().poll(&mut context) else { panic!("there is room") };
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
