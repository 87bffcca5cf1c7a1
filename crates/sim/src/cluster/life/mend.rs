//! What is done with a file in doubt before anybody uses it again: what was given out for it is revoked, so that nobody who is
//! gone writes any more; then what was begun is ended, and what was not acknowledged is cut off.

use super::hand::options;
use crate::cluster::ClientMachine;
use forebay_client::control::Control;
use forebay_client::file::options::Sharing;
use forebay_client::files::Files;
use forebay_client::files::left::Mended;
use forebay_model::{Bytes, Error, Result};
use forebay_wire::control::Change;
use forebay_wire::control::files::Revoke;
use forebay_wire::control::names::FileId;

/// Recovers a file that nobody has open.
pub(in crate::cluster) async fn recovered(machine: &ClientMachine, file: FileId) -> Result<()> {
    machine.control.change(Change::Revoke(Revoke { file })).await?;
    alone(machine.files.mend(file).await)
}

/// The same, with all others that were left; how many those are.
pub(in crate::cluster) async fn all_recovered(machine: &ClientMachine, file: FileId) -> Result<u64> {
    machine.control.change(Change::Revoke(Revoke { file })).await?;
    let (mut count, mut found) = (0, None);
    let mending = machine.files.mend_left(|one, mended| {
        count += u64::from(mended.is_ok());
        if one == file {
            found = Some(mended);
        }
    });
    mending.await?;
    match found {
        Some(found) => found.map(|_| count),
        // Nobody had it open, and it was mended with others before.
        None => alone(machine.files.mend(file).await).map(|()| count),
    }
}

fn alone(mended: Result<Option<Mended>>) -> Result<()> {
    mended?.map(drop).ok_or_else(|| Error::busy("somebody has it open to write"))
}

/// All of a file, as somebody reads it who knows nothing of it.
pub(in crate::cluster) async fn read(files: &Files, path: &str) -> Result<Vec<u8>> {
    let file = files.open(path, options(Sharing::Alone)).await?;
    let bytes = file.read_at(Bytes::ZERO, Bytes::mib(16)).await?;
    file.close().await?;
    Ok(bytes)
}
