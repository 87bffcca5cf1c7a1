//! What is said of rings and of their parts while targets go away, are lost and are replaced.

use super::replaced::{lose, until_replaced};
use super::spread::{STRIPED, WITH_PARITY, steps, with_ring};
use super::*;
use forebay_client::rings::{KnownRing, PartState, RingList};
use std::collections::BTreeMap;

fn survey(cluster: &Cluster, looker: &ClientMachine) -> KnownRing {
    let rings = looker.files.rings();
    cluster.world().run(async move { rings.open("/ring", false).await?.survey().await }).expect("it is there")
}

fn list(cluster: &Cluster, looker: &ClientMachine) -> RingList {
    let rings = looker.files.rings();
    cluster.world().run(async move { rings.list().await }).expect("the manager is there")
}

fn states(ring: &KnownRing) -> Vec<PartState> {
    ring.parts.iter().map(|part| part.state).collect()
}

#[test]
fn a_part_is_held_absent_lost_filling_and_held_again_and_one_that_fills_says_since_when_and_up_to_when() {
    let (world, cluster, nodes) = with_ring(7, WITH_PARITY);
    let (chance, looker) = (world.random(), cluster.client_machine("looker"));
    let mut recording = Recording::begin(&cluster, 1);
    steps(&mut recording, &world, &*chance, 200);
    recording.settle(&world);
    let ring = survey(&cluster, &looker);
    assert_eq!(states(&ring), [PartState::Held; 4]);
    assert_eq!(ring.parts.iter().map(|part| part.is_parity).collect::<Vec<_>>(), [false, false, false, true]);
    for (part, node) in ring.parts.iter().zip(&nodes) {
        assert_eq!((part.target, part.node), (cluster.target(*node), Some(*node as u64 + 1)));
        let status = part.status.as_ref().expect("its target is there");
        assert!(status.spec.guarantee.0 >= Rate::mb(2).0 / 3, "each promises its share: {status:?}");
        assert_eq!(part.filled(), None, "it is whole");
    }
    recording.past(true);
    cluster.crash_node(nodes[1]);
    let ring = survey(&cluster, &looker);
    assert_eq!(states(&ring), [PartState::Held, PartState::Absent, PartState::Held, PartState::Held]);
    assert!(ring.status.is_ok() && ring.parts[1].status.is_err(), "the others say how it is: {ring:?}");
    lose(&cluster, &looker, nodes[1]);
    world.run_for(Duration::from_secs(10));
    let ring = survey(&cluster, &looker);
    assert_eq!(states(&ring), [PartState::Held, PartState::Lost, PartState::Held, PartState::Held]);
    let since = world.clock().wall();
    let mut recording = Recording::begin(&cluster, 2);
    until_replaced(&mut recording, &cluster, &looker, &*chance, nodes[1]);
    let filling = [PartState::Held, PartState::Filling, PartState::Held, PartState::Held];
    let ring = survey(&cluster, &looker);
    assert_eq!(states(&ring), filling);
    assert!(ring.parts[1].filled().is_none_or(|(from, _)| since <= from), "{ring:?}");
    while survey(&cluster, &looker).parts[1].filled().is_none() {
        steps(&mut recording, &world, &*chance, 200);
        recording.settle(&world);
    }
    let ring = survey(&cluster, &looker);
    assert_eq!(states(&ring), filling);
    let (from, to) = ring.parts[1].filled().expect("it has something");
    assert!(since <= from && from <= to && to <= world.clock().wall(), "{since} {from} {to}");
    assert!(!ring.parts[1].has_come_round());
    let end = world.now() + Duration::from_secs(1200);
    let mut came_round = false;
    let ring = loop {
        assert!(world.now() < end, "it comes round");
        recording.step_of(&world, &*chance, 80);
        let ring = survey(&cluster, &looker);
        came_round |= ring.parts[1].has_come_round();
        if ring.parts[1].state == PartState::Held {
            break ring;
        }
        let (_, now) = ring.parts[1].filled().expect("it has something");
        assert!(now >= to, "it goes on: {now} after {to}");
        world.run_for(Duration::from_millis(50));
    };
    assert!(came_round, "it is told before it counts as whole");
    assert_eq!(states(&ring), [PartState::Held; 4]);
    assert!(!ring.parts.iter().any(|part| part.target == cluster.target(nodes[1])));
}

#[test]
fn all_rings_are_listed_wherever_they_are_in_the_tree_and_one_target_that_is_away_is_told_and_asked_once() {
    let (world, cluster, _) = with_ring(9, STRIPED);
    let maker = cluster.client_machine("second");
    let files = maker.files.clone();
    // More than are asked at once, and deeper than one directory.
    let mut names: Vec<String> = (0..20).map(|at| format!("/a/deep/ring.{at:02}")).collect();
    names.extend(["/b/alone".to_string(), "/ring".to_string()]);
    let made = names.clone();
    world.run(async move {
        for directory in ["/a", "/a/deep", "/a/empty", "/b"] {
            files.make_directory(directory, 0o755).await.expect("it is free");
        }
        files.create("/b/file", 0o644, None, Default::default()).await.expect("a file").close().await.expect("empty");
        for name in made.iter().filter(|name| *name != "/ring") {
            let spec = RingSpec { block: Bytes::kib(64), ..RingSpec::new(name, Bytes::mib(32)) };
            files.rings().create(spec, RING_MODE).await.expect("there is room");
        }
    });
    let all = list(&cluster, &maker);
    assert_eq!(all.rings.iter().map(|ring| ring.name.clone()).collect::<Vec<_>>(), names);
    assert!(all.unread.is_empty() && all.rings.iter().all(|ring| ring.status.is_ok()), "{all:?}");
    let mut on: BTreeMap<TargetId, u64> = BTreeMap::new();
    for part in all.rings.iter().flat_map(|ring| &ring.parts) {
        *on.entry(part.target).or_default() += 1;
    }
    let (away, count) = on.into_iter().max_by_key(|(_, count)| *count).expect("they lie somewhere");
    let node = (0..5).find(|node| cluster.target(*node) == away).expect("it is one of them");
    cluster.crash_node(node);
    let looker = cluster.client_machine("looker");
    let begun = world.now();
    let found = list(&cluster, &looker);
    // It is waited for once: by those that are asked together, and not by the others.
    assert!(world.now().since(begun) < Duration::from_secs(12), "{:?}", world.now().since(begun));
    assert_eq!(found.rings.len(), names.len());
    let parts = found.rings.iter().flat_map(|ring| &ring.parts);
    let absent: Vec<_> = parts.filter(|part| part.state == PartState::Absent).collect();
    assert_eq!(absent.len() as u64, count);
    for part in absent {
        let error = part.status.as_ref().expect_err("nobody answers there");
        assert_eq!((part.target, error.kind), (away, Kind::Disconnected), "{error:?}");
    }
    for (ring, before) in found.rings.iter().zip(&all.rings) {
        let is_away = ring.parts.iter().any(|part| part.target == away);
        assert_eq!(ring.status.is_err(), is_away, "without parity all of its targets say how it is: {ring:?}");
        assert_eq!(ring.capacity, before.capacity, "the manager knows what it was made for");
    }
}
