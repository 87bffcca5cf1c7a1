//! Rings on targets that cannot tell of their objects any more.

use super::super::disks::lose_logs;
use super::spread::{STRIPED, missing, steps, with_ring};
use super::*;

/// A node's machine goes, and what its target had in logs with it: somebody has just made a file.
fn lose_objects(cluster: &Cluster, by: &ClientMachine, node: usize) {
    let file = cluster.world().run(made(&by.files, "/x", 1, 1 << 20));
    cluster.crash_node(node);
    lose_logs(cluster, node);
    cluster.restart_node(node);
    cluster.world().run_for(Duration::from_secs(30));
    let objects = cluster.objects(node).expect("it is up");
    assert!(objects.lost().is_some(), "nothing is known of its objects");
    drop(file);
}

#[test]
fn a_ring_is_recorded_into_anew_and_read_over_the_network_where_nothing_is_known_of_objects_any_more() {
    let (world, cluster, nodes) = with_ring(3, STRIPED);
    let (chance, maker) = (world.random(), cluster.client_machine("another"));
    let mut past = Vec::new();
    for session in 1..=3 {
        let mut recording = Recording::begin(&cluster, session);
        (0..3).for_each(|_| steps(&mut recording, &world, &*chance, 100));
        recording.settle(&world);
        past.push(recording.past(true));
        match session {
            1 => {
                revoke(&cluster, &maker);
                lose_objects(&cluster, &maker, nodes[1]);
            }
            // What is taken back then is so, too.
            2 => revoke(&cluster, &maker),
            _ => {}
        }
    }
    let found = read(&cluster, &open(&cluster, "reader", false));
    assert_eq!(missing(&found, &past), 0);
    assert!(away(&found).is_empty(), "all targets are there");
    let removed = maker.files.rings();
    world.run(async move { removed.remove("/ring").await.expect("it is root") });
}

#[test]
fn who_was_shut_out_of_a_ring_stays_out_where_nothing_is_known_of_objects_any_more() {
    let (world, cluster, maker) = with_one(30);
    let (chance, node) = (world.random(), node_of(&cluster));
    let mut recording = Recording::begin(&cluster, 1);
    (0..50).for_each(|_| recording.step(&world, &*chance));
    recording.settle(&world);
    let there = |cluster: &Cluster| {
        let process = cluster.nodes[node].process.borrow();
        process.as_ref().map_or(0, |process| process.target().status().iter().map(|ring| ring.elements).sum::<u64>())
    };
    assert!(there(&cluster) > 0, "it records");
    // It cannot ask the manager for what counts from now on.
    cluster.network().partition(&[&recording.machine.host], &[cluster.manager_host()]);
    revoke(&cluster, &maker);
    world.run_for(Duration::from_secs(5));
    lose_objects(&cluster, &maker, node);
    // Of what came since the target was opened.
    let before = there(&cluster);
    (0..200).for_each(|_| recording.step(&world, &*chance));
    assert_eq!(there(&cluster), before, "what it has was taken back");
    cluster.network().heal();
    recording.settle(&world);
    assert!(there(&cluster) > before, "it has asked");
}
