use super::super::tests::{copied, full, layouts, not_whole, recovered, seen};
use super::*;
use crate::records::{decode, object};
use crate::testing::{Stage, root};
use crate::{engine::Engine, keys};
use forebay_model::Timestamp;
use forebay_model::ring::RingSpec;
use forebay_wire::control::names::Place as At;

const FILE: FileId = FileId(7);
const PARITY: Spread = Spread { targets: 2, parity: true };

/// A part with elements of these numbers and times.
fn part(spread: Spread, component: u32, elements: std::ops::Range<u64>, begins: u64, newest: i64) -> RingPart {
    let spec = spread.part(
        &RingSpec { block: forebay_model::Bytes::kib(64), ..RingSpec::new("/r", forebay_model::Bytes::mib(64)) },
        component,
    );
    let times = (!elements.is_empty()).then_some((Timestamp(1), Timestamp(newest)));
    RingPart { spec, elements, begins, oldest: times.map(|it| it.0), newest: times.map(|it| it.1), last_pin: 0 }
}

/// Parts of which each has something, on targets with these numbers.
fn whole(spread: Spread) -> Vec<(u128, u32, RingPart)> {
    (0..spread.components())
        .map(|component| (u128::from(component) + 1, component, part(spread, component, 5..9, 0, 9)))
        .collect()
}

fn places(parts: &[(u128, u32, RingPart)]) -> Vec<Place<'_>> {
    parts.iter().map(|(target, component, part)| Place::of((TargetId(*target), *component, part), &[])).collect()
}

/// Where parts lie, what one lacks, and what they have beside.
fn laid(parts: &[(u128, u32, RingPart)]) -> (Vec<u128>, Option<(u32, Absence)>, Vec<RingMove>) {
    let places = places(parts);
    let (layout, RingMoves(moves)) = lie(&places, spread_of(&places).unwrap(), 3).unwrap();
    assert!(layout.absent.iter().all(|absent| absent.since == 3) && layout.absent.len() < 2);
    let lacks = layout.absent.first().map(|absent| (absent.component, absent.absence));
    (layout.targets.iter().map(|target| target.0).collect(), lacks, moves)
}

#[test]
fn over_how_many_targets_a_ring_lies_is_said_by_each_of_its_parts() {
    for spread in [PARITY, Spread { targets: 2, parity: false }, Spread { targets: 1, parity: false }] {
        for at in 0..spread.components() as usize {
            assert_eq!(spread_of(&places(&whole(spread)[at..=at])), Some(spread), "by {at} alone");
        }
    }
    // What cannot be a part of what it says says nothing.
    let far = vec![(1, 3, part(PARITY, 0, 0..1, 0, 1))];
    assert_eq!(spread_of(&places(&far)), None);
    let mut none = whole(Spread { targets: 1, parity: false });
    none[0].2.spec.spread.targets = 4000;
    assert_eq!(spread_of(&places(&none)), None, "no ring has so many");
}

#[test]
fn a_part_that_is_nowhere_is_made_of_the_others_and_one_that_was_begun_later_is_looked_at_beside_them() {
    assert_eq!(laid(&whole(PARITY)), (vec![1, 2, 3], None, vec![]));
    let mut lost = whole(PARITY);
    lost.remove(1);
    assert_eq!(laid(&lost), (vec![1, 0, 3], Some((1, Absence::Missed)), vec![]));
    let mut young = whole(PARITY);
    young[1].2 = RingPart { oldest: Some(Timestamp(5)), ..part(PARITY, 1, 0..9, 0, 9) };
    assert_eq!(laid(&young), (vec![1, 2, 3], Some((1, Absence::Filling(0))), vec![]));
    // It goes on with what lies elsewhere.
    let mut left = young.clone();
    left[1].2 = RingPart { oldest: Some(Timestamp(5)), ..part(PARITY, 1, 9..12, 9, 9) };
    left.push((7, 1, part(PARITY, 1, 0..9, 0, 4)));
    let beside = RingMove { component: 1, target: TargetId(7), moved: true };
    assert_eq!(laid(&left), (vec![1, 2, 3], None, vec![beside]));
    // It has come round, so it has all that the others have.
    young[1].2.elements = 1..9;
    assert_eq!(laid(&young).1, None);
    let mut alone = whole(Spread { targets: 3, parity: false });
    alone[1].2 = young[1].2.clone();
    assert_eq!(laid(&alone), (vec![1, 2, 3], None, vec![]));
}

#[test]
fn a_part_that_ended_before_the_others_went_on_where_nothing_is_left_of_it_if_the_ring_may_have_left_a_target() {
    let second = 1_000_000_000;
    let of = |ended: i64, version: u64| {
        let mut parts = whole(PARITY);
        for (target, _, part) in &mut parts {
            part.newest = Some(Timestamp(if *target == 2 { ended } else { 100 * second }));
        }
        let places = places(&parts);
        let (layout, RingMoves(moves)) = lie(&places, PARITY, version).unwrap();
        (layout.targets.iter().map(|it| it.0).collect::<Vec<_>>(), layout.absence(1), moves)
    };
    let left = vec![RingMove { component: 1, target: TargetId(2), moved: true }];
    assert_eq!(of(96 * second, 3), (vec![1, 0, 3], Some(Absence::Missed), left));
    // Each has a block in turn, once in a flush interval.
    assert_eq!(of(97 * second, 3), (vec![1, 2, 3], None, vec![]));
    // It has been where it was made since the beginning.
    assert_eq!(of(96 * second, 2), (vec![1, 2, 3], None, vec![]));
}

#[test]
fn of_two_places_of_a_part_the_later_one_counts_and_the_other_is_what_it_left() {
    let alone = Spread { targets: 1, parity: false };
    let of = |places: Vec<(u128, RingPart)>| {
        let mut parts: Vec<_> = places.into_iter().map(|(target, part)| (target, 0, part)).collect();
        let told = laid(&parts);
        parts.reverse();
        assert_eq!(laid(&parts), told, "in whatever order they are found");
        (told.0[0], told.2.first().map(|it| (it.target.0, it.moved)))
    };
    let before = || part(alone, 0, 5..90, 0, 8);
    // It went on, has not gone on yet, was not told with what, was copied, and was copied and went on there.
    assert_eq!(of(vec![(1, before()), (2, part(alone, 0, 90..99, 90, 9))]), (2, Some((1, true))));
    assert_eq!(of(vec![(1, before()), (2, part(alone, 0, 90..90, 90, 0))]), (2, Some((1, true))));
    assert_eq!(of(vec![(1, before()), (2, part(alone, 0, 0..0, 0, 0))]), (1, Some((2, false))));
    assert_eq!(of(vec![(1, before()), (2, part(alone, 0, 5..99, 0, 9))]), (2, None));
    // Of two copies, that one counts for which newer capabilities were shown.
    let copy = part(alone, 0, 5..90, 0, 8);
    let with = |target, fence| Place { fence, ..Place::of((TargetId(target), 0, &copy), &[]) };
    // Or in which something was pinned since.
    let held = RingPart { last_pin: 1, ..copy.clone() };
    let with_pin = Place { fence: 1, ..Place::of((TargetId(2), 0, &held), &[]) };
    for [old, new] in [[with(1, 1), with(2, 2)], [with(1, 1), with_pin]] {
        for places in [[old, new], [new, old]] {
            assert_eq!(Lies::of(places.into_iter()).unwrap().now.target, TargetId(2));
        }
    }
    // What was lost and began anew elsewhere left nothing.
    let mut again = whole(PARITY);
    again.push((9, 1, part(PARITY, 1, 0..4, 3, 20)));
    assert_eq!(laid(&again), (vec![1, 9, 3], Some((1, Absence::Filling(0))), vec![]));
}

/// A ring whose copy is older than its parts, and what comes of it.
fn of_an_older_copy(
    is_whole: bool,
    change: impl Fn(FileId, &[TargetId], &mut Seen),
) -> (Vec<TargetId>, Vec<TargetId>, Option<RingMoves>) {
    let mut stage: Stage = full();
    let file = stage.stat(&root(), At::path("d/r")).unwrap().file;
    let shelf = copied(&mut stage);
    let mut seen = seen(&mut stage, Some(&shelf));
    if !is_whole {
        seen.chain = not_whole(&mut stage, &shelf);
    }
    let before = layouts(&stage.engine)[&file].targets.clone();
    seen.targets.extend((1..20).map(TargetId));
    change(file, &before, &mut seen);
    let (_, next) = recovered(&stage, seen);
    let key = keys::ring_moves(file);
    let moves = next.engine.snapshot().unwrap().get(&key).unwrap();
    (before, layouts(&next.engine)[&file].targets.clone(), moves.map(|value| decode(&key, &value).unwrap()))
}

#[test]
fn a_ring_lies_where_its_parts_are_newest_if_the_copy_may_be_older() {
    let volume = 1;
    let other = TargetId(19);
    let went_on = |file: FileId, lie: &[TargetId], seen: &mut Seen| {
        let old = &seen.rings[&(lie[0], object(volume, file, 0))];
        let next = old.elements.end;
        let part = RingPart {
            elements: next..next + 1,
            begins: next,
            oldest: Some(Timestamp(3)),
            newest: Some(Timestamp(3)),
            ..old.clone()
        };
        seen.rings.insert((other, object(volume, file, 0)), part);
    };
    let (before, now, moves) = of_an_older_copy(false, went_on);
    assert_eq!((now[0], &now[1..]), (other, &before[1..]));
    assert_eq!(moves, Some(RingMoves(vec![RingMove { component: 0, target: before[0], moved: true }])));
    // The copy has all that there was.
    let (before, now, moves) = of_an_older_copy(true, went_on);
    assert_eq!((now, moves), (before, None));
    // What lies where it lay before may be newer, and was not looked at.
    let (before, now, _) = of_an_older_copy(false, |file, lie, seen| {
        went_on(file, lie, seen);
        seen.rings.remove(&(lie[0], object(volume, file, 0)));
        seen.targets.remove(&lie[0]);
    });
    assert_eq!(now, before);
    // It was looked at, and it is not there.
    let (before, now, _) = of_an_older_copy(false, |file, lie, seen| {
        went_on(file, lie, seen);
        seen.rings.remove(&(lie[0], object(volume, file, 0)));
    });
    assert_eq!((now[0], &now[1..]), (other, &before[1..]));
}

#[test]
fn what_was_removed_is_not_made_anew_of_what_is_left_of_it() {
    let seen = Seen {
        rings: whole(PARITY)
            .into_iter()
            .map(|(target, component, part)| ((TargetId(target), object(1, FILE, component)), part))
            .collect(),
        ..Seen::default()
    };
    let mut state = BTreeMap::new();
    let mut tree = Tree::load(&mut state, Timestamp(0)).unwrap();
    assert_eq!(make_unknown(&mut tree, &seen, &OfFiles::new(), |file| file == FILE).unwrap(), []);
    assert!(tree.inodes.is_empty());
    make_unknown(&mut tree, &seen, &OfFiles::new(), |_| false).unwrap();
    assert_eq!(tree.layouts[&FILE].targets, [1, 2, 3].map(TargetId));
}
