// Tests of what threads keep need threads.
#![allow(clippy::disallowed_methods)]

use super::*;

fn kept() -> (usize, usize) {
    KEPT.with_borrow(|kept| (kept.latest_last.iter().map(|one| one.length).sum(), kept.latest_last.len()))
}

/// One of which all that was asked for is written.
fn used(length: usize) -> Mapping {
    let mapping = Mapping::zeroed(length).expect("memory");
    // SAFETY: it has so much, and nobody else sees it.
    let bytes = unsafe { std::slice::from_raw_parts_mut(mapping.base(), length) };
    assert!(bytes.iter().all(|byte| *byte == 0), "not zeros");
    bytes.fill(7);
    mapping
}

#[test]
fn what_a_thread_had_last_it_has_again_cleared_also_for_a_little_more_or_less() {
    for (one, next) in [(4096, 4096), (557_056, 557_056), (552_960, 540_672), (540_672, 557_056), (2 << 20, 2 << 20)] {
        let first = used(one);
        let base = first.base();
        drop(first);
        let again = used(next);
        assert_eq!(again.base(), base, "{one} bytes, then {next}");
        // It is one's own.
        assert_ne!(used(next).base(), base);
    }
}

#[test]
fn a_thread_keeps_so_much_and_the_oldest_goes_first() {
    let large: Vec<Mapping> = (0..5).map(|_| used(1 << 20)).collect();
    drop(used(4096));
    assert_eq!(kept(), (4096, 1));
    drop(large);
    assert_eq!(kept(), (4 << 20, 4), "what was kept before has gone");
    drop((0..100).map(|_| used(4096)).collect::<Vec<Mapping>>());
    assert_eq!(kept(), (64 << 12, 64));
    drop(used((2 << 20) + 4096));
    drop(Mapping::new(4096).expect("memory"));
    assert_eq!(kept(), (64 << 12, 64), "what is long, and what slabs have, is not kept");
}

#[test]
fn a_mapping_goes_to_another_thread_and_a_thread_that_ends_keeps_nothing() {
    let mine = used(4096);
    let others = std::thread::scope(|threads| {
        let other = threads.spawn(|| {
            drop(mine);
            assert_eq!(kept(), (4096, 1));
            used(8192)
        });
        other.join().expect("it ends well")
    });
    assert_eq!(kept(), (0, 0));
    drop(others);
    assert_eq!(kept(), (8192, 1));
}
