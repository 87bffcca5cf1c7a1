//! Users: numbers with names and groups.

use super::Operation;
use crate::draft::View;
use crate::keys;
use crate::place::check_name;
use crate::records::{UserNumber, UserRecord};
use forebay_model::{Error, Result};
use forebay_wire::control::access::{MOST_GROUPS, ROOT_USER, RemoveUser, User};

impl Operation<'_> {
    /// Makes a user, or gives it another name and other groups.
    pub(super) fn set_user(&mut self, asked: &User) -> Result<()> {
        self.by.require_root("make users or change them")?;
        check_name(&asked.name)?;
        if asked.groups.len() > MOST_GROUPS {
            return Err(Error::usage(format!(
                "user {} would have {} groups, and {MOST_GROUPS} are the most; leave some out",
                asked.user,
                asked.groups.len()
            )));
        }
        if asked.groups.is_empty() {
            return Err(Error::usage(format!(
                "user {} would be in no group, and what a user makes belongs to its first; name one",
                asked.user
            )));
        }
        let by_name: Option<UserNumber> = self.draft.read(&keys::user_name(&asked.name))?;
        if let Some(UserNumber(user)) = by_name.filter(|UserNumber(user)| *user != asked.user) {
            return Err(Error::exists(format!("'{}' is the name of user {user}; take another", asked.name)));
        }
        let key = keys::user(asked.user);
        let known: Option<UserRecord> = self.draft.read(&key)?;
        if let Some(known) = &known {
            self.draft.delete(keys::user_name(&known.name));
        }
        let issued = known.map(|known| known.keys).unwrap_or_default();
        self.draft.put(keys::user_name(&asked.name), &UserNumber(asked.user))?;
        self.draft.put(key, &UserRecord { name: asked.name.clone(), groups: asked.groups.clone(), keys: issued })
    }

    /// Removes a user and its keys.
    pub(super) fn remove_user(&mut self, asked: &RemoveUser) -> Result<()> {
        self.by.require_root("remove users")?;
        if asked.user == ROOT_USER {
            return Err(Error::usage("root stays; revoke its keys instead"));
        }
        let record = self.user_record(asked.user)?;
        self.take_back(&record.keys)?;
        self.draft.delete(keys::user_name(&record.name));
        self.draft.delete(keys::user(asked.user));
        Ok(())
    }

    /// What is known of a user.
    pub(super) fn user_record(&self, user: u32) -> Result<UserRecord> {
        let missing = || Error::missing(format!("there is no user {user}; make it first"));
        self.draft.read(&keys::user(user))?.ok_or_else(missing)
    }
}
