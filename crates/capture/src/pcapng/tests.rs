use super::Writer;
use crate::packets::{PacketReader, Step};
use crate::testing::{Dice, Event, ManualClock, Stutter, tshark};
use forebay_model::packet::LinkType;
use forebay_model::{Bytes, Cause, Gap, Kind, Result, Timestamp};

const T: i64 = 1_700_000_000_000_000_000;

/// All that a capture tells, and how reading it ended. Packets without a time get 0.
fn read(mut reader: PacketReader) -> (Vec<Event>, Result<()>) {
    let mut events = Vec::new();
    loop {
        match reader.step() {
            Ok(Step::Packet(packet)) => {
                events.push(Event::Element(packet.time.unwrap_or_default(), packet.data.to_vec()));
            }
            Ok(Step::Gap(gap)) => events.push(Event::Gap(gap)),
            Ok(Step::End) => return (events, Ok(())),
            Ok(_) => {}
            Err(e) => return (events, Err(e)),
        }
    }
}

fn reader(bytes: &[u8]) -> PacketReader {
    PacketReader::new(Box::new(std::io::Cursor::new(bytes.to_vec())), Bytes::gib(1))
}

/// Makes captures as other programs might.
struct Foreign {
    big_endian: bool,
    bytes: Vec<u8>,
}

impl Foreign {
    fn section(big_endian: bool) -> Foreign {
        let mut foreign = Foreign { big_endian, bytes: Vec::new() };
        foreign.next_section(big_endian);
        foreign
    }

    fn next_section(&mut self, big_endian: bool) {
        self.big_endian = big_endian;
        let mut body = self.u32(0x1a2b_3c4d);
        body.extend(self.u16(1));
        body.extend(self.u16(0));
        body.extend([0xff; 8]);
        self.block(0x0a0d_0d0a, &body);
    }

    fn u16(&self, value: u16) -> Vec<u8> {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }.to_vec()
    }

    fn u32(&self, value: u32) -> Vec<u8> {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }.to_vec()
    }

    fn u64(&self, value: u64) -> Vec<u8> {
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }.to_vec()
    }

    fn block(&mut self, kind: u32, body: &[u8]) {
        let length = self.u32(12 + body.len().next_multiple_of(4) as u32);
        let kind = self.u32(kind);
        self.bytes.extend(kind);
        self.bytes.extend(&length);
        self.bytes.extend(body);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
        self.bytes.extend(&length);
    }

    fn options(&self, options: &[(u16, Vec<u8>)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (code, value) in options {
            bytes.extend(self.u16(*code));
            bytes.extend(self.u16(value.len() as u16));
            bytes.extend(value);
            bytes.resize(bytes.len().next_multiple_of(4), 0);
        }
        bytes.extend([0; 4]);
        bytes
    }

    fn interface(&mut self, link: u16, snaplen: u32, options: &[(u16, Vec<u8>)]) {
        let mut body = self.u16(link);
        body.extend([0; 2]);
        body.extend(self.u32(snaplen));
        body.extend(self.options(options));
        self.block(1, &body);
    }

    fn packet(&mut self, interface: u32, ticks: u64, data: &[u8], options: &[(u16, Vec<u8>)]) {
        let mut body = self.u32(interface);
        for value in [(ticks >> 32) as u32, ticks as u32, data.len() as u32, data.len() as u32] {
            body.extend(self.u32(value));
        }
        body.extend(data);
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(self.options(options));
        self.block(6, &body);
    }

    fn statistics(&mut self, ticks: u64, options: &[(u16, Vec<u8>)]) {
        let mut body = self.u32(0);
        body.extend(self.u32((ticks >> 32) as u32));
        body.extend(self.u32(ticks as u32));
        body.extend(self.options(options));
        self.block(5, &body);
    }
}

fn gap(cause: Cause, count: Option<u64>, first: i64, last: i64) -> Gap {
    Gap { cause, count, first: Timestamp(T + first), last: Timestamp(T + last) }
}

fn element(time: i64, data: &[u8]) -> Event {
    Event::Element(Timestamp(T + time), data.to_vec())
}

fn sample() -> (Vec<Event>, Vec<u8>) {
    let mut dice = Dice(11);
    let data: Vec<Vec<u8>> = [0, 1, 2, 3, 1514, 64].map(|length| dice.bytes(length)).to_vec();
    let kernel = gap(Cause::Kernel, Some(17), 1, 2);
    let away = gap(Cause::SourceAway, None, 2, 3_000_000_001);
    let trailing = gap(Cause::Overflow, Some(5), 3_000_000_020, 3_000_000_030);
    let mut events = Vec::new();
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET, Some("eth0")).unwrap();
    for (i, data) in data.iter().enumerate() {
        if i == 2 {
            for gap in [kernel, away] {
                writer.gap(gap);
                events.push(Event::Gap(gap));
            }
        }
        let time = 3_000_000_002 + i as i64;
        writer.packet(Timestamp(T + time), &[&data[..data.len() / 2], &data[data.len() / 2..]]).unwrap().unwrap();
        events.push(element(time, data));
    }
    writer.gap(trailing);
    events.push(Event::Gap(trailing));
    (events, writer.finish().unwrap())
}

#[test]
fn packets_and_gaps_come_back_as_they_were_written() {
    let (events, bytes) = sample();
    let mut reader = reader(&bytes);
    assert!(reader.prepare().unwrap());
    assert_eq!((reader.link_type(), reader.format()), (Some(LinkType::ETHERNET), Some("pcapng")));
    assert_eq!(read(reader), (events, Ok(())));
}

#[test]
fn a_capture_that_drips_in_is_the_same() {
    let (events, bytes) = sample();
    for size in [1, 13, 500] {
        let input = Stutter::pieces(&bytes, size, &ManualClock::new());
        assert_eq!(read(PacketReader::new(input, Bytes::gib(1))), (events.clone(), Ok(())));
    }
}

#[test]
fn tshark_sees_the_dropped_packets_and_the_causes() {
    let (_, bytes) = sample();
    let out = tshark(&bytes, &["-T", "fields", "-e", "frame.number", "-e", "frame.drop_count", "-e", "frame.comment"]);
    let rows: Vec<Vec<&str>> = out.lines().map(|line| line.split('\t').collect()).collect();
    assert_eq!(rows.len(), 6);
    assert_eq!(rows[2][1], "17");
    assert!(rows[2][2].contains("17 missing (kernel)"), "{out}");
    assert!(rows[2][2].contains("an unknown number missing (source_away)"), "{out}");
    assert!(rows.iter().enumerate().all(|(i, row)| i == 2 || row[1].is_empty()), "{out}");
}

#[test]
fn a_capture_that_is_cut_off_anywhere_gives_what_was_whole() {
    let (events, bytes) = sample();
    for cut in 0..bytes.len() {
        let (got, end) = read(reader(&bytes[..cut]));
        assert_eq!(got, events[..got.len()], "cut at {cut}");
        match end {
            // Between two blocks a capture may end.
            Ok(()) => assert!(cut.is_multiple_of(4)),
            Err(e) => assert!(e.kind == Kind::Damaged && !e.message.is_empty(), "cut at {cut}: {e}"),
        }
    }
}

#[test]
fn sections_of_either_byte_order_follow_one_another() {
    let mut foreign = Foreign::section(true);
    foreign.interface(1, 0, &[]);
    foreign.packet(0, (T / 1000) as u64, b"big", &[]);
    foreign.next_section(false);
    foreign.interface(1, 0, &[(9, vec![9])]);
    foreign.packet(0, T as u64 + 1, b"little", &[]);
    foreign.next_section(true);
    let (events, end) = read(reader(&foreign.bytes));
    assert_eq!((events, end), (vec![element(0, b"big"), element(1, b"little")], Ok(())));
}

#[test]
fn resolutions_and_offsets_of_interfaces_are_minded() {
    let mut foreign = Foreign::section(false);
    let seconds = (T / 1_000_000_000) as u64;
    let offset = foreign.u64(seconds);
    foreign.interface(1, 0, &[(9, vec![3])]);
    foreign.interface(1, 0, &[(9, vec![0x80 | 10])]);
    foreign.interface(1, 0, &[(9, vec![12])]);
    foreign.interface(1, 0, &[(14, offset)]);
    foreign.interface(1, 0, &[(9, vec![0x7f])]);
    foreign.packet(0, seconds * 1000 + 7, b"ms", &[]);
    foreign.packet(1, (seconds << 10) + 512, b"2^-10", &[]);
    foreign.packet(2, 5_000_000, b"ps", &[]);
    foreign.packet(3, 9, b"offset", &[]);
    foreign.packet(4, 9, b"10^-127", &[]);
    let (events, end) = read(reader(&foreign.bytes));
    assert_eq!(end, Ok(()));
    assert_eq!(events[0], element(7_000_000, b"ms"));
    assert_eq!(events[1], element(500_000_000, b"2^-10"));
    assert_eq!(events[2], Event::Element(Timestamp(5_000), b"ps".to_vec()));
    assert_eq!(events[3], element(9_000, b"offset"));
    assert_eq!(events[4], Event::Element(Timestamp(0), b"10^-127".to_vec()));
}

#[test]
fn simple_and_obsolete_packets_are_read() {
    let mut foreign = Foreign::section(true);
    foreign.interface(1, 4, &[]);
    let mut simple = foreign.u32(6);
    simple.extend(b"abcd");
    foreign.block(3, &simple);
    let mut obsolete = foreign.u16(0);
    obsolete.extend(foreign.u16(3));
    for value in [0, 8, 2, 2] {
        obsolete.extend(foreign.u32(value));
    }
    obsolete.extend(b"xy");
    foreign.block(2, &obsolete);
    let (events, end) = read(reader(&foreign.bytes));
    let time = Timestamp(8000);
    let lost = Gap { cause: Cause::Kernel, count: Some(3), first: time, last: time };
    let expected =
        vec![Event::Element(Timestamp(0), b"abcd".to_vec()), Event::Gap(lost), Event::Element(time, b"xy".to_vec())];
    assert_eq!((events, end), (expected, Ok(())));
}

#[test]
fn unknown_blocks_are_passed_over_whatever_their_size() {
    let mut foreign = Foreign::section(false);
    foreign.interface(1, 0, &[(9, vec![9])]);
    // Name resolution, then something of tomorrow that is larger than any buffer.
    foreign.block(4, &[1; 100]);
    foreign.block(0x0bad_cafe, &vec![2; 5 << 20]);
    foreign.packet(0, T as u64, b"after", &[]);
    foreign.block(0x0bad_cafe, &[]);
    assert_eq!(read(reader(&foreign.bytes)), (vec![element(0, b"after")], Ok(())));
    let end = foreign.bytes.len();
    foreign.bytes[end - 4] = 99;
    assert!(read(reader(&foreign.bytes)).1.unwrap_err().message.contains("length 12 in front and 99 behind"));
}

#[test]
fn drops_that_other_programs_tell_of_are_counted_once() {
    let mut foreign = Foreign::section(true);
    foreign.interface(1, 0, &[(9, vec![9])]);
    let (four, three, nine) = (foreign.u64(4), foreign.u64(3), foreign.u64(9));
    foreign.packet(0, T as u64, b"1", &[]);
    foreign.packet(0, T as u64 + 5, b"2", &[(1, b"a remark".to_vec()), (4, four)]);
    foreign.statistics(T as u64 + 9, &[(5, three.clone()), (7, nine.clone())]);
    foreign.statistics(T as u64 + 9, &[(5, three), (7, nine)]);
    let (events, end) = read(reader(&foreign.bytes));
    let expected = vec![
        element(0, b"1"),
        Event::Gap(gap(Cause::Kernel, Some(4), 0, 5)),
        element(5, b"2"),
        Event::Gap(gap(Cause::Kernel, Some(8), 5, 9)),
    ];
    assert_eq!((events, end), (expected, Ok(())));
}

#[test]
fn several_interfaces_of_one_link_type_are_one_stream_and_of_two_are_refused() {
    let mut foreign = Foreign::section(false);
    foreign.interface(1, 0, &[(9, vec![9])]);
    foreign.interface(1, 0, &[(9, vec![9])]);
    foreign.packet(1, T as u64, b"a", &[]);
    foreign.packet(0, T as u64 + 1, b"b", &[]);
    assert_eq!(read(reader(&foreign.bytes)), (vec![element(0, b"a"), element(1, b"b")], Ok(())));
    foreign.interface(127, 0, &[]);
    let (events, end) = read(reader(&foreign.bytes));
    assert_eq!(events.len(), 2);
    let message = end.unwrap_err().message;
    assert!(
        message.contains("link type 127 (802.11 with radiotap) and the ones before have 1 (Ethernet)"),
        "{message}"
    );
    assert!(message.ends_with("2 packets (2 B) were read before it"), "{message}");
}

#[test]
fn malformed_blocks_are_refused_with_place_and_numbers() {
    let good = |change: &dyn Fn(&mut Foreign)| {
        let mut foreign = Foreign::section(false);
        foreign.interface(1, 0, &[]);
        foreign.packet(0, 1, b"abcd", &[]);
        change(&mut foreign);
        read(reader(&foreign.bytes)).1.unwrap_err().message
    };
    let raw = |kind: u32, length: u32| {
        move |f: &mut Foreign| {
            f.bytes.extend(kind.to_le_bytes());
            f.bytes.extend(length.to_le_bytes());
            f.bytes.extend([0; 64]);
        }
    };
    for (message, words) in [
        (good(&raw(6, 8)), "claims a length of 8"),
        (good(&raw(6, 33)), "claims a length of 33"),
        (good(&raw(6, u32::MAX - 3)), "claims 4294967292 bytes, and none of that type has more than 1048576"),
        (good(&raw(77, u32::MAX - 3)), "inside a block of 4294967292 bytes"),
        (good(&|f| f.packet(7, 1, b"x", &[])), "names interface 7 of a section that has 1"),
        (good(&|f| f.block(6, &[0; 16])), "too short for its fields"),
        (good(&|f| f.packet(0, u64::MAX, b"x", &[])), "beyond the year 2262"),
        (good(&|f| f.block(5, &[0; 8])), "too short"),
        (good(&|f| f.block(0x0a0d_0d0a, &[0; 16])), "no byte order mark"),
        (
            good(&|f| {
                let mut body = vec![0; 20];
                body[12..16].copy_from_slice(&100u32.to_le_bytes());
                f.block(6, &body);
            }),
            "claims 100 bytes in a block that has room for 0",
        ),
        (
            good(&|f| {
                let mut body = vec![0; 20];
                body.extend([1, 0, 200, 0, 0, 0, 0, 0]);
                f.block(6, &body);
            }),
            "options of this block are malformed",
        ),
        (
            good(&|f| {
                let mut body = vec![0; 20];
                body[12..16].copy_from_slice(&300_000u32.to_le_bytes());
                body.resize(20 + 300_000, 0);
                f.block(6, &body);
            }),
            "packet 2 claims 300000 bytes, and none has more than 262144",
        ),
    ] {
        assert!(message.contains(words) && message.ends_with("1 packet (4 B) was read before it"), "{message}");
    }
}

#[test]
fn a_capture_without_an_interface_and_one_of_tomorrow_are_refused() {
    let mut foreign = Foreign::section(false);
    assert!(reader(&foreign.bytes).prepare().unwrap_err().message.contains("without describing any interface"));
    foreign.bytes[12] = 2;
    assert_eq!(reader(&foreign.bytes).prepare().unwrap_err().kind, Kind::Version);
}

#[test]
fn gaps_of_one_cause_before_one_packet_become_one_and_nothing_else_does() {
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET, None).unwrap();
    for i in 0..10_000 {
        writer.gap(gap(Cause::ALL[i as usize % Cause::ALL.len()], Some(1), i, i + 1));
    }
    writer.packet(Timestamp(T), &[b"x"]).unwrap().unwrap();
    let bytes = writer.finish().unwrap();
    let (events, end) = read(reader(&bytes));
    assert_eq!((events.len(), end), (Cause::ALL.len() + 1, Ok(())));
    let known: u64 = events.iter().map(|e| if let Event::Gap(gap) = e { gap.count.unwrap() } else { 0 }).sum();
    assert_eq!(known, 10_000);
}
