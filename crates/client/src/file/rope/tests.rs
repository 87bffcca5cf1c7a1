use super::{BLOCK, Rope, Slice};

fn rope(parts: &[&[u8]]) -> Rope {
    let mut rope = Rope::default();
    parts.iter().for_each(|part| rope.push(Slice::copy_from_slice(part)));
    rope
}

#[test]
fn what_is_taken_from_the_front_and_what_stays_are_all_of_it() {
    for length in 0..10 {
        let mut rest = rope(&[b"ab", b"", b"cde", b"f"]);
        let head = rest.take(length);
        assert_eq!((head.length(), rest.length()), (length.min(6), 6 - length.min(6)));
        assert_eq!([head.into_vec(), rest.into_vec()].concat(), b"abcdef");
    }
}

#[test]
fn the_slices_of_a_range_are_its_bytes() {
    let whole = rope(&[b"ab", b"cde", b"f"]);
    for from in 0..=6 {
        for to in from..=6 {
            assert_eq!(whole.slices(from..to).concat(), &b"abcdef"[from as usize..to as usize]);
        }
    }
}

#[test]
fn parity_is_the_same_however_units_are_cut() {
    let length = 3 * BLOCK + 100;
    let unit = |nth: usize| -> Vec<u8> { (0..length - nth).map(|at| (at * (nth + 3)) as u8).collect() };
    let units: Vec<Vec<u8>> = (0..4).map(unit).collect();
    let mut expected = vec![0; length];
    forebay_model::layout::parity::of(units.iter().map(Vec::as_slice), &mut expected);
    let whole: Vec<Rope> = units.iter().map(|unit| rope(&[unit])).collect();
    let cut: Vec<Rope> = units.iter().map(|unit| rope(&[&unit[..777], &unit[777..]])).collect();
    assert_eq!(Rope::parity(&whole), expected);
    assert_eq!(Rope::parity(&cut), expected);
    assert!(Rope::parity(&[]).is_empty());
}
