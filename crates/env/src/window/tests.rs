// Tests of what threads share need threads.
#![allow(clippy::disallowed_methods)]

use super::*;

fn has_room(window: &Arc<Window<u32>>, weight: usize) -> bool {
    window.has_room(&window.state.lock(), weight)
}

#[test]
fn there_is_room_for_so_many_of_so_much_and_for_one_whatever_it_weighs() {
    let window = Window::new(3, 100);
    assert!(has_room(&window, 1000));
    let large = window.make_room(1000);
    assert!(!has_room(&window, 0));
    drop(large);
    let rooms = [1, 99].map(|weight| window.make_room(weight));
    assert!(has_room(&window, 0) && !has_room(&window, 1));
    let empty = window.make_room(0);
    assert!(!has_room(&window, 0), "three are enough");
    drop(rooms);
    assert!(has_room(&window, 100) && !has_room(&window, 101));
    drop(empty);
    assert!(has_room(&window, 101));
}

#[test]
fn who_waits_for_room_has_it_when_somebody_else_leaves() {
    let window: Arc<Window<u32>> = Window::new(1, 10);
    let room = window.make_room(5);
    let waiting = {
        let window = window.clone();
        std::thread::spawn(move || drop(window.make_room(10)))
    };
    drop(room);
    waiting.join().unwrap();
    assert!(has_room(&window, 11));
}

#[test]
fn what_came_of_requests_comes_out_in_the_order_in_which_it_was_filled_in_and_keeps_its_room() {
    let window = Window::new(9, 10);
    let (first, second) = (window.make_room(5), window.make_room(5));
    second.fill(2);
    first.fill(1);
    let (number, room) = window.take().unwrap();
    assert!(number == 2 && !has_room(&window, 1));
    drop(room);
    assert!(has_room(&window, 5) && !has_room(&window, 6));
    assert_eq!(window.take().unwrap().0, 1);
    assert!(has_room(&window, 11));
}

#[test]
fn a_closed_window_ends_when_nobody_has_room_any_more() {
    let window = Window::new(9, 9);
    let (kept, given_up) = (window.make_room(1), window.make_room(1));
    window.close();
    let ending = {
        let window = window.clone();
        std::thread::spawn(move || std::iter::from_fn(|| window.take().map(|(number, _)| number)).collect::<Vec<_>>())
    };
    drop(given_up);
    kept.fill(7);
    assert_eq!(ending.join().unwrap(), [7]);
    assert!(window.take().is_none());
}
