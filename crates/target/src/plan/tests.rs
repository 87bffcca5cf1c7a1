use super::*;
use crate::admission::tests::disk;
use std::ops::Range;

fn ask(question: &PlanRequest) -> Plan {
    let (profile, layout) = (disk(), Layout::for_device(Bytes(1_500_000_000_000)).unwrap());
    let free: [Range<Bytes>; 1] = [layout.groups_at..layout.groups_at + layout.group * u64::from(layout.groups)];
    plan(Ground { profile: &profile, layout: &layout, free: &free, existing: &[] }, question)
}

#[test]
fn a_disk_can_promise_sixty_for_hours_in_all_but_its_slow_end() {
    let plan = ask(&PlanRequest::new(Rate::mb(60)));
    assert!(plan.can, "{plan}");
    assert!(plan.capacity > Bytes::gib(1100) && plan.capacity < Bytes::gib(1397), "{plan}");
    assert!(plan.history > Duration::from_secs(5 * 3600) && plan.history < Duration::from_secs(7 * 3600), "{plan}");
    assert!(plan.note.contains("too slow"), "{plan}");
    assert_eq!(plan.largest, plan.capacity);
}

#[test]
fn history_shrinks_with_pins_and_with_rate() {
    let base = PlanRequest { capacity: Some(Bytes::gib(100)), ..PlanRequest::new(Rate::mb(40)) };
    let plain = ask(&base);
    let pinned = ask(&PlanRequest { pin_percent: 50, ..base });
    let faster = ask(&PlanRequest { rate: Rate::mb(80), ..base });
    assert!(plain.can && pinned.can && faster.can);
    assert!(pinned.history < plain.history && faster.history < plain.history);
    assert!(pinned.highest <= plain.highest);
}

#[test]
fn what_is_left_to_promise_is_what_a_small_ring_could_have_and_nothing_where_there_is_no_space() {
    let (profile, layout) = (disk(), Layout::for_device(Bytes(1_500_000_000_000)).unwrap());
    let free: [Range<Bytes>; 1] = [layout.groups_at..layout.groups_at + layout.group * u64::from(layout.groups)];
    let ground = Ground { profile: &profile, layout: &layout, free: &free, existing: &[] };
    let small = PlanRequest { capacity: Some(layout.group * 4), ..PlanRequest::new(Rate(1)) };
    assert_eq!(headroom(ground), plan(ground, &small).highest);
    assert!(headroom(ground) > Rate::mb(60), "{}", headroom(ground));
    assert_eq!(headroom(Ground { free: &[], ..ground }), Rate(0));
}

#[test]
fn what_cannot_be_promised_comes_with_what_can() {
    let question = PlanRequest { capacity: Some(Bytes::gib(1300)), ..PlanRequest::new(Rate::mb(80)) };
    let plan = ask(&question);
    assert!(!plan.can && plan.places.is_empty());
    assert!(plan.highest > Rate::mb(50) && plan.highest < Rate::mb(80), "{plan}");
    assert!(ask(&PlanRequest { rate: plan.highest, ..question }).can);
    assert!(ask(&PlanRequest { capacity: Some(plan.largest), ..question }).can);
    let impossible = ask(&PlanRequest::new(Rate::mb(400)));
    assert!(!impossible.can && !impossible.note.is_empty());
}

#[test]
fn people_read_the_answer() {
    let plan = ask(&PlanRequest { capacity: Some(Bytes::gib(100)), ..PlanRequest::new(Rate(72_500_000)) });
    let text = plan.to_string();
    assert!(text.starts_with("yes: 72.5 MB/s can be promised\n"), "{text}");
    for word in ["history", "22 min", "where", "memory", "highest"] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let no = ask(&PlanRequest::new(Rate::mb(400))).to_string();
    assert!(no.starts_with("no: 400.0 MB/s"), "{no}");
}
