//! Rings of which a part has left its target, and does not go on yet where it lies since, or has just begun to.

use super::leaving::{ALONE, leave, on, opened, with_ring};
use super::replaced::nodes_of;
use super::spread::{STRIPED, WITH_PARITY, missing};
use super::*;
use forebay_model::ring::Spread;

/// How many pins the part has that lies in this place.
fn pins_on(cluster: &Cluster, place: usize) -> usize {
    let process = cluster.nodes[cluster.node_of(place)].process.borrow();
    let status = process.as_ref().expect("it is up").targets[cluster.nth_of(place)].status();
    status.iter().filter(|ring| ring.spec.name.starts_with("/ring/")).map(|ring| ring.pins.len()).sum()
}

/// A recorder dies as soon as the manager says that a part lies elsewhere. What was recorded, if nothing goes on there by then.
fn dies_in_between(seed: u64, spread: Spread) -> Option<(Rc<World>, Cluster, Past)> {
    let (world, cluster, nodes) = with_ring(seed, spread);
    let (chance, looker) = (world.random(), cluster.client_machine("looker"));
    let mut recording = Recording::begin(&cluster, 1);
    (0..200).for_each(|_| recording.step(&world, &*chance));
    say(&cluster, &looker, nodes[0], TargetState::Draining);
    let end = world.now() + Duration::from_secs(60);
    // Something is on its way all the time, which is to be durable first where the part lay.
    let go_on = |recording: &mut Recording| {
        assert!(world.now() < end, "another target takes the part");
        recording.tell_time(&world);
        recording.offer(&world, 3000);
        recording.recorder.tick().expect("it goes on");
        world.run_for(Duration::from_millis(2));
    };
    while cluster.places().all(|place| nodes.contains(&place) || on(&cluster, place).is_none()) {
        go_on(&mut recording);
    }
    while nodes_of(&cluster, &looker) == nodes {
        go_on(&mut recording);
    }
    recording.machine.host.crash();
    let place = nodes_of(&cluster, &looker)[0];
    let past = recording.past(false);
    (on(&cluster, place) == Some((0, 0)) && past.durable > 0).then_some((world, cluster, past))
}

#[test]
fn what_a_part_has_is_read_also_if_its_recorder_died_before_the_part_went_on_elsewhere() {
    for spread in [STRIPED, WITH_PARITY] {
        let mut died = 0;
        for seed in 50..54 {
            let Some((_world, cluster, past)) = dies_in_between(seed, spread) else { continue };
            died += 1;
            let found = read(&cluster, &opened(&cluster, false));
            assert_eq!(missing(&found, &[past]), 0, "what was acknowledged is there: {spread:?}, seed {seed}");
        }
        assert!(died > 0, "no recorder died in between: {spread:?}");
    }
}

#[test]
fn the_first_session_after_a_ring_left_tells_that_there_was_another_before_it() {
    let between = (50..58).find_map(|seed| dies_in_between(seed, ALONE));
    let (world, cluster, past) = between.expect("a recorder died in between");
    let mut recording = Recording::begin(&cluster, 2);
    (0..20).for_each(|_| recording.offer(&world, 100));
    recording.settle(&world);
    let found = read(&cluster, &opened(&cluster, false));
    let sessions = [past, recording.past(true)];
    assert_eq!(missing(&found, &sessions), 0);
    let restarts = found.iter().filter_map(Found::gap).filter(|gap| gap.cause == Cause::Restart).count();
    assert_eq!(restarts, 1, "what may have been accepted and lost is told");
}

#[test]
fn what_is_pinned_as_it_comes_is_held_where_a_ring_goes_on_and_let_go_of_in_both_places() {
    for spread in [ALONE, WITH_PARITY] {
        let (world, cluster, nodes) = with_ring(60, spread);
        let (chance, looker) = (world.random(), cluster.client_machine("looker"));
        let mut recording = Recording::begin(&cluster, 1);
        (0..200).for_each(|_| recording.step(&world, &*chance));
        recording.settle(&world);
        let (ring, to) = (opened(&cluster, true), world.clock().wall().after(Duration::from_secs(3600)));
        let pin = world.run(async move { ring.pin("comes", Timestamp::MIN, to).await.expect("it is held").pin.id });
        leave(&mut recording, &cluster, &looker, nodes[0]);
        let now = nodes_of(&cluster, &looker)[0];
        assert_eq!((pins_on(&cluster, nodes[0]), pins_on(&cluster, now)), (1, 1), "{spread:?}");
        // Another session does not pin it once more.
        let past = recording.past(true);
        let mut recording = Recording::begin(&cluster, past.session + 1);
        recording.offer(&world, 100);
        recording.settle(&world);
        assert_eq!(pins_on(&cluster, now), 1, "{spread:?}");
        let ring = opened(&cluster, true);
        let listed = world.run(async move {
            // Also by the number that it had before.
            ring.unpin(pin).await.expect("it is there");
            ring.pins().await.expect("they are there")
        });
        assert_eq!(listed, [], "{spread:?}");
        assert_eq!((pins_on(&cluster, nodes[0]), pins_on(&cluster, now)), (0, 0), "{spread:?}");
    }
}
