#![allow(clippy::disallowed_methods, reason = "tests stand outside of the doors")]

use super::FileSource;
use crate::export::{Format, exporter};
use crate::packets::{PacketReader, Step};
use crate::source::Source;
use crate::testing::{Collector, Dice, EPOCH, Event, ManualClock, Piece, Shared, Stutter, tshark};
use crate::{pcap, pcapng};
use forebay_model::packet::LinkType;
use forebay_model::{Bytes, Cause, Gap, Result, Timestamp};
use std::io::Cursor;
use std::time::Duration;

/// Ethernet, IPv4, UDP: what tshark knows without being told.
fn datagram(number: u8, length: usize) -> Vec<u8> {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
    frame.extend((28 + length as u16).to_be_bytes());
    frame.extend([0, number, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x30, 0x39, 0x30, 0x3a]);
    frame.extend((8 + length as u16).to_be_bytes());
    frame.extend([0, 0]);
    frame.extend(vec![number; length]);
    frame
}

fn events() -> Vec<Event> {
    let mut events = Vec::new();
    for i in 0..50 {
        let time = Timestamp(EPOCH.0 + i64::from(i) * 1_000_003);
        if i % 20 == 19 {
            let (first, last) = (time.before(Duration::from_micros(5)), time);
            events.push(Event::Gap(Gap { cause: Cause::Kernel, count: Some(i as u64), first, last }));
        }
        events.push(Event::Element(time, datagram(i as u8, 18 + i as usize * 20)));
    }
    events
}

fn export(events: &[Event], format: Format) -> Vec<u8> {
    let output = Shared::default();
    let mut exporter = exporter(format, Box::new(output.clone()), "export").unwrap();
    for (sequence, event) in events.iter().enumerate() {
        match event {
            Event::Element(time, payload) => exporter.element(sequence as u64, *time, &[payload], &[]).unwrap(),
            Event::Gap(gap) => exporter.gap(gap).unwrap(),
        }
    }
    exporter.finish().unwrap();
    output.bytes()
}

fn record(bytes: &[u8]) -> Vec<Event> {
    let clock = ManualClock::new();
    let mut source = FileSource::new(Box::new(Cursor::new(bytes.to_vec())), "trace", Bytes::mib(1), clock.clone());
    let mut sink = Collector::new(clock);
    source.run(&mut sink).unwrap();
    sink.events
}

fn pcapng_format() -> Format {
    Format::Pcapng { link: LinkType::ETHERNET, interface: None }
}

#[test]
fn captures_survive_the_way_from_format_to_format() {
    let events = events();
    let elements: Vec<_> = events.iter().filter(|e| matches!(e, Event::Element(..))).cloned().collect();
    let pcapng = export(&events, pcapng_format());
    assert_eq!(record(&pcapng), events);
    let pcap = export(&record(&pcapng), Format::Pcap(LinkType::ETHERNET));
    assert_eq!(record(&pcap), elements);
    assert_eq!(record(&export(&record(&pcap), pcapng_format())), elements);
}

#[test]
fn tshark_reads_both_formats_and_sees_every_packet() {
    let events = events();
    for format in [Format::Pcap(LinkType::ETHERNET), pcapng_format()] {
        let fields = ["-T", "fields", "-e", "frame.time_epoch", "-e", "frame.len", "-e", "udp.payload"];
        let out = tshark(&export(&events, format.clone()), &fields);
        let expected: Vec<String> = events
            .iter()
            .filter_map(|event| {
                let Event::Element(time, payload) = event else { return None };
                let hex: String = payload[42..].iter().map(|b| format!("{b:02x}")).collect();
                let (seconds, nanos) = (time.0 / 1_000_000_000, time.0 % 1_000_000_000);
                Some(format!("{seconds}.{nanos:09}\t{}\t{hex}", payload.len()))
            })
            .collect();
        assert_eq!(out.lines().collect::<Vec<_>>(), expected, "{format:?}");
    }
}

#[test]
fn what_tshark_writes_is_read() {
    let events = events();
    let elements: Vec<_> = events.iter().filter(|e| matches!(e, Event::Element(..))).cloned().collect();
    for name in ["pcapng", "nsecpcap"] {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        tshark(&export(&events, pcapng_format()), &["-F", name, "-w", path.to_str().unwrap()]);
        let got = record(&std::fs::read(&path).unwrap());
        assert_eq!(got, if name == "pcapng" { events.clone() } else { elements.clone() }, "{name}");
    }
}

#[test]
fn a_paced_capture_takes_as_long_as_it_took() {
    let clock = ManualClock::new();
    let bytes = export(&events(), Format::Pcap(LinkType::ETHERNET));
    let mut source = FileSource::new(Box::new(Cursor::new(bytes)), "trace", Bytes::mib(1), clock.clone()).paced();
    let mut sink = Collector::new(clock.clone());
    source.run(&mut sink).unwrap();
    assert_eq!(sink.elements().len(), 50);
    let took = crate::ClockDoor::wall(&*clock).since(EPOCH);
    assert!((Duration::from_millis(49)..Duration::from_millis(52)).contains(&took), "{took:?}");
}

#[test]
fn the_link_type_is_known_before_anything_is_recorded_and_waiting_for_it_can_be_given_up() {
    for bytes in [
        export(&events(), Format::Pcap(LinkType(113))),
        export(&[], Format::Pcapng { link: LinkType(113), interface: None }),
    ] {
        let clock = ManualClock::new();
        let mut source = FileSource::new(Stutter::pieces(&bytes, 5, &clock), "pipe", Bytes::mib(1), clock.clone());
        assert_eq!(source.link_type(), None);
        assert_eq!(source.prepare(&mut || true).unwrap(), Some(LinkType(113)));
        assert_eq!(source.link_type(), Some(LinkType(113)));
    }
    let clock = ManualClock::new();
    let mut source = FileSource::new(Stutter::pieces(&[0xd4], 1, &clock), "pipe", Bytes::mib(1), clock.clone());
    assert_eq!(source.prepare(&mut || false).unwrap(), None);
}

#[test]
fn a_stop_records_what_was_taken_out_of_the_pipe() {
    let events = events();
    let mut bytes = export(&events, Format::Pcap(LinkType::ETHERNET));
    bytes.truncate(bytes.len() - 3);
    let clock = ManualClock::new();
    let mut pieces = vec![Piece::Bytes(bytes)];
    pieces.extend((0..100).map(|_| Piece::Silence(Duration::from_millis(10))));
    pieces.push(Piece::Bytes(vec![0; 3]));
    let input = Box::new(Stutter { pieces: pieces.into(), clock: clock.clone() });
    let mut source = FileSource::new(input, "pipe", Bytes::mib(1), clock.clone());
    let mut sink = Collector::new(clock);
    sink.enough = 1;
    let summary = source.run(&mut sink).unwrap();
    assert_eq!((summary.elements, summary.stopped), (49, true), "all but the one that was cut off");
}

#[test]
fn a_damaged_capture_is_named_and_what_was_before_is_offered() {
    let bytes = export(&events(), pcapng_format());
    let clock = ManualClock::new();
    let input = Box::new(Cursor::new(bytes[..1000].to_vec()));
    let mut source = FileSource::new(input, "trace.pcapng", Bytes::mib(1), clock.clone());
    let mut sink = Collector::new(clock);
    let message = source.run(&mut sink).unwrap_err().message;
    assert!(message.starts_with("trace.pcapng: this pcapng capture is cut off in the block at byte "), "{message}");
    assert!(message.contains(&format!("{} packets (", sink.elements().len())), "{message}");
    assert_eq!(source.describe(), "pcapng packets from trace.pcapng");
}

#[test]
fn the_sink_ticks_while_a_capture_is_read_slowly_or_passed_over() {
    let mut writer = pcapng::Writer::new(Vec::new(), LinkType::ETHERNET, None).unwrap();
    writer.packet(EPOCH, &[b"x"]).unwrap().unwrap();
    let mut bytes = writer.finish().unwrap();
    // A block of 3 MiB of somebody else.
    let length = (3u32 << 20).to_le_bytes();
    bytes.extend(0x0bad_cafeu32.to_le_bytes());
    bytes.extend(length);
    bytes.extend(vec![0; (3 << 20) - 12]);
    bytes.extend(length);
    let clock = ManualClock::new();
    let mut source = FileSource::new(Stutter::pieces(&bytes, 4096, &clock), "pipe", Bytes::mib(1), clock.clone());
    let mut sink = Collector::new(clock);
    source.run(&mut sink).unwrap();
    assert!(sink.ticks > 10 && sink.longest < Duration::from_millis(50), "{} {:?}", sink.ticks, sink.longest);
}

/// The packets of a capture read without any of ours between, for comparison.
fn plain(bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
    let mut reader = PacketReader::new(Box::new(Cursor::new(bytes.to_vec())), Bytes::mib(1));
    let mut packets = Vec::new();
    loop {
        match reader.step()? {
            Step::Packet(packet) => packets.push(packet.data.to_vec()),
            Step::End => return Ok(packets),
            _ => {}
        }
    }
}

#[test]
fn a_capture_of_many_buffers_is_read_whole() {
    let mut dice = Dice(5);
    let packets: Vec<Vec<u8>> = (0..3000).map(|i| dice.bytes(if i % 100 == 0 { 200_000 } else { 900 })).collect();
    let mut writer = pcap::Writer::new(Vec::new(), LinkType::ETHERNET).unwrap();
    packets.iter().for_each(|packet| writer.packet(EPOCH, &[packet]).unwrap().unwrap());
    assert_eq!(plain(&writer.finish().unwrap()).unwrap(), packets);
}
