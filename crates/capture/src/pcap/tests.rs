use super::Writer;
use crate::packets::{PacketReader, Step};
use crate::testing::{Dice, ManualClock, Stutter};
use forebay_model::packet::LinkType;
use forebay_model::{Bytes, Kind, Result, Timestamp};

type Packets = Vec<(Option<Timestamp>, Vec<u8>)>;

/// All packets of a capture, and how reading it ended.
fn read(mut reader: PacketReader) -> (Packets, Result<()>) {
    let mut packets = Vec::new();
    loop {
        match reader.step() {
            Ok(Step::Packet(packet)) => packets.push((packet.time, packet.data.to_vec())),
            Ok(Step::End) => return (packets, Ok(())),
            Ok(_) => {}
            Err(e) => return (packets, Err(e)),
        }
    }
}

fn reader(bytes: &[u8]) -> PacketReader {
    PacketReader::new(Box::new(std::io::Cursor::new(bytes.to_vec())), Bytes::gib(1))
}

/// A capture as another program on another machine might write it.
fn foreign(magic: u32, big_endian: bool, packets: &[(u32, u32, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |value: u32, wide: bool| match (big_endian, wide) {
        (true, true) => bytes.extend(value.to_be_bytes()),
        (true, false) => bytes.extend((value as u16).to_be_bytes()),
        (false, true) => bytes.extend(value.to_le_bytes()),
        (false, false) => bytes.extend((value as u16).to_le_bytes()),
    };
    for (value, wide) in [(magic, true), (2, false), (4, false), (0, true), (0, true), (65535, true), (101, true)] {
        put(value, wide);
    }
    for (seconds, fraction, data) in packets {
        let mut head = Vec::new();
        for value in [*seconds, *fraction, data.len() as u32, 9000] {
            head.extend(if big_endian { value.to_be_bytes() } else { value.to_le_bytes() });
        }
        bytes.extend(head);
        bytes.extend_from_slice(data);
    }
    bytes
}

fn sample() -> (Packets, Vec<u8>) {
    let mut dice = Dice(7);
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET).unwrap();
    let mut packets = Vec::new();
    for i in 0..20 {
        let length = [0, 1, 60, 1514, 9000][i % 5];
        let (time, data) = (Timestamp(1_700_000_000_123_456_789 + i as i64), dice.bytes(length));
        writer.packet(time, &[&data[..length / 3], &data[length / 3..]]).unwrap().unwrap();
        packets.push((Some(time), data));
    }
    (packets, writer.finish().unwrap())
}

#[test]
fn what_is_written_is_read_back_to_the_nanosecond() {
    let (packets, bytes) = sample();
    let mut reader = reader(&bytes);
    assert!(reader.prepare().unwrap());
    assert_eq!(reader.link_type(), Some(LinkType::ETHERNET));
    let (got, end) = read(reader);
    assert_eq!((got, end), (packets, Ok(())));
}

#[test]
fn both_byte_orders_and_both_resolutions_are_read() {
    for (magic, nanos) in [(0xa1b2_c3d4, 123_456_000), (0xa1b2_3c4d, 123_456)] {
        for big_endian in [false, true] {
            let bytes = foreign(magic, big_endian, &[(5, 123_456, b"abc")]);
            let mut reader = reader(&bytes);
            reader.prepare().unwrap();
            assert_eq!(reader.link_type(), Some(LinkType::RAW));
            let Step::Packet(packet) = reader.step().unwrap() else { panic!("no packet") };
            assert_eq!((packet.time, packet.data), (Some(Timestamp(5_000_000_000 + nanos)), &b"abc"[..]));
            assert_eq!(packet.original, 9000);
        }
    }
}

#[test]
fn a_capture_that_drips_in_is_the_same() {
    let (packets, bytes) = sample();
    for size in [1, 7, 1000] {
        let input = Stutter::pieces(&bytes, size, &ManualClock::new());
        assert_eq!(read(PacketReader::new(input, Bytes::gib(1))), (packets.clone(), Ok(())));
    }
}

#[test]
fn a_capture_that_is_cut_off_says_where_and_what_came_before() {
    let (packets, bytes) = sample();
    let mut ends = vec![24];
    for (_, data) in &packets {
        ends.push(ends[ends.len() - 1] + 16 + data.len());
    }
    for cut in 0..bytes.len() {
        let (got, end) = read(reader(&bytes[..cut]));
        let whole = ends.iter().filter(|end| **end <= cut).count().saturating_sub(1);
        assert_eq!(got, packets[..whole], "cut at {cut}");
        if ends.contains(&cut) {
            assert_eq!(end, Ok(()), "cut at {cut}");
        } else {
            assert_eq!(end.unwrap_err().kind, Kind::Damaged, "cut at {cut}");
        }
    }
    let (_, end) = read(reader(&bytes[..24 + 16 + 16 + 1 + 16 + 30]));
    assert_eq!(
        end.unwrap_err().message,
        "this pcap capture is cut off in packet 3 at byte 57: 46 of its 76 bytes are there; 2 packets (1 B) were read \
         before it"
    );
}

#[test]
fn absurd_lengths_are_refused_with_the_numbers() {
    let mut bytes = foreign(0xa1b2_c3d4, false, &[(1, 1, b"abcd"), (2, 2, b"x")]);
    bytes[24 + 20 + 8..24 + 20 + 12].copy_from_slice(&u32::MAX.to_le_bytes());
    let (packets, end) = read(reader(&bytes));
    assert_eq!(packets.len(), 1);
    assert_eq!(
        end.unwrap_err().message,
        "this pcap capture is damaged at byte 44: packet 2 claims 4294967295 bytes, and none has more than 262144; \
         1 packet (4 B) was read before it"
    );
}

#[test]
fn a_packet_beyond_the_limit_of_the_ring_is_named() {
    let bytes = foreign(0xa1b2_c3d4, false, &[(1, 1, &[7; 200])]);
    let reader = PacketReader::new(Box::new(std::io::Cursor::new(bytes)), Bytes(100));
    let error = read(reader).1.unwrap_err();
    assert_eq!(error.kind, Kind::Usage);
    assert!(error.message.starts_with("packet 1 at byte 24 has 200 bytes, more than the 100"), "{error}");
}

#[test]
fn what_is_no_capture_is_told_apart() {
    for (bytes, words) in [
        (&b""[..], "ends after 0 bytes"),
        (b"\xd4\xc3\xb2", "ends after 3 bytes"),
        (b"\xd4\xc3\xb2\xa1", "4 of the 24 bytes of its header"),
        (b"GET / HTTP/1.1", "begins with 47455420"),
        (b"\x1f\x8b\x08\x00\x00", "zcat"),
        (b"\x28\xb5\x2f\xfd\x00", "zstdcat"),
        (b"\x34\xcd\xb2\xa1\x00", "editcap"),
        (b"\xd4\xc3\xb2\xa1\x09\x00\x04\x00\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", "version 9.4"),
    ] {
        let error = read(reader(bytes)).1.unwrap_err();
        assert!(error.message.contains(words), "{error}");
    }
}

#[test]
fn a_packet_that_pcap_cannot_hold_is_refused() {
    let mut writer = Writer::new(Vec::new(), LinkType::ETHERNET).unwrap();
    assert!(writer.packet(Timestamp(-1), &[b"x"]).unwrap_err().message.contains("1970"));
    let error = writer.packet(Timestamp(0), &[&vec![0; 300_000]]).unwrap_err();
    assert!(error.message.contains("300000"), "{error}");
}
