use super::{Holds, Piece, Place, StripeId};
use crate::key::chance::Chance;
use crate::layout::{LARGEST, Raid, Striping};
use crate::size::Bytes;
use std::collections::BTreeMap;

const UNIT: Bytes = Bytes::kib(4);

fn striping(raid: Raid, width: u32, depth: u32, groups: u32) -> Striping {
    Striping::new(raid, UNIT, width, depth, groups).expect("a layout")
}

/// All kinds, the sets among them for which the arithmetic was checked where it comes from.
fn all() -> Vec<Striping> {
    let mut all = vec![striping(Raid::Five, 5, 5, 2), striping(Raid::Five, 4, 7, 3), striping(Raid::Five, 9, 3, 1)];
    for raid in [Raid::Zero, Raid::One(2), Raid::One(3), Raid::Five] {
        for (width, depth, groups) in [(3, 1, 1), (3, 1, 4), (4, 2, 3), (13, 5, 2), (5, 12, 3)] {
            all.push(striping(raid, width, depth, groups));
        }
    }
    all.extend([striping(Raid::Zero, 1, 1, 1), striping(Raid::One(2), 1, 3, 2)]);
    all
}

/// As it is written down, with the names that it has there; a byte's column, and its place in the component.
fn by_the_book(striping: &Striping, offset: u64) -> (u64, u64) {
    let (w, d, g) = (u64::from(striping.width()), u64::from(striping.depth()), u64::from(striping.groups()));
    let p = u64::from(striping.raid() == Raid::Five);
    let u = striping.unit().0;
    let per_stripe = u * (w - p);
    let per_visit = per_stripe * d;
    let per_round = per_visit * g;
    let (m, rest) = (offset / per_round, offset % per_round);
    let (group, h) = (rest / per_visit, rest % per_visit);
    let n = h / per_stripe;
    let c = (h - n * per_stripe) / u;
    let r = if p == 1 { n % w } else { 0 };
    let column = (w + c - r * p) % w;
    (group * w + column, offset % u + n * u + m * d * u)
}

#[test]
fn bytes_lie_where_the_arithmetic_says_that_they_do() {
    for striping in all() {
        let copies = u64::from(striping.raid().copies());
        let round = striping.stripe().0 * u64::from(striping.depth() * striping.groups());
        for byte in (0..3 * round).step_by(1000) {
            let (column, at) = by_the_book(&striping, byte);
            let place = striping.place_of(Bytes(byte));
            assert_eq!((u64::from(place.component), place.at.0), (column * copies, at), "{striping:?}: {byte}");
        }
    }
}

#[test]
fn of_ten_targets_the_first_five_have_the_first_twenty_units_and_the_others_the_next() {
    let striping = striping(Raid::Five, 5, 5, 2);
    let component = |unit: u64| striping.place_of(UNIT * unit).component;
    assert!((0..20).all(|unit| component(unit) < 5));
    assert!((20..40).all(|unit| (5..10).contains(&component(unit))));
    assert!((40..60).all(|unit| component(unit) < 5));
    // Parity goes round, and is on each of the five once in a visit.
    let parity: Vec<u32> = (0..5).map(|n| striping.parity_of(StripeId(n)).expect("it has one").component).collect();
    assert_eq!(parity, [4, 3, 2, 1, 0]);
}

#[test]
fn each_unit_of_a_component_holds_one_unit_of_a_file_or_of_parity_and_says_which() {
    for striping in all() {
        let copies = striping.raid().copies();
        let stripes = u64::from(striping.depth() * striping.groups()) * 3;
        let mut units: BTreeMap<Place, Holds> = BTreeMap::new();
        for stripe in (0..stripes).map(StripeId) {
            let first = striping.bytes_of(stripe).start;
            assert_eq!(striping.stripe_of(Bytes(first)), stripe);
            for unit in 0..striping.data_units() {
                let byte = Bytes(first) + UNIT * u64::from(unit);
                assert_eq!(striping.unit_of(stripe, unit), striping.place_of(byte));
                assert!(units.insert(striping.unit_of(stripe, unit), Holds::Data(byte)).is_none(), "{striping:?}");
            }
            if let Some(parity) = striping.parity_of(stripe) {
                assert!(units.insert(parity, Holds::Parity(stripe, Bytes::ZERO)).is_none(), "{striping:?}");
            }
        }
        for (place, holds) in &units {
            let inside = |byte: Bytes| byte + Bytes(100);
            for copy in 0..copies {
                let place = Place { component: place.component + copy, at: place.at + Bytes(100) };
                let expected = match holds {
                    Holds::Data(byte) => Holds::Data(inside(*byte)),
                    Holds::Parity(stripe, at) => Holds::Parity(*stripe, inside(*at)),
                };
                assert_eq!(striping.held_at(place), expected);
            }
        }
        // No component has a hole.
        for component in (0..striping.components()).step_by(copies as usize) {
            let of_it: Vec<u64> = units.keys().filter(|p| p.component == component).map(|p| p.at / UNIT).collect();
            assert_eq!(of_it, (0..of_it.len() as u64).collect::<Vec<_>>(), "{striping:?}");
        }
    }
}

#[test]
fn components_are_as_long_as_what_they_have_of_the_file_and_say_how_large_it_is() {
    let mut chance = Chance::for_test("lengths of components");
    for striping in all() {
        let round = striping.stripe().0 * u64::from(striping.depth() * striping.groups());
        let sizes =
            (0..40).map(|_| chance.below(3 * round)).chain([0, 1, UNIT.0, striping.stripe().0, round, round + 1]);
        for size in sizes {
            let mut lengths = vec![0; striping.components() as usize];
            for Piece { bytes, place } in striping.pieces(0..size).expect("a range") {
                let end = place.at.0 + bytes.end - bytes.start;
                let parity = striping.parity_of(striping.stripe_of(Bytes(bytes.start)));
                for (component, end) in (0..striping.raid().copies())
                    .map(|copy| (place.component + copy, end))
                    .chain(parity.map(|parity| (parity.component, parity.at.0 + bytes.end - bytes.start)))
                {
                    let length = &mut lengths[component as usize];
                    *length = end.max(*length);
                }
            }
            let of = |component: usize| striping.length_of(component as u32, Bytes(size)).0;
            assert_eq!((0..lengths.len()).map(of).collect::<Vec<_>>(), lengths, "{striping:?} of {size}");
            let sizes = (0..).zip(&lengths).map(|(component, length)| striping.size_from(component, Bytes(*length)).0);
            assert_eq!(sizes.max(), Some(size), "{striping:?}");
        }
    }
}

#[test]
fn the_pieces_of_a_range_are_the_range_each_within_a_unit() {
    let mut chance = Chance::for_test("pieces of ranges");
    for striping in all() {
        for _ in 0..200 {
            let start = chance.below(1 << 20);
            let end = start + chance.below(1 << 18);
            let mut at = start;
            for Piece { bytes, place } in striping.pieces(start..end).expect("a range") {
                assert_eq!((bytes.start, striping.place_of(Bytes(bytes.start))), (at, place));
                assert_eq!(bytes.start / UNIT.0, (bytes.end - 1) / UNIT.0);
                at = bytes.end;
            }
            assert_eq!(at, end);
        }
        assert_eq!(striping.pieces(7..7).expect("an empty one").count(), 0);
    }
}

#[test]
fn the_end_of_the_largest_file_has_a_place_and_nothing_is_behind_it() {
    for striping in all() {
        let last = Bytes(LARGEST.0 - 1);
        let place = striping.place_of(last);
        assert_eq!(striping.held_at(place), Holds::Data(last));
        let lengths: u64 = (0..striping.components()).map(|component| striping.length_of(component, LARGEST).0).sum();
        assert!(lengths >= LARGEST.0);
        for (start, end) in [(0, LARGEST.0 + 1), (5, 4)] {
            assert!(striping.pieces(start..end).is_err());
        }
    }
}
