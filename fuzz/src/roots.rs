//! Superblocks and roots of heaps as they lie on a device: what is read is written as something that says the same.

use super::sealed;
use forebay_target::heap::root::{self, Root};
use forebay_target::heap::slot::Stamp;
use forebay_target::layout::ROOT_LEN;
use forebay_target::superblock::{self, Superblock};

const STAMP: Stamp = Stamp { target: 5, heap: 7 };

/// The first byte says which; its body is behind it.
pub(super) fn take(bytes: &[u8]) {
    let Some((first, body)) = bytes.split_first() else { return };
    if first & 1 == 0 {
        let place = ROOT_LEN.0 as usize;
        let Ok(read) = Superblock::decode(&sealed::of(superblock::MAGIC, superblock::VERSION, body, place)) else {
            return;
        };
        let read = read.expect("it has its magic number");
        let mut again = vec![0; place];
        if read.encode(&mut again).is_ok() {
            assert_eq!(Superblock::decode(&again).expect("it was written just now"), Some(read));
        }
    } else if let Ok(read) = Root::decode(STAMP, &sealed::of(root::MAGIC, root::VERSION, body, root::PAGE)) {
        let read = read.expect("it has its magic number");
        assert_eq!(Root::decode(STAMP, &read.encode()).expect("it was written just now").as_ref(), Some(&read));
        let places = read.pages.iter().map(|page| Root::place_at(&read.table, page.place));
        places.for_each(drop);
    }
}
