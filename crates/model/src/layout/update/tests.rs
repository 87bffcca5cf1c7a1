use super::{Extent, Update};
use crate::error::Kind;
use crate::key::chance::Chance;
use crate::layout::address::{Holds, Piece, Place};
use crate::layout::{Raid, Striping, parity};
use crate::size::Bytes;

const UNIT: u64 = 4096;

/// Components in memory, some of them lost, and the file that they hold.
struct Stored {
    striping: Striping,
    components: Vec<Vec<u8>>,
    lost: Vec<u32>,
    file: Vec<u8>,
    reads: usize,
}

impl Stored {
    fn new(raid: Raid, width: u32, depth: u32, groups: u32) -> Stored {
        let striping = Striping::new(raid, Bytes(UNIT), width, depth, groups).expect("a layout");
        let components = vec![Vec::new(); striping.components() as usize];
        Stored { striping, components, lost: Vec::new(), file: Vec::new(), reads: 0 }
    }

    fn read(&self, Extent { place, length }: Extent) -> &[u8] {
        assert!(!self.lost.contains(&place.component), "{place:?} is lost");
        &self.components[place.component as usize][place.at.0 as usize..(place.at + length).0 as usize]
    }

    fn write(&mut self, component: u32, at: Bytes, bytes: &[u8]) {
        if self.lost.contains(&component) {
            return;
        }
        let to = &mut self.components[component as usize];
        to.resize(to.len().max(at.0 as usize + bytes.len()), 0);
        to[at.0 as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    /// Writes as a client does.
    fn put(&mut self, from: u64, new: &[u8]) {
        let range = from..from + new.len() as u64;
        let size = Bytes(self.file.len() as u64);
        let updates = self.striping.updates(range.clone(), size, &self.lost).expect("enough is there");
        for update in updates {
            self.reads += update.reads.len();
            let read: Vec<&[u8]> = update.reads.iter().map(|extent| self.read(*extent)).collect();
            let parity = update.parity_of(&self.striping, from, new, read);
            for Piece { bytes, place } in &update.writes {
                let bytes = &new[(bytes.start - from) as usize..(bytes.end - from) as usize];
                (0..self.striping.raid().copies()).for_each(|copy| self.write(place.component + copy, place.at, bytes));
            }
            if let Some(Extent { place, .. }) = update.parity {
                assert!(!self.lost.contains(&place.component));
                self.write(place.component, place.at, &parity);
            }
        }
        self.file.resize(self.file.len().max(range.end as usize), 0);
        self.file[from as usize..][..new.len()].copy_from_slice(new);
    }

    /// Reads as a client does.
    fn get(&self) -> Vec<u8> {
        let size = Bytes(self.file.len() as u64);
        let mut file = Vec::new();
        for piece in self.striping.pieces(0..size.0).expect("a range") {
            let length = Bytes(piece.bytes.end - piece.bytes.start);
            if !self.lost.contains(&piece.place.component) {
                file.extend_from_slice(self.read(Extent { place: piece.place, length }));
                continue;
            }
            let mut bytes = vec![0; length.0 as usize];
            for extent in self.striping.instead_of(&piece, size, &self.lost).expect("enough is there") {
                parity::add(&mut bytes, self.read(extent));
            }
            file.extend(bytes);
        }
        file
    }

    /// Whether parity agrees with the bytes.
    fn check(&self) {
        let size = Bytes(self.file.len() as u64);
        for (component, bytes) in (0..).zip(&self.components) {
            assert_eq!(bytes.len() as u64, self.striping.length_of(component, size).0, "{:?}", self.striping);
            for at in (0..bytes.len() as u64).map(Bytes) {
                let Holds::Parity(stripe, within) = self.striping.held_at(Place { component, at }) else { continue };
                let of = |unit| {
                    let place = self.striping.unit_of(stripe, unit);
                    let component = &self.components[place.component as usize];
                    component.get((place.at + within).0 as usize).copied().unwrap_or(0)
                };
                let sum = (0..self.striping.data_units()).map(of).fold(0, |sum, byte| sum ^ byte);
                assert_eq!(sum, bytes[at.0 as usize], "parity of {stripe:?}, byte {within}");
            }
        }
    }
}

fn some(chance: &mut Chance, most: u64) -> Vec<u8> {
    (0..1 + chance.below(most)).map(|_| chance.below(256) as u8).collect()
}

#[test]
fn whatever_is_written_parity_agrees_and_what_any_lost_target_had_can_be_read() {
    let mut chance = Chance::for_test("updates of stripes");
    for (raid, width, depth, groups) in [
        (Raid::Zero, 3, 2, 2),
        (Raid::One(2), 2, 3, 2),
        (Raid::One(3), 1, 1, 1),
        (Raid::Five, 3, 1, 1),
        (Raid::Five, 5, 2, 2),
        (Raid::Five, 4, 3, 1),
    ] {
        for _ in 0..6 {
            let mut stored = Stored::new(raid, width, depth, groups);
            for _ in 0..12 {
                let end = stored.file.len() as u64;
                // Files grow at their end; holes are the target's to fill.
                let from = if chance.below(3) == 0 { end } else { chance.below(end + 1) };
                let new = some(&mut chance, 6 * UNIT);
                stored.put(from, &new);
            }
            stored.check();
            assert!(stored.get() == stored.file);
            let spare = stored.striping.spare() > 0;
            for lost in (0..stored.striping.components()).filter(|_| spare) {
                stored.lost = vec![lost];
                assert!(stored.get() == stored.file, "without {lost}");
            }
        }
    }
}

#[test]
fn what_is_written_while_a_target_is_lost_is_there_and_so_is_all_else_when_it_is_rebuilt() {
    let mut chance = Chance::for_test("updates without a target");
    for lost in 0..10 {
        let mut stored = Stored::new(Raid::Five, 5, 2, 2);
        let new = some(&mut chance, 60 * UNIT);
        stored.put(0, &new);
        stored.lost = vec![lost];
        stored.components[lost as usize].clear();
        for _ in 0..20 {
            let end = stored.file.len() as u64;
            let (from, new) = (chance.below(end + 1), some(&mut chance, 3 * UNIT));
            stored.put(from, &new);
            assert!(stored.get() == stored.file, "without {lost}");
        }
        // What it should have, from what the others have.
        let size = Bytes(stored.file.len() as u64);
        let length = stored.striping.length_of(lost, size).0;
        let rebuilt: Vec<u8> = (0..length)
            .map(|at| match stored.striping.held_at(Place { component: lost, at: Bytes(at) }) {
                Holds::Data(byte) => stored.file[byte.0 as usize],
                Holds::Parity(stripe, within) => {
                    let first = stored.striping.bytes_of(stripe).start;
                    let byte =
                        |unit: u64| stored.file.get((first + unit * UNIT + within.0) as usize).copied().unwrap_or(0);
                    (0..4).map(byte).fold(0, |sum, byte| sum ^ byte)
                }
            })
            .collect();
        stored.components[lost as usize] = rebuilt;
        stored.lost.clear();
        stored.check();
    }
}

#[test]
fn of_whole_stripes_nothing_is_read_and_else_no_more_than_has_to_be() {
    let striping = Striping::new(Raid::Five, Bytes(UNIT), 10, 4, 1).expect("a layout");
    let stripe = striping.stripe().0;
    let reads = |bytes: std::ops::Range<u64>, size: u64| -> Vec<usize> {
        let updates = striping.updates(bytes, Bytes(size), &[]).expect("all is there");
        updates.iter().map(|update: &Update| update.reads.len()).collect()
    };
    assert_eq!(reads(0..3 * stripe, 100 * stripe), [0, 0, 0]);
    assert_eq!(reads(100..200, 100 * stripe), [2], "old bytes and old parity");
    assert_eq!(reads(0..8 * UNIT, 100 * stripe), [1], "the one unit that stays");
    assert_eq!(reads(0..5 * UNIT, 100 * stripe), [4], "the four that stay");
    assert_eq!(reads(0..4 * UNIT, 100 * stripe), [5], "rather than the five that stay: four and the parity, or these");
    // At the end of a file nothing is there to be read.
    assert_eq!(reads(stripe..stripe + 700, stripe), [0]);
    assert_eq!(reads(stripe + 700..stripe + 900, stripe + 700), [0]);
    assert_eq!(reads(stripe + UNIT..stripe + 2 * UNIT, stripe + UNIT), [1], "the first unit, or the parity");
    assert_eq!(reads(stripe - 10..stripe + 10, 100 * stripe), [2, 2]);
}

#[test]
fn what_cannot_be_read_without_more_than_parity_covers_is_said_with_its_bytes() {
    for (raid, lost) in [(Raid::Five, vec![0, 3]), (Raid::Zero, vec![2]), (Raid::One(2), vec![4, 5])] {
        let striping = Striping::new(raid, Bytes(UNIT), 4, 1, 1).expect("a layout");
        let size = striping.stripe() * 3;
        let error = striping.updates(0..size.0, size, &lost).expect_err("too much is lost");
        assert!(error.kind == Kind::Device && error.message.contains("bytes 0 to"), "{error}");
        let gone = |piece: &Piece| lost.contains(&piece.place.component);
        for piece in striping.pieces(0..size.0).expect("a range").filter(gone) {
            let error = striping.instead_of(&piece, size, &lost).expect_err("too much is lost");
            assert!(error.message.contains(&format!("bytes {} to {}", piece.bytes.start, piece.bytes.end)), "{error}");
        }
    }
    // Of two groups one may lose a target each.
    let striping = Striping::new(Raid::Five, Bytes(UNIT), 4, 1, 2).expect("a layout");
    assert!(striping.updates(0..10 * UNIT, Bytes(10 * UNIT), &[1, 6]).is_ok());
}
