//! Queries of what the parity has run over, of rings of which a target was away then.

use super::spread::{WITH_PARITY, with_ring};
use super::*;

/// Records a block in a stripe of its own: its parity is as long, and reaches a third as far back as what it is of.
fn alone(recording: &mut Recording, world: &World) {
    (0..20).for_each(|_| recording.offer(world, 2984));
    for _ in 0..15 {
        recording.tell_time(world);
        recording.recorder.tick().expect("it goes on");
        world.run_for(Duration::from_millis(20));
    }
}

/// The time of the oldest that a node's part of the ring has.
fn oldest(cluster: &Cluster, node: usize) -> Timestamp {
    let process = cluster.nodes[node].process.borrow();
    let status = process.as_ref().expect("it is up").target().status();
    status.first().and_then(|ring| ring.oldest).unwrap_or(Timestamp::MIN)
}

/// Records until the parity reaches no further back than this.
fn until_overrun(recording: &mut Recording, cluster: &Cluster, parity: usize, time: Timestamp) {
    let end = cluster.world().now() + Duration::from_secs(3600);
    while oldest(cluster, parity) <= time {
        assert!(cluster.world().now() < end, "the parity comes round");
        alone(recording, cluster.world());
    }
    recording.settle(cluster.world());
}

/// When those were recorded in these times that a query of them does not return, and what gaps it tells of targets.
fn lacks(cluster: &Cluster, recording: &Recording, times: (Timestamp, Timestamp)) -> (Vec<Timestamp>, Vec<Gap>) {
    let text = match times {
        (Timestamp::MIN, Timestamp::MAX) => String::new(),
        (Timestamp::MIN, to) => format!("before {}", Timestamp(to.0 + 1)),
        (from, Timestamp::MAX) => format!("after {from}"),
        (from, to) => format!("time in {from}..{to}"),
    };
    let reader = format!("reader at {}", cluster.world().now().0);
    let found = read_of(cluster, &open(cluster, &reader, false), text);
    let mut missing = recording.lacking(&found);
    missing.retain(|time| (times.0..=times.1).contains(time));
    (missing, away(&found))
}

#[test]
fn what_a_target_missed_and_the_parity_has_run_over_is_told_as_a_gap_and_nothing_else_is() {
    for at in 0..3 {
        let (world, cluster, nodes) = with_ring(20 + at as u64, WITH_PARITY);
        let mut recording = Recording::begin(&cluster, 1);
        (0..40).for_each(|_| alone(&mut recording, &world));
        let struck = world.clock().wall();
        cluster.crash_node(nodes[at]);
        (0..60).for_each(|_| alone(&mut recording, &world));
        cluster.restart_node(nodes[at]);
        (0..60).for_each(|_| alone(&mut recording, &world));
        let back = world.clock().wall();
        let all = (Timestamp::MIN, Timestamp::MAX);
        let (missing, gaps) = lacks(&cluster, &recording, all);
        assert_eq!((missing.len(), gaps), (0, Vec::new()), "all of it can be made");
        until_overrun(&mut recording, &cluster, nodes[3], back);
        let (missing, gaps) = lacks(&cluster, &recording, all);
        assert!(!missing.is_empty(), "the parity of what part {at} missed is gone");
        assert_told(&missing, &gaps, &format!("of part {at}"));
        // It is told where it is, and nowhere else.
        let (first, last) = (missing[0], missing[missing.len() - 1]);
        let near = |gap: &Gap| gap.count.is_none() && gap.last.since(gap.first) < last.since(first) * 2;
        assert!(gaps.len() == 1 && near(&gaps[0]), "{gaps:?} of {first:?} to {last:?}");
        let within = missing[missing.len() / 2];
        for times in [(within, Timestamp::MAX), (first, within), (within, last)] {
            let (missing, gaps) = lacks(&cluster, &recording, times);
            assert!(!missing.is_empty(), "part {at}, {times:?}");
            assert_told(&missing, &gaps, &format!("of part {at}, {times:?}"));
        }
        let before = (Timestamp::MIN, struck.before(Duration::from_secs(5)));
        for times in [before, (back, Timestamp::MAX)] {
            assert_eq!(lacks(&cluster, &recording, times), (Vec::new(), Vec::new()), "part {at}, {times:?}");
        }
    }
}

#[test]
fn a_ring_of_which_no_target_was_away_tells_no_gap_of_what_its_parity_has_run_over() {
    let (world, cluster, nodes) = with_ring(24, WITH_PARITY);
    let mut recording = Recording::begin(&cluster, 1);
    (0..10).for_each(|_| alone(&mut recording, &world));
    let since = world.clock().wall();
    until_overrun(&mut recording, &cluster, nodes[3], since);
    assert_eq!(lacks(&cluster, &recording, (Timestamp::MIN, Timestamp::MAX)), (Vec::new(), Vec::new()));
}

#[test]
fn what_a_lost_target_had_and_the_parity_has_run_over_is_told_as_a_gap() {
    let (world, cluster, nodes) = with_ring(25, WITH_PARITY);
    let looker = cluster.client_machine("looker");
    let mut recording = Recording::begin(&cluster, 1);
    (0..40).for_each(|_| alone(&mut recording, &world));
    super::replaced::lose(&cluster, &looker, nodes[1]);
    let chance = world.random();
    super::replaced::until_replaced(&mut recording, &cluster, &looker, &*chance, nodes[1]);
    let since = world.clock().wall();
    until_overrun(&mut recording, &cluster, nodes[3], since);
    assert!(!open(&cluster, "looker again", false).is_whole(), "the part has not come round");
    let (missing, gaps) = lacks(&cluster, &recording, (Timestamp::MIN, Timestamp::MAX));
    assert!(!missing.is_empty(), "nobody has it");
    assert_told(&missing, &gaps, "of the lost one");
}

#[test]
fn what_a_target_missed_behind_what_is_pinned_is_told_when_the_parity_has_run_over_it() {
    let (world, cluster, nodes) = with_ring(26, WITH_PARITY);
    let mut recording = Recording::begin(&cluster, 1);
    let from = world.clock().wall();
    (0..20).for_each(|_| alone(&mut recording, &world));
    let to = world.clock().wall();
    (0..200).for_each(|_| alone(&mut recording, &world));
    let ring = open(&cluster, "pins", true);
    world.run(async move { ring.pin("mine", from, to).await.expect("it is within the budget") });
    cluster.crash_node(nodes[0]);
    (0..60).for_each(|_| alone(&mut recording, &world));
    cluster.restart_node(nodes[0]);
    (0..900).for_each(|_| alone(&mut recording, &world));
    recording.settle(&world);
    let (missing, gaps) = lacks(&cluster, &recording, (Timestamp::MIN, Timestamp::MAX));
    assert!(oldest(&cluster, nodes[3]) <= to && !missing.is_empty(), "the parity is there before and behind");
    assert_told(&missing, &gaps, "behind what is pinned");
    let (first, last) = (missing[0], missing[missing.len() - 1]);
    assert!(gaps.len() == 1 && gaps[0].last.since(gaps[0].first) < last.since(first) * 2, "{gaps:?}");
}
