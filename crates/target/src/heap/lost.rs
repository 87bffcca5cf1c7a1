//! Reading a device that may have lost some of what is on it.
//!
//! A read that fails, while the device goes on otherwise, says that what lay there is lost: it is tried again first. A device
//! that has failed for good is told as that.

use crate::schedule::{Scheduler, StreamId};
use forebay_env::Buffer;
use forebay_model::{Bytes, Error, Kind, Result};

/// How often a read is tried before what lies there is taken for lost.
const ATTEMPTS: usize = 3;

/// What it means that a read has failed: [`Kind::Damaged`], unless the device has failed altogether.
pub fn meaning(disk: &Scheduler, error: Error) -> Error {
    match disk.failure() {
        Some(failure) => failure,
        None if error.kind == Kind::Device => Error { kind: Kind::Damaged, ..error },
        None => error,
    }
}

/// Reads; [`Kind::Damaged`] if that fails each time.
pub async fn read(disk: &Scheduler, stream: StreamId, place: Bytes, buffer: Buffer) -> (Buffer, Result<()>) {
    let (mut buffer, mut result) = disk.read(stream, place, buffer).await;
    for _ in 1..ATTEMPTS {
        if !matches!(&result, Err(error) if error.kind == Kind::Device && disk.failure().is_none()) {
            break;
        }
        (buffer, result) = disk.read(stream, place, buffer).await;
    }
    (buffer, result.map_err(|error| meaning(disk, error)))
}
