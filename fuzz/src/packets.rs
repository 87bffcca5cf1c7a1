//! Packets, as a tap hands them in: anybody on the network makes them.

use forebay_model::packet::{LinkType, parse};

/// Two bytes say what a packet begins with.
pub(super) fn take(bytes: &[u8]) {
    let Some((link, packet)) = bytes.split_first_chunk::<2>() else { return };
    let _ = parse(LinkType(u16::from_le_bytes(*link)), packet);
}
