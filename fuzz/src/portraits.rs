//! What somebody who moves a ring to a target says of it: what is taken can be a ring, and is written as something that says the same.

use forebay_target::ring::portrait::Portrait;

/// Segments that a target keeps track of.
const MOST: u64 = 1 << 17;

/// A portrait.
pub(super) fn take(bytes: &[u8]) {
    let Ok(read) = Portrait::decode(bytes, MOST) else { return };
    let filled = read.filled();
    assert!(filled.is_sorted() && filled.iter().all(|slot| *slot < read.slots), "{filled:?} of {}", read.slots);
    assert_eq!(read.length(), read.spec.segment * filled.len() as u64);
    assert_eq!(u64::from(read.of_place()) * read.places.len() as u64, u64::from(read.slots));
    assert_eq!(Portrait::decode(&read.encode().expect("it was read"), MOST).expect("it was written just now"), read);
}
