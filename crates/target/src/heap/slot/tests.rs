use super::{Role, Stamp, find, header, open};
use crate::heap::classes::SLOT_HEADER;
use forebay_model::Kind;
use forebay_model::heap::RecordId;

const STAMP: Stamp = Stamp { target: 5, heap: 6 };

fn slot(id: RecordId, bytes: &[u8]) -> Vec<u8> {
    let mut slot = header(STAMP, id, Role::Record, bytes).to_vec();
    slot.extend(bytes);
    slot.resize(64, 0);
    slot
}

#[test]
fn a_record_is_found_by_its_own_id_only_and_damage_is_told_from_another_record() {
    let id = RecordId::new(3, 4, 5, true);
    let whole = slot(id, b"record");
    assert_eq!(open(STAMP, id, Role::Record, &whole).unwrap(), b"record");
    assert_eq!(open(STAMP, RecordId::new(3, 4, 6, true), Role::Record, &whole).unwrap_err().kind, Kind::Missing);
    assert_eq!(open(STAMP, RecordId::new(3, 4, 5, false), Role::Record, &whole).unwrap_err().kind, Kind::Missing);
    for other in [RecordId::new(3, 5, 5, true), RecordId::new(2, 4, 5, true)] {
        assert_eq!(open(STAMP, other, Role::Record, &whole).unwrap_err().kind, Kind::Damaged, "misdirected");
    }
    for stamp in [Stamp { target: 6, ..STAMP }, Stamp { heap: 7, ..STAMP }] {
        assert_eq!(open(stamp, id, Role::Record, &whole).unwrap_err().kind, Kind::Damaged, "of another heap");
    }
    for bit in 0..(SLOT_HEADER + 6) * 8 {
        let mut spoilt = whole.clone();
        spoilt[bit / 8] ^= 1 << (bit % 8);
        let error = open(STAMP, id, Role::Record, &spoilt).unwrap_err();
        assert_eq!(error.kind, Kind::Damaged, "bit {bit}");
    }
    assert_eq!(open(STAMP, id, Role::Record, &[0; 64]).unwrap_err().kind, Kind::Damaged, "a lost write");
}

#[test]
fn what_a_record_is_there_for_is_told_and_is_part_of_its_checksum() {
    let id = RecordId::new(3, 4, 5, false);
    for role in [Role::Record, Role::Part, Role::Commit] {
        let mut slot = header(STAMP, id, role, b"record").to_vec();
        slot.extend(b"record");
        assert_eq!(find(STAMP, 3, 4, &slot), Some((id, role, &b"record"[..])));
        slot[9] ^= 1 << 6;
        assert_eq!(find(STAMP, 3, 4, &slot), None);
    }
}
