//! A disk whose tracks overlap like shingles, and that hides it: a track cannot be written without harm to the next, up
//! to the end of a band. What comes in sequence is written in place; all else goes to the media cache, and home later,
//! by reading a band and writing all of it anew, when the host is quiet or the media cache is full. Every so many bands
//! there is one whose tracks do not overlap.
//!
//! The arm and the platters are those of [`Rotating`], which sees places on the platters: the media cache first, then
//! the bands.
//!
//! Invariants: a command of the host is done when all its parts are; at most one band is cleaned at a time; what was
//! written to a band while it was cleaned stays in the media cache. A power cut keeps the media cache and its map: the
//! drive writes them with the data. That the map may then know of writes that were lost costs time only.

use super::mechanics::{Action, IoId, Mechanics, Now, Op, Request, Work};
use super::media_cache::MediaCache;
use super::rotating::Rotating;
use super::spec::ShingledSpec;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Marks the end of a part, among moves.
const PART: u64 = 1 << 62;
/// Marks the end of a quiet time, among moves.
const QUIET: u64 = 1 << 61;
/// A write this long at the start of a band is taken for the beginning of a stream.
const LARGE: u64 = 1 << 20;
/// Streams that are written in place at a time, and ends of writes that are remembered to recognise one.
const STREAMS: usize = 4;
const ENDS: usize = 16;
/// One step of cleaning, and how many are under way: short, so that the host need not wait long.
const STEP: u64 = 2 << 20;
const STEPS: usize = 2;
/// What the media cache takes for a write beside its bytes.
const RECORD: u64 = 4096;

/// A band that is written in sequence.
struct Open {
    band: u64,
    at: u64,
    /// There was content behind `at`, which the overlap harms.
    harms: bool,
}

struct Cleaning {
    band: u64,
    /// What came to the media cache from here on is not part of it.
    position: u64,
    reads: VecDeque<(u64, u64)>,
    writes: VecDeque<(u64, u64)>,
    writing: bool,
    end: u64,
    under_way: usize,
}

enum Part {
    OfCommand(IoId),
    OfCleaning,
}

pub(super) struct Shingled {
    spec: ShingledSpec,
    size: u64,
    platters: Rotating,
    cache: MediaCache,
    /// Commands of the host under way, with the parts that are not done.
    commands: BTreeMap<IoId, usize>,
    parts: BTreeMap<u64, Part>,
    next_part: u64,
    /// Writes that wait for room in the media cache.
    blocked: VecDeque<Request>,
    /// Where the content of each band ends that was ever written.
    written: BTreeMap<u64, u64>,
    open: VecDeque<Open>,
    ends: VecDeque<u64>,
    /// Bands whose content a broken stream has harmed.
    harmed: VecDeque<u64>,
    cleaning: Option<Cleaning>,
    /// Numbers quiet times; the host has been quiet for long.
    quiet: u64,
    is_quiet: bool,
    scratch: Vec<Action>,
}

impl Shingled {
    pub(super) fn new(spec: &ShingledSpec, size: u64, cache: Option<u64>) -> Shingled {
        // What goes to the media cache of one write is two bands at most, and it must find room in an empty one.
        assert!(spec.media_cache >= spec.band * 8, "a media cache of {} for bands of {}", spec.media_cache, spec.band);
        Shingled {
            platters: Rotating::new(&spec.rotating, size + spec.media_cache.0, cache),
            cache: MediaCache::new(spec.media_cache.0, RECORD),
            spec: spec.clone(),
            size,
            commands: BTreeMap::new(),
            parts: BTreeMap::new(),
            next_part: 0,
            blocked: VecDeque::new(),
            written: BTreeMap::new(),
            open: VecDeque::new(),
            ends: VecDeque::new(),
            harmed: VecDeque::new(),
            cleaning: None,
            quiet: 0,
            is_quiet: false,
            scratch: Vec::new(),
        }
    }

    fn band(&self, at: u64) -> u64 {
        at / self.spec.band.0
    }

    fn band_range(&self, band: u64) -> Range<u64> {
        band * self.spec.band.0..((band + 1) * self.spec.band.0).min(self.size)
    }

    /// A range of the host, cut at the ends of bands.
    fn pieces(&self, range: &Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let (band, range) = (self.spec.band.0, range.clone());
        (range.start / band..range.end.div_ceil(band))
            .map(move |b| (b * band).max(range.start)..((b + 1) * band).min(range.end))
    }

    /// Where a place of the host is on the platters.
    fn home(&self, at: u64) -> u64 {
        self.spec.media_cache.0 + at
    }

    /// Gives the platters a part to do.
    fn start(&mut self, now: Now, part: Part, op: Op, (offset, length): (u64, u64)) {
        let id = self.next_part;
        self.next_part += 1;
        if let Part::OfCommand(command) = part {
            *self.commands.entry(command).or_default() += 1;
        }
        self.parts.insert(id, part);
        self.platters.submit(now, Request { id, op, offset, length }, &mut self.scratch);
    }

    /// Passes on what the platters want.
    fn pass_on(&mut self, actions: &mut Vec<Action>) {
        actions.extend(self.scratch.drain(..).map(|action| match action {
            Action::Done(part, at) => Action::Move(PART | part, at),
            other => other,
        }));
    }

    fn read(&mut self, now: Now, request: Request) {
        let range = request.range();
        let mut at = range.start;
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for (part, place) in self.cache.find(&range) {
            if at < part.start {
                ranges.push((self.home(at), part.start - at));
            }
            ranges.push((place, part.end - part.start));
            at = part.end;
        }
        if at < range.end {
            ranges.push((self.home(at), range.end - at));
        }
        for range in ranges {
            self.start(now, Part::OfCommand(request.id), Op::Read, range);
        }
    }

    /// Whether a piece of a write goes to its place at once.
    fn goes_home(&self, piece: &Range<u64>, request: &Request) -> bool {
        let band = self.band(piece.start);
        if self.spec.is_plain(band) {
            return true;
        }
        if self.cleaning.as_ref().is_some_and(|cleaning| cleaning.band == band) {
            return false;
        }
        if self.open.iter().any(|open| open.band == band && open.at == piece.start) {
            return true;
        }
        let begins = piece.start == self.band_range(band).start || self.written.get(&band) == Some(&piece.start);
        // A piece in the middle of its own request continues that.
        let continues = piece.start > request.offset || self.ends.contains(&piece.start);
        begins && (continues || piece.end - piece.start >= LARGE)
    }

    fn write(&mut self, now: Now, request: Request) {
        let pieces: Vec<Range<u64>> = self.pieces(&request.range()).collect();
        let plain = pieces.iter().all(|piece| self.spec.is_plain(self.band(piece.start)));
        let away = pieces.iter().filter(|piece| !self.goes_home(piece, &request)).map(|piece| piece.end - piece.start);
        if !plain && (!self.blocked.is_empty() || !self.cache.fits(away)) {
            self.blocked.push_back(request);
            // It is under way, though no part of it is.
            self.commands.entry(request.id).or_default();
            self.clean(now);
            return;
        }
        self.place(now, request, &pieces);
    }

    fn place(&mut self, now: Now, request: Request, pieces: &[Range<u64>]) {
        for piece in pieces {
            let length = piece.end - piece.start;
            let at = if self.goes_home(piece, &request) {
                self.cache.discard(piece);
                self.stream(piece);
                (self.home(piece.start), length)
            } else {
                let place = self.cache.insert(piece.clone());
                (place.start, place.end - place.start)
            };
            self.start(now, Part::OfCommand(request.id), Op::Write, at);
        }
        self.ends.push_back(request.offset + request.length);
        if self.ends.len() > ENDS {
            self.ends.pop_front();
        }
    }

    /// Notes that `piece` is written in place.
    fn stream(&mut self, piece: &Range<u64>) {
        let band = self.band(piece.start);
        if self.spec.is_plain(band) {
            return;
        }
        let written = self.written.entry(band).or_insert(piece.start);
        let harms = *written > piece.end;
        *written = (*written).max(piece.end);
        let whole = piece.end == self.band_range(band).end;
        match self.open.iter().position(|open| open.band == band) {
            Some(index) if whole => {
                self.open.remove(index);
            }
            Some(index) => (self.open[index].at, self.open[index].harms) = (piece.end, harms),
            None if whole => (),
            None => {
                if self.open.len() >= STREAMS
                    && let Some(oldest) = self.open.pop_front()
                {
                    self.close(&oldest);
                }
                self.open.push_back(Open { band, at: piece.end, harms });
            }
        }
    }

    fn close(&mut self, open: &Open) {
        if open.harms && !self.harmed.contains(&open.band) {
            self.harmed.push_back(open.band);
        }
    }

    /// Begins to clean the band that has waited longest, unless one is being cleaned.
    fn clean(&mut self, now: Now) {
        if self.cleaning.is_some() {
            return;
        }
        let Some(band) = self.harmed.pop_front().or_else(|| self.cache.oldest().map(|at| self.band(at))) else {
            return;
        };
        let range = self.band_range(band);
        let written = self.written.get(&band).copied().unwrap_or(range.start);
        let kept: Vec<(Range<u64>, u64)> = self.cache.find(&range).collect();
        let end = kept.last().map_or(written, |(part, _)| part.end.max(written));
        let steps = |to: u64| {
            let home = self.home(0);
            (range.start..to).step_by(STEP as usize).map(move |at| (home + at, STEP.min(to - at)))
        };
        let mut reads: VecDeque<(u64, u64)> = steps(written).collect();
        reads.extend(kept.into_iter().map(|(part, place)| (place, part.end - part.start)));
        let writes = steps(end).collect();
        self.open.retain(|open| open.band != band);
        self.cleaning =
            Some(Cleaning { band, position: self.cache.head(), reads, writes, writing: false, end, under_way: 0 });
        self.go_on_cleaning(now);
    }

    /// Starts steps of cleaning; ends it when none is left.
    fn go_on_cleaning(&mut self, now: Now) {
        loop {
            let Some(cleaning) = &mut self.cleaning else { return };
            if cleaning.under_way >= STEPS {
                return;
            }
            // Nothing is written before all is read.
            cleaning.writing |= cleaning.reads.is_empty() && cleaning.under_way == 0;
            let (op, steps) =
                if cleaning.writing { (Op::Write, &mut cleaning.writes) } else { (Op::Read, &mut cleaning.reads) };
            match steps.pop_front() {
                Some(range) => {
                    cleaning.under_way += 1;
                    self.start(now, Part::OfCleaning, op, range);
                }
                None if cleaning.under_way > 0 => return,
                None => break,
            }
        }
        let Some(cleaning) = self.cleaning.take() else { return };
        let range = self.band_range(cleaning.band);
        self.cache.discard_before(&range, cleaning.position);
        if cleaning.end > range.start {
            let written = self.written.entry(cleaning.band).or_insert(cleaning.end);
            *written = (*written).max(cleaning.end);
        }
        self.admit(now);
        if !self.blocked.is_empty() || self.is_quiet {
            self.clean(now);
        }
    }

    /// Takes writes that waited, while there is room.
    fn admit(&mut self, now: Now) {
        while let Some(request) = self.blocked.front().copied() {
            let pieces: Vec<Range<u64>> = self.pieces(&request.range()).collect();
            let away = pieces.iter().filter(|piece| !self.goes_home(piece, &request));
            if !self.cache.fits(away.map(|piece| piece.end - piece.start)) {
                return;
            }
            self.blocked.pop_front();
            self.place(now, request, &pieces);
        }
    }

    fn part_ended(&mut self, now: Now, part: u64, actions: &mut Vec<Action>) {
        match self.parts.remove(&part) {
            Some(Part::OfCommand(command)) => {
                if let Some(left) = self.commands.get_mut(&command) {
                    *left -= 1;
                    if *left == 0 {
                        self.commands.remove(&command);
                        actions.push(Action::Done(command, now.nanos));
                    }
                }
                if self.commands.is_empty() {
                    let wait = self.spec.quiet.as_nanos() as u64;
                    actions.push(Action::Move(QUIET | self.quiet, now.nanos + wait));
                }
            }
            Some(Part::OfCleaning) => {
                if let Some(cleaning) = &mut self.cleaning {
                    cleaning.under_way -= 1;
                }
                self.go_on_cleaning(now);
            }
            // It was under way when the power went.
            None => (),
        }
    }
}

impl Mechanics for Shingled {
    fn submit(&mut self, now: Now, request: Request, actions: &mut Vec<Action>) {
        self.quiet += 1;
        self.is_quiet = false;
        match request.op {
            Op::Read => self.read(now, request),
            Op::Write => self.write(now, request),
            Op::Flush => self.start(now, Part::OfCommand(request.id), Op::Flush, (0, 0)),
        }
        self.pass_on(actions);
    }

    fn moved(&mut self, now: Now, number: u64, actions: &mut Vec<Action>) {
        if number & PART != 0 {
            self.part_ended(now, number & !PART, actions);
        } else if number & QUIET != 0 {
            if number & !QUIET == self.quiet && self.commands.is_empty() {
                self.is_quiet = true;
                for open in std::mem::take(&mut self.open) {
                    self.close(&open);
                }
                self.clean(now);
            }
        } else {
            self.platters.moved(now, number, &mut self.scratch);
        }
        self.pass_on(actions);
    }

    fn lose_power(&mut self) {
        self.platters.lose_power();
        self.commands.clear();
        self.parts.clear();
        self.blocked.clear();
        // What had been read of the band is gone; it is cleaned again.
        if let Some(cleaning) = self.cleaning.take() {
            self.harmed.push_front(cleaning.band);
        }
        for open in std::mem::take(&mut self.open) {
            self.close(&open);
        }
        self.quiet += 1;
        self.is_quiet = false;
    }

    fn work(&self) -> Work {
        self.platters.work()
    }
}

#[cfg(test)]
mod tests;
