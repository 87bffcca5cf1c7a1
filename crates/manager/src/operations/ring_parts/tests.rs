use crate::draft::View;
use crate::engine::Engine;
use crate::keys;
use crate::principal::Principal;
use crate::records::{Orders, object};
use crate::testing::{NODES, Stage, report, root, targets_of, user};
use forebay_model::{Bytes, Kind, Result, TargetId};
use forebay_wire::capability::{LONGEST_LIFE, SKEW};
use forebay_wire::control::cluster::{Order, SetTarget, TargetState};
use forebay_wire::control::files::{
    After, ComponentState, CreateRing, Grant, Moving, OpenRing, Rebuilt, Relocate, Relocated, Relocating, Relocation,
};
use forebay_wire::control::names::{FileId, Place, RemoveFile};
use forebay_wire::control::{Change, Question, Reply};
use std::collections::BTreeSet;
use std::time::Duration;

const CAPACITY: Bytes = Bytes::gib(10);

fn create(place: Place, parity: bool, again: bool, refused_by: &[TargetId]) -> Change {
    let refused_by = refused_by.to_vec();
    Change::CreateRing(CreateRing {
        place,
        mode: 0o644,
        capacity: CAPACITY,
        refused_by,
        targets: 2,
        parity,
        again,
        leaving: None,
    })
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

fn leaving(file: FileId, component: u32, refused_by: &[TargetId]) -> Change {
    let Change::CreateRing(create) = create(Place::of(file), true, false, refused_by) else { panic!("it is one") };
    Change::CreateRing(CreateRing { leaving: Some(component), ..create })
}

fn left(file: FileId, component: u32, grant: &Grant) -> Change {
    Change::Relocated(Relocated { file, component, version: grant.entry.attributes.version, recorded: true })
}

/// Which part moves, where the other place of it is, and whether it has left that.
fn moving(grant: &Grant) -> Vec<(u32, Option<TargetId>, bool)> {
    let one = |Moving { component, place, moved }: &Moving| (*component, place.as_ref().map(|it| it.target), *moved);
    grant.moving.iter().map(one).collect()
}

/// What is to be removed on a target, by its orders.
fn counted(stage: &mut Stage, target: TargetId) -> Option<u64> {
    stage.pass(Duration::from_secs(5));
    let now = stage.now;
    stage.manager.tick(now).unwrap();
    stage.manager.tick(now).unwrap();
    let map = match stage.ask(&root(), &Question::Map) {
        Ok(Reply::Map(map)) => map,
        other => panic!("{other:?} is no map"),
    };
    map.targets.iter().find(|it| it.target == target).unwrap().left
}

#[test]
fn a_part_leaves_a_target_that_drains_and_is_known_in_both_places_until_it_has_come_round() {
    let mut stage = Stage::new();
    let made = granted(stage.root(create(Place::path("/r"), true, false, &[])));
    let (file, first) = (made.entry.file, made.components[1].target);
    assert_eq!(stage.root(leaving(file, 1, &[])).unwrap_err().kind, Kind::Stale, "nothing is to leave");
    assert_eq!(stage.root(leaving(file, 7, &[])).unwrap_err().kind, Kind::Usage, "there is no such part");
    set(&mut stage, first, TargetState::Draining);
    assert_eq!(moving(&opened(&mut stage, true)), [(1, None, false)], "it is to leave");
    assert_eq!(moving(&opened(&mut stage, false)), [], "who reads has nothing to do with it");
    assert_eq!(stage.change(&user(9), leaving(file, 1, &[])).unwrap_err().kind, Kind::Forbidden);
    let placed = granted(stage.root(leaving(file, 1, &[])));
    let [(1, Some(second), false)] = moving(&placed)[..] else { panic!("{:?}", moving(&placed)) };
    assert_eq!(placed.components[1].target, first, "it lies where it lay until it is made there");
    assert!(made.components.iter().all(|component| component.target != second));
    assert_eq!(moving(&granted(stage.root(leaving(file, 1, &[])))), moving(&placed), "asked again, it is the same");
    let other = granted(stage.root(leaving(file, 1, &[second])));
    let [(1, Some(third), false)] = moving(&other)[..] else { panic!("{:?}", moving(&other)) };
    assert!(![first, second].contains(&third));
    let stale = Change::Relocated(Relocated {
        file,
        component: 1,
        version: other.entry.attributes.version + 1,
        recorded: true,
    });
    assert_eq!(stage.root(stale).unwrap_err().kind, Kind::Stale);
    assert_eq!(stage.change(&user(9), left(file, 1, &other)).unwrap_err().kind, Kind::Forbidden);
    stage.root(left(file, 1, &other)).unwrap();
    for write in [true, false] {
        let now = opened(&mut stage, write);
        assert_eq!((now.components[1].target, moving(&now)), (third, vec![(1, Some(first), true)]));
        assert!(now.entry.attributes.version > other.entry.attributes.version, "who does not know it is shut out");
        assert!(!now.moving[0].place.as_ref().unwrap().capability.is_empty(), "what is there is read");
    }
    assert_eq!(counted(&mut stage, first), Some(1), "it is not empty yet");
    // It leaves the next one when this is over.
    set(&mut stage, third, TargetState::Draining);
    assert_eq!(stage.root(leaving(file, 1, &[])).unwrap_err().kind, Kind::Stale);
    let now = opened(&mut stage, true);
    let rebuilt = Rebuilt { file, component: 1, version: now.entry.attributes.version };
    assert_eq!(stage.root(Change::Rebuilt(Rebuilt { component: 0, ..rebuilt })).unwrap_err().kind, Kind::Stale);
    stage.root(Change::Rebuilt(rebuilt)).unwrap();
    assert_eq!(moving(&opened(&mut stage, true)), [(1, None, false)]);
    assert_eq!(counted(&mut stage, first), Some(0));
    granted(stage.root(leaving(file, 1, &[])));
    // What was made elsewhere in vain is removed when the target is used again.
    set(&mut stage, third, TargetState::Up);
    assert_eq!(counted(&mut stage, third), None, "it is not counted where things are to stay");
    assert_eq!(moving(&opened(&mut stage, true)), []);
}

#[test]
fn a_part_goes_to_no_node_that_has_another_one_as_long_as_there_is_one_without() {
    let on_all = |change: Change| match change {
        Change::CreateRing(create) => Change::CreateRing(CreateRing { targets: NODES as u32 - 1, ..create }),
        other => other,
    };
    let node_of = |target: TargetId| (1..=NODES).find(|node| targets_of(*node).contains(&target)).expect("it is one's");
    for component in 0..NODES as u32 {
        for state in [TargetState::Draining, TargetState::Failed] {
            let mut stage = Stage::new();
            let made = granted(stage.root(on_all(create(Place::path("/r"), true, false, &[]))));
            let (file, from) = (made.entry.file, made.components[component as usize].target);
            let nodes: BTreeSet<u64> = made.components.iter().map(|it| node_of(it.target)).collect();
            assert_eq!(nodes.len() as u64, NODES, "one on each");
            set(&mut stage, from, state);
            let to = match state {
                TargetState::Draining => {
                    let placed = granted(stage.root(on_all(leaving(file, component, &[]))));
                    moving(&placed)[0].1.expect("there is a place")
                }
                _ => {
                    let placed = granted(stage.root(on_all(create(Place::of(file), true, true, &[]))));
                    placed.components[component as usize].target
                }
            };
            assert!(
                to != from && node_of(to) == node_of(from),
                "{component}: from {from} to {to}, and all others have one"
            );
        }
    }
}

#[test]
fn what_a_ring_left_on_a_target_that_is_lost_is_made_of_the_others_and_without_parity_it_is_known_to_be_lost() {
    for parity in [true, false] {
        let mut stage = Stage::new();
        let made = granted(stage.root(create(Place::path("/r"), parity, false, &[])));
        let (file, first) = (made.entry.file, made.components[0].target);
        set(&mut stage, first, TargetState::Draining);
        let placed = granted(stage.root(leaving(file, 0, &[])));
        stage.root(left(file, 0, &placed)).unwrap();
        set(&mut stage, first, TargetState::Failed);
        let now = opened(&mut stage, true);
        if parity {
            assert_eq!((now.components[0].state, moving(&now)), (ComponentState::Filling, vec![]));
        } else {
            let [Moving { place: Some(place), moved: true, .. }] = &now.moving[..] else {
                panic!("{:?}", moving(&now))
            };
            assert_eq!((place.state, now.components[0].state), (ComponentState::Missed, ComponentState::Whole));
        }
        let version = now.entry.attributes.version;
        stage.root(Change::Rebuilt(Rebuilt { file, component: 0, version })).unwrap();
        let now = opened(&mut stage, true);
        assert_eq!((now.components[0].state, moving(&now)), (ComponentState::Whole, vec![]));
        assert_eq!(stage.root(Change::Rebuilt(Rebuilt { file, component: 0, version })).unwrap_err().kind, Kind::Stale);
        // Removed, it is so in all places.
        stage.root(Change::RemoveFile(RemoveFile { place: Place::path("/r"), only: Some(file) })).unwrap();
    }
}

/// Another client of root, which copies.
fn mover() -> Principal {
    Principal::root(9)
}

fn copied(stage: &mut Stage, file: FileId, last: bool) -> Result<Relocation> {
    stage.change(&mover(), Change::Relocate(Relocate { file, last }))?;
    match stage.ask(&mover(), &Question::Relocating(Relocating { file }))? {
        Reply::Relocation(relocation) => Ok(relocation),
        other => panic!("{other:?} says not with what it is copied"),
    }
}

fn displaced(stage: &mut Stage) -> Vec<FileId> {
    match stage.ask(&root(), &Question::Displaced(After { file: FileId(0), most: 100 })).unwrap() {
        Reply::Displaced(displaced) => displaced.files,
        other => panic!("{other:?} are no files"),
    }
}

#[test]
fn a_part_that_nobody_records_into_is_copied_and_is_nobody_elses_while_the_last_of_it_is() {
    let mut stage = Stage::new();
    let made = granted(stage.root(create(Place::path("/r"), true, false, &[])));
    let (file, first) = (made.entry.file, made.components[1].target);
    assert_eq!(copied(&mut stage, file, false).unwrap_err().kind, Kind::Stale, "nothing is to lie elsewhere");
    set(&mut stage, first, TargetState::Draining);
    assert_eq!(displaced(&mut stage), [file]);
    // Somebody who recorded had begun to have it leave.
    let placed = granted(stage.root(leaving(file, 1, &[])));
    let [(1, Some(begun), false)] = moving(&placed)[..] else { panic!("{:?}", moving(&placed)) };
    let way = copied(&mut stage, file, false).unwrap();
    assert_eq!((way.component, way.from.target), (1, first));
    assert!(made.components.iter().all(|it| it.target != way.to.target) && way.to.target != begun);
    assert_eq!(moving(&opened(&mut stage, true)), [(1, None, false)], "that is removed");
    // Who records meanwhile has it leave, and it was copied in vain.
    granted(stage.root(leaving(file, 1, &[])));
    let now = opened(&mut stage, true);
    stage.root(left(file, 1, &now)).unwrap();
    assert_eq!(copied(&mut stage, file, true).unwrap_err().kind, Kind::Stale, "it lies elsewhere by now");
    let end =
        |way: &Relocation| Change::Relocated(Relocated { file, component: 1, version: way.version, recorded: false });
    assert_eq!(stage.change(&mover(), end(&way)).unwrap_err().kind, Kind::Stale);
    let now = opened(&mut stage, true);
    stage.root(Change::Rebuilt(Rebuilt { file, component: 1, version: now.entry.attributes.version })).unwrap();
    // And so on from there.
    let second = now.components[1].target;
    set(&mut stage, second, TargetState::Draining);
    let way = copied(&mut stage, file, false).unwrap();
    assert_eq!(way.from.target, second);
    let last = copied(&mut stage, file, true).unwrap();
    assert!(last.version > way.version && last.to.target == way.to.target);
    let open = |write| Question::OpenRing(OpenRing { place: Place::path("/r"), write });
    for write in [true, false] {
        assert_eq!(stage.ask(&root(), &open(write)).unwrap_err().kind, Kind::Busy);
    }
    assert_eq!(stage.change(&mover(), end(&way)).unwrap_err().kind, Kind::Stale, "it has another version");
    stage.change(&mover(), end(&last)).unwrap();
    let now = opened(&mut stage, true);
    assert_eq!((now.components[1].target, moving(&now)), (way.to.target, vec![]));
    assert!(now.entry.attributes.version > last.version, "who knows only where it lay is shut out there");
    assert_eq!((counted(&mut stage, second), displaced(&mut stage)), (Some(0), vec![]));
}

#[test]
fn what_a_part_left_behind_is_copied_too_when_nobody_records_any_more() {
    let mut stage = Stage::new();
    let made = granted(stage.root(create(Place::path("/r"), true, false, &[])));
    let (file, first) = (made.entry.file, made.components[1].target);
    set(&mut stage, first, TargetState::Draining);
    let placed = granted(stage.root(leaving(file, 1, &[])));
    stage.root(left(file, 1, &placed)).unwrap();
    assert_eq!((counted(&mut stage, first), displaced(&mut stage)), (Some(1), vec![file]));
    let now = opened(&mut stage, true);
    let way = copied(&mut stage, file, false).unwrap();
    assert_eq!((way.component, way.from.target), (1, first));
    assert!(now.components.iter().all(|it| it.target != way.to.target), "one part lies on each");
    let last = copied(&mut stage, file, true).unwrap();
    let end = Relocated { file, component: 1, version: last.version, recorded: false };
    stage.change(&mover(), Change::Relocated(end)).unwrap();
    let after = opened(&mut stage, true);
    assert_eq!(after.components[1].target, now.components[1].target);
    assert_eq!(moving(&after), [(1, Some(way.to.target), true)]);
    assert_eq!((counted(&mut stage, first), displaced(&mut stage)), (Some(0), vec![]));
    // It is removed when it was run over, wherever it is.
    let version = after.entry.attributes.version;
    stage.root(Change::Rebuilt(Rebuilt { file, component: 1, version })).unwrap();
    assert_eq!(moving(&opened(&mut stage, true)), []);
    // Who records and is to leave finds a place also where a copy came to nothing.
    let second = after.components[1].target;
    set(&mut stage, second, TargetState::Draining);
    let way = copied(&mut stage, file, false).unwrap();
    granted(stage.root(leaving(file, 1, &[])));
    assert_eq!(copied(&mut stage, file, true).unwrap_err().kind, Kind::Stale);
    let end = Relocated { file, component: 1, version: way.version, recorded: false };
    assert_eq!(stage.change(&mover(), Change::Relocated(end)).unwrap_err().kind, Kind::Stale);
}

/// Whoever may record says which targets refused a part, and may have made it there all the same.
#[test]
fn what_may_have_been_made_on_a_target_that_is_said_to_have_refused_it_is_removed_there() {
    let mut stage = Stage::new();
    let made = granted(stage.root(create(Place::path("/r"), true, false, &[])));
    let (file, old) = (made.entry.file, made.components[1].target);
    let again = granted(stage.root(create(Place::of(file), true, true, &[old])));
    assert_ne!(again.components[1].target, old);
    let left = |stage: &Stage| {
        let view = stage.engine.snapshot().unwrap();
        view.read::<Orders>(&keys::leftovers(file)).unwrap().map(|orders| orders.pending)
    };
    assert_eq!(left(&stage), Some(vec![(1, old)]));
    // The part comes back there no more before that is done.
    let others: Vec<TargetId> = (1..=NODES).flat_map(targets_of).filter(|target| *target != old).collect();
    let refused = [again.components[1].target];
    let elsewhere = granted(stage.root(create(Place::of(file), true, true, &refused)));
    assert!(others.contains(&elsewhere.components[1].target));
    assert_eq!(left(&stage), Some(vec![(1, old), (1, refused[0])]));
    let node = (1..=NODES).find(|node| targets_of(*node).contains(&old)).unwrap();
    let orders = |stage: &mut Stage| -> Vec<Order> {
        let told = stage.report(&report(node)).unwrap();
        told.targets.into_iter().filter(|told| told.target == old).flat_map(|told| told.orders).collect()
    };
    assert_eq!(orders(&mut stage), [], "what was given out for it still counts");
    stage.pass(LONGEST_LIFE + SKEW);
    let told = orders(&mut stage);
    let part = object(made.entry.attributes.volume, file, 1);
    assert_eq!(told.iter().map(|order| (order.object, order.remove)).collect::<Vec<_>>(), [(part, true)]);
    let mut obeyed = report(node);
    obeyed.targets.iter_mut().filter(|it| it.target == old).for_each(|it| it.carried_out.clone_from(&told));
    stage.report(&obeyed).unwrap();
    assert_eq!(left(&stage), Some(vec![(1, refused[0])]));
}

#[test]
fn what_is_lost_as_another_part_comes_to_stay_is_not_put_back_within_the_same_tick() {
    let mut stage = Stage::new();
    let made = granted(stage.root(create(Place::path("/r"), true, false, &[])));
    let (file, first, other) = (made.entry.file, made.components[0].target, made.components[1].target);
    set(&mut stage, first, TargetState::Draining);
    let placed = granted(stage.root(leaving(file, 0, &[])));
    stage.root(left(file, 0, &placed)).unwrap();
    set(&mut stage, other, TargetState::Draining);
    let placed = granted(stage.root(leaving(file, 1, &[])));
    assert_eq!(moving(&placed).iter().map(|it| (it.0, it.2)).collect::<Vec<_>>(), [(0, true), (1, false)]);
    stage.root(Change::SetTarget(SetTarget { target: other, state: TargetState::Up })).unwrap();
    set(&mut stage, first, TargetState::Failed);
    let now = opened(&mut stage, true);
    assert_eq!((now.components[0].state, moving(&now)), (ComponentState::Filling, vec![]));
}
