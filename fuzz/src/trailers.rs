//! Trailers of segments as they lie on a device: what is read is written as something that says the same.

use super::sealed;
use forebay_target::segment::{TRAILER_LEN, Trailer};

/// The body of a trailer.
pub(super) fn take(bytes: &[u8]) {
    let trailer = sealed::of(*b"FBRTRAIL", 1, bytes, TRAILER_LEN as usize);
    let Ok(read) = Trailer::decode(&trailer) else { return };
    let mut again = vec![0; TRAILER_LEN as usize];
    read.encode(&mut again).expect("it had room");
    assert_eq!(Trailer::decode(&again).expect("it was written just now"), read);
    if let Some(description) = read.description.filter(|it| it.is_sound()) {
        description.spec.key_set().expect("a ring can be so");
        assert!(description.epoch_there(u64::MAX) >= description.since);
    }
}
