//! Rows of objects as they lie on a device: what is read is written as something that says the same.

use super::sealed::{self, PREFIX};
use forebay_model::{ObjectId, TargetId};
use forebay_target::object::rows::{self, Key, Part, Rows};
use forebay_wire::crc32c;

const TARGET: TargetId = TargetId(5);
const FIRST: Key = Key { id: ObjectId { volume: 1, object: 2 }, part: Part::Head };

/// The rows of a leaf that is this one.
pub(super) fn take(bytes: &[u8]) {
    let empty = rows::encode_leaf(TARGET, FIRST, &Rows::new()).expect("it is small");
    let word = |at: usize| u32::from_le_bytes(empty[at..at + 4].try_into().expect("four bytes"));
    let magic = empty[..8].try_into().expect("eight bytes");
    // How many there are is the last byte, where there are none.
    let mut body = empty[PREFIX..PREFIX + word(12) as usize - 1].to_vec();
    body.extend(bytes);
    let leaf = sealed::of(magic, word(8), &body, 4096);
    let Ok(read) = rows::decode_leaf(TARGET, FIRST, crc32c(&leaf), &leaf) else { return };
    let again = rows::encode_leaf(TARGET, FIRST, &read).expect("it was read");
    assert_eq!(rows::decode_leaf(TARGET, FIRST, crc32c(&again), &again).expect("it was written just now"), read);
}
