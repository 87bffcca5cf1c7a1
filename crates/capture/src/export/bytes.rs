//! Payload and nothing else, or with lengths.

use super::{Exporter, Keys, Out, Totals};
use forebay_model::{Error, Gap, Result, Timestamp};
use std::ops::Range;

/// One element behind the other.
pub(super) struct Raw {
    out: Out,
    totals: Totals,
}

impl Raw {
    pub(super) fn new(out: Out) -> Raw {
        Raw { out, totals: Totals::default() }
    }
}

impl Exporter for Raw {
    fn element_cut(&mut self, _: u64, _: Timestamp, parts: &[&[u8]], _: &Keys<'_>, _: u32) -> Result<()> {
        self.totals.count(parts);
        self.out.put_all(parts)
    }

    fn gap(&mut self, _: &Gap) -> Result<()> {
        self.totals.leave_out_gap();
        Ok(())
    }

    fn expired(&mut self, range: Range<u64>) -> Result<()> {
        self.totals.leave_out_expired(&range);
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.out.push()
    }

    fn finish(mut self: Box<Self>) -> Result<Totals> {
        self.out.push()?;
        Ok(self.totals)
    }
}

/// Every element behind its length.
pub(super) struct LengthPrefixed {
    raw: Raw,
}

impl LengthPrefixed {
    pub(super) fn new(out: Out) -> LengthPrefixed {
        LengthPrefixed { raw: Raw::new(out) }
    }
}

impl Exporter for LengthPrefixed {
    fn element_cut(
        &mut self,
        sequence: u64,
        time: Timestamp,
        parts: &[&[u8]],
        keys: &Keys<'_>,
        cut: u32,
    ) -> Result<()> {
        let length: usize = parts.iter().map(|p| p.len()).sum();
        let Ok(prefix) = u32::try_from(length) else {
            return Err(Error::usage(format!(
                "{}: element {sequence} has {length} bytes, and a length prefix says at most {}; export it as raw",
                self.raw.out.name(),
                u32::MAX
            )));
        };
        self.raw.out.put(&prefix.to_le_bytes())?;
        self.raw.element_cut(sequence, time, parts, keys, cut)
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.raw.gap(gap)
    }

    fn expired(&mut self, range: Range<u64>) -> Result<()> {
        self.raw.expired(range)
    }

    fn flush(&mut self) -> Result<()> {
        self.raw.flush()
    }

    fn finish(self: Box<Self>) -> Result<Totals> {
        Box::new(self.raw).finish()
    }
}
