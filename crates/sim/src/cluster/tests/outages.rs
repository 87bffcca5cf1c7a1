//! Clients that stop and go on, a manager that is away, and networks that are cut in one direction.

use super::*;
use crate::cluster::check::authority;
use crate::cluster::life::hand::{DEADLINE, within};
use crate::seeds;
use forebay_client::nodes::PATIENCE;
use forebay_env::Task;
use forebay_env::together::all;
use forebay_model::{Kind, Result};
use std::cell::Cell;
use std::future::Future;

/// As many tell soon that something is away.
fn quick(nodes: u32) -> ClusterSpec {
    let network = NetworkSpec {
        connect_limit: Duration::from_secs(2),
        silence: Duration::from_secs(2),
        patience: Duration::from_secs(6),
        ..NetworkSpec::jumbo()
    };
    let settings = Settings {
        life: Duration::from_secs(40),
        node_timeout: Duration::from_secs(6),
        client_timeout: Duration::from_secs(90),
        ..Settings::default()
    };
    ClusterSpec { network, settings, ..spec(nodes) }
}

/// Begins something on a client's machine, so that it stops with it.
fn begin<T: 'static>(machine: &ClientMachine, work: impl Future<Output = T> + 'static) -> Task<T> {
    machine.host.env().spawner.spawn(work)
}

/// A file over five targets, with parity, that others may write; what it has is durable.
fn durable(world: &World, machine: &ClientMachine, path: &str, bytes: Vec<u8>) -> Rc<File> {
    let (files, path) = (machine.files.clone(), path.to_string());
    let policy = Policy { raid: Raid::Five, unit: Bytes::kib(16), targets: 5 };
    world.run(async move {
        let file = files.create(&path, 0o644, Some(policy), Options::beside()).await.expect("a file");
        file.write_at(Bytes::ZERO, Slice::from(bytes)).await.expect("it is taken");
        file.flush().await.expect("it is durable");
        Rc::new(file)
    })
}

async fn write(file: Rc<File>, at: u64, value: u8, length: usize) -> Result<()> {
    file.write_at(Bytes(at), Slice::from(vec![value; length])).await?;
    file.flush().await
}

fn read_all(cluster: &Cluster, name: &str, path: &'static str) -> Vec<u8> {
    let (_host, files) = cluster.client(name);
    cluster.world().run(async move {
        let file = files.open(path, Options::alone()).await.expect("it is there");
        file.read_at(Bytes::ZERO, Bytes::mib(4)).await.expect("it is whole")
    })
}

#[test]
fn outcome_6_a_client_that_stopped_past_its_lease_and_goes_on_changes_no_byte() {
    const LENGTH: usize = 600_000;
    let mut cut_short = 0;
    for micros in (0..16_000).step_by(1000) {
        let world = Rc::new(World::new(micros));
        let cluster = Cluster::new(world.clone(), quick(5));
        let writer = cluster.client_machine("writer");
        let files = writer.files.clone();
        let file = Rc::new(world.run(begin(&writer, async move { made(&files, "/x", 1, LENGTH).await })));
        let overwriting = begin(&writer, write(file.clone(), 100_000, 2, 300_000));
        world.run_for(Duration::from_micros(micros));
        writer.host.pause();
        world.run_for(Duration::from_secs(200));
        // It is given up, and the file is somebody else's.
        let heir = cluster.client_machine("heir");
        let heirs = heir.files.clone();
        let others = world.run(async move {
            heirs.mend_left(|file, mended| drop(mended.unwrap_or_else(|e| panic!("{file}: {e}")))).await?;
            heirs.open_to_write("/x", Options::alone()).await
        });
        let others = Rc::new(others.expect("whoever had it is gone"));
        world.run(write(others.clone(), 0, 3, LENGTH)).expect("it is the heir's");
        writer.host.resume();
        // What was durable before it stopped may be acknowledged now, and is overwritten since.
        cut_short += u32::from(world.run(overwriting).is_err());
        let late = world.run(begin(&writer, write(file.clone(), 0, 4, 50_000)));
        let late = late.expect_err("it has it no more");
        assert!(
            [Kind::Stale, Kind::Busy, Kind::Restarted, Kind::Disconnected, Kind::Refused].contains(&late.kind),
            "{late:?}"
        );
        world.run_for(Duration::from_secs(20));
        world.run(write(others, 0, 3, 10)).expect("it is the heir's still");
        let found = read_all(&cluster, "reader", "/x");
        assert!(found.len() == LENGTH && found.iter().all(|byte| *byte == 3), "{micros} us: a byte was changed");
    }
    assert!(cut_short > 4, "{cut_short} were stopped while they wrote");
}

#[test]
fn outcome_7_while_the_manager_is_away_capabilities_count_until_their_end_and_are_not_renewed() {
    let world = Rc::new(World::new(70));
    let cluster = Cluster::new(world.clone(), spec(5));
    let writer = cluster.client_machine("writer");
    let files = writer.files.clone();
    let file = Rc::new(world.run(async move { made(&files, "/x", 1, 400_000).await }));
    let files = writer.files.clone();
    let reading = Rc::new(world.run(async move { files.open("/x", Options::alone()).await.expect("it is there") }));
    cluster.crash_manager();
    let began = world.now();
    let (mut value, mut written, mut refused) = (1, 1, 0);
    while world.now() < began + Duration::from_secs(600) {
        world.run_for(Duration::from_secs(20));
        let since = world.now().since(began);
        let clock = world.clock();
        let one = reading.clone();
        let read = async move { one.read_at(Bytes(100_000), Bytes(1000)).await };
        let read = world.run(async move { within(&clock, DEADLINE, "a read", read).await });
        value += 1;
        let wrote = world.run(write(file.clone(), 100_000, value, 5000));
        if since < Duration::from_secs(280) {
            assert!(read.as_deref() == Ok(&[written; 1000]), "after {since:?}: {read:?}");
            wrote.unwrap_or_else(|error| panic!("after {since:?}: {error:?}"));
            written = value;
        } else if since > Duration::from_secs(310) {
            let said = [read.map(drop), wrote].map(|answer| answer.expect_err("nothing is renewed"));
            for error in said {
                let message = &error.message;
                assert_eq!(error.kind, Kind::Disconnected, "{error:?}");
                assert!(
                    message.contains("renew") && message.contains("manager"),
                    "what is tried is not said: {message}"
                );
            }
            refused += 1;
        } else if wrote.is_ok() {
            written = value;
        }
    }
    assert!(refused > 3);
    cluster.restart_manager();
    world.run_for(Duration::from_secs(10));
    let one = reading.clone();
    let read = world.run(async move { one.read_at(Bytes(100_000), Bytes(1000)).await });
    assert!(read.is_ok_and(|read| read == [written; 1000]), "it goes on by itself, with what was acknowledged last");
    // Nothing is done unchecked, neither now nor with what was made before.
    authority::check(&cluster, &cluster.client_machine("stranger"));
}

#[test]
fn outcome_33_whichever_pair_is_cut_in_one_direction_there_is_progress_or_an_error_and_it_heals() {
    let world = Rc::new(World::new(33));
    let cluster = Cluster::new(world.clone(), quick(4));
    let machine = cluster.client_machine("client");
    let files = machine.files.clone();
    let kept = world.run(async move { made(&files, "/kept", 9, 200_000).await });
    world.run(async move { kept.close().await.expect("it is durable") });
    let mut machines: Vec<Host> = (0..4).map(|node| cluster.node_host(node).clone()).collect();
    machines.extend([cluster.manager_host().clone(), machine.host.clone()]);
    let (mut worked, mut failed) = (0, 0);
    for from in &machines {
        for to in machines.iter().filter(|to| to.name() != from.name()) {
            let pair = format!("{}-{}", from.name(), to.name());
            cluster.network().cut(from, to);
            let (path, files, clock) = (format!("/{pair}"), machine.files.clone(), world.clock());
            let during = world.run(async move { within(&clock, DEADLINE, "work", round(files, path)).await });
            match during {
                Ok(()) => worked += 1,
                Err(error) => {
                    let kinds =
                        [Kind::Disconnected, Kind::Busy, Kind::Stale, Kind::Restarted, Kind::Device, Kind::Refused];
                    assert!(kinds.contains(&error.kind), "{pair}: {error:?}");
                    failed += 1;
                }
            }
            cluster.network().heal();
            let healed = world.now();
            for attempt in 0.. {
                let (files, path, clock) = (machine.files.clone(), format!("/{pair}.{attempt}"), world.clock());
                let after = world.run(async move { within(&clock, DEADLINE, "work", round(files, path)).await });
                let Err(error) = after else { break };
                let since = world.now().since(healed);
                assert!(since < Duration::from_secs(30), "{pair}, {since:?} after it was healed: {error:?}");
                world.run_for(Duration::from_millis(500));
            }
        }
    }
    assert!(worked > 10 && failed > 1, "{worked} and {failed}");
}

/// Makes a file, writes and reads it, and reads one that was there.
async fn round(files: Files, path: String) -> Result<()> {
    let kept = files.open("/kept", Options::alone()).await?;
    let read = kept.read_at(Bytes::ZERO, Bytes::mib(1)).await?;
    assert!(read.len() == 200_000 && read.iter().all(|byte| *byte == 9), "{path}");
    let file = files.create(&path, 0o644, None, Options::alone()).await?;
    file.write_at(Bytes::ZERO, Slice::from(vec![5; 100_000])).await?;
    file.flush().await?;
    let read = file.read_at(Bytes::ZERO, Bytes::mib(1)).await?;
    assert!(read.len() == 100_000 && read.iter().all(|byte| *byte == 5), "{path}");
    file.close().await
}

/// Of a stripe that others change, the bytes that nobody changes are what they were, also made of the others.
#[test]
fn who_only_reads_and_cannot_reach_a_node_reads_what_is_there_beside_one_who_writes_the_same_stripe() {
    let unit = Bytes::kib(16);
    let mut changed = 0;
    for (alone, node) in [true, false].into_iter().flat_map(|alone| (0..4).map(move |node| (alone, node))) {
        let world = Rc::new(World::new(node as u64 + 81));
        let cluster = Cluster::new(world.clone(), quick(4));
        let (writer, reader) = (cluster.client_machine("writer"), cluster.client_machine("reader"));
        let policy = Policy { raid: Raid::Five, unit, targets: 4 };
        let files = writer.files.clone();
        let file = Rc::new(world.run(async move {
            let sharing = if alone { Sharing::Alone } else { Sharing::Beside };
            let options = Options { sharing, ..Options::default() };
            let file = files.create("/x", 0o644, Some(policy), options).await.expect("a file");
            file.write_at(Bytes::ZERO, Slice::from(vec![1; 3 * unit.0 as usize])).await.expect("it is taken");
            file.flush().await.expect("it is durable");
            file
        }));
        cluster.network().partition(&[&reader.host], &[cluster.node_host(node)]);
        // What is asked at the same time comes at different ones.
        let late = LinkSpec::gigabit().with_delays(0.3, Duration::from_millis(3));
        (0..4).for_each(|node| cluster.node_host(node).set_link(late));
        let count = Rc::new(Cell::new(0u64));
        let writing = begin(&writer, {
            let (file, count) = (file.clone(), count.clone());
            async move {
                loop {
                    let value = (count.get() % 200) as u8 + 2;
                    write(file.clone(), 0, value, 5000).await.expect("all is there for who writes");
                    count.set(count.get() + 1);
                }
            }
        });
        let files = reader.files.clone();
        let counted = count.clone();
        let beside = world.run(async move {
            let file = files.open("/x", Options { ahead: Bytes::ZERO, ..Options::alone() }).await.expect("it is there");
            let before = counted.get();
            for _ in 0..40 {
                let found = file.read_at(unit, unit * 2).await.expect("one of four may be away");
                assert!(found.len() as u64 == 2 * unit.0 && found.iter().all(|byte| *byte == 1), "{alone} {node}");
            }
            file.close().await.expect("it only read");
            counted.get() - before
        });
        changed += beside;
        drop(writing);
    }
    assert!(changed > 100, "{changed} changes beside the reads");
}

/// However many requests, files and parts of files there are: one of them waits.
#[test]
fn beside_a_node_that_is_gone_a_client_waits_once() {
    seeds::each(6, |seed| [false, true].into_iter().for_each(|is_machine| wait_once(seed, is_machine)));
}

fn wait_once(seed: u64, is_machine: bool) {
    let world = Rc::new(World::new(seed));
    let cluster = Cluster::new(world.clone(), quick(5));
    let machine = cluster.client_machine("writer");
    let made: Vec<_> =
        (0..6).map(|number| durable(&world, &machine, &format!("/{number}"), pattern(200_000, number))).collect();
    match is_machine {
        true => cluster.crash_node(2),
        false => cluster.kill_node(2),
    }
    // What goes out to a node all the time is no sign that it is there.
    let (asking, clock) = (made[5].clone(), world.clock());
    let _asking = world.spawner().spawn(async move {
        for nth in 0.. {
            drop(asking.read_at(Bytes(nth * 16384 % 190_000), Bytes(100)).await);
            clock.sleep(Duration::from_millis(100)).await;
        }
    });
    let began = world.now();
    let mut took = Vec::new();
    for (number, file) in (0..).zip(&made) {
        let file = file.clone();
        world.run(async move {
            for n in 0..10 {
                file.append(Slice::from(vec![n; 5000])).await.expect("one of five may be away");
                file.flush().await.expect("it is durable");
            }
            let read = file.read_at(Bytes::ZERO, Bytes(200_000)).await.expect("one of five may be away");
            assert!(read == pattern(200_000, number));
        });
        took.push(world.now().since(began));
    }
    let (first, last) = (took[0], took[took.len() - 1]);
    assert!(first < PATIENCE * 3 / 2, "it is known to be gone when patience is over: {took:?}");
    assert!(last - first < PATIENCE / 2, "nobody waits for what is known to be gone: {took:?}");
    let files = machine.files.clone();
    let began = world.now();
    world.run(async move {
        for number in 0..6 {
            let file = files.open(&format!("/{number}"), Options::alone()).await.expect("it is there");
            let read = file.read_at(Bytes::ZERO, Bytes::mib(1)).await.expect("one of five may be away");
            assert!(read.len() == 250_000 && read[..200_000] == pattern(200_000, number));
        }
    });
    assert!(world.now().since(began) < PATIENCE, "who opens a file does not wait either");
}

/// A node that lost its power and is back knows nothing of its connections. A client that was waiting for it finds that out, also if it
/// asks for nothing, and does not take it for gone when another one is.
#[test]
fn a_node_that_was_silent_and_is_back_is_used_when_another_one_goes() {
    seeds::each(12, |seed| {
        let world = Rc::new(World::new(seed));
        let cluster = Cluster::new(world.clone(), spec(8));
        let machine = cluster.client_machine("user");
        for number in 0..6 {
            let (files, policy) =
                (machine.files.clone(), Policy { raid: Raid::Five, unit: Bytes::kib(16), targets: 4 });
            world.run(async move {
                let path = format!("/{number}");
                let file = files.create(&path, 0o644, Some(policy), Options::alone()).await.expect("a file");
                file.write_at(Bytes::ZERO, Slice::from(pattern(200_000, number))).await.expect("it is taken");
                file.close().await.expect("it is durable");
            });
        }
        let (random, mut longest) = (world.random(), PATIENCE * 3 / 2);
        for node in 0..8 {
            cluster.crash_node(node);
            for number in 0..6 {
                let files = machine.files.clone();
                let began = world.now();
                world.run(async move {
                    let file = files.open(&format!("/{number}"), Options::alone()).await.expect("one node is away");
                    let read = file.read_at(Bytes::ZERO, Bytes::mib(1)).await.expect("one node is away");
                    assert!(read == pattern(200_000, number));
                });
                let took = world.now().since(began);
                assert!(took < longest, "node {node}, file {number}: {took:?}");
            }
            // What was not answered is sent again after twice as long each time.
            world.run_for(Duration::from_millis(random.below(3000)));
            cluster.restart_node(node);
            // Then the next one goes: when that it is back is known, or before. Then it is needed, and waited for.
            let pause = Duration::from_millis(random.below(4000));
            longest = if pause >= Duration::from_secs(2) { PATIENCE * 3 / 2 } else { PATIENCE * 3 };
            world.run_for(pause);
        }
    });
}

#[test]
fn who_needs_one_of_two_nodes_that_are_gone_waits_for_it_though_that_is_known() {
    for seed in 38..46 {
        let world = Rc::new(World::new(seed));
        let cluster = Cluster::new(world.clone(), quick(5));
        let machine = cluster.client_machine("writer");
        let [known, file] = ["/known", "/x"].map(|path| durable(&world, &machine, path, pattern(200_000, 1)));
        cluster.kill_node(1);
        cluster.kill_node(3);
        for _ in 0..2 {
            world.run(write(known.clone(), 0, 2, 200_000)).expect_err("one too many is away");
        }
        let writing = begin(&machine, write(file, 0, 3, 200_000));
        world.run_for(Duration::from_secs(1));
        cluster.restart_node(1);
        world.run(writing).unwrap_or_else(|error| panic!("seed {seed}: one of five may be away: {error:?}"));
        assert_eq!(read_all(&cluster, "reader", "/x"), vec![3; 200_000]);
    }
}

#[test]
fn all_that_is_asked_at_once_of_a_node_that_came_back_at_another_address_is_asked_there() {
    let world = Rc::new(World::new(36));
    let cluster = Cluster::new(world.clone(), quick(5));
    let machine = cluster.client_machine("writer");
    let file = durable(&world, &machine, "/x", pattern(1 << 20, 0));
    for (nth, node) in (1..).zip(0..5) {
        cluster.kill_node(node);
        let moved = &cluster.nodes[node].port;
        moved.set(moved.get() + 1);
        cluster.restart_node(node);
        // Many stripes at once: of each one asks for the component of that node at its old address.
        let (file, bytes, began) = (file.clone(), pattern(1 << 20, nth), world.now());
        world.run(async move {
            let stripes = bytes.chunks(64 << 10).enumerate();
            let put = stripes
                .map(|(stripe, bytes)| file.write_at(Bytes::kib(64 * stripe as u64), Slice::copy_from_slice(bytes)));
            for written in all(put).await {
                written.expect("it is taken");
            }
            file.flush().await.expect("it is durable");
        });
        assert!(cluster.degraded(&machine).is_empty(), "node {node} lacks nothing");
        let took = world.now().since(began);
        assert!(took < PATIENCE / 2, "it is looked for at once, and not where it was for {took:?}");
    }
    let read = read_all(&cluster, "reader", "/x");
    assert!(read == pattern(1 << 20, 5));
}
