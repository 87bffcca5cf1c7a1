use super::*;

fn part(link: u64, id: u64) -> Part {
    Part { link: LinkId(link), heap: "/h".to_string(), id: RecordId::from_number(id), as_of: None }
}

#[test]
fn several_who_get_large_records_in_parts_each_find_what_is_held_and_no_more_is_than_may_be() {
    let large = Large::default();
    (0..8).for_each(|link| large.hold(part(link, 1), vec![link as u8; LARGEST_RECORD / 4]));
    for link in 0..8 {
        let found = large.take(&part(link, 1)).expect("all of them are held");
        assert!(found.len() == LARGEST_RECORD / 4 && found[0] == link as u8);
        assert_eq!(large.take(&part(link, 1)), None, "it was taken");
        large.hold(part(link, 1), found);
    }
    assert_eq!(large.take(&part(3, 2)), None, "it is another record");
    large.hold(part(8, 1), vec![8; LARGEST_RECORD / 4]);
    let left: Vec<u64> = (0..9).filter(|link| large.take(&part(*link, 1)).is_some()).collect();
    assert_eq!(left, [1, 2, 3, 4, 5, 6, 7, 8], "the one that was asked for longest ago went");
    large.hold(part(1, 1), vec![1; 10]);
    large.let_go(|part| part.link == LinkId(1));
    assert_eq!(large.take(&part(1, 1)), None);
}
