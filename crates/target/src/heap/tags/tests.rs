use super::{MOST, Tags};
use crate::heap::allocation::Slot;

#[test]
fn of_many_allocators_the_tags_of_those_known_longest_are_forgotten() {
    let mut tags = Tags::new();
    let slot = |allocator| Slot { allocator, slot: 9 };
    (0..MOST as u32 + 2).for_each(|allocator| tags.set(slot(allocator), allocator));
    assert_eq!([0, 1, 2, MOST as u32 + 1].map(|n| tags.get(slot(n))), [None, None, Some(2), Some(MOST as u32 + 1)]);
    tags.set(slot(0), 0);
    assert_eq!([0, 2, 3].map(|n| tags.get(slot(n))), [Some(0), None, Some(3)]);
    assert_eq!(tags.known.tables(), MOST);
}
