use super::*;
use std::cell::Cell;

thread_local! {
    static TOLD: RefCell<Vec<News>> = const { RefCell::new(Vec::new()) };
    static TOLD_BEFORE: Cell<usize> = const { Cell::new(0) };
}

/// What a teller says of this, and had not said before.
fn new_of(teller: &Teller, heard: &Result<Heard>) -> Vec<News> {
    teller.tell(heard);
    TOLD.with_borrow(|told| told[TOLD_BEFORE.replace(told.len())..].to_vec())
}

#[test]
fn what_changed_between_a_node_and_its_manager_is_told_once() {
    let teller = Teller::new(|news| TOLD.with_borrow_mut(|told| told.push(news)));
    let (refused, unable, set_aside) = (Vec::new(), Vec::new(), Vec::new());
    let plain = Heard { refused, unable, set_aside, serving: 1, epoch: 0, clock_off: None };
    let heard = |epoch| Heard { epoch, ..plain.clone() };
    let well = || Ok(heard(1));
    let away = |why: &str| Err(Error::disconnected(why));
    assert_eq!(new_of(&teller, &well()), []);
    assert_eq!(new_of(&teller, &away("one")), [News::Away(Error::disconnected("one"))]);
    assert_eq!(new_of(&teller, &away("another")), [], "it is away still");
    let forbidden = Error::forbidden("revoked");
    assert_eq!(new_of(&teller, &Err(forbidden.clone())), [News::Refused(forbidden)]);
    assert_eq!(new_of(&teller, &well()), [News::Well]);
    assert_eq!(new_of(&teller, &well()), []);
    let (one, two) = ((TargetId(1), Error::stale("old")), (TargetId(2), Error::exists("twice")));
    let of = |(target, error): &(TargetId, Error)| News::TargetRefused(*target, error.clone());
    let refused = |refused: &[&(TargetId, Error)]| {
        Ok(Heard { refused: refused.iter().map(|one| (*one).clone()).collect(), ..heard(2) })
    };
    assert_eq!(new_of(&teller, &refused(&[&one])), [of(&one)]);
    assert_eq!(new_of(&teller, &refused(&[&one, &two])), [of(&two)]);
    assert_eq!(new_of(&teller, &well()), [News::Well]);
    let off = |by: &str| Ok(Heard { clock_off: Some(by.to_string()), ..heard(2) });
    assert_eq!(new_of(&teller, &off("a minute")), [News::ClockOff("a minute".to_string())]);
    assert_eq!(new_of(&teller, &off("two minutes")), [], "it is off still");
    assert_eq!(new_of(&teller, &well()), [News::Well]);
    let unable = (TargetId(1), Error::device("lost"));
    let told = Ok(Heard { unable: vec![unable.clone()], ..heard(2) });
    assert_eq!(new_of(&teller, &told), [News::Unable(unable.0, unable.1)]);
    assert_eq!(new_of(&teller, &told), []);
    let ring = ObjectId { volume: 1, object: 2 };
    let aside = Ok(Heard { set_aside: vec![(TargetId(1), ring)], ..heard(2) });
    assert_eq!(new_of(&teller, &aside), [News::SetAside(TargetId(1), ring), News::Well]);
    assert_eq!(new_of(&teller, &well()), [], "it is over");
}
