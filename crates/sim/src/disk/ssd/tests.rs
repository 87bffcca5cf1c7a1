use super::*;
use crate::disk::{Mechanism, presets};

fn ssd(cache: Option<u64>) -> Ssd {
    let Mechanism::Ssd(spec) = presets::ssd().mechanism else { unreachable!() };
    Ssd::new(&spec, cache)
}

fn done(ssd: &mut Ssd, now: u64, op: Op, length: u64) -> u64 {
    let mut actions = Vec::new();
    ssd.submit(Now { nanos: now, slowness: 1.0 }, Request { id: 0, op, offset: 0, length }, &mut actions);
    match actions[..] {
        [Action::Done(0, at)] => at,
        _ => panic!("{actions:?}"),
    }
}

#[test]
fn a_cached_write_is_quick_until_the_cache_is_full_and_a_flush_waits_for_all() {
    let mut with = ssd(Some(8 << 20));
    let quick = done(&mut with, 0, Op::Write, 1 << 20);
    let mut without = ssd(None);
    assert!(quick < done(&mut without, 0, Op::Write, 1 << 20));
    let flushed = done(&mut with, quick, Op::Flush, 0);
    assert!(flushed > quick);
    let idle = flushed + 1_000_000_000;
    assert!(done(&mut with, idle, Op::Flush, 0) - idle < 100_000);
    let long = done(&mut with, idle, Op::Write, 64 << 20) - idle;
    assert!((140_000_000..180_000_000).contains(&long), "{long} ns for 64 MiB into 8 MiB of cache");
}

#[test]
fn channels_work_side_by_side() {
    let mut ssd = ssd(None);
    let one = done(&mut ssd, 0, Op::Read, 16 << 10);
    let later = 1_000_000_000;
    let eight = done(&mut ssd, later, Op::Read, 128 << 10) - later;
    assert!(eight < one * 3 / 2, "{eight} ns for eight stripes, {one} ns for one");
}
