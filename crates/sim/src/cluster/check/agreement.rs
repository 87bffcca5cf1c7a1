//! Parity and copies agree with the bytes of a file that nobody writes.

use crate::cluster::life::hand::options;
use forebay_client::file::options::Sharing;
use forebay_client::files::Files;
use forebay_model::layout::Raid;

/// Panics if something of the file at `path` had to be repaired, or is lost.
pub(in crate::cluster) async fn check(files: &Files, path: &str) {
    let file = files.open_to_write(path, options(Sharing::Alone)).await.expect("nothing fails any more");
    if file.striping().raid() != Raid::Zero {
        let mut from = 0;
        loop {
            let (found, more) = file.engine().scrub(from, 16).await.expect("nothing fails any more");
            assert!(
                found.repaired.0 == 0 && found.lost.is_empty(),
                "{path} ({}, units of {}): {found:?} in the 16 units from {from} on",
                file.striping().raid(),
                file.striping().unit()
            );
            from += 16;
            if !more {
                break;
            }
        }
    }
    file.close().await.expect("nothing fails any more");
}
