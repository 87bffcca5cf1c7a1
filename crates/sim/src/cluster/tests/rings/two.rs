//! Rings with parity of which two targets are away at once: more than their parity makes good.

use super::spread::{Tally, WITH_PARITY, missing, with_ring};
use super::tails::Tail;
use super::*;

/// Records while two targets go away: how many elements were lost, and the trace.
fn life(seed: u64) -> (u64, u64) {
    let (world, cluster, nodes) = with_ring(seed, WITH_PARITY);
    let chance = world.random();
    let mut recording = Recording::begin(&cluster, 1);
    let tail = Tail::begin(&cluster, "tail");
    let all_of = |recording: &mut Recording, steps: u64, most: u64| {
        (0..steps).for_each(|_| recording.step_of(&world, &*chance, most));
    };
    all_of(&mut recording, 100, 30);
    let (one, other) = (nodes[(seed % 3) as usize], nodes[((seed + 1 + chance.below(2)) % 3) as usize]);
    cluster.crash_node(one);
    // Now and then the first one counts as away before the second one is.
    all_of(&mut recording, chance.below(3) * 30, 30);
    cluster.crash_node(other);
    // The second one is waited for, and what it was to have for as long.
    all_of(&mut recording, 700, 30);
    let since = recording.accepted.len();
    all_of(&mut recording, 300, 10);
    recording.settle(&world);
    let progress = recording.recorder.progress();
    let (accepted, lost) = (recording.accepted.len() as u64, progress.losses.elements[Cause::TargetAway.index()]);
    assert_eq!(progress.durable_elements, progress.elements, "nobody waits for what is lost");
    [one, other].into_iter().for_each(|node| cluster.restart_node(node));
    world.run_for(Duration::from_secs(20));
    let found = read(&cluster, &open(&cluster, "reader", false));
    let lacking = recording.lacking(&found);
    assert!(lacking.len() as u64 <= lost, "{} are missing of {accepted}, and {lost} are told", lacking.len());
    assert_eq!(Tally::of(&found).away(), (lost, 0), "what is lost is told once");
    assert_told(&lacking, &away(&found), "of two that are away");
    let session = recording.session;
    let later =
        Past { session, accepted: recording.accepted[since..].to_vec(), offered: 0, durable: u64::MAX, in_order: true };
    let found: Vec<Found> =
        found.into_iter().filter(|found| found.element() >= Some((session, later.accepted[0]))).collect();
    assert_eq!(missing(&found, &[later]), 0, "what is recorded while two are away is on those that are there");
    let told = tail.told.borrow();
    assert!(told.error.is_none() && told.twice == 0, "{} twice, {:?}", told.twice, told.error);
    assert_told(&tail.missing(&recording), &told.gaps, "to who follows");
    (lost, world.trace())
}

#[test]
fn with_two_targets_away_a_ring_with_parity_acknowledges_nothing_that_is_nowhere_and_goes_on_with_the_others() {
    let lost = Cell::new(0);
    seeds::each(8, |seed| lost.set(lost.get() + life(seed).0));
    assert!(!seeds::are_the_suites() || lost.get() > 0, "two were never lost at once");
}

/// One of them counts as away soon, and the other one, which cannot be done without, ten seconds later: what that had is told behind
/// all that was recorded meanwhile.
#[test]
fn what_is_told_late_of_two_targets_that_took_nothing_is_given_in_the_order_of_time() {
    seeds::each(8, |seed| {
        let (world, cluster, nodes) = with_ring(seed, WITH_PARITY);
        let chance = world.random();
        let mut recording = Recording::begin(&cluster, 1);
        (0..100).for_each(|_| recording.step(&world, &*chance));
        let gone = [nodes[(seed % 3) as usize], nodes[((seed + 1) % 3) as usize]].map(|node| cluster.node_host(node));
        match chance.below(2) {
            0 => cluster.network().partition(&[&recording.machine.host], &gone),
            _ => gone.iter().for_each(|node| cluster.network().cut(node, &recording.machine.host)),
        }
        let until = world.now() + Duration::from_millis(9_000 + chance.below(5_000));
        while world.now() < until {
            recording.step(&world, &*chance);
        }
        cluster.network().heal();
        (0..100).for_each(|_| recording.step(&world, &*chance));
        recording.settle(&world);
        let found = read(&cluster, &open(&cluster, "reader", false));
        let numbers: Vec<u64> = found.iter().filter_map(Found::element).map(|(_, number)| number).collect();
        assert!(numbers.is_sorted_by(|one, next| one < next), "each once, in order");
        assert_told(&recording.lacking(&found), &away(&found), "of two that took nothing");
    });
}

#[test]
fn the_same_seed_is_the_same_life_without_two_targets() {
    assert_eq!(life(2), life(2));
}
