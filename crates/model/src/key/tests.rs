use super::chance::Chance;
use super::{Extraction, Format, KeySet, KeySpec, KeyType, KeyValue, Literal, quoted};
use crate::error::Kind;
use crate::packet::{LinkType, PacketField};
use crate::size::Bytes;
use std::collections::HashSet;

fn keys(texts: &[&str]) -> KeySet {
    KeySet::parse(texts).expect("these keys are sound")
}

fn extract(set: &KeySet, payload: &[u8], caller: &[u8]) -> Vec<KeyValue> {
    let mut out = vec![KeyValue::MISSING; set.len()];
    set.extract(payload, caller, &mut out);
    out
}

#[test]
fn values_of_a_key_order_as_their_numbers_do() {
    let mut chance = Chance::for_test("values_of_a_key_order_as_their_numbers_do");
    for _ in 0..10_000 {
        let width = 1 + chance.below(8) as u8;
        let shift = chance.below(64);
        let most = u64::MAX >> (64 - 8 * u32::from(width));
        let (a, b) = ((chance.next() >> shift) & most, (chance.next() >> shift) & most);
        let (x, y) = (KeyValue::unsigned(a, width), KeyValue::unsigned(b, width));
        assert_eq!(x.cmp(&y), a.cmp(&b));
        assert_eq!(x.as_u128().cmp(&y.as_u128()), a.cmp(&b));
        assert_eq!(x.as_unsigned(), Some(a));
        assert_eq!(x.next(), (a < most).then(|| KeyValue::unsigned(a + 1, width)));
        assert_eq!(x.previous(), (a > 0).then(|| KeyValue::unsigned(a - 1, width)));
    }
    assert!(KeyValue::MISSING < KeyValue::unsigned(0, 1));
    assert!(KeyValue::four([255; 4]) < KeyValue::sixteen([0; 16]));
}

#[test]
fn a_value_wider_than_16_bytes_is_refused() {
    assert_eq!(KeyValue::from_bytes(&[7; 16]).expect("16 bytes fit").width(), 16);
    let error = KeyValue::from_bytes(&[7; 17]).expect_err("17 bytes do not fit");
    assert_eq!(error.kind, Kind::Usage);
    assert!(error.message.contains("17 bytes") && error.message.contains("16 bytes"), "{error}");
}

#[test]
fn the_hash_on_disk_never_changes() {
    let frozen = [
        (KeyValue::MISSING, 0x0000_0000_0000_0000),
        (KeyValue::unsigned(0, 1), HASH_ZERO_BYTE),
        (KeyValue::unsigned(53, 2), HASH_PORT_53),
        (KeyValue::four([10, 0, 0, 1]), HASH_TEN_ONE),
        (KeyValue::from_bytes(b"0123456789abcdef").expect("16 bytes fit"), HASH_SIXTEEN),
    ];
    for (value, hash) in frozen {
        assert_eq!(value.hash(), hash, "{value:?} hashes to {:#018x}", value.hash());
    }
}

// Worked out from the definition by another program.
const HASH_ZERO_BYTE: u64 = 0xf490_368a_ba8b_feac;
const HASH_PORT_53: u64 = 0x937b_a07f_2f1d_f58d;
const HASH_TEN_ONE: u64 = 0x37aa_bc8e_0c9f_4945;
const HASH_SIXTEEN: u64 = 0x5b69_17ff_e7ce_10f1;

#[test]
fn the_hash_spreads_values_that_are_alike() {
    let mut seen = HashSet::new();
    let mut low_bits = [0u32; 256];
    let mut high_bits = [0u32; 256];
    let mut count = 0;
    let mut add = |value: KeyValue| {
        let hash = value.hash();
        assert!(seen.insert(hash), "{value:?} collides");
        low_bits[(hash & 255) as usize] += 1;
        high_bits[(hash >> 56) as usize] += 1;
        count += 1;
    };
    for i in 0..65_536u64 {
        add(KeyValue::unsigned(i, 2));
        add(KeyValue::unsigned(i << 8, 4));
        add(KeyValue::unsigned(i, 8));
        add(KeyValue::sixteen((0xfe80u128 << 112 | u128::from(i)).to_be_bytes()));
        add(KeyValue::sixteen((u128::from(i) << 96 | 1).to_be_bytes()));
    }
    let mean = count / 256;
    for counts in [low_bits, high_bits] {
        assert!(counts.iter().all(|n| (mean * 8 / 10..=mean * 12 / 10).contains(n)), "uneven: {counts:?}");
    }
}

#[test]
fn key_texts_read_and_print_the_same() {
    for text in [
        "id=u32le@8",
        "n=u16be@2",
        "b=u8@4",
        "b=u8be@4",
        "odd=u24be@1",
        "tag=bytes4@0",
        "far=u64le@4294967295",
        "src=pcap.src",
        "client=pcap.dport",
        "user=caller.u64",
        "user=caller.u64be",
        "user=caller.u8",
        "user=caller.bytes16",
    ] {
        let spec = KeySpec::parse(text).unwrap_or_else(|e| panic!("{text}: {e}"));
        assert_eq!(spec.to_string(), text);
    }
    assert_eq!(KeySpec::parse(" id = u32le@8 ").expect("spaces are allowed").to_string(), "id=u32le@8");
    assert_eq!(KeySpec::parse("user=caller.u32le").expect("le is the default").to_string(), "user=caller.u32");
    let all: Vec<String> = keys(&["pcap", "id=u32le@8"]).specs().iter().map(ToString::to_string).collect();
    let expected = "src=pcap.src dst=pcap.dst sport=pcap.sport dport=pcap.dport proto=pcap.proto vlan=pcap.vlan";
    assert_eq!(all.join(" "), format!("{expected} id=u32le@8"));
}

#[test]
fn every_extraction_survives_its_text() {
    let formats = [(Format::UnsignedLittle, 8), (Format::UnsignedBig, 8), (Format::Bytes, 16)];
    for (format, most) in formats {
        for width in 1..=most {
            for extraction in [Extraction::Fixed { offset: 3, width, format }, Extraction::Caller { format, width }] {
                let spec = KeySpec::new("k", extraction).expect("the width is allowed");
                assert_eq!(KeySpec::parse(&spec.to_string()), Ok(spec));
            }
        }
    }
    for field in PacketField::ALL {
        let spec = KeySpec::new("k", Extraction::Packet(field)).expect("a packet field is a key");
        assert_eq!(KeySpec::parse(&spec.to_string()), Ok(spec));
    }
}

#[test]
fn a_bad_key_is_refused_with_its_reason() {
    for (text, reason) in [
        ("", "is not a key"),
        ("id", "write NAME=WHERE"),
        ("=u8@0", "cannot name a key"),
        ("7up=u8@0", "does not begin with a digit"),
        ("a-b=u8@0", "letters, digits and underscores"),
        ("Time=u64le@0", "word of the query language"),
        ("host=pcap.src", "word of the query language"),
        ("id=u32@8", "write u32le@8 or u32be@8"),
        ("id=u32le", "does not say where the value is"),
        ("id=u12le@0", "not whole bytes"),
        ("id=u72le@0", "1 to 8 bytes"),
        ("id=u0le@0", "1 to 8 bytes"),
        ("id=bytes17@0", "1 to 16 bytes"),
        ("id=bytes@0", "does not say where"),
        ("id=u32le@-1", "not an offset"),
        ("id=u32le@+1", "not an offset"),
        ("id=u32le@4294967296", "not an offset"),
        ("id=pcap.mac", "they have src, dst, sport, dport, proto, vlan"),
        ("id=caller.int", "does not say where"),
        ("id=u99999999999999999999le@0", "does not say where"),
    ] {
        let error = KeySpec::parse(text).expect_err(text);
        assert_eq!(error.kind, Kind::Usage);
        assert!(error.message.contains(reason), "{text}: {error}");
    }
    let twice = KeySet::parse(["pcap", "SRC=u8@0"]).expect_err("src is given twice");
    assert!(twice.message.contains("'SRC' is given twice"), "{twice}");
    let many = KeySet::parse((0..17).map(|i| format!("k{i}=u8@{i}"))).expect_err("17 are too many");
    assert!(many.message.contains("17 keys"), "{many}");
}

#[test]
fn a_key_beyond_the_element_is_refused_with_the_numbers() {
    let set = keys(&["a=u8@0", "id=u32le@8", "user=caller.u64", "src=pcap.src"]);
    assert_eq!(set.check_fits(Bytes(12)), Ok(()));
    let error = set.check_fits(Bytes(11)).expect_err("the key ends at 12");
    assert_eq!(error.kind, Kind::Usage);
    for part in ["'id'", "12 bytes", "offset 8", "have 11 bytes"] {
        assert!(error.message.contains(part), "{error}");
    }
}

#[test]
fn values_are_taken_from_their_places() {
    let set = keys(&[
        "a=u8@0",
        "b=u16le@1",
        "c=u16be@1",
        "d=u24le@1",
        "e=u64le@0",
        "f=bytes3@1",
        "u=caller.u32",
        "v=caller.bytes2",
        "w=caller.u16be",
        "x=u8@8",
    ]);
    assert_eq!(set.caller_width(), 8);
    let payload = [1, 2, 3, 4, 5, 6, 7, 8];
    let caller = [0x11, 0x22, 0x33, 0x44, b'h', b'i', 0x55, 0x66];
    assert_eq!(
        extract(&set, &payload, &caller),
        [
            KeyValue::unsigned(1, 1),
            KeyValue::unsigned(0x0302, 2),
            KeyValue::unsigned(0x0203, 2),
            KeyValue::unsigned(0x04_0302, 3),
            KeyValue::unsigned(0x0807_0605_0403_0201, 8),
            KeyValue::from_bytes(&[2, 3, 4]).expect("three bytes fit"),
            KeyValue::unsigned(0x4433_2211, 4),
            KeyValue::from_bytes(b"hi").expect("two bytes fit"),
            KeyValue::unsigned(0x5566, 2),
            KeyValue::MISSING,
        ]
    );
    assert!(extract(&set, &[], &[]).iter().all(KeyValue::is_missing));
}

#[test]
fn packets_are_read_for_the_link_of_the_ring() {
    let set = keys(&["pcap"]).with_link_type(LinkType::RAW);
    let packet = [0x45, 0, 0, 24, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0, 53, 0, 54];
    let found = extract(&set, &packet, &[]);
    let shown: Vec<String> = set.specs().iter().zip(found).map(|(spec, v)| spec.show(v).to_string()).collect();
    assert_eq!(shown, ["10.0.0.1", "10.0.0.2", "53", "54", "udp", "-"]);
    assert!(extract(&keys(&["pcap"]), &packet, &[]).iter().all(KeyValue::is_missing));
}

/// A value as it stands alone, quoted or not.
fn read(kind: KeyType, text: &str) -> crate::Result<KeyValue> {
    match quoted(text) {
        Some((held, length)) if length == text.len() => kind.parse(Literal::Quoted(&held)),
        _ => kind.parse(Literal::Bare(text)),
    }
}

#[test]
fn literals_read_as_people_write_them() {
    let unsigned = KeyType::Unsigned { width: 2 };
    let bytes = KeyType::Bytes { width: 4 };
    for (kind, text, value) in [
        (unsigned, "53", KeyValue::unsigned(53, 2)),
        (unsigned, "0xFFFF", KeyValue::unsigned(65535, 2)),
        (unsigned, "\"53\"", KeyValue::unsigned(53, 2)),
        (bytes, "0xdeadBEEF", KeyValue::four([0xde, 0xad, 0xbe, 0xef])),
        (bytes, "\"abcd\"", KeyValue::four(*b"abcd")),
        (bytes, "'a'", KeyValue::four([b'a', 0, 0, 0])),
        (bytes, r#""\x00\"\\b""#, KeyValue::four([0, b'"', b'\\', b'b'])),
        (bytes, "10.0.0.1", KeyValue::four([10, 0, 0, 1])),
        (KeyType::Address, "10.0.0.1", KeyValue::four([10, 0, 0, 1])),
        (KeyType::Address, "::1", KeyValue::sixteen(1u128.to_be_bytes())),
        (KeyType::Protocol, "TCP", KeyValue::unsigned(6, 1)),
        (KeyType::Protocol, "icmp6", KeyValue::unsigned(58, 1)),
        (KeyType::Protocol, "254", KeyValue::unsigned(254, 1)),
    ] {
        assert_eq!(read(kind, text), Ok(value), "{text}");
    }
    for (kind, text, reason) in [
        (unsigned, "65536", "0 to 65535"),
        (unsigned, "99999999999999999999999", "0 to 65535"),
        (unsigned, "-1", "is not a number"),
        (unsigned, "", "is not a number"),
        (unsigned, "0x", "is not a number"),
        (bytes, "abcd", "in quotes"),
        (bytes, "0xdead", "8 hex digits"),
        (bytes, "0xdeadbeefff", "8 hex digits"),
        (bytes, "\"abcde\"", "has 5 bytes, but the key has 4"),
        (KeyType::Address, "10.0.0.256", "is not an address"),
        (KeyType::Protocol, "tpc", "tcp, udp"),
        (KeyType::Protocol, "256", "up to 255"),
    ] {
        let error = read(kind, text).expect_err(text);
        assert!(error.kind == Kind::Usage && error.message.contains(reason), "{text}: {error}");
    }
}

#[test]
fn networks_are_ranges_of_addresses() {
    let network = |text| KeyType::Address.parse_network(text).expect("has a slash");
    assert_eq!(network("10.1.2.3/8"), Ok((KeyValue::four([10, 0, 0, 0]), KeyValue::four([10, 255, 255, 255]))));
    assert_eq!(network("0.0.0.0/0"), Ok((KeyValue::four([0; 4]), KeyValue::four([255; 4]))));
    assert_eq!(network("10.0.0.1/32"), Ok((KeyValue::four([10, 0, 0, 1]), KeyValue::four([10, 0, 0, 1]))));
    let (low, high) = network("fe80::/10").expect("a sound network");
    assert_eq!((low.as_bytes()[1], high.as_bytes()[1], high.as_bytes()[15]), (0x80, 0xbf, 0xff));
    for bad in ["10.0.0.0/33", "10.0.0.0/", "10.0.0.0/+8", "10.0.0/8", "::/129"] {
        assert!(network(bad).is_err(), "{bad}");
    }
    assert_eq!(KeyType::Unsigned { width: 4 }.parse_network("10.0.0.0/8"), None);
}

#[test]
fn shown_values_read_back() {
    let mut chance = Chance::for_test("shown_values_read_back");
    for _ in 0..20_000 {
        let width = 1 + chance.below(16) as u8;
        let kind = match chance.below(4) {
            0 => KeyType::Unsigned { width: 1 + chance.below(8) as u8 },
            1 => KeyType::Bytes { width },
            2 => KeyType::Address,
            _ => KeyType::Protocol,
        };
        let len = match kind {
            KeyType::Unsigned { width } | KeyType::Bytes { width } => usize::from(width),
            KeyType::Address => chance.pick(&[4, 16]),
            KeyType::Protocol => 1,
        };
        let mut bytes = chance.bytes(len);
        if chance.one_in(2) {
            bytes.iter_mut().for_each(|b| *b = chance.pick(b"ab\"\\' \0"));
        }
        let value = KeyValue::from_bytes(&bytes).expect("at most 16 bytes");
        let text = kind.show(value).to_string();
        assert_eq!(read(kind, &text), Ok(value), "{kind:?} {text}");
    }
}

#[test]
fn quotes_take_any_bytes_without_panic() {
    let mut chance = Chance::for_test("quotes_take_any_bytes_without_panic");
    for _ in 0..20_000 {
        let len = chance.below(12) as usize;
        let text: String = (0..len).map(|_| chance.pick(&['"', '\'', '\\', 'x', '4', 'a', '\u{e9}'])).collect();
        if let Some((_, taken)) = quoted(&text) {
            assert!(text.is_char_boundary(taken));
        }
        let _ = read(KeyType::Bytes { width: 4 }, &text);
        let _ = KeySpec::parse(&text);
    }
}

#[test]
fn keys_survive_serialisation() {
    let set = keys(&["pcap", "id=u32le@8", "user=caller.bytes16"]).with_link_type(LinkType::LINUX_SLL2);
    let json = serde_json::to_string(&set).expect("keys serialise");
    assert!(json.contains(r#""id=u32le@8""#), "{json}");
    assert_eq!(serde_json::from_str::<KeySet>(&json).expect("they come back"), set);
    let bytes = postcard::to_stdvec(&set).expect("keys serialise");
    assert_eq!(postcard::from_bytes::<KeySet>(&bytes).expect("they come back"), set);
    assert!(serde_json::from_str::<KeySet>(r#"{"keys":["a=u8@0","a=u8@1"],"link":1}"#).is_err());
}
