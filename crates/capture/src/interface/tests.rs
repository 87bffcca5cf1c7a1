//! Real frames on pairs of virtual Ethernet interfaces, in networks that exist for one test only.

use super::InterfaceSource;
use crate::export::{Format, exporter};
use crate::source::{ClockDoor, Source};
use crate::testing::{Collector, Dice, Event, MachineClock, Shared, in_own_network, ip, pair, pair_is_up, tshark};
use forebay_env::real::packet::PacketOptions;
use forebay_model::{Bytes, Cause, Kind, Timestamp};
use std::os::fd::AsRawFd;
use std::sync::Mutex;

/// Sends frames out of an interface.
struct Sender(socket2::Socket, libc::sockaddr_ll);

impl Sender {
    fn new(interface: &str) -> Sender {
        let name = std::ffi::CString::new(interface).unwrap();
        // SAFETY: a string that ends with a zero, and a plain structure for which all zeros is valid.
        let (index, mut address) =
            unsafe { (libc::if_nametoindex(name.as_ptr()), std::mem::zeroed::<libc::sockaddr_ll>()) };
        assert_ne!(index, 0, "{interface}");
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_ifindex = index as i32;
        let protocol = Some(socket2::Protocol::from(0));
        Sender(socket2::Socket::new(socket2::Domain::PACKET, socket2::Type::RAW, protocol).unwrap(), address)
    }

    fn send(&self, frame: &[u8]) {
        // SAFETY: frame and address are as long as is said.
        let sent = unsafe {
            let length = std::mem::size_of::<libc::sockaddr_ll>() as u32;
            let address = (&raw const self.1).cast();
            libc::sendto(self.0.as_raw_fd(), frame.as_ptr().cast(), frame.len(), 0, address, length)
        };
        assert_eq!(sent, frame.len() as isize, "{}", std::io::Error::last_os_error());
    }
}

/// A frame with a protocol that nobody else uses.
fn frame(number: u32, length: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    frame.extend(number.to_be_bytes());
    frame.extend(Dice(u64::from(number)).bytes(length - 18));
    frame
}

fn options() -> PacketOptions {
    PacketOptions { ring: Bytes::mib(8), ..PacketOptions::default() }
}

#[test]
fn all_frames_arrive_as_they_were_sent_and_tshark_agrees() {
    in_own_network(|| {
        pair();
        let clock = MachineClock::new();
        let mut source = InterfaceSource::open("fb1", options(), clock.clone()).unwrap();
        let sender = Sender::new("fb0");
        let frames: Vec<_> = (0..2000).map(|i| frame(i, 60 + (i as usize * 7) % 1400)).collect();
        let before = clock.wall();
        frames.iter().for_each(|frame| sender.send(frame));
        let mut sink = Collector::new(clock.clone());
        // Everything was sent before the first tick, so a stop at once must not lose any of it.
        sink.enough = 0;
        let summary = source.run(&mut sink).unwrap();
        assert_eq!(sink.elements(), frames);
        assert_eq!((summary.elements, summary.gaps, summary.stopped), (2000, 0, true));
        let mut last = before;
        let output = Shared::default();
        let link = source.link_type();
        let format = Format::Pcapng { link, interface: Some("fb1".into()) };
        let mut export = exporter(format, Box::new(output.clone()), "export").unwrap();
        for (sequence, event) in sink.events.iter().enumerate() {
            let Event::Element(time, payload) = event else { panic!("a gap") };
            assert!(*time >= last, "times of the kernel are in order");
            last = *time;
            export.element(sequence as u64, *time, &[payload], &[]).unwrap();
        }
        assert!(last <= clock.wall());
        export.finish().unwrap();
        let out = tshark(&output.bytes(), &["-T", "fields", "-e", "frame.len", "-e", "eth.type"]);
        let expected: Vec<_> = frames.iter().map(|frame| format!("{}\t0x88b5", frame.len())).collect();
        assert_eq!(out.lines().collect::<Vec<_>>(), expected);
    });
}

#[test]
fn frames_that_come_one_by_one_are_all_there_round_and_round() {
    in_own_network(|| {
        pair();
        let clock = MachineClock::new();
        // Five blocks: no number of them passed over in a round would come out even.
        let small = PacketOptions { ring: Bytes::mib(5), ..options() };
        let mut source = InterfaceSource::open("fb1", small, clock.clone()).unwrap();
        let sender = Sender::new("fb0");
        const SENT: usize = 23;
        let mut sent = 0;
        let mut sink = Collector::new(clock);
        // Each goes out once the one before has arrived, so each has a block of its own.
        sink.on_tick = Box::new(|events| {
            if events.len() == sent && sent < SENT {
                sender.send(&frame(sent as u32, 100));
                sent += 1;
            }
            events.len() < SENT
        });
        source.run(&mut sink).unwrap();
        let wanted: Vec<_> = (0..SENT as u32).map(|i| frame(i, 100)).collect();
        assert_eq!((sink.elements(), sink.gaps()), (wanted, vec![]));
    });
}

#[test]
fn vlan_tags_are_put_back_and_long_frames_are_cut() {
    in_own_network(|| {
        pair();
        let clock = MachineClock::new();
        let cut = PacketOptions { snaplen: 100, promiscuous: true, ..options() };
        let mut source = InterfaceSource::open("fb1", cut, clock.clone()).unwrap();
        let sender = Sender::new("fb0");
        let mut tagged = frame(1, 60);
        tagged.splice(12..12, [0x81, 0, 0x60, 42]);
        let mut service = frame(2, 70);
        service.splice(12..12, [0x88, 0xa8, 0x20, 7]);
        let long = frame(3, 500);
        [&tagged, &service, &long].into_iter().for_each(|frame| sender.send(frame));
        let mut sink = Collector::new(clock);
        sink.enough = 0;
        source.run(&mut sink).unwrap();
        assert_eq!(sink.elements(), [tagged, service, long[..100].to_vec()]);
        assert_eq!(sink.cuts, [(2, 400)]);
    });
}

#[test]
fn what_the_kernel_dropped_is_a_gap_with_its_count() {
    in_own_network(|| {
        pair();
        let clock = MachineClock::new();
        let small = PacketOptions { ring: Bytes::mib(2), ..options() };
        let mut source = InterfaceSource::open("fb1", small, clock.clone()).unwrap();
        let sender = Sender::new("fb0");
        const SENT: u32 = 5000;
        (0..SENT).for_each(|i| sender.send(&frame(i, 1400)));
        // Nobody listened so far: the ring is full, and the rest is lost. Then the kernel has room again.
        let mut more = 0;
        let mut sink = Collector::new(clock.clone());
        sink.on_tick = Box::new(|events| {
            if more < 3 {
                sender.send(&frame(SENT + more, 100));
                more += 1;
            }
            !ends_with(events, &frame(SENT + 2, 100))
        });
        let summary = source.run(&mut sink).unwrap();
        assert_eq!(summary.elements + summary.missing, u64::from(SENT) + 3);
        let gaps = sink.gaps();
        assert_eq!(gaps.len(), 1, "{gaps:?}");
        assert_eq!(gaps[0].cause, Cause::Kernel);
        assert!(gaps[0].first < gaps[0].last);
        let at = sink.events.iter().position(|event| matches!(event, Event::Gap(_))).unwrap();
        let held: Vec<_> = (0..at as u32).map(|i| frame(i, 1400)).collect();
        assert_eq!(sink.elements()[..at], held, "the gap is behind what the kernel could hold");
        assert_eq!(sink.elements()[at..].len(), 3, "and before what came later");
    });
}

/// Whether this was the last thing offered.
fn ends_with(events: &[Event], payload: &[u8]) -> bool {
    matches!(events.last(), Some(Event::Element(_, last)) if last == payload)
}

#[test]
fn an_interface_that_goes_away_and_comes_back_leaves_a_gap_and_no_more() {
    in_own_network(|| {
        pair();
        let clock = MachineClock::new();
        let mut source = InterfaceSource::open("fb1", options(), clock.clone()).unwrap();
        Sender::new("fb0").send(&frame(0, 60));
        let removed = Mutex::new(Timestamp::MAX);
        let mut away = 0;
        let mut sink = Collector::new(clock.clone());
        sink.on_tick = Box::new(|events| {
            match (events.len(), away) {
                (1, 0) => {
                    *removed.lock().unwrap() = clock.wall();
                    ip("link del fb0");
                    away += 1;
                }
                // It stays away for some ticks.
                (1, 1..10) => away += 1,
                (1, 10) => {
                    pair();
                    away += 1;
                }
                (2, 11) => {
                    Sender::new("fb0").send(&frame(1, 60));
                    away += 1;
                }
                _ => {}
            }
            !ends_with(events, &frame(1, 60))
        });
        let summary = source.run(&mut sink).unwrap();
        assert_eq!(sink.elements(), [frame(0, 60), frame(1, 60)]);
        let gaps = sink.gaps();
        assert_eq!((gaps.len(), gaps[0].cause, gaps[0].count), (1, Cause::SourceAway, None));
        let Event::Element(before, _) = sink.events[0] else { panic!("a gap") };
        let removed = *removed.lock().unwrap();
        assert!(gaps[0].first == before && before <= removed && removed < gaps[0].last, "{} {removed}", gaps[0]);
        assert!(matches!(sink.events[1], Event::Gap(_)));
        assert_eq!(summary.gaps, 1);
        assert!(sink.longest.as_millis() < 500, "ticks went on: {:?}", sink.longest);
    });
}

#[test]
fn the_gap_of_an_interface_that_was_back_before_it_was_missed_begins_before_it_was_away() {
    in_own_network(|| {
        pair();
        let clock = MachineClock::new();
        let mut source = InterfaceSource::open("fb1", options(), clock.clone()).unwrap();
        Sender::new("fb0").send(&frame(0, 60));
        let down = Mutex::new(None);
        let mut sink = Collector::new(clock.clone());
        sink.on_tick = Box::new(|events| {
            let mut down = down.lock().unwrap();
            if events.len() == 1 && down.is_none() {
                *down = Some(clock.wall());
                ip("link set fb1 down");
                ip("link set fb1 up");
                pair_is_up();
                // The kernel goes on with the ring that there is.
                Sender::new("fb0").send(&frame(1, 60));
            }
            !events.iter().any(|event| matches!(event, Event::Gap(_)))
        });
        source.run(&mut sink).unwrap();
        assert_eq!(sink.elements(), [frame(0, 60), frame(1, 60)]);
        let (gaps, down) = (sink.gaps(), down.lock().unwrap().unwrap());
        assert_eq!((gaps.len(), gaps[0].cause), (1, Cause::SourceAway));
        assert!(gaps[0].first <= down && down < gaps[0].last, "{} {down}", gaps[0]);
    });
}

#[test]
fn a_stop_while_the_interface_is_away_records_the_gap() {
    in_own_network(|| {
        pair();
        let clock = MachineClock::new();
        let mut source = InterfaceSource::open("fb1", options(), clock.clone()).unwrap();
        let down = clock.wall();
        ip("link set fb1 down");
        let mut ticks = 0;
        let mut sink = Collector::new(clock);
        sink.on_tick = Box::new(|_| {
            ticks += 1;
            ticks < 10
        });
        let summary = source.run(&mut sink).unwrap();
        assert!(summary.stopped);
        let gaps = sink.gaps();
        assert_eq!((gaps.len(), gaps[0].cause), (1, Cause::SourceAway));
        assert!(gaps[0].first <= down && down < gaps[0].last, "{} {down}", gaps[0]);
    });
}

#[test]
fn interfaces_that_cannot_be_listened_to_are_refused_with_the_remedy() {
    in_own_network(|| {
        let clock = MachineClock::new();
        let open = |name: &str| InterfaceSource::open(name, options(), clock.clone()).err().unwrap();
        let error = open("fb7");
        assert_eq!(
            (error.kind, error.message.as_str()),
            (Kind::Missing, "there is no interface 'fb7'; those there are: lo")
        );
        let nothing = PacketOptions { snaplen: 0, ..options() };
        assert_eq!(InterfaceSource::open("lo", nothing, clock.clone()).err().unwrap().kind, Kind::Usage);
        ip("link add fb0 type veth peer name fb1");
        let error = open("fb1");
        assert_eq!(error.kind, Kind::Busy);
        assert!(error.message.contains("'ip link set fb1 up'"), "{error}");
    });
}

#[test]
fn loopback_offers_each_packet_once() {
    in_own_network(|| {
        let clock = MachineClock::new();
        let mut source = InterfaceSource::open("lo", options(), clock.clone()).unwrap();
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::DGRAM, None).unwrap();
        let address: std::net::SocketAddr = "127.0.0.1:9".parse().unwrap();
        socket.send_to(b"exactly once", &address.into()).unwrap();
        let mut sink = Collector::new(clock);
        sink.enough = 0;
        source.run(&mut sink).unwrap();
        let hits = sink.elements().iter().filter(|e| e.ends_with(b"exactly once") && e[23] == 17).count();
        assert_eq!(hits, 1);
    });
}
