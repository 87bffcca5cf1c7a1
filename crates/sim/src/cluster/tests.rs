mod absences;
mod balancing;
mod caching;
mod clocks;
mod cuts;
mod disks;
mod draining;
mod heaps;
mod keeper;
mod keys;
mod lengths;
mod load;
mod lost;
mod openings;
mod outages;
mod rings;
mod scrubbing;
mod wiped;

use super::*;
use crate::disk::presets;
use bytes::Bytes as Slice;
use forebay_client::control::Control;
use forebay_client::file::options::{Options, Sharing};
use forebay_client::files::File;
use forebay_model::layout::{Raid, UNIT};
use forebay_wire::control::cluster::{SetTarget, Target, TargetState};
use forebay_wire::control::files::{After, ClientGone};
use forebay_wire::control::names::FileId;
use forebay_wire::control::{Change, Question, Reply};

fn spec(nodes: u32) -> ClusterSpec {
    ClusterSpec {
        nodes,
        targets: 1,
        disk: presets::ssd().scaled(400),
        network: NetworkSpec::jumbo(),
        node_link: LinkSpec::gigabit(),
        client_link: LinkSpec::gigabit(),
        policy: Policy { raid: Raid::Five, unit: UNIT, targets: 10 },
        bounds: Bounds::default(),
        settings: Settings::default(),
        credit: Bytes::kib(256),
        copies: false,
    }
}

/// A file with so many bytes, all the same.
async fn made(files: &Files, path: &str, value: u8, length: usize) -> File {
    let file = files.create(path, 0o644, None, Options::alone()).await.expect("a file");
    file.write_at(Bytes::ZERO, Slice::from(vec![value; length])).await.expect("it is taken");
    file.flush().await.expect("it is durable");
    file
}

fn pattern(length: usize, seed: u64) -> Vec<u8> {
    (0..length as u64).map(|n| (n.wrapping_mul(0x9e37_79b9).wrapping_add(seed) >> 9) as u8).collect()
}

fn beside() -> Options {
    Options::beside()
}

/// A node with so many objects or more.
fn holder(cluster: &Cluster, least: usize) -> usize {
    let has = |node: &usize| {
        let objects = cluster.objects(*node).expect("it is up");
        cluster.world().run(async move { objects.list(1, 1, 10).await }).is_ok_and(|there| there.len() >= least)
    };
    (0..cluster.nodes.len()).find(has).expect("files lie somewhere")
}

/// A node's target, as the manager knows it.
fn target_of(cluster: &Cluster, machine: &ClientMachine, node: usize) -> Target {
    let targets = cluster.map(machine).targets;
    targets.into_iter().find(|target| target.target == cluster.target(node)).expect("it is known")
}

fn say(cluster: &Cluster, machine: &ClientMachine, node: usize, state: TargetState) {
    let set = SetTarget { target: cluster.target(node), state };
    let control = machine.control.clone();
    cluster.world().run(async move { control.change(Change::SetTarget(set)).await }).expect("it is root");
}

/// Writes a file, crashes what `crash` says, and reads it by another client.
fn story(seed: u64, crash: impl FnOnce(&Cluster)) -> u64 {
    let world = Rc::new(World::new(seed));
    let cluster = Cluster::new(world.clone(), spec(5));
    let bytes = pattern(5_000_000, seed);
    let (_writing, files) = cluster.client("writer");
    let written = bytes.clone();
    world.run(async move {
        let file = files.create("/x", 0o644, None, Options::alone()).await.expect("a file");
        file.write_at(Bytes::ZERO, Slice::from(written)).await.expect("it is taken");
        file.close().await.expect("it is durable");
    });
    crash(&cluster);
    let (_reading, files) = cluster.client("reader");
    world.run(async move {
        let file = files.open("/x", Options::alone()).await.expect("it is there");
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

#[test]
fn a_client_waits_for_a_node_that_has_no_keys_yet() {
    let world = Rc::new(World::new(5));
    let cluster = Cluster::new(world.clone(), spec(5));
    let bytes = pattern(900_000, 5);
    let (_writing, files) = cluster.client("writer");
    let written = bytes.clone();
    world.run({
        let files = files.clone();
        async move {
            let file = files.create("/x", 0o644, None, Options::alone()).await.expect("a file");
            file.write_at(Bytes::ZERO, Slice::from(written)).await.expect("it is taken");
            file.close().await.expect("it is durable");
        }
    });
    let file = world.run(async move { files.open("/x", Options::alone()).await.expect("it is there") });
    cluster.crash_node(1);
    cluster.crash_node(2);
    for node in [1, 2] {
        cluster.node_host(node).restart();
        cluster.begin_node(node);
    }
    // The nodes hear of their keys only from now on.
    cluster.network().partition(&[cluster.manager_host()], &[cluster.node_host(1), cluster.node_host(2)]);
    let asked = world.spawner().spawn(async move { file.read_at(Bytes::ZERO, Bytes::mib(1)).await });
    world.run_for(Duration::from_secs(1));
    cluster.network().heal();
    let read = world.run(asked);
    assert!(read.expect("it is there again") == bytes);
}

#[test]
fn what_was_not_flushed_when_a_node_lost_it_is_not_read_as_if_it_had_never_been_written() {
    let world = Rc::new(World::new(6));
    let cluster = Cluster::new(world.clone(), spec(4));
    let writer = cluster.client_machine("writer");
    let files = writer.files.clone();
    let policy = Policy { raid: Raid::Zero, unit: UNIT, targets: 4 };
    let file =
        world.run(async move { files.create("/x", 0o644, Some(policy), Options::alone()).await.expect("a file") });
    let writing = (file.entry().file, writer);
    let bytes = pattern(1 << 20, 6);
    let (file, written) = (Rc::new(file), Slice::from(bytes.clone()));
    world.run({
        let file = file.clone();
        async move { file.write_at(Bytes::ZERO, written).await.expect("it is taken") }
    });
    world.run({
        let file = file.clone();
        // What is read has been sent before.
        async move { assert!(file.read_at(Bytes::ZERO, Bytes::mib(1)).await.expect("it is there").len() == 1 << 20) }
    });
    cluster.crash_node(1);
    cluster.restart_node(1);
    let read = world.run({
        let file = file.clone();
        async move { file.read_at(Bytes::ZERO, Bytes::mib(1)).await }
    });
    match read {
        Ok(read) => assert!(read == bytes, "what was written is there, or it is said that it is not"),
        Err(error) => assert_eq!(error.kind, forebay_model::Kind::Restarted, "{error:?}"),
    }
    let flushed = world.run({
        let file = file.clone();
        async move { file.flush().await }
    });
    assert_eq!(flushed.expect_err("it is lost").kind, forebay_model::Kind::Restarted);
    let (file, number) = (Rc::into_inner(file).expect("nobody uses it"), writing.0);
    world.run(async move { file.close().await }).expect_err("it is not as it was to be");
    // So it is still to be scrubbed when its client is gone.
    let all = Question::OpenFiles(After { file: FileId(0), most: 10 });
    let control = writing.1.control.clone();
    match world.run(async move { control.ask(all).await }) {
        Ok(Reply::OpenFiles(open)) => assert!(open.files.iter().any(|one| one.file == number), "{open:?}"),
        other => panic!("{other:?}"),
    }
}

#[test]
#[should_panic(expected = "the manager has not heard of node 0 within 60s")]
fn a_node_that_does_not_reach_the_manager_is_not_waited_for_for_ever() {
    let cluster = Cluster::new(Rc::new(World::new(7)), spec(1));
    cluster.crash_manager();
    cluster.crash_node(0);
    cluster.restart_node(0);
}

#[test]
fn what_a_client_left_half_written_is_mended_when_it_is_gone() {
    let mut ended = 0;
    for micros in (0..20_000).step_by(500) {
        let world = Rc::new(World::new(micros));
        let cluster = Cluster::new(world.clone(), spec(5));
        let writer = cluster.client_machine("writer");
        let files = writer.files.clone();
        let file = world.run(async move { made(&files, "/x", 1, 1_000_000).await });
        let number = file.entry().file;
        let overwriting = world.spawner().spawn(async move {
            let written = file.write_at(Bytes(100_000), Slice::from(vec![2; 50_000])).await;
            drop((written, file.flush().await));
            // It stays open.
            std::future::pending::<()>().await;
            drop(file);
        });
        world.run_for(Duration::from_micros(micros));
        writer.host.crash();
        let upkeep = cluster.client_machine("upkeep");
        let gone = writer.control.client();
        let (told, left) = world.run(async move {
            // As long as it is not gone, nothing is done: it may go on.
            let mut told = Vec::new();
            upkeep.files.mend_left(|file, _| told.push(file)).await.expect("the manager is there");
            assert!(told.is_empty());
            let change = Change::ClientGone(ClientGone { client: gone });
            upkeep.control.change(change).await.expect("it is root");
            let mut told = Vec::new();
            upkeep.files.mend_left(|file, mended| told.push((file, mended))).await.expect("the manager is there");
            upkeep.files.mend_left(|file, _| panic!("{file} was mended")).await.expect("the manager is there");
            let left = Question::Unscrubbed(After { file: FileId(0), most: 10 });
            (told, upkeep.control.ask(left).await.expect("the manager is there"))
        });
        drop(overwriting);
        let [(file, Ok(mended))] = &told[..] else { panic!("{told:?}") };
        assert!(*file == number && mended.size == Bytes(1_000_000) && mended.lost.is_empty(), "{mended:?}");
        // What was begun was intended, so parity never disagrees.
        assert_eq!(mended.repaired, Bytes::ZERO);
        ended += mended.ended;
        assert!(matches!(left, Reply::Unscrubbed(left) if left.files.is_empty()));
        let (_reading, files) = cluster.client("reader");
        let bytes = world.run(async move {
            let file = files.open("/x", Options::alone()).await.expect("it is there");
            file.read_at(Bytes::ZERO, Bytes::mib(2)).await.expect("bytes")
        });
        assert_eq!(bytes.len(), 1_000_000);
        let is_new = |at: usize| (100_000..150_000).contains(&at);
        assert!(bytes.iter().enumerate().all(|(at, byte)| *byte == 1 || (*byte == 2 && is_new(at))));
    }
    assert!(ended > 0, "no update was under way");
}

#[test]
fn a_process_has_a_file_open_to_write_as_often_as_it_likes_but_alone_only_once() {
    let world = Rc::new(World::new(9));
    let cluster = Cluster::new(world.clone(), spec(4));
    let (_writing, files) = cluster.client("writer");
    let (_other, others) = cluster.client("other");
    world.run(async move {
        let (alone, shared) = (Options::alone(), Options::beside());
        let first = files.create("/x", 0o644, None, alone).await.expect("a file");
        for options in [alone, shared] {
            let refused = files.open_to_write("/x", options).await.map(drop).expect_err("it is open");
            assert_eq!(refused.kind, forebay_model::Kind::Busy, "{refused}");
        }
        // The manager still knows that it is alone.
        assert!(others.open_to_write("/x", shared).await.is_err());
        first.write_at(Bytes::ZERO, Slice::from_static(b"one")).await.expect("it is taken");
        first.close().await.expect("it closes");
        let first = files.open_to_write("/x", shared).await.expect("it opens");
        let second = files.open_to_write("/x", shared).await.expect("beside the other one");
        first.close().await.expect("it closes");
        // The second one is still open, so nobody else is alone.
        assert!(others.open_to_write("/x", alone).await.is_err());
        second.write_at(Bytes::ZERO, Slice::from_static(b"two")).await.expect("it is durable");
        second.close().await.expect("it closes");
        let third = others.open_to_write("/x", alone).await.expect("nobody writes it");
        assert_eq!(third.read_at(Bytes::ZERO, Bytes(10)).await.expect("bytes"), b"two");
    });
}
