use super::*;

#[test]
fn a_stretch_of_an_image_is_cut_where_segments_end_and_nowhere_else() {
    let cut = |offset, length| pieces(Bytes(100), Bytes(offset), Bytes(length)).collect::<Vec<_>>();
    assert_eq!(cut(0, 100), [(0, Bytes(0), Bytes(100))]);
    assert_eq!(cut(250, 30), [(2, Bytes(50), Bytes(30))]);
    assert_eq!(
        cut(190, 220),
        [(1, Bytes(90), Bytes(10)), (2, Bytes(0), Bytes(100)), (3, Bytes(0), Bytes(100)), (4, Bytes(0), Bytes(10))]
    );
    assert_eq!(cut(70, 0), []);
}
