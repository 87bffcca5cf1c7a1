use super::*;
use crate::ring::Losses;

#[test]
fn counts_of_what_is_missing_end_at_the_most_that_can_be_said_and_never_begin_anew() {
    let gap = |count| Gap { cause: Cause::Kernel, count, first: Timestamp(1), last: Timestamp(2) };
    let mut merged = gap(Some(u64::MAX));
    merged.merge(gap(Some(5)));
    assert_eq!(merged.count, Some(u64::MAX));
    merged.merge(gap(None));
    assert_eq!(merged.count, None);
    let mut losses = Losses::default();
    losses.add(Cause::Kernel, Some(u64::MAX - 1));
    losses.add(Cause::Kernel, Some(7));
    losses.add(Cause::Overflow, Some(7));
    let once = losses;
    losses.merge(&once);
    assert_eq!((losses.elements[Cause::Kernel.index()], losses.total()), (u64::MAX, u64::MAX));
    assert_eq!(losses.gaps[Cause::Kernel.index()], 4);
}
