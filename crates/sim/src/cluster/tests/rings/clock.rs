//! Rings with parity whose recorder's wall clock is set back, and of which a target goes away while they are read.

use super::midway::{reads_without, what_was_missed_is_given_once_or_told};
use super::replaced::{lose, nodes_of, until_replaced};
use super::spread::{WITH_PARITY, heal, steps, strike, with_ring};
use super::tails::Tail;
use super::*;

/// Sets the clock back, mostly by so little that what is recorded then has times that were there before.
fn set_back(recording: &mut Recording, chance: &dyn Random) {
    recording.set_back += Duration::from_millis(1 + chance.below(3000));
}

#[test]
fn with_a_clock_that_was_set_back_a_query_in_whose_middle_a_target_goes_away_gives_all_once() {
    seeds::each(8, |seed| {
        let (world, cluster, nodes) = with_ring(seed, WITH_PARITY);
        let (chance, at) = (world.random(), (seed % 3) as usize);
        let mut recording = Recording::begin(&cluster, 1);
        for _ in 0..5 {
            steps(&mut recording, &world, &*chance, 200);
            set_back(&mut recording, &*chance);
        }
        steps(&mut recording, &world, &*chance, 200);
        recording.settle(&world);
        reads_without(&cluster, nodes[at], &*chance, |found, when| {
            let missing = recording.lacking(found);
            assert_eq!((missing.len(), away(found)), (0, Vec::new()), "{when}");
        });
    });
}

#[test]
fn with_a_clock_that_was_set_back_what_a_target_missed_is_given_once_or_told_when_it_goes_away_while_it_is_read() {
    seeds::each(6, |seed| what_was_missed_is_given_once_or_told(seed, set_back));
}

#[test]
fn what_was_recorded_without_its_parity_is_told_by_the_times_that_it_has_after_a_clock_was_set_back() {
    seeds::each(4, |seed| {
        let (world, cluster, nodes) = with_ring(seed, WITH_PARITY);
        let (chance, at) = (world.random(), (seed % 3) as usize);
        let mut recording = Recording::begin(&cluster, 1);
        (0..500).for_each(|_| recording.step(&world, &*chance));
        recording.settle(&world);
        // All that comes until the parity is back has times that were there before.
        recording.set_back += world.clock().wall().since(recording.times[0]);
        cluster.crash_node(nodes[3]);
        (0..200).for_each(|_| recording.step(&world, &*chance));
        cluster.restart_node(nodes[3]);
        (0..200).for_each(|_| recording.step(&world, &*chance));
        recording.settle(&world);
        cluster.crash_node(nodes[at]);
        let found = read(&cluster, &open(&cluster, "reader", false));
        let missing = recording.lacking(&found);
        assert!(!missing.is_empty(), "nobody else has what part {at} had");
        assert_told(&missing, &away(&found), &format!("without {at}"));
    });
}

/// A life in which targets come and go before a tail, and one is lost now and then, with a clock that is set back again and again.
fn life(seed: u64) -> u64 {
    let (world, cluster, mut nodes) = with_ring(seed, WITH_PARITY);
    let (chance, looker) = (world.random(), cluster.client_machine("looker"));
    let mut recording = Recording::begin(&cluster, 1);
    steps(&mut recording, &world, &*chance, 100);
    let tail = Tail::begin(&cluster, "tail");
    let mut lost = None;
    for _ in 0..4 {
        steps(&mut recording, &world, &*chance, 60);
        set_back(&mut recording, &*chance);
        // That of the parity is not lost: what it alone knew nobody knows, and it is told by times.
        let at = chance.below(nodes.len() as u64) as usize;
        let how = chance.below(if lost.is_none() && at < 3 { 7 } else { 6 });
        match how {
            0..4 => strike(&cluster, &recording.machine, nodes[at], how),
            4 => strike(&cluster, &tail.machine, nodes[at], chance.below(2)),
            5 => {
                strike(&cluster, &tail.machine, nodes[at], 0);
                strike(&cluster, &recording.machine, nodes[at], 0);
            }
            _ => {
                strike(&cluster, &tail.machine, nodes[at], 0);
                steps(&mut recording, &world, &*chance, 60);
                set_back(&mut recording, &*chance);
                lose(&cluster, &looker, nodes[at]);
                until_replaced(&mut recording, &cluster, &looker, &*chance, nodes[at]);
                cluster.network().heal();
                nodes = nodes_of(&cluster, &looker);
                lost = Some(at);
                continue;
            }
        }
        steps(&mut recording, &world, &*chance, 150);
        set_back(&mut recording, &*chance);
        steps(&mut recording, &world, &*chance, 150);
        heal(&cluster, nodes[at]);
        steps(&mut recording, &world, &*chance, 200);
        recording.settle(&world);
    }
    recording.settle(&world);
    world.run_for(Duration::from_secs(90));
    let told = tail.told.borrow();
    assert!(told.error.is_none(), "it goes on: {:?}", told.error);
    assert_eq!(told.twice, 0, "{nodes:?}, lost {lost:?}");
    let missing = tail.missing(&recording);
    assert!(lost.is_some() || missing.is_empty(), "all of {} can be had: {nodes:?}, {:?}", missing.len(), told.gaps);
    assert_told(&missing, &told.gaps, &format!("{nodes:?}, lost {lost:?}"));
    world.trace()
}

#[test]
fn with_a_clock_that_is_set_back_who_follows_a_ring_is_told_everything_once_whichever_target_comes_and_goes() {
    seeds::each(16, |seed| {
        life(seed);
    });
}
