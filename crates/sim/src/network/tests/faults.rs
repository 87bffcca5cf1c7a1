//! Cuts, crashes, losses and slow machines.

use super::*;

fn two(world: &World) -> (Network, Host, Host) {
    let (network, mut hosts) = machines(world, 2, NetworkSpec::default(), LinkSpec::gigabit());
    let other = hosts.pop().unwrap();
    (network, hosts.pop().unwrap(), other)
}

#[test]
fn all_bytes_arrive_in_order_whatever_is_lost_or_late() {
    seeds::each(10, |seed| {
        let world = World::new(seed);
        let bad = LinkSpec::gigabit().with_loss(0.02).with_delays(0.05, Duration::from_millis(2));
        let (network, hosts) = machines(&world, 2, NetworkSpec::default(), bad);
        let came = world.run(async {
            let (mut one, mut other) = pair(&hosts[0], &hosts[1]).await;
            world.spawner().detach(async move {
                send(&mut one.write, &painted(1, 1 << 20)).await.unwrap();
            });
            rest(&mut other.read).await.unwrap()
        });
        assert!(came == painted(1, 1 << 20), "{} bytes came, or others", came.len());
        let counters = network.counters();
        assert!(counters.lost > 10 && counters.fast_retransmits > 0, "{counters:?}");
    });
}

#[test]
fn who_loses_everything_times_out_and_tries_again_ever_later() {
    let world = World::new(0);
    let (network, one, other) = two(&world);
    let (mut near, _far) = world.run(pair(&one, &other));
    one.set_link(one.link().with_loss(1.0));
    world.run(async { send(&mut near.write, b"lost").await.unwrap() });
    world.run_for(Duration::from_secs(5));
    // After 200 ms, and then 400, 800, 1600 of them.
    let counters = network.counters();
    assert_eq!((counters.timeouts, counters.duplicate_acks, counters.drops), (4, 0, 0), "{counters:?}");
    assert_eq!(counters.lost, 5);
}

#[test]
fn a_cut_stops_what_is_sent_and_after_it_all_arrives() {
    let world = World::new(0);
    let (network, one, other) = two(&world);
    let (near, far) = world.run(pair(&one, &other));
    flood(&world, near);
    let count = drain(&world, far);
    world.run_for(Duration::from_millis(100));
    network.partition(&[&one], &[&other]);
    world.run_for(Duration::from_millis(1));
    let before = count.get();
    world.run_for(Duration::from_secs(5));
    assert_eq!(count.get(), before);
    network.heal();
    world.run_for(Duration::from_secs(10));
    assert!(count.get() > before + 500_000_000, "{} bytes since", count.get() - before);
}

#[test]
fn a_cut_that_stays_ends_connections_with_an_error_on_both_sides() {
    let world = World::new(0);
    let (network, one, other) = two(&world);
    let (mut near, mut far) = world.run(pair(&one, &other));
    network.cut(&one, &other);
    let begin = world.now();
    // One way only: what the other side sends arrives, and is never acknowledged.
    world.run(async {
        send(&mut far.write, b"arrives").await.unwrap();
        assert_eq!(fill(&mut near.read, &mut [0; 7]).await.unwrap(), 7);
        let (near, far) = (read(&mut near.read, &mut [0; 1]).await, read(&mut far.read, &mut [0; 1]).await);
        assert_eq!(near.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
        assert_eq!(far.unwrap_err().kind(), std::io::ErrorKind::TimedOut);
    });
    let taken = world.now().since(begin);
    assert!(taken < Duration::from_secs(120), "{taken:?}");
    drop((near, far));
    world.run_for(Duration::from_secs(100));
    assert_eq!(network.connections(), []);
}

#[test]
fn across_a_cut_nobody_is_reached_within_five_seconds() {
    let world = World::new(0);
    let (network, one, other) = two(&world);
    let _door = world.run(other.fabric().listen("1:7400")).unwrap();
    network.cut(&other, &one);
    let begin = world.now();
    let error = world.run(one.fabric().connect("1:7400")).err().unwrap();
    assert_eq!(error.kind, Kind::Disconnected, "{error}");
    assert_eq!(world.now().since(begin), Duration::from_secs(5));
    network.heal();
    world.run(one.fabric().connect("1:7400")).unwrap();
}

#[test]
fn a_machine_that_crashed_is_found_out_when_it_is_up_again() {
    let world = World::new(0);
    let (network, one, other) = two(&world);
    let (mut near, _far) = world.run(pair(&one, &other));
    other.crash();
    world.run(async { send(&mut near.write, b"to nobody").await.unwrap() });
    world.run_for(Duration::from_secs(1));
    other.restart();
    let error = world.run(read(&mut near.read, &mut [0; 1])).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(world.now() < Moment(3_000_000_000));
    drop(near);
    assert_eq!(network.connections(), []);
}

#[test]
fn a_machine_that_stays_down_is_found_out_by_who_sends_and_by_who_only_reads() {
    for sends in [true, false] {
        let world = World::new(0);
        let (_, one, other) = two(&world);
        let (mut near, _far) = world.run(pair(&one, &other));
        other.crash();
        let begin = world.now();
        let error = world.run(async {
            if sends {
                send(&mut near.write, b"to nobody").await.unwrap();
            }
            read(&mut near.read, &mut [0; 1]).await.unwrap_err()
        });
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        let taken = world.now().since(begin);
        assert!(taken >= Duration::from_secs(29) && taken < Duration::from_secs(90), "{taken:?}");
    }
}

/// The other side ends with bytes unread, which resets the connection, and nothing of that arrives.
#[test]
fn a_reset_that_was_lost_is_found_out_by_who_only_reads() {
    let world = World::new(0);
    let (network, one, other) = two(&world);
    let (mut near, mut far) = world.run(pair(&one, &other));
    world.run(async {
        send(&mut near.write, b"unread").await.unwrap();
        send(&mut far.write, b"read").await.unwrap();
        fill(&mut near.read, &mut [0; 4]).await.unwrap();
    });
    world.run_for(Duration::from_secs(1));
    other.set_link(LinkSpec::gigabit().with_loss(1.0));
    drop(far);
    world.run_for(Duration::from_secs(1));
    other.set_link(LinkSpec::gigabit());
    let error = world.run(read(&mut near.read, &mut [0; 1])).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
    assert!(world.now() < Moment(15_000_000_000), "{:?}", world.now());
    drop(near);
    assert_eq!(network.connections(), []);
}

#[test]
fn processes_that_are_killed_are_missed_at_once() {
    let world = World::new(0);
    let (network, one, other) = two(&world);
    let env = other.env();
    other.env().spawner.detach(async move {
        let door = env.fabric.listen("1:7400").await.unwrap();
        let (_first, mut second, _third) = (door.accept().await, door.accept().await.unwrap(), door.accept().await);
        loop {
            // The second one is read, so that nothing of it is lost with its reader.
            read(&mut second.read, &mut [0; 100]).await.unwrap();
        }
    });
    let connect = || world.run(one.fabric().connect("1:7400")).unwrap();
    let (mut unread, mut waiting, mut writing) = (connect(), connect(), connect());
    // Nobody accepts this one.
    let mut queued = connect();
    world.run(async {
        send(&mut unread.write, b"unread").await.unwrap();
        send(&mut waiting.write, b"read").await.unwrap();
    });
    world.run_for(Duration::from_millis(10));
    other.kill();
    let before = world.now();
    world.run(async {
        for duplex in [&mut unread, &mut queued] {
            let error = read(&mut duplex.read, &mut [0; 1]).await.unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
        }
        assert_eq!(read(&mut waiting.read, &mut [0; 1]).await.unwrap(), 0);
        while send(&mut writing.write, b"more").await.is_ok() {}
        assert_eq!(one.fabric().connect("1:7400").await.err().unwrap().kind, Kind::Missing);
    });
    assert!(world.now().since(before) < Duration::from_millis(10), "{:?}", world.now().since(before));
    drop((unread, waiting, writing, queued));
    world.run_for(Duration::from_secs(60));
    assert_eq!(network.connections(), []);
    // The machine is still up.
    assert!(world.run(other.fabric().listen("1:7400")).is_ok());
}

#[test]
fn with_a_machine_its_tasks_and_doors_are_gone() {
    let world = World::new(0);
    let (_, one, other) = two(&world);
    let ticks: Rc<Cell<u64>> = Rc::default();
    let (env, counted) = (other.env(), ticks.clone());
    other.env().spawner.detach(async move {
        let _door = env.fabric.listen("1:7400").await.unwrap();
        loop {
            env.clock.sleep(Duration::from_millis(1)).await;
            counted.set(counted.get() + 1);
        }
    });
    world.run_for(Duration::from_millis(10));
    other.crash();
    let seen = ticks.get();
    assert!(seen >= 9);
    let away = other.env();
    assert_eq!(world.run(away.fabric.connect("0:1")).err().unwrap().kind, Kind::Disconnected);
    assert_eq!(world.run(away.fabric.listen("1:1")).err().unwrap().kind, Kind::Disconnected);
    world.run_for(Duration::from_millis(10));
    assert_eq!(ticks.get(), seen);
    other.restart();
    let error = world.run(one.fabric().connect("1:7400")).err().unwrap();
    assert_eq!(error.kind, Kind::Missing, "{error}");
}

#[test]
fn a_machine_becomes_slow_and_fast_again() {
    let world = World::new(0);
    let (_, one, other) = two(&world);
    let (near, far) = world.run(pair(&one, &other));
    flood(&world, near);
    let count = drain(&world, far);
    let second = || {
        let before = count.get();
        world.run_for(Duration::from_secs(1));
        count.get() - before
    };
    second();
    let fast = second();
    one.set_link(LinkSpec::gigabit().with_rate(Rate::mb(1)).with_latency(Duration::from_millis(1)));
    second();
    let slow = second();
    assert!(slow < 1_000_000 && slow > 900_000, "{slow}");
    one.set_link(LinkSpec::gigabit());
    second();
    assert!(second() > fast * 9 / 10);
}

#[test]
fn names_that_no_machine_has_cannot_be_reached() {
    let world = World::new(0);
    let (_, one, _) = two(&world);
    assert_eq!(world.run(one.fabric().connect("nobody:1")).err().unwrap().kind, Kind::Disconnected);
    assert_eq!(world.run(one.fabric().listen("1:0")).err().unwrap().kind, Kind::Usage);
}
