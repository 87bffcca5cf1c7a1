use crate::testing::{NODES, Stage, healthy, report, root, targets_of, user};
use forebay_model::ring::{RingSpec, Spread};
use forebay_model::{Bytes, Kind, Result, TargetId};
use forebay_wire::control::cluster::Report;
use forebay_wire::control::files::{CreateRing, Grant, OpenRing, OpenToRead, OpenToWrite, Renew, Renewed};
use forebay_wire::control::names::{FileKind, Place, RemoveFile, SetAttributes};
use forebay_wire::control::volumes::{Quota, SetVolume};
use forebay_wire::control::{Change, Question, Reply};
use std::collections::BTreeSet;
use std::time::Duration;

fn ring(path: &str, capacity: Bytes, refused_by: &[TargetId]) -> Change {
    spread(Place::path(path), capacity, refused_by, (1, false, false))
}

fn spread(
    place: Place,
    capacity: Bytes,
    refused_by: &[TargetId],
    (targets, parity, again): (u32, bool, bool),
) -> Change {
    let refused_by = refused_by.to_vec();
    Change::CreateRing(CreateRing { place, mode: 0o644, capacity, refused_by, targets, parity, again, leaving: None })
}

fn targets_in(grant: &Grant) -> Vec<TargetId> {
    grant.components.iter().map(|component| component.target).collect()
}

#[test]
fn a_ring_over_several_targets_has_each_on_another_node_and_a_target_that_refuses_is_replaced_alone() {
    let mut stage = Stage::new();
    let (asked, capacity) = ((2, true, false), Bytes::gib(60));
    let grant = granted(stage.root(spread(Place::path("/r"), capacity, &[], asked)));
    let before = targets_in(&grant);
    assert_eq!(before.len(), 3);
    assert_eq!(
        before.iter().map(|target| target.0 / 2).collect::<BTreeSet<_>>().len(),
        3,
        "each on another node: {before:?}"
    );
    assert_eq!(grant.entry.attributes.size, capacity);
    let again = spread(Place::of(grant.entry.file), capacity, &[before[1]], (2, true, true));
    let after = targets_in(&granted(stage.root(again)));
    assert_eq!((after[0], after[2]), (before[0], before[2]), "what was made stays");
    assert!(!before.contains(&after[1]), "{after:?} instead of {before:?}");
    let all: Vec<TargetId> = (1..=NODES).flat_map(targets_of).collect();
    let none = stage.root(spread(Place::of(grant.entry.file), capacity, &all, (2, true, true))).unwrap_err();
    assert_eq!(none.kind, Kind::Full);
    for (targets, parity) in [(0, false), (1, true), (13, false)] {
        let wrong = stage.root(spread(Place::path("/s"), capacity, &[], (targets, parity, false))).unwrap_err();
        assert_eq!(wrong.kind, Kind::Usage, "{wrong:?}");
    }
}

fn granted(reply: Result<Reply>) -> Grant {
    match reply {
        Ok(Reply::Grant(grant)) => grant,
        other => panic!("{other:?} is no grant"),
    }
}

#[test]
fn a_ring_is_put_on_one_target_after_the_other_until_none_is_left_that_did_not_refuse_it() {
    let mut stage = Stage::new();
    // One is too small for it.
    let small = TargetId(7);
    let targets = targets_of(3).map(|target| {
        let free = if target == small { Bytes::gib(5) } else { Bytes::gib(50) };
        forebay_wire::control::cluster::TargetReport { free, ..healthy(target) }
    });
    stage.report(&Report { targets: targets.to_vec(), ..report(3) }).unwrap();
    let mut refused_by = Vec::new();
    for _ in 0..2 * NODES - 1 {
        let grant = granted(stage.root(ring("/r", Bytes::gib(10), &refused_by)));
        let [component] = &grant.components[..] else { panic!("{grant:?} lies on one target") };
        assert!(grant.write && component.target != small && !refused_by.contains(&component.target));
        refused_by.push(component.target);
        stage.root(Change::RemoveFile(RemoveFile::at(Place::path("/r")))).unwrap();
    }
    assert_eq!(refused_by.iter().collect::<BTreeSet<_>>().len(), refused_by.len());
    let none = stage.root(ring("/r", Bytes::gib(10), &refused_by)).unwrap_err();
    assert!(none.kind == Kind::Full && none.message.contains("50 GiB"), "{none:?}");
    assert_eq!(stage.stat(&root(), Place::path("/r")).unwrap_err().kind, Kind::Missing, "nothing is left behind");
}

#[test]
fn a_ring_is_no_file_and_a_file_is_no_ring() {
    let mut stage = Stage::new();
    let grant = granted(stage.root(ring("/r", Bytes::gib(10), &[])));
    stage.file(&root(), "/f", 0o644).unwrap();
    let entry = stage.stat(&root(), Place::path("/r")).unwrap();
    assert_eq!((entry.attributes.kind, entry.attributes.size), (FileKind::Ring, Bytes::gib(10)));
    let read = |path| Question::OpenToRead(OpenToRead { place: Place::path(path), cached: false });
    let open = |path, write| Question::OpenRing(OpenRing { place: Place::path(path), write });
    assert_eq!(stage.ask(&root(), &read("/r")).unwrap_err().kind, Kind::Usage);
    assert_eq!(stage.ask(&root(), &open("/f", false)).unwrap_err().kind, Kind::Usage);
    let write = Change::OpenToWrite(OpenToWrite {
        place: Place::path("/r"),
        alone: false,
        upkeep: false,
        yields: false,
        cached: false,
    });
    assert_eq!(stage.root(write).unwrap_err().kind, Kind::Usage);
    let size = SetAttributes { size: Some(Bytes::ZERO), ..crate::testing::unchanged(Place::path("/r")) };
    assert_eq!(stage.root(Change::SetAttributes(size)).unwrap_err().kind, Kind::Usage);
    assert_eq!(stage.root(ring("/r", Bytes::gib(1), &[])).unwrap_err().kind, Kind::Exists);
    assert_eq!(stage.root(ring("/none", Bytes::ZERO, &[])).unwrap_err().kind, Kind::Usage);
    // Others read it and do not write it, as its mode says; nobody has to have it open for that.
    let other = user(9);
    assert!(!granted(stage.ask(&other, &open("/r", false))).write);
    assert_eq!(stage.ask(&other, &open("/r", true)).unwrap_err().kind, Kind::Forbidden);
    let files = vec![Renewed { file: grant.entry.file, write: true, version: 1 }];
    let Ok(Reply::Grants(renewed)) = stage.ask(&root(), &Question::Renew(Renew { files: files.clone() })) else {
        panic!("it is renewed")
    };
    assert!(renewed.grants[0].grant.as_ref().is_some_and(|grant| grant.write));
    let Ok(Reply::Grants(renewed)) = stage.ask(&other, &Question::Renew(Renew { files })) else {
        panic!("it is asked")
    };
    assert_eq!(renewed.grants[0].error.as_ref().map(|error| error.kind), Some(Kind::Forbidden));
}

#[test]
fn the_capacity_of_a_ring_counts_in_its_volume_and_its_target_is_told_to_remove_it() {
    let mut stage = Stage::new();
    let quota = Quota { hard_bytes: Some(Bytes::gib(15)), ..Quota::default() };
    stage.root(Change::SetVolume(SetVolume { volume: 1, quota: Some(quota), policy: None })).unwrap();
    let grant = granted(stage.root(ring("/r", Bytes::gib(10), &[])));
    assert_eq!(stage.root(ring("/s", Bytes::gib(10), &[])).unwrap_err().kind, Kind::Full);
    stage.root(Change::RemoveFile(RemoveFile::at(Place::path("/r")))).unwrap();
    granted(stage.root(ring("/s", Bytes::gib(10), &[])));
    stage.pass(Duration::from_secs(600));
    let mut told = Vec::new();
    for node in 1..=NODES {
        for target in stage.report(&report(node)).unwrap().targets {
            told.extend(target.orders.into_iter().map(|order| (target.target, order.object, order.remove)));
        }
    }
    let component = &grant.components[0];
    assert_eq!(told, [(component.target, component.object, true)]);
}

#[test]
fn a_ring_has_no_more_than_its_volume_was_charged_for() {
    let mut stage = Stage::new();
    let quota = Quota { hard_bytes: Some(Bytes::gib(15)), ..Quota::default() };
    stage.root(Change::SetVolume(SetVolume { volume: 1, quota: Some(quota), policy: None })).unwrap();
    let shown = |grant: &Grant| {
        // As docs/protocol/capabilities.md has it.
        let at = |at: usize| grant.components[0].capability[at..at + 8].try_into().map(u64::from_le_bytes).unwrap();
        at(80)..at(88)
    };
    let grant = granted(stage.root(ring("/r", Bytes::gib(10), &[])));
    assert_eq!(shown(&grant), 0..Bytes::gib(10).0);
    let sized = |gib| SetAttributes { size: Some(Bytes::gib(gib)), ..crate::testing::unchanged(Place::path("/r")) };
    assert_eq!(stage.root(Change::SetAttributes(sized(16))).unwrap_err().kind, Kind::Full);
    assert_eq!(stage.change(&user(9), Change::SetAttributes(sized(2))).unwrap_err().kind, Kind::Forbidden);
    stage.root(Change::SetAttributes(sized(15))).unwrap();
    let open = Question::OpenRing(OpenRing { place: Place::path("/r"), write: true });
    assert_eq!(shown(&granted(stage.ask(&root(), &open))), 0..Bytes::gib(15).0);
    assert_eq!(stage.root(ring("/s", Bytes::gib(1), &[])).unwrap_err().kind, Kind::Full);
    stage.root(Change::SetAttributes(sized(14))).unwrap();
    granted(stage.root(ring("/s", Bytes::gib(1), &[])));
}

#[test]
fn a_ring_for_which_no_target_has_the_space_is_refused_with_the_most_that_one_has() {
    let mut stage = Stage::new();
    let none = stage.root(ring("/r", Bytes::gib(60), &[])).unwrap_err();
    assert!(none.kind == Kind::Full && none.message.contains("the most on one is 50 GiB"), "{none:?}");
    assert!(!none.message.contains("refused"), "{none:?}");
}

#[test]
fn each_part_of_a_ring_may_be_as_large_as_it_is_made_whatever_its_blocks() {
    let mut stage = Stage::new();
    let most = |grant: &Grant, component: usize| {
        // As docs/protocol/capabilities.md has it.
        let bytes = grant.components[component].capability[88..96].try_into().map(u64::from_le_bytes);
        Bytes(bytes.unwrap())
    };
    let made_of = |lies: Spread, capacity, block, component| {
        lies.part(&RingSpec { block, ..RingSpec::new("/r", capacity) }, component).capacity
    };
    for (targets, parity) in [(1, false), (2, false), (2, true), (3, true), (4, true)] {
        let (lies, path) = (Spread { targets, parity }, format!("/r{targets}{parity}"));
        let first = Bytes(Bytes::gib(3).0 + 4097);
        let made = granted(stage.root(spread(Place::path(path.clone()), first, &[], (targets, parity, false))));
        let second = Bytes::gib(5);
        let size = SetAttributes { size: Some(second), ..crate::testing::unchanged(Place::path(path.clone())) };
        stage.root(Change::SetAttributes(size)).unwrap();
        let open = Question::OpenRing(OpenRing { place: Place::path(path.clone()), write: true });
        let resized = granted(stage.ask(&root(), &open));
        for (grant, capacity) in [(made, first), (resized, second)] {
            for component in 0..lies.components() {
                let most = most(&grant, component as usize);
                for block in [Bytes::kib(4), Bytes::kib(64), Bytes::mib(1)] {
                    assert!(most >= made_of(lies, capacity, block, component), "{path}: {component} has {most}");
                }
                // Of what is charged, each has its share and no more.
                assert!(component == targets || most == Bytes(capacity.0.div_ceil(u64::from(targets))), "{most}");
            }
        }
    }
}
