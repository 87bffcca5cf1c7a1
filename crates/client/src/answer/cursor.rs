//! How far an answer has come, and how it goes on after a break: the query is asked again from the last element on,
//! and what was given already is passed over.

use forebay_model::ring::{Batch, Item};
use forebay_model::{Bytes, Timestamp};
use forebay_wire::command::QueryRequest;
use forebay_wire::ring::size;

/// How far an answer has come.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// The last element that was given whole, or whose pieces a gap ended.
    last: Option<u64>,
    /// A gap ended its pieces: its source had cut it off.
    torn: bool,
    /// Gaps and expired ranges given after it.
    since: u64,
    /// How many torn elements had the number of the one that is open or torn, before it: a session that is killed in an
    /// element leaves its number to the next one.
    before: u64,
    /// The element that was given in part, and how many of its bytes.
    open: Option<(u64, u64)>,
    elements: u64,
    bytes: u64,
    skip: Skip,
}

/// What is to be passed over of an answer that was asked for again.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Skip {
    #[default]
    Nothing,
    /// Everything up to element `mark`, and then so many gaps and expired ranges.
    Through { mark: u64, since: u64, torn: bool, before: u64, begun: bool },
    /// So many gaps and expired ranges.
    Between(u64),
    /// Everything before element `mark` (and torn ones of its number), and so many bytes of it.
    Into { mark: u64, bytes: u64, before: u64, begun: bool },
}

impl Cursor {
    /// What to ask for now.
    pub(crate) fn resume(&mut self, original: &QueryRequest) -> QueryRequest {
        let mut request = original.clone();
        let from = match (self.open, self.last) {
            (Some((mark, bytes)), _) => {
                self.skip = Skip::Into { mark, bytes, before: self.before, begun: false };
                Some(mark)
            }
            (None, Some(mark)) => {
                let (since, torn, before) = (self.since, self.torn, self.before);
                self.skip = Skip::Through { mark, since, torn, before, begun: false };
                Some(mark)
            }
            (None, None) => {
                self.skip = Skip::Between(self.since);
                None
            }
        };
        if let Some(from) = from {
            request.text = conjunction(&request.text, from);
            // The last element comes once more if it was whole.
            let again = u64::from(self.open.is_none() && !self.torn);
            request.limit = request.limit.map(|limit| limit.saturating_sub(self.elements) + again);
        }
        request
    }

    /// Whether the last element was given in part.
    pub(crate) fn is_within(&self) -> bool {
        self.open.is_some()
    }

    /// Elements and bytes that were given.
    pub(super) fn totals(&self) -> (u64, Bytes) {
        (self.elements, Bytes(self.bytes))
    }

    /// Takes note of a batch, without what was given before.
    pub(crate) fn pass(&mut self, batch: Batch) -> Batch {
        let batch = if self.skip == Skip::Nothing { batch } else { self.cut(batch) };
        for item in &batch.items {
            match *item {
                Item::Element { sequence, length, first, last, .. } => {
                    self.bytes += u64::from(length);
                    if first {
                        self.before = if self.torn && self.last == Some(sequence) { self.before + 1 } else { 0 };
                    }
                    if last {
                        (self.last, self.torn, self.since, self.open) = (Some(sequence), false, 0, None);
                        self.elements += 1;
                    } else {
                        let before = self.open.filter(|(s, _)| *s == sequence && !first).map_or(0, |(_, bytes)| bytes);
                        self.open = Some((sequence, before + u64::from(length)));
                    }
                }
                Item::Gap(_) => {
                    if let Some((sequence, bytes)) = self.open.take() {
                        (self.last, self.torn, self.since) = (Some(sequence), true, 0);
                        self.bytes = self.bytes.saturating_sub(bytes);
                    }
                    self.since += 1;
                }
                Item::Expired { .. } => {
                    self.since += 1;
                    self.open = None;
                }
                Item::Block { .. } => {}
            }
        }
        batch
    }

    fn cut(&mut self, batch: Batch) -> Batch {
        let mut kept = Batch::default();
        let mut at = 0;
        for mut item in batch.items {
            let size = size(&item);
            let bytes = &batch.payload[at..at + size];
            at += size;
            if let Some(from) = self.keep(&mut item) {
                kept.payload.extend_from_slice(&bytes[from..]);
                kept.items.push(item);
            }
        }
        kept
    }

    /// Whether an item is kept, and from which of its bytes on.
    fn keep(&mut self, item: &mut Item) -> Option<usize> {
        match (self.skip, &mut *item) {
            (Skip::Nothing, _) | (_, Item::Block { .. }) => Some(0),
            (Skip::Through { mark, since, torn, before, begun }, Item::Element { sequence, first, last, .. }) => {
                let another = torn && *sequence == mark && *first && (begun || *last);
                if *sequence > mark || another {
                    self.skip = Skip::Nothing;
                    return Some(0);
                }
                if *sequence == mark {
                    self.skip = match *last {
                        true if since > 0 => Skip::Between(since),
                        true => Skip::Nothing,
                        false => Skip::Through { mark, since, torn, before, begun: true },
                    };
                }
                None
            }
            (Skip::Through { mark, .. }, Item::Expired { from, to }) => {
                if *to <= mark + 1 {
                    return None;
                }
                *from = (*from).max(mark + 1);
                self.skip = Skip::Nothing;
                Some(0)
            }
            (Skip::Through { mark, since, torn: true, before, begun: true }, Item::Gap(_)) => {
                let Some(before) = before.checked_sub(1) else {
                    self.skip = Skip::Between(since);
                    return self.keep(item);
                };
                self.skip = Skip::Through { mark, since, torn: true, before, begun: false };
                None
            }
            (Skip::Into { mark, bytes, before, begun: true }, Item::Gap(_)) if before > 0 => {
                self.skip = Skip::Into { mark, bytes, before: before - 1, begun: false };
                None
            }
            (Skip::Into { begun: true, .. }, Item::Gap(_)) => {
                // Nothing more comes of that element.
                self.skip = Skip::Nothing;
                Some(0)
            }
            (Skip::Through { .. } | Skip::Into { .. }, Item::Gap(_)) => None,
            (Skip::Between(_), Item::Element { .. }) => {
                self.skip = Skip::Nothing;
                Some(0)
            }
            (Skip::Between(left), _) => {
                self.skip = if left > 1 { Skip::Between(left - 1) } else { Skip::Nothing };
                (left == 0).then_some(0)
            }
            (Skip::Into { mark, bytes, before, begun }, Item::Element { sequence, length, first, last, .. }) => {
                if *sequence != mark || begun && *first {
                    self.skip = Skip::Nothing;
                    return Some(0);
                }
                if before > 0 {
                    self.skip = Skip::Into { mark, bytes, before, begun: true };
                    return None;
                }
                // The last piece was not given, or the element would not be open.
                if bytes >= u64::from(*length) && !*last {
                    self.skip = Skip::Into { mark, bytes: bytes - u64::from(*length), before, begun: true };
                    return None;
                }
                self.skip = Skip::Nothing;
                let given = (*length).min(bytes as u32);
                *length -= given;
                *first = false;
                Some(given as usize)
            }
            (Skip::Into { .. }, Item::Expired { .. }) => {
                self.skip = Skip::Nothing;
                Some(0)
            }
        }
    }
}

/// The query `text`, of what has sequence `from` or more.
pub(crate) fn conjunction(text: &str, from: u64) -> String {
    both(text, &format!("seq >= {from}"))
}

/// The query `text`, of what is later than this.
pub(crate) fn later(text: &str, than: Timestamp) -> String {
    both(text, &format!("after {}", Timestamp(than.0.saturating_add(1))))
}

fn both(text: &str, other: &str) -> String {
    match text.trim() {
        "" => other.to_string(),
        text => format!("({text}) and {other}"),
    }
}
