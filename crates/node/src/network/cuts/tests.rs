use super::*;
use crate::network::intake::tests::Hand;

#[test]
fn what_is_malformed_is_counted_each_time_and_told_once_a_minute_at_most() {
    let hand = Rc::new(Hand::default());
    let (cuts, told) = (Cuts::new(hand.clone()), Rc::new(RefCell::new(Vec::new())));
    cuts.tell(Box::new({
        let told = told.clone();
        move |said| told.borrow_mut().push((said.peer, said.count))
    }));
    for second in 0..150 {
        hand.0.set(Moment(0) + Duration::from_secs(second));
        cuts.ended(&format!("peer {second}"), &Error::damaged("it is no frame"), second % 3 == 0);
    }
    let said = [("peer 0", 1), ("peer 60", 60), ("peer 120", 60)].map(|(peer, count)| (peer.to_string(), count));
    assert_eq!(*told.borrow(), said);
    assert_eq!(cuts.counts(), CutCounts { malformed: 100, changed: 50, ..CutCounts::default() });
}

#[test]
fn whoever_hangs_up_or_has_to_wait_is_not_said_to_send_anything_wrong() {
    let cuts = Cuts::new(Rc::new(Hand::default()));
    cuts.tell(Box::new(|said| panic!("{said:?}")));
    for error in [Error::disconnected("it went away"), Error::busy("a device hangs")] {
        cuts.ended("peer", &error, false);
    }
    assert_eq!(cuts.counts(), CutCounts::default());
}
