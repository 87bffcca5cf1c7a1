use super::*;
use forebay_model::Bytes;
use forebay_model::layout::{Raid, UNIT};

/// One component is missing, and the others are whole.
fn without(missing: u32) -> impl Fn(u32) -> Option<ComponentState> {
    move |one| Some(if one == missing { ComponentState::Missed } else { ComponentState::Whole })
}

fn whole(_: u32) -> Option<ComponentState> {
    Some(ComponentState::Whole)
}

fn five() -> Striping {
    Striping::over(Raid::Five, UNIT, 5).unwrap()
}

#[test]
fn a_lock_behind_a_component_that_is_whole_again_keeps_nobody_out_any_more() {
    let striping = five();
    let stripe = striping.stripe_of(Bytes(0));
    let order = striping.holders(0, stripe);
    let parity = striping.parity_of(stripe).unwrap().component;
    assert_eq!(order[0], parity);
    // Locked at the next one while the first one was absent.
    assert!(!is_over(&striping, order[1], stripe, without(order[0])));
    assert!(is_over(&striping, order[1], stripe, whole));
    // One that is absent by now is not asked any more by anybody, and its parity is not made use of.
    assert!(!is_over(&striping, order[0], stripe, without(order[0])));
    // When it is filled, it is locked again, so that what is begun meanwhile is found there when it is whole.
    let filled = |one| Some(if one == order[0] { ComponentState::Filling } else { ComponentState::Whole });
    assert!(!is_over(&striping, order[0], stripe, filled) && is_over(&striping, order[1], stripe, filled));
    // Others of the stripe are nothing to it.
    assert!(!is_over(&striping, order[0], stripe, without(order[2])));
}

#[test]
fn the_end_of_a_file_is_lost_with_the_component_where_it_was_locked() {
    let striping = five();
    assert!(!is_over(&striping, 0, END, whole));
    assert!(is_over(&striping, 0, END, without(0)));
    assert!(!is_over(&striping, 1, END, without(0)));
    assert!(is_over(&striping, 1, END, whole));
}

#[test]
fn of_three_copies_all_are_locked_so_that_one_that_comes_back_takes_nothing_away() {
    let striping = Striping::over(Raid::One(3), UNIT, 3).unwrap();
    let stripe = striping.stripe_of(Bytes(0));
    assert!(!is_over(&striping, 1, stripe, whole));
    assert!(!is_over(&striping, 1, stripe, without(0)));
}
