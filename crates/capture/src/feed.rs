//! What every source does beside reading: counts what it offers, and lets the sink tick in time.

use crate::source::{ClockDoor, Sink, Summary};
use forebay_model::{Bytes, Gap, Moment, Result, Timestamp};
use std::time::Duration;

/// How long a source waits for input before it looks up, and how often it lets a busy sink tick: well within the 50 ms
/// of the contract.
pub(crate) const TICK: Duration = Duration::from_millis(20);

/// The clock is read once for so many units of work. A unit is a byte; an element costs [`ELEMENT`] more.
const BUDGET: i64 = 32 << 10;
const ELEMENT: i64 = 64;

/// A sink with its summary and its ticks.
pub(crate) struct Feed<'a> {
    sink: &'a mut dyn Sink,
    clock: &'a dyn ClockDoor,
    summary: Summary,
    budget: i64,
    ticked: Moment,
    looked: Moment,
    open: u64,
    stopping: bool,
}

impl<'a> Feed<'a> {
    /// Worth a look at the clock.
    pub(crate) const DRIP: usize = BUDGET as usize;

    pub(crate) fn new(sink: &'a mut dyn Sink, clock: &'a dyn ClockDoor) -> Feed<'a> {
        let now = clock.now();
        Feed {
            sink,
            clock,
            summary: Summary::default(),
            budget: BUDGET,
            ticked: now,
            looked: Moment(0),
            open: 0,
            stopping: false,
        }
    }

    /// What `offer` offered to `sink` through a feed.
    pub(crate) fn summed(
        sink: &mut dyn Sink,
        clock: &dyn ClockDoor,
        offer: impl FnOnce(&mut Feed<'_>) -> Result<()>,
    ) -> Result<Summary> {
        let mut feed = Feed::new(sink, clock);
        offer(&mut feed)?;
        Ok(feed.summary)
    }

    #[inline]
    pub(crate) fn element(&mut self, time: Timestamp, parts: &[&[u8]]) -> Result<()> {
        self.element_cut(time, parts, 0)
    }

    /// An element of which the last `cut` bytes are missing.
    #[inline]
    pub(crate) fn element_cut(&mut self, time: Timestamp, parts: &[&[u8]], cut: u32) -> Result<()> {
        match cut {
            0 => self.sink.element(time, parts, &[])?,
            cut => self.sink.element_cut(time, parts, &[], cut)?,
        }
        let length = parts.iter().map(|p| p.len()).sum::<usize>();
        self.summary.elements += 1;
        self.summary.bytes += Bytes(length as u64);
        self.budget -= ELEMENT + length as i64;
        Ok(())
    }

    pub(crate) fn begin(&mut self, time: Timestamp) -> Result<()> {
        self.open = 0;
        self.sink.begin(time, &[])
    }

    pub(crate) fn part(&mut self, bytes: &[u8]) -> Result<()> {
        self.open += bytes.len() as u64;
        self.budget -= bytes.len() as i64;
        self.sink.part(bytes)
    }

    pub(crate) fn end(&mut self) -> Result<()> {
        self.sink.end()?;
        self.summary.elements += 1;
        self.summary.bytes += Bytes(self.open);
        self.budget -= ELEMENT;
        Ok(())
    }

    pub(crate) fn gap(&mut self, gap: Gap) -> Result<()> {
        self.summary.gaps += 1;
        self.summary.missing = self.summary.missing.saturating_add(gap.count.unwrap_or(0));
        self.budget -= ELEMENT;
        self.sink.gap(gap)
    }

    /// Accounts for work that offered nothing; [`Feed::DRIP`] for a read that brought too little.
    pub(crate) fn worked(&mut self, bytes: usize) {
        self.budget -= bytes as i64;
    }

    /// To be called between any two elements or parts. False: stop.
    #[inline]
    pub(crate) fn alive(&mut self) -> Result<bool> {
        if self.budget > 0 {
            return Ok(true);
        }
        self.budget = BUDGET;
        self.tick_if_due()
    }

    /// To be called when there was nothing to read. False: stop.
    ///
    /// An input that waits for data by itself is asked again at once; one that does not wait gets a short pause here.
    pub(crate) fn idle(&mut self) -> Result<bool> {
        const TOO_SOON: Duration = Duration::from_millis(1);
        if self.clock.now().since(self.looked) < TOO_SOON {
            self.clock.pause(TOO_SOON);
        }
        self.looked = self.clock.now();
        self.tick_if_due()
    }

    /// Waits until `until`, ticking. False: stop.
    pub(crate) fn wait(&mut self, until: Moment) -> Result<bool> {
        loop {
            let left = until.since(self.clock.now());
            if left.is_zero() {
                return Ok(true);
            }
            if !self.tick_if_due()? {
                return Ok(false);
            }
            self.clock.pause(left.min(TICK));
        }
    }

    /// From now on nothing asks whether to stop: the source offers what it has already, and ends.
    pub(crate) fn stop(&mut self) {
        self.stopping = true;
    }

    fn tick_if_due(&mut self) -> Result<bool> {
        let now = self.clock.now();
        if now.since(self.ticked) < TICK {
            return Ok(true);
        }
        let go_on = self.sink.tick()?;
        self.ticked = self.clock.now();
        self.summary.stopped |= !go_on;
        Ok(go_on || self.stopping)
    }
}
