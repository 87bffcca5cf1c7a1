//! What the first byte of a packet is the first byte of.

use std::fmt;

/// A number of the registry of link-layer types that pcap and pcapng share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// Ethernet frames.
    pub const ETHERNET: LinkType = LinkType(1);
    /// Packets that begin with an IPv4 or IPv6 header.
    pub const RAW: LinkType = LinkType(101);
    /// IEEE 802.11 frames.
    pub const IEEE802_11: LinkType = LinkType(105);
    /// IEEE 802.11 frames with a radiotap header.
    pub const RADIOTAP: LinkType = LinkType(127);
    /// The first type reserved for private use: elements that are not packets.
    pub const USER0: LinkType = LinkType(147);

    /// The type of an interface of this kind (`ARPHRD_*` of the kernel), if its frames have one.
    pub fn of_interface(kind: u16) -> Option<LinkType> {
        match kind {
            // Ethernet; loopback, whose frames have an empty Ethernet header.
            1 | 772 => Some(LinkType::ETHERNET),
            // Tunnels that carry bare IP: none, rawip, tunnel, tunnel6, sit, ipgre.
            0xfffe | 519 | 768 | 769 | 776 | 778 => Some(LinkType::RAW),
            801 => Some(LinkType::IEEE802_11),
            803 => Some(LinkType::RADIOTAP),
            _ => None,
        }
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
