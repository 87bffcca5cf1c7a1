//! Bodies of frames: one value in postcard, with nothing before it or behind it.

use forebay_model::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The bytes of a body.
pub fn write<T: Serialize + ?Sized>(value: &T) -> Result<Vec<u8>> {
    postcard::to_allocvec(value).map_err(|e| Error::usage(format!("a body cannot be written: {e}")))
}

/// What a body says. [`forebay_model::Kind::Damaged`] if it does not read as a `T`, or bytes are left over.
pub fn read<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok((_, rest)) => Err(malformed(&format!("{} of {} bytes are left over", rest.len(), bytes.len()))),
        Err(reason) => Err(malformed(&reason.to_string())),
    }
}

/// What the beginning of a body says, whatever a later version has put behind it.
pub(crate) fn read_beginning<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    postcard::take_from_bytes(bytes).map(|(value, _)| value).map_err(|e| malformed(&e.to_string()))
}

fn malformed(reason: &str) -> Error {
    Error::damaged(format!("the body of a frame does not read as its command says ({reason}): its sender is broken"))
}
