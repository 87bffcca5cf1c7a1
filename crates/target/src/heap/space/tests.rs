use super::Space;
use crate::heap::classes::UNIT;
use crate::layout::Layout;
use forebay_model::Bytes;

#[test]
fn a_heap_runs_over_its_groups_in_their_order() {
    let layout = Layout::for_device(Bytes::mib(64)).unwrap();
    let space = Space::new(layout, vec![5, 3, 4]);
    let span = UNIT * u64::from(space.units_per_group());
    assert_eq!(space.units(), 3 * space.units_per_group());
    assert!(span <= layout.data(true));
    assert_eq!(space.runs(Bytes(4096), Bytes(8192)), [(layout.group_at(5) + Bytes(4096), Bytes(8192))]);
    let over = space.runs(span - Bytes(4096), span + Bytes(8192));
    let expected = [
        (layout.group_at(5) + span - Bytes(4096), Bytes(4096)),
        (layout.group_at(3), span),
        (layout.group_at(4), Bytes(4096)),
    ];
    assert_eq!(over, expected, "behind a data area is a log");
}
