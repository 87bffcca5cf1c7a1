use crate::keys;
use crate::principal::Principal;
use crate::records::{Orders, encode};
use crate::testing::{NODES, Stage, healthy, report, root, targets_of, user};
use forebay_model::layout::Raid;
use forebay_model::{Bytes, Kind, ObjectId, TargetId, Timestamp};
use forebay_wire::control::cluster::{
    AddNode, MOST_ANEW, Map, Order, RemoveNode, Report, Reported, SetTarget, TargetReport, TargetState,
};
use forebay_wire::control::files::{CreateRing, OpenRing, Rebuilt, Relocate, Relocated, Relocating, Revoke};
use forebay_wire::control::names::{CreateFile, FileId, Place, RemoveFile};
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Change, Question, Reply};
use std::collections::BTreeSet;
use std::time::Duration;

fn map(stage: &mut Stage) -> Map {
    match stage.ask(&root(), &Question::Map).unwrap() {
        Reply::Map(map) => map,
        other => panic!("{other:?} is no map"),
    }
}

/// Why a target was refused, if it was.
fn refused(reported: &Reported) -> Vec<Option<Kind>> {
    reported.targets.iter().map(|told| told.refused.as_ref().map(|error| error.kind)).collect()
}

fn of(node: u64, targets: Vec<TargetReport>) -> Report {
    Report { targets, ..report(node) }
}

#[test]
fn what_was_put_on_targets_counts_half_as_much_after_each_report() {
    let mut stage = Stage::new();
    let policy = Some(Policy { raid: Raid::Zero, unit: Bytes::kib(64), targets: 2 });
    for number in 0..40 {
        let place = Place::path(format!("f{number}"));
        let file = CreateFile { place, mode: 0o644, exclusive: true, policy, open: false, alone: false, cached: false };
        stage.root(Change::CreateFile(file)).unwrap();
    }
    let placed = |stage: &Stage, node: u64| targets_of(node).map(|t| stage.manager.cluster.targets[&t].placed.get());
    let before: Vec<u32> = (1..=NODES).flat_map(|node| placed(&stage, node)).collect();
    assert_eq!(before.iter().sum::<u32>(), 80);
    assert!(before.iter().all(|count| (6..=10).contains(count)), "{before:?}");
    stage.report(&report(1)).unwrap();
    assert_eq!(placed(&stage, 1).to_vec(), [before[0] / 2, before[1] / 2]);
    assert_eq!(placed(&stage, 2).to_vec(), before[2..4]);
    stage.report(&report(1)).unwrap();
    assert_eq!(placed(&stage, 1).to_vec(), [before[0] / 4, before[1] / 4]);
}

#[test]
fn a_node_that_was_added_brings_its_targets_and_is_told_their_keys() {
    let mut stage = Stage::new();
    let map = map(&mut stage);
    assert_eq!((map.nodes.len(), map.targets.len()), (5, 10));
    assert!(map.nodes.iter().all(|node| node.up));
    let told = stage.report(&report(1)).unwrap();
    assert_eq!(told.epoch, map.epoch, "nothing new raises no epoch");
    assert!(told.targets.iter().all(|told| told.refused.is_none() && told.keys.len() == 1));
    assert_ne!(told.targets[0].keys, told.targets[1].keys);
    assert_eq!(stage.report(&report(9)).unwrap_err().kind, Kind::Missing);
}

#[test]
fn only_roots_and_the_nodes_own_user_report_and_nonsense_is_refused_as_a_whole() {
    let mut stage = Stage::empty();
    stage
        .root(Change::SetUser(forebay_wire::control::access::User { user: 9, name: "n".into(), groups: vec![9] }))
        .unwrap();
    assert_eq!(stage.root(Change::AddNode(AddNode { node: 1, user: 8 })).unwrap_err().kind, Kind::Missing);
    stage.root(Change::AddNode(AddNode { node: 1, user: 9 })).unwrap();
    let now = stage.now;
    assert_eq!(stage.manager.report(now, &user(5), &report(1)).unwrap_err().kind, Kind::Forbidden);
    assert!(stage.manager.report(now, &user(9), &report(1)).is_ok());
    let bad = [
        Report { address: String::new(), ..report(1) },
        Report { address: "a".repeat(256), ..report(1) },
        of(1, vec![healthy(TargetId(1)), healthy(TargetId(1))]),
        of(1, (0..101).map(|target| healthy(TargetId(target))).collect()),
        of(1, vec![TargetReport { free: Bytes::gib(101), ..healthy(TargetId(1)) }]),
    ];
    for report in bad {
        assert_eq!(stage.report(&report).unwrap_err().kind, Kind::Usage);
    }
    stage.report(&of(1, (1000..1100).map(|target| healthy(TargetId(target))).collect())).unwrap();
}

/// Outcomes 8 and 43: foreign disks, older copies, the same one twice.
#[test]
fn a_target_that_does_not_belong_is_refused_by_itself() {
    let mut stage = Stage::new();
    let [first, second] = targets_of(1);
    let good = of(1, vec![TargetReport { openings: 5, ..healthy(first) }, healthy(second)]);
    stage.report(&good).unwrap();
    let epoch = map(&mut stage).epoch;
    let cases = [
        (1, TargetReport { cluster: 0xbad, ..healthy(first) }, Kind::Usage),
        (1, TargetReport { openings: 4, ..healthy(first) }, Kind::Stale),
        (1, TargetReport { epoch: epoch + 1, ..healthy(first) }, Kind::Damaged),
        (2, TargetReport { openings: 6, ..healthy(first) }, Kind::Exists),
    ];
    for (node, bad, kind) in cases {
        stage.report(&good).unwrap();
        let told = stage.report(&of(node, vec![bad, healthy(targets_of(node)[1])])).unwrap();
        assert_eq!(refused(&told), [Some(kind), None]);
        assert!(told.targets[0].keys.is_empty() && told.targets[0].orders.is_empty());
        assert_eq!(map(&mut stage).targets.iter().find(|target| target.target == first).unwrap().node, 1);
    }
    // What its node does not have any more nobody is sent there for, until it has it again.
    let is_served = |stage: &mut Stage| map(stage).targets.iter().find(|target| target.target == first).unwrap().served;
    assert!(is_served(&mut stage));
    stage.report(&of(1, vec![healthy(second)])).unwrap();
    assert!(!is_served(&mut stage));
    // A target that has heard of an earlier epoch is told of the newest.
    let told = stage.report(&of(1, vec![TargetReport { epoch: 1, openings: 5, ..healthy(first) }])).unwrap();
    assert_eq!((refused(&told), told.epoch), (vec![None], epoch));
    assert!(is_served(&mut stage));
    stage.root(Change::SetTarget(SetTarget { target: second, state: TargetState::Gone })).unwrap();
    assert_eq!(refused(&stage.report(&report(1)).unwrap()), [Some(Kind::Stale), Some(Kind::Refused)]);
    let back = Change::SetTarget(SetTarget { target: second, state: TargetState::Up });
    assert_eq!(stage.root(back).unwrap_err().kind, Kind::Refused);
}

#[test]
fn a_target_goes_to_another_node_when_its_own_is_down_and_does_not_come_back_by_itself() {
    let mut stage = Stage::new();
    let [first, _] = targets_of(1);
    stage.pass(Duration::from_secs(20));
    (2..=NODES).for_each(|node| drop(stage.report(&report(node)).unwrap()));
    stage.pass(Duration::from_secs(11));
    let before = map(&mut stage).epoch;
    assert_eq!(stage.manager.tick(stage.now).unwrap().down, [1]);
    assert_eq!(map(&mut stage).epoch, before + 1);
    assert_eq!(refused(&stage.report(&of(2, vec![healthy(first)])).unwrap()), [None]);
    assert_eq!(map(&mut stage).epoch, before + 2);
    assert_eq!(refused(&stage.report(&report(1)).unwrap()), [Some(Kind::Exists), None]);
    let epochs: Vec<u64> = (0..3).map(|_| map(&mut stage).epoch).collect();
    stage.restart();
    assert_eq!(map(&mut stage).epoch, epochs[0]);
    let remove = |node| Change::RemoveNode(RemoveNode { node });
    assert_eq!(stage.root(remove(1)).unwrap_err().kind, Kind::Refused);
    for target in targets_of(1) {
        stage.root(Change::SetTarget(SetTarget { target, state: TargetState::Gone })).unwrap();
    }
    stage.root(remove(1)).unwrap();
    assert_eq!(stage.root(remove(1)).unwrap_err().kind, Kind::Missing);
}

/// The targets of a new file.
fn used(stage: &mut Stage, name: &str) -> Vec<TargetId> {
    let file = stage.file(&root(), name, 0o644).unwrap();
    let question = forebay_wire::control::files::OpenToRead {
        place: forebay_wire::control::names::Place::of(file),
        cached: false,
    };
    let Reply::Grant(grant) = stage.ask(&root(), &Question::OpenToRead(question)).unwrap() else { panic!("no grant") };
    grant.components.iter().map(|it| it.target).collect()
}

#[test]
fn what_its_node_does_not_serve_any_more_takes_nothing_new_and_may_be_served_by_another() {
    let mut stage = Stage::new();
    let [first, second] = targets_of(1);
    let elsewhere = of(2, [targets_of(2).as_slice(), &[first]].concat().into_iter().map(healthy).collect());
    assert_eq!(refused(&stage.report(&elsewhere).unwrap()), [None, None, Some(Kind::Exists)]);
    assert!(used(&mut stage, "a").contains(&first));
    // An older copy of the first, and then nothing in its place.
    for without in [vec![TargetReport { openings: 0, ..healthy(first) }, healthy(second)], vec![healthy(second)]] {
        stage.report(&report(1)).unwrap();
        stage.report(&of(1, without)).unwrap();
        let name = format!("b{}", stage.sequence);
        let targets = used(&mut stage, &name);
        assert!(targets.len() == 9 && !targets.contains(&first), "{targets:?}");
    }
    assert_eq!(refused(&stage.report(&elsewhere).unwrap()), [None; 3]);
    assert_eq!(map(&mut stage).targets.iter().find(|target| target.target == first).unwrap().node, 2);
    assert!(used(&mut stage, "c").contains(&first));
    assert_eq!(refused(&stage.report(&report(1)).unwrap()), [Some(Kind::Exists), None]);
    assert!(used(&mut stage, "d").contains(&first), "another node's report changes nothing of it");
    // Until nodes have reported again, they have what they had.
    stage.restart();
    assert_eq!(used(&mut stage, "e").len(), 10);
}

/// What cannot be decoded, under a key that a report or a tick reads.
fn damage(stage: &mut Stage, key: Vec<u8>) {
    stage.put_raw([(key, Some(vec![1]))]);
}

/// What a newer release has put there.
fn renew(stage: &mut Stage, key: Vec<u8>) {
    let mut value = encode(&key, &()).unwrap();
    value[0] += 1;
    let crc = forebay_model::block::crc32c_of([key.as_slice(), &value[..1], &value[5..]]);
    value[1..5].copy_from_slice(&crc.to_le_bytes());
    stage.put_raw([(key, Some(value))]);
}

#[test]
fn what_could_not_be_committed_is_not_thought_to_be() {
    let mut stage = Stage::new();
    renew(&mut stage, keys::removals(FileId(7)));
    let before = map(&mut stage);
    let object = crate::records::object(1, FileId(7), 0);
    let carried_out = vec![Order { object, version: 2, remove: true }];
    let target = TargetReport { carried_out, ..healthy(targets_of(1)[0]) };
    let moved = Report { address: "elsewhere:1".into(), ..of(1, vec![target, healthy(targets_of(1)[1])]) };
    assert_eq!(stage.report(&moved).unwrap_err().kind, Kind::Version);
    assert_eq!(map(&mut stage), before);
    let mut stage = Stage::new();
    damage(&mut stage, keys::writers(FileId(7)));
    let before = map(&mut stage);
    stage.manager.tick(stage.now).unwrap_err();
    stage.pass(Duration::from_secs(31));
    assert_eq!(stage.manager.tick(stage.now).unwrap_err().kind, Kind::Damaged);
    assert_eq!(map(&mut stage), before);
}

#[test]
fn a_damaged_list_of_what_has_to_be_done_keeps_no_node_from_the_rest() {
    let mut stage = Stage::new();
    let place = Place::path("x");
    let create =
        CreateFile { place, mode: 0o644, exclusive: true, policy: None, open: true, alone: false, cached: false };
    let Reply::Grant(made) = stage.root(Change::CreateFile(create)).unwrap() else { panic!("no grant") };
    let file = made.entry.file;
    stage.root(Change::Revoke(Revoke { file })).unwrap();
    let [target, other] = targets_of(1);
    let key = keys::fences(FileId(9000));
    let value = encode(&key, &Orders { volume: 1, version: 5, due: stage.now.wall, pending: vec![(0, target)] });
    let rotten = [keys::fences(file), keys::removals(FileId(700)), keys::leftovers(FileId(701))];
    let rotten = rotten.map(|key| (key, Some(vec![1])));
    stage.put_raw(rotten.into_iter().chain([(key, Some(value.unwrap()))]));
    let mut told = |carried_out| {
        let targets = vec![TargetReport { carried_out, ..healthy(target) }, healthy(other)];
        let reported = stage.report(&of(1, targets)).unwrap();
        assert!(reported.targets.iter().all(|told| told.refused.is_none() && told.keys.len() == 1), "{reported:?}");
        reported.targets[0].orders.clone()
    };
    // What was revoked of a file is told all the same, of all that there is of it.
    let lies_there = made.components.iter().find(|component| component.target == target).unwrap();
    let again = Order { object: lies_there.object, version: 2, remove: false };
    let once = Order { object: crate::records::object(1, FileId(9000), 0), version: 5, remove: false };
    let first = told(vec![]);
    assert_eq!(first, [again, once]);
    assert_eq!(told(first), [again], "that it was done cannot be noted");
}

#[test]
fn nothing_new_is_put_on_what_is_down_draining_failed_or_gone() {
    let mut stage = Stage::new();
    assert_eq!(used(&mut stage, "a").len(), 10);
    let states = [TargetState::Draining, TargetState::Failed, TargetState::Gone];
    for (node, state) in (1..).zip(states) {
        stage.root(Change::SetTarget(SetTarget { target: targets_of(node)[0], state })).unwrap();
    }
    stage.pass(Duration::from_secs(31));
    stage.manager.tick(stage.now).unwrap();
    let error = stage.file(&root(), "none", 0o644).unwrap_err();
    assert_eq!(error.kind, Kind::Refused);
    assert!(error.message.contains("0 are up"), "{error}");
    (1..=4).for_each(|node| drop(stage.report(&report(node)).unwrap()));
    let mut targets = used(&mut stage, "b");
    targets.sort();
    assert_eq!(targets, [3, 5, 7, 8, 9].map(TargetId));
}

#[test]
fn what_is_free_is_remembered_about_right_across_a_restart() {
    let mut stage = Stage::new();
    let [first, second] = targets_of(1);
    let free = |target, free| TargetReport { free: Bytes::gib(free), ..healthy(target) };
    let epoch = map(&mut stage).epoch;
    stage.report(&of(1, vec![free(first, 46), free(second, 44)])).unwrap();
    let shown = |stage: &mut Stage| {
        let map = map(stage);
        assert_eq!(map.epoch, epoch, "what is free is no change of the map");
        [map.targets[0].free, map.targets[1].free]
    };
    assert_eq!(shown(&mut stage), [Bytes::gib(46), Bytes::gib(44)]);
    stage.restart();
    assert_eq!(shown(&mut stage), [Bytes::gib(50), Bytes::gib(44)]);
}

#[test]
fn a_target_is_slow_as_long_as_its_node_says_so() {
    let mut stage = Stage::new();
    let [first, second] = targets_of(1);
    let mut known = |slow| {
        stage.report(&of(1, vec![TargetReport { slow, ..healthy(first) }, healthy(second)])).unwrap();
        map(&mut stage).targets.iter().filter(|target| target.slow).map(|target| target.target).collect::<Vec<_>>()
    };
    assert_eq!(known(true), [first]);
    assert_eq!(known(false), []);
}

#[test]
fn a_target_whose_device_failed_counts_as_failed_until_people_return_it_when_it_was_opened_again() {
    let mut stage = Stage::new();
    let [first, second] = targets_of(1);
    let epoch = map(&mut stage).epoch;
    let why = "the target stopped after its device failed".to_string();
    let failed = of(1, vec![TargetReport { failed: Some(why.clone()), ..healthy(first) }, healthy(second)]);
    let told = stage.report(&failed).unwrap();
    assert!(told.epoch > epoch && refused(&told) == [None, None]);
    let known = |stage: &mut Stage| {
        let there = map(stage).targets.into_iter().find(|target| target.target == first).unwrap();
        (there.state, there.failed)
    };
    assert_eq!(known(&mut stage), (TargetState::Failed, Some(why)));
    // Said again it is nothing new.
    assert_eq!(stage.report(&failed).unwrap().epoch, told.epoch);
    for state in [TargetState::Up, TargetState::Draining] {
        let refused = stage.root(Change::SetTarget(SetTarget { target: first, state })).unwrap_err();
        assert!(refused.kind == Kind::Refused && refused.message.contains("device failed"), "{refused}");
    }
    // That it was opened again does not say that it is to be used again.
    stage.report(&of(1, vec![TargetReport { openings: 2, ..healthy(first) }, healthy(second)])).unwrap();
    assert_eq!(known(&mut stage), (TargetState::Failed, None));
    stage.root(Change::SetTarget(SetTarget { target: first, state: TargetState::Up })).unwrap();
    assert_eq!(known(&mut stage), (TargetState::Up, None));
}

#[test]
fn a_node_whose_clock_differs_by_more_than_a_minute_is_told_of_and_what_to_do() {
    let mut stage = Stage::new();
    let wall = stage.now.wall;
    let mut off = |by: fn(Timestamp, Duration) -> Timestamp, seconds| {
        let told = stage.report(&Report { wall: by(wall, Duration::from_secs(seconds)), ..report(2) }).unwrap();
        assert_eq!(told.wall, wall, "it is told the manager's");
        let Reply::Map(map) = stage.ask(&root(), &Question::Map).unwrap() else { panic!("no map") };
        let others: Vec<u64> = map.nodes.iter().filter(|it| it.clock_off().is_some()).map(|it| it.node).collect();
        assert!(others.is_empty() || others == [2], "{others:?}");
        map.nodes[1].clock_off()
    };
    for within in [0, 1, 60] {
        assert_eq!(off(Timestamp::after, within), None);
        assert_eq!(off(Timestamp::before, within), None);
    }
    let ahead = off(Timestamp::after, 61).unwrap();
    assert!(ahead.contains("node 2 is 61 s ahead of the manager's") && ahead.contains("set the clocks"), "{ahead}");
    let behind = off(Timestamp::before, 400).unwrap();
    assert!(behind.contains("node 2 is 400 s behind the manager's"), "{behind}");
    assert_eq!(off(Timestamp::after, 0), None, "it was set");
    // Another manager has not heard of it yet.
    off(Timestamp::after, 400);
    stage.restart();
    let Reply::Map(map) = stage.ask(&root(), &Question::Map).unwrap() else { panic!("no map") };
    assert!(map.nodes.iter().all(|it| it.wall.is_none() && it.clock_off().is_none()));
}

#[test]
fn a_target_that_carries_out_nothing_keeps_no_other_of_its_node_from_what_it_has_to_do() {
    let mut stage = Stage::new();
    let [stuck, well] = targets_of(1);
    let mut pairs = Vec::new();
    let mut order = |key: Vec<u8>, target, version| {
        let orders = Orders { volume: 1, version, due: stage.now.wall, pending: vec![(0, target)] };
        let value = Some(encode(&key, &orders).unwrap());
        pairs.push((key, value));
    };
    (1000..9000).for_each(|file| order(keys::fences(FileId(file)), stuck, 2));
    (9000..10_000).for_each(|file| order(keys::removals(FileId(file)), stuck, 1));
    (10_000..10_100).for_each(|file| order(keys::removals(FileId(file)), well, 1));
    (10_100..10_200).for_each(|file| order(keys::fences(FileId(file)), well, 2));
    stage.put_raw(pairs);
    let mut told: BTreeSet<Order> = BTreeSet::new();
    let mut carried_out = Vec::new();
    for _ in 0..4 {
        let targets =
            vec![healthy(stuck), TargetReport { carried_out: std::mem::take(&mut carried_out), ..healthy(well) }];
        let reported = stage.report(&of(1, targets)).unwrap();
        let of_well = reported.targets.into_iter().find(|told| told.target == well).unwrap().orders;
        told.extend(&of_well);
        carried_out = of_well;
    }
    assert_eq!(told.iter().filter(|order| order.remove).count(), 100);
    assert_eq!(told.iter().filter(|order| !order.remove).count(), 100);
}

#[test]
fn a_target_that_was_started_is_sent_keys_once_it_was_told_all_that_was_revoked_and_others_have_theirs() {
    let mut stage = Stage::new();
    let [target, other] = targets_of(1);
    let fence = |file| {
        let key = keys::fences(FileId(file));
        let orders = Orders { volume: 1, version: 2, due: stage.now.wall, pending: vec![(0, target)] };
        let value = Some(encode(&key, &orders).unwrap());
        (key, value)
    };
    let pairs: Vec<_> = (1000..3000).map(fence).collect();
    stage.put_raw(pairs);
    let mut told = |carried_out: &[Order]| {
        let started = TargetReport { openings: 2, carried_out: carried_out.to_vec(), ..healthy(target) };
        let reported = stage.report(&of(1, vec![started, TargetReport { key: 1, ..healthy(other) }])).unwrap();
        let [told, of_other] = &reported.targets[..] else { panic!("two targets") };
        assert_eq!(of_other.keys.len(), 1, "it serves");
        (told.orders.clone(), told.keys.len())
    };
    let (first, keys) = told(&[]);
    assert_eq!((first.len(), keys), (896, 0));
    let (lost, keys) = told(&first);
    assert_eq!((lost.len(), keys), (896, 0));
    // It has not heard that: it says again what it did before.
    let (again, keys) = told(&first);
    assert_eq!((&again, keys), (&lost, 0));
    let (last, keys) = told(&again);
    assert_eq!((last.len(), keys), (208, 1), "it has heard all, from the first on");
    assert_eq!(told(&last), (vec![], 1));
}

/// Of each of these files a target is to fence a component.
fn fences(stage: &mut Stage, of: &[(std::ops::Range<u64>, TargetId)]) {
    let due = stage.now.wall;
    let fence = |file, target| {
        let key = keys::fences(FileId(file));
        let orders = Orders { volume: 1, version: 2, due, pending: vec![(0, target)] };
        let value = Some(encode(&key, &orders).unwrap());
        (key, value)
    };
    let mut pairs = Vec::new();
    for (files, target) in of {
        pairs.extend(files.clone().map(|file| fence(file, *target)));
    }
    stage.put_raw(pairs);
}

/// What a target that was started and has no keys is told when it did this, and how many keys it is sent; the other one has some.
fn told_at_start(stage: &mut Stage, carried_out: &[Order]) -> (Vec<Order>, usize) {
    let [target, other] = targets_of(1);
    let started = TargetReport { openings: 2, carried_out: carried_out.to_vec(), ..healthy(target) };
    let mut reported = stage.report(&of(1, vec![started, TargetReport { key: 1, ..healthy(other) }])).unwrap();
    let told = reported.targets.remove(0);
    (told.orders, told.keys.len())
}

#[test]
fn what_a_target_without_keys_did_not_do_of_a_part_it_is_told_again_from_the_first_on() {
    let mut stage = Stage::new();
    fences(&mut stage, &[(1000..2500, targets_of(1)[0])]);
    let (first, keys) = told_at_start(&mut stage, &[]);
    assert_eq!((first.len(), keys), (896, 0));
    let (last, keys) = told_at_start(&mut stage, &first[..500]);
    assert_eq!((last.len(), keys), (604, 1), "that is all that there is");
    // Its node did not take the keys.
    assert_eq!(told_at_start(&mut stage, &last), (first[500..].to_vec(), 1));
    assert_eq!(told_at_start(&mut stage, &first[500..]), (vec![], 1));
}

#[test]
fn a_target_that_did_nothing_for_long_and_goes_on_is_told_all_that_was_revoked_before_it_is_sent_keys_again() {
    let mut stage = Stage::new();
    fences(&mut stage, &[(1000..3000, targets_of(1)[0])]);
    let (first, keys) = told_at_start(&mut stage, &[]);
    assert_eq!((first.len(), keys), (896, 0));
    assert_eq!(told_at_start(&mut stage, &[]), (first.clone(), 0), "that may have been lost");
    let (few, keys) = told_at_start(&mut stage, &[]);
    assert_eq!((few.len(), keys), (16, 1), "it serves with what it was told, if its node takes that for done");
    assert_eq!(told_at_start(&mut stage, &[]).1, 1);
    let (again, keys) = told_at_start(&mut stage, &few);
    assert_eq!((&again, keys), (&first, 0), "its node did not");
    let (next, keys) = told_at_start(&mut stage, &again);
    assert_eq!((next.len(), keys), (896, 0));
    let (last, keys) = told_at_start(&mut stage, &next);
    assert_eq!((last.len(), keys), (192, 1));
}

#[test]
fn a_report_that_is_repeated_since_its_answer_was_lost_is_no_sign_that_a_target_carries_out_nothing() {
    let mut stage = Stage::new();
    let [target, other] = targets_of(1);
    fences(&mut stage, &[(1000..3000, target)]);
    let started = TargetReport { openings: 2, ..healthy(target) };
    let targets = vec![started, TargetReport { key: 1, ..healthy(other) }];
    let repeated = Report { wall: stage.now.wall.after(Duration::from_secs(1)), ..of(1, targets) };
    let first = stage.report(&repeated).unwrap().targets.remove(0).orders;
    assert_eq!(first.len(), 896);
    for _ in 0..5 {
        let told = stage.report(&repeated).unwrap().targets.remove(0);
        assert_eq!((told.orders, told.keys.len()), (first.clone(), 0), "more is to be fenced before it serves");
    }
    // What it did of that counts.
    let (next, keys) = told_at_start(&mut stage, &first);
    assert_eq!((next.len(), next == first, keys), (896, false, 0));
}

/// Reports of a target, with its openings and the last change of its objects; why each was refused.
fn recorded(stage: &mut Stage, openings: u64, recorded: Option<u64>) -> Option<Kind> {
    let [first, second] = targets_of(1);
    let first = TargetReport { openings, recorded, ..healthy(first) };
    refused(&stage.report(&of(1, vec![first, healthy(second)])).unwrap())[0]
}

#[test]
fn a_target_that_is_as_it_was_before_its_last_changes_is_refused_however_often_it_is_started() {
    let mut stage = Stage::new();
    let minute = Duration::from_secs(60);
    for number in [100, 200, 300, 400] {
        assert_eq!(recorded(&mut stage, 5, Some(number)), None);
        stage.pass(minute);
    }
    // Put back as it was in the same opening, it is opened once more.
    for openings in 6..12 {
        assert_eq!(recorded(&mut stage, openings, Some(150)), Some(Kind::Stale));
    }
    stage.restart();
    assert_eq!(recorded(&mut stage, 12, Some(199)), Some(Kind::Stale));
    // The newest one is not.
    assert_eq!(recorded(&mut stage, 6, Some(400)), None);
    stage.pass(minute);
    assert_eq!(recorded(&mut stage, 6, Some(401)), None);
}

#[test]
fn what_was_durable_for_less_than_a_minute_and_what_is_not_said_refuses_no_target() {
    let mut stage = Stage::new();
    assert_eq!(recorded(&mut stage, 5, Some(100)), None);
    stage.pass(Duration::from_secs(60));
    assert_eq!(recorded(&mut stage, 5, Some(200)), None);
    stage.pass(Duration::from_secs(59));
    assert_eq!(recorded(&mut stage, 5, Some(300)), None);
    // Its device lost what it took in last.
    assert_eq!(recorded(&mut stage, 6, Some(150)), None);
    assert_eq!(recorded(&mut stage, 6, Some(99)), Some(Kind::Stale));
    // Its logs are not read yet.
    assert_eq!(recorded(&mut stage, 7, None), None);
    assert_eq!(recorded(&mut stage, 7, Some(160)), None);
    stage.pass(Duration::from_secs(60));
    // What it lost counts no more, however long it is away.
    assert_eq!(recorded(&mut stage, 7, Some(161)), None);
    stage.pass(Duration::from_secs(59));
    assert_eq!(recorded(&mut stage, 7, Some(200)), None);
    stage.pass(Duration::from_secs(120));
    assert_eq!(recorded(&mut stage, 8, Some(170)), None);
    assert_eq!(recorded(&mut stage, 8, Some(171)), None);
    // Root says that there is nothing newer.
    assert_eq!(recorded(&mut stage, 8, Some(150)), Some(Kind::Stale));
    let up = SetTarget { target: targets_of(1)[0], state: TargetState::Up };
    stage.change(&root(), Change::SetTarget(up)).unwrap();
    assert_eq!(recorded(&mut stage, 8, Some(150)), None);
    assert_eq!(recorded(&mut stage, 8, Some(151)), None);
    // What tells of its objects is damaged: that is for others to make anew.
    let [first, second] = targets_of(1);
    let failed = Some("its logs are damaged".to_string());
    let first_failed = TargetReport { openings: 9, recorded: Some(1), failed, ..healthy(first) };
    assert_eq!(refused(&stage.report(&of(1, vec![first_failed, healthy(second)])).unwrap()), [None, None]);
}

#[test]
fn a_target_that_was_made_anew_of_its_segments_begins_anew() {
    let mut stage = Stage::new();
    for _ in 0..3 {
        assert_eq!(recorded(&mut stage, 5, Some(1000)), None);
        stage.pass(Duration::from_secs(60));
    }
    let [first, second] = targets_of(1);
    let anew = vec![ObjectId { volume: 1, object: 5 << 12 }];
    let rebuilt = TargetReport { openings: 6, recorded: Some(2), anew, ..healthy(first) };
    assert_eq!(refused(&stage.report(&of(1, vec![rebuilt, healthy(second)])).unwrap()), [None, None]);
    assert_eq!(recorded(&mut stage, 6, Some(3)), None, "its rings are known");
}

#[test]
fn nobody_shuts_a_target_out_for_ever_by_saying_how_often_it_was_opened() {
    let mut stage = Stage::new();
    let [first, second] = targets_of(1);
    let opened = |openings| of(1, vec![TargetReport { openings, ..healthy(first) }, healthy(second)]);
    for openings in [u64::MAX, 2 + (1 << 20)] {
        assert_eq!(refused(&stage.report(&opened(openings)).unwrap()), [Some(Kind::Usage), None]);
    }
    assert_eq!(refused(&stage.report(&opened(2)).unwrap()), [None, None]);
    assert_eq!(refused(&stage.report(&opened(2 + (1 << 20))).unwrap()), [None, None]);
}

#[test]
fn what_targets_have_to_fence_that_are_gone_does_not_keep_one_that_was_started_waiting() {
    let mut stage = Stage::new();
    let [target, _] = targets_of(1);
    // More than are looked at at a time.
    fences(&mut stage, &[(1000..20_000, targets_of(2)[0]), (20_000..20_003, target)]);
    let (told, keys) = told_at_start(&mut stage, &[]);
    assert_eq!((told.len(), keys), (3, 1), "with the first report");
}

/// Which of these places of a component, as its target reports that it made that anew there, are none where it is to be.
fn astray(stage: &mut Stage, object: ObjectId, on: &[TargetId]) -> Vec<TargetId> {
    let anew = |target| TargetReport { anew: vec![object], ..healthy(target) };
    let all = (1..=NODES).flat_map(|node| {
        let reported = stage.report(&of(node, targets_of(node).map(anew).to_vec())).unwrap();
        reported.targets.into_iter().filter(|told| told.astray == [object]).map(|told| told.target)
    });
    let all: BTreeSet<TargetId> = all.collect();
    on.iter().copied().filter(|target| all.contains(target)).collect()
}

#[test]
fn of_rings_that_a_target_made_anew_it_is_told_which_are_not_to_be_there() {
    let mut stage = Stage::new();
    let ring = |leaving| {
        Change::CreateRing(CreateRing {
            place: Place::path("/r"),
            mode: 0o644,
            capacity: Bytes::gib(1),
            refused_by: vec![],
            targets: 2,
            parity: true,
            again: false,
            leaving,
        })
    };
    let grant = |reply| match reply {
        Reply::Grant(grant) => grant,
        other => panic!("{other:?} is no grant"),
    };
    let made = grant(stage.root(ring(None)).unwrap());
    let (file, object, first) = (made.entry.file, made.components[1].object, made.components[1].target);
    let every: Vec<TargetId> = (1..=NODES).flat_map(targets_of).collect();
    let but = |places: &[TargetId]| -> Vec<TargetId> {
        every.iter().copied().filter(|target| !places.contains(target)).collect()
    };
    assert_eq!(astray(&mut stage, object, &every), but(&[first]), "it lies on one");
    // It is to go elsewhere, and has gone.
    let state = TargetState::Draining;
    stage.root(Change::SetTarget(SetTarget { target: first, state })).unwrap();
    let leaving = grant(stage.root(ring(Some(1))).unwrap());
    let next = leaving.moving[0].place.as_ref().expect("another place").target;
    assert_eq!(astray(&mut stage, object, &every), but(&[first, next]));
    let version = leaving.entry.attributes.version;
    stage.root(Change::Relocated(Relocated { file, component: 1, version, recorded: true })).unwrap();
    assert_eq!(astray(&mut stage, object, &every), but(&[first, next]), "what it left behind is read");
    let now = match stage.ask(&root(), &Question::OpenRing(OpenRing { place: Place::path("/r"), write: true })) {
        Ok(reply) => grant(reply),
        Err(error) => panic!("{error}"),
    };
    let version = now.entry.attributes.version;
    stage.root(Change::Rebuilt(Rebuilt { file, component: 1, version })).unwrap();
    assert_eq!(astray(&mut stage, object, &every), but(&[first, next]), "it is removed there by another order");
    // Removed there, and everywhere.
    let obey = |stage: &mut Stage| {
        stage.pass(Duration::from_secs(3600));
        for node in 1..=NODES {
            let told = stage.report(&report(node)).unwrap().targets;
            let done = told.into_iter().map(|told| TargetReport { carried_out: told.orders, ..healthy(told.target) });
            stage.report(&of(node, done.collect())).unwrap();
        }
    };
    obey(&mut stage);
    assert_eq!(astray(&mut stage, object, &every), but(&[next]));
    // It is copied, and comes somewhere by that.
    stage.root(Change::SetTarget(SetTarget { target: next, state })).unwrap();
    let mover = Principal::root(9);
    stage.change(&mover, Change::Relocate(Relocate { file, last: false })).unwrap();
    let to = match stage.ask(&mover, &Question::Relocating(Relocating { file })).unwrap() {
        Reply::Relocation(relocation) => relocation.to.target,
        other => panic!("{other:?} says not with what it is copied"),
    };
    assert_eq!(astray(&mut stage, object, &every), but(&[next, to]));
    stage.root(Change::RemoveFile(RemoveFile::at(Place::path("/r")))).unwrap();
    let places: Vec<TargetId> = now.components.iter().map(|component| component.target).collect();
    assert_eq!(places[1], next);
    assert_eq!(astray(&mut stage, object, &every), but(&[next, to]), "it is removed by another order");
    obey(&mut stage);
    assert_eq!(astray(&mut stage, object, &every), every, "it was removed");
    damage(&mut stage, keys::ring_moves(file));
    assert_eq!(astray(&mut stage, object, &every), [], "nobody knows");
    let many = TargetReport { anew: vec![object; MOST_ANEW + 1], ..healthy(targets_of(1)[0]) };
    assert_eq!(stage.report(&of(1, vec![many])).unwrap_err().kind, Kind::Usage);
}
