//! Many senders into one port: a file that is striped over machines is read in order, a window from each at a time, so that
//! while one machine waits for a time-out the others have nothing to do.

use super::*;

/// The share of the link, in percent, that a reader gets who asks each sender for a window, and again when all have come.
fn share(senders: usize, window: Bytes, timeout: Duration, port_buffer: Option<Bytes>) -> (u64, Counters) {
    let world = World::new(3);
    let spec = NetworkSpec {
        receive_buffer: window,
        send_buffer: Bytes::kib(256),
        shortest_timeout: timeout,
        port_buffer,
        ..NetworkSpec::default()
    };
    let (network, hosts) = machines(&world, senders + 1, spec, LinkSpec::gigabit());
    let mut parts = Vec::new();
    let length = window.0 as usize;
    for host in &hosts[1..] {
        let (asking, Duplex { read: mut asked, write: mut answer, .. }) = world.run(pair(&hosts[0], host));
        parts.push(asking);
        world.spawner().detach(async move {
            let part = vec![1; length];
            while fill(&mut asked, &mut [0]).await.unwrap() == 1 {
                send(&mut answer, &part).await.unwrap();
            }
        });
    }
    let count: Rc<Cell<u64>> = Rc::default();
    let counted = count.clone();
    world.spawner().detach(async move {
        let mut into = vec![0; length];
        loop {
            for part in &mut parts {
                send(&mut part.write, &[1]).await.unwrap();
            }
            for part in &mut parts {
                counted.set(counted.get() + fill(&mut part.read, &mut into).await.unwrap() as u64);
            }
        }
    });
    world.run_for(Duration::from_secs(4));
    (count.get() * 100 / (4 * 125_000_000), network.counters())
}

/// What a port of a small switch keeps.
const PORT: Option<Bytes> = Some(Bytes::kib(256));
const LONG: Duration = Duration::from_millis(200);

#[test]
fn many_senders_with_large_windows_collapse_and_few_with_small_ones_do_not() {
    let (many, counters) = share(30, Bytes::kib(256), LONG, PORT);
    assert!(many < 40, "30 senders with 256 KiB have {many} %: {counters:?}");
    assert!(counters.drops > 1000 && counters.timeouts > 50 && counters.duplicate_acks > 1000, "{counters:?}");
    let (few, counters) = share(10, Bytes::kib(64), LONG, PORT);
    assert!(few >= 45, "10 senders with 64 KiB have {few} %: {counters:?}");
}

#[test]
fn windows_that_fit_into_the_port_lose_nothing() {
    let (few, counters) = share(10, Bytes::kib(64), LONG, Some(Bytes::kib(768)));
    assert!(few >= 80, "10 senders with 64 KiB have {few} %: {counters:?}");
    assert_eq!((counters.drops, counters.timeouts, counters.duplicate_acks), (0, 0, 0));
}

#[test]
fn shorter_timeouts_mend_part_of_it_and_ports_without_limit_all() {
    let (long, _) = share(30, Bytes::kib(256), LONG, PORT);
    let (short, _) = share(30, Bytes::kib(256), Duration::from_millis(50), PORT);
    assert!(short >= 2 * long && short < 80, "50 ms: {short} %, 200 ms: {long} %");
    let (unlimited, counters) = share(30, Bytes::kib(256), LONG, None);
    assert!(unlimited >= 85, "{unlimited} %: {counters:?}");
    assert_eq!(counters.drops, 0);
}
