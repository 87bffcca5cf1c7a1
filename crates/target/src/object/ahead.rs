//! Who reads on where: read-ahead contexts, as in Panasas ActiveScale (SC 2004, section 4.3).
//!
//! A context belongs to a place in an object, not to who reads: it is found by the object and the address at which its
//! last read ended, and an object may have many. A read that begins there, or skips forward by up to [`SKIP`] (a client
//! that leaves out parity), goes on with it; any other begins one of its own. Contexts that go on may have bytes read
//! ahead, the more the longer they have gone on, up to [`FURTHEST`] and to their share of the cache: 1/N of it where N
//! of them were touched within [`ACTIVE`].
//!
//! Pure: no waiting, no I/O. The number of contexts is bounded; the one not touched for longest is forgotten.

use super::rows::BLOCK;
use forebay_model::{Bytes, Moment, ObjectId};
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

/// What a reader may leave out and still go on.
pub const SKIP: Bytes = Bytes::mib(1);
/// The most that is read ahead of a reader.
pub const FURTHEST: Bytes = Bytes::mib(6);
/// Who was touched within this time counts for the shares.
pub const ACTIVE: Duration = Duration::from_secs(30);
/// What is read ahead of a reader that has gone on once; twice as much after each time more.
const FIRST: Bytes = Bytes::kib(512);
/// Where the counter stops.
const SATURATED: u8 = 5;
/// Contexts that are kept.
const MOST: usize = 4096;

/// Where a context is found: its object, and the address behind its last read.
type Place = (ObjectId, u64);

struct Context {
    number: u64,
    /// How often it has gone on.
    count: u8,
    /// The furthest address that was asked for ahead.
    ahead: u64,
    touched: Moment,
}

/// What a read means for what is to be read ahead.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Touched {
    /// The context that it went on with, or began.
    pub number: u64,
    /// What is to be read ahead now, in whole blocks; empty if nothing.
    pub ahead: Range<u64>,
    /// Contexts that are no more.
    pub forgotten: Vec<u64>,
}

/// The contexts of a target's objects.
#[derive(Default)]
pub struct Contexts {
    contexts: BTreeMap<Place, Context>,
    /// Where each is, by its number.
    places: BTreeMap<u64, Place>,
    /// Those that have gone on and count for the shares, the one touched first at the front.
    active: BTreeMap<(Moment, u64), Place>,
    /// All others, in the same order.
    idle: BTreeMap<(Moment, u64), Place>,
    last: u64,
}

impl Contexts {
    /// `length` bytes at `offset` of an object of `size` bytes are read now. `cache` is what all readers share; no more
    /// than `most` is read ahead of this one, whatever its share.
    pub fn read(
        &mut self,
        (id, size): (ObjectId, u64),
        offset: u64,
        length: u64,
        now: Moment,
        (cache, most): (Bytes, Bytes),
    ) -> Touched {
        self.retire(now);
        let end = offset + length;
        let near = (id, offset.saturating_sub(SKIP.0))..=(id, offset);
        let found = self.contexts.range(near).next_back().map(|(place, _)| *place);
        let mut touched = Touched::default();
        let mut context = match found.and_then(|place| self.take(place)) {
            Some(context) => Context { count: (context.count + 1).min(SATURATED), touched: now, ..context },
            None => {
                self.last += 1;
                Context { number: self.last, count: 0, ahead: end, touched: now }
            }
        };
        if let Some(other) = self.take((id, end)) {
            // Two came to the same place, and are one from here on.
            let (kept, gone) = if other.count > context.count { (other, context) } else { (context, other) };
            touched.forgotten.push(gone.number);
            context = Context { touched: now, ahead: kept.ahead.max(gone.ahead), ..kept };
        }
        touched.number = context.number;
        context.ahead = context.ahead.max(end);
        let streams = self.active.len() as u64 + 1;
        if context.count > 0 {
            let depth = depth(context.count).min((cache / streams).0).min(most.0);
            if context.ahead - end < depth / 2 {
                let to = ((end + depth) / BLOCK.0 * BLOCK.0).min(size.next_multiple_of(BLOCK.0));
                let from = context.ahead / BLOCK.0 * BLOCK.0;
                touched.ahead = from..to.max(from);
                context.ahead = context.ahead.max(to);
            }
        }
        self.put((id, end), context);
        while self.contexts.len() > MOST {
            let first = self.idle.iter().chain(&self.active).next().map(|(_, place)| *place);
            let Some(gone) = first.and_then(|place| self.take(place)) else { break };
            touched.forgotten.push(gone.number);
        }
        touched
    }

    /// What was to be read ahead for a context from `offset` on is not there.
    pub fn cut(&mut self, number: u64, offset: u64) {
        if let Some(place) = self.places.get(&number)
            && let Some(context) = self.contexts.get_mut(place)
        {
            context.ahead = context.ahead.min(offset.max(place.1));
        }
    }

    /// What each of those who read on has of the cache.
    pub fn share(&self, cache: Bytes) -> Bytes {
        FURTHEST.min(cache / self.active.len().max(1) as u64)
    }

    /// How many read on now.
    pub fn streams(&self) -> usize {
        self.active.len()
    }

    /// Who was not touched for long counts no more.
    fn retire(&mut self, now: Moment) {
        while let Some((key, place)) = self.active.first_key_value().map(|(key, place)| (*key, *place))
            && now.since(key.0) > ACTIVE
        {
            self.active.remove(&key);
            self.idle.insert(key, place);
        }
    }

    fn take(&mut self, place: Place) -> Option<Context> {
        let context = self.contexts.remove(&place)?;
        let key = (context.touched, context.number);
        self.active.remove(&key);
        self.idle.remove(&key);
        self.places.remove(&context.number);
        Some(context)
    }

    fn put(&mut self, place: Place, context: Context) {
        let list = if context.count > 0 { &mut self.active } else { &mut self.idle };
        list.insert((context.touched, context.number), place);
        self.places.insert(context.number, place);
        self.contexts.insert(place, context);
    }
}

fn depth(count: u8) -> u64 {
    FURTHEST.0.min(FIRST.0 << (count - 1))
}

#[cfg(test)]
mod tests;
