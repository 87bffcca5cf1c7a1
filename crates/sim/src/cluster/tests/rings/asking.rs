//! What is asked of rings over connections of its own: how much that may be, and that nothing is left of it.

use super::leaving::ALONE;
use super::spread::{STRIPED, WITH_PARITY, with_ring};
use super::*;

#[test]
fn a_query_of_many_words_is_answered_as_the_short_one_that_says_the_same() {
    for spread in [ALONE, STRIPED, WITH_PARITY] {
        let (world, cluster, _nodes) = with_ring(1, spread);
        let chance = world.random();
        let mut recording = Recording::begin(&cluster, 1);
        (0..50).for_each(|_| recording.step(&world, &*chance));
        recording.settle(&world);
        let ring = open(&cluster, "reader", false);
        let all_of = |text: String| {
            let found = read_of(&cluster, &ring, text);
            found.iter().map(|found| (found.element(), found.gap())).collect::<Vec<_>>()
        };
        let short = all_of("all".to_string());
        assert!(short.iter().filter(|(element, _)| element.is_some()).count() > 10);
        let long = vec!["all"; 3000].join(" or ");
        assert!(long.len() > 20 << 10);
        assert_eq!(all_of(long), short, "{spread:?}");
    }
}

#[test]
fn a_recorder_that_is_refused_leaves_no_connection_at_the_node() {
    let (world, cluster, nodes) = with_ring(2, ALONE);
    let chance = world.random();
    let mut recording = Recording::begin(&cluster, 1);
    (0..20).for_each(|_| recording.step(&world, &*chance));
    let node = cluster.node(nodes[0]).expect("it is up");
    let ring = open(&cluster, "other", true);
    let before = node.connections();
    for writer in 100..120 {
        let ring = ring.clone();
        let refused = world.run(async move { ring.record(writer, Duration::from_secs(60)).await.map(drop) });
        assert_eq!(refused.expect_err("somebody records").kind, Kind::Busy);
    }
    world.run_for(Duration::from_secs(1));
    assert!(node.connections() <= before, "{} and {before} before", node.connections());
}
