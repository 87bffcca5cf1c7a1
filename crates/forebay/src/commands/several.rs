//! What is done to several, one after the other, and is not undone where it fails: the error says how far it had come.

use crate::show::human;
use forebay_model::{Error, Result};

/// Does something to each target in turn, up to the first where it fails.
pub(super) fn each_target<T, U>(targets: Vec<T>, mut act: impl FnMut(T) -> Result<U>) -> Result<Vec<U>> {
    let (of, mut done) = (targets.len(), Vec::new());
    for target in targets {
        match act(target) {
            Ok(one) => done.push(one),
            Err(error) => {
                let before = format!("it was done on {} of {of} targets before", done.len());
                return Err(if done.is_empty() { error } else { with(error, &before) });
            }
        }
    }
    Ok(done)
}

/// The error that ended the removal of things of which so many were removed before.
pub(super) fn removed_before(error: Error, removed: u64, what: &str) -> Error {
    match removed {
        0 => error,
        removed => with(error, &format!("{} had been removed before", human::some(removed, what))),
    }
}

/// An error that says something more.
pub(super) fn with(error: Error, more: &str) -> Error {
    Error { message: format!("{}; {more}", error.message), ..error }
}

#[cfg(test)]
mod tests;
