//! Errors as gRPC statuses, and back: the one place that knows how.
//!
//! An [`Error`] travels whole, in the metadata [`ERROR`] of a status; the status' own code says about the same to tools
//! that do not know us. Two codes say more than the error does: [`Code::Unauthenticated`] is said only by the adapter, and
//! means that there is no session; [`Code::Unavailable`] means that it is worth while to ask the same again under the
//! same number. A status without an error was made on the way, by a proxy or by gRPC itself.

use crate::convert::Message as _;
use crate::{MOST_MESSAGE, proto};
use forebay_model::{Error, Kind};
use prost::Message as _;
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};

/// The metadata that holds an error.
pub const ERROR: &str = "forebay-error-bin";
/// The longest sentence that is sent: metadata have to fit the bounds of whoever reads them.
const LONGEST: usize = 2048;
/// The same, of what is sent beside it for tools, in which each byte may take three.
const LONGEST_FOR_TOOLS: usize = 256;

/// What came of asking once.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// It was answered with this error.
    Answered(Error),
    /// There is no session: nothing was tried.
    NoSession(Error),
    /// The same may be asked again; what became of it is not known, or it was not tried.
    Again(Error),
    /// Likewise, and the connection is not to be trusted any more.
    Broken(String),
}

/// A status that says this error.
pub(crate) fn to_status(error: Error) -> Status {
    with_code(code(error.kind), error)
}

/// That there is no session: whoever asked has to authenticate (again).
pub(crate) fn no_session(message: &str) -> Status {
    with_code(Code::Unauthenticated, Error::stale(message))
}

/// That there is too much under way just now: nothing was tried.
pub(crate) fn no_room(message: String) -> Status {
    with_code(Code::Unavailable, Error::busy(message))
}

/// What a status says.
pub(crate) fn from_status(status: &Status) -> Failure {
    let Some(error) = told(status) else { return untold(status) };
    match status.code() {
        Code::Unauthenticated => Failure::NoSession(error),
        Code::Unavailable => Failure::Again(error),
        _ => Failure::Answered(error),
    }
}

fn with_code(code: Code, mut error: Error) -> Status {
    let message = shortened(&error.message, LONGEST_FOR_TOOLS).to_string();
    let length = shortened(&error.message, LONGEST).len();
    error.message.truncate(length);
    let mut metadata = MetadataMap::new();
    metadata.insert_bin(ERROR, MetadataValue::from_bytes(&error.to_proto().encode_to_vec()));
    Status::with_metadata(code, message, metadata)
}

/// The error in a status, if there is one that can be read.
fn told(status: &Status) -> Option<Error> {
    let bytes = status.metadata().get_bin(ERROR)?.to_bytes().ok()?;
    let message = proto::Error::decode(bytes).ok()?;
    let sentence = message.message.clone();
    // A kind that is not known is told as one, with what it says for people.
    Some(Error::from_proto(message).unwrap_or_else(|e| Error::new(e.kind, format!("{sentence} ({e})"))))
}

/// What a status says that was made on the way.
fn untold(status: &Status) -> Failure {
    let says = status.message();
    match status.code() {
        Code::OutOfRange | Code::ResourceExhausted => Failure::Answered(Error::usage(format!(
            "the message is too large; it has {MOST_MESSAGE} at most: ask for less ({says})"
        ))),
        Code::Unimplemented => Failure::Answered(Error::version(format!(
            "what answers is no manager, or one of another version; check the address ({says})"
        ))),
        Code::PermissionDenied | Code::Unauthenticated => Failure::Answered(Error::forbidden(format!(
            "something before the manager let the request not through; check the address ({says})"
        ))),
        Code::InvalidArgument => Failure::Answered(Error::usage(format!("the request could not be read: {says}"))),
        code => Failure::Broken(format!("{code:?}: {says}")),
    }
}

/// About the same, for whoever knows gRPC and not us.
const fn code(kind: Kind) -> Code {
    match kind {
        Kind::Usage => Code::InvalidArgument,
        Kind::Refused | Kind::Stale => Code::FailedPrecondition,
        Kind::Missing => Code::NotFound,
        Kind::Exists => Code::AlreadyExists,
        Kind::Expired => Code::OutOfRange,
        Kind::Busy | Kind::Full => Code::ResourceExhausted,
        Kind::Damaged => Code::DataLoss,
        Kind::Version => Code::Unimplemented,
        Kind::Device => Code::Internal,
        Kind::Disconnected => Code::Unavailable,
        Kind::Restarted => Code::Aborted,
        Kind::Forbidden => Code::PermissionDenied,
    }
}

/// As much of the text as `most` bytes hold.
fn shortened(text: &str, most: usize) -> &str {
    &text[..text.floor_char_boundary(most)]
}

#[cfg(test)]
mod tests;
