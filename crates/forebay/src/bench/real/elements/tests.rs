#![allow(clippy::unwrap_used)]

use super::{Elements, SIZES};

#[test]
fn mixed_elements_have_all_sizes_each_with_its_share_of_the_bytes() {
    let elements = Elements::parse("mixed").unwrap();
    let Elements::Mixed { order, .. } = &elements else { panic!("other elements") };
    let mut bytes = [0u64; SIZES.len()];
    (0..order.len()).for_each(|n| bytes[usize::from(order[n])] += elements.number(n).len() as u64);
    let share = bytes[4] / SIZES[4].1;
    assert_eq!(bytes[4], elements.largest().0);
    for (bytes, (size, parts)) in bytes.iter().zip(SIZES) {
        assert!(bytes.abs_diff(share * parts) <= size + parts, "{size} B had {bytes} of {}", share * parts);
    }
    // And again from the beginning.
    assert_eq!(elements.number(order.len()).len(), elements.number(0).len());
}
