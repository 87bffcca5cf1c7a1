//! The keys of a ring, in their order, and their extraction from an element.

use super::{Extraction, Format, KeySpec, KeyValue, MAX_KEYS};
use crate::block::{MAX_BLOCK, largest_piece};
use crate::error::{Error, Result};
use crate::packet::{self, LinkType, PacketField, PacketFields};
use crate::size::Bytes;
use std::fmt;

/// The keys of a ring. Names are unique (ignoring case); the position of a key here is its number everywhere.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(try_from = "Stored", into = "Stored")]
pub struct KeySet {
    specs: Vec<KeySpec>,
    link: LinkType,
    /// What `extract` does for each key; worked out once.
    steps: Vec<Step>,
    packet: bool,
    caller_width: usize,
}

/// The serialised form.
#[derive(serde::Serialize, serde::Deserialize)]
struct Stored {
    keys: Vec<KeySpec>,
    link: LinkType,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Payload { offset: usize, width: u8, format: Format },
    Caller { offset: usize, width: u8, format: Format },
    Packet(PacketField),
}

impl KeySet {
    /// No keys: elements are found by sequence and time only.
    pub fn none() -> KeySet {
        KeySet::default()
    }

    /// These keys, in this order; refused if two have one name or there are more than [`MAX_KEYS`].
    pub fn new(specs: Vec<KeySpec>) -> Result<KeySet> {
        if specs.len() > MAX_KEYS {
            return Err(Error::usage(format!("{} keys are too many; a ring can have {MAX_KEYS}", specs.len())));
        }
        for (i, spec) in specs.iter().enumerate() {
            if specs[..i].iter().any(|other| other.name().eq_ignore_ascii_case(spec.name())) {
                return Err(Error::usage(format!("key '{}' is given twice; rename one", spec.name())));
            }
        }
        let mut caller_width = 0;
        let steps = specs.iter().map(|spec| match spec.extraction() {
            Extraction::Fixed { offset, width, format } => Step::Payload { offset: offset as usize, width, format },
            Extraction::Packet(field) => Step::Packet(field),
            Extraction::Caller { format, width } => {
                let offset = caller_width;
                caller_width += usize::from(width);
                Step::Caller { offset, width, format }
            }
        });
        let steps: Vec<Step> = steps.collect();
        let packet = steps.iter().any(|step| matches!(step, Step::Packet(_)));
        Ok(KeySet { specs, link: LinkType::default(), steps, packet, caller_width })
    }

    /// Reads keys, one text each; `pcap` stands for all keys of packets (src, dst, sport, dport, proto, vlan).
    pub fn parse<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> Result<KeySet> {
        let mut specs = Vec::new();
        for text in texts {
            match text.as_ref().trim() {
                "pcap" => {
                    for field in PacketField::ALL {
                        specs.push(KeySpec::new(field.name(), Extraction::Packet(field))?);
                    }
                }
                one => specs.push(KeySpec::parse(one)?),
            }
        }
        KeySet::new(specs)
    }

    /// The same keys for packets that begin with another link header than Ethernet's.
    pub fn with_link_type(mut self, link: LinkType) -> KeySet {
        self.link = link;
        self
    }

    /// What packets begin with, if any key comes from packets.
    pub fn link_type(&self) -> LinkType {
        self.link
    }

    /// The keys in order.
    pub fn specs(&self) -> &[KeySpec] {
        &self.specs
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Whether there is no key.
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// The number of the key of this name, ignoring case.
    pub fn index_of(&self, name: &str) -> Option<usize> {
        self.specs.iter().position(|spec| spec.name().eq_ignore_ascii_case(name))
    }

    /// How many bytes the caller gives beside each element: its keys in order, without padding.
    pub fn caller_width(&self) -> usize {
        self.caller_width
    }

    /// Refuses keys that lie beyond the end of elements of this (the smallest or the fixed) size.
    pub fn check_fits(&self, element: Bytes) -> Result<()> {
        self.specs.iter().try_for_each(|spec| spec.check_fits(element))
    }

    /// How many of an element's first bytes its keys of fixed place need.
    pub fn reach(&self) -> u64 {
        self.specs.iter().map(KeySpec::reach).max().unwrap_or(0)
    }

    /// Refuses keys that do not lie in what a block of `block` takes of an element that is larger.
    pub fn check_block(&self, block: Bytes) -> Result<()> {
        let piece = largest_piece(block.0 as usize, self.caller_width) as u64;
        match self.specs.iter().find(|spec| spec.reach() > piece) {
            None => Ok(()),
            Some(spec) => Err(Error::usage(format!(
                "key '{}' ends {} bytes into an element, and of one that is larger than a block of {block} the first \
                 block has {piece}; give the ring larger blocks (up to {}), or the key another offset",
                spec.name(),
                spec.reach(),
                Bytes(MAX_BLOCK as u64)
            ))),
        }
    }

    /// Takes the value of every key from an element and from what the caller gave beside it ([`Self::caller_width`]
    /// bytes). What is not there, because the element is too short or has no such header, is missing.
    /// `out` has one place per key.
    #[inline]
    pub fn extract(&self, payload: &[u8], caller: &[u8], out: &mut [KeyValue]) {
        debug_assert_eq!(out.len(), self.steps.len());
        let fields = if self.packet { packet::parse(self.link, payload) } else { PacketFields::NONE };
        for (step, out) in self.steps.iter().zip(out) {
            *out = match *step {
                Step::Packet(field) => fields.get(field),
                Step::Payload { offset, width, format } => read(payload, offset, width, format),
                Step::Caller { offset, width, format } => read(caller, offset, width, format),
            };
        }
    }
}

#[inline]
fn read(from: &[u8], offset: usize, width: u8, format: Format) -> KeyValue {
    // An offset near the top of the address space must not wrap round on narrow machines.
    let Some(bytes) = from.get(offset..).and_then(|rest| rest.get(..usize::from(width))) else {
        return KeyValue::MISSING;
    };
    match format {
        Format::Bytes | Format::UnsignedBig => KeyValue::cut(bytes),
        Format::UnsignedLittle => {
            let value = match *bytes {
                [a] => u64::from(a),
                [a, b] => u64::from(u16::from_le_bytes([a, b])),
                [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
                [a, b, c, d, e, f, g, h] => u64::from_le_bytes([a, b, c, d, e, f, g, h]),
                _ => bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)),
            };
            KeyValue::unsigned(value, width)
        }
    }
}

impl fmt::Display for KeySet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, spec) in self.specs.iter().enumerate() {
            write!(f, "{}{spec}", if i == 0 { "" } else { " " })?;
        }
        Ok(())
    }
}

impl TryFrom<Stored> for KeySet {
    type Error = Error;
    fn try_from(stored: Stored) -> Result<KeySet> {
        Ok(KeySet::new(stored.keys)?.with_link_type(stored.link))
    }
}

impl From<KeySet> for Stored {
    fn from(set: KeySet) -> Stored {
        Stored { keys: set.specs, link: set.link }
    }
}
