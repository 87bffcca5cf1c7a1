//! Rings over several targets, of which one is lost at any moment.

use super::*;
use forebay_model::ring::Spread;

pub(super) const STRIPED: Spread = Spread { targets: 3, parity: false };
pub(super) const WITH_PARITY: Spread = Spread { targets: 3, parity: true };

/// A cluster with such a ring, and the nodes that have it; that of the parity is the last.
pub(super) fn with_ring(seed: u64, spread: Spread) -> (Rc<World>, Cluster, Vec<usize>) {
    let world = Rc::new(World::new(seed));
    let cluster = Cluster::new(world.clone(), spec(5));
    let nodes = make_ring(&cluster, spread);
    (world, cluster, nodes)
}

/// Makes such a ring, on the nodes that are returned.
pub(super) fn make_ring(cluster: &Cluster, spread: Spread) -> Vec<usize> {
    make_ring_of(cluster, spec_of_ring(), spread)
}

fn make_ring_of(cluster: &Cluster, spec: RingSpec, spread: Spread) -> Vec<usize> {
    let (world, maker) = (cluster.world(), cluster.client_machine("maker"));
    let rings = maker.files.rings();
    let ring = world.run(async move {
        let (capacity, guarantee) = (spec.capacity, spec.guarantee);
        let (ring, status) = rings.create_spread(spec, RING_MODE, spread).await.expect("there is room");
        assert!(status.spec.capacity >= capacity && status.spec.guarantee >= guarantee, "{status:?}");
        ring
    });
    let node_of =
        |target: &TargetId| cluster.places().find(|place| cluster.target(*place) == *target).expect("it is somewhere");
    let nodes: Vec<usize> = ring.targets().iter().map(node_of).collect();
    assert_eq!(nodes.iter().collect::<std::collections::BTreeSet<_>>().len(), spread.components() as usize);
    nodes
}

/// Records for so many steps, now and then as much as fills many blocks at once.
pub(super) fn steps(recording: &mut Recording, world: &World, chance: &dyn Random, most: u64) {
    for _ in 0..chance.below(most) {
        let many = if chance.below(8) == 0 { 300 } else { 10 };
        recording.step_of(world, chance, many);
    }
}

/// What was found of each session, and what gaps tell.
#[derive(Default)]
pub(super) struct Tally {
    /// Elements that gaps say are missing, by cause.
    counted: [u64; Cause::CODES],
    /// Gaps that nobody can count.
    uncounted: [u64; Cause::CODES],
}

impl Tally {
    pub(super) fn of(found: &[Found]) -> Tally {
        let mut tally = Tally::default();
        for found in found {
            if let Found::Gap(gap) = found {
                match gap.count {
                    Some(count) => tally.counted[gap.cause.index()] += count,
                    None => tally.uncounted[gap.cause.index()] += 1,
                }
            }
        }
        tally
    }

    pub(super) fn away(&self) -> (u64, u64) {
        let at = Cause::TargetAway.index();
        (self.counted[at], self.uncounted[at])
    }
}

/// Elements are there once, in order, and only those that were accepted; how many of those that were acknowledged are missing.
pub(super) fn missing(found: &[Found], sessions: &[Past]) -> u64 {
    let mut before = None;
    let mut there = std::collections::BTreeSet::new();
    for found in found {
        if let Found::Element { session, number } = found {
            assert!(before < Some((*session, *number)), "{session} {number} after {before:?}");
            before = Some((*session, *number));
            there.insert((*session, *number));
        }
    }
    let mut missing = 0;
    for past in sessions {
        let accepted: std::collections::BTreeSet<u64> = past.accepted.iter().copied().collect();
        let of_it = there.range((past.session, 0)..=(past.session, u64::MAX));
        assert!(of_it.clone().all(|(_, number)| accepted.contains(number)), "what was not accepted is not there");
        let acknowledged = past.accepted.iter().take(past.durable as usize);
        missing += acknowledged.filter(|number| !there.contains(&(past.session, **number))).count() as u64;
    }
    missing
}

/// What a life does to a node.
pub(super) fn strike(cluster: &Cluster, client: &ClientMachine, place: usize, how: u64) {
    let node = cluster.node_of(place);
    match how {
        0 => cluster.network().partition(&[&client.host], &[cluster.node_host(node)]),
        1 => cluster.network().cut(cluster.node_host(node), &client.host),
        2 => cluster.kill_node(node),
        _ => cluster.crash_node(node),
    }
}

pub(super) fn heal(cluster: &Cluster, place: usize) {
    let node = cluster.node_of(place);
    cluster.network().heal();
    if cluster.node(node).is_none() {
        cluster.restart_node(node);
    }
}

/// A life of a ring with parity: one of its nodes comes and goes. What overflew, and the trace.
fn life(seed: u64) -> (u64, u64) {
    let world = Rc::new(World::new(seed));
    let cluster = Cluster::new(world.clone(), spec(5));
    // Nothing is run over, in the parity neither, which has whole blocks beside short ones.
    let nodes = make_ring_of(&cluster, RingSpec { capacity: Bytes::mib(384), ..spec_of_ring() }, WITH_PARITY);
    let chance = world.random();
    let victim = nodes[chance.below(nodes.len() as u64) as usize];
    let mut past = Vec::new();
    let mut overflown = 0;
    for session in 1..=2 {
        let mut recording = Recording::begin(&cluster, session);
        for _ in 0..2 {
            steps(&mut recording, &world, &*chance, 60);
            strike(&cluster, &recording.machine, victim, chance.below(4));
            steps(&mut recording, &world, &*chance, 500);
            heal(&cluster, victim);
            steps(&mut recording, &world, &*chance, 200);
        }
        let in_order = session == 2 || chance.below(2) == 0;
        if in_order {
            recording.settle(&world);
            let progress = recording.recorder.progress();
            assert_eq!(progress.durable_elements, recording.accepted.len() as u64, "all of it is acknowledged");
            overflown += recording.offered - recording.accepted.len() as u64;
        } else {
            recording.machine.host.crash();
        }
        past.push(recording.past(in_order));
    }
    let ring = open(&cluster, "reader", false);
    let found = read(&cluster, &ring);
    let tally = Tally::of(&found);
    assert_eq!(
        (missing(&found, &past), tally.away()),
        (0, (0, 0)),
        "all that was acknowledged is there: {nodes:?} {victim}"
    );
    if past.iter().all(|past| past.in_order) {
        assert_eq!(tally.counted[Cause::Overflow.index()], overflown);
    }
    cluster.crash_node(victim);
    let ring = open(&cluster, "other", false);
    let without = read(&cluster, &ring);
    assert_eq!(missing(&without, &past), 0, "also without {victim} of {nodes:?}");
    (overflown, world.trace())
}

#[test]
fn a_ring_with_parity_loses_nothing_acknowledged_whichever_of_its_targets_comes_and_goes() {
    seeds::each(10, |seed| {
        life(seed);
    });
}

#[test]
fn the_same_seed_is_the_same_life_of_a_ring_with_parity() {
    assert_eq!(life(5), life(5));
}

#[test]
fn without_any_one_of_its_targets_a_ring_with_parity_answers_the_same_and_says_so_if_two_are_lost() {
    let (world, cluster, nodes) = with_ring(1, WITH_PARITY);
    let chance = world.random();
    let mut recording = Recording::begin(&cluster, 1);
    for _ in 0..4 {
        steps(&mut recording, &world, &*chance, 100);
    }
    recording.settle(&world);
    let past = [recording.past(true)];
    let ring = open(&cluster, "reader", false);
    let all = read(&cluster, &ring);
    assert_eq!(missing(&all, &past), 0);
    let elements = |found: &[Found]| {
        let number = |found: &Found| match found {
            Found::Element { number, .. } => Some(*number),
            Found::Gap(_) => None,
        };
        found.iter().filter_map(number).collect::<Vec<_>>()
    };
    for (at, node) in nodes.iter().enumerate() {
        cluster.crash_node(*node);
        let ring = open(&cluster, &format!("reader{at}"), false);
        let without = read(&cluster, &ring);
        assert!(elements(&without) == elements(&all), "without node {node}");
        let (counted, uncounted) = Tally::of(&without).away();
        // Without the parity nobody knows whether it had anything that is nowhere else.
        assert_eq!((counted, uncounted), (0, u64::from(at == 3)), "without node {node}");
        cluster.restart_node(*node);
    }
    cluster.crash_node(nodes[0]);
    cluster.crash_node(nodes[1]);
    let ring = open(&cluster, "two", false);
    let left = read(&cluster, &ring);
    let (counted, _) = Tally::of(&left).away();
    assert!(counted > 0, "what is missing is said");
    assert_eq!(elements(&left).len() as u64 + counted, elements(&all).len() as u64, "and how much it is");
}

#[test]
fn a_striped_ring_is_read_in_the_order_of_recording_and_goes_on_without_a_target_that_is_away() {
    let (world, cluster, nodes) = with_ring(2, STRIPED);
    let chance = world.random();
    let mut recording = Recording::begin(&cluster, 1);
    for _ in 0..4 {
        steps(&mut recording, &world, &*chance, 100);
    }
    recording.settle(&world);
    let ring = open(&cluster, "reader", false);
    let status = {
        let ring = ring.clone();
        world.run(async move { ring.status().await.expect("all are there") })
    };
    assert_eq!(status.next_sequence, recording.accepted.len() as u64);
    let each = |node: &usize| {
        let process = cluster.nodes[*node].process.borrow();
        process.as_ref().map_or(0, |process| process.target().status().iter().map(|ring| ring.elements).sum::<u64>())
    };
    assert!(nodes.iter().all(|node| each(node) > 0), "each has a share");
    let found = read(&cluster, &ring);
    let accepted = recording.accepted.clone();
    assert_eq!(
        missing(&found, &[Past { session: 1, durable: accepted.len() as u64, accepted, offered: 0, in_order: true }]),
        0
    );
    // Without one, the others go on; what that one was to have is told.
    cluster.crash_node(nodes[1]);
    for _ in 0..1500 {
        recording.step_of(&world, &*chance, 10);
    }
    recording.settle(&world);
    let progress = recording.recorder.progress();
    assert_eq!(progress.durable_elements, progress.elements, "nobody waits for what is lost");
    let lost = progress.losses.elements[Cause::TargetAway.index()];
    cluster.restart_node(nodes[1]);
    let ring = open(&cluster, "later", false);
    let found = read(&cluster, &ring);
    let there = found.iter().filter(|found| matches!(found, Found::Element { .. })).count() as u64;
    let tally = Tally::of(&found);
    assert_eq!(tally.away(), (lost, 0));
    assert!(there + lost + tally.counted[Cause::Overflow.index()] >= recording.offered, "nothing is silently missing");
    assert!(lost < recording.offered / 4, "{lost} of {} is more than was on its way there", recording.offered);
    // What a target has that does not answer is told by its times.
    cluster.crash_node(nodes[2]);
    let ring = open(&cluster, "last", false);
    let (_, uncounted) = Tally::of(&read(&cluster, &ring)).away();
    assert_eq!(uncounted, 1);
}

#[test]
fn a_tail_of_a_ring_over_several_targets_is_told_in_order_and_a_pin_is_one_on_all_of_them() {
    let (world, cluster, nodes) = with_ring(3, WITH_PARITY);
    let chance = world.random();
    let mut recording = Recording::begin(&cluster, 1);
    let ring = open(&cluster, "tail", true);
    let query = asked(&world, String::new(), true);
    let mut answer = {
        let ring = ring.clone();
        world.run(async move { ring.query(query).await.expect("it is asked") })
    };
    let told = Rc::new(Cell::new(0));
    let tail = world.spawner().spawn({
        let (told, clock) = (told.clone(), world.clock());
        async move {
            let mut before = None;
            while let Ok(Part::Batch(batch)) = answer.next().await {
                let (mut joined, told) = (Vec::new(), &told);
                // What comes when its time is over, as where more is recorded than goes out, comes behind what did not wait.
                let late = clock.wall().before(spec_of_ring().flush_interval * 2);
                let mut visit = |event: Event<'_>| {
                    if let Event::Element { time, .. } = event {
                        assert!(before < Some(time) || time < late, "in order");
                        before = before.max(Some(time));
                        told.set(told.get() + 1);
                    }
                    Ok(true)
                };
                forebay_client::answer::visit_batch(&batch, &mut joined, &mut visit).expect("it is visited");
            }
        }
    });
    for _ in 0..3 {
        steps(&mut recording, &world, &*chance, 100);
    }
    recording.settle(&world);
    world.run_for(Duration::from_secs(2));
    assert_eq!(told.get(), recording.accepted.len() as u64);
    drop(tail);
    let (from, to) = (Timestamp::MIN, world.clock().wall());
    let pins = |ring: &Ring| {
        let ring = ring.clone();
        world.run(async move { ring.pins().await.expect("they are there") })
    };
    let pinned = {
        let ring = ring.clone();
        world.run(async move { ring.pin("mine", from, to).await.expect("it is within the budget") })
    };
    assert_eq!(pinned.pin.end_sequence - pinned.pin.first_sequence, recording.accepted.len() as u64);
    assert_eq!(pins(&ring), std::slice::from_ref(&pinned.pin));
    let pinned_on = || {
        let of = |node: &usize| {
            let process = cluster.nodes[*node].process.borrow();
            process
                .as_ref()
                .map_or(0, |process| process.target().status().iter().map(|ring| ring.pins.len()).sum::<usize>())
        };
        nodes.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(pinned_on(), [1; 4]);
    {
        let ring = ring.clone();
        world.run(async move { ring.unpin(pinned.pin.id).await.expect("it is there") });
    }
    assert_eq!((pins(&ring).len(), pinned_on()), (0, vec![0; 4]));
}

#[test]
fn a_ring_that_asks_more_than_its_targets_can_promise_is_refused_with_what_could_be_had_and_leaves_nothing() {
    let world = Rc::new(World::new(4));
    let cluster = Cluster::new(world.clone(), spec(5));
    let rings = cluster.client_machine("maker").files.rings();
    let error = world.run({
        let rings = rings.clone();
        async move {
            let spec = RingSpec { guarantee: Rate::mb(100_000), ..spec_of_ring() };
            rings.create_spread(spec, RING_MODE, STRIPED).await.map(drop).expect_err("nobody can")
        }
    });
    assert!(error.kind == Kind::Refused && error.message.contains("in all"), "{error:?}");
    let error = world.run(async move { rings.open("/ring", false).await.map(drop).expect_err("it is gone") });
    assert_eq!(error.kind, Kind::Missing);
}

#[test]
fn numbers_cannot_be_asked_for_of_a_ring_over_several_targets_in_whichever_way_the_query_says_it() {
    let (world, cluster, _) = with_ring(7, STRIPED);
    let mut recording = Recording::begin(&cluster, 1);
    (0..20).for_each(|_| recording.offer(&world, 2984));
    recording.settle(&world);
    for text in ["seq >= 3", "seq != 7", "not seq in 5..10", "seq < 5 or seq > 9"] {
        let (ring, query) = (open(&cluster, &format!("asks {text}"), false), asked(&world, text.to_string(), false));
        let refused = world.run(async move { ring.query(query).await.map(drop).expect_err("numbers do not last") });
        assert_eq!(refused.kind, Kind::Usage, "{text}: {refused:?}");
    }
}

#[test]
fn what_one_target_tells_behind_its_last_element_is_told_in_the_order_of_time() {
    let (world, cluster, _) = with_ring(6, STRIPED);
    let mut recording = Recording::begin(&cluster, 1);
    let mut element = |time, number: u64, gap: Option<i64>| {
        recording.tell_time(&world);
        let payload = [1u64.to_le_bytes(), number.to_le_bytes()].concat();
        recording.recorder.element(Timestamp(time), &[&payload], &[]).expect("it is accepted");
        if let Some(first) = gap {
            let (first, last) = (Timestamp(first), Timestamp(first + 1));
            recording.recorder.gap(Gap { cause: Cause::SourceAway, count: None, first, last }).expect("it is taken");
        }
        // Each block goes to another target.
        recording.settle(&world);
    };
    element(1, 0, Some(50));
    element(10, 1, None);
    element(100, 2, None);
    let ring = open(&cluster, "reader", false);
    let told = |found: &Found| match found {
        Found::Element { number, .. } => Ok(*number),
        Found::Gap(gap) => Err(gap.first.0),
    };
    assert_eq!(read(&cluster, &ring).iter().map(told).collect::<Vec<_>>(), [Ok(0), Ok(1), Err(50), Ok(2)]);
}
