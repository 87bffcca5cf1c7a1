//! Disks that fail, lie, or are full, and what clients of files notice of it.

use super::*;
use crate::cluster::check::agreement;
use crate::disk::{Fault, Op};
use forebay_client::files::keep::Kept;
use forebay_model::{Kind, Result};
use forebay_target::object::record::MAGIC;
use forebay_target::verify::verify;
use std::cell::Cell;

const LENGTH: usize = 300_000;

/// A file with stripes on four targets, open.
fn made(cluster: &Cluster, files: &Files, value: u8) -> Rc<File> {
    let files = files.clone();
    let policy = Policy { raid: Raid::Five, unit: Bytes::kib(16), targets: 4 };
    cluster.world().run(async move {
        let file = files.create("/x", 0o644, Some(policy), Options::alone()).await.expect("a file");
        file.write_at(Bytes::ZERO, Slice::from(vec![value; LENGTH])).await.expect("it is taken");
        file.flush().await.expect("it is durable");
        Rc::new(file)
    })
}

async fn written(file: Rc<File>, value: u8) -> Result<()> {
    file.write_at(Bytes::ZERO, Slice::from(vec![value; LENGTH])).await?;
    file.flush().await
}

fn found(cluster: &Cluster, name: &str) -> Result<Vec<u8>> {
    let (_host, files) = cluster.client(name);
    cluster.world().run(async move {
        let file = files.open("/x", Options::alone()).await?;
        file.read_at(Bytes::ZERO, Bytes::mib(1)).await
    })
}

/// Another machine makes anew what was given up.
pub(super) fn keep_rebuilding(cluster: &Cluster) {
    let keeper = cluster.client_machine("keeper");
    let files = keeper.files.clone();
    let kept = async move { files.keep_rebuilding(Duration::from_secs(3), |_, _| ()).await };
    keeper.host.env().spawner.detach(kept);
}

/// What an offline look over a node's disk finds damaged of objects.
pub(super) fn damage(cluster: &Cluster, node: usize) -> usize {
    let env = cluster.world().env(cluster.disk(node).clone());
    let found = cluster.world().run(async move { verify(env, &mut |_, _| ()).await });
    let objects = found.expect("it can be looked over").objects;
    objects.damage.len() + objects.contradictions.len()
}

#[test]
fn outcome_27_a_disk_that_failed_one_write_or_flush_is_not_written_again_and_what_it_had_is_rebuilt() {
    let mut failed = 0;
    for (op, nth) in [(Op::Write, 0), (Op::Write, 3), (Op::Flush, 0), (Op::Flush, 1)] {
        let world = Rc::new(World::new(nth + 27));
        let cluster = Cluster::new(world.clone(), spec(6));
        let machine = cluster.client_machine("writer");
        let file = made(&cluster, &machine.files, 1);
        let node = holder(&cluster, 1);
        cluster.disk(node).inject(Fault::Fail { op, nth, sticky: false });
        for value in 2..8 {
            // It is acknowledged by the others, or not at all.
            world.run(written(file.clone(), value)).unwrap_or_else(|error| panic!("{op:?} {nth}: {error:?}"));
        }
        assert!(cluster.has_stopped(node), "{op:?} {nth}: it goes on with a device that failed");
        failed += cluster.disk(node).counters().failed;
        let before = cluster.disk(node).counters();
        let rebuilt = Rc::new(Cell::new(0));
        let keeper = cluster.client_machine("keeper");
        keeper.host.env().spawner.detach({
            let (files, rebuilt) = (keeper.files.clone(), rebuilt.clone());
            async move {
                let told = |_, kept: Result<Kept>| match kept {
                    Ok(Kept::Rebuilt(one)) => rebuilt.set(rebuilt.get() + one.components),
                    other => println!("{other:?}"),
                };
                files.keep_rebuilding(Duration::from_secs(3), told).await;
            }
        });
        let file = Rc::into_inner(file).expect("nobody uses it");
        world.run(async move { file.close().await }).expect("it is durable");
        // Its node says so, and nobody has to say that it is to be rebuilt.
        world.run_for(Duration::from_secs(120));
        let failed = target_of(&cluster, &machine, node);
        let why = failed.failed.unwrap_or_default();
        assert!(failed.state == TargetState::Failed && why.contains("device failed"), "{op:?} {nth}: {why}");
        assert_eq!(failed.left, Some(0), "{op:?} {nth}: nothing lies there any more");
        assert_eq!(cluster.degraded(&machine), [], "{op:?} {nth}");
        assert_eq!(rebuilt.get(), 1, "{op:?} {nth}");
        let since = cluster.disk(node).counters() - before;
        assert_eq!((since.writes, since.flushes, since.failed), (0, 0, 0), "{op:?} {nth}: it was used again");
        // It is not needed any more: any other one may be lost.
        for other in (0..6).filter(|other| *other != node) {
            cluster.stop_node(other);
            let found = found(&cluster, &format!("reader{other}"));
            assert!(found.is_ok_and(|found| found == [7; LENGTH]), "{op:?} {nth}: without node {other}");
            cluster.restart_node(other);
        }
    }
    assert_eq!(failed, 4);
}

/// Makes everything in the logs of a node's disk unreadable.
pub(super) fn lose_logs(cluster: &Cluster, node: usize) {
    let (disk, mut page) = (cluster.disk(node), [0; 4096]);
    for at in (0..disk.spec().size.0 / 4096).map(|nth| Bytes(4096) * nth) {
        disk.peek(at, &mut page);
        if page[..8] == MAGIC {
            disk.inject(Fault::Unreadable { offset: at, length: Bytes(512), permanent: false });
        }
    }
}

#[test]
fn a_target_that_cannot_tell_of_its_objects_says_so_and_they_are_made_anew_elsewhere() {
    let world = Rc::new(World::new(28));
    let cluster = Cluster::new(world.clone(), spec(6));
    let machine = cluster.client_machine("writer");
    let file = made(&cluster, &machine.files, 1);
    world.run(written(file.clone(), 2)).expect("it is durable");
    let node = holder(&cluster, 1);
    keep_rebuilding(&cluster);
    cluster.crash_node(node);
    lose_logs(&cluster, node);
    cluster.restart_node(node);
    // Whoever writes goes on at once, and its node says so without being asked.
    world.run(written(file.clone(), 3)).expect("the others take it");
    let file = Rc::into_inner(file).expect("nobody uses it");
    world.run(async move { file.close().await }).expect("it is durable");
    world.run_for(Duration::from_secs(60));
    let failed = target_of(&cluster, &machine, node);
    let why = failed.failed.unwrap_or_default();
    assert!(failed.state == TargetState::Failed && why.contains("objects are not served, rings are"), "{why}");
    assert_eq!((failed.left, cluster.degraded(&machine)), (Some(0), Vec::new()), "nothing lies there any more");
    assert!(!cluster.has_stopped(node), "its disk works");
    for other in (0..6).filter(|other| *other != node) {
        cluster.stop_node(other);
        let found = found(&cluster, &format!("reader{other}"));
        assert!(found.is_ok_and(|found| found == [3; LENGTH]), "without node {other}");
        cluster.restart_node(other);
    }
}

#[test]
fn outcome_28_a_write_that_a_disk_lost_or_did_elsewhere_is_found_and_what_it_had_is_made_of_the_others() {
    let mut noticed = 0;
    for nth in 0..6 {
        for lost in [true, false] {
            let world = Rc::new(World::new(nth));
            let cluster = Cluster::new(world.clone(), spec(4));
            let machine = cluster.client_machine("writer");
            let file = made(&cluster, &machine.files, 1);
            let to = Bytes::mib(900);
            let fault = if lost { Fault::LoseWrite { nth } } else { Fault::MisdirectWrite { nth, to } };
            cluster.disk(1).inject(fault);
            world.run(written(file.clone(), 2)).expect("nobody notices yet");
            let file = Rc::into_inner(file).expect("nobody uses it");
            world.run(async move { file.close().await }).expect("it is durable");
            world.run_for(Duration::from_secs(3));
            cluster.disk(1).calm();
            // What the node has in memory does not count.
            cluster.crash_node(1);
            noticed += u32::from(damage(&cluster, 1) > 0);
            cluster.restart_node(1);
            let files = machine.files.clone();
            world.run(async move {
                let file = files.open_to_write("/x", Options::alone()).await.expect("it is there");
                let (found, more) = file.engine().scrub(0, 1000).await.expect("it is there");
                assert!(found.lost.is_empty() && !more, "{found:?}");
                file.close().await.expect("it closes");
                agreement::check(&files, "/x").await;
            });
            let found = found(&cluster, "reader").unwrap_or_else(|error| panic!("{nth}, lost: {lost}: {error:?}"));
            let old = found.iter().position(|byte| *byte != 2);
            assert!(found.len() == LENGTH && old.is_none(), "{nth}, lost: {lost}: {} bytes, {old:?}", found.len());
            // A component whose journal of intents was damaged was given up instead.
            keep_rebuilding(&cluster);
            world.run_for(Duration::from_secs(60));
            cluster.crash_node(1);
            assert_eq!(damage(&cluster, 1), 0, "{nth}, lost: {lost}: it was not repaired");
        }
    }
    assert!(noticed > 3, "{noticed} of them were of anything that counted");
}

#[test]
fn outcome_30_on_full_disks_writing_is_refused_before_it_is_acknowledged_and_removing_makes_room() {
    let world = Rc::new(World::new(30));
    let cluster = Cluster::new(world.clone(), ClusterSpec { disk: presets::ssd().scaled(8000), ..spec(4) });
    let machine = cluster.client_machine("writer");
    let piece = |nth: usize| pattern(700_001, nth as u64);
    let mut first = None;
    for round in 0..2 {
        let file = {
            let files = machine.files.clone();
            Rc::new(world.run(async move {
                files.create("/full", 0o644, None, Options::alone()).await.expect("a file has room")
            }))
        };
        let mut acknowledged = 0;
        let refused = loop {
            let (file, bytes) = (file.clone(), piece(acknowledged));
            let at = Bytes(acknowledged as u64 * 700_001);
            let wrote = world.run(async move {
                file.write_at(at, Slice::from(bytes)).await?;
                file.flush().await
            });
            match wrote {
                Ok(()) => acknowledged += 1,
                Err(error) => break error,
            }
        };
        assert_eq!(refused.kind, Kind::Full, "round {round}, after {acknowledged}: {refused:?}");
        let before: usize = *first.get_or_insert(acknowledged);
        assert!(
            before > 20 && acknowledged * 10 >= before * 9,
            "round {round}: {acknowledged} had room, then {before}"
        );
        let (_reading, files) = cluster.client(&format!("reader{round}"));
        world.run(async move {
            let file = files.open("/full", Options::alone()).await.expect("it is there");
            for nth in 0..acknowledged {
                let read = file.read_at(Bytes(nth as u64 * 700_001), Bytes(700_001)).await.expect("it is whole");
                assert!(read == piece(nth), "round {round}: piece {nth}");
            }
        });
        let file = Rc::into_inner(file).expect("nobody uses it");
        drop(world.run(async move { file.close().await }));
        let files = machine.files.clone();
        world.run(async move { files.remove("/full").await }).expect("there is always room to remove");
        // What was given out for it runs out first; then nodes are told to remove its objects, and take their space back.
        world.run_for(Duration::from_secs(420));
    }
}

/// A reader is idle, and its target is out of sight of all others when that is said to have failed. Who writes did not give it
/// up.
#[test]
fn what_the_manager_gave_up_answers_nobody_after_something_was_acknowledged_without_it() {
    for node in 0..5 {
        let world = Rc::new(World::new(34));
        let cluster = Cluster::new(world.clone(), spec(5));
        let machine = cluster.client_machine("writer");
        let file = made(&cluster, &machine.files, 1);
        let (_reading, files) = cluster.client("reader");
        let open = world.run(async move { files.open("/x", Options::alone()).await }).expect("it is there");
        cluster.network().partition(&[cluster.node_host(node)], &[cluster.manager_host(), &machine.host]);
        say(&cluster, &machine, node, TargetState::Failed);
        world.run_for(Duration::from_secs(3));
        world.run(written(file, 2)).expect("the others take it");
        let found = world.run(async move { open.read_at(Bytes::ZERO, Bytes::mib(1)).await }).expect("it is whole");
        let old = found.iter().position(|byte| *byte != 2);
        assert!(found.len() == LENGTH && old.is_none(), "node {node}: {old:?}");
    }
}

/// Nobody has said that the old one failed: until then clients may think that the new target of its node is it.
#[test]
fn a_node_that_comes_back_with_an_empty_disk_keeps_nobody_from_files_that_the_others_have() {
    const LENGTH: usize = 700_000;
    let world = Rc::new(World::new(33));
    let mut cluster = Cluster::new(world.clone(), spec(5));
    let bytes = pattern(LENGTH, 33);
    let ((_writing, files), (_reading, reader), (_beside, writer)) =
        (cluster.client("first"), cluster.client("reader"), cluster.client("writer"));
    let written = bytes.clone();
    let uncached = Options { ahead: Bytes::ZERO, cache: Bytes::ZERO, ..Options::beside() };
    let (reading, writing) = world.run(async move {
        let file = files.create("/x", 0o644, None, Options::alone()).await.expect("a file");
        file.write_at(Bytes::ZERO, Slice::from(written)).await.expect("it is taken");
        file.close().await.expect("it is durable");
        let reading = Rc::new(reader.open("/x", uncached).await.expect("it is there"));
        let writing = Rc::new(writer.open_to_write("/x", uncached).await.expect("it is there"));
        let all =
            [reading.read_at(Bytes::ZERO, Bytes::mib(1)).await, writing.read_at(Bytes::ZERO, Bytes::mib(1)).await];
        assert!(all.iter().all(|found| found.as_ref().is_ok_and(|found| *found == bytes)));
        (reading, writing)
    });
    cluster.replace_disk(0);
    let (_late, late) = cluster.client("late");
    world.run(async move {
        let mut expected = pattern(LENGTH, 33);
        for (file, name) in [(&reading, "reader"), (&writing, "writer")] {
            let found =
                file.read_at(Bytes::ZERO, Bytes::mib(1)).await.unwrap_or_else(|error| panic!("{name}: {error:?}"));
            assert!(found == expected, "{name}");
        }
        expected[100_000..400_000].fill(5);
        writing.write_at(Bytes(100_000), Slice::from(vec![5; 300_000])).await.expect("it is taken");
        writing.flush().await.expect("it is durable");
        let file = late.open("/x", Options::beside()).await.expect("it is there");
        for file in [&reading, &writing, &Rc::new(file)] {
            assert!(file.read_at(Bytes::ZERO, Bytes::mib(1)).await.expect("it is whole") == expected);
        }
    });
}

/// Changes some of each of these files, durably, as long as `goes_on` says of the time since then; how long each change took,
/// shortest first.
fn changes(world: &Rc<World>, files: &[Rc<File>], goes_on: impl Fn(Duration) -> bool) -> Vec<Duration> {
    let (begun, random, mut took) = (world.now(), world.random(), Vec::new());
    while goes_on(world.now().since(begun)) {
        for file in files {
            let (file, asked, at) = (file.clone(), world.now(), random.below(300_000));
            world.run(async move {
                file.write_at(Bytes(at), Slice::from(vec![3; 5000])).await.expect("it is taken");
                file.flush().await.expect("it is durable");
            });
            took.push(world.now().since(asked));
        }
    }
    took.sort_unstable();
    took
}

#[test]
fn outcome_31_who_writes_goes_on_as_before_beside_a_disk_that_has_become_slow_and_what_it_had_is_made_anew_elsewhere() {
    let world = Rc::new(World::new(31));
    let cluster = Cluster::new(world.clone(), spec(8));
    let machine = cluster.client_machine("writer");
    let make = |nth: usize| {
        let (files, policy) = (machine.files.clone(), Policy { raid: Raid::Five, unit: Bytes::kib(16), targets: 4 });
        world.run(async move {
            let file = files.create(&format!("/x{nth}"), 0o644, Some(policy), Options::alone()).await.expect("a file");
            file.write_at(Bytes::ZERO, Slice::from(vec![1; LENGTH])).await.expect("it is taken");
            file.flush().await.expect("it is durable");
            Rc::new(file)
        })
    };
    let files: Vec<Rc<File>> = (0..6).map(make).collect();
    let node = holder(&cluster, 2);
    let calm = changes(&world, &files, |passed| passed < Duration::from_secs(2));
    cluster.disk(node).inject(Fault::Slow { factor: 100.0, from: world.now() });
    let slow = changes(&world, &files, |passed| passed < Duration::from_secs(60));
    let p99 = |took: &[Duration]| took[took.len() * 99 / 100];
    let late = slow.iter().filter(|took| **took > 3 * p99(&calm)).count();
    assert!(p99(&slow) <= 3 * p99(&calm), "{:?} after {:?}, {late} of {}", p99(&slow), p99(&calm), slow.len());
    // The others are enough, and do not stay alone.
    keep_rebuilding(&cluster);
    assert!(target_of(&cluster, &machine, node).slow, "its node says so");
    assert_ne!(cluster.degraded(&machine), []);
    for file in files {
        let file = Rc::into_inner(file).expect("nobody uses it");
        world.run(async move { file.close().await }).expect("it is durable");
    }
    world.run_for(Duration::from_secs(60));
    assert_eq!(cluster.degraded(&machine), []);
    cluster.crash_node(node);
    world.run_for(Duration::from_secs(20));
    for other in (0..8).filter(|other| *other != node) {
        cluster.crash_node(other);
        for nth in 0..6 {
            let files = machine.files.clone();
            let found = world.run(async move {
                let file = files.open(&format!("/x{nth}"), Options::alone()).await?;
                file.read_at(Bytes::ZERO, Bytes::mib(1)).await
            });
            assert!(found.is_ok_and(|found| found.len() > 299_999), "/x{nth} without {node} and {other}");
        }
        cluster.restart_node(other);
        world.run_for(Duration::from_secs(5));
    }
}

#[test]
fn outcome_31_what_is_new_is_put_elsewhere_than_on_a_disk_that_has_become_slow() {
    let world = Rc::new(World::new(31));
    let cluster = Cluster::new(world.clone(), spec(8));
    let machine = cluster.client_machine("writer");
    let policy = Policy { raid: Raid::Five, unit: Bytes::kib(16), targets: 4 };
    let make = |name: &'static str, count: u64| {
        for nth in 0..count {
            let files = machine.files.clone();
            world.run(async move {
                let path = format!("/{name}{nth}");
                let file = files.create(&path, 0o644, Some(policy), Options::alone()).await.expect("a file");
                file.write_at(Bytes::ZERO, Slice::from(vec![1; 100_000])).await.expect("it is taken");
                file.close().await.expect("it is durable");
            });
        }
    };
    let on = |node: usize| {
        let objects = cluster.objects(node).expect("it is up");
        world.run(async move { objects.list(1, 1, 1000).await }).expect("they are listed").len() as u64
    };
    let each = || (0..8).map(on).collect::<Vec<u64>>();
    make("before", 80);
    let before = each();
    assert!(before[0] > before.iter().sum::<u64>() / 16, "{before:?}");
    cluster.disk(0).inject(Fault::Slow { factor: 100.0, from: world.now() });
    // Whoever uses what is there finds out, within ten seconds.
    let until = world.now() + Duration::from_secs(10);
    while world.now() < until {
        let files = machine.files.clone();
        world.run(async move {
            for nth in 0..8 {
                let path = format!("/before{nth}");
                let file = files.open_to_write(&path, Options::alone()).await.expect("it is there");
                // All of its parts are used, also one that lies there.
                file.write_at(Bytes(5_000), Slice::from(vec![2; 45_000])).await.expect("it is taken");
                file.close().await.expect("it is durable");
            }
        });
        world.run_for(Duration::from_millis(100));
    }
    make("after", 80);
    let new: Vec<u64> = each().iter().zip(&before).map(|(all, before)| all - before).collect();
    let mean = new[1..].iter().sum::<u64>() / 7;
    assert!(new[0] * 3 < mean, "{new:?} after {before:?}");
}
