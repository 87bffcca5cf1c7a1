//! Rings with parity of which a target is lost for good: its part gets another one while recording.

use super::spread::{Tally, WITH_PARITY, missing, steps, with_ring};
use super::*;
use std::collections::BTreeSet;

/// A node is gone, and its target is said to have failed.
pub(super) fn lose(cluster: &Cluster, looker: &ClientMachine, node: usize) {
    cluster.crash_node(node);
    say(cluster, looker, node, TargetState::Failed);
}

fn look(cluster: &Cluster, looker: &ClientMachine) -> Ring {
    let rings = looker.files.rings();
    cluster.world().run(async move { rings.open("/ring", false).await.expect("it is there") })
}

/// Where the ring lies now.
pub(super) fn nodes_of(cluster: &Cluster, looker: &ClientMachine) -> Vec<usize> {
    let targets = look(cluster, looker).targets();
    let node_of =
        |target: &TargetId| cluster.places().find(|place| cluster.target(*place) == *target).expect("it is somewhere");
    targets.iter().map(node_of).collect()
}

/// Records until the part lies elsewhere and takes blocks.
pub(super) fn until_replaced(
    recording: &mut Recording,
    cluster: &Cluster,
    looker: &ClientMachine,
    chance: &dyn Random,
    lost: usize,
) {
    for _ in 0..60 {
        steps(recording, cluster.world(), chance, 200);
        if !nodes_of(cluster, looker).contains(&lost) {
            steps(recording, cluster.world(), chance, 200);
            recording.settle(cluster.world());
            return;
        }
    }
    panic!("no other target takes the part");
}

fn life(seed: u64, at: usize) -> u64 {
    let (world, cluster, nodes) = with_ring(seed, WITH_PARITY);
    let chance = world.random();
    let looker = cluster.client_machine("looker");
    let mut past = Vec::new();
    let mut recording = Recording::begin(&cluster, 1);
    (0..20).for_each(|_| recording.step(&world, &*chance));
    steps(&mut recording, &world, &*chance, 400);
    // Now and then nobody records while it is lost.
    if chance.below(3) == 0 {
        recording.settle(&world);
        past.push(recording.past(true));
        lose(&cluster, &looker, nodes[at]);
        world.run_for(Duration::from_secs(chance.below(10)));
        recording = Recording::begin(&cluster, 2);
    } else {
        lose(&cluster, &looker, nodes[at]);
    }
    until_replaced(&mut recording, &cluster, &looker, &*chance, nodes[at]);
    let after = recording.accepted.len();
    let now = nodes_of(&cluster, &looker);
    assert!(!look(&cluster, &looker).is_whole(), "it lacks what was there before");
    steps(&mut recording, &world, &*chance, 400);
    recording.settle(&world);
    past.push(recording.past(true));
    let found = read(&cluster, &open(&cluster, "reader", false));
    assert_eq!(missing(&found, &past), 0, "{nodes:?} without {at}, now {now:?}");
    let (counted, uncounted) = Tally::of(&found).away();
    // What only the parity knew that is lost, nobody knows.
    assert_eq!((counted, uncounted), (0, u64::from(at == 3)), "{nodes:?} without {at}, now {now:?}");
    // What was recorded since bears another loss.
    let second = chance.below(4) as usize;
    cluster.crash_node(now[second]);
    let found = read(&cluster, &open(&cluster, "other", false));
    let there: BTreeSet<(u64, u64)> = found.iter().filter_map(Found::element).collect();
    let last = past.last().expect("there is one");
    let since = &last.accepted[after..last.durable as usize];
    let gone = since.iter().filter(|number| !there.contains(&(last.session, **number))).count();
    assert_eq!(gone, 0, "{nodes:?} without {at}, now {now:?} without {second}");
    let lost = missing(&found, &past);
    let (counted, uncounted) = Tally::of(&found).away();
    assert!(counted + uncounted > 0 || lost == 0, "what is missing is said: {lost}");
    world.trace()
}

#[test]
fn a_ring_with_parity_goes_on_elsewhere_when_a_target_is_lost_and_bears_the_next_loss() {
    seeds::each(8, |seed| {
        life(seed, (seed % 4) as usize);
    });
}

#[test]
fn a_part_that_has_come_round_is_whole_and_a_ring_then_bears_another_loss_of_anything() {
    let (world, cluster, nodes) = with_ring(5, WITH_PARITY);
    let (chance, looker) = (world.random(), cluster.client_machine("looker"));
    let mut recording = Recording::begin(&cluster, 1);
    for at in [1, 3, 0] {
        let (since, before) = (world.clock().wall(), recording.accepted.len());
        steps(&mut recording, &world, &*chance, 100);
        let lost = nodes_of(&cluster, &looker)[at];
        lose(&cluster, &looker, lost);
        until_replaced(&mut recording, &cluster, &looker, &*chance, lost);
        assert!(!look(&cluster, &looker).is_whole());
        let found = read_of(&cluster, &look(&cluster, &looker), format!("after {since}"));
        let there: BTreeSet<(u64, u64)> = found.iter().filter_map(Found::element).collect();
        let gone = recording.accepted[before..].iter().filter(|number| !there.contains(&(1, **number))).count();
        assert_eq!(gone, 0, "of {} since before part {at} was lost", recording.accepted.len() - before);
        // It is taken back, empty as soon as nothing counts any more with which its part could be read.
        cluster.restart_node(lost);
        say(&cluster, &looker, lost, TargetState::Up);
        let (soon, end) = (world.now() + Duration::from_secs(400), world.now() + Duration::from_secs(1200));
        while !look(&cluster, &looker).is_whole() || world.now() < soon {
            assert!(world.now() < end, "it comes round");
            recording.step_of(&world, &*chance, 80);
            world.run_for(Duration::from_millis(10));
        }
    }
    assert!(nodes_of(&cluster, &looker) != nodes);
}

#[test]
fn the_same_seed_is_the_same_life_of_a_ring_that_goes_on_elsewhere() {
    assert_eq!(life(3, 1), life(3, 1));
}
