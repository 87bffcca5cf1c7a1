//! Values of keys as people write and read them.

use super::KeyValue;
use crate::error::{Error, Result};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How the values of a key are written and read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum KeyType {
    /// An unsigned integer of `width` bytes: `53`, `0x35`.
    Unsigned {
        /// Bytes, 1 to 8.
        width: u8,
    },
    /// `width` bytes: `"abcd"`, `0xdeadbeef`; an address too where it has that width.
    Bytes {
        /// Bytes, 1 to 16.
        width: u8,
    },
    /// An IPv4 or IPv6 address: `10.0.0.1`, `fe80::1`.
    Address,
    /// The number of an IP protocol, or its name: `tcp`, `17`.
    Protocol,
}

/// A value in the text of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Literal<'a> {
    /// Written without quotes.
    Bare(&'a str),
    /// What stood between quotes, escapes resolved.
    Quoted(&'a [u8]),
}

const PROTOCOLS: [(&str, u8); 10] = [
    ("icmp", 1),
    ("igmp", 2),
    ("tcp", 6),
    ("udp", 17),
    ("gre", 47),
    ("esp", 50),
    ("ah", 51),
    ("icmp6", 58),
    ("ospf", 89),
    ("sctp", 132),
];

/// The name of an IP protocol, if it has one here.
pub fn protocol_name(number: u8) -> Option<&'static str> {
    PROTOCOLS.iter().find(|(_, n)| *n == number).map(|(name, _)| *name)
}

/// The number of a named IP protocol, in any mixture of cases.
pub fn protocol_number(name: &str) -> Option<u8> {
    PROTOCOLS.iter().find(|(n, _)| n.eq_ignore_ascii_case(name)).map(|(_, number)| *number)
}

/// Reads the text that begins with a quote (`"` or `'`): what it holds with escapes resolved, and the bytes it takes up.
/// A backslash takes the next character as it is, and `\xNN` is a byte. `None` if the quote is not closed.
pub fn quoted(text: &str) -> Option<(Vec<u8>, usize)> {
    let bytes = text.as_bytes();
    let quote = *bytes.first().filter(|b| matches!(b, b'"' | b'\''))?;
    let mut held = Vec::new();
    let mut at = 1;
    loop {
        match *bytes.get(at)? {
            b if b == quote => return Some((held, at + 1)),
            b'\\' => {
                let hex = (bytes.get(at + 1) == Some(&b'x')).then(|| bytes.get(at + 2..at + 4)).flatten();
                if let Some(&[high, low]) = hex
                    && let (Some(high), Some(low)) = (hex_digit(high), hex_digit(low))
                {
                    held.push(high << 4 | low);
                    at += 4;
                } else {
                    held.push(*bytes.get(at + 1)?);
                    at += 2;
                }
            }
            b => {
                held.push(b);
                at += 1;
            }
        }
    }
}

fn hex_digit(byte: u8) -> Option<u8> {
    (byte as char).to_digit(16).map(|d| d as u8)
}

/// Reads `123` or `0x7b`; no signs, no spaces.
pub(crate) fn parse_unsigned(text: &str) -> Option<u64> {
    match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u64::from_str_radix(hex, 16).ok(),
        None if text.bytes().all(|b| b.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

/// The beginning of a text, for messages.
pub(super) fn start_of(text: &str) -> String {
    const MOST: usize = 48;
    let mut start: String = text.chars().take(MOST).collect();
    if start.len() < text.len() {
        start.push_str("...");
    }
    start
}

impl KeyType {
    /// Reads a value of this type.
    pub fn parse(self, literal: Literal<'_>) -> Result<KeyValue> {
        let text = match literal {
            Literal::Bare(text) => text,
            Literal::Quoted(held) => {
                if let KeyType::Bytes { width } = self {
                    return from_quoted(held, usize::from(width));
                }
                std::str::from_utf8(held).map_err(|_| Error::usage("the quoted value is not text"))?
            }
        };
        let start = start_of(text);
        match self {
            KeyType::Unsigned { width } => {
                let most = u64::MAX >> (64 - 8 * u32::from(width));
                match parse_unsigned(text) {
                    Some(value) if value <= most => Ok(KeyValue::unsigned(value, width)),
                    // Digits that overflow 64 bits are a number all the same.
                    None if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) => {
                        Err(Error::usage(format!("'{start}' is not a number; write it like 53 or 0x35")))
                    }
                    _ => Err(Error::usage(format!(
                        "{start} does not fit a key of {width} bytes; its values are 0 to {most}"
                    ))),
                }
            }
            KeyType::Bytes { width } => bare_bytes(text, width),
            KeyType::Address => match text.parse::<IpAddr>() {
                Ok(address) => Ok(KeyValue::address(address)),
                Err(_) => Err(Error::usage(format!("'{start}' is not an address; write it like 10.0.0.1 or fe80::1"))),
            },
            KeyType::Protocol => {
                let number = parse_unsigned(text).and_then(|n| u8::try_from(n).ok());
                match number.or_else(|| protocol_number(text)) {
                    Some(number) => Ok(KeyValue::unsigned(u64::from(number), 1)),
                    None => Err(Error::usage(format!(
                        "'{start}' is not a protocol; it can be {} or a number up to 255",
                        PROTOCOLS.map(|(name, _)| name).join(", ")
                    ))),
                }
            }
        }
    }

    /// Reads a network such as `10.0.0.0/8` as its first and last address, if this type can hold its addresses;
    /// `None` if the text is not of that form. Bits beyond the prefix are ignored.
    pub fn parse_network(self, text: &str) -> Option<Result<(KeyValue, KeyValue)>> {
        let (address, prefix) = text.split_once('/')?;
        if !matches!(self, KeyType::Address | KeyType::Bytes { width: 4 | 16 }) {
            return None;
        }
        Some((|| {
            let address = self.parse(Literal::Bare(address))?;
            let bits = address.width() as u32 * 8;
            let digits = !prefix.is_empty() && prefix.len() <= 3 && prefix.bytes().all(|b| b.is_ascii_digit());
            let length = match prefix.parse::<u32>() {
                Ok(length) if digits && length <= bits => length,
                _ => {
                    return Err(Error::usage(format!(
                        "'/{}' is not the length of a prefix; it can be /0 to /{bits} here",
                        start_of(prefix)
                    )));
                }
            };
            Ok(network(address, length))
        })())
    }

    /// A value of this type as a query writes it.
    pub fn show(self, value: KeyValue) -> Shown {
        Shown { kind: self, value }
    }
}

/// The first and the last value that share the first `length` bits with `value`.
fn network(value: KeyValue, length: u32) -> (KeyValue, KeyValue) {
    let width = value.width();
    let host = u128::MAX.checked_shr(length).unwrap_or(0);
    let low = value.as_u128() & !host;
    let high = low | host;
    (KeyValue::cut(&low.to_be_bytes()[..width]), KeyValue::cut(&high.to_be_bytes()[..width]))
}

/// The length of the prefix if `low..=high` is a network of more than one address.
pub(crate) fn prefix_length(low: KeyValue, high: KeyValue) -> Option<u32> {
    let length = (low.as_u128() ^ high.as_u128()).leading_zeros();
    (length < low.width() as u32 * 8 && network(low, length) == (low, high)).then_some(length)
}

fn from_quoted(held: &[u8], width: usize) -> Result<KeyValue> {
    if held.len() > width {
        return Err(Error::usage(format!(
            "the quoted value has {} bytes, but the key has {width}; shorten it",
            held.len()
        )));
    }
    // Shorter strings are filled up with zeros, as fixed fields usually are.
    let mut bytes = [0; super::MAX_KEY_BYTES];
    bytes[..held.len()].copy_from_slice(held);
    Ok(KeyValue::cut(&bytes[..width]))
}

fn bare_bytes(text: &str, width: u8) -> Result<KeyValue> {
    if width == 4
        && let Ok(address) = text.parse::<Ipv4Addr>()
    {
        return Ok(KeyValue::four(address.octets()));
    }
    if width == 16
        && let Ok(address) = text.parse::<Ipv6Addr>()
    {
        return Ok(KeyValue::sixteen(address.octets()));
    }
    let (width, start) = (usize::from(width), start_of(text));
    let Some(hex) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) else {
        return Err(Error::usage(format!("'{start}' is not bytes; write \"{start}\" in quotes, or 0x and hex digits")));
    };
    if hex.len() != 2 * width || !hex.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(Error::usage(format!(
            "'{start}' is not a value of {width} bytes; write 0x and {} hex digits",
            2 * width
        )));
    }
    let mut bytes = [0; super::MAX_KEY_BYTES];
    for (byte, pair) in bytes.iter_mut().zip(hex.as_bytes().chunks_exact(2)) {
        *byte = hex_digit(pair[0]).unwrap_or(0) << 4 | hex_digit(pair[1]).unwrap_or(0);
    }
    Ok(KeyValue::cut(&bytes[..width]))
}

/// Prints a value as a query writes it; a missing one as `-`.
#[derive(Debug, Clone, Copy)]
pub struct Shown {
    kind: KeyType,
    value: KeyValue,
}

impl fmt::Display for Shown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.value.as_bytes();
        match (self.kind, bytes.len()) {
            (_, 0) => f.write_str("-"),
            (KeyType::Address, 4) => Ipv4Addr::from_octets(four(bytes)).fmt(f),
            (KeyType::Address, 16) => Ipv6Addr::from_octets(sixteen(bytes)).fmt(f),
            (KeyType::Protocol, 1) => match protocol_name(bytes[0]) {
                Some(name) => f.write_str(name),
                None => write!(f, "{}", bytes[0]),
            },
            (KeyType::Unsigned { .. }, 1..=8) => write!(f, "{}", self.value.as_unsigned().unwrap_or(0)),
            _ => write_bytes(f, bytes),
        }
    }
}

fn four(bytes: &[u8]) -> [u8; 4] {
    bytes.first_chunk().copied().unwrap_or_default()
}

fn sixteen(bytes: &[u8]) -> [u8; 16] {
    bytes.first_chunk().copied().unwrap_or_default()
}

fn write_bytes(f: &mut fmt::Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    let text = &bytes[..bytes.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1)];
    if text.is_empty() || !text.iter().all(|b| (0x20..0x7f).contains(b)) {
        f.write_str("0x")?;
        return bytes.iter().try_for_each(|b| write!(f, "{b:02x}"));
    }
    f.write_str("\"")?;
    for byte in text {
        if matches!(byte, b'"' | b'\\') {
            f.write_str("\\")?;
        }
        write!(f, "{}", *byte as char)?;
    }
    f.write_str("\"")
}
