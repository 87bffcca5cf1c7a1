//! Fair shares of normal I/O: streams take turns, each with a slice of bytes. What an I/O takes beyond the slice counts
//! against the next one, so that shares do not depend on the size of requests (deficit round robin, Shreedhar and
//! Varghese, 1995).
//!
//! Where a turn costs a seek, slices are long, and the stream whose turn it is keeps it through a short pause, as
//! readers think between reads. A new stream comes next, with a short slice: who asks for little does not wait until
//! all who ask for much had their turns. Beside a promise the arm leaves for each sweep, and a slice is no longer than twice
//! what is done between two of them: a longer one would save few seeks, and a round of them could take minutes where little is
//! left. A stream for which others wait is hastened, and then has every second turn, and all of them are short.

use super::{Direction, Pending, StreamId, beyond};
use forebay_model::{Bytes, Moment, RingId};
use std::collections::VecDeque;
use std::time::Duration;

/// How long a stream may pause between reads before the arm is taken away from it.
pub(super) const ANTICIPATION: Duration = Duration::from_millis(3);
/// Bytes a stream may read before the next one's turn, where turns cost a seek, if few streams want something.
const SLICE_ROTATING: Bytes = Bytes::mib(64);
/// Bytes of all of their turns together, if many do: each has its turn again within seconds, so that what was read
/// ahead for a slow reader lasts until then.
const ROUND: Bytes = Bytes::mib(512);
/// Bytes of a slice at least, however many they are: seeks take no more than a sixth of the time.
const SLICE_LEAST: Bytes = Bytes::mib(8);
/// Bytes of a new stream's first slice there.
const SLICE_FIRST: Bytes = Bytes::mib(4);
/// Bytes of a slice where turns cost nothing.
const SLICE_FLAT: Bytes = Bytes::mib(1);

/// Small reads that are let pass writes of their stream in a row, and how far back one is looked for.
const MOST_PASSED: u32 = 16;
const FAR_LOOKED: usize = 64;

struct Stream {
    id: StreamId,
    queue: VecDeque<Pending>,
    /// How many in a row were let pass the others of the queue, and whether its first one was.
    passed: u32,
    passing: bool,
    /// Bytes left of its slice; below zero what it has had beyond.
    slice: i64,
    /// It has had something in this turn.
    begun: bool,
    /// It is forgotten when all it asked for has ended.
    ended: bool,
    in_flight: usize,
    last_end: Moment,
    /// It had no turn yet.
    new: bool,
    /// The ring that it is, and whether that has more to write than it was promised.
    ring: Option<RingId>,
    beyond: bool,
}

/// What a normal I/O could be started.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// The first of the first stream's queue.
    Ready,
    /// What a ring writes beyond what it was promised.
    Beyond(RingId),
    /// The stream whose turn it is has a moment to ask for more; until then nothing is started.
    Expected(Moment),
    /// Nobody wants anything.
    Nobody,
}

/// All streams of a target, in round robin: the first is the one whose turn it is.
#[derive(Default)]
pub(super) struct Streams {
    streams: VecDeque<Stream>,
    /// The stream that is hastened, and whether it had the last turn.
    hastened: Option<StreamId>,
    had_last: bool,
    /// Whether it may have all turns, and not only every second one.
    every_turn: bool,
    /// What had turns between two sweeps of late, if the arm leaves for these.
    between_sweeps: Option<Bytes>,
}

impl Streams {
    pub(super) fn push(&mut self, id: StreamId, pending: Pending, rotates: bool) {
        self.of(id, None, rotates).queue.push_back(pending);
    }

    /// What a ring writes that has turns and nothing else.
    pub(super) fn push_of_ring(&mut self, ring: RingId, pending: Pending, rotates: bool) {
        self.of(beyond::stream(ring), Some(ring), rotates).queue.push_back(pending);
    }

    fn of(&mut self, id: StreamId, ring: Option<RingId>, rotates: bool) -> &mut Stream {
        match self.streams.iter().position(|s| s.id == id) {
            Some(at) => &mut self.streams[at],
            None => self.insert(id, ring, rotates),
        }
    }

    /// Takes all that waits of that back.
    pub(super) fn take_of_rings(&mut self) -> Vec<(RingId, VecDeque<Pending>)> {
        let waiting = self.streams.iter_mut().filter(|s| !s.queue.is_empty());
        waiting.filter_map(|s| Some((s.ring?, std::mem::take(&mut s.queue)))).collect()
    }

    /// Whether some of that waits.
    pub(super) fn has_waiting(&self, ring: RingId) -> bool {
        self.streams.iter().any(|s| s.ring == Some(ring) && !s.queue.is_empty())
    }

    fn insert(&mut self, id: StreamId, ring: Option<RingId>, rotates: bool) -> &mut Stream {
        let stream = Stream {
            id,
            queue: VecDeque::new(),
            passed: 0,
            passing: false,
            slice: if rotates { SLICE_FIRST.0 } else { SLICE_FLAT.0 } as i64,
            begun: false,
            ended: false,
            in_flight: 0,
            last_end: Moment(0),
            new: true,
            ring,
            beyond: false,
        };
        let at = 1 + self.streams.iter().skip(1).take_while(|s| s.new).count();
        let at = at.min(self.streams.len());
        self.streams.insert(at, stream);
        &mut self.streams[at]
    }

    /// Whether `ring` has more to write than it was promised: then it has its turns, too.
    pub(super) fn set_beyond(&mut self, ring: RingId, has: bool, rotates: bool) {
        let found = self.streams.iter().position(|s| s.ring == Some(ring));
        match found {
            Some(at) => self.streams[at].beyond = has,
            None if has => self.insert(beyond::stream(ring), Some(ring), rotates).beyond = true,
            None => {}
        }
    }

    /// Whether any wants something, or has a moment to ask for more; but for what rings have beyond what they were promised.
    pub(super) fn is_asked(&self, now: Moment) -> bool {
        let pauses = |s: &Stream| s.begun && now < s.last_end + ANTICIPATION;
        let goes_on = |s: &Stream| s.ring.is_none() && (s.in_flight > 0 || pauses(s));
        self.streams.iter().any(|s| !s.queue.is_empty() || goes_on(s))
    }

    /// Takes a write of the ring whose turn it is, of which so many bytes count; after [`Turn::Beyond`].
    pub(super) fn take_beyond(&mut self, counts: i64) {
        let stream = self.streams.front_mut().expect("a ring has its turn");
        stream.in_flight += 1;
        self.spend(counts);
    }

    /// Forgets a stream that will read no more, when all it asked for has ended.
    pub(super) fn end(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.iter_mut().find(|s| s.id == id) {
            stream.ended = true;
        }
        self.forget();
    }

    fn forget(&mut self) {
        self.streams.retain(|s| !s.ended || !s.queue.is_empty() || s.in_flight > 0);
    }

    /// An I/O of the stream has ended.
    pub(super) fn ended(&mut self, id: StreamId, now: Moment) {
        let Some(stream) = self.streams.iter_mut().find(|s| s.id == id) else { return };
        stream.in_flight -= 1;
        stream.last_end = now;
        if stream.ended {
            self.forget();
        }
    }

    /// Gives this stream, and no other, every second turn from now on, or every one, or none if there is none. Whether that is new.
    pub(super) fn hasten(&mut self, id: Option<StreamId>, every_turn: bool) -> bool {
        let new = self.hastened != id;
        self.every_turn = every_turn;
        if new {
            (self.hastened, self.had_last) = (id, false);
        }
        new
    }

    /// The hastened stream comes next if it wants something, and if the turn that is over was another one's or all may be its own.
    fn bring_hastened(&mut self) {
        let over = (self.every_turn || !self.had_last) && self.streams.front().is_some_and(|first| !first.begun);
        let wants = |s: &Stream| Some(s.id) == self.hastened && !s.queue.is_empty();
        if over
            && let Some(at) = self.streams.iter().position(wants)
            && let Some(stream) = self.streams.remove(at)
        {
            self.streams.push_front(stream);
        }
    }

    /// Whose turn it is, and whether it wants something.
    pub(super) fn turn(&mut self, now: Moment, rotates: bool) -> Turn {
        self.bring_hastened();
        let slice = self.slice(rotates);
        let mut left = self.streams.len();
        while left > 0
            && let Some(stream) = self.streams.front_mut()
        {
            stream.slice = stream.slice.min(slice);
            if stream.slice <= 0 {
                stream.slice += slice;
                if stream.slice <= 0 {
                    // What it had takes more than one turn.
                    self.streams.rotate_left(1);
                    left = self.streams.len();
                    continue;
                }
            }
            if !stream.queue.is_empty() {
                return Turn::Ready;
            }
            if let Some(ring) = stream.ring.filter(|_| stream.beyond) {
                return Turn::Beyond(ring);
            }
            let until = if stream.in_flight > 0 { now + ANTICIPATION } else { stream.last_end + ANTICIPATION };
            if rotates && stream.begun && now < until {
                return Turn::Expected(until);
            }
            if std::mem::take(&mut stream.begun) {
                stream.slice = slice;
            }
            self.streams.rotate_left(1);
            left -= 1;
        }
        Turn::Nobody
    }

    /// The arm leaves for a sweep, and what has turns had so much since the last one; nothing, if it leaves for none any more.
    pub(super) fn swept(&mut self, had: Option<Bytes>) {
        let before = self.between_sweeps.unwrap_or(SLICE_ROTATING);
        self.between_sweeps = had.map(|had| had.max(before / 2));
    }

    /// An I/O that nobody wants any more, if it is the next of its stream.
    pub(super) fn take_unwanted(&mut self) -> Option<Pending> {
        let unwanted =
            |pending: &Pending| !pending.done.is_awaited() || pending.wanted.as_ref().is_some_and(|wanted| !wanted());
        let found = self.streams.iter_mut().find(|s| s.queue.front().is_some_and(unwanted))?.queue.pop_front();
        self.forget();
        found
    }

    #[cfg(test)]
    pub(super) fn hastened(&self) -> Option<StreamId> {
        self.hastened
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.streams.len()
    }

    /// What comes next: the first of the stream whose turn it is.
    pub(super) fn next(&self) -> Option<&Pending> {
        self.streams.iter().find(|s| !s.queue.is_empty()).and_then(|s| s.queue.front())
    }

    /// Lets the first read of the stream that is next, if it is `quick`, pass the writes before it; a few times in a row
    /// at most. Reads keep their order: they are often in sequence.
    pub(super) fn let_pass(&mut self, quick: impl Fn(&Pending) -> bool) {
        let Some(stream) = self.streams.iter_mut().find(|s| !s.queue.is_empty()) else { return };
        let reads = |pending: &Pending| pending.direction == Direction::Read;
        if stream.passed >= MOST_PASSED || stream.queue.front().is_none_or(reads) {
            return;
        }
        let first = stream.queue.iter().take(FAR_LOOKED).position(reads);
        if let Some(at) = first.filter(|at| quick(&stream.queue[*at]))
            && let Some(pending) = stream.queue.remove(at)
        {
            stream.queue.push_front(pending);
            stream.passing = true;
            stream.passed += 1;
        }
    }

    /// Takes the first I/O of the stream whose turn it is; after [`Turn::Ready`].
    pub(super) fn take(&mut self) -> Pending {
        let stream = self.streams.front_mut().expect("a stream has its turn");
        let pending = stream.queue.pop_front().expect("it wants something");
        stream.in_flight += 1;
        if !std::mem::take(&mut stream.passing) {
            stream.passed = 0;
        }
        self.spend(pending.buffer.len() as i64);
        pending
    }

    /// The stream whose turn it is has had so many bytes more of its slice.
    fn spend(&mut self, bytes: i64) {
        let stream = self.streams.front_mut().expect("a stream has its turn");
        self.had_last = Some(stream.id) == self.hastened;
        stream.new = false;
        stream.slice -= bytes;
        stream.begun = stream.slice > 0;
        if !stream.begun {
            self.streams.rotate_left(1);
        }
    }

    fn slice(&self, rotates: bool) -> i64 {
        let slice = if rotates {
            let asking =
                self.streams.iter().filter(|s| !s.queue.is_empty() || s.in_flight > 0 || s.beyond).count() as u64;
            let most = if self.hastened.is_some() { SLICE_LEAST } else { SLICE_ROTATING };
            let most = self.between_sweeps.map_or(most, |had| (had * 2).clamp(SLICE_LEAST, most));
            (ROUND / asking.max(1)).clamp(SLICE_LEAST, most)
        } else {
            SLICE_FLAT
        };
        slice.0 as i64
    }
}
