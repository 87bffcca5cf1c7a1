//! Packet captures.

use super::{Exporter, Keys, Out, Totals};
use crate::{pcap, pcapng};
use forebay_model::packet::LinkType;
use forebay_model::{Gap, Result, Timestamp};
use std::ops::Range;

/// pcapng, with every gap in its place.
pub(super) struct Pcapng {
    writer: pcapng::Writer<Out>,
    name: String,
    totals: Totals,
}

impl Pcapng {
    pub(super) fn new(out: Out, link: LinkType, interface: Option<&str>) -> Result<Pcapng> {
        let name = out.name().to_string();
        let writer = pcapng::Writer::new(out, link, interface).map_err(|e| Out::failed(&name, &e))?;
        Ok(Pcapng { writer, name, totals: Totals::default() })
    }
}

impl Exporter for Pcapng {
    fn element_cut(&mut self, _: u64, time: Timestamp, parts: &[&[u8]], _: &Keys<'_>, cut: u32) -> Result<()> {
        self.totals.count(parts);
        self.writer.packet_cut(time, parts, cut)?.map_err(|e| Out::failed(&self.name, &e))
    }

    fn gap(&mut self, gap: &Gap) -> Result<()> {
        self.totals.gaps += 1;
        self.writer.gap(*gap);
        Ok(())
    }

    fn expired(&mut self, range: Range<u64>) -> Result<()> {
        self.totals.count_expired(&range);
        let last = range.end.saturating_sub(1);
        self.writer.remark(format!("elements {} to {last} had expired before they could be exported", range.start));
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        self.writer.out().push()
    }

    fn finish(self: Box<Self>) -> Result<Totals> {
        self.writer.finish().map_err(|e| Out::failed(&self.name, &e))?;
        Ok(self.totals)
    }
}

/// pcap, which has no place for gaps.
pub(super) struct Pcap {
    writer: pcap::Writer<Out>,
    name: String,
    totals: Totals,
}

impl Pcap {
    pub(super) fn new(out: Out, link: LinkType) -> Result<Pcap> {
        let name = out.name().to_string();
        let writer = pcap::Writer::new(out, link).map_err(|e| Out::failed(&name, &e))?;
        Ok(Pcap { writer, name, totals: Totals::default() })
    }
}

impl Exporter for Pcap {
    fn element_cut(&mut self, _: u64, time: Timestamp, parts: &[&[u8]], _: &Keys<'_>, cut: u32) -> Result<()> {
        self.totals.count(parts);
        self.writer.packet_cut(time, parts, cut)?.map_err(|e| Out::failed(&self.name, &e))
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
        self.writer.out().push()
    }

    fn finish(self: Box<Self>) -> Result<Totals> {
        self.writer.finish().map_err(|e| Out::failed(&self.name, &e))?;
        Ok(self.totals)
    }
}
