//! Records in the logs of objects: what is read lies within its log, and is written as something that says the same.

use forebay_target::object::record::{self, Found, HEADER, Stamp};
use forebay_wire::crc32c;

const BLOCK: usize = 4096;
const STAMP: Stamp = Stamp { mark: 9, epoch: 3, number: 8, durable: 5, group: 2, block: 6 };

/// The first byte says how much data follows the changes, which are behind it.
pub(super) fn take(bytes: &[u8]) {
    let Some((first, changes)) = bytes.split_first() else { return };
    let data = usize::from(first % 3);
    let mut log = vec![0; (HEADER + changes.len()).next_multiple_of(BLOCK)];
    log[HEADER..HEADER + changes.len()].copy_from_slice(changes);
    log[64..68].copy_from_slice(&(changes.len() as u32).to_le_bytes());
    log[68..72].copy_from_slice(&crc32c(changes).to_le_bytes());
    record::finish(&mut log, &STAMP, data as u32);
    log.resize(log.len() + data * BLOCK, 7);
    let read = match record::decode(STAMP.mark, STAMP.group, STAMP.block, &log) {
        Found::Record(read) => read,
        Found::Torn(stamp) => return assert_eq!(stamp, STAMP),
        other => panic!("its header is whole: {other:?}"),
    };
    assert!((read.blocks as usize + read.data as usize) * BLOCK <= log.len(), "{read:?} goes beyond its log");
    let mut again = record::encode(&read.changes).expect("it was read");
    record::finish(&mut again, &STAMP, read.data);
    again.resize(again.len() + data * BLOCK, 7);
    match record::decode(STAMP.mark, STAMP.group, STAMP.block, &again) {
        Found::Record(same) => assert_eq!((same.changes, same.whole), (read.changes, read.whole)),
        other => panic!("it was written just now: {other:?}"),
    }
}
