//! Pins of rings with parity while targets come and go.

use super::spread::{STRIPED, WITH_PARITY, steps, with_ring};
use super::*;
use forebay_model::ring::{Pin, Pinned};

fn pins(cluster: &Cluster, ring: &Ring) -> Vec<Pin> {
    let ring = ring.clone();
    cluster.world().run(async move { ring.pins().await.expect("they are there") })
}

/// How many pins each of these nodes has.
fn pins_on(cluster: &Cluster, nodes: &[usize]) -> Vec<usize> {
    let of = |node: &usize| {
        let process = cluster.nodes[*node].process.borrow();
        let status = process.as_ref().expect("it is up").target().status();
        status.iter().map(|ring| ring.pins.len()).sum()
    };
    nodes.iter().map(of).collect()
}

#[test]
fn what_is_pinned_is_held_by_all_parts_or_refused_and_no_two_pins_are_the_same() {
    for at in [1, 3] {
        let (world, cluster, nodes) = with_ring(30 + at as u64, WITH_PARITY);
        let chance = world.random();
        let mut recording = Recording::begin(&cluster, 1);
        (0..3).for_each(|_| steps(&mut recording, &world, &*chance, 100));
        recording.settle(&world);
        let to = world.clock().wall();
        let ring = open(&cluster, "pins", true);
        let pin = |label: &'static str| -> Result<Pinned> {
            let ring = ring.clone();
            world.run(async move { ring.pin(label, Timestamp::MIN, to).await })
        };
        cluster.crash_node(nodes[at]);
        let refused = pin("mine").expect_err("one would not hold its part");
        assert_eq!(refused.kind, Kind::Busy, "{refused:?}");
        cluster.restart_node(nodes[at]);
        world.run_for(Duration::from_secs(30));
        assert_eq!(pins_on(&cluster, &nodes), [0; 4], "nothing is left of it");
        let first = pin("mine").expect("all are there").pin.id;
        let refused = pin("mine").expect_err("it could not be told from the first");
        assert_eq!(refused.kind, Kind::Exists, "{refused:?}");
        let second = pin("another").expect("it has another label").pin.id;
        assert_eq!(pins_on(&cluster, &nodes), [2; 4]);
        let unpinned = ring.clone();
        world.run(async move { unpinned.unpin(first).await.expect("it is there") });
        let left = pins(&cluster, &ring);
        assert_eq!(left.iter().map(|pin| pin.id).collect::<Vec<_>>(), [second], "the other one is held");
        assert_eq!(pins_on(&cluster, &nodes), [1; 4]);
    }
}

#[test]
fn what_is_to_come_is_held_as_it_comes_also_by_parts_that_have_nothing_of_it_yet() {
    for spread in [STRIPED, WITH_PARITY] {
        let (world, cluster, nodes) = with_ring(40, spread);
        let ring = open(&cluster, "pins", true);
        let pin = |label: &'static str, to: Timestamp| -> Result<Pinned> {
            let ring = ring.clone();
            world.run(async move { ring.pin(label, Timestamp::MIN, to).await })
        };
        let refused = pin("past", world.clock().wall()).expect_err("there is nothing");
        assert_eq!(refused.kind, Kind::Missing, "{refused:?}");
        assert_eq!(pins_on(&cluster, &nodes), vec![0; nodes.len()], "nothing is left of it");
        // One block, which is on one target.
        let mut recording = Recording::begin(&cluster, 1);
        recording.offer(&world, 100);
        recording.settle(&world);
        let to = world.clock().wall().after(Duration::from_secs(600));
        let pinned = pin("comes", to).expect("it is held");
        assert!(pinned.open_end && pinned.pin.bytes > Bytes::ZERO, "{pinned:?}");
        assert_eq!(pins_on(&cluster, &nodes), vec![1; nodes.len()]);
    }
}
