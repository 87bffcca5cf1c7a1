use crate::testing::{NODES, Stage, report, root, targets_of, user};
use forebay_model::{Bytes, Kind, Result, TargetId};
use forebay_wire::control::cluster::{SetTarget, TargetState};
use forebay_wire::control::files::{ComponentState, CreateRing, Grant, OpenRing, Rebuilt};
use forebay_wire::control::names::Place;
use forebay_wire::control::{Change, Question, Reply};
use std::time::Duration;

const CAPACITY: Bytes = Bytes::gib(10);

fn create(place: Place, parity: bool, again: bool, refused_by: &[TargetId]) -> Change {
    let refused_by = refused_by.to_vec();
    Change::CreateRing(CreateRing { place, mode: 0o644, capacity: CAPACITY, refused_by, targets: 2, parity, again })
}

fn granted(reply: Result<Reply>) -> Grant {
    match reply {
        Ok(Reply::Grant(grant)) => grant,
        other => panic!("{other:?} is no grant"),
    }
}

fn opened(stage: &mut Stage, write: bool) -> Grant {
    granted(stage.ask(&root(), &Question::OpenRing(OpenRing { place: Place::path("/r"), write })))
}

fn set(stage: &mut Stage, target: TargetId, state: TargetState) {
    stage.root(Change::SetTarget(SetTarget { target, state })).unwrap();
    stage.pass(Duration::from_secs(5));
    let now = stage.now;
    stage.manager.tick(now).unwrap();
}

fn states(grant: &Grant) -> Vec<ComponentState> {
    grant.components.iter().map(|component| component.state).collect()
}

#[test]
fn a_part_on_a_lost_target_gets_another_one_and_is_whole_when_it_has_come_round() {
    use ComponentState::{Filling, Missed, Whole};
    let mut stage = Stage::new();
    let made = granted(stage.root(create(Place::path("/r"), true, false, &[])));
    let (file, lost) = (made.entry.file, made.components[1].target);
    set(&mut stage, lost, TargetState::Failed);
    let degraded = opened(&mut stage, false);
    assert_eq!(states(&degraded), [Whole, Missed, Whole]);
    assert!(degraded.components[1].capability.is_empty(), "nobody is given anything of it");
    let other = stage.change(&user(9), create(Place::of(file), true, true, &[])).unwrap_err();
    assert_eq!(other.kind, Kind::Forbidden, "who may not record has nothing made anew");
    let moved = granted(stage.root(create(Place::of(file), true, true, &[])));
    assert_eq!(states(&moved), [Whole, Filling, Whole]);
    let there = moved.components[1].target;
    assert!(made.components.iter().all(|component| component.target != there));
    // It refuses.
    let again = granted(stage.root(create(Place::of(file), true, true, &[there])));
    assert_eq!(states(&again), [Whole, Filling, Whole]);
    assert!(again.components[1].target != there && again.components[1].target != lost);
    let readable = opened(&mut stage, false);
    assert!(!readable.components[1].capability.is_empty(), "what is there is read");
    let (component, version) = (1, moved.entry.attributes.version);
    let rebuilt = |version| Change::Rebuilt(Rebuilt { file, component, version });
    assert_eq!(stage.root(rebuilt(version)).unwrap_err().kind, Kind::Stale, "it was said of the one before");
    let version = again.entry.attributes.version;
    assert_eq!(stage.change(&user(9), rebuilt(version)).unwrap_err().kind, Kind::Forbidden);
    stage.root(rebuilt(version)).unwrap();
    assert_eq!(states(&opened(&mut stage, true)), [Whole, Whole, Whole]);
    // Then the next one may be lost.
    set(&mut stage, made.components[2].target, TargetState::Failed);
    assert_eq!(states(&opened(&mut stage, true)), [Whole, Whole, Missed]);
    // What is left behind is removed if that target ever comes back, and no part of the ring lies on it before.
    set(&mut stage, lost, TargetState::Up);
    let all: Vec<TargetId> =
        (1..=crate::testing::NODES).flat_map(targets_of).filter(|target| *target != lost).collect();
    assert_eq!(stage.root(create(Place::of(file), true, true, &all)).unwrap_err().kind, Kind::Full);
}

#[test]
fn a_part_on_a_target_that_is_taken_back_stays_and_what_nothing_is_made_of_waits_for_its_target() {
    use ComponentState::{Missed, Whole};
    let mut stage = Stage::new();
    let made = granted(stage.root(create(Place::path("/r"), true, false, &[])));
    let (file, lost) = (made.entry.file, made.components[0].target);
    set(&mut stage, lost, TargetState::Failed);
    set(&mut stage, made.components[1].target, TargetState::Failed);
    assert_eq!(states(&opened(&mut stage, true)).iter().filter(|state| **state == Missed).count(), 1);
    set(&mut stage, lost, TargetState::Up);
    set(&mut stage, made.components[1].target, TargetState::Up);
    // Nothing is to be placed, so no target needs to have room.
    for node in 1..=NODES {
        let mut full = report(node);
        full.targets.iter_mut().for_each(|target| target.free = Bytes(0));
        stage.report(&full).unwrap();
    }
    let back = granted(stage.root(create(Place::of(file), true, true, &[])));
    assert_eq!(states(&back), [Whole, Whole, Whole]);
    let targets = |grant: &Grant| grant.components.iter().map(|component| component.target).collect::<Vec<_>>();
    assert_eq!(targets(&back), targets(&made));
    let mut stage = Stage::new();
    let made = granted(stage.root(create(Place::path("/r"), false, false, &[])));
    set(&mut stage, made.components[0].target, TargetState::Failed);
    assert_eq!(states(&opened(&mut stage, true)), [Whole, Whole], "a ring without parity can do without none");
}
