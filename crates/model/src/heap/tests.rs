use super::RecordId;

#[test]
fn an_id_has_its_parts_and_goes_through_text() {
    let most = (RecordId::ALLOCATORS - 1, 7167, RecordId::TAGS - 1, true);
    for (allocator, slot, tag, chain) in [(0, 0, 1, false), most, (300, 5, 77, false), (1, 0, 0, true)] {
        let id = RecordId::new(allocator, slot, tag, chain);
        assert_eq!((id.allocator(), id.slot(), id.tag(), id.is_chain()), (allocator, slot, tag, chain));
        assert_eq!(id.to_string().parse::<RecordId>().unwrap(), id);
        assert_eq!(RecordId::from_number(id.number()), id);
    }
    for text in ["", "12", "00000000000000zz", "+000000000000001", "00000000000000001"] {
        assert!(text.parse::<RecordId>().is_err(), "{text}");
    }
}
