//! Targets that lose both copies of their checkpoint and are made anew of what their segments say: parts of rings are there again, as what
//! they were, and go on.

use super::idle::{over, whole_answer_once_it_is_there};
use super::leaving::{ALONE, leave, on, with_ring, with_ring_among};
use super::replaced::nodes_of;
use super::spread::{STRIPED, WITH_PARITY, missing, steps};
use super::*;
use crate::cluster::tests::keeper::{Keeper, drain, wait_until_empty};
use forebay_model::ring::Spread;
use forebay_target::rebuild;

/// Ends a node, which loses both checkpoints of its target, and starts it on what is made anew. Names of its rings.
fn remake(cluster: &Cluster, node: usize) -> Vec<String> {
    let world = cluster.world();
    match world.random().below(2) {
        0 => cluster.kill_node(node),
        _ => cluster.crash_node(node),
    }
    // What the disk was given before comes to its end.
    world.run_for(Duration::from_secs(1));
    let disk = cluster.nodes[node].disks[0].0.clone();
    let layout = world.run(forebay_target::Target::inspect(world.env(disk.clone()))).expect("it is whole").0.layout;
    [0, 1].into_iter().for_each(|which| disk.poke(layout.area_at(which), &[0xee; 4096]));
    let env = world.env(disk);
    let names = world.run(async move {
        let plan = rebuild::look(env.clone(), None, &mut |_, _| ()).await.expect("its superblock says whose it is");
        assert!(!plan.checkpoint_kept);
        let names = plan.rings.iter().map(|ring| ring.name.clone()).collect();
        plan.write(env).await.expect("the disk is well");
        names
    });
    cluster.restart_node(node);
    names
}

/// How often a target was made anew, and how often a part came back to a target that it had left.
fn life(seed: u64, spread: Spread) -> (u32, u32) {
    let (world, cluster, nodes) = with_ring(seed, spread);
    let (chance, looker) = (world.random(), cluster.client_machine("looker"));
    let _keeper = Keeper::new(&cluster, "keeper", &Rc::default());
    let one_of = |nodes: &[usize]| nodes[chance.below(nodes.len() as u64) as usize];
    let (mut past, mut remade, mut back) = (Vec::new(), 0, 0);
    let mut were_there = BTreeSet::from_iter(nodes);
    for session in 1..=4 {
        let mut recording = Recording::begin(&cluster, session);
        // Each part has sealed something before its target loses what only its checkpoint knows.
        (0..150).for_each(|_| recording.step_of(&world, &*chance, 10));
        steps(&mut recording, &world, &*chance, 100);
        if chance.below(2) == 0 {
            remake(&cluster, one_of(&nodes_of(&cluster, &looker)));
            remade += 1;
            steps(&mut recording, &world, &*chance, 100);
        }
        past.push(over(&world, recording));
        let before = whole_answer_once_it_is_there(&cluster);
        if chance.below(3) > 0 {
            let leaves = one_of(&nodes_of(&cluster, &looker));
            drain(&cluster, &looker, leaves);
            wait_until_empty(&cluster, &looker, leaves);
            // Where it was it is removed when nothing that was given out for it counts any more.
            world.run_for(Duration::from_secs(420));
        }
        let there: Vec<usize> = nodes_of(&cluster, &looker);
        back += there.iter().filter(|node| !were_there.insert(**node)).count() as u32;
        // One that had it may have it again, and nobody asks for that.
        let had: Vec<usize> = were_there.iter().copied().collect();
        for node in [one_of(&there), one_of(&had)] {
            let names = remake(&cluster, node);
            assert!(!there.contains(&node) || names.iter().any(|name| name.starts_with("/ring/")), "{names:?}");
            remade += 1;
        }
        let told = |found: &[Found]| found.iter().filter_map(Found::element).collect::<Vec<(u64, u64)>>();
        let now = whole_answer_once_it_is_there(&cluster);
        assert_eq!(missing(&now, &past), 0, "what was acknowledged is there");
        assert!(told(&now).ends_with(&told(&before)), "what had expired may have come back, and nothing else");
        assert!(there.iter().all(|node| on(&cluster, *node).is_some()));
        // What had left a target and is there by that is nothing that is promised anything, as soon as its node was heard.
        world.run_for(Duration::from_secs(10));
        let elsewhere = were_there.iter().filter(|node| !there.contains(*node));
        elsewhere.for_each(|node| assert_eq!(on(&cluster, *node), None, "node {node} goes on with what had left it"));
    }
    (remade, back)
}

#[test]
fn outcome_29_a_part_of_a_ring_is_what_it_was_and_goes_on_where_its_target_is_made_anew_of_its_segments() {
    let (remade, back) = (Cell::new(0), Cell::new(0));
    seeds::each(3, |seed| {
        for spread in [ALONE, STRIPED, WITH_PARITY] {
            let (times, again) = life(seed, spread);
            remade.set(remade.get() + times);
            back.set(back.get() + again);
        }
    });
    println!("{} made anew, {} came back", remade.get(), back.get());
    assert!(!seeds::are_the_suites() || remade.get() > 70 && back.get() > 30, "{remade:?}, {back:?}");
}

/// It is there again by that, until its node was heard: neither is it in the way of what comes, nor is anything of it taken for that.
#[test]
fn a_part_goes_back_to_the_only_target_there_is_which_was_made_anew_with_what_had_left_it() {
    for recorded in [false, true] {
        let (world, cluster, nodes) = with_ring_among((2, 1), 3, ALONE);
        let (chance, looker) = (world.random(), cluster.client_machine("looker"));
        let mut recording = Recording::begin(&cluster, 1);
        (0..150).for_each(|_| recording.step_of(&world, &*chance, 10));
        let mut past = vec![over(&world, recording)];
        let _keeper = Keeper::new(&cluster, "keeper", &Rc::default());
        let (here, there) = (nodes[0], 1 - nodes[0]);
        drain(&cluster, &looker, here);
        wait_until_empty(&cluster, &looker, here);
        world.run_for(Duration::from_secs(420));
        assert_eq!(on(&cluster, here), None, "it was removed there");
        assert!(remake(&cluster, here)[0].starts_with("/ring/"));
        world.run_for(Duration::from_secs(10));
        assert_eq!(on(&cluster, here), None, "it was set aside");
        let mut recording = Recording::begin(&cluster, 2);
        (0..50).for_each(|_| recording.step_of(&world, &*chance, 10));
        if recorded {
            drain(&cluster, &looker, there);
            leave(&mut recording, &cluster, &looker, there);
        }
        past.push(over(&world, recording));
        drain(&cluster, &looker, there);
        if !recorded {
            wait_until_empty(&cluster, &looker, there);
        }
        assert_eq!(nodes_of(&cluster, &looker), [here]);
        // Of what had left it nothing comes twice.
        let found = whole_answer_once_it_is_there(&cluster);
        let told: Vec<(u64, u64)> = found.iter().filter_map(Found::element).collect();
        assert_eq!(missing(&found, &past), 0);
        assert!(told.is_sorted_by(|one, next| one < next), "recorded meanwhile: {recorded}");
    }
}
