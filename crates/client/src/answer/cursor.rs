//! How far an answer has come, and how it goes on after a break: the query is asked again from the last element on,
//! and what was given already is passed over.

use forebay_model::Bytes;
use forebay_model::ring::{Batch, Item};
use forebay_wire::command::QueryRequest;

/// How far an answer has come.
#[derive(Debug, Default)]
pub(super) struct Cursor {
    /// The last element that was given whole.
    last: Option<u64>,
    /// Gaps and expired ranges given after it.
    since: u64,
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
    /// Everything up to this element, and then so many gaps and expired ranges.
    Through(u64, u64),
    /// So many gaps and expired ranges.
    Between(u64),
    /// Everything before this element, and so many bytes of it.
    Into(u64, u64),
}

impl Cursor {
    /// What to ask for now.
    pub(super) fn resume(&mut self, original: &QueryRequest) -> QueryRequest {
        let mut request = original.clone();
        let from = match (self.open, self.last) {
            (Some((sequence, bytes)), _) => {
                self.skip = Skip::Into(sequence, bytes);
                Some(sequence)
            }
            (None, Some(last)) => {
                self.skip = Skip::Through(last, self.since);
                Some(last)
            }
            (None, None) => {
                self.skip = Skip::Between(self.since);
                None
            }
        };
        if let Some(from) = from {
            request.text = conjunction(&request.text, from);
            // The last element comes once more if it was whole.
            let again = u64::from(self.open.is_none());
            request.limit = request.limit.map(|limit| limit.saturating_sub(self.elements) + again);
        }
        request
    }

    /// Elements and bytes that were given.
    pub(super) fn totals(&self) -> (u64, Bytes) {
        (self.elements, Bytes(self.bytes))
    }

    /// Takes note of a batch, without what was given before.
    pub(super) fn pass(&mut self, batch: Batch) -> Batch {
        let batch = if self.skip == Skip::Nothing { batch } else { self.cut(batch) };
        for item in &batch.items {
            match *item {
                Item::Element { sequence, length, last, .. } => {
                    self.bytes += u64::from(length);
                    if last {
                        (self.last, self.since, self.open) = (Some(sequence), 0, None);
                        self.elements += 1;
                    } else {
                        let before = self.open.filter(|(s, _)| *s == sequence).map_or(0, |(_, bytes)| bytes);
                        self.open = Some((sequence, before + u64::from(length)));
                    }
                }
                Item::Gap(_) | Item::Expired { .. } => {
                    self.since += 1;
                    self.open = None;
                }
            }
        }
        batch
    }

    fn cut(&mut self, batch: Batch) -> Batch {
        let mut kept = Batch::default();
        let mut at = 0;
        for mut item in batch.items {
            let size = match item {
                Item::Element { length, caller, .. } => length as usize + usize::from(caller),
                Item::Gap(_) | Item::Expired { .. } => 0,
            };
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
            (Skip::Nothing, _) => Some(0),
            (Skip::Through(mark, since), Item::Element { sequence, last, .. }) => {
                if *sequence > mark {
                    self.skip = Skip::Nothing;
                    return Some(0);
                }
                if *sequence == mark && *last {
                    self.skip = if since > 0 { Skip::Between(since) } else { Skip::Nothing };
                }
                None
            }
            (Skip::Through(mark, _), Item::Expired { from, to }) => {
                if *to <= mark + 1 {
                    return None;
                }
                *from = (*from).max(mark + 1);
                self.skip = Skip::Nothing;
                Some(0)
            }
            (Skip::Through(..) | Skip::Into(..), Item::Gap(_)) => None,
            (Skip::Between(_), Item::Element { .. }) => {
                self.skip = Skip::Nothing;
                Some(0)
            }
            (Skip::Between(left), _) => {
                self.skip = if left > 1 { Skip::Between(left - 1) } else { Skip::Nothing };
                (left == 0).then_some(0)
            }
            (Skip::Into(mark, bytes), Item::Element { sequence, length, first, last, .. }) => {
                if *sequence != mark {
                    self.skip = Skip::Nothing;
                    return Some(0);
                }
                // The last piece was not given, or the element would not be open.
                if bytes >= u64::from(*length) && !*last {
                    self.skip = Skip::Into(mark, bytes - u64::from(*length));
                    return None;
                }
                self.skip = Skip::Nothing;
                let given = (*length).min(bytes as u32);
                *length -= given;
                *first = false;
                Some(given as usize)
            }
            (Skip::Into(..), Item::Expired { .. }) => {
                self.skip = Skip::Nothing;
                Some(0)
            }
        }
    }
}

/// The query `text`, of what has sequence `from` or more.
pub(crate) fn conjunction(text: &str, from: u64) -> String {
    match text.trim() {
        "" => format!("seq >= {from}"),
        text => format!("({text}) and seq >= {from}"),
    }
}
