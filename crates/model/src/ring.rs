//! What a ring is asked to be, and what it says of itself.

use crate::error::{Error, Result};
use crate::gap::Cause;
use crate::key::KeySet;
use crate::packet::LinkType;
use crate::size::{Bytes, Rate};
use crate::time::Timestamp;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What happens to a pin beyond the budget.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum PinPolicy {
    /// The pin is refused.
    #[default]
    Refuse,
    /// The pin is taken and history shortens, as long as the guarantee holds.
    Shorten,
    /// The pin is taken, and recording stops when nothing is left to overwrite.
    Stop,
}

/// What happens when the stream is faster than the ring can take it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Overflow {
    /// The source waits.
    Block,
    /// The newest elements are dropped and recorded as a gap.
    #[default]
    DropNewest,
}

/// How a ring is created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RingSpec {
    /// Its name: 1 to 255 bytes without control characters, beginning with `/`.
    pub name: String,
    /// Space to run round in; rounded up to whole groups.
    pub capacity: Bytes,
    /// Promised write bandwidth; none if zero.
    pub guarantee: Rate,
    /// Unit of overwriting and pinning; chosen by the target if zero.
    pub segment: Bytes,
    /// Largest block.
    pub block: Bytes,
    /// How long an accepted element may stay in memory: what a power cut can cost.
    pub flush_interval: Duration,
    /// Keys, in their text form (`src=pcap.src`, `id=u32le@8`).
    pub keys: Vec<String>,
    /// Share of the capacity that the keys' index may take, in percent; by the number of keys if zero. What would take
    /// more is indexed more coarsely, or not at all.
    pub index_percent: u8,
    /// Share of the capacity that may be pinned, in percent.
    pub pin_budget_percent: u8,
    /// What happens beyond it.
    pub pin_policy: PinPolicy,
    /// What happens when the stream is too fast.
    pub overflow: Overflow,
    /// What the elements are (for packets: the link type of their frames).
    pub content: Content,
    /// Rings whose data of the same time is pinned along.
    pub relatives: Vec<String>,
    /// Over how many targets the ring lies of which this is all, or a part.
    pub spread: Spread,
}

/// What the elements of a ring are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Content {
    /// Bytes without further meaning.
    #[default]
    Opaque,
    /// Packets with this link type of the pcap registry.
    Packets(u32),
}

/// The most that an index may take of a ring, in percent.
pub const MOST_INDEX_PERCENT: u8 = 25;

/// What the index of `keys` keys may take of a ring unless it says otherwise, in percent: what distinct values in
/// elements of 64 bytes take with one key, and more for more keys, which seldom differ as much.
pub fn default_index_percent(keys: usize) -> u8 {
    if keys == 0 { 0 } else { (2 + keys).min(12) as u8 }
}

impl RingSpec {
    /// Its keys, which read packets by the link type that the ring has.
    pub fn key_set(&self) -> Result<KeySet> {
        let keys = KeySet::parse(&self.keys)?;
        Ok(match self.content {
            // What pcap cannot number is no type that anything here reads.
            Content::Packets(link) => keys.with_link_type(LinkType(u16::try_from(link).unwrap_or(u16::MAX))),
            Content::Opaque => keys,
        })
    }

    /// A ring of `capacity` with the default of everything else.
    pub fn new(name: impl Into<String>, capacity: Bytes) -> RingSpec {
        RingSpec {
            name: name.into(),
            capacity,
            guarantee: Rate(0),
            segment: Bytes::ZERO,
            block: Bytes::mib(1),
            flush_interval: Duration::from_secs(1),
            keys: Vec::new(),
            index_percent: 0,
            pin_budget_percent: 50,
            pin_policy: PinPolicy::Refuse,
            overflow: Overflow::DropNewest,
            content: Content::Opaque,
            relatives: Vec::new(),
            spread: Spread::default(),
        }
    }

    /// Checks what can be checked without a target.
    pub fn check(&self) -> Result<()> {
        check_name(&self.name)?;
        let block = self.block.0;
        if !(4096..=crate::block::MAX_BLOCK as u64).contains(&block) || !block.is_multiple_of(4096) {
            return Err(Error::usage(format!(
                "a block of {} is not a multiple of 4 KiB between 4 KiB and 4 MiB",
                self.block
            )));
        }
        KeySet::parse(&self.keys)?.check_block(self.block)?;
        if self.pin_budget_percent > 95 {
            return Err(Error::usage(format!(
                "a pin budget of {} % leaves nothing to record into; the most is 95 %",
                self.pin_budget_percent
            )));
        }
        if self.index_percent > MOST_INDEX_PERCENT {
            return Err(Error::usage(format!(
                "an index of {} % of the ring is too much; the most is {MOST_INDEX_PERCENT} %",
                self.index_percent
            )));
        }
        if self.flush_interval > Duration::from_secs(3600) {
            return Err(Error::usage(
                "a flush interval of more than an hour would put an hour of data at risk; the most is 1h",
            ));
        }
        if self.capacity == Bytes::ZERO {
            return Err(Error::usage("a ring needs a capacity; give it one, such as 10GiB"));
        }
        self.spread.check()
    }
}

/// Over how many targets a ring of a cluster lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Spread {
    /// Targets that have its elements, each a share.
    pub targets: u32,
    /// Whether one more has the parity of what they have.
    pub parity: bool,
}

impl Default for Spread {
    fn default() -> Spread {
        Spread { targets: 1, parity: false }
    }
}

/// Bytes of a block of parity that are not parity: its header, and which blocks it is of.
pub const PARITY_OVERHEAD: Bytes = Bytes::kib(8);

impl Spread {
    /// The most targets that have elements.
    pub const MOST_TARGETS: u32 = crate::layout::MOST_IN_GROUP - 1;

    /// [`crate::Kind::Usage`] if no ring lies like this.
    pub fn check(&self) -> Result<()> {
        let least = if self.parity { 2 } else { 1 };
        if (least..=Spread::MOST_TARGETS).contains(&self.targets) {
            return Ok(());
        }
        Err(Error::usage(format!(
            "a ring{} lies over {least} to {} targets, and not over {}",
            if self.parity { " with parity" } else { "" },
            Spread::MOST_TARGETS,
            self.targets
        )))
    }

    /// Targets in all.
    pub fn components(&self) -> u32 {
        self.targets + u32::from(self.parity)
    }

    /// How the part of a ring is made that lies on the target `component`; the last one has the parity, if there is any.
    pub fn part(&self, whole: &RingSpec, component: u32) -> RingSpec {
        let mut part = RingSpec { spread: *self, ..whole.clone() };
        part.capacity = Bytes(whole.capacity.0.div_ceil(u64::from(self.targets)));
        part.guarantee = Rate(whole.guarantee.0.div_ceil(u64::from(self.targets)));
        if self.parity && component == self.targets {
            let more = |of: u64| {
                of + (u128::from(of) * u128::from(PARITY_OVERHEAD.0)).div_ceil(u128::from(whole.block.0.max(1))) as u64
            };
            part.capacity = Bytes(more(part.capacity.0));
            part.guarantee = Rate(more(part.guarantee.0));
            part.block = whole.block + PARITY_OVERHEAD;
            part.keys = vec![PARITY_KEY.to_string()];
            part.index_percent = 0;
            part.content = Content::Opaque;
        }
        part
    }

    /// The ring called `name` of which `part` is one with elements: [`Spread::part`] backwards, with what that rounded up.
    pub fn whole(&self, name: &str, part: &RingSpec) -> RingSpec {
        let targets = u64::from(self.targets);
        let (capacity, guarantee) = (part.capacity * targets, Rate(part.guarantee.0 * targets));
        RingSpec { name: name.to_string(), capacity, guarantee, spread: *self, ..part.clone() }
    }
}

/// The key of a ring that holds parity: what an element of it is.
pub const PARITY_KEY: &str = "part=caller.u8";

/// Whether a name may be used: it begins with `/` and goes on with 1 to 254 bytes that are no control characters,
/// and no part of it is empty, `.` or `..`.
pub fn check_name(name: &str) -> Result<()> {
    let parts_ok =
        name.strip_prefix('/').is_some_and(|rest| rest.split('/').all(|part| !matches!(part, "" | "." | "..")));
    if !parts_ok || name.len() > 255 || name.chars().any(char::is_control) {
        return Err(Error::usage(format!(
            "'{}' is not a name; names look like /station/7, up to 255 bytes, without '.', '..' or control characters",
            name.escape_debug()
        )));
    }
    Ok(())
}

/// What a relative of a ring of a cluster on the network begins with, wherever it lies: the number of its entry follows. No ring of a
/// target of such a cluster is called so.
pub const ELSEWHERE: &str = "/ring/0/";

/// Elements lost, by cause.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Elements by cause, at its [`Cause::index`].
    pub elements: [u64; Cause::CODES],
    /// Gaps by cause, also those of unknown count.
    pub gaps: [u64; Cause::CODES],
}

impl Losses {
    /// Takes a gap into account.
    pub fn add(&mut self, cause: Cause, count: Option<u64>) {
        let at = cause.index();
        self.gaps[at] += 1;
        // What is missing is told by whoever was there, and may be any number.
        self.elements[at] = self.elements[at].saturating_add(count.unwrap_or(0));
    }

    /// Takes all of `other` into account.
    pub fn merge(&mut self, other: &Losses) {
        for at in 0..self.gaps.len() {
            self.gaps[at] += other.gaps[at];
            self.elements[at] = self.elements[at].saturating_add(other.elements[at]);
        }
    }

    /// Elements lost, of all causes.
    pub fn total(&self) -> u64 {
        self.elements.iter().fold(0, |sum, elements| sum.saturating_add(*elements))
    }
}

/// What a ring is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum RingState {
    /// Finding its tail after it was opened; elements are accepted, acknowledgements wait.
    Recovering,
    /// Ready.
    Ready,
    /// Everything is pinned and the policy is to stop.
    Full,
    /// The device failed: nothing is recorded or acknowledged until the target is opened again.
    Failed,
}

impl RingState {
    /// All of them.
    pub const ALL: [RingState; 4] = [RingState::Recovering, RingState::Ready, RingState::Full, RingState::Failed];

    /// The name in messages, metrics and JSON.
    pub const fn name(self) -> &'static str {
        match self {
            RingState::Recovering => "recovering",
            RingState::Ready => "ready",
            RingState::Full => "full",
            RingState::Failed => "failed",
        }
    }
}

/// A ring, as it says of itself.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RingStatus {
    /// How it was created; capacity, segment and so on as they are now.
    pub spec: RingSpec,
    /// What it is doing.
    pub state: RingState,
    /// Segments in all.
    pub segments: u64,
    /// Segments that are pinned.
    pub pinned_segments: u64,
    /// Sequence of the oldest element that is kept.
    pub first_sequence: u64,
    /// Sequence of the next element.
    pub next_sequence: u64,
    /// Sequence after the last element that can be read.
    pub readable_sequence: u64,
    /// Time of the oldest element that is kept.
    pub oldest: Option<Timestamp>,
    /// Time of the newest element that was accepted: what is durable ends before it, or with it.
    pub newest: Option<Timestamp>,
    /// Bytes written since the target was opened, padding and index included.
    pub written: Bytes,
    /// Elements accepted since the target was opened.
    pub elements: u64,
    /// Blocks that missed their deadline since the target was opened.
    pub missed_deadlines: u64,
    /// Losses in what is kept.
    pub losses: Losses,
    /// The most staging memory that was in use at once.
    pub staging_peak: Bytes,
    /// Staging memory in all.
    pub staging: Bytes,
    /// Memory that the index of the open segment takes.
    pub index_memory: Bytes,
    /// The most memory that the ring takes, whatever is recorded: staging, index, and what is known of its segments.
    pub memory_limit: Bytes,
    /// Whether somebody records into it now.
    pub recording: bool,
    /// Pins, oldest first.
    pub pins: Vec<Pin>,
    /// Sequence of the first element that was ever recorded into it, or will be: what comes before is none of it.
    pub begins: u64,
}

impl RingStatus {
    /// Whether it has run over what it began with.
    pub fn has_come_round(&self) -> bool {
        self.first_sequence > self.begins
    }
}

/// Where a ring begins that goes on with what another target has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Beginning {
    /// Sequence of its first element.
    pub sequence: u64,
    /// The writer session that goes on there; 0 if none does.
    pub writer: u64,
    /// Its last block that is durable on the other target.
    pub number: u64,
}

impl Beginning {
    /// No ring has as many elements, nor a session as many blocks, so that what comes can be counted on from there.
    pub const MOST: u64 = 1 << 56;

    /// [`crate::Kind::Usage`] if no other target can have so much.
    pub fn check(&self) -> Result<()> {
        match self.sequence.max(self.number) < Beginning::MOST {
            true => Ok(()),
            false => Err(Error::usage(format!(
                "a ring cannot begin with element {} behind block {}: both are below {}; ask for the status of where it was",
                self.sequence,
                self.number,
                Beginning::MOST
            ))),
        }
    }
}

/// A preserved range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pin {
    /// Number, unique on the target.
    pub id: u64,
    /// What the user calls it.
    pub label: String,
    /// What was asked for.
    pub from: Timestamp,
    /// What was asked for.
    pub to: Timestamp,
    /// Elements that it holds: from this sequence ...
    pub first_sequence: u64,
    /// ... up to, and not including, this one.
    pub end_sequence: u64,
    /// Segments that it holds.
    pub segments: u64,
    /// Bytes of data that it holds.
    pub bytes: Bytes,
    /// Pins of relatives that were made along with it: ring name and pin id.
    pub relatives: Vec<(String, u64)>,
}

/// What a pin request got.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pinned {
    /// The pin.
    pub pin: Pin,
    /// The part at the beginning of the request that had been overwritten before, if any: up to this time.
    pub expired_until: Option<Timestamp>,
    /// Whether elements of the range may still come: they are pinned as they come.
    pub open_end: bool,
}

/// A stretch of a query's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Item {
    /// An element, or a piece of a large one; its bytes are the next `length` of the batch's payload.
    Element {
        /// Sequence within the ring.
        sequence: u64,
        /// Its time.
        time: Timestamp,
        /// Bytes in this batch.
        length: u32,
        /// Bytes of caller-supplied keys, directly after the element's bytes.
        caller: u16,
        /// Bytes that whoever captured it had cut off its end.
        cut: u32,
        /// Whether it begins here.
        first: bool,
        /// Whether it ends here.
        last: bool,
    },
    /// Something was not stored here.
    Gap(crate::gap::Gap),
    /// What was asked for from sequence `from` to before `to` has been overwritten.
    Expired {
        /// First sequence that is gone.
        from: u64,
        /// Sequence after the last that is gone.
        to: u64,
    },
    /// What comes next is of another block, as far as it is known of which.
    Block {
        /// The session that recorded it, and its number there.
        writer: u64,
        /// See `writer`.
        number: u64,
        /// Sequence of its first element.
        first: u64,
        /// Sequence after the last element that was durable when it was read.
        durable: u64,
    },
}

/// A part of a query's answer: items in order, and the bytes of its elements back to back.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// In order of sequence.
    pub items: Vec<Item>,
    /// Bytes of the elements (and caller keys), back to back.
    #[serde(skip)]
    pub payload: Vec<u8>,
}

/// What a finished query has to say about itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuerySummary {
    /// Elements returned.
    pub elements: u64,
    /// Bytes of their payload.
    pub bytes: Bytes,
    /// Bytes read from the device.
    pub read: Bytes,
    /// Segments looked at.
    pub segments: u64,
    /// Blocks read.
    pub blocks: u64,
    /// Elements of the asked range that had expired, as far as their number is known.
    pub expired: u64,
    /// Whether part of the asked range lies in pinned segments.
    pub pinned: bool,
}

#[cfg(test)]
mod tests;
