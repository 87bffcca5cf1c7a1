use super::{LinkType, PacketField, PacketFields, parse};
use crate::key::KeyValue;
use crate::key::chance::Chance;
use etherparse::{LinkExtSlice, NetSlice, SlicedPacket, TransportSlice};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

fn port(number: u16) -> KeyValue {
    KeyValue::unsigned(u64::from(number), 2)
}

fn protocol(number: u8) -> KeyValue {
    KeyValue::unsigned(u64::from(number), 1)
}

/// A packet as it was made, and what must be found in it.
struct Made {
    link: LinkType,
    bytes: Vec<u8>,
    fields: PacketFields,
}

/// A random sound packet.
fn make(chance: &mut Chance) -> Made {
    let mut fields = PacketFields::NONE;
    let transport = chance.pick(&[6u8, 6, 17, 17, 132, 1, 58, 50, 59]);
    let inner_len = 20 + chance.below(40) as usize;
    let mut inner = chance.bytes(inner_len);
    if transport == 6 {
        inner[12] = 0x50;
    }
    if transport == 17 {
        let length = inner.len() as u16;
        inner[4..6].copy_from_slice(&length.to_be_bytes());
    }
    let later_fragment = chance.one_in(6);
    let (packet, ether_type) = if chance.one_in(2) {
        make_v4(chance, &mut fields, transport, &inner, later_fragment)
    } else {
        make_v6(chance, &mut fields, transport, &inner, later_fragment)
    };
    if !later_fragment && matches!(transport, 6 | 17 | 132) {
        fields.sport = port(u16::from_be_bytes([inner[0], inner[1]]));
        fields.dport = port(u16::from_be_bytes([inner[2], inner[3]]));
    }
    fields.proto = protocol(transport);
    let link = chance.pick(&[
        LinkType::ETHERNET,
        LinkType::ETHERNET,
        LinkType::LINUX_SLL,
        LinkType::LINUX_SLL2,
        LinkType::RAW,
        LinkType::NULL,
    ]);
    let tags = if matches!(link, LinkType::RAW | LinkType::NULL) { 0 } else { chance.below(4) };
    let mut first_type = ether_type;
    let mut rest = Vec::new();
    for tag in 0..tags {
        let next = if tag == 0 { ether_type } else { first_type };
        let vlan = chance.next() as u16;
        rest.splice(0..0, [vlan.to_be_bytes(), next.to_be_bytes()].concat());
        fields.vlan = port(vlan & 0x0fff);
        first_type = chance.pick(&[0x8100, 0x88a8, 0x9100]);
    }
    rest.extend(packet);
    let mut bytes = match link {
        LinkType::ETHERNET => [chance.bytes(12), first_type.to_be_bytes().to_vec()].concat(),
        LinkType::LINUX_SLL => [vec![0, 0, 0, 1, 0, 6], chance.bytes(8), first_type.to_be_bytes().to_vec()].concat(),
        LinkType::LINUX_SLL2 => [first_type.to_be_bytes().to_vec(), chance.bytes(18)].concat(),
        LinkType::NULL => vec![2, 0, 0, 0],
        _ => Vec::new(),
    };
    bytes.extend(rest);
    if chance.one_in(3) {
        // Padding up to the shortest frame of Ethernet, and a check sequence.
        bytes.extend(chance.bytes(30));
    }
    Made { link, bytes, fields }
}

fn make_v4(chance: &mut Chance, fields: &mut PacketFields, transport: u8, inner: &[u8], later: bool) -> (Vec<u8>, u16) {
    let options = 4 * chance.below(11) as usize;
    let total = (20 + options + inner.len()) as u16;
    let mut header = chance.bytes(20 + options);
    header[0] = 0x40 | (5 + options / 4) as u8;
    header[2..4].copy_from_slice(&total.to_be_bytes());
    let offset = if later { 1 + chance.below(0x1ffe) as u16 } else { 0 };
    let more = if chance.one_in(4) { 0x2000 } else { 0 };
    header[6..8].copy_from_slice(&(offset | more).to_be_bytes());
    header[9] = transport;
    fields.src = KeyValue::from_bytes(&header[12..16]).expect("four bytes fit");
    fields.dst = KeyValue::from_bytes(&header[16..20]).expect("four bytes fit");
    header.extend(inner);
    (header, 0x0800)
}

fn make_v6(chance: &mut Chance, fields: &mut PacketFields, transport: u8, inner: &[u8], later: bool) -> (Vec<u8>, u16) {
    let mut kinds: Vec<u8> = (0..chance.below(4)).map(|_| chance.pick(&[43u8, 60, 60, 51, 135])).collect();
    if chance.one_in(3) {
        kinds.insert(0, 0);
    }
    if later || chance.one_in(5) {
        kinds.push(44);
    }
    let mut extensions = Vec::new();
    for (i, kind) in kinds.iter().enumerate() {
        let next = kinds.get(i + 1).copied().unwrap_or(transport);
        let units = chance.below(4) as u8;
        let mut header = match kind {
            44 => chance.bytes(8),
            51 => chance.bytes(12 + 4 * usize::from(units)),
            _ => chance.bytes(8 + 8 * usize::from(units)),
        };
        header[0] = next;
        header[1] = if *kind == 51 { units + 1 } else { units };
        if *kind == 44 {
            let offset = if later { 1 + chance.below(0x1fff) as u16 } else { 0 };
            header[2..4].copy_from_slice(&(offset << 3 | chance.below(2) as u16).to_be_bytes());
        }
        extensions.extend(header);
    }
    let mut packet = chance.bytes(40);
    packet[0] = 0x60 | packet[0] & 0x0f;
    packet[4..6].copy_from_slice(&((extensions.len() + inner.len()) as u16).to_be_bytes());
    packet[6] = kinds.first().copied().unwrap_or(transport);
    fields.src = KeyValue::from_bytes(&packet[8..24]).expect("sixteen bytes fit");
    fields.dst = KeyValue::from_bytes(&packet[24..40]).expect("sixteen bytes fit");
    packet.extend(extensions);
    packet.extend(inner);
    (packet, 0x86dd)
}

/// Compares with etherparse where it finds the packet sound; says whether it did.
fn agrees_with_oracle(bytes: &[u8]) -> bool {
    let Ok(sliced) = SlicedPacket::from_ethernet(bytes) else { return false };
    let found = parse(LinkType::ETHERNET, bytes);
    if sliced.link_exts.iter().any(|ext| !matches!(ext, LinkExtSlice::Vlan(_))) {
        return false;
    }
    let vlan = match sliced.link_exts.first() {
        Some(LinkExtSlice::Vlan(tag)) => port(tag.vlan_identifier().value()),
        _ => KeyValue::MISSING,
    };
    assert_eq!(found.vlan, vlan);
    match &sliced.net {
        Some(NetSlice::Ipv4(ip)) => {
            assert_eq!(found.src, KeyValue::address(IpAddr::V4(ip.header().source_addr())));
            assert_eq!(found.dst, KeyValue::address(IpAddr::V4(ip.header().destination_addr())));
            assert_eq!(found.proto, protocol(ip.header().protocol().0));
            if ip.header().protocol().0 == 51 {
                return false;
            }
        }
        Some(NetSlice::Ipv6(ip)) => {
            assert_eq!(found.src, KeyValue::address(IpAddr::V6(ip.header().source_addr())));
            assert_eq!(found.dst, KeyValue::address(IpAddr::V6(ip.header().destination_addr())));
            // What follows a header that etherparse does not walk through, or a later fragment, it does not tell.
            let last = ip.payload().ip_number.0;
            if matches!(last, 135 | 139 | 140) || (ip.is_payload_fragmented() && ip.extensions().slice().len() > 8) {
                return false;
            }
            assert_eq!(found.proto, protocol(last));
        }
        _ if sliced.link_exts.len() == SlicedPacket::LINK_EXTS_CAP => return false,
        _ => assert_eq!(PacketFields { vlan: KeyValue::MISSING, ..found }, PacketFields::NONE),
    }
    match &sliced.transport {
        Some(TransportSlice::Tcp(tcp)) => {
            assert_eq!((found.sport, found.dport), (port(tcp.source_port()), port(tcp.destination_port())));
        }
        Some(TransportSlice::Udp(udp)) => {
            assert_eq!((found.sport, found.dport), (port(udp.source_port()), port(udp.destination_port())));
        }
        Some(_) => assert_eq!((found.sport, found.dport), (KeyValue::MISSING, KeyValue::MISSING)),
        None => {}
    }
    true
}

#[test]
fn every_field_of_sound_packets_is_found() {
    let mut chance = Chance::for_test("every_field_of_sound_packets_is_found");
    let mut confirmed = 0;
    for _ in 0..20_000 {
        let made = make(&mut chance);
        let found = parse(made.link, &made.bytes);
        assert_eq!(found, made.fields, "{:?} {:02x?}", made.link, made.bytes);
        if made.link == LinkType::ETHERNET {
            confirmed += u32::from(agrees_with_oracle(&made.bytes));
        }
    }
    assert!(confirmed > 4_000, "the oracle confirmed only {confirmed}");
}

#[test]
fn damaged_packets_read_as_another_parser_reads_them() {
    let mut chance = Chance::for_test("damaged_packets_read_as_another_parser_reads_them");
    let mut confirmed = 0;
    for _ in 0..60_000 {
        let mut made = make(&mut chance);
        for _ in 0..=chance.below(3) {
            let at = chance.below(made.bytes.len() as u64) as usize;
            made.bytes[at] = if chance.one_in(2) { chance.next() as u8 } else { made.bytes[at] ^ 1 << chance.below(8) };
        }
        let _ = parse(made.link, &made.bytes);
        confirmed += u32::from(agrees_with_oracle(&made.bytes));
    }
    assert!(confirmed > 5_000, "the oracle confirmed only {confirmed}");
}

#[test]
fn a_packet_cut_short_has_the_fields_that_are_left() {
    let mut chance = Chance::for_test("a_packet_cut_short_has_the_fields_that_are_left");
    for _ in 0..500 {
        let made = make(&mut chance);
        for end in 0..made.bytes.len() {
            let found = parse(made.link, &made.bytes[..end]);
            for field in PacketField::ALL {
                let value = found.get(field);
                let same = value.is_missing() || value == made.fields.get(field);
                assert!(same || field == PacketField::Proto, "{field:?} at {end} of {:02x?}", made.bytes);
            }
        }
    }
}

#[test]
fn no_bytes_make_it_panic() {
    let mut chance = Chance::for_test("no_bytes_make_it_panic");
    let links = [0, 1, 101, 108, 113, 228, 229, 276, 9999].map(LinkType);
    for _ in 0..50_000 {
        let len = chance.below(120) as usize;
        let mut bytes = chance.bytes(len);
        if len > 60 && chance.one_in(2) {
            let start = chance.pick(&[[8, 0, 0x45], [0x86, 0xdd, 0x60], [0x81, 0, 0]]);
            bytes[12..15].copy_from_slice(&start);
        }
        for link in links {
            let _ = parse(link, &bytes);
        }
    }
}

#[test]
fn a_dns_question_over_a_tagged_link() {
    let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xa8, 0x20, 100, 0x81, 0, 0, 7, 8, 0];
    frame.extend([0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 0, 0, 1, 192, 168, 1, 254]);
    frame.extend([0xc0, 0x01, 0, 53, 0, 12, 0, 0, 1, 2, 3, 4]);
    let found = parse(LinkType::ETHERNET, &frame);
    assert_eq!(found.src, KeyValue::address(Ipv4Addr::new(10, 0, 0, 1).into()));
    assert_eq!(found.dst, KeyValue::address(Ipv4Addr::new(192, 168, 1, 254).into()));
    assert_eq!((found.sport, found.dport), (port(0xc001), port(53)));
    assert_eq!((found.proto, found.vlan), (protocol(17), port(100)));
}

#[test]
fn padding_is_not_taken_for_ports() {
    // An IPv4 packet of nothing but its header, padded to the shortest frame.
    let mut frame = vec![0; 60];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 20, 0, 0, 0, 0, 64, 6, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    let found = parse(LinkType::ETHERNET, &frame);
    assert_eq!(found.proto, protocol(6));
    assert_eq!((found.sport, found.dport), (KeyValue::MISSING, KeyValue::MISSING));
    // A total length of 0 comes from segmentation in the network card: then there are ports.
    frame[17] = 0;
    assert_eq!(parse(LinkType::ETHERNET, &frame).sport, port(0));
}

#[test]
fn a_chain_of_extension_headers_without_end_is_given_up() {
    let mut packet = vec![0u8; 40 + 8 * 100];
    packet[0] = 0x60;
    packet[6] = 60;
    for at in (40..packet.len()).step_by(8) {
        packet[at] = 60;
    }
    let found = parse(LinkType::IPV6, &packet);
    assert_eq!(found.src, KeyValue::address(Ipv6Addr::UNSPECIFIED.into()));
    assert_eq!((found.proto, found.sport), (protocol(60), KeyValue::MISSING));
}
