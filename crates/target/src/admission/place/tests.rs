use super::*;
use crate::admission::tests::{disk, flash};
use forebay_model::Kind;
use forebay_model::profile::Point;

fn layout() -> Layout {
    Layout::for_device(Bytes(1_500_000_000_000)).unwrap()
}

fn all(layout: &Layout) -> Vec<Range<Bytes>> {
    let end = layout.groups_at + layout.group * u64::from(layout.groups);
    vec![layout.groups_at..end]
}

fn wish(rate: Rate, capacity: Bytes) -> Wish {
    Wish {
        capacity,
        rate,
        flush_interval: Duration::from_secs(1),
        segment: Bytes::ZERO,
        index: 0.005,
        pin_percent: 0,
        without_logs: None,
        beside: Bytes::ZERO,
    }
}

#[test]
fn a_guarantee_goes_to_the_slowest_place_that_has_it() {
    let (profile, layout) = (disk(), layout());
    let mut last = Bytes(u64::MAX);
    for mb in [30, 45, 60, 75, 90, 100] {
        let placed = place(&profile, &[], &layout, &all(&layout), &wish(Rate::mb(mb), Bytes::gib(50))).unwrap();
        assert_eq!(placed.places.len(), 1);
        assert!(placed.size() >= Bytes::gib(50) && placed.highest >= Rate::mb(mb));
        let run = &placed.places[0];
        let floor = profile.write_rate_within(run.start, run.end);
        // No more than a point of the profile beyond what logs need.
        assert!(mb < 50 || floor < Rate(mb * 1_200_000), "{mb} MB/s where the device has {floor}");
        assert_eq!(placed.without_logs, mb > 90, "{mb} MB/s where the device has {floor}");
        assert!(placed.without_logs || run.start <= last);
        last = run.start;
    }
}

#[test]
fn without_a_guarantee_a_ring_goes_to_the_slow_end() {
    let (profile, layout) = (disk(), layout());
    let free = all(&layout);
    let placed = place(&profile, &[], &layout, &free, &wish(Rate(0), Bytes::gib(10))).unwrap();
    assert_eq!(placed.places[0].end, free[0].end);
    assert!(!placed.without_logs);
}

#[test]
fn a_ring_that_needs_nearly_all_of_its_place_gets_no_logs() {
    let (profile, layout) = (disk(), layout());
    let end = layout.groups_at + layout.group * 1000;
    let free = [layout.groups_at..end];
    let modest = place(&profile, &[], &layout, &free, &wish(Rate::mb(60), Bytes::gib(50))).unwrap();
    let greedy = place(&profile, &[], &layout, &free, &wish(Rate::mb(100), Bytes::gib(50))).unwrap();
    assert!(!modest.without_logs && greedy.without_logs);
    let kept = Wish { without_logs: Some(false), ..wish(Rate::mb(100), Bytes::gib(50)) };
    assert!(!place(&profile, &[], &layout, &free, &kept).unwrap().without_logs);
}

#[test]
fn several_runs_are_used_if_no_single_one_suffices() {
    let (profile, layout) = (disk(), layout());
    let at = |group: u64| layout.groups_at + layout.group * group;
    let free = [at(0)..at(10), at(20)..at(50), at(70)..at(80)];
    let placed = place(&profile, &[], &layout, &free, &wish(Rate::mb(60), layout.group * 38)).unwrap();
    assert_eq!(placed.size(), layout.group * 38);
    assert_eq!(placed.places.len(), 2);
    let placed = place(&profile, &[], &layout, &free, &wish(Rate::mb(60), layout.group * 50)).unwrap();
    assert_eq!(placed.places, free);
}

#[test]
fn the_smallest_run_that_suffices_is_used_where_all_are_equally_fast() {
    let (profile, layout) = (flash(), layout());
    let at = |group: u64| layout.groups_at + layout.group * group;
    let free = [at(0)..at(100), at(120)..at(150), at(200)..at(300)];
    let placed = place(&profile, &[], &layout, &free, &wish(Rate::mb(60), layout.group * 20)).unwrap();
    assert_eq!(placed.places, [at(130)..at(150)]);
}

#[test]
fn a_refusal_says_what_could_be_had_and_that_is_had() {
    let (profile, layout) = (disk(), layout());
    let free = all(&layout);
    let everything = free[0].end - free[0].start;
    let asked = wish(Rate::mb(70), everything);
    let refused = place(&profile, &[], &layout, &free, &asked).unwrap_err();
    assert_eq!(refused.kind, Kind::Refused);
    let site = Site { profile: &profile, existing: &[], layout: &layout, free: &free, wish: &asked };
    let (best, largest) = (site.best_rate(), site.largest().unwrap().size());
    assert!(refused.message.contains(&best.to_string()) && refused.message.contains(&largest.to_string()), "{refused}");
    place(&profile, &[], &layout, &free, &wish(best, everything)).unwrap();
    place(&profile, &[], &layout, &free, &wish(Rate::mb(70), largest)).unwrap();
    let more = largest + layout.group * (u64::from(layout.groups) / 60);
    place(&profile, &[], &layout, &free, &wish(Rate::mb(70), more)).unwrap_err();
}

#[test]
fn what_does_not_fit_is_refused_with_what_is_free() {
    let (profile, layout) = (disk(), layout());
    let free = [layout.groups_at..layout.groups_at + layout.group * 10];
    let full = place(&profile, &[], &layout, &free, &wish(Rate(0), layout.group * 11)).unwrap_err();
    assert_eq!(full.kind, Kind::Full);
    assert!(full.message.contains(&(layout.group * 10).to_string()), "{full}");
}

#[test]
fn rings_fill_a_disk_without_taking_the_fast_places_first() {
    let (profile, layout) = (disk(), layout());
    let mut free = all(&layout);
    let mut existing: Vec<Demand> = Vec::new();
    for _ in 0..3 {
        let asked = wish(Rate::mb(15), Bytes::gib(100));
        let placed = place(&profile, &existing, &layout, &free, &asked).unwrap();
        let site = Site { profile: &profile, existing: &existing, layout: &layout, free: &free, wish: &asked };
        let demand = site.demand(&placed.places, placed.without_logs);
        existing.push(demand);
        let taken = placed.places[0].clone();
        free = free
            .into_iter()
            .flat_map(|run| {
                let inside = run.start <= taken.start && taken.end <= run.end;
                let parts = if inside { vec![run.start..taken.start, taken.end..run.end] } else { vec![run] };
                parts.into_iter().filter(|run| run.start < run.end)
            })
            .collect();
    }
    assert!(existing[0].places[0].end > existing[2].places[0].end || free.len() <= 2);
    assert!(free[0].start == layout.groups_at, "the fast end is still free: {free:?}");
    let refused = place(&profile, &existing, &layout, &free, &wish(Rate::mb(80), Bytes::gib(10))).unwrap_err();
    assert!(refused.message.contains("promised already"), "{refused}");
}

#[test]
fn a_ring_that_may_be_pinned_goes_where_pins_do_not_break_it() {
    let (profile, layout) = (disk(), layout());
    let small = Wish { segment: Bytes::mib(4), ..wish(Rate::mb(45), Bytes::gib(50)) };
    let pinned = Wish { pin_percent: 20, ..small };
    let end = |wish| place(&profile, &[], &layout, &all(&layout), wish).unwrap().places[0].end;
    assert!(end(&pinned) < end(&small), "further out, where the disk is faster");
}

#[test]
fn a_slow_place_is_used_if_it_is_passed_within_the_slack() {
    let layout = layout();
    let free = [layout.groups_at..layout.groups_at + layout.group * 300];
    let with_dip = |length: Bytes| {
        let mut profile = disk();
        let at = |offset, write| Point { offset, write, ..profile.points[0] };
        let (from, fast) = (Bytes::gib(5), profile.points[0].write);
        let dip = [at(from, fast), at(from + length / 2, Rate::mb(55)), at(from + length, fast)];
        profile.points.splice(1..1, dip);
        place(&profile, &[], &layout, &free, &wish(Rate::mb(60), layout.group * 300))
    };
    assert_eq!(with_dip(Bytes::mib(200)).unwrap().places, free);
    with_dip(Bytes::gib(2)).unwrap_err();
}
