//! The promise of rings over the network, beside all that others do.

use super::super::disks::keep_rebuilding;
use super::spread::{WITH_PARITY, make_ring, missing, with_ring};
use super::*;
use crate::disk::Fault;
use forebay_target::profile::{MeasureOptions, measure};

/// Between two looks at the recorder.
const STEP: Duration = Duration::from_millis(20);

/// Records for so long exactly as much as the ring was promised.
fn record(recording: &mut Recording, world: &World, took: Duration) {
    let (begun, rate) = (world.now(), spec_of_ring().guarantee.0 as f64);
    let mut offered = 0.0;
    while world.now().since(begun) < took {
        recording.tell_time(world);
        while offered < rate * world.now().since(begun).as_secs_f64() {
            recording.offer(world, 2984);
            offered += 3000.0;
        }
        recording.recorder.tick().expect("it goes on");
        world.run_for(STEP);
    }
}

/// Gives all targets the profile that such a disk has when it is measured.
fn know_disks(cluster: &Cluster) {
    let world = cluster.world();
    let env = world.env(world.disk(spec(1).disk));
    let measured = world.run(async move {
        let geometry = env.device.geometry();
        let options = MeasureOptions::for_extent(geometry.size, geometry.rotates, true);
        measure(&env, Bytes::ZERO..geometry.size, options, &mut |_| ()).await
    });
    let profile = measured.expect("it is sound");
    for node in &cluster.nodes {
        let target = node.process.borrow().as_ref().expect("it is up").target().clone();
        let profile = profile.clone();
        world.run(async move { target.set_profile(profile).await }).expect("it is kept");
    }
}

/// Blocks of rings that missed their deadlines since their targets were opened, on all nodes that are up.
fn missed(cluster: &Cluster) -> u64 {
    let of_node = |node: usize| {
        let process = cluster.nodes[node].process.borrow();
        process.as_ref().map_or(0, |process| process.target().status().iter().map(|ring| ring.missed_deadlines).sum())
    };
    (0..cluster.nodes.len()).map(of_node).sum::<u64>()
}

/// A file over fewer targets than there are, and nobody's alone: what one of them had can be made anew elsewhere meanwhile.
async fn narrow(files: &Files, path: &str) -> File {
    let policy = Policy { raid: Raid::Five, unit: UNIT, targets: 4 };
    let file = files.create(path, 0o644, Some(policy), beside()).await.expect("a file");
    file.write_at(Bytes::ZERO, Slice::from(vec![1; 4 << 20])).await.expect("it is taken");
    file.flush().await.expect("it is durable");
    file
}

/// From then on somebody writes a file, as fast as it goes, and somebody reads it.
fn load(cluster: &Cluster, from: Duration) -> (ClientMachine, ClientMachine) {
    let (writer, reader) = (cluster.client_machine("writer"), cluster.client_machine("another"));
    let file = cluster.world().run(narrow(&writer.files, "/one"));
    let (clock, begins) = (cluster.world().clock(), cluster.world().now() + from);
    let later = clock.clone();
    writer.host.env().spawner.detach(async move {
        clock.sleep_until(begins).await;
        let block = Slice::from(vec![2; 1 << 20]);
        // It goes round, so that disks are not full before the end.
        for at in (0..).map(|nth| Bytes::mib(nth % 16)) {
            let _ = file.write_at(at, block.clone()).await;
        }
    });
    let files = reader.files.clone();
    reader.host.env().spawner.detach(async move {
        later.sleep_until(begins).await;
        let file = files.open("/one", beside()).await.expect("it is there");
        for at in (0..).map(|nth| Bytes::mib(nth % 16)) {
            let _ = file.read_at(at, Bytes::mib(1)).await;
        }
    });
    (writer, reader)
}

/// Nothing was dropped, and all of it is there.
fn check_all_is_there(cluster: &Cluster, recording: Recording) {
    assert_eq!(recording.accepted.len() as u64, recording.offered, "nothing was dropped");
    let found = read(cluster, &open(cluster, "reader", false));
    assert_eq!(missing(&found, &[recording.past(true)]), 0);
}

#[test]
fn a_ring_over_the_network_keeps_its_promise_beside_who_writes_and_reads_and_while_what_was_lost_is_rebuilt() {
    let world = Rc::new(World::new(40));
    let cluster = Cluster::new(world.clone(), spec(5));
    know_disks(&cluster);
    let nodes = make_ring(&cluster, WITH_PARITY);
    let other = (0..5).find(|node| !nodes.contains(node)).expect("the ring is not on all nodes");
    let looker = cluster.client_machine("looker");
    for nth in 0..8 {
        let files = looker.files.clone();
        world.run(async move { narrow(&files, &format!("/{nth}")).await.close().await }).expect("it is durable");
    }
    let objects = cluster.objects(other).expect("it is up");
    let there = world.run(async move { objects.list(1, 1, 100).await }).expect("they are listed").len();
    assert!(there > 4, "there is something to be made anew: {there}");
    let loads = load(&cluster, Duration::from_secs(3));
    // From here on no time passes in which the recorder is not asked what it has to do.
    let mut recording = Recording::begin(&cluster, 1);
    record(&mut recording, &world, Duration::from_millis(2500));
    assert_eq!(missed(&cluster), 0, "alone");
    record(&mut recording, &world, Duration::from_millis(2500));
    assert_eq!(missed(&cluster), 0, "beside who writes and who reads");
    cluster.crash_node(other);
    keep_rebuilding(&cluster);
    record(&mut recording, &world, Duration::from_secs(2));
    super::super::say(&cluster, &looker, other, TargetState::Failed);
    let end = world.now() + Duration::from_secs(40);
    while target_of(&cluster, &looker, other).left != Some(0) {
        assert!(world.now() < end, "it is made anew");
        record(&mut recording, &world, Duration::from_secs(1));
    }
    assert_eq!(missed(&cluster), 0, "beside a rebuild");
    drop(loads);
    recording.settle(&world);
    check_all_is_there(&cluster, recording);
}

#[test]
fn outcome_31_a_ring_with_parity_loses_nothing_while_one_of_its_disks_is_a_hundred_times_slower() {
    for at in [0, 3] {
        let (world, cluster, nodes) = with_ring(41, WITH_PARITY);
        let mut recording = Recording::begin(&cluster, 1);
        record(&mut recording, &world, Duration::from_secs(5));
        cluster.disk(nodes[at]).inject(Fault::Slow { factor: 100.0, from: world.now() });
        record(&mut recording, &world, Duration::from_secs(30));
        let others = nodes.iter().enumerate().filter(|(other, _)| *other != at);
        for (_, node) in others {
            let process = cluster.nodes[*node].process.borrow();
            let status = process.as_ref().map(|process| process.target().status()).unwrap_or_default();
            assert!(status.iter().all(|ring| ring.missed_deadlines == 0), "{at}: node {node}");
        }
        recording.settle(&world);
        check_all_is_there(&cluster, recording);
    }
}
