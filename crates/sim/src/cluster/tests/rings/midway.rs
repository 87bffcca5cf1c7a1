//! Queries in whose middle a target goes away.

use super::replaced::{lose, nodes_of, until_replaced};
use super::spread::{WITH_PARITY, steps, with_ring};
use super::*;

/// Reads all of a ring, and has something happen when so much time has passed.
fn read_while(cluster: &Cluster, after: Duration, happens: impl FnOnce()) -> Vec<Found> {
    let world = cluster.world();
    let ring = open(cluster, &format!("reader at {}", world.now().0), false);
    let reading = world.spawner().spawn(answer_of(&ring, asked(world, String::new(), false)));
    world.run_for(after);
    happens();
    world.run(reading)
}

/// Reads all of a ring a dozen times; each time a node goes away on the way, which is back before the next.
pub(super) fn reads_without(cluster: &Cluster, node: usize, chance: &dyn Random, check: impl Fn(&[Found], &str)) {
    for _ in 0..12 {
        let after = Duration::from_micros(chance.below(100_000));
        let found = read_while(cluster, after, || cluster.crash_node(node));
        check(&found, &format!("without node {node} after {after:?}"));
        cluster.restart_node(node);
        cluster.world().run_for(Duration::from_secs(5));
    }
}

/// What is read of a ring of which a target missed something three times; `between` is done before it goes away and before it is
/// back.
pub(super) fn what_was_missed_is_given_once_or_told(seed: u64, between: impl Fn(&mut Recording, &dyn Random)) {
    let (world, cluster, nodes) = with_ring(seed, WITH_PARITY);
    let (chance, at) = (world.random(), (seed % 3) as usize);
    let mut recording = Recording::begin(&cluster, 1);
    for _ in 0..3 {
        steps(&mut recording, &world, &*chance, 200);
        between(&mut recording, &*chance);
        cluster.crash_node(nodes[at]);
        steps(&mut recording, &world, &*chance, 300);
        between(&mut recording, &*chance);
        cluster.restart_node(nodes[at]);
        steps(&mut recording, &world, &*chance, 200);
        recording.settle(&world);
    }
    reads_without(&cluster, nodes[at], &*chance, |found, when| {
        assert_told(&recording.lacking(found), &away(found), when);
    });
}

#[test]
fn what_a_target_missed_is_given_once_or_told_when_it_goes_away_in_the_middle_of_a_query() {
    seeds::each(6, |seed| what_was_missed_is_given_once_or_told(seed, |_, _| ()));
}

#[test]
fn what_a_lost_target_had_is_given_once_or_told_when_that_in_its_place_goes_away_in_the_middle_of_a_query() {
    seeds::each(6, |seed| {
        let (world, cluster, nodes) = with_ring(seed, WITH_PARITY);
        let (chance, at, looker) = (world.random(), (seed % 3) as usize, cluster.client_machine("looker"));
        let mut recording = Recording::begin(&cluster, 1);
        steps(&mut recording, &world, &*chance, 600);
        recording.settle(&world);
        lose(&cluster, &looker, nodes[at]);
        until_replaced(&mut recording, &cluster, &looker, &*chance, nodes[at]);
        steps(&mut recording, &world, &*chance, 600);
        recording.settle(&world);
        let now = nodes_of(&cluster, &looker)[at];
        reads_without(&cluster, now, &*chance, |found, when| {
            assert_told(&recording.lacking(found), &away(found), when);
        });
    });
}
