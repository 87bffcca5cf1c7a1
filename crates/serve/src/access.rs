//! Users' keys, as people ask the manager for them.

use crate::key;
use forebay_control::{AccessKey, ControlClient};
use forebay_model::{Error, Result, TargetId};
use forebay_wire::control::access::{IssueKey, Key, Keys, RevokeKey};
use forebay_wire::control::cluster::RollKeys;
use forebay_wire::control::{Change, Question, Reply};

/// The keys of a user, without what is secret.
pub async fn keys(manager: &ControlClient, user: u32) -> Result<Vec<Key>> {
    match manager.ask(Question::Keys(Keys { user })).await? {
        Reply::Keys(keys) => Ok(keys),
        other => Err(unasked(&other)),
    }
}

/// Makes a key.
pub async fn issue(manager: &ControlClient, user: u32, label: String) -> Result<AccessKey> {
    match manager.change(Change::IssueKey(IssueKey { user, label })).await? {
        Reply::IssuedKey(issued) => key::of_issued(&issued),
        other => Err(unasked(&other)),
    }
}

/// Takes a key back, also from whoever is connected with it.
pub async fn revoke(manager: &ControlClient, key: u64) -> Result<()> {
    done(manager.change(Change::RevokeKey(RevokeKey { key })).await?)
}

/// Gives a target, or all of them, another key for capabilities.
pub async fn roll(manager: &ControlClient, target: Option<TargetId>) -> Result<()> {
    done(manager.change(Change::RollKeys(RollKeys { target })).await?)
}

pub(crate) fn done(reply: Reply) -> Result<()> {
    match reply {
        Reply::Done => Ok(()),
        other => Err(unasked(&other)),
    }
}

pub(crate) fn unasked(reply: &Reply) -> Error {
    Error::damaged(format!("the manager answered what it was not asked: {reply:?}"))
}
