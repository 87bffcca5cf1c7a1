//! A ring on a disk that does not keep what it was given: rotten, zeroed, stale and misplaced bytes, unreadable sectors,
//! lost, torn and misdirected writes, reads that fail once, writes and flushes that fail, and crashes between.
//!
//! Round after round on one disk: record, damage, reopen, read in several ways, record on. Demanded of every answer:
//! right bytes in order; every number is returned or told to be gone, exactly; nothing is gone but what lay in a damaged
//! block. After a failed write or flush nothing is acknowledged any more, and what was acknowledged before is there when
//! the target is opened again. What one damaged structure costs is in `docs/format/damage.md`; crashes alone are in
//! `life`.

use crate::anatomy::{Kind, Part};
use crate::audit::runs;
use crate::disk::{DiskSpec, Fault, Op, presets};
use crate::stage::{Ending, Look, Stage, record};
use forebay_env::Random;
use forebay_model::{Bytes, Gap};
use forebay_target::Target;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// What a run has done, so that a run that did nothing counts as nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Faults that were put in.
    pub faults: u64,
    /// Elements that were returned and compared.
    pub compared: u64,
    /// Elements that were told to be damaged.
    pub damaged: u64,
    /// Copies of superblock or checkpoint that opening repaired.
    pub repaired: u64,
    /// Targets that stopped because a write or a flush failed.
    pub stopped: u64,
}

impl Tally {
    /// Adds another run's.
    pub fn add(&mut self, other: &Tally) {
        self.faults += other.faults;
        self.compared += other.compared;
        self.damaged += other.damaged;
        self.repaired += other.repaired;
        self.stopped += other.stopped;
    }
}

struct Run {
    seed: u64,
    stage: Stage,
    random: Rc<dyn Random>,
    /// Elements that were told to be gone before.
    lost: BTreeSet<u64>,
    /// Whether it did not always end properly.
    crashed: bool,
    /// The disk a while ago.
    before: Vec<u8>,
    tally: Tally,
}

/// Lets a fresh ring on a disk of `spec` suffer for `rounds`.
pub fn suffer(seed: u64, spec: DiskSpec, rounds: u32) -> Tally {
    let mut shape = chance(seed);
    let mut below = |n: usize| {
        shape = shape.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        (shape >> 33) as usize % n
    };
    let stage = Stage::new(seed, spec, |spec| {
        spec.capacity = Bytes::mib(2 + below(3) as u64);
        spec.block = Bytes::kib([4, 16, 64][below(3)]);
        spec.segment = Bytes::kib([256, 300, 450][below(3)]);
        spec.flush_interval = Duration::from_millis([0, 20, 200][below(3)]);
    });
    let random = stage.world.random();
    let before = stage.image();
    let mut run = Run { seed, stage, random, lost: BTreeSet::new(), crashed: false, before, tally: Tally::default() };
    for _ in 0..rounds {
        run.round();
    }
    run.tally
}

/// The disk that a seed suffers on: flash, a disk with a write cache, one without.
pub fn disk(seed: u64) -> DiskSpec {
    match seed % 3 {
        0 => presets::ssd().scaled(8000),
        1 => presets::sata7200().scaled(50_000),
        _ => presets::sata7200().scaled(50_000).with_write_cache(None),
    }
}

fn chance(seed: u64) -> u64 {
    seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Run {
    fn below(&self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn round(&mut self) {
        match self.below(8) {
            0 => self.write_or_flush_fails(),
            1 | 2 => self.a_write_goes_wrong(),
            3 => self.reads_fail_once(),
            4 => self.crash(),
            _ => self.rot(),
        }
        if self.below(3) == 0 {
            self.before = self.stage.image();
        }
    }

    fn fail(&self, what: &str) -> ! {
        panic!("seed {}: {what}", self.seed)
    }

    fn look(&mut self, doing: &str) -> Look {
        let look = self.stage.look().unwrap_or_else(|error| self.fail(&format!("{doing}: {error}")));
        let acknowledged = self.stage.book.borrow().acknowledged;
        if look.status.next_sequence < acknowledged {
            let next = look.status.next_sequence;
            self.fail(&format!("{doing}: {acknowledged} were acknowledged, and the ring goes on at {next}"));
        }
        self.stage.book.borrow_mut().acknowledged = look.status.next_sequence;
        self.tally.compared += look.answer.returned.len() as u64;
        self.tally.damaged += (&look.answer.told - &look.answer.expired).len() as u64;
        self.tally.repaired += look.complaints.len() as u64;
        look
    }

    /// What is told must have been told before, or lie in what was damaged now.
    fn only(&mut self, doing: &str, look: &Look, damaged: &BTreeSet<u64>) {
        let mut unexpected: BTreeSet<u64> = look.answer.told.difference(&(&self.lost | damaged)).copied().collect();
        // The oldest element may have begun in a segment that is gone.
        if look.answer.expired.contains(&look.status.first_sequence) {
            unexpected.remove(&look.status.first_sequence);
        }
        if !unexpected.is_empty() {
            let (unexpected, damaged) = (runs(&unexpected), runs(damaged));
            self.fail(&format!("{doing}: {unexpected} are told to be gone, and {damaged} were damaged"));
        }
        self.gaps(doing, look, damaged);
        self.lost.clone_from(&look.answer.told);
    }

    /// A gap record that lies between whole elements has to be returned, unless a block without elements is missing.
    fn gaps(&self, doing: &str, look: &Look, damaged: &BTreeSet<u64>) {
        let book = self.stage.book.borrow();
        let known: Vec<&Gap> = book.gaps.iter().collect();
        if let Some(stranger) = look.answer.gaps.iter().find(|gap| !known.contains(gap)) {
            self.fail(&format!("{doing}: a gap that nobody recorded: {stranger}"));
        }
        let here = |n: u64| look.answer.returned.contains(&n) && !damaged.contains(&n);
        let due = |gap: &&Gap| gap.count.is_some_and(|n| here(n) && here(n + 1));
        // After a crash a block without elements may be overwritten in part, which is nobody's damage.
        if look.answer.unknown == 0
            && !self.crashed
            && let Some(missing) = book.gaps.iter().filter(due).find(|gap| !look.answer.gaps.contains(gap))
        {
            self.fail(&format!("{doing}: a gap is missing: {missing}"));
        }
    }

    /// Records and closes; then some structures rot while nobody looks.
    fn rot(&mut self) {
        let killed = self.below(4) == 0;
        self.crashed |= killed;
        self.stage.record(20 + self.below(300), if killed { Ending::Killed } else { Ending::Closed });
        let mut parts = self.stage.parts();
        // After a crash, what was flushed last cannot be told from a torn tail: the matrix has that.
        let newest = parts.iter().filter(|p| p.kind == Kind::Trailer).map(|p| p.owner.1).max().unwrap_or(0);
        let is_copy = |part: &Part| matches!(part.kind, Kind::Root | Kind::Checkpoint | Kind::Beside);
        // Nor need both pairs be whole then: a commit may have been under way.
        parts.retain(|part| !killed || !is_copy(part) && part.owner.1 < newest);
        let copy = self.below(2);
        parts.retain(|part| !is_copy(part) || part.owner.0 == copy);
        let mut damaged = BTreeSet::new();
        if parts.is_empty() {
            return self.only_survivors();
        }
        for _ in 0..1 + self.below(4) {
            let range = self.harm(&parts);
            damaged.extend(parts.iter().filter(|p| p.touches(&range)).flat_map(|p| p.elements.clone()));
        }
        let look = self.look("rot");
        self.only("rot", &look, &damaged);
        self.stage.record(20 + self.below(100), Ending::Closed);
        let look = self.look("recorded on");
        self.only("recorded on", &look, &BTreeSet::new());
    }

    /// Nothing was damaged: nothing may be gone.
    fn only_survivors(&mut self) {
        let look = self.look("nothing");
        self.only("nothing", &look, &BTreeSet::new());
    }

    /// Damages one part in some way; where.
    fn harm(&mut self, parts: &[Part]) -> Range<Bytes> {
        self.tally.faults += 1;
        // Blocks are many, all else is rare: each kind has the same chance.
        let mut kinds: Vec<Kind> = parts.iter().map(|p| p.kind).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let kind = kinds[self.below(kinds.len() as u64) as usize];
        let alike: Vec<&Part> = parts.iter().filter(|p| p.kind == kind && p.length > Bytes::ZERO).collect();
        if alike.is_empty() {
            return Bytes::ZERO..Bytes::ZERO;
        }
        let part = alike[self.below(alike.len() as u64) as usize];
        let disk = &self.stage.disk;
        let mut bytes = vec![0; part.length.0 as usize];
        disk.peek(part.at, &mut bytes);
        let old = &self.before[part.at.0 as usize..(part.at + part.length).0 as usize];
        match self.below(6) {
            0 => bytes.fill(0),
            1 => bytes.copy_from_slice(old),
            2 => {
                let from = self.below(part.length.0) as usize;
                bytes[from..].copy_from_slice(&old[from..]);
            }
            3 => {
                let other = alike[self.below(alike.len() as u64) as usize];
                let common = bytes.len().min(other.length.0 as usize);
                disk.peek(other.at, &mut bytes[..common]);
            }
            4 => {
                let at = (part.at + Bytes(self.below(part.length.0))).align_down(Bytes(512));
                disk.inject(Fault::Unreadable { offset: at, length: Bytes(512), permanent: false });
                // What cannot be read is given up by pages.
                return at.align_down(Bytes(4096))..at.align_down(Bytes(4096)) + Bytes(4096);
            }
            _ => bytes[self.below(part.length.0) as usize] ^= 1 << self.below(8),
        }
        disk.poke(part.at, &bytes);
        part.at..part.at + part.length
    }

    /// One write of a session is lost, torn or done elsewhere, and acknowledged all the same.
    fn a_write_goes_wrong(&mut self) {
        self.tally.faults += 1;
        let nth = self.below(60);
        let size = self.stage.disk.spec().size.0;
        let fault = match self.below(3) {
            0 => Fault::LoseWrite { nth },
            1 => Fault::TearWrite { nth },
            _ => Fault::MisdirectWrite { nth, to: Bytes(self.below(size / 4096) * 4096) },
        };
        let doing = format!("{fault:?}");
        self.stage.disk.inject(fault);
        self.stage.record(20 + self.below(300), Ending::Closed);
        self.stage.disk.calm();
        let look = self.look(&doing);
        // Where it went is not known; but it is one place, or two, and each is a write long.
        let fresh = look.answer.told.difference(&self.lost).copied().collect::<BTreeSet<u64>>();
        let book = self.stage.book.borrow();
        let bytes: usize = fresh.iter().map(|n| book.known[n].bytes.len()).sum();
        drop(book);
        let separate = fresh.iter().filter(|n| **n == 0 || !fresh.contains(&(*n - 1))).count();
        // A footer may be a megabyte, and large elements reach into several blocks.
        if separate > 8 || bytes > 1_500_000 {
            self.fail(&format!("{doing}: {} are told to be gone, {bytes} bytes", runs(&fresh)));
        }
        self.only(&doing, &look, &fresh);
    }

    /// A read fails once, and would not again: nothing is lost by that.
    fn reads_fail_once(&mut self) {
        self.stage.record(20 + self.below(200), Ending::Closed);
        for _ in 0..3 {
            self.tally.faults += 1;
            let nth = self.below(40);
            self.stage.disk.inject(Fault::Fail { op: Op::Read, nth, sticky: false });
            let look = self.look("a read fails once");
            self.stage.disk.calm();
            self.only("a read fails once", &look, &BTreeSet::new());
        }
    }

    /// A write or a flush fails: the target stops, and what it had acknowledged is there afterwards.
    fn write_or_flush_fails(&mut self) {
        self.tally.faults += 1;
        let op = if self.below(2) == 0 { Op::Write } else { Op::Flush };
        let fault = Fault::Fail { op, nth: 8 + self.below(60), sticky: self.below(2) == 0 };
        let doing = format!("{fault:?}");
        self.stage.disk.inject(fault);
        let (env, book) = (self.stage.env(), self.stage.book.clone());
        let count = 50 + self.below(200);
        let ended = self.stage.world.run(async move {
            let target = Target::open(env.clone()).await.map_err(|e| e.to_string())?;
            let Err(error) = record(&env, &target, &book, count).await else { return Ok(()) };
            let acknowledged = book.borrow().acknowledged;
            // Nothing more is acknowledged, whatever is tried.
            assert!(target.disk().failure().is_some(), "{error}, and the device is said to be sound");
            assert!(record(&env, &target, &book, 3).await.is_err(), "elements are taken after: {error}");
            assert!(target.close().await.is_err(), "the target closes in peace after: {error}");
            assert_eq!(book.borrow().acknowledged, acknowledged, "acknowledged after: {error}");
            Err::<(), String>(error.to_string())
        });
        self.tally.stopped += u64::from(ended.is_err());
        self.stage.disk.calm();
        if self.below(2) == 0 {
            self.stage.world.crash(&[&self.stage.disk]);
        } else {
            self.stage.world.kill();
        }
        self.after_a_crash(&doing);
    }

    fn crash(&mut self) {
        self.stage.record(20 + self.below(200), if self.below(2) == 0 { Ending::Cut } else { Ending::Killed });
        self.after_a_crash("crash");
    }

    /// What was being overwritten is told as expired; nothing is damaged by a crash.
    fn after_a_crash(&mut self, doing: &str) {
        self.crashed = true;
        let look = self.look(doing);
        let expired = look.answer.expired.clone();
        self.only(doing, &look, &expired);
    }
}

#[cfg(test)]
mod tests;
