use super::super::fake::{Answers, five, granted, nobody, open};
use super::super::journal;
use super::*;
use forebay_model::layout::{Raid, UNIT};
use forebay_model::{Bytes, TargetId};
use forebay_wire::control::Reply;
use forebay_wire::control::files::{Granted, Grants};
use std::cell::RefCell;

/// One component is missing, and the others are whole.
fn without(missing: u32) -> impl Fn(u32) -> Option<ComponentState> {
    move |one| Some(if one == missing { ComponentState::Missed } else { ComponentState::Whole })
}

fn whole(_: u32) -> Option<ComponentState> {
    Some(ComponentState::Whole)
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

#[test]
fn what_may_have_been_emptied_between_two_grants_is_looked_at_from_its_beginning() {
    let looked = forebay_env::real::run_network(|env| async move {
        let shared = open(env, nobody(), 7);
        let known = |shared: &Shared| {
            shared.made.borrow_mut().insert(2);
            shared.seen.borrow_mut().insert(2, journal::Seen::up_to((TargetId(3), 1), 4096));
        };
        let is_known = |shared: &Shared| (shared.made.borrow().contains(&2), shared.seen.borrow().contains_key(&2));
        let mut found = Vec::new();
        for version in [7 + CYCLE - 1, 7 + 2 * CYCLE - 1] {
            known(&shared);
            let before = shared.grant.replace(granted(version));
            shared.heed(&before);
            found.push(is_known(&shared));
        }
        found
    });
    // Giving up, emptying, filling and being whole are as many versions.
    assert_eq!(looked.expect("a loop"), [(true, true), (false, false)]);
}

#[test]
fn who_asks_whether_others_are_answered_and_does_not_know_of_all_that_was_given_up_learns_it_first() {
    let asked = forebay_env::real::run_network(|env| async move {
        let asked: Rc<RefCell<Vec<u64>>> = Rc::default();
        let noted = asked.clone();
        let manager = Answers(move |question| match question {
            Question::GivenUp(GivenUp { version, .. }) => {
                noted.borrow_mut().push(version);
                match version {
                    3 => Ok(Reply::Done),
                    _ => Err(Error::stale("the file has version 3 by now")),
                }
            }
            Question::Renew(_) => {
                let mut grant = granted(3);
                grant.components[1].state = ComponentState::Missed;
                Ok(Reply::Grants(Grants { grants: vec![Granted { grant: Some(grant), error: None }] }))
            }
            _ => Err(Error::disconnected("there is none")),
        });
        let shared = open(env, Rc::new(manager), 2);
        let answer = shared.nobody_is_answered().await;
        (answer, shared.absent(), asked.take())
    });
    let (answer, absent, asked) = asked.expect("a loop");
    assert_eq!((answer, asked), (Ok(()), vec![2, 3]));
    assert_eq!(absent, [(1, Absence::Missed)]);
}
