use super::SlotMap;
use crate::heap::allocation::Slot;

#[test]
fn a_table_is_there_as_long_as_something_is_in_it() {
    let mut map = SlotMap::new();
    let [a, b] = [(3, 7), (3, 7167)].map(|(allocator, slot)| Slot { allocator, slot });
    assert_eq!((map.set(a, 0), map.tables(), map.get(a)), (0, 0, 0));
    assert_eq!((map.set(a, 5), map.set(b, 6), map.set(a, 7)), (0, 0, 5));
    assert_eq!((map.get(a), map.get(b), map.tables(), map.has_table(3)), (7, 6, 1, true));
    assert_eq!((map.set(a, 0), map.tables()), (7, 1));
    assert_eq!((map.set(b, 0), map.tables(), map.has_table(3)), (6, 0, false));
    assert_eq!((map.get(a), map.get(b)), (0, 0));
}
