use super::*;

#[test]
fn a_piece_is_many_large_ios_or_as_many_as_there_is_room_for() {
    assert_eq!(io_size(Bytes::mib(32)), Bytes::mib(1));
    assert_eq!(io_size(Bytes::mib(12)), Bytes::kib(512));
    assert_eq!(io_size(Bytes::mib(2)), Bytes::kib(64));
    assert_eq!(io_size(SMALL * 4), SMALL);
}
