//! Keys: what an element can be found by, besides its sequence number and its time.
//!
//! Owns the canonical form of a key value, the description of a ring's keys (what they are called and where their
//! values come from), their extraction from elements, and their text forms. The invariants:
//!
//! - Values of one key compare as their bytes do: integers are big-endian, addresses are in network order.
//! - Nothing here allocates per element.
//! - The text form of a key and [`KeyValue::hash`] are stored on disk, and never change.

mod literal;
mod set;
mod spec;

pub use literal::{KeyType, Literal, Shown, protocol_name, protocol_number, quoted};
pub(crate) use literal::{parse_unsigned, prefix_length};
pub use set::KeySet;
pub use spec::{Extraction, Format, KeySpec, RESERVED_WORDS};

use crate::error::{Error, Result};
use std::fmt;
use std::net::IpAddr;

/// The widest value a key can have, in bytes.
pub const MAX_KEY_BYTES: usize = 16;

/// The most keys a ring can have.
pub const MAX_KEYS: usize = 16;

/// The value of one key in one element, in canonical form.
///
/// Unsigned integers are big-endian in the width of their key, IPv4 addresses have 4 bytes and IPv6 addresses 16,
/// bytes are as they are. No bytes at all means that the element does not have this key (a packet without ports).
///
/// Order: shorter values first, then by bytes. Within a key this is the order of the values (IPv4 before IPv6).
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyValue {
    // The order of these two fields is the order of values; bytes beyond `len` are zero.
    len: u8,
    bytes: [u8; MAX_KEY_BYTES],
}

impl KeyValue {
    /// The element does not have this key.
    pub const MISSING: KeyValue = KeyValue { len: 0, bytes: [0; MAX_KEY_BYTES] };

    /// The low `width` bytes of `value`; `width` is 1 to 8.
    #[inline]
    pub const fn unsigned(value: u64, width: u8) -> KeyValue {
        debug_assert!(width >= 1 && width <= 8);
        let high = (value << (64 - 8 * width as u32)).to_be_bytes();
        let [a, b, c, d, e, f, g, h] = high;
        KeyValue { len: width, bytes: [a, b, c, d, e, f, g, h, 0, 0, 0, 0, 0, 0, 0, 0] }
    }

    /// A value of four bytes, such as an IPv4 address in network order.
    #[inline]
    pub const fn four([a, b, c, d]: [u8; 4]) -> KeyValue {
        KeyValue { len: 4, bytes: [a, b, c, d, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0] }
    }

    /// A value of sixteen bytes, such as an IPv6 address in network order.
    #[inline]
    pub const fn sixteen(bytes: [u8; 16]) -> KeyValue {
        KeyValue { len: 16, bytes }
    }

    /// An address.
    pub const fn address(address: IpAddr) -> KeyValue {
        match address {
            IpAddr::V4(a) => KeyValue::four(a.octets()),
            IpAddr::V6(a) => KeyValue::sixteen(a.octets()),
        }
    }

    /// These bytes; refused beyond [`MAX_KEY_BYTES`].
    pub fn from_bytes(bytes: &[u8]) -> Result<KeyValue> {
        if bytes.len() > MAX_KEY_BYTES {
            return Err(Error::usage(format!(
                "a key value of {} bytes is wider than the {MAX_KEY_BYTES} bytes a key can hold; use its first \
                 {MAX_KEY_BYTES} bytes or a hash of it",
                bytes.len()
            )));
        }
        Ok(KeyValue::cut(bytes))
    }

    /// The first [`MAX_KEY_BYTES`] of these bytes.
    #[inline]
    fn cut(bytes: &[u8]) -> KeyValue {
        let mut value = KeyValue::MISSING;
        let len = bytes.len().min(MAX_KEY_BYTES);
        value.bytes[..len].copy_from_slice(&bytes[..len]);
        value.len = len as u8;
        value
    }

    /// The canonical bytes; none if the key is missing.
    #[inline]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    /// Width in bytes; 0 if the key is missing.
    #[inline]
    pub const fn width(&self) -> usize {
        self.len as usize
    }

    /// Whether the element does not have this key.
    #[inline]
    pub const fn is_missing(&self) -> bool {
        self.len == 0
    }

    /// The value as an unsigned integer, if it is present and at most 8 bytes wide.
    pub const fn as_unsigned(&self) -> Option<u64> {
        if self.len == 0 || self.len > 8 {
            return None;
        }
        Some((self.as_u128() >> (128 - 8 * self.len as u32)) as u64)
    }

    /// The bytes as one number, the first byte the most significant: orders values of one width.
    #[inline]
    pub(crate) const fn as_u128(&self) -> u128 {
        u128::from_be_bytes(self.bytes)
    }

    /// The smallest and the largest value of this value's width.
    pub(crate) fn bounds_of_width(&self) -> (KeyValue, KeyValue) {
        let mut high = KeyValue { len: self.len, bytes: [0; MAX_KEY_BYTES] };
        let low = high;
        high.bytes[..usize::from(self.len)].fill(0xff);
        (low, high)
    }

    /// The next larger value of the same width, if there is one.
    pub(crate) fn next(&self) -> Option<KeyValue> {
        let mut next = *self;
        for byte in next.bytes[..usize::from(self.len)].iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                return Some(next);
            }
        }
        None
    }

    /// The next smaller value of the same width, if there is one.
    pub(crate) fn previous(&self) -> Option<KeyValue> {
        let mut previous = *self;
        for byte in previous.bytes[..usize::from(self.len)].iter_mut().rev() {
            *byte = byte.wrapping_sub(1);
            if *byte != 0xff {
                return Some(previous);
            }
        }
        None
    }

    /// The hash that indexes on disk use. It never changes; all arithmetic is modulo 2^64:
    ///
    /// ```text
    /// a, b = the bytes, zeros appended up to 16, as two little-endian 64-bit integers
    /// h = (a * 0x9E3779B185EBCA87) xor rotate_left(b * 0xC2B2AE3D27D4EB4F, 32)
    /// h = h + len * 0x165667B19E3779F9
    /// h = (h xor (h >> 33)) * 0xFF51AFD7ED558CCD
    /// h = (h xor (h >> 33)) * 0xC4CEB9FE1A85EC53
    /// h =  h xor (h >> 33)
    /// ```
    ///
    /// (The first constants are xxHash64's primes, the last three lines are MurmurHash3's 64-bit finaliser.)
    /// It spreads; it does not resist somebody who wants collisions, and need not: a false match is looked at again.
    #[inline]
    pub const fn hash(&self) -> u64 {
        let both = u128::from_le_bytes(self.bytes);
        let (a, b) = (both as u64, (both >> 64) as u64);
        let mut h = a.wrapping_mul(0x9E37_79B1_85EB_CA87) ^ b.wrapping_mul(0xC2B2_AE3D_27D4_EB4F).rotate_left(32);
        h = h.wrapping_add((self.len as u64).wrapping_mul(0x1656_67B1_9E37_79F9));
        h = (h ^ (h >> 33)).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        h = (h ^ (h >> 33)).wrapping_mul(0xC4CE_B9FE_1A85_EC53);
        h ^ (h >> 33)
    }
}

impl fmt::Debug for KeyValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_missing() {
            return f.write_str("missing");
        }
        f.write_str("0x")?;
        self.as_bytes().iter().try_for_each(|b| write!(f, "{b:02x}"))
    }
}

#[cfg(test)]
pub(crate) mod chance;
#[cfg(test)]
mod tests;
