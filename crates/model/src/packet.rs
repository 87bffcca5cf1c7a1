//! Addresses, ports, protocol and VLAN of a captured packet.
//!
//! Owns the quick walk over link, network and transport headers. Any bytes are allowed: what cannot be found in them
//! is missing, and nothing is read beyond them. What is understood:
//!
//! - links: Ethernet II, raw IP, Linux cooked captures (both versions), BSD loopback;
//! - VLAN tags (802.1Q, 802.1ad and the older 0x9100), up to eight; the outermost one counts;
//! - IPv4 with options, IPv6 with extension headers; later fragments have a protocol, but no ports;
//! - ports of TCP, UDP and SCTP. Bytes beyond the length that the IP header states (padding) are not looked at.

use crate::key::KeyValue;
use std::fmt;

/// What a packet begins with: a number of the registry at <https://www.tcpdump.org/linktypes.html>.
///
/// Packets of any link can be stored; those that [`parse`] does not understand have no packet keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(transparent)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback: 4 bytes of address family, then IP.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet II.
    pub const ETHERNET: LinkType = LinkType(1);
    /// IP without anything before it, IPv4 or IPv6.
    pub const RAW: LinkType = LinkType(101);
    /// IEEE 802.11.
    pub const IEEE802_11: LinkType = LinkType(105);
    /// OpenBSD loopback: 4 bytes of address family, then IP.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux cooked capture, version 1.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// IEEE 802.11 with a radiotap header.
    pub const RADIOTAP: LinkType = LinkType(127);
    /// The first type reserved for private use: elements that are not packets.
    pub const USER0: LinkType = LinkType(147);
    /// IPv4 without anything before it.
    pub const IPV4: LinkType = LinkType(228);
    /// IPv6 without anything before it.
    pub const IPV6: LinkType = LinkType(229);
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: LinkType = LinkType(276);
}

impl Default for LinkType {
    fn default() -> LinkType {
        LinkType::ETHERNET
    }
}

impl fmt::Display for LinkType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            LinkType::ETHERNET => f.write_str("1 (Ethernet)"),
            LinkType::RAW => f.write_str("101 (raw IP)"),
            LinkType::IEEE802_11 => f.write_str("105 (802.11)"),
            LinkType::RADIOTAP => f.write_str("127 (802.11 with radiotap)"),
            LinkType::USER0 => f.write_str("147 (private)"),
            LinkType(other) => write!(f, "{other}"),
        }
    }
}

/// What can be taken from a packet as a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PacketField {
    /// Source address, IPv4 or IPv6.
    Src,
    /// Destination address, IPv4 or IPv6.
    Dst,
    /// Source port.
    Sport,
    /// Destination port.
    Dport,
    /// IP protocol; of IPv6 the one after the extension headers.
    Proto,
    /// Number of the outermost VLAN.
    Vlan,
}

impl PacketField {
    /// All fields, in the order that `pcap` gives them.
    pub const ALL: [PacketField; 6] = [
        PacketField::Src,
        PacketField::Dst,
        PacketField::Sport,
        PacketField::Dport,
        PacketField::Proto,
        PacketField::Vlan,
    ];

    /// The name in the text form of keys.
    pub const fn name(self) -> &'static str {
        match self {
            PacketField::Src => "src",
            PacketField::Dst => "dst",
            PacketField::Sport => "sport",
            PacketField::Dport => "dport",
            PacketField::Proto => "proto",
            PacketField::Vlan => "vlan",
        }
    }
}

/// The fields of one packet; those it does not have are missing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketFields {
    /// Source address: 4 or 16 bytes.
    pub src: KeyValue,
    /// Destination address: 4 or 16 bytes.
    pub dst: KeyValue,
    /// Source port: 2 bytes.
    pub sport: KeyValue,
    /// Destination port: 2 bytes.
    pub dport: KeyValue,
    /// IP protocol: 1 byte.
    pub proto: KeyValue,
    /// Number of the outermost VLAN: 2 bytes.
    pub vlan: KeyValue,
}

impl PacketFields {
    /// No field at all.
    pub const NONE: PacketFields = PacketFields {
        src: KeyValue::MISSING,
        dst: KeyValue::MISSING,
        sport: KeyValue::MISSING,
        dport: KeyValue::MISSING,
        proto: KeyValue::MISSING,
        vlan: KeyValue::MISSING,
    };

    /// One field.
    #[inline]
    pub fn get(&self, field: PacketField) -> KeyValue {
        match field {
            PacketField::Src => self.src,
            PacketField::Dst => self.dst,
            PacketField::Sport => self.sport,
            PacketField::Dport => self.dport,
            PacketField::Proto => self.proto,
            PacketField::Vlan => self.vlan,
        }
    }
}

const MAX_TAGS: usize = 8;
const MAX_EXTENSIONS: usize = 16;

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;

/// The fields of a packet that begins with the header of `link`.
#[inline]
pub fn parse(link: LinkType, frame: &[u8]) -> PacketFields {
    let mut fields = PacketFields::NONE;
    // Each step answers `None` where the bytes end too early; what was found until then stands.
    let _ = match link {
        LinkType::ETHERNET => typed(frame, 12, 14, &mut fields),
        LinkType::LINUX_SLL => typed(frame, 14, 16, &mut fields),
        LinkType::LINUX_SLL2 => typed(frame, 0, 20, &mut fields),
        LinkType::RAW | LinkType::IPV4 | LinkType::IPV6 => ip(frame, &mut fields),
        LinkType::NULL | LinkType::LOOP => frame.get(4..).and_then(|packet| ip(packet, &mut fields)),
        _ => None,
    };
    fields
}

#[inline]
fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// A link header with an EtherType at `type_at`, which ends at `header`.
#[inline]
fn typed(frame: &[u8], type_at: usize, header: usize, fields: &mut PacketFields) -> Option<()> {
    let mut rest = frame.get(header..)?;
    let mut ether_type = be16(frame, type_at)?;
    for tag in 0..MAX_TAGS {
        match ether_type {
            0x0800 => return ipv4(rest, fields),
            0x86dd => return ipv6(rest, fields),
            0x8100 | 0x88a8 | 0x9100 => {
                if tag == 0 {
                    fields.vlan = KeyValue::unsigned(u64::from(be16(rest, 0)? & 0x0fff), 2);
                }
                ether_type = be16(rest, 2)?;
                rest = &rest[4..];
            }
            _ => return None,
        }
    }
    None
}

#[inline]
fn ip(packet: &[u8], fields: &mut PacketFields) -> Option<()> {
    match packet.first()? >> 4 {
        4 => ipv4(packet, fields),
        6 => ipv6(packet, fields),
        _ => None,
    }
}

#[inline]
fn ipv4(packet: &[u8], fields: &mut PacketFields) -> Option<()> {
    let header = packet.first_chunk::<20>()?;
    let header_len = usize::from(header[0] & 0x0f) * 4;
    if header[0] >> 4 != 4 || header_len < 20 {
        return None;
    }
    let [.., s0, s1, s2, s3, d0, d1, d2, d3] = *header;
    fields.src = KeyValue::four([s0, s1, s2, s3]);
    fields.dst = KeyValue::four([d0, d1, d2, d3]);
    fields.proto = KeyValue::unsigned(u64::from(header[9]), 1);
    let fragment_offset = u16::from_be_bytes([header[6], header[7]]) & 0x1fff;
    if fragment_offset != 0 {
        return None;
    }
    // A length of 0 is what segmentation by the network card leaves; then the captured bytes count.
    let stated = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let end = if stated < header_len { packet.len() } else { stated.min(packet.len()) };
    ports(header[9], packet.get(header_len..end)?, fields)
}

fn ipv6(packet: &[u8], fields: &mut PacketFields) -> Option<()> {
    let (header, mut rest) = packet.split_first_chunk::<40>()?;
    if header[0] >> 4 != 6 {
        return None;
    }
    let [_, _, _, _, _, _, _, _, addresses @ ..] = header;
    fields.src = KeyValue::sixteen(*addresses.first_chunk()?);
    fields.dst = KeyValue::sixteen(*addresses.last_chunk()?);
    let stated = usize::from(u16::from_be_bytes([header[4], header[5]]));
    if stated != 0 {
        rest = &rest[..stated.min(rest.len())];
    }
    let mut next = header[6];
    fields.proto = KeyValue::unsigned(u64::from(next), 1);
    for _ in 0..MAX_EXTENSIONS {
        let length = match next {
            TCP | UDP => break,
            // Hop by hop, routing, destination, mobility, host identity, shim6.
            0 | 43 | 60 | 135 | 139 | 140 => (usize::from(*rest.get(1)?) + 1) * 8,
            51 => (usize::from(*rest.get(1)?) + 2) * 4,
            44 => 8,
            _ => break,
        };
        let later_fragment = next == 44 && be16(rest, 2)? >> 3 != 0;
        next = rest[0];
        // The protocol is the last header known to follow, even if the packet ends before it.
        fields.proto = KeyValue::unsigned(u64::from(next), 1);
        if later_fragment {
            return None;
        }
        rest = rest.get(length..)?;
    }
    ports(next, rest, fields)
}

#[inline]
fn ports(protocol: u8, segment: &[u8], fields: &mut PacketFields) -> Option<()> {
    if !matches!(protocol, TCP | UDP | SCTP) {
        return None;
    }
    let [a, b, c, d] = *segment.first_chunk::<4>()?;
    fields.sport = KeyValue::unsigned(u64::from(u16::from_be_bytes([a, b])), 2);
    fields.dport = KeyValue::unsigned(u64::from(u16::from_be_bytes([c, d])), 2);
    Some(())
}

#[cfg(test)]
mod tests;
