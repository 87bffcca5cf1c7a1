//! Access keys: made of chance, shown once, taken back at any time; with a key goes what was given out for it, as soon as each
//! node has reported.

use super::Operation;
use crate::draft::View;
use crate::keys;
use crate::records::{Answer, KeyRecord, ShutOutRecord};
use forebay_env::random;
use forebay_model::{Error, Result};
use forebay_wire::control::Reply;
use forebay_wire::control::access::{Hidden, IssueKey, IssuedKey, RevokeKey};
use forebay_wire::control::cluster::MOST_SHUT_OUT;

/// The most keys of a user.
const MOST_KEYS: usize = 64;
/// The most bytes of a label.
const MOST_LABEL: usize = 255;
/// The most clients that are shut out in one step, beside what there is of keys in it.
const MOST_CLIENTS: usize = 32;

impl Operation<'_> {
    /// Makes a key for a user.
    pub(super) fn issue_key(&mut self, asked: &IssueKey) -> Result<Answer> {
        self.by.require_self(asked.user, "make keys for another user")?;
        let mut user = self.user_record(asked.user)?;
        if user.keys.len() >= MOST_KEYS {
            return Err(Error::refused(format!(
                "user {} has {} keys, and that is the most; revoke one",
                asked.user,
                user.keys.len()
            )));
        }
        if asked.label.len() > MOST_LABEL {
            return Err(Error::usage(format!(
                "a label has {} bytes, and {MOST_LABEL} are the most; shorten it",
                asked.label.len()
            )));
        }
        let mut key = self.random.next_u64();
        while key == 0 || self.draft.bytes(&keys::access_key(key))?.is_some() {
            key = self.random.next_u64();
        }
        let secret = random::bytes(self.random);
        let record = KeyRecord { user: asked.user, secret, label: asked.label.clone(), issued: self.now.wall };
        self.draft.put(keys::access_key(key), &record)?;
        user.keys.push(key);
        self.draft.put(keys::user(asked.user), &user)?;
        Ok(Answer::Reply(Reply::IssuedKey(IssuedKey { key, secret: Hidden(secret.to_vec()) })))
    }

    /// Takes a key back: nobody connects with it any more.
    pub(super) fn revoke_key(&mut self, asked: &RevokeKey) -> Result<()> {
        let record: Option<KeyRecord> = self.draft.read(&keys::access_key(asked.key))?;
        // Whose key it is, is told to those alone who may know.
        let Some(record) = record.filter(|record| self.by.is_root() || record.user == self.by.user) else {
            return Err(Error::missing(format!("there is no key {:x}; ask for the user's", asked.key)));
        };
        let mut user = self.user_record(record.user)?;
        user.keys.retain(|key| *key != asked.key);
        self.draft.put(keys::user(record.user), &user)?;
        self.take_back(&[asked.key])
    }

    /// Nobody connects with these keys any more, and nothing counts any more that was given to who did. Where nodes cannot be told of
    /// all who have something, root has nothing count any more that anybody was given, and of another user's key that counts until its
    /// time is over.
    pub(super) fn take_back(&mut self, access_keys: &[u64]) -> Result<()> {
        let mut clients = Vec::new();
        for key in access_keys {
            self.draft.delete(keys::access_key(*key));
            clients.extend(self.given.with(*key, self.now.wall));
        }
        let (from, to) = keys::all(keys::SHUT_OUT);
        let there = self.draft.scan(&from, &to, MOST_SHUT_OUT)?.len();
        let are_too_many = clients.len() > MOST_CLIENTS || there + clients.len() > MOST_SHUT_OUT;
        if !self.given.knows_all(self.now.wall) || are_too_many {
            if self.by.is_root() {
                return self.shut_all_out();
            }
            // A user is not to end what others use: what cannot be told of ends by itself, as no more is given out.
            clients.truncate(MOST_CLIENTS.min(MOST_SHUT_OUT.saturating_sub(there)));
        }
        for (client, until) in clients {
            let key = keys::shut_out(client);
            let before: Option<ShutOutRecord> = self.draft.read(&key)?;
            let until = before.map_or(until, |before| until.max(before.until));
            self.draft.put(key, &ShutOutRecord { until })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
