//! Every structure on the device, damaged in every way, one at a time: what it costs is what `docs/format/damage.md` says
//! that it costs, to the element. Outcomes 24, 26, 28 and 29 of the list in `docs/promises/ring.md`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use crate::harm::{Harm, costs_what_the_page_says};
use forebay_model::Bytes;
use forebay_sim::anatomy::{Kind, Part};
use forebay_sim::audit::runs;
use forebay_sim::disk::{Fault, presets};
use forebay_sim::stage::{Ending, Look, Scene, Stage};
use forebay_target::segment::TRAILER_LEN;
use forebay_target::verify::Cause;
use std::collections::{BTreeMap, BTreeSet};

/// A row of the table: its name, how the target was left, and which part is damaged.
struct Row {
    name: &'static str,
    ending: Ending,
    choose: fn(&[Part]) -> usize,
}

/// The first segment that is neither the oldest nor the newest.
fn middle(parts: &[Part]) -> u64 {
    let mut segments: Vec<u64> = parts.iter().filter(|p| p.kind == Kind::Trailer).map(|p| p.owner.1).collect();
    segments.sort_unstable();
    segments[segments.len() / 2]
}

fn newest_sealed(parts: &[Part]) -> u64 {
    parts.iter().filter(|p| p.kind == Kind::Trailer).map(|p| p.owner.1).max().unwrap()
}

fn copy(parts: &[Part], kind: Kind, number: u64) -> usize {
    parts.iter().position(|p| p.kind == kind && p.owner.0 == number).unwrap()
}

/// The `nth` of the parts of `kind` in `segment` (from the end if negative).
fn in_segment(parts: &[Part], kind: Kind, segment: u64, nth: isize) -> usize {
    let all: Vec<usize> = (0..parts.len()).filter(|i| parts[*i].kind == kind && parts[*i].owner.1 == segment).collect();
    let nth = if nth < 0 { all.len() as isize + nth } else { nth };
    all[nth as usize]
}

fn open(parts: &[Part], kind: Kind, nth: isize) -> usize {
    in_segment(parts, kind, parts.iter().find(|p| p.open).unwrap().owner.1, nth)
}

/// How many blocks of the open segment a later one calls durable.
fn proven(parts: &[Part]) -> u32 {
    parts.iter().filter(|p| p.open).map(|p| p.block.1).max().unwrap()
}

const ROWS: &[Row] = &[
    Row { name: "superblock, copy 0", ending: Ending::Closed, choose: |p| copy(p, Kind::Root, 0) },
    Row { name: "superblock, copy 1", ending: Ending::Closed, choose: |p| copy(p, Kind::Root, 1) },
    Row { name: "checkpoint, copy 0", ending: Ending::Closed, choose: |p| copy(p, Kind::Checkpoint, 0) },
    Row { name: "checkpoint, copy 1", ending: Ending::Closed, choose: |p| copy(p, Kind::Checkpoint, 1) },
    Row { name: "superblock behind a checkpoint", ending: Ending::Closed, choose: |p| copy(p, Kind::Beside, 0) },
    Row { name: "block header", ending: Ending::Closed, choose: |p| in_segment(p, Kind::Header, middle(p), 3) },
    Row { name: "block payload", ending: Ending::Closed, choose: |p| in_segment(p, Kind::Payload, middle(p), 3) },
    Row { name: "block directory", ending: Ending::Closed, choose: |p| in_segment(p, Kind::Entries, middle(p), 3) },
    Row {
        name: "first block of a segment",
        ending: Ending::Closed,
        choose: |p| in_segment(p, Kind::Header, middle(p), 0),
    },
    Row {
        name: "last block of a segment",
        ending: Ending::Closed,
        choose: |p| in_segment(p, Kind::Header, middle(p), -1),
    },
    Row { name: "index page", ending: Ending::Closed, choose: |p| in_segment(p, Kind::Page, middle(p), 0) },
    Row { name: "tables", ending: Ending::Closed, choose: |p| in_segment(p, Kind::Tables, middle(p), 0) },
    Row { name: "trailer", ending: Ending::Closed, choose: |p| in_segment(p, Kind::Trailer, middle(p), 0) },
    Row { name: "first block of the open segment", ending: Ending::Closed, choose: |p| open(p, Kind::Header, 0) },
    Row { name: "block in the open segment", ending: Ending::Closed, choose: |p| open(p, Kind::Payload, 2) },
    Row { name: "last block of the open segment", ending: Ending::Closed, choose: |p| open(p, Kind::Header, -1) },
    Row { name: "after a crash: superblock, copy 0", ending: Ending::Killed, choose: |p| copy(p, Kind::Root, 0) },
    Row { name: "after a crash: checkpoint, copy 0", ending: Ending::Killed, choose: |p| copy(p, Kind::Checkpoint, 0) },
    Row {
        name: "after a crash: block header",
        ending: Ending::Killed,
        choose: |p| in_segment(p, Kind::Header, newest_sealed(p), 3),
    },
    Row {
        name: "after a crash: tables",
        ending: Ending::Killed,
        choose: |p| in_segment(p, Kind::Tables, newest_sealed(p), 0),
    },
    Row {
        name: "after a crash: trailer",
        ending: Ending::Killed,
        choose: |p| in_segment(p, Kind::Trailer, newest_sealed(p), 0),
    },
    Row {
        name: "after a crash: trailer of the segment before",
        ending: Ending::Killed,
        choose: |p| in_segment(p, Kind::Trailer, newest_sealed(p) - 1, 0),
    },
    Row {
        name: "after a crash: first block of the open segment",
        ending: Ending::Killed,
        choose: |p| open(p, Kind::Header, 0),
    },
    Row {
        name: "after a crash: block in the open segment",
        ending: Ending::Killed,
        choose: |p| open(p, Kind::Entries, proven(p) as isize - 1),
    },
    Row {
        name: "after a crash: block of the last flush",
        ending: Ending::Killed,
        choose: |p| open(p, Kind::Payload, proven(p) as isize),
    },
    Row { name: "after a crash: last block", ending: Ending::Killed, choose: |p| open(p, Kind::Header, -1) },
];

#[test]
fn a_check_finds_every_flipped_bit_of_every_structure() {
    let (scene, parts, _) = scene(Ending::Closed);
    let stage = scene.begin(1);
    let random = stage.world.random();
    assert_eq!(stage.verify().rings[0].damage, []);
    for (at, part) in parts.iter().enumerate().filter(|(at, part)| at % 5 == 0 && part.length > Bytes::ZERO) {
        let place = part.at + Bytes(random.below(part.length.0));
        let flip = Fault::FlipBit { offset: place, bit: random.below(8) as u8 };
        stage.disk.inject(flip.clone());
        let seen = stage.verify();
        let gone: Vec<u64> = seen.rings[0].damage.iter().flat_map(|d| d.elements.clone()).collect();
        let found = seen.complaints.len() + seen.rings[0].damage.len();
        assert!(found == 1, "{place} of part {at}, {:?}: {seen:?}", part.kind);
        assert_eq!(gone, part.elements.clone().collect::<Vec<u64>>(), "{place} of part {at}, {:?}", part.kind);
        stage.disk.inject(flip);
    }
}

#[test]
fn a_check_tells_lost_and_misdirected_writes_apart_from_rot() {
    let (scene, parts, before) = &scene(Ending::Closed);
    let stage = scene.begin(1);
    // A trailer moves with all of its place: another one may be longer.
    let mut places = parts.clone();
    places.iter_mut().filter(|p| p.kind == Kind::Trailer).for_each(|p| p.length = Bytes(TRAILER_LEN));
    let sealed = |part: &Part| !part.open && matches!(part.kind, Kind::Header | Kind::Trailer);
    let mut seen = BTreeMap::new();
    for which in (0..parts.len()).filter(|which| sealed(&parts[*which])) {
        let place = &places[which];
        let at = place.at.0 as usize;
        let mut now = vec![0; place.length.0 as usize];
        stage.disk.peek(place.at, &mut now);
        // Blocks are of many lengths: where one begins now, the middle of another may have been.
        let began = before[at..at + 8] == now[..8];
        for harm in [Harm::Flipped, Harm::Old, Harm::Misplaced] {
            let of = if harm == Harm::Flipped { parts } else { &places };
            damage(&stage, of, &of[which], before, harm);
            let cause = match harm {
                Harm::Old if began => Cause::LostWrite,
                Harm::Misplaced => Cause::Misdirected,
                _ => Cause::Rot,
            };
            let found = stage.verify().rings.remove(0).damage;
            let causes: Vec<_> = found.iter().map(|d| d.cause).collect();
            assert_eq!(causes, [cause], "{:?} {harm:?}: {found:?}", place.kind);
            *seen.entry((place.kind, cause)).or_insert(0) += 1;
            stage.disk.poke(place.at, &now);
        }
    }
    assert!(seen.len() == 6 && seen.values().all(|n| *n > 3), "{seen:?}");
}

/// A ring in its second lap, the parts of it, and the disk as it was a while before.
fn scene(ending: Ending) -> (Scene, Vec<Part>, Vec<u8>) {
    let stage = Stage::new(5, presets::ssd().scaled(15_000), |_| ());
    stage.record(800, Ending::Closed);
    let before = stage.image();
    stage.record(700, Ending::Closed);
    stage.record(150, ending);
    let parts = stage.parts();
    (stage.scene(), parts, before)
}

/// Damages a part. Whether anything of it is different now.
fn damage(stage: &Stage, parts: &[Part], part: &Part, before: &[u8], harm: Harm) -> bool {
    harm.harm(stage, (part.at, part.length.0), before, |then| {
        // The same of another segment, or the other copy; not a neighbour that may be shorter than its place.
        let other = parts.iter().find(|p| p.kind == part.kind && p.owner != part.owner && p.length >= part.length);
        let other = other.or_else(|| parts.iter().find(|p| p.kind == part.kind && p.owner != part.owner)).unwrap();
        let common = then.len().min(other.length.0 as usize);
        stage.disk.peek(other.at, &mut then[..common]);
    })
}

fn cell(row: &Row, harm: Harm, (scene, parts, before): &(Scene, Vec<Part>, Vec<u8>)) -> Result<&'static str, String> {
    let stage = scene.begin(7);
    let part = &parts[(row.choose)(parts)];
    // What is told without any damage: what a crash may have begun to overwrite.
    let acknowledged = stage.book.borrow().acknowledged;
    let changed = damage(&stage, parts, part, before, harm);
    let seen = stage.verify();
    let Look { answer, complaints, status } = stage.look()?;
    let elements: BTreeSet<u64> = part.elements.clone().collect();
    let tail = status.next_sequence < acknowledged;
    let cost = if tail {
        // Nothing was written after it that could say that it had been there.
        if part.block.0 < proven(parts) || status.next_sequence != part.elements.start {
            return Err(format!(
                "{} were acknowledged, and the ring goes on at {}",
                acknowledged, status.next_sequence
            ));
        }
        "torn tail"
    } else if answer.told == elements && !elements.is_empty() {
        "its elements, told"
    } else if answer.told.is_empty() && !complaints.is_empty() {
        "nothing; repaired, said"
    } else if answer.told.is_empty() && (elements.is_empty() || !changed) {
        "nothing"
    } else {
        return Err(format!("{} are told to be gone, and {} were damaged", runs(&answer.told), runs(&elements)));
    };
    // Looking over the device without opening it comes to the same.
    let gone: BTreeSet<u64> = seen.rings[0].damage.iter().flat_map(|d| d.elements.clone()).collect();
    let told = if tail { BTreeSet::new() } else { answer.told.clone() };
    if gone != told || seen.complaints != complaints {
        return Err(format!("a check says {} and {:?}, a reader {}", runs(&gone), seen.complaints, runs(&told)));
    }
    let said = seen.rings[0].damage.len() + seen.rings[0].repairs.len() + seen.complaints.len();
    // In the oldest segments after a crash it may be what the crash undid.
    let said = said + seen.rings[0].half_expired as usize;
    let unseen = tail || part.kind == Kind::Root && matches!(harm, Harm::Old | Harm::Misplaced);
    if said == 0 && changed && !unseen {
        return Err("a check does not find it".to_string());
    }
    // The ring goes on, and tells the same as long as it is there.
    let told: BTreeSet<u64> = answer.told;
    stage.record(60, Ending::Closed);
    let again = stage.look().map_err(|e| format!("recorded on: {e}"))?;
    let kept: BTreeSet<u64> = told.range(again.status.first_sequence..).copied().collect();
    if again.answer.told != kept {
        return Err(format!("{} are told after recording on, {} before", runs(&again.answer.told), runs(&kept)));
    }
    if !again.complaints.is_empty() {
        return Err(format!("still said after it was repaired: {:?}", again.complaints));
    }
    Ok(cost)
}

#[test]
fn every_damage_to_every_structure_costs_what_the_page_says() {
    let scenes = [Ending::Closed, Ending::Killed].map(|ending| (ending, scene(ending)));
    let scene = |row: &Row| &scenes.iter().find(|(ending, _)| *ending == row.ending).unwrap().1;
    costs_what_the_page_says("damage.md", ROWS, |row| row.name, |row, harm| cell(row, harm, scene(row)));
}
