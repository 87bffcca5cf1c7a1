//! Rings that nobody records into, on targets that drain: they are copied, while they are read and followed.

use super::followed::follow;
use super::leaving::{ALONE, leave, on, opened, states, with_ring, with_ring_among};
use super::replaced::nodes_of;
use super::spread::{STRIPED, WITH_PARITY, heal, missing, steps, strike};
use super::*;
use crate::cluster::tests::keeper::{Keeper, drain, wait_until_empty};
use forebay_client::rings::PartState;
use forebay_model::ring::Spread;

/// Nobody records any more, and all that was accepted is durable.
pub(super) fn over(world: &World, mut recording: Recording) -> Past {
    recording.settle(world);
    recording.machine.host.kill();
    // Who is gone without a word is there for a while.
    world.run_for(Duration::from_secs(70));
    recording.past(true)
}

/// All that the ring has.
pub(super) fn whole_answer_once_it_is_there(cluster: &Cluster) -> Vec<Found> {
    let world = cluster.world();
    loop {
        // Where a part goes elsewhere in the middle of it, it is asked again.
        match world.run(whole_answer_of(&opened(cluster, false), asked(world, String::new(), false))) {
            Err(error) if error.kind == Kind::Disconnected => world.run_for(Duration::from_millis(100)),
            answer => return answer.expect("it is answered"),
        }
    }
}

fn all_of(cluster: &Cluster, past: &[Past]) -> Vec<(u64, u64)> {
    let found = whole_answer_once_it_is_there(cluster);
    assert_eq!(missing(&found, past), 0, "what was acknowledged is there");
    let causes: Vec<Cause> = found.iter().filter_map(Found::gap).map(|gap| gap.cause).collect();
    assert!(causes.iter().all(|cause| matches!(cause, Cause::Restart | Cause::Overflow)), "{causes:?}");
    found.iter().filter_map(Found::element).collect()
}

/// A ring that is copied from target to target, and what it then bears.
fn story(seed: u64, spread: Spread) -> u64 {
    let (world, cluster, mut nodes) = with_ring(seed, spread);
    let (chance, looker) = (world.random(), cluster.client_machine("looker"));
    let keeper = Keeper::new(&cluster, "keeper", &Rc::default());
    let mut past = Vec::new();
    let told = (!spread.parity).then(|| follow(&world, &cluster));
    for session in 1..=3 {
        let mut recording = Recording::begin(&cluster, session);
        (0..20).for_each(|_| recording.step(&world, &*chance));
        steps(&mut recording, &world, &*chance, 400);
        past.push(over(&world, recording));
        let pinned = {
            let (ring, to) = (opened(&cluster, true), world.clock().wall());
            world.run(async move { ring.pin("it", Timestamp::MIN, to).await.expect("it is held").pin })
        };
        let before = all_of(&cluster, &past);
        let at = chance.below(nodes.len() as u64) as usize;
        drain(&cluster, &looker, nodes[at]);
        wait_until_empty(&cluster, &looker, nodes[at]);
        let now = nodes_of(&cluster, &looker);
        assert!(now[at] != nodes[at] && keeper.moved.get() == session as u32, "{nodes:?}, {now:?}");
        assert!(states(&cluster, &looker).iter().all(|state| *state == PartState::Held));
        assert_eq!(all_of(&cluster, &past), before);
        // What was pinned is, and is let go of as before.
        let (ring, id) = (opened(&cluster, true), pinned.id);
        world.run(async move {
            let pins = ring.pins().await.expect("they are there");
            assert_eq!(pins.iter().map(|pin| pin.id).collect::<Vec<_>>(), [id]);
            ring.unpin(id).await.expect("it is there");
        });
        // Where it was it is removed when nothing that was given out for it counts any more.
        world.run_for(Duration::from_secs(420));
        assert_eq!(on(&cluster, nodes[at]), None);
        cluster.crash_node(now[at]);
        cluster.restart_node(now[at]);
        nodes = now;
    }
    let everything = all_of(&cluster, &past);
    if let Some((told, _tail)) = told {
        world.run_for(Duration::from_secs(30));
        let mut told: Vec<(u64, u64)> = told.borrow().iter().filter_map(Found::element).collect();
        // Of several targets one that is copied just then may come later than the others.
        told.sort_by_key(|element| (spread.components() > 1).then_some(*element));
        assert_eq!(told, everything, "who follows is told each once");
    }
    if spread.parity {
        // The others make what one has, also of what was copied. (Without that of the parity nobody knows whether something is missing.)
        cluster.crash_node(nodes[chance.below(3) as usize]);
        assert_eq!(all_of(&cluster, &past), everything);
    }
    world.trace()
}

#[test]
fn a_ring_that_nobody_records_into_is_copied_from_a_target_that_drains_with_all_it_has_and_goes_on_there() {
    seeds::each(3, |seed| {
        for spread in [ALONE, STRIPED, WITH_PARITY] {
            story(seed, spread);
        }
    });
}

#[test]
fn the_same_seed_is_the_same_story_of_a_ring_that_is_copied() {
    assert_eq!(story(1, WITH_PARITY), story(1, WITH_PARITY));
}

/// Nodes, connections, the manager and who copies die meanwhile, and recorders come: how often a part was copied or left.
fn life(seed: u64, spread: Spread) -> (u32, u64) {
    // Each part may have one on another target that it left, and something elsewhere that was copied in vain. In every other life,
    // machines have two targets, and both die at once.
    let nodes = if seed.is_multiple_of(2) { (10, 1) } else { (6, 2) };
    let (world, cluster, _) = with_ring_among(nodes, seed, spread);
    let (chance, looker) = (world.random(), cluster.client_machine("looker"));
    let moved = Rc::default();
    let mut keeper = Keeper::new(&cluster, "keeper", &moved);
    let (mut past, mut session, mut moves) = (Vec::new(), 0, 0);
    let followed = (spread.components() == 1).then(|| follow(&world, &cluster));
    for round in 0..6 {
        session += 1;
        let mut recording = Recording::begin(&cluster, session);
        (0..chance.below(300)).for_each(|_| recording.step(&world, &*chance));
        if chance.below(3) == 0 {
            // It leaves one, and ends soon after that, so that nothing is run over.
            let there = nodes_of(&cluster, &looker);
            drain(&cluster, &looker, there[chance.below(there.len() as u64) as usize]);
            (0..1000 + chance.below(300)).for_each(|_| recording.step_of(&world, &*chance, 3));
        }
        past.push(over(&world, recording));
        let before = nodes_of(&cluster, &looker);
        let drained = before[chance.below(before.len() as u64) as usize];
        drain(&cluster, &looker, drained);
        // Most is struck while it is copied, which takes part of a second; the list is looked at every three.
        world.run_for(Duration::from_millis(chance.below(6000)));
        let now = nodes_of(&cluster, &looker);
        let victim = match chance.below(3) {
            0 => drained,
            1 => chance.below(cluster.places().len() as u64) as usize,
            _ => now[chance.below(now.len() as u64) as usize],
        };
        let fault = chance.below(9);
        match fault {
            0 => cluster.crash_manager(),
            1 => cluster.kill_manager(),
            2 => keeper.machine.host.kill(),
            3 => {
                // Somebody records while it is copied, or just then.
                session += 1;
                let mut recording = Recording::begin(&cluster, session);
                (0..chance.below(100)).for_each(|_| recording.step(&world, &*chance));
                past.push(over(&world, recording));
            }
            4 => {}
            how => strike(&cluster, &keeper.machine, victim, how - 5),
        }
        world.run_for(Duration::from_millis(chance.below(8000)));
        heal(&cluster, victim);
        if fault < 2 {
            cluster.restart_manager();
        }
        if fault == 2 || chance.below(4) == 0 {
            keeper.machine.host.kill();
            keeper = Keeper::new(&cluster, &format!("keeper of {round}"), &moved);
        }
        all_of(&cluster, &past);
        world.run_for(Duration::from_secs(chance.below(60)));
        moves += u32::from(nodes_of(&cluster, &looker) != before);
    }
    keeper.machine.host.kill();
    let _keeper = Keeper::new(&cluster, "the last keeper", &moved);
    let at = nodes_of(&cluster, &looker)[0];
    drain(&cluster, &looker, at);
    wait_until_empty(&cluster, &looker, at);
    let everything = all_of(&cluster, &past);
    if let Some((told, _tail)) = followed {
        world.run_for(Duration::from_secs(60));
        let told: Vec<(u64, u64)> = told.borrow().iter().filter_map(Found::element).collect();
        assert_eq!(told, everything, "who follows is told each once");
    }
    // What came to nothing is removed, wherever it was; what was left and not run over yet is read.
    let left = states(&cluster, &looker).iter().filter(|state| **state == PartState::Left).count();
    let end = world.now() + Duration::from_secs(1800);
    let there = |node: &usize| on(&cluster, *node).is_some();
    while cluster.places().filter(there).count() > spread.components() as usize + left {
        assert!(world.now() < end, "what is left behind is removed some time");
        world.run_for(Duration::from_secs(10));
    }
    assert!(nodes_of(&cluster, &looker).iter().all(there));
    (moves, world.trace())
}

#[test]
fn what_was_acknowledged_is_there_while_a_ring_is_copied_whoever_is_cut_off_dies_or_records() {
    let moves = Cell::new(0);
    seeds::each(6, |seed| {
        for spread in [ALONE, STRIPED, WITH_PARITY] {
            moves.set(moves.get() + life(seed, spread).0);
        }
    });
    println!("{} moves", moves.get());
    assert!(!seeds::are_the_suites() || moves.get() > 40, "{} parts were moved", moves.get());
}

#[test]
fn what_a_ring_left_behind_is_copied_from_a_target_that_drains_when_nobody_records_any_more() {
    for spread in [ALONE, STRIPED, WITH_PARITY] {
        let (world, cluster, nodes) = with_ring(4, spread);
        let (chance, looker) = (world.random(), cluster.client_machine("looker"));
        let told = (spread.components() == 1).then(|| follow(&world, &cluster));
        let mut recording = Recording::begin(&cluster, 1);
        (0..200).for_each(|_| recording.step(&world, &*chance));
        leave(&mut recording, &cluster, &looker, nodes[0]);
        let keeper = Keeper::new(&cluster, "keeper", &Rc::default());
        (0..500).for_each(|_| recording.step_of(&world, &*chance, 3));
        assert_eq!(keeper.moved.get(), 0, "it is about to be run over");
        let there = on(&cluster, nodes[0]);
        let mut past = vec![over(&world, recording)];
        let before = all_of(&cluster, &past);
        wait_until_empty(&cluster, &looker, nodes[0]);
        assert_eq!(keeper.moved.get(), 1);
        assert_eq!(all_of(&cluster, &past), before);
        let lie = nodes_of(&cluster, &looker);
        let left = (0..cluster.nodes.len())
            .find(|node| !lie.contains(node) && *node != nodes[0] && on(&cluster, *node).is_some());
        assert_eq!(on(&cluster, left.expect("it lies elsewhere")), there);
        // It is followed there, too, and recorded on.
        let mut recording = Recording::begin(&cluster, 2);
        (0..200).for_each(|_| recording.step(&world, &*chance));
        past.push(over(&world, recording));
        let everything = all_of(&cluster, &past);
        if let Some((told, _tail)) = told {
            let told: Vec<(u64, u64)> = told.borrow().iter().filter_map(Found::element).collect();
            assert_eq!(told, everything, "who follows is told each once");
        }
    }
}

/// A part that lies elsewhere by now has all that it had, and gives the rest there; with parity the others give it. Nothing is told as
/// away.
#[test]
fn an_answer_in_whose_middle_a_part_is_copied_is_whole() {
    seeds::each(16, |seed| [STRIPED, WITH_PARITY].into_iter().for_each(|spread| answer_while_copied(seed, spread)));
}

fn answer_while_copied(seed: u64, spread: Spread) {
    let (world, cluster, nodes) = with_ring_among((5, 1), seed, spread);
    let (chance, looker) = (world.random(), cluster.client_machine("looker"));
    let keeper = Keeper::new(&cluster, "keeper", &Rc::default());
    let mut recording = Recording::begin(&cluster, 1);
    (0..20 + chance.below(200)).for_each(|_| recording.step(&world, &*chance));
    // Parts are asked how they are, then for what they have; or, at first, only connected to.
    let moment = chance.below(1000);
    let past = [over(&world, recording)];
    let reader = cluster.client_machine("reader");
    let rings = reader.files.rings();
    let ring = world.run(async move { rings.open("/ring", false).await.expect("it is there") });
    drain(&cluster, &looker, nodes[0]);
    let answer = world.spawner().spawn(whole_answer_of(&ring, asked(&world, String::new(), false)));
    world.run_for(Duration::from_micros(moment));
    // It does not hear from that node until the part lies elsewhere.
    cluster.network().partition(&[&reader.host], &[cluster.node_host(nodes[0])]);
    while keeper.moved.get() == 0 {
        world.run_for(Duration::from_millis(50));
    }
    cluster.network().heal();
    let found = world.run(answer).expect("it is answered");
    assert_eq!((missing(&found, &past), away(&found)), (0, Vec::new()), "after {moment} us");
}
