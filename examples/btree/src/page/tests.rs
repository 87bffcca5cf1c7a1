use super::Page;
use forebay_model::Kind;

fn leaf() -> Page<u64> {
    Page::Leaf(vec![(b"a"[..].into(), b""[..].into()), (b"bc"[..].into(), b"value"[..].into())])
}

fn inner() -> Page<u64> {
    Page::Inner { keys: vec![b"m"[..].into(), b""[..].into()], children: vec![1, u64::MAX, 3] }
}

#[test]
fn a_page_comes_back_from_its_bytes_and_has_the_size_that_it_says() {
    for page in [leaf(), inner(), Page::Leaf(Vec::new())] {
        let bytes = page.encode(|child| *child);
        assert_eq!(bytes.len(), page.size());
        assert_eq!(Page::decode(7, &bytes).unwrap(), page);
    }
}

#[test]
fn what_is_cut_off_too_long_or_of_another_kind_is_no_page() {
    for page in [leaf(), inner()] {
        let bytes = page.encode(|child| *child);
        let longer = [&bytes[..], &[0]].concat();
        let other = [&[3], &bytes[1..]].concat();
        let cut = (0..bytes.len()).map(|end| bytes[..end].to_vec());
        for wrong in cut.chain([longer, other]) {
            assert_eq!(Page::decode(7, &wrong).unwrap_err().kind, Kind::Damaged, "{wrong:?}");
        }
    }
}
