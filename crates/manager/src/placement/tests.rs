use super::{Candidate, check, choose};
use crate::seeds::{Chance, each};
use crate::testing::{Stage, report};
use forebay_model::layout::Raid;
use forebay_model::{Bytes, Kind, TargetId};
use forebay_wire::control::cluster::{AddNode, SetTarget, TargetState};
use forebay_wire::control::names::{CreateFile, Place};
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Change, Reply};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

fn candidate(number: u64, node: u64) -> Candidate {
    let (size, free) = (Bytes::gib(100), Bytes::gib(50));
    Candidate { target: TargetId(u128::from(number)), node, size, free, load: 0, slow: false, placed: 0 }
}

fn cluster(nodes: u64, of_each: u64) -> Vec<Candidate> {
    (0..nodes * of_each).map(|number| candidate(number, number % nodes)).collect()
}

fn policy(raid: Raid, targets: u32) -> Policy {
    Policy { raid, unit: Bytes::kib(64), targets }
}

#[test]
fn no_two_components_are_on_one_target_and_nodes_share_columns_and_a_group_as_evenly_as_they_can() {
    each(200, |chance| {
        let (nodes, of_each) = (1 + chance.below(12), 1 + chance.below(5));
        let raid = [Raid::Zero, Raid::One(2), Raid::One(3), Raid::Five][chance.below(4) as usize];
        let candidates = cluster(nodes, of_each);
        let Ok(layout) = choose(&policy(raid, chance.below(20) as u32), candidates.clone(), chance) else { return };
        layout.striping.check().unwrap();
        assert_eq!(layout.targets.len(), layout.striping.components() as usize);
        let different: BTreeSet<_> = layout.targets.iter().collect();
        assert_eq!(different.len(), layout.targets.len());
        // The first group has all of the nodes to choose from.
        let in_group = (layout.striping.width() * raid.copies()) as usize;
        let mut of_nodes: BTreeMap<u64, usize> = BTreeMap::new();
        for target in &layout.targets[..in_group] {
            *of_nodes.entry(target.0 as u64 % nodes).or_default() += 1;
        }
        let most = of_nodes.values().max().unwrap();
        assert_eq!(*most, in_group.div_ceil(nodes as usize), "{of_nodes:?} of {in_group}");
        // In every group, a node has another copy of a column only if all that have something left have as many.
        let mut left: BTreeMap<u64, u64> = (0..nodes).map(|node| (node, of_each)).collect();
        for column in layout.targets.chunks(raid.copies() as usize) {
            let mut has: BTreeMap<u64, u32> = BTreeMap::new();
            for target in column {
                let node = target.0 as u64 % nodes;
                let of = |node: &u64| has.get(node).copied().unwrap_or(0);
                let fewest = left.iter().filter(|(_, left)| **left > 0).map(|(node, _)| of(node)).min();
                assert_eq!(fewest, Some(of(&node)), "{column:?} of {nodes} nodes");
                *has.entry(node).or_default() += 1;
                *left.get_mut(&node).unwrap() -= 1;
            }
        }
    });
}

/// Three nodes: when the first column has taken two of them, the third one has the fewest components of the group, and
/// would be given a first copy of the second column and, as soon as the others caught up, the second one of another.
#[test]
fn a_node_that_dies_takes_no_column_with_all_of_its_copies_along() {
    each(200, |chance| {
        let (nodes, of_each) = (2 + chance.below(5), 2 + chance.below(5));
        let mut candidates = cluster(nodes, of_each);
        candidates.iter_mut().for_each(|candidate| candidate.load = chance.below(100) as u8);
        let layout = choose(&policy(Raid::One(2), 0), candidates, chance).unwrap();
        let in_group = layout.striping.width() as usize * 2;
        for column in layout.targets[..in_group].chunks(2) {
            assert_ne!(column[0].0 as u64 % nodes, column[1].0 as u64 % nodes, "{:?}", layout.targets);
        }
    });
}

/// Targets of nodes that have so many each.
fn unequal(of_each: &[u64]) -> Vec<Candidate> {
    let nodes = (0..).zip(of_each).flat_map(|(node, count)| std::iter::repeat_n(node, *count as usize));
    (0..).zip(nodes).map(|(number, node)| candidate(number, node)).collect()
}

/// How many columns of a layout have two copies on one node.
fn doubled(candidates: &[Candidate], copies: u32, targets: &[TargetId]) -> usize {
    let node = |target: &TargetId| candidates[target.0 as usize].node;
    let is_doubled = |column: &&[TargetId]| column.iter().map(node).collect::<BTreeSet<_>>().len() < column.len();
    targets.chunks(copies as usize).filter(is_doubled).count()
}

#[test]
fn copies_of_a_column_are_on_different_nodes_wherever_nodes_that_have_not_equally_much_allow_it() {
    let over_all = |copies: u32, of_each: &[u64], wanted: u32, chance: &Chance| {
        let mut candidates = unequal(of_each);
        candidates.iter_mut().for_each(|candidate| candidate.load = chance.below(100) as u8);
        let layout = choose(&policy(Raid::One(copies), wanted), candidates.clone(), chance).ok()?;
        let columns = layout.targets.len() as u64 / u64::from(copies);
        // A node has no more than one copy of each.
        let places: u64 = of_each.iter().map(|targets| (*targets).min(columns)).sum();
        let different: BTreeSet<_> = layout.targets.iter().collect();
        assert_eq!(different.len(), layout.targets.len());
        Some((doubled(&candidates, copies, &layout.targets), places >= columns * u64::from(copies)))
    };
    each(200, |chance| {
        for of_each in [&[4, 2, 2][..], &[3, 2, 1], &[2, 1, 1], &[4, 3, 3], &[7, 1, 2, 4], &[9, 8, 1, 1, 1]] {
            assert_eq!(over_all(2, of_each, 0, chance), Some((0, true)), "{of_each:?}");
        }
        assert_eq!(over_all(3, &[5, 4, 3, 2, 1], 0, chance), Some((0, true)));
        // Where not all can be placed so, all are but those that cannot.
        assert_eq!(over_all(2, &[6, 2, 1], 0, chance), Some((1, false)));
        let of_each: Vec<u64> = (0..1 + chance.below(8)).map(|_| 1 + chance.below(8)).collect();
        let (copies, wanted) = (2 + chance.below(3) as u32, chance.below(20) as u32);
        if let Some((doubled, true)) = over_all(copies, &of_each, wanted, chance) {
            assert_eq!(doubled, 0, "{copies} copies on {of_each:?}");
        }
    });
}

#[test]
fn what_the_cluster_cannot_hold_is_refused_with_what_to_do() {
    let chance = Chance::of(1);
    let refused = |raid, targets, candidates, kind, says: &str| {
        let error = choose(&policy(raid, targets), candidates, &chance).unwrap_err();
        assert_eq!(error.kind, kind, "{error}");
        assert!(error.message.contains(says), "{error}");
    };
    refused(
        Raid::Five,
        10,
        cluster(2, 1),
        Kind::Refused,
        "RAID 5 takes 3 targets at least, and 2 are up and used; add targets",
    );
    refused(Raid::One(4), 0, cluster(3, 1), Kind::Refused, "4 copies takes 4 targets at least");
    refused(Raid::Zero, 0, vec![], Kind::Refused, "0 are up");
    refused(Raid::Five, 2, cluster(5, 1), Kind::Usage, "the policy allows 2");
    let mut full = cluster(5, 1);
    full.iter_mut().take(3).for_each(|candidate| candidate.free = Bytes::gib(1));
    refused(Raid::Five, 0, full, Kind::Full, "2 of the 5 that are up have more than a fiftieth free");
    // What is wider than the cluster is as wide as the cluster.
    let layout = choose(&policy(Raid::Five, 10), cluster(4, 1), &chance).unwrap();
    assert_eq!(layout.striping.width(), 4);
}

#[test]
fn targets_are_chosen_by_chance_in_proportion_to_free_space_and_idleness() {
    let chance = Chance::of(5);
    let mut candidates = cluster(4, 1);
    candidates[1].free = Bytes::gib(25);
    candidates[2].load = 100;
    candidates[3].free = Bytes::gib(1);
    let mut chosen = [0u32; 4];
    for _ in 0..10_000 {
        let layout = choose(&policy(Raid::Zero, 1), candidates.clone(), &chance).unwrap();
        chosen[layout.targets[0].0 as usize] += 1;
    }
    // Weights are 50 * 110, 25 * 110 and 50 * 10, of 8750; the last one is too full.
    assert!((6100..6500).contains(&chosen[0]) && (2950..3350).contains(&chosen[1]), "{chosen:?}");
    assert!((450..700).contains(&chosen[2]) && chosen[3] == 0, "{chosen:?}");
    // On one whose device is slow as little as can be.
    candidates[1].slow = true;
    let lies_there = |_| choose(&policy(Raid::Zero, 1), candidates.clone(), &chance).unwrap().targets[0] == TargetId(1);
    assert!((0..1000).filter(|nth| lies_there(*nth)).count() < 10);
}

#[test]
fn of_many_files_that_are_made_between_two_reports_no_target_gets_many_more_than_its_share() {
    each(20, |chance| {
        let mut candidates = cluster(25, 4);
        candidates[0].free = Bytes::gib(25);
        for _ in 0..60 {
            let layout = choose(&policy(Raid::Five, 10), candidates.clone(), chance).unwrap();
            for target in layout.targets {
                candidates[target.0 as usize].placed += 1;
            }
        }
        // Of 600 components, weights of 1 and 99 times 2.
        let (half, others) = candidates.split_first().unwrap();
        assert!((2..=4).contains(&half.placed), "{}", half.placed);
        for other in others {
            assert!((4..=8).contains(&other.placed), "{} of {others:?}", other.placed);
        }
    });
}

#[test]
fn a_policy_that_no_cluster_can_keep_is_refused() {
    let chance = Chance::of(1);
    for raid in [Raid::One(0), Raid::One(1), Raid::One(5), Raid::One(u32::MAX)] {
        assert_eq!(check(&policy(raid, 0)).unwrap_err().kind, Kind::Usage);
        assert_eq!(choose(&policy(raid, 0), cluster(9, 1), &chance).unwrap_err().kind, Kind::Usage);
    }
    for unit in [0, 1, 4095, 4097, u64::MAX] {
        let policy = Policy { unit: Bytes(unit), ..Policy::default() };
        assert_eq!(check(&policy).unwrap_err().kind, Kind::Usage);
        assert_eq!(choose(&policy, cluster(9, 1), &chance).unwrap_err().kind, Kind::Usage);
    }
    assert_eq!(check(&policy(Raid::Five, 2)).unwrap_err().kind, Kind::Usage);
    // Of larger units the parity of a last stripe could not be kept before the file is cut.
    let of_units = |raid, unit| Policy { unit, ..policy(raid, 0) };
    let error = check(&of_units(Raid::Five, Bytes::mib(8))).unwrap_err();
    assert!(error.kind == Kind::Usage && error.message.contains("of that or less"), "{error}");
    assert!(
        check(&of_units(Raid::Five, Bytes::mib(2))).is_ok() && check(&of_units(Raid::One(2), Bytes::mib(8))).is_ok()
    );
    assert!(check(&policy(Raid::Five, u32::MAX)).is_ok() && check(&policy(Raid::Zero, 0)).is_ok());
}

#[test]
fn what_files_over_all_targets_visit_first_is_spread_over_all_of_them() {
    let mut stage = Stage::empty();
    for node in 1..=10 {
        stage.root(Change::AddNode(AddNode { node, user: 0 })).unwrap();
        stage.report(&report(node)).unwrap();
    }
    let mut begun: BTreeMap<TargetId, u32> = BTreeMap::new();
    for file in 0..20 {
        let create = CreateFile {
            place: Place::path(format!("file{file}")),
            mode: 0o644,
            exclusive: true,
            policy: Some(policy(Raid::Five, 0)),
            open: true,
            alone: true,
            cached: false,
        };
        let Ok(Reply::Grant(grant)) = stage.root(Change::CreateFile(create)) else { panic!("no grant") };
        assert_eq!((grant.striping.groups(), grant.striping.width(), grant.components.len()), (2, 10, 20));
        for component in &grant.components[..10] {
            *begun.entry(component.target).or_default() += 1;
        }
        // As many on each, but for one or two.
        let (least, most) = (begun.values().min().unwrap(), begun.values().max().unwrap());
        assert!(file == 0 || begun.len() == 20 && most - least <= 3, "{begun:?} of {file}");
    }
}

#[test]
fn a_width_that_is_asked_for_and_larger_than_the_cluster_is_refused_and_that_of_a_volume_is_the_most() {
    let mut stage = Stage::new();
    let create = |path: &str, policy| {
        let place = Place::path(path);
        let (open, alone) = (true, true);
        Change::CreateFile(CreateFile { place, mode: 0o644, exclusive: true, policy, open, alone, cached: false })
    };
    let wide = |targets| Some(policy(Raid::Zero, targets));
    let width = |reply: Reply| match reply {
        Reply::Grant(grant) => grant.components.len(),
        other => panic!("{other:?} is no grant"),
    };
    for (targets, says) in [(11, "over 11 targets"), (4095, "over 4095 targets")] {
        let error = stage.root(create("wide", wide(targets))).unwrap_err();
        assert_eq!(error.kind, Kind::Refused);
        for says in [says, "has 10;", "ask for 10 at most", "add targets"] {
            assert!(error.message.contains(says), "{error}");
        }
    }
    assert_eq!(width(stage.root(create("all", wide(10))).unwrap()), 10);
    // A node that is away comes back: what is there of its width is taken meanwhile.
    stage.pass(Duration::from_secs(31));
    (1..5).for_each(|node| drop(stage.report(&report(node)).unwrap()));
    assert_eq!(stage.manager.tick(stage.now).unwrap().down, [5]);
    assert_eq!(width(stage.root(create("meanwhile", wide(10))).unwrap()), 8);
    // What is lost does not.
    let [lost, _] = crate::testing::targets_of(5);
    stage.root(Change::SetTarget(SetTarget { target: lost, state: TargetState::Gone })).unwrap();
    assert_eq!(stage.root(create("lost", wide(10))).unwrap_err().kind, Kind::Refused);
    // The policy of the volume is for 10 as well.
    assert_eq!(width(stage.root(create("default", None)).unwrap()), 8);
}
