#![allow(clippy::disallowed_methods, reason = "tests stand outside of the doors")]

use super::UdpSource;
use crate::feed::TICK;
use crate::source::{ClockDoor, Source};
use crate::testing::{Collector, Event, MachineClock, in_own_network, ip, pair};
use forebay_env::real::udp::{UdpOptions, UdpReceiver};
use forebay_model::{Bytes, Cause, Kind, Moment, Timestamp};
use socket2::{Domain, SockAddr, Socket, Type};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn at(address: &str) -> UdpOptions {
    UdpOptions { address: address.parse().unwrap(), interface: None, buffer: Bytes::mib(8) }
}

fn send(socket: &Socket, to: SocketAddr, payload: &[u8]) {
    assert_eq!(socket.send_to(payload, &SockAddr::from(to)).unwrap(), payload.len());
}

fn sender() -> Socket {
    Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap()
}

#[test]
fn every_datagram_is_an_element() {
    let clock = MachineClock::new();
    for address in ["127.0.0.1:0", "[::1]:0"] {
        let mut source = UdpSource::open(&at(address), None, clock.clone()).unwrap();
        let socket = Socket::new(Domain::for_address(source.address()), Type::DGRAM, None).unwrap();
        let payloads: Vec<Vec<u8>> = (0..300).map(|i| vec![i as u8; [0, 1, 1400, 60_000][i % 4]]).collect();
        payloads.iter().for_each(|payload| send(&socket, source.address(), payload));
        let mut sink = Collector::new(clock.clone());
        // All was sent before the first tick, so a stop at once must not lose any of it.
        sink.enough = 0;
        let summary = source.run(&mut sink).unwrap();
        assert_eq!(sink.elements(), payloads);
        assert_eq!((summary.gaps, summary.stopped), (0, true));
        let times: Vec<_> =
            sink.events.iter().map(|e| if let Event::Element(time, _) = e { time.0 } else { 0 }).collect();
        assert!(times.is_sorted() && times[0] > 1_600_000_000_000_000_000);
    }
}

#[test]
fn frames_are_cut_out_of_datagrams_and_what_is_left_is_rejected() {
    let clock = MachineClock::new();
    let mut source = UdpSource::open(&at("127.0.0.1:0"), Some(Bytes(4)), clock.clone()).unwrap();
    for payload in [&b"aaaabbbb"[..], b"ccccdd", b"", b"eeee"] {
        send(&sender(), source.address(), payload);
    }
    let mut sink = Collector::new(clock);
    sink.enough = 0;
    source.run(&mut sink).unwrap();
    assert_eq!(sink.elements(), [b"aaaa", b"bbbb", b"cccc", b"eeee"]);
    let rejected: Vec<_> = sink.gaps().iter().map(|gap| (gap.cause, gap.count)).collect();
    assert_eq!(rejected, [(Cause::Rejected, Some(1))]);
    assert!(matches!(sink.events[3], Event::Gap(_)));
}

#[test]
fn of_frames_that_the_kernel_dropped_it_is_said_how_many_only_where_each_datagram_had_as_many() {
    const SENT: u64 = 500;
    for (first, frames) in [(1000, Some(2)), (500, None), (1001, None), (0, None)] {
        let clock = MachineClock::new();
        let small = UdpOptions { buffer: Bytes::kib(64), ..at("127.0.0.1:0") };
        let mut source = UdpSource::open(&small, Some(Bytes(500)), clock.clone()).unwrap();
        let (socket, to) = (sender(), source.address());
        send(&socket, to, &vec![1; first]);
        (0..SENT).for_each(|_| send(&socket, to, &[1; 1000]));
        let mut sink = Collector::new(clock);
        sink.enough = 0;
        source.run(&mut sink).unwrap();
        let got = sink.elements().len() as u64;
        assert!(got < SENT, "some were dropped");
        let dropped: Vec<_> = sink.gaps().into_iter().filter(|gap| gap.cause == Cause::Kernel).collect();
        let missing = frames.map(|frames| (SENT + 1) * frames - got);
        assert_eq!((dropped.len(), dropped[0].count), (1, missing), "{first} bytes in the first");
    }
}

#[test]
fn what_the_kernel_dropped_is_a_gap_before_the_next_datagram_or_at_the_end() {
    let clock = MachineClock::new();
    let small = UdpOptions { buffer: Bytes::kib(64), ..at("127.0.0.1:0") };
    let mut source = UdpSource::open(&small, None, clock.clone()).unwrap();
    let (socket, to) = (sender(), source.address());
    const SENT: u64 = 500;
    (0..SENT).for_each(|_| send(&socket, to, &[1; 1000]));
    let mut later = false;
    let mut sink = Collector::new(clock);
    sink.on_tick = Box::new(|events| {
        if !later {
            // The queue has been emptied by now; this one is told of what was dropped, unless the counter was first.
            send(&socket, to, b"later");
            later = true;
        }
        !matches!(events.last(), Some(Event::Element(_, payload)) if payload == b"later")
    });
    let summary = source.run(&mut sink).unwrap();
    assert_eq!(summary.elements + summary.missing, SENT + 1);
    let gaps = sink.gaps();
    assert_eq!((gaps.len(), gaps[0].cause), (1, Cause::Kernel));
    assert!(gaps[0].count > Some(100) && gaps[0].first <= gaps[0].last, "{}", gaps[0]);
    assert!(matches!(sink.events[sink.events.len() - 2], Event::Gap(_)), "the gap is in its place");
}

#[test]
fn drops_that_no_datagram_follows_are_found_by_asking() {
    let clock = MachineClock::new();
    let small = UdpOptions { buffer: Bytes::kib(64), ..at("127.0.0.1:0") };
    let mut source = UdpSource::open(&small, None, clock.clone()).unwrap();
    (0..500).for_each(|_| send(&sender(), source.address(), &[1; 1000]));
    let mut sink = Collector::new(clock);
    sink.enough = 0;
    let summary = source.run(&mut sink).unwrap();
    assert_eq!((summary.elements + summary.missing, summary.gaps), (500, 1));
}

/// A clock that stands still until it is set, or somebody pauses.
#[derive(Default)]
struct SetClock {
    wall: AtomicI64,
    now: AtomicU64,
}

impl ClockDoor for SetClock {
    fn wall(&self) -> Timestamp {
        Timestamp(self.wall.load(Ordering::Relaxed))
    }

    fn now(&self) -> Moment {
        Moment(self.now.load(Ordering::Relaxed))
    }

    /// The sink ticks after each pause, and it is never time to ask for drops.
    fn pause(&self, _: Duration) {
        self.now.fetch_add(TICK.as_nanos() as u64, Ordering::Relaxed);
    }
}

#[test]
fn drops_that_a_datagram_after_the_stop_tells_of_are_a_gap() {
    let clock = Arc::new(SetClock::default());
    let small = UdpOptions { buffer: Bytes::kib(64), ..at("127.0.0.1:0") };
    let mut source = UdpSource::open(&small, None, clock.clone()).unwrap();
    let (socket, to) = (sender(), source.address());
    const SENT: u64 = 500;
    (0..SENT).for_each(|_| send(&socket, to, &[1; 1000]));
    let stopped = MachineClock::new();
    let mut sink = Collector::new(clock.clone());
    sink.on_tick = Box::new(|_| {
        // The queue has been emptied by now; this one is told of what was dropped, and comes after the stop.
        clock.wall.store(stopped.wall().0, Ordering::Relaxed);
        send(&socket, to, b"later");
        false
    });
    let summary = source.run(&mut sink).unwrap();
    assert!(summary.elements < SENT, "some were dropped");
    assert_eq!(summary.elements + summary.missing, SENT);
    let gaps = sink.gaps();
    assert_eq!((gaps.len(), gaps[0].cause), (1, Cause::Kernel));
    assert!(gaps[0].first <= gaps[0].last && gaps[0].last == clock.wall(), "{}", gaps[0]);
}

#[test]
fn a_multicast_group_is_joined_on_its_interface_and_again_when_that_comes_back() {
    in_own_network(|| {
        for (name, value) in [("accept_local", "1"), ("rp_filter", "0")] {
            // Both ends of the pair are in this network, so what arrives bears an address of our own.
            for which in ["all", "default"] {
                std::fs::write(format!("/proc/sys/net/ipv4/conf/{which}/{name}"), value).unwrap();
            }
        }
        let up = || {
            pair();
            ip("addr add 10.77.0.1/24 dev fb0");
            ip("addr add 10.77.0.2/24 dev fb1");
        };
        up();
        let clock = MachineClock::new();
        let group: SocketAddr = "239.1.2.3:4567".parse().unwrap();
        let options = UdpOptions { interface: Some("fb1".into()), ..at("239.1.2.3:4567") };
        let mut source = UdpSource::open(&options, None, clock.clone()).unwrap();
        let post = |payload: &[u8]| {
            let socket = sender();
            socket.set_multicast_if_v4(&Ipv4Addr::new(10, 77, 0, 1)).unwrap();
            socket.set_multicast_loop_v4(false).unwrap();
            send(&socket, group, payload);
        };
        post(b"first");
        let mut ticks_away = 0;
        let removed = Mutex::new(Timestamp::MAX);
        let mut sink = Collector::new(clock.clone());
        sink.on_tick = Box::new(|events| {
            match (events.len(), ticks_away) {
                (1, 0) => {
                    *removed.lock().unwrap() = clock.wall();
                    ip("link del fb0");
                    ticks_away = 1;
                }
                // Longer than it takes to look.
                (1, 1..30) => ticks_away += 1,
                (1, 30) => {
                    up();
                    ticks_away += 1;
                }
                (2, 31) => {
                    post(b"second");
                    ticks_away += 1;
                }
                _ => {}
            }
            events.len() < 3
        });
        source.run(&mut sink).unwrap();
        assert_eq!(sink.elements(), [b"first".to_vec(), b"second".to_vec()]);
        let gaps = sink.gaps();
        assert_eq!((gaps.len(), gaps[0].cause, gaps[0].count), (1, Cause::SourceAway, None));
        let Event::Element(before, _) = sink.events[0] else { panic!("a gap") };
        let removed = *removed.lock().unwrap();
        assert!(gaps[0].first == before && before <= removed && removed < gaps[0].last, "{} {removed}", gaps[0]);
    });
}

#[test]
fn a_multicast_group_is_joined_again_however_often_its_interface_was_made_anew() {
    in_own_network(|| {
        pair();
        let options = UdpOptions { interface: Some("fb1".into()), ..at("239.1.2.3:0") };
        let mut receiver = UdpReceiver::open(&options).unwrap();
        // More often than the kernel lets a socket have groups.
        for round in 0..25 {
            ip("link del fb0");
            pair();
            assert!(!receiver.is_joined(), "{round}");
            receiver.join().unwrap_or_else(|e| panic!("{round}: {e}"));
        }
    });
}

#[test]
fn what_cannot_be_received_is_refused_with_the_remedy() {
    in_own_network(|| {
        let clock = MachineClock::new();
        let open = |options: &UdpOptions| UdpSource::open(options, None, clock.clone());
        let taken = open(&at("127.0.0.1:0")).unwrap();
        let refused = |options: &UdpOptions| open(options).err().unwrap();
        assert_eq!(refused(&at(&taken.address().to_string())).kind, Kind::Busy);
        assert!(refused(&at("192.0.2.1:5")).message.contains("no address of this machine"));
        assert!(refused(&at("239.1.1.1:5")).message.contains("say on which interface"));
        let nowhere = UdpOptions { interface: Some("fb9".into()), ..at("239.1.1.1:5") };
        assert_eq!(refused(&nowhere).kind, Kind::Missing);
        let error = UdpSource::open(&at("127.0.0.1:0"), Some(Bytes(0)), clock.clone()).err().unwrap();
        assert_eq!(error.kind, Kind::Usage);
    });
}
