use super::*;
use crate::disk::presets;
use bytes::Bytes as Slice;
use forebay_client::file::options::Options;
use forebay_model::layout::{Raid, UNIT};

fn spec(nodes: u32) -> ClusterSpec {
    ClusterSpec {
        nodes,
        disk: presets::ssd().scaled(400),
        network: NetworkSpec::jumbo(),
        node_link: LinkSpec::gigabit(),
        client_link: LinkSpec::gigabit(),
        policy: Policy { raid: Raid::Five, unit: UNIT, targets: 10 },
        bounds: Bounds::default(),
        settings: Settings::default(),
        credit: Bytes::kib(256),
    }
}

fn pattern(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|n| (n.wrapping_mul(0x9e37_79b9).wrapping_add(seed) >> 9) as u8).collect()
}

/// Writes a file, crashes what `crash` says, and reads it by another client.
fn story(seed: u64, crash: impl FnOnce(&Cluster)) -> u64 {
    let world = Rc::new(World::new(seed));
    let cluster = Cluster::new(world.clone(), spec(5));
    let bytes = pattern(5_000_000, seed);
    let (_writing, files) = cluster.client("writer");
    let written = bytes.clone();
    world.run(async move {
        let file = files.create("/x", 0o644, None, Options::default()).await.expect("a file");
        file.write_at(Bytes::ZERO, Slice::from(written)).await.expect("it is taken");
        file.close().await.expect("it is durable");
    });
    crash(&cluster);
    let (_reading, files) = cluster.client("reader");
    world.run(async move {
        let file = files.open("/x", Options::default()).await.expect("it is there");
        assert!(file.read_at(Bytes::ZERO, Bytes::mib(8)).await.expect("bytes") == bytes);
        file.close().await.expect("it closes");
    });
    world.trace()
}

#[test]
fn a_file_is_read_as_it_was_written_and_the_same_seed_is_the_same_run() {
    let one = story(1, |_| ());
    assert_eq!(one, story(1, |_| ()));
    assert_ne!(one, story(2, |_| ()));
}

#[test]
fn a_file_survives_the_loss_of_power_of_all_machines() {
    story(3, |cluster| {
        (0..5).for_each(|node| cluster.crash_node(node));
        cluster.crash_manager();
        cluster.restart_manager();
        (0..5).for_each(|node| cluster.restart_node(node));
    });
}

#[test]
fn a_file_is_read_while_one_of_its_targets_is_gone() {
    for node in 0..5 {
        story(4, |cluster| cluster.crash_node(node));
    }
}
