//! Whose a connection is: whoever has the secret of an access key proves it without telling it.
//!
//! Always: a key that is not there, a proof that is wrong and a client's number that is another user's are refused alike,
//! and take as long. Whatever was proven counts as long as the key and its user are there, and no longer: both are looked
//! at again with each thing that is asked.

use crate::draft::View;
use crate::keys;
use crate::manager::Manager;
use crate::principal::Principal;
use crate::records::{KeyRecord, UserRecord};
use crate::remembered;
use forebay_env::random;
use forebay_model::{Error, Kind, Result};
use forebay_wire::control::access::{Challenge, Hello, Proven, is_same, proof};
use std::borrow::Cow;

impl Manager {
    /// What a client has to prove itself against: never the same twice.
    pub fn challenge(&self) -> Challenge {
        Challenge { nonce: random::bytes(&*self.random) }
    }

    /// Who said hello, if the proof is one.
    pub fn authenticate(&self, hello: &Hello, challenge: &Challenge, proven: &Proven) -> Result<Principal> {
        if hello.client == 0 {
            return Err(Error::usage("a client's number is not 0, which is the manager's own; choose one by chance"));
        }
        let view = self.view()?;
        let record: Option<KeyRecord> = view.read(&keys::access_key(hello.key))?;
        // A secret that nobody has is drawn in any case, so that a key that is not there takes as long.
        let nobodys = random::bytes(&*self.random);
        let secret = record.as_ref().map_or(nobodys, |record| record.secret);
        let is_proven = is_same(&proof(&secret, hello, challenge), &proven.proof);
        let Some(record) = record.filter(|_| is_proven) else { return Err(forbidden()) };
        let user: UserRecord = view.require(&keys::user(record.user))?;
        let by = Principal { user: record.user, groups: user.groups, client: hello.client, key: Some(hello.key) };
        match remembered::require_own(&view, &by) {
            Err(error) if error.kind == Kind::Forbidden => Err(forbidden()),
            other => other.map(|()| by),
        }
    }
}

/// Somebody as it is now: with the groups that its user has since. [`Kind::Forbidden`] if its key was revoked or its user
/// removed, or if the client's number is another user's.
pub(crate) fn standing<'p>(view: &impl View, by: &'p Principal) -> Result<Cow<'p, Principal>> {
    remembered::require_own(view, by)?;
    let Some(key) = by.key else { return Ok(Cow::Borrowed(by)) };
    let record: Option<KeyRecord> = view.read(&keys::access_key(key))?;
    let user: Option<UserRecord> = match record.filter(|record| record.user == by.user) {
        Some(record) => view.read(&keys::user(record.user))?,
        None => None,
    };
    let revoked = || Error::forbidden(format!("key {key:x} of user {} was revoked; take another one", by.user));
    let user = user.ok_or_else(revoked)?;
    if user.groups == by.groups {
        return Ok(Cow::Borrowed(by));
    }
    Ok(Cow::Owned(Principal { groups: user.groups, ..by.clone() }))
}

fn forbidden() -> Error {
    Error::forbidden("the access key that was shown does not allow this client in; check the key and its secret")
}

#[cfg(test)]
mod tests;
