use super::{Bytes, GRAIN, MOST_AT_ONCE, Place, Slice, pieces};

#[test]
fn what_a_component_does_not_take_at_once_is_cut_between_blocks() {
    let most = MOST_AT_ONCE.0;
    let lengths =
        [(0, 0, 0), (5, 10, 1), (100, most, 1), (0, most + 1, 2), (100, most + 1, 2), (4096, 3 * most + 5, 4)];
    for (at, length, count) in lengths {
        let place = Place { component: 3, at: Bytes(at) };
        let (mut end, mut found) = (at, 0);
        for (place, piece) in pieces(place, Slice::from(vec![7; length as usize])) {
            assert_eq!((place.component, place.at.0), (3, end));
            assert!(end == at || end.is_multiple_of(GRAIN.0), "{length} bytes at {at} are cut at {end}");
            assert!(!piece.is_empty() && piece.len() as u64 <= most);
            (end, found) = (end + piece.len() as u64, found + 1);
        }
        assert_eq!((end, found), (at + length, count), "{length} bytes at {at}");
    }
}
