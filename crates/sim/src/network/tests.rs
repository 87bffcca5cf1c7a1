use super::*;
use crate::{World, seeds};
use forebay_env::conformance::fabric::{Ground, run as check};
use forebay_env::conformance::streams::{close, echo, fill, painted, read, rest, send, write};
use forebay_env::fabric::Duplex;
use forebay_model::{Bytes, Kind, Moment, Rate, Result};
use std::cell::Cell;
use std::time::Duration;

mod faults;
mod incast;

/// A network of machines called `0`, `1` and so on, all on links of the same kind.
fn machines(world: &World, count: usize, spec: NetworkSpec, link: LinkSpec) -> (Network, Vec<Host>) {
    let network = world.network(spec);
    let hosts = (0..count).map(|number| network.host(&number.to_string(), link)).collect();
    (network, hosts)
}

/// A connection from one machine to another one: the end that asked first.
async fn pair(from: &Host, to: &Host) -> (Duplex, Duplex) {
    try_pair(from, to).await.unwrap()
}

/// The same between machines that may crash before they are connected.
async fn try_pair(from: &Host, to: &Host) -> Result<(Duplex, Duplex)> {
    let door = to.fabric().listen(&format!("{}:0", to.name())).await?;
    let connecting = from.fabric().connect(&door.address()).await?;
    Ok((connecting, door.accept().await?))
}

/// Writes for ever to `duplex`, as a task.
fn flood(world: &World, duplex: Duplex) {
    world.spawner().detach(async move {
        let piece = vec![7; 64 << 10];
        let Duplex { read, mut write, .. } = duplex;
        while send(&mut write, &piece).await.is_ok() {}
        drop(read);
    });
}

/// Reads `duplex` for ever, as a task, and counts.
fn drain(world: &World, duplex: Duplex) -> Rc<Cell<u64>> {
    let count: Rc<Cell<u64>> = Rc::default();
    let counted = count.clone();
    world.spawner().detach(async move {
        let mut piece = vec![0; 64 << 10];
        let Duplex { mut read, write, .. } = duplex;
        while let Ok(some @ 1..) = self::read(&mut read, &mut piece).await {
            counted.set(counted.get() + some as u64);
        }
        drop(write);
    });
    count
}

fn conforms(seed: u64, spec: NetworkSpec, link: LinkSpec) {
    for count in [1, 2] {
        let world = World::new(seed);
        let (_, hosts) = machines(&world, count, spec, link);
        let (listening, connecting) = (hosts[0].env(), hosts[count - 1].env());
        world.run(check(Ground { listening, connecting, address: "0:0".to_string() })).assert();
    }
}

#[test]
fn it_keeps_its_word() {
    seeds::each(3, |seed| {
        conforms(seed, NetworkSpec::default(), LinkSpec::gigabit());
        conforms(seed, NetworkSpec::jumbo(), LinkSpec::gigabit().with_latency(Duration::from_millis(1)));
    });
}

#[test]
fn it_keeps_its_word_where_segments_are_lost_and_late() {
    seeds::each(3, |seed| {
        let bad = LinkSpec::gigabit().with_loss(0.002).with_delays(0.01, Duration::from_micros(500));
        conforms(seed, NetworkSpec { shortest_timeout: Duration::from_millis(5), ..NetworkSpec::default() }, bad);
    });
}

#[test]
fn it_keeps_its_word_with_hardly_any_room() {
    seeds::each(3, |seed| {
        let port = NetworkSpec { port_buffer: Some(Bytes::kib(20)), ..NetworkSpec::jumbo() };
        conforms(seed, port, LinkSpec::gigabit());
        let ends =
            NetworkSpec { send_buffer: Bytes::kib(96), receive_buffer: Bytes::kib(32), ..NetworkSpec::default() };
        conforms(seed, ends, LinkSpec::gigabit());
    });
}

#[test]
fn windows_of_little_more_than_a_segment_work_without_waiting() {
    let world = World::new(0);
    let spec = NetworkSpec { send_buffer: Bytes(3000), receive_buffer: Bytes(2000), ..NetworkSpec::default() };
    let (_, hosts) = machines(&world, 2, spec, LinkSpec::gigabit());
    let came = world.run(async {
        let (mut one, mut other) = pair(&hosts[0], &hosts[1]).await;
        world.spawner().detach(async move {
            send(&mut one.write, &painted(1, 1 << 20)).await.unwrap();
        });
        rest(&mut other.read).await.unwrap()
    });
    assert!(came == painted(1, 1 << 20), "{} bytes came, or others", came.len());
    assert!(world.now() < Moment(1_000_000_000), "{:?}", world.now());
}

/// A little of everything, by chance.
fn history(seed: u64) -> (u64, Moment, Counters) {
    let world = World::new(seed);
    let link = LinkSpec::gigabit().with_loss(0.001).with_delays(0.01, Duration::from_micros(200));
    let (network, hosts) = machines(&world, 5, NetworkSpec::default(), link);
    let random = world.random();
    for number in 0..20 {
        let (from, to) = (hosts[random.below(5) as usize].clone(), hosts[random.below(5) as usize].clone());
        world.spawner().detach(async move {
            let Ok((mut one, other)) = try_pair(&from, &to).await else { return };
            to.env().spawner.detach(async move {
                // What went wrong shows at the other end.
                let _ = echo(other).await;
            });
            let _ = send(&mut one.write, &painted(number, 100_000)).await;
            let _ = rest(&mut one.read).await;
        });
    }
    world.run_for(Duration::from_millis(3));
    network.partition(&[&hosts[0]], &[&hosts[1], &hosts[2]]);
    hosts[4].crash();
    world.run_for(Duration::from_millis(300));
    network.heal();
    hosts[4].restart();
    world.run_for(Duration::from_secs(1));
    (world.trace(), world.now(), network.counters())
}

#[test]
fn the_same_seed_gives_the_same_history_and_another_seed_another() {
    seeds::each(5, |seed| {
        let first = history(seed);
        assert_eq!(first, history(seed), "seed {seed} gave two histories");
        assert_ne!(first.0, history(seed + 1000).0);
    });
}

#[test]
fn the_trace_tells_different_bytes_apart() {
    let trace = |byte| {
        let world = World::new(0);
        let (_, hosts) = machines(&world, 2, NetworkSpec::default(), LinkSpec::gigabit());
        world.run(async {
            let (mut one, mut other) = pair(&hosts[0], &hosts[1]).await;
            send(&mut one.write, &[1, 2, 3, byte]).await.unwrap();
            fill(&mut other.read, &mut [0; 4]).await.unwrap();
        });
        world.trace()
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

/// Bytes that arrive at machine 0 in a second of floods from all others, the first quarter of a second left out.
fn arriving(senders: usize, spec: NetworkSpec) -> (Vec<u64>, Counters) {
    let world = World::new(1);
    let (network, hosts) = machines(&world, senders + 1, spec, LinkSpec::gigabit());
    let counts: Vec<_> = hosts[1..]
        .iter()
        .map(|host| {
            let (to, from) = world.run(pair(&hosts[0], host));
            flood(&world, from);
            drain(&world, to)
        })
        .collect();
    world.run_for(Duration::from_millis(250));
    let before: Vec<u64> = counts.iter().map(|count| count.get()).collect();
    let counters = network.counters();
    world.run_for(Duration::from_secs(1));
    let arrived = counts.iter().zip(before).map(|(count, before)| count.get() - before).collect();
    (arrived, network.counters() - counters)
}

#[test]
fn one_connection_fills_a_link() {
    let (arrived, counters) = arriving(1, NetworkSpec::jumbo());
    assert!(arrived[0] * 100 >= 125_000_000 * 95, "{arrived:?}");
    assert_eq!((counters.drops, counters.timeouts), (0, 0));
    // Of small frames the headers are a larger part.
    let (arrived, _) = arriving(1, NetworkSpec::default());
    assert!(arrived[0] * 1538 * 100 >= 125_000_000 * 1448 * 99, "{arrived:?}");
}

#[test]
fn two_connections_share_a_link() {
    let (arrived, _) = arriving(2, NetworkSpec::default());
    let total: u64 = arrived.iter().sum();
    assert!(total * 100 >= 125_000_000 * 90, "{arrived:?}");
    assert!(arrived.iter().all(|one| one * 4 >= total), "{arrived:?}");
}

#[test]
fn a_small_question_takes_four_latencies_and_little_more() {
    let world = World::new(0);
    let (_, hosts) = machines(&world, 2, NetworkSpec::default(), LinkSpec::gigabit());
    let taken = world.run(async {
        let (mut one, other) = pair(&hosts[0], &hosts[1]).await;
        hosts[1].env().spawner.detach(async move {
            echo(other).await.unwrap();
        });
        let start = world.now();
        send(&mut one.write, &[1; 100]).await.unwrap();
        fill(&mut one.read, &mut [0; 100]).await.unwrap();
        world.now().since(start)
    });
    // 190 bytes four times over a link, and four times its length.
    assert_eq!(taken, Duration::from_nanos(4 * (1520 + 20_000)));
}

#[test]
fn who_does_not_read_takes_two_buffers_and_not_a_byte_more_and_is_given_up() {
    let world = World::new(0);
    let (_, hosts) = machines(&world, 2, NetworkSpec::default(), LinkSpec::gigabit());
    let (one, mut other) = world.run(pair(&hosts[0], &hosts[1]));
    let taken: Rc<Cell<usize>> = Rc::default();
    let over: Rc<Cell<bool>> = Rc::default();
    let (counted, ended) = (taken.clone(), over.clone());
    world.spawner().detach(async move {
        let Duplex { read, write: mut writing, .. } = one;
        let error = loop {
            match write(&mut writing, &[9; 10_000]).await {
                Ok(some) => counted.set(counted.get() + some),
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        ended.set(true);
        drop(read);
    });
    world.run_for(Duration::from_secs(25));
    // A writer is woken only when a quarter of its buffer is free.
    assert!((448 << 10..=512 << 10).contains(&taken.get()), "{}", taken.get());
    world.run(async {
        let mut half = vec![0; 256 << 10];
        fill(&mut other.read, &mut half).await.unwrap();
    });
    world.run_for(Duration::from_secs(1));
    assert!((704 << 10..=768 << 10).contains(&taken.get()), "{}", taken.get());
    // Who has no room still answers, and that is not enough for ever: so it is with the kernel's limit as well.
    world.run_for(Duration::from_secs(20));
    assert!(!over.get());
    world.run_for(Duration::from_secs(30));
    assert!(over.get());
    world.run(async {
        let came = fill(&mut other.read, &mut vec![0; 1 << 20]).await;
        assert_eq!(came.unwrap_err().kind(), std::io::ErrorKind::ConnectionReset);
    });
}

#[test]
fn a_silent_connection_moves_no_time() {
    let world = World::new(0);
    let (_, hosts) = machines(&world, 2, NetworkSpec::default(), LinkSpec::gigabit());
    let _kept = world.run(pair(&hosts[0], &hosts[1]));
    world.run_for(Duration::from_secs(1));
    let stuck = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| world.run(std::future::pending::<()>())));
    let said = *stuck.unwrap_err().downcast::<String>().unwrap();
    assert!(said.contains("everything waits and nothing will happen"), "{said}");
}

#[test]
fn a_kill_ends_all_connections_and_the_next_run_makes_new_ones() {
    let world = World::new(0);
    let (network, hosts) = machines(&world, 2, NetworkSpec::default(), LinkSpec::gigabit());
    for _ in 0..3 {
        world.run(async {
            // The same port each time: nothing of an earlier run listens there.
            let door = hosts[0].fabric().listen("0:7400").await.unwrap();
            let asking = hosts[1].fabric().connect("0:7400").await.unwrap();
            flood(&world, asking);
            let taken = door.accept().await.unwrap();
            world.spawner().detach(async move {
                let _kept = (door, taken);
                std::future::pending::<()>().await;
            });
        });
        world.run_for(Duration::from_millis(1));
        assert_eq!(network.connections().len(), 2);
        world.kill();
        assert_eq!(network.connections(), []);
    }
}

#[test]
fn a_run_of_ten_thousand_connections_leaves_nothing_behind() {
    let world = World::new(0);
    let (network, hosts) = machines(&world, 2, NetworkSpec::default(), LinkSpec::gigabit());
    world.run(async {
        let door = hosts[0].fabric().listen("0:7400").await.unwrap();
        for number in 0..10_000 {
            let mut asking = hosts[1].fabric().connect("0:7400").await.unwrap();
            let mut taken = door.accept().await.unwrap();
            send(&mut asking.write, &[1; 10]).await.unwrap();
            match number % 3 {
                0 => drop(asking),
                1 => drop(taken),
                _ => {
                    close(&mut asking.write).await.unwrap();
                    assert_eq!(rest(&mut taken.read).await.unwrap(), [1; 10]);
                }
            }
        }
    });
    world.run_for(Duration::from_secs(120));
    assert_eq!(network.connections(), []);
}
