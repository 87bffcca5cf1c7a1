use super::{Content, name_number};
use crate::{ObjectId, TargetId};

#[test]
fn the_number_of_a_name_never_changes() {
    // What is on devices by these numbers is found by them for ever. The first is what the authors of SipHash publish.
    assert_eq!(name_number(""), 0x1e92_4b9d_7377_00d7);
    assert_eq!(name_number("/data/x"), 15_777_389_910_769_255_465);
}

#[test]
fn a_content_comes_back_from_its_bytes_and_from_no_others() {
    let content = Content { target: TargetId(7 << 70 | 9), id: ObjectId { volume: 1, object: u64::MAX - 2 } };
    let mut bytes = content.to_bytes();
    assert_eq!(Content::from_bytes(&bytes), Some(content));
    assert_eq!(Content::from_bytes(&bytes[..31]), None);
    bytes.push(0);
    assert_eq!(Content::from_bytes(&bytes), None);
    assert_eq!(Content::from_bytes(&[]), None);
}
