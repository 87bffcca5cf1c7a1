use super::*;
use crate::network::intake::tests::Hand;

/// So many places, so many of them for strangers of one machine, and what is counted.
fn places(most: usize, most_strangers: usize) -> (Rc<Places>, Rc<Cuts>) {
    let cuts = Cuts::new(Rc::new(Hand::default()));
    (Places::new(most, most_strangers, cuts.clone()), cuts)
}

fn is_lost(place: &Place) -> bool {
    place.seat.is_lost.get()
}

#[test]
fn the_stranger_that_is_there_longest_makes_room_and_whoever_has_shown_a_capability_does_not() {
    let (places, cuts) = places(3, 3);
    let [known, first, second] = ["a", "b", "c"].map(|of| places.join(of).expect("there is room"));
    known.known();
    let third = places.join("d").expect("a stranger makes room");
    assert!(is_lost(&first) && !is_lost(&second) && !is_lost(&known));
    assert_eq!((places.taken(), cuts.counts().stranger), (3, 1));
    // It ends a little later, and takes no place of anybody with it.
    drop(first);
    assert_eq!(places.taken(), 3);
    [&second, &third].into_iter().for_each(Place::known);
    assert!(places.join("d").is_none(), "nobody makes room");
    drop(second);
    assert!(places.join("d").is_some());
}

#[test]
fn a_machine_with_as_many_strangers_as_it_may_have_makes_room_for_its_own() {
    let (places, cuts) = places(10, 2);
    let other = places.join("other").expect("there is room");
    let [first, second, third] = ["crowd"; 3].map(|of| places.join(of).expect("one of its own makes room"));
    assert!(is_lost(&first) && !is_lost(&second) && !is_lost(&third) && !is_lost(&other));
    assert_eq!((places.taken(), cuts.counts().stranger), (3, 1));
    // Whoever has shown something is no stranger any more.
    [&second, &third].into_iter().for_each(Place::known);
    let more = ["crowd"; 2].map(|of| places.join(of).expect("there is room"));
    assert!(!more.iter().chain([&second, &third]).any(is_lost));
    drop((second, more));
    assert!(places.join("crowd").is_some() && cuts.counts().stranger == 1);
}

#[test]
fn whoever_made_room_before_it_showed_something_has_no_place_back() {
    let (places, _) = places(1, 1);
    let first = places.join("a").expect("there is room");
    let second = places.join("b").expect("a stranger makes room");
    first.known();
    assert!(is_lost(&first) && !is_lost(&second));
    drop(first);
    assert_eq!(places.taken(), 1);
}

#[test]
fn where_nobody_is_a_stranger_the_longest_of_those_that_may_go_makes_room() {
    let (places, cuts) = places(3, 3);
    let [stays, first, second] = ["a", "b", "c"].map(|of| places.join(of).expect("there is room"));
    [&stays, &first, &second].into_iter().for_each(Place::known);
    let may_go = Rc::new(Cell::new(false));
    stays.may_go_when(|| false);
    for place in [&first, &second] {
        let may_go = may_go.clone();
        place.may_go_when(move || may_go.get());
    }
    assert!(places.join("d").is_none(), "nobody makes room");
    may_go.set(true);
    let next = places.join("d").expect("one makes room");
    assert!(is_lost(&first) && !is_lost(&second) && !is_lost(&stays));
    let _last = places.join("d").expect("the stranger makes room before any of them");
    assert!(is_lost(&next) && !is_lost(&second));
    assert_eq!((places.taken(), cuts.counts().stranger), (3, 2));
}
