//! One key: its name, where its value comes from, and its text form.

use super::literal::{KeyType, Shown, start_of};
use super::{KeyValue, MAX_KEY_BYTES};
use crate::error::{Error, Result};
use crate::packet::PacketField;
use crate::size::Bytes;
use std::fmt;
use std::str::FromStr;

/// Words that queries use, and that therefore cannot name a key (in any mixture of cases).
pub const RESERVED_WORDS: [&str; 14] =
    ["seq", "time", "after", "before", "ago", "now", "and", "or", "not", "in", "host", "port", "net", "all"];

const MAX_NAME: usize = 32;

/// How the bytes of a value are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// An unsigned integer of 1 to 8 bytes, least significant byte first.
    UnsignedLittle,
    /// An unsigned integer of 1 to 8 bytes, most significant byte first.
    UnsignedBig,
    /// 1 to 16 bytes as they are.
    Bytes,
}

/// Where the value of a key comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Extraction {
    /// From a fixed place in the element.
    Fixed {
        /// The first byte.
        offset: u32,
        /// The number of bytes.
        width: u8,
        /// How to read them.
        format: Format,
    },
    /// From the headers of a captured packet.
    Packet(PacketField),
    /// Given by the caller beside each element.
    Caller {
        /// How to read what the caller gives.
        format: Format,
        /// The number of bytes.
        width: u8,
    },
}

/// A key: its name and where its value comes from.
///
/// Its text form (`id=u32le@8`, `tag=bytes4@0`, `src=pcap.src`, `user=caller.u64`) is also how it is serialised,
/// and never changes its meaning.
#[derive(Debug, Clone, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct KeySpec {
    name: String,
    extraction: Extraction,
}

impl KeySpec {
    /// A key; refused if the name is not a free identifier or the width is not one that the format can have.
    pub fn new(name: &str, extraction: Extraction) -> Result<KeySpec> {
        check_name(name)?;
        if let Extraction::Fixed { format, width, .. } | Extraction::Caller { format, width } = extraction {
            check_width(format, u64::from(width)).map_err(|e| e.of(format_args!("key '{name}'")))?;
        }
        Ok(KeySpec { name: name.to_string(), extraction })
    }

    /// Reads `NAME=EXTRACTION`: `id=u32le@8`, `n=u16be@2`, `b=u8@4`, `tag=bytes4@0`, `src=pcap.src`,
    /// `user=caller.u64`, `user=caller.bytes16`.
    pub fn parse(text: &str) -> Result<KeySpec> {
        let text = text.trim();
        let Some((name, rest)) = text.split_once('=') else {
            return Err(Error::usage(format!(
                "'{}' is not a key; write NAME=WHERE, such as id=u32le@8, tag=bytes4@0, src=pcap.src or \
                 user=caller.u64, or pcap for all keys of packets",
                start_of(text)
            )));
        };
        let (name, rest) = (name.trim(), rest.trim());
        check_name(name)?;
        let extraction = parse_extraction(rest).map_err(|e| e.of(format_args!("key '{name}'")))?;
        KeySpec::new(name, extraction)
    }

    /// The name, as in queries.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where the value comes from.
    pub fn extraction(&self) -> Extraction {
        self.extraction
    }

    /// How values of this key are written and read.
    pub fn key_type(&self) -> KeyType {
        match self.extraction {
            Extraction::Fixed { format: Format::Bytes, width, .. }
            | Extraction::Caller { format: Format::Bytes, width } => KeyType::Bytes { width },
            Extraction::Fixed { width, .. } | Extraction::Caller { width, .. } => KeyType::Unsigned { width },
            Extraction::Packet(PacketField::Src | PacketField::Dst) => KeyType::Address,
            Extraction::Packet(PacketField::Sport | PacketField::Dport | PacketField::Vlan) => {
                KeyType::Unsigned { width: 2 }
            }
            Extraction::Packet(PacketField::Proto) => KeyType::Protocol,
        }
    }

    /// A value of this key as a query writes it.
    pub fn show(&self, value: KeyValue) -> Shown {
        self.key_type().show(value)
    }

    /// How many of an element's first bytes it needs, if it has a fixed place.
    pub(super) fn reach(&self) -> u64 {
        match self.extraction {
            Extraction::Fixed { offset, width, .. } => u64::from(offset) + u64::from(width),
            Extraction::Packet(_) | Extraction::Caller { .. } => 0,
        }
    }

    /// Refuses a key that lies beyond the end of elements of this size.
    pub fn check_fits(&self, element: Bytes) -> Result<()> {
        let Extraction::Fixed { offset, width, .. } = self.extraction else { return Ok(()) };
        let end = self.reach();
        if end <= element.0 {
            return Ok(());
        }
        Err(Error::usage(format!(
            "key '{}' needs elements of at least {end} bytes ({width} bytes at offset {offset}), but elements have \
             {} bytes; choose another offset or width, or larger elements",
            self.name, element.0
        )))
    }
}

fn check_name(name: &str) -> Result<()> {
    let identifier = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !name.is_empty()
        && !name.as_bytes()[0].is_ascii_digit();
    if !identifier || name.len() > MAX_NAME {
        return Err(Error::usage(format!(
            "'{}' cannot name a key; a name has at most {MAX_NAME} letters, digits and underscores and does not begin \
             with a digit",
            start_of(name)
        )));
    }
    if RESERVED_WORDS.iter().any(|word| word.eq_ignore_ascii_case(name)) {
        return Err(Error::usage(format!("'{name}' is a word of the query language and cannot name a key; rename it")));
    }
    Ok(())
}

fn check_width(format: Format, width: u64) -> Result<u8> {
    let (what, most) = match format {
        Format::Bytes => ("bytes", MAX_KEY_BYTES as u64),
        Format::UnsignedLittle | Format::UnsignedBig => ("an integer", 8),
    };
    match u8::try_from(width) {
        Ok(fits) if (1..=most).contains(&width) => Ok(fits),
        _ => Err(Error::usage(format!("{width} bytes are not a width for {what}; it can have 1 to {most} bytes"))),
    }
}

fn parse_extraction(text: &str) -> Result<Extraction> {
    let bad = || {
        Error::usage(format!(
            "'{}' does not say where the value is; write it like u32le@8, u16be@2, bytes4@0, pcap.src, caller.u64 \
             or caller.bytes16",
            start_of(text)
        ))
    };
    if let Some(field) = text.strip_prefix("pcap.") {
        return PacketField::ALL.into_iter().find(|f| f.name() == field).map(Extraction::Packet).ok_or_else(|| {
            let fields = PacketField::ALL.map(PacketField::name).join(", ");
            Error::usage(format!("packets have no field '{}'; they have {fields}", start_of(field)))
        });
    }
    if let Some(value) = text.strip_prefix("caller.") {
        let (format, width) = parse_format(value)?.ok_or_else(bad)?;
        // What a program has in memory is little-endian nearly everywhere, so this is the default here.
        return Ok(Extraction::Caller { format: format.unwrap_or(Format::UnsignedLittle), width });
    }
    let (value, offset) = text.split_once('@').ok_or_else(bad)?;
    let (format, width) = parse_format(value)?.ok_or_else(bad)?;
    let format = match format {
        Some(format) => format,
        None if width == 1 => Format::UnsignedLittle,
        None => {
            return Err(Error::usage(format!(
                "'{value}' does not say its byte order; write {value}le@{offset} or {value}be@{offset}"
            )));
        }
    };
    let digits = !offset.is_empty() && offset.bytes().all(|b| b.is_ascii_digit());
    match offset.parse() {
        Ok(offset) if digits => Ok(Extraction::Fixed { offset, width, format }),
        _ => Err(Error::usage(format!("'{}' is not an offset; it can be 0 to {}", start_of(offset), u32::MAX))),
    }
}

/// Reads `u32le`, `u32be`, `u32` (no format yet) or `bytes4`.
fn parse_format(text: &str) -> Result<Option<(Option<Format>, u8)>> {
    let number = |digits: &str| -> Option<u64> {
        (digits.bytes().all(|b| b.is_ascii_digit()) && digits.len() < 10).then(|| digits.parse().ok()).flatten()
    };
    if let Some(digits) = text.strip_prefix("bytes") {
        let Some(width) = number(digits) else { return Ok(None) };
        return Ok(Some((Some(Format::Bytes), check_width(Format::Bytes, width)?)));
    }
    let Some(rest) = text.strip_prefix('u') else { return Ok(None) };
    let (digits, format) = if let Some(digits) = rest.strip_suffix("le") {
        (digits, Some(Format::UnsignedLittle))
    } else if let Some(digits) = rest.strip_suffix("be") {
        (digits, Some(Format::UnsignedBig))
    } else {
        (rest, None)
    };
    let Some(bits) = number(digits) else { return Ok(None) };
    if bits % 8 != 0 {
        return Err(Error::usage(format!(
            "an integer of {bits} bits is not whole bytes; it can have 8, 16, ... 64 bits"
        )));
    }
    Ok(Some((format, check_width(Format::UnsignedLittle, bits / 8)?)))
}

impl fmt::Display for Extraction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Extraction::Packet(field) => write!(f, "pcap.{}", field.name()),
            Extraction::Fixed { offset, width, format } => {
                write_format(f, format, width, width == 1)?;
                write!(f, "@{offset}")
            }
            Extraction::Caller { format, width } => {
                f.write_str("caller.")?;
                write_format(f, format, width, true)
            }
        }
    }
}

fn write_format(f: &mut fmt::Formatter<'_>, format: Format, width: u8, little_is_default: bool) -> fmt::Result {
    let bits = u32::from(width) * 8;
    match format {
        Format::Bytes => write!(f, "bytes{width}"),
        Format::UnsignedBig => write!(f, "u{bits}be"),
        Format::UnsignedLittle if little_is_default => write!(f, "u{bits}"),
        Format::UnsignedLittle => write!(f, "u{bits}le"),
    }
}

impl fmt::Display for KeySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={}", self.name, self.extraction)
    }
}

impl FromStr for KeySpec {
    type Err = Error;
    fn from_str(text: &str) -> Result<KeySpec> {
        KeySpec::parse(text)
    }
}

impl TryFrom<String> for KeySpec {
    type Error = Error;
    fn try_from(text: String) -> Result<KeySpec> {
        KeySpec::parse(&text)
    }
}

impl From<KeySpec> for String {
    fn from(spec: KeySpec) -> String {
        spec.to_string()
    }
}
