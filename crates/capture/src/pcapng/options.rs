//! The options behind the fixed fields of a block, and the comments in which gaps are told.

use super::option;
use forebay_model::{Cause, Gap, Timestamp};

/// Numbers in the byte order of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

impl Order {
    pub(super) fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let two = [bytes[at], bytes[at + 1]];
        if self == Order::Big { u16::from_be_bytes(two) } else { u16::from_le_bytes(two) }
    }

    pub(super) fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let four = [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
        if self == Order::Big { u32::from_be_bytes(four) } else { u32::from_le_bytes(four) }
    }

    pub(super) fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let (first, second) = (u64::from(self.u32(bytes, at)), u64::from(self.u32(bytes, at + 4)));
        if self == Order::Big { first << 32 | second } else { second << 32 | first }
    }
}

/// Walks over options. Yields `Err(offset)` once if they are malformed there, and then ends.
pub(super) struct Options<'a> {
    bytes: &'a [u8],
    at: usize,
    order: Order,
}

impl<'a> Options<'a> {
    pub(super) fn new(bytes: &'a [u8], order: Order) -> Options<'a> {
        Options { bytes, at: 0, order }
    }
}

impl<'a> Iterator for Options<'a> {
    type Item = Result<(u16, &'a [u8]), usize>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.at..).filter(|rest| !rest.is_empty())?;
        let at = self.at;
        self.at = self.bytes.len();
        if rest.len() < 4 {
            return Some(Err(at));
        }
        let (code, length) = (self.order.u16(rest, 0), usize::from(self.order.u16(rest, 2)));
        if code == option::END {
            return None;
        }
        let Some(value) = rest.get(4..4 + length) else { return Some(Err(at)) };
        self.at = at + 4 + length.next_multiple_of(4);
        Some(Ok((code, value)))
    }
}

const TOLD: &str = "forebay: ";

/// The comment that tells of `gap`.
pub(super) fn tell(gap: &Gap) -> String {
    format!("{TOLD}{gap}")
}

/// The gap that a comment of ours tells of; other comments are none.
pub(super) fn told(comment: &[u8]) -> Option<Gap> {
    let text = std::str::from_utf8(comment).ok()?.strip_prefix(TOLD)?;
    let (count, rest) = text.split_once(" missing (")?;
    let (cause, rest) = rest.split_once(") from ")?;
    let (first, last) = rest.split_once(" to ")?;
    let count = match count {
        "an unknown number" => None,
        number => Some(number.parse().ok()?),
    };
    let cause = Cause::ALL.into_iter().find(|c| c.name() == cause)?;
    let time = |text| Timestamp::parse(text, Timestamp(0)).ok();
    Some(Gap { cause, count, first: time(first)?, last: time(last)? })
}
