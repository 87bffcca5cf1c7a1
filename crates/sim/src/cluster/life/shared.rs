//! The plain model of files that several clients write at the same time: of each byte, whose it may be.
//!
//! Each write has one value for all of its bytes, and a number for when it was asked and when it was answered. A byte may be of
//! any write that was not surely overwritten: by one that was answered well, and asked for after this one was answered.

use std::ops::Range;

/// One write.
#[derive(Debug, Clone)]
struct Write {
    value: u8,
    /// Where; of an append whose answer was lost, wherever it may be.
    range: Range<u64>,
    length: u64,
    begun: u64,
    /// When it was answered well. What failed may be there, and may come later.
    done: Option<u64>,
    appended: bool,
}

/// A file that several clients write.
#[derive(Debug, Default)]
pub(in crate::cluster) struct Shared {
    pub(in crate::cluster) path: String,
    writes: Vec<Write>,
    now: u64,
}

impl Shared {
    pub(super) fn new(path: String) -> Shared {
        Shared { path, ..Shared::default() }
    }

    /// A moment that is later than all before.
    pub(super) fn moment(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// A write is asked for: at a place, or behind the end. Its number, and the value of its bytes.
    pub(super) fn begin(&mut self, at: Option<u64>, length: u64) -> (usize, u8) {
        let begun = self.moment();
        let number = self.writes.len();
        let value = 1 + (number % 255) as u8;
        let least = self.least(begun);
        let range = at.map_or(least..u64::MAX, |at| at..at + length);
        self.writes.push(Write { value, range, length, begun, done: None, appended: at.is_none() });
        (number, value)
    }

    /// It was answered well; where it is then.
    pub(super) fn end(&mut self, number: usize, range: Range<u64>) -> Result<(), String> {
        let done = self.moment();
        let overlaps = |other: &Write| {
            other.appended && other.done.is_some() && other.range.start < range.end && range.start < other.range.end
        };
        if self.writes[number].appended
            && let Some(other) = self.writes.iter().find(|other| overlaps(other))
        {
            return Err(format!("{range:?} of {} was appended, and so was {:?}", self.path, other.range));
        }
        let write = &mut self.writes[number];
        (write.range, write.done) = (range, Some(done));
        Ok(())
    }

    /// The file is so long at least for whoever asks at `moment`.
    fn least(&self, moment: u64) -> u64 {
        let done = self.writes.iter().filter(|write| write.done.is_some_and(|done| done < moment));
        done.map(|write| write.range.end).max().unwrap_or(0)
    }

    /// The file is so long at most: nobody has written behind it, wherever appends whose answers were lost are.
    fn most(&self) -> u64 {
        let (placed, somewhere): (Vec<_>, Vec<_>) = self.writes.iter().partition(|write| write.range.end < u64::MAX);
        let end = placed.iter().map(|write| write.range.end).max().unwrap_or(0);
        end + somewhere.iter().map(|write| write.length).sum::<u64>()
    }

    /// Whether bytes from `from` on may be read by who asked at `begun` for so many; one answered now.
    pub(in crate::cluster) fn allows(&self, from: u64, length: u64, bytes: &[u8], begun: u64) -> Result<(), String> {
        let least = self.least(begun).saturating_sub(from).min(length);
        if (bytes.len() as u64) < least {
            return Err(format!("{} has {} bytes from {from} on, and {least} were written", self.path, bytes.len()));
        }
        let most = self.most();
        if !bytes.is_empty() && from + bytes.len() as u64 > most {
            let length = bytes.len();
            return Err(format!("{} has {length} bytes from {from} on, and at most {most} were written", self.path));
        }
        let before = |write: &Write| write.done.is_some_and(|done| done < begun);
        for (at, byte) in (from..).zip(bytes) {
            let here = || self.writes.iter().filter(|write| write.range.contains(&at));
            let last = here().filter(|write| before(write)).map(|write| write.begun).max();
            let is_over = |write: &Write| write.done.zip(last).is_some_and(|(done, last)| done < last);
            let is_zero = *byte == 0 && last.is_none();
            if !is_zero && !here().any(|write| write.value == *byte && !is_over(write)) {
                let writes: Vec<&Write> = here().collect();
                return Err(format!("byte {at} of {} is {byte}, and there was written {writes:?}", self.path));
            }
        }
        Ok(())
    }

    /// All of it, as of now.
    pub(in crate::cluster) fn is(&mut self, bytes: &[u8]) -> Result<(), String> {
        let begun = self.moment();
        self.allows(0, u64::MAX, bytes, begun)
    }
}
