//! How far an answer has come, and how it goes on after a break: the query is asked again from the last element on,
//! and what was given already is passed over.

use forebay_model::key::quoted;
use forebay_model::query::MAX_QUERY;
use forebay_model::ring::{Batch, Item};
use forebay_model::{Bytes, Error, Gap, Result, Timestamp};
use forebay_wire::command::QueryRequest;
use forebay_wire::ring::size;
use std::collections::VecDeque;

/// So many of the gaps that were given last are known again by what they say, where others were overwritten.
const MOST_RECENT: usize = 64;

/// The longest query that is asked here: what is added to go on with an answer finds room up to what is read.
pub(crate) const MOST_TEXT: usize = MAX_QUERY.0 as usize - 512;
/// Its parentheses may be nested this deep: they are read up to 64 deep, and to go on with an answer takes some more.
pub(crate) const MOST_NESTED: usize = 60;

/// How far an answer has come.
#[derive(Debug, Default)]
pub(crate) struct Cursor {
    /// The last element that was given whole, or whose pieces a gap ended.
    last: Option<u64>,
    /// A gap ended its pieces: its source had cut it off.
    torn: bool,
    /// Gaps given after it, and the last of them.
    since: u64,
    recent: VecDeque<Gap>,
    /// Up to here it was told after it what has expired; 0 if nothing was.
    expired: u64,
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
    /// Everything up to element `mark`, and then the gaps and expired ranges behind it.
    Through { mark: u64, torn: bool, before: u64, begun: bool },
    /// So many gaps, and what was told of what has expired. Some of these gaps may be `overtaken` as well: then they do
    /// not come again.
    Between { left: u64, overtaken: bool },
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
                let (torn, before) = (self.torn, self.before);
                self.skip = Skip::Through { mark, torn, before, begun: false };
                Some(mark)
            }
            (None, None) => {
                self.skip = self.between();
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

    /// What is passed over behind the last element, or from the beginning on.
    fn between(&self) -> Skip {
        match (self.since, self.expired) {
            (0, 0) => Skip::Nothing,
            (left, _) => Skip::Between { left, overtaken: false },
        }
    }

    /// What follows comes after an element that was given.
    fn begin_behind(&mut self, sequence: u64, torn: bool) {
        (self.last, self.torn, self.since, self.expired) = (Some(sequence), torn, 0, 0);
        self.recent.clear();
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
                        self.begin_behind(sequence, false);
                        self.open = None;
                        self.elements += 1;
                    } else {
                        let before = self.open.filter(|(s, _)| *s == sequence && !first).map_or(0, |(_, bytes)| bytes);
                        self.open = Some((sequence, before + u64::from(length)));
                    }
                }
                Item::Gap(gap) => {
                    if let Some((sequence, bytes)) = self.open.take() {
                        self.begin_behind(sequence, true);
                        self.bytes = self.bytes.saturating_sub(bytes);
                    }
                    self.since += 1;
                    if self.recent.len() == MOST_RECENT {
                        self.recent.pop_front();
                    }
                    self.recent.push_back(gap);
                }
                Item::Expired { to, .. } => {
                    self.expired = self.expired.max(to);
                    self.open = None;
                }
                Item::Block { .. } => {}
            }
        }
        batch
    }

    /// How many gaps are left behind this one of the last `left` that were given; nothing if it is none of them.
    fn behind_given(&self, left: u64, overtaken: bool, gap: &Gap) -> Option<u64> {
        // As long as all come again, each is the next one.
        if !overtaken {
            return left.checked_sub(1);
        }
        let known = self.recent.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        let mut last = self.recent.iter().skip(self.recent.len() - known);
        match last.position(|given| given == gap) {
            Some(at) => Some((known - 1 - at) as u64),
            // What was given longer ago is not known by what it says.
            None if left > known as u64 => Some(left - 1),
            None => None,
        }
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
            (Skip::Through { mark, torn, before, begun }, Item::Element { sequence, first, last, .. }) => {
                let another = torn && *sequence == mark && *first && (begun || *last);
                if *sequence > mark || another {
                    self.skip = Skip::Nothing;
                    return Some(0);
                }
                if *sequence == mark {
                    self.skip = match *last {
                        true => self.between(),
                        false => Skip::Through { mark, torn, before, begun: true },
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
            (Skip::Through { mark, torn: true, before, begun: true }, Item::Gap(_)) => {
                let Some(before) = before.checked_sub(1) else {
                    self.skip = self.between();
                    return self.keep(item);
                };
                self.skip = Skip::Through { mark, torn: true, before, begun: false };
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
            (Skip::Between { .. }, Item::Element { .. }) => {
                self.skip = Skip::Nothing;
                Some(0)
            }
            (Skip::Between { left, .. }, Item::Expired { from, to }) => {
                self.skip = Skip::Between { left, overtaken: true };
                if *to <= self.expired {
                    return None;
                }
                *from = (*from).max(self.expired);
                Some(0)
            }
            (Skip::Between { left, overtaken }, Item::Gap(gap)) => match self.behind_given(left, overtaken, gap) {
                Some(left) => {
                    self.skip = Skip::Between { left, overtaken };
                    None
                }
                None => {
                    self.skip = Skip::Nothing;
                    Some(0)
                }
            },
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

/// An error if an answer to this could not go on after a break, as nobody would read what is asked then.
pub(crate) fn check_text(text: &str) -> Result<()> {
    if text.len() > MOST_TEXT {
        let length = text.len();
        return Err(Error::usage(format!("the query has {length} bytes; it can have {MOST_TEXT} at most")));
    }
    let depth = nesting(text);
    if depth > MOST_NESTED {
        return Err(Error::usage(format!(
            "the query has parentheses nested {depth} deep; they can be nested {MOST_NESTED} deep at most"
        )));
    }
    Ok(())
}

/// How deep the parentheses outside of quotes are nested.
fn nesting(text: &str) -> usize {
    let (mut at, mut depth, mut deepest) = (0, 0usize, 0);
    while let Some(byte) = text.as_bytes().get(at) {
        at += match byte {
            b'(' => {
                depth += 1;
                deepest = deepest.max(depth);
                1
            }
            b')' => {
                depth = depth.saturating_sub(1);
                1
            }
            b'"' | b'\'' => match quoted(&text[at..]) {
                Some((_, length)) => length,
                // Whoever reads it says that it is not closed.
                None => break,
            },
            _ => 1,
        };
    }
    deepest
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
