use super::super::journal;
use super::*;
use crate::control::Control;
use crate::file::components::Asked;
use crate::nodes::Nodes;
use forebay_model::layout::{Raid, UNIT};
use forebay_model::{Bytes, TargetId, Timestamp};
use forebay_wire::control::Reply;
use forebay_wire::control::access::Hidden;
use forebay_wire::control::names::{Attributes, Entry, FileKind};

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

/// A manager that is not there.
struct Nobody;

impl Control for Nobody {
    fn change(&self, _: Change) -> Asked<Reply> {
        Box::pin(async { Err(Error::disconnected("there is none")) })
    }

    fn ask(&self, _: Question) -> Asked<Reply> {
        Box::pin(async { Err(Error::disconnected("there is none")) })
    }

    fn client(&self) -> u64 {
        1
    }
}

/// All five components whole, and the file at this version.
fn granted(version: u64) -> Grant {
    let component = |nth: u32| Component {
        target: TargetId(u128::from(nth) + 1),
        object: ObjectId { volume: 1, object: 9 },
        capability: Vec::new(),
        secret: Hidden(Vec::new()),
        state: ComponentState::Whole,
    };
    let attributes = Attributes {
        kind: FileKind::File,
        mode: 0o644,
        owner: 0,
        group: 0,
        size: Bytes::ZERO,
        entries: 0,
        created: Timestamp(0),
        modified: Timestamp(0),
        accessed: Timestamp(0),
        changed: Timestamp(0),
        volume: 1,
        version,
    };
    Grant {
        entry: Entry { file: FileId(5), parent: FileId::ROOT, attributes },
        write: true,
        striping: five(),
        components: (0..5).map(component).collect(),
        until: Timestamp(0),
        callback: None,
    }
}

#[test]
fn what_may_have_been_emptied_between_two_grants_is_looked_at_from_its_beginning() {
    let looked = forebay_env::real::run_network(|env| async move {
        let nodes = Nodes::new(env, 1 << 20, Duration::from_secs(1));
        let shared = Rc::new(Shared::new(nodes, Rc::new(Nobody), granted(7), false, Rc::default()));
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
