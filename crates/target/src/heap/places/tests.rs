use super::Places;

#[test]
fn a_place_is_free_again_when_no_commit_that_can_be_read_has_it() {
    let mut places = Places::new(1);
    places.set_units(1);
    assert_eq!((places.take(3), places.free(), places.used()), (vec![1, 2, 3], 12, 4));
    places.replaced(7, vec![2], false);
    places.replaced(8, vec![1, 3], false);
    places.release(6);
    assert_eq!(places.free(), 12);
    places.release(7);
    assert_eq!((places.take(2), places.used()), (vec![2, 4], 5));
    places.release(8);
    assert_eq!(places.take(2), [1, 3]);
    places.set_units(2);
    assert_eq!(places.free(), 32 - 5);
}
