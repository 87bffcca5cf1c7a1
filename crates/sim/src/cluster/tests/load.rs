//! Nodes that more is asked of than they take on.

use super::*;
use forebay_env::Clock;
use forebay_env::conformance::streams::{rest, send};
use forebay_model::Rate;
use forebay_wire::frame::MAGIC;
use forebay_wire::sink::Frame;
use forebay_wire::{ClientHello, Command, Flags, RequestId};
use futures_io::AsyncWrite;
use std::future::poll_fn;
use std::pin::Pin;

/// How long each of many reads takes, sorted.
async fn reads(files: Files, clock: Rc<dyn Clock>, count: u64) -> Vec<Duration> {
    let file = files.open("/x", Options { ahead: Bytes::ZERO, cache: Bytes::ZERO, ..Options::alone() }).await;
    let file = file.expect("it is there");
    let mut taken = Vec::new();
    for nth in 0..count {
        let begun = clock.now();
        let read = file.read_at(Bytes(nth * 77_777 % 1_900_000), Bytes::kib(64)).await.expect("it is there");
        assert_eq!(read.len(), 64 << 10);
        taken.push(clock.now().since(begun));
        clock.sleep(Duration::from_millis(20)).await;
    }
    taken.sort();
    taken
}

#[test]
fn outcome_10_others_do_not_wait_longer_for_many_connections_that_are_idle_or_slow() {
    const IDLE: usize = 400;
    let world = Rc::new(World::new(10));
    let bounds = Bounds { connections: 600, patience: Duration::from_secs(8), ..Bounds::default() };
    let cluster = Cluster::new(world.clone(), ClusterSpec { bounds, ..spec(3) });
    let (_host, files) = cluster.client("writer");
    world.run(async move {
        let file = files.create("/x", 0o644, None, Options::alone()).await.expect("a file");
        file.write_at(Bytes::ZERO, Slice::from(pattern(2_000_000, 10))).await.expect("it is taken");
        file.close().await.expect("it is durable");
    });
    let (_host, files) = cluster.client("other");
    let calm = world.run(reads(files.clone(), world.clock(), 300));
    // Some say nothing, some a byte a second, and some take as much as a modem what they asked for.
    let crowd = cluster.network().host("crowd", LinkSpec::gigabit());
    for nth in 0..IDLE {
        let env = crowd.env();
        let address = format!("{}:{PORT}", cluster.node_host(nth % 3).name());
        crowd.env().spawner.detach(async move {
            let Ok(mut duplex) = env.fabric.connect(&address).await else { return };
            let mut says = MAGIC.iter().chain(&[1, 0]).cycle();
            if nth % 2 == 1 {
                std::future::pending::<()>().await;
            }
            loop {
                let byte = [*says.next().expect("it goes round")];
                if poll_fn(|cx| Pin::new(&mut duplex.write).poll_write(cx, &byte)).await.is_err() {
                    return;
                }
                env.clock.sleep(Duration::from_secs(1)).await;
            }
        });
    }
    for nth in 0..5 {
        let slow = cluster.client_machine(&format!("slow{nth}"));
        slow.host.env().spawner.detach({
            let files = slow.files.clone();
            async move {
                let Ok(file) = files.open("/x", Options::alone()).await else { return };
                drop(file.read_at(Bytes::ZERO, Bytes::mib(1)).await);
            }
        });
        world.run_for(Duration::from_millis(3));
        slow.host.set_link(LinkSpec::gigabit().with_rate(Rate(2000)));
    }
    world.run_for(Duration::from_secs(1));
    let most = |cluster: &Cluster| (0..3).map(|node| cluster.node(node).expect("it is up").connections()).max();
    assert!(most(&cluster) > Some(IDLE / 3), "{:?}", most(&cluster));
    let crowded = world.run(reads(files, world.clock(), 300));
    let p99 = |taken: &[Duration]| taken[taken.len() * 99 / 100];
    assert!(p99(&crowded) <= 2 * p99(&calm), "{:?} beside many, and {:?} alone", p99(&crowded), p99(&calm));
    // Whoever has not said hello in time is sent away.
    world.run_for(Duration::from_secs(20));
    assert!(most(&cluster) < Some(20), "{:?}", most(&cluster));
    // And so is who takes what it asked for far too slowly.
    let slow: u64 = (0..3).map(|node| cluster.node(node).expect("it is up").cuts().slow).sum();
    assert!(slow > IDLE as u64, "{slow}");
}

#[test]
fn outcome_46_under_full_load_a_node_holds_no_more_memory_and_connections_than_it_may() {
    let world = Rc::new(World::new(46));
    let bounds = Bounds { connections: 12, memory: Bytes::mib(1), ..Bounds::default() };
    let cluster = Cluster::new(world.clone(), ClusterSpec { bounds, ..spec(4) });
    let clients: Vec<ClientMachine> = (0..8).map(|nth| cluster.client_machine(&format!("client{nth}"))).collect();
    let work = clients.iter().enumerate().map(|(nth, machine)| {
        let files = machine.files.clone();
        machine.host.env().spawner.spawn(async move {
            let (path, bytes) = (format!("/{nth}"), pattern(1_500_000, nth as u64));
            let file = files.create(&path, 0o644, None, Options::alone()).await.expect("a file");
            file.write_at(Bytes::ZERO, Slice::from(bytes.clone())).await.expect("it is taken");
            file.close().await.expect("it is durable");
            let file = files.open(&path, Options::alone()).await.expect("it is there");
            assert!(file.read_at(Bytes::ZERO, Bytes::mib(2)).await.expect("bytes") == bytes);
        })
    });
    let work: Vec<_> = work.collect();
    let (mut most, end) = (Bytes::ZERO, world.now() + Duration::from_secs(60));
    while work.iter().any(|one| !one.is_finished()) {
        assert!(world.now() < end, "{} are not done", work.iter().filter(|one| !one.is_finished()).count());
        world.run_for(Duration::from_micros(100));
        for node in 0..4 {
            let node = cluster.node(node).expect("it is up");
            assert!(node.memory_used() <= bounds.memory * 2 + Bytes::mib(1), "{}", node.memory_used());
            assert!(node.connections() <= bounds.connections, "{}", node.connections());
            most = most.max(node.memory_used());
        }
    }
    work.into_iter().for_each(|one| world.run(one));
    assert!(most > Bytes::kib(500), "{most} is no load");
    // Of more connections than it takes strangers make room for one another, while it goes on with those that it knows.
    let crowd = cluster.network().host("crowd", LinkSpec::gigabit());
    for _ in 0..40 {
        let env = crowd.env();
        let address = format!("{}:{PORT}", cluster.node_host(0).name());
        crowd.env().spawner.detach(async move {
            let Ok(_duplex) = env.fabric.connect(&address).await else { return };
            std::future::pending::<()>().await;
        });
    }
    world.run_for(Duration::from_millis(100));
    let node = cluster.node(0).expect("it is up");
    assert_eq!(node.connections(), bounds.connections);
    assert!(node.cuts().stranger + node.cuts().full > 20, "{:?}", node.cuts());
    let files = clients[0].files.clone();
    world.run(async move {
        let file = files.open("/1", Options::alone()).await.expect("it is there");
        assert!(file.read_at(Bytes::ZERO, Bytes::mib(2)).await.expect("bytes") == pattern(1_500_000, 1));
    });
}

#[test]
fn outcome_10_a_machine_without_keys_that_takes_all_the_connections_it_can_get_keeps_nobody_out() {
    let world = Rc::new(World::new(11));
    let bounds = Bounds { connections: 20, strangers: 5, ..Bounds::default() };
    let cluster = Cluster::new(world.clone(), ClusterSpec { bounds, ..spec(3) });
    let crowd = cluster.network().host("crowd", LinkSpec::gigabit());
    for nth in 0..90 {
        let env = crowd.env();
        let address = format!("{}:{PORT}", cluster.node_host(nth % 3).name());
        crowd.env().spawner.detach(async move {
            let hello = ClientHello::new(None, [9; 16]);
            let hello = Frame::of(RequestId(0), Command::HELLO, Flags::NONE, &hello).expect("it fits").to_bytes();
            loop {
                if let Ok(mut duplex) = env.fabric.connect(&address).await {
                    drop(send(&mut duplex.write, &hello).await);
                    // It has done so well what there is to be done without a key, and stays for as long as it may.
                    drop(rest(&mut duplex.read).await);
                }
                env.clock.sleep(Duration::from_millis(5)).await;
            }
        });
    }
    world.run_for(Duration::from_secs(1));
    let (_host, files) = cluster.client("other");
    world.run(async move {
        let file = files.create("/x", 0o644, None, Options::alone()).await.expect("a file");
        file.write_at(Bytes::ZERO, Slice::from(pattern(2_000_000, 10))).await.expect("it is taken");
        file.close().await.expect("it is durable");
        let file = files.open("/x", Options::alone()).await.expect("it is there");
        assert!(file.read_at(Bytes::ZERO, Bytes::mib(2)).await.expect("bytes") == pattern(2_000_000, 10));
    });
    for node in 0..3 {
        let node = cluster.node(node).expect("it is up");
        assert!(node.cuts().stranger > 100 && node.cuts().full == 0, "{:?}", node.cuts());
    }
}
