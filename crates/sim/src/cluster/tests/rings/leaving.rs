//! Rings on targets that drain, while they are recorded into, read and followed.

use super::followed::follow;
use super::replaced::{nodes_of, until_replaced};
use super::spread::{STRIPED, Tally, WITH_PARITY, heal, make_ring, missing, steps, strike};
use super::*;
use forebay_client::rings::PartState;
use forebay_model::block::largest_piece;
use forebay_model::ring::Spread;

pub(super) const ALONE: Spread = Spread { targets: 1, parity: false };

pub(super) fn with_ring(seed: u64, spread: Spread) -> (Rc<World>, Cluster, Vec<usize>) {
    with_ring_among((6, 1), seed, spread)
}

/// The same on some of so many nodes, of which each has so many targets.
pub(super) fn with_ring_among(
    (nodes, targets): (u32, u32),
    seed: u64,
    spread: Spread,
) -> (Rc<World>, Cluster, Vec<usize>) {
    let world = Rc::new(World::new(seed));
    let cluster = Cluster::new(world.clone(), ClusterSpec { targets, ..spec(nodes) });
    let nodes = make_ring(&cluster, spread);
    (world, cluster, nodes)
}

/// The ring, by a machine of its own.
pub(super) fn opened(cluster: &Cluster, write: bool) -> Ring {
    open(cluster, &format!("machine at {}", cluster.world().now().0), write)
}

/// What of the ring lies on this target: the numbers of its first element and behind its last.
pub(super) fn on(cluster: &Cluster, place: usize) -> Option<(u64, u64)> {
    let process = cluster.nodes[cluster.node_of(place)].process.borrow();
    let status = process.as_ref().expect("it is up").targets[cluster.nth_of(place)].status();
    let part = status.iter().find(|ring| ring.spec.name.starts_with("/ring/"));
    part.map(|ring| (ring.first_sequence, ring.next_sequence))
}

pub(super) fn states(cluster: &Cluster, looker: &ClientMachine) -> Vec<PartState> {
    let rings = looker.files.rings();
    let ring = cluster.world().run(async move { rings.open("/ring", false).await?.survey().await });
    ring.expect("it is there").parts.iter().map(|part| part.state).collect()
}

/// Records until the part has left a target that drains, and takes blocks elsewhere.
pub(super) fn leave(recording: &mut Recording, cluster: &Cluster, looker: &ClientMachine, node: usize) {
    let (world, end) = (cluster.world(), cluster.world().now() + Duration::from_secs(180));
    let chance = world.random();
    say(cluster, looker, node, TargetState::Draining);
    while nodes_of(cluster, looker).contains(&node) {
        assert!(world.now() < end, "no other target takes the part");
        (0..50).for_each(|_| recording.step(world, &*chance));
    }
    (0..50).for_each(|_| recording.step(world, &*chance));
    recording.settle(world);
}

/// A ring that leaves a target, and all targets it comes to one after the other.
fn story(seed: u64, spread: Spread) -> u64 {
    let (world, cluster, nodes) = with_ring(seed, spread);
    let (chance, looker) = (world.random(), cluster.client_machine("looker"));
    let at = chance.below(u64::from(spread.components())) as usize;
    let mut recording = Recording::begin(&cluster, 1);
    steps(&mut recording, &world, &*chance, 400);
    recording.settle(&world);
    let had = on(&cluster, nodes[at]).expect("it lies there").1;
    let told = (spread.components() == 1).then(|| follow(&world, &cluster));
    leave(&mut recording, &cluster, &looker, nodes[at]);
    let (now, before) = (nodes_of(&cluster, &looker), on(&cluster, nodes[at]).expect("it is not empty"));
    assert!(before.1 >= had && now[at] != nodes[at]);
    let left = states(&cluster, &looker);
    assert_eq!(left.iter().filter(|state| **state == PartState::Left).count(), 1, "{left:?}");
    // Numbers go on.
    assert_eq!(on(&cluster, now[at]).expect("it lies there").0, before.1);
    let everything = |recording: &mut Recording| {
        recording.settle(&world);
        let found = read(&cluster, &opened(&cluster, false));
        assert_eq!(recording.lacking(&found), [], "{nodes:?} and {now:?}");
        assert!(found.iter().all(|found| found.gap().is_none()), "nothing is missing");
        found.len()
    };
    everything(&mut recording);
    (0..4).for_each(|_| steps(&mut recording, &world, &*chance, 100));
    let all = everything(&mut recording);
    assert_eq!(on(&cluster, nodes[at]), Some(before), "nothing is recorded any more where it was");
    if let Some((told, _tail)) = told {
        let told = told.borrow();
        let elements: Vec<(u64, u64)> = told.iter().filter_map(Found::element).collect();
        assert!(
            elements.iter().map(|(_, number)| *number).eq(recording.accepted.iter().copied()),
            "each once, in order"
        );
        assert_eq!(told.len(), all);
    }
    // It is there, too, when everything was started anew, and nothing is recorded there before the next one is opened.
    for node in [nodes[at], now[at]] {
        cluster.crash_node(node);
        cluster.restart_node(node);
    }
    world.run_for(Duration::from_secs(20));
    everything(&mut recording);
    world.trace()
}

#[test]
fn a_ring_on_a_target_that_drains_goes_on_elsewhere_without_a_gap_and_is_read_and_followed_in_both_places() {
    seeds::each(4, |seed| {
        for spread in [ALONE, STRIPED, WITH_PARITY] {
            story(seed, spread);
        }
    });
}

#[test]
fn the_same_seed_is_the_same_story_of_a_ring_that_leaves() {
    assert_eq!(story(2, WITH_PARITY), story(2, WITH_PARITY));
}

#[test]
fn what_a_ring_left_behind_is_removed_when_it_has_run_over_as_much_elsewhere_and_then_the_target_is_empty() {
    for spread in [ALONE, WITH_PARITY] {
        let (world, cluster, nodes) = with_ring(3, spread);
        let (chance, looker) = (world.random(), cluster.client_machine("looker"));
        let mut recording = Recording::begin(&cluster, 1);
        steps(&mut recording, &world, &*chance, 400);
        leave(&mut recording, &cluster, &looker, nodes[0]);
        let second = nodes_of(&cluster, &looker)[0];
        // A part leaves one target after the other.
        say(&cluster, &looker, second, TargetState::Draining);
        let end = world.now() + Duration::from_secs(1200);
        let mut laps = Vec::new();
        while target_of(&cluster, &looker, nodes[0]).left != Some(0) {
            assert!(world.now() < end, "it comes round: {:?}", on(&cluster, second));
            recording.step_of(&world, &*chance, 80);
            laps.push(on(&cluster, second).expect("it lies there").0);
        }
        assert!(laps[0] < *laps.last().expect("there are some"), "it was not removed before it was run over");
        world.run_for(Duration::from_secs(420));
        assert_eq!(on(&cluster, nodes[0]), None, "its space is free again");
        until_replaced(&mut recording, &cluster, &looker, &*chance, second);
        recording.settle(&world);
        let found = read_of(&cluster, &opened(&cluster, false), "after 60 s ago".to_string());
        assert!(found.iter().all(|found| found.gap().is_none()), "nothing is missing");
        let numbers: Vec<u64> = found.iter().filter_map(Found::element).map(|(_, number)| number).collect();
        assert!(recording.accepted.ends_with(&numbers) && !numbers.is_empty(), "in order, up to the last");
    }
}

/// Nodes, connections, the manager and recorders die while a ring leaves one target after the other: how often it did.
fn life(seed: u64, spread: Spread) -> (u32, u64) {
    // In every other one, machines have two targets: who leaves one may go to the other, and both die at once.
    let nodes = if seed.is_multiple_of(2) { (6, 1) } else { (4, 2) };
    let (world, cluster, _) = with_ring_among(nodes, seed, spread);
    let (chance, looker) = (world.random(), cluster.client_machine("looker"));
    let (mut past, mut moves) = (Vec::new(), 0);
    let followed = (spread.components() == 1).then(|| follow(&world, &cluster));
    for session in 1..=3 {
        let mut recording = Recording::begin(&cluster, session);
        let began = world.now();
        (0..100).for_each(|_| recording.step(&world, &*chance));
        let before = nodes_of(&cluster, &looker);
        let drained = before[chance.below(before.len() as u64) as usize];
        say(&cluster, &looker, drained, TargetState::Draining);
        // The place is looked for twenty seconds after the session began: most dies about then.
        let struck = began + Duration::from_secs(20) + Duration::from_micros(chance.below(400_000));
        while world.now() + Duration::from_millis(120) < struck {
            recording.step(&world, &*chance);
            world.run_for(Duration::from_millis(chance.below(100)));
        }
        world.run_for(struck.since(world.now()));
        let now = nodes_of(&cluster, &looker);
        let victim = match chance.below(3) {
            0 => drained,
            _ => now[chance.below(now.len() as u64) as usize],
        };
        let fault = chance.below(6);
        match fault {
            0 => cluster.crash_manager(),
            1 => cluster.kill_manager(),
            how => strike(&cluster, &recording.machine, victim, how - 2),
        }
        (0..chance.below(600)).for_each(|_| recording.step(&world, &*chance));
        heal(&cluster, victim);
        if fault < 2 {
            cluster.restart_manager();
        }
        (0..chance.below(600)).for_each(|_| recording.step(&world, &*chance));
        let in_order = session == 3 || chance.below(2) == 0;
        if in_order {
            recording.settle(&world);
        } else {
            recording.machine.host.crash();
        }
        past.push(recording.past(in_order));
        moves += u32::from(nodes_of(&cluster, &looker) != before);
        for node in cluster.places() {
            say(&cluster, &looker, node, TargetState::Up);
        }
        world.run_for(Duration::from_secs(chance.below(20)));
    }
    let found = read(&cluster, &opened(&cluster, false));
    let lost = missing(&found, &past);
    if let Some((told, _tail)) = followed {
        world.run_for(Duration::from_secs(30));
        let told: Vec<(u64, u64)> = told.borrow().iter().filter_map(Found::element).collect();
        let unique: BTreeSet<(u64, u64)> = told.iter().copied().collect();
        assert_eq!(unique.len(), told.len(), "nothing is told twice");
        let untold = found.iter().filter_map(Found::element).filter(|element| !unique.contains(element)).count();
        assert_eq!(untold, 0, "who follows is told everything");
    }
    let (counted, uncounted) = Tally::of(&found).away();
    match spread.parity || spread.targets == 1 {
        true => assert_eq!(lost, 0, "what was acknowledged is there"),
        // What a target of several does not take for long is given up, and told.
        false => assert!(lost == 0 || counted + uncounted > 0, "what is missing is told"),
    }
    (moves, world.trace())
}

#[test]
fn what_was_acknowledged_is_there_while_a_ring_leaves_targets_whoever_is_cut_off_or_dies() {
    let moves = Cell::new(0);
    seeds::each(8, |seed| {
        for spread in [ALONE, STRIPED, WITH_PARITY] {
            moves.set(moves.get() + life(seed, spread).0);
        }
    });
    assert!(!seeds::are_the_suites() || moves.get() > 10, "{} parts left", moves.get());
}

#[test]
fn what_a_ring_had_on_a_target_that_is_lost_after_it_left_is_made_of_the_others_or_told_as_missing() {
    for spread in [ALONE, STRIPED, WITH_PARITY] {
        let (world, cluster, nodes) = with_ring(5, spread);
        let (chance, looker) = (world.random(), cluster.client_machine("looker"));
        let mut recording = Recording::begin(&cluster, 1);
        (0..200).for_each(|_| recording.step(&world, &*chance));
        leave(&mut recording, &cluster, &looker, nodes[0]);
        (0..200).for_each(|_| recording.step(&world, &*chance));
        recording.settle(&world);
        let at = on(&cluster, nodes[0]).expect("it was there");
        cluster.crash_node(nodes[0]);
        for is_said in [false, true] {
            if is_said {
                say(&cluster, &looker, nodes[0], TargetState::Failed);
                world.run_for(Duration::from_secs(20));
            }
            let found = read(&cluster, &opened(&cluster, false));
            let lacking = recording.lacking(&found);
            match spread.parity {
                true => assert_eq!((lacking.len(), away(&found).len()), (0, 0), "the others make it"),
                false => {
                    assert_eq!(lacking.len() as u64, at.1, "what was recorded since is there");
                    assert_told(&lacking, &away(&found), "of a ring that left");
                }
            }
        }
        // Who records goes on, also anew.
        steps(&mut recording, &world, &*chance, 100);
        recording.settle(&world);
        let lacking = recording.lacking(&read(&cluster, &opened(&cluster, false))).len() as u64;
        assert_eq!(lacking, if spread.parity { 0 } else { at.1 });
    }
}

#[test]
fn a_ring_that_no_other_target_can_promise_stays_and_one_whose_target_is_used_again_leaves_nothing_elsewhere() {
    let (world, cluster, nodes) = with_ring(6, ALONE);
    let (chance, looker) = (world.random(), cluster.client_machine("looker"));
    let rings = looker.files.rings();
    // All others promise as much as they can.
    world.run(async move {
        for rate in [8, 1] {
            for number in 0.. {
                let spec = RingSpec::new(format!("/{rate}-{number}"), Bytes::mib(32));
                if rings.create(RingSpec { guarantee: Rate::mb(rate), ..spec }, RING_MODE).await.is_err() {
                    break;
                }
            }
        }
    });
    let mut recording = Recording::begin(&cluster, 1);
    say(&cluster, &looker, nodes[0], TargetState::Draining);
    let end = world.now() + Duration::from_secs(200);
    while world.now() < end {
        recording.step_of(&world, &*chance, 4);
    }
    recording.settle(&world);
    assert_eq!(nodes_of(&cluster, &looker), nodes);
    let found = read(&cluster, &opened(&cluster, false));
    assert!(recording.lacking(&found).is_empty() && found.iter().all(|found| found.gap().is_none()));
    assert_eq!(target_of(&cluster, &looker, nodes[0]).left.map(|left| left > 0), Some(true));
}

#[test]
fn what_is_pinned_is_held_where_it_lies_and_lay_and_let_go_of_as_one() {
    for spread in [ALONE, WITH_PARITY] {
        let (world, cluster, nodes) = with_ring(7, spread);
        let (chance, looker) = (world.random(), cluster.client_machine("looker"));
        let mut recording = Recording::begin(&cluster, 1);
        (0..200).for_each(|_| recording.step(&world, &*chance));
        recording.settle(&world);
        let pin = |label: &'static str| {
            let (ring, to) = (opened(&cluster, true), world.clock().wall());
            world.run(async move { ring.pin(label, Timestamp::MIN, to).await.expect("it is held").pin })
        };
        let listed = || {
            let ring = opened(&cluster, true);
            let pins = world.run(async move { ring.pins().await.expect("they are there") });
            pins.into_iter().map(|pin| (pin.id, pin.end_sequence - pin.first_sequence)).collect::<Vec<_>>()
        };
        let unpin = |id: u64| {
            let ring = opened(&cluster, true);
            world.run(async move { ring.unpin(id).await.expect("it is there") });
        };
        let first = pin("before");
        leave(&mut recording, &cluster, &looker, nodes[0]);
        assert_eq!(listed().len(), 1);
        let second = pin("both");
        let all = listed();
        assert_eq!((all.len(), all[1]), (2, (second.id, second.end_sequence - second.first_sequence)));
        assert_eq!(all[1].1, recording.accepted.len() as u64, "in both places");
        unpin(second.id);
        assert_eq!(listed(), all[..1]);
        // What is pinned is not removed, however much comes.
        let end = world.now() + Duration::from_secs(500);
        while world.now() < end {
            recording.step_of(&world, &*chance, 80);
        }
        assert!(on(&cluster, nodes[0]).is_some_and(|there| there.1 > there.0), "it is held where it was");
        unpin(if spread.targets == 1 { first.id } else { all[0].0 });
        assert_eq!(listed(), []);
    }
}

#[test]
fn a_ring_that_is_recorded_as_fast_as_was_promised_leaves_without_dropping_anything() {
    let flash = || (presets::ssd().scaled(400), Bytes::mib(128));
    let turning = || (presets::wd15ears().scaled(100), Bytes::gib(2));
    for (spread, flush, (disk, capacity)) in [
        (ALONE, 200, flash()),
        (ALONE, 2000, flash()),
        (ALONE, 2000, turning()),
        (STRIPED, 2000, flash()),
        (WITH_PARITY, 200, flash()),
        (WITH_PARITY, 2000, turning()),
    ] {
        let world = Rc::new(World::new(8));
        let cluster = Cluster::new(world.clone(), ClusterSpec { disk, ..spec(6) });
        let looker = cluster.client_machine("looker");
        let (rings, flush_interval) = (looker.files.rings(), Duration::from_millis(flush));
        world.run(async move {
            let spec = RingSpec { flush_interval, capacity, ..spec_of_ring() };
            rings.create_spread(spec, RING_MODE, spread).await.expect("there is room");
        });
        let drained = nodes_of(&cluster, &looker)[spread.components() as usize - 1];
        let mut recording = Recording::begin(&cluster, 1);
        say(&cluster, &looker, drained, TargetState::Draining);
        let (mut after, end) = (0, world.now() + Duration::from_secs(120));
        while after < 300 {
            assert!(world.now() < end, "it leaves");
            recording.tell_time(&world);
            // 2 MB/s, with what goes with each element.
            (0..18).for_each(|_| recording.offer(&world, 2000));
            recording.recorder.tick().expect("it goes on");
            world.run_for(Duration::from_millis(20));
            after += u32::from(
                after > 0 || recording.offered.is_multiple_of(900) && !nodes_of(&cluster, &looker).contains(&drained),
            );
        }
        assert_eq!(recording.accepted.len() as u64, recording.offered, "{spread:?} with {flush_interval:?}");
        recording.settle(&world);
        let found = read(&cluster, &opened(&cluster, false));
        assert!(recording.lacking(&found).is_empty() && found.iter().all(|found| found.gap().is_none()));
    }
}

/// A recorder of elements of several blocks is cut off from where its ring lies, so soon after that was made elsewhere: whether something
/// came there when it lay elsewhere already.
fn late(cut: Duration) -> bool {
    let (world, cluster, nodes) = with_ring(9, ALONE);
    let (chance, looker) = (world.random(), cluster.client_machine("looker"));
    let (told, _tail) = follow(&world, &cluster);
    let mut recording = Recording::begin(&cluster, 1);
    let looked = world.now() + Duration::from_secs(20);
    say(&cluster, &looker, nodes[0], TargetState::Draining);
    while world.now() + Duration::from_millis(100) < looked {
        recording.step_of(&world, &*chance, 3);
    }
    // From when its recorder looks whether it is to leave, something is on its way all the time.
    while (0..cluster.nodes.len()).all(|node| node == nodes[0] || on(&cluster, node).is_none()) {
        assert!(world.now() < looked + Duration::from_secs(2), "it is made elsewhere");
        recording.tell_time(&world);
        recording.offer(&world, 100_000);
        recording.recorder.tick().expect("it goes on");
        world.run_for(Duration::from_millis(2));
    }
    world.run_for(cut);
    cluster.network().partition(&[&recording.machine.host], &[cluster.node_host(nodes[0])]);
    (0..100).for_each(|_| recording.step_of(&world, &*chance, 3));
    assert_ne!(nodes_of(&cluster, &looker), nodes, "the manager says that it lies elsewhere");
    // What others show is of the new version: who follows asks again.
    read(&cluster, &opened(&cluster, false));
    world.run_for(Duration::from_secs(5));
    let before = on(&cluster, nodes[0]).expect("it is there").1;
    cluster.network().heal();
    (0..100).for_each(|_| recording.step_of(&world, &*chance, 3));
    recording.settle(&world);
    world.run_for(Duration::from_secs(10));
    let told: Vec<u64> = told.borrow().iter().filter_map(Found::element).map(|(_, number)| number).collect();
    let there: Vec<u64> =
        read(&cluster, &opened(&cluster, false)).iter().filter_map(Found::element).map(|(_, number)| number).collect();
    assert_eq!(there, recording.accepted, "each is there");
    assert_eq!(told, recording.accepted, "each once, in order");
    on(&cluster, nodes[0]).expect("it is there").1 > before
}

#[test]
fn who_follows_a_ring_is_told_what_comes_where_it_lay_until_its_recorder_goes_on_elsewhere() {
    let late = (0..12).filter(|step| late(Duration::from_micros(500 * step))).count();
    assert!(late > 0, "nothing ever came where it lay when it had left");
}

#[test]
fn a_ring_of_which_no_block_begins_with_an_element_leaves_all_the_same() {
    let world = Rc::new(World::new(10));
    let cluster = Cluster::new(world.clone(), spec(6));
    let (looker, block) = (cluster.client_machine("looker"), Bytes::kib(256));
    let rings = looker.files.rings();
    world.run(async move {
        let spec = RingSpec { block, flush_interval: Duration::from_secs(2), ..spec_of_ring() };
        rings.create(spec, RING_MODE).await.expect("there is room");
    });
    let drained = nodes_of(&cluster, &looker)[0];
    let mut recording = Recording::begin(&cluster, 1);
    // From where the first ends, each takes two blocks.
    recording.offer(&world, 100_000);
    say(&cluster, &looker, drained, TargetState::Draining);
    let end = world.now() + Duration::from_secs(60);
    let goes_on = |node: usize| on(&cluster, node).is_some_and(|(first, next)| first < next);
    while (0..cluster.nodes.len()).all(|node| node == drained || !goes_on(node)) {
        assert!(world.now() < end, "it goes on elsewhere");
        recording.tell_time(&world);
        recording.offer(&world, 2 * largest_piece(block.0 as usize, 0) - 16);
        recording.recorder.tick().expect("it goes on");
        world.run_for(Duration::from_millis(300));
    }
    recording.settle(&world);
    let there = read(&cluster, &opened(&cluster, false));
    assert!(there.iter().filter_map(Found::element).map(|(_, number)| number).eq(recording.accepted.iter().copied()));
}
