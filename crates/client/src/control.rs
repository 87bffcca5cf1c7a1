//! What a client asks of the manager, whatever the way there.

use crate::file::components::Asked;
use forebay_model::{Error, Result};
use forebay_wire::control::{Change, Question, Reply};

/// A way to the manager, of one user. Whoever implements it asks again when an answer was lost, under the same number, and
/// gives up with [`forebay_model::Kind::Disconnected`].
pub trait Control {
    /// Has something changed.
    fn change(&self, change: Change) -> Asked<Reply>;

    /// Asks without changing anything.
    fn ask(&self, question: Question) -> Asked<Reply>;

    /// The number under which the manager knows this client.
    fn client(&self) -> u64;
}

/// That it was done, if that is what is answered.
pub(crate) fn done(reply: &Reply) -> Result<()> {
    match reply {
        Reply::Done => Ok(()),
        other => Err(strange(other)),
    }
}

/// A reply of another shape than its question has.
pub(crate) fn strange(reply: &Reply) -> Error {
    Error::damaged(format!(
        "the manager answered what it was not asked ({reply:?}): use the same release on both sides"
    ))
}
