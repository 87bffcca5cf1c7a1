//! Users of a cluster on the network: numbers with names and groups, which root makes, changes and removes.

pub mod blocking;

use crate::control::{Control, done, strange};
use forebay_model::Result;
use forebay_wire::control::access::{RemoveUser, User};
use forebay_wire::control::{Change, Question, Reply};
use std::rc::Rc;

/// The users of a cluster.
#[derive(Clone)]
pub struct Users {
    control: Rc<dyn Control>,
}

impl Users {
    /// As the manager knows them.
    pub(crate) fn new(control: Rc<dyn Control>) -> Users {
        Users { control }
    }

    /// All of them, by number.
    pub async fn list(&self) -> Result<Vec<User>> {
        match self.control.ask(Question::Users).await? {
            Reply::Users(users) => Ok(users),
            other => Err(strange(&other)),
        }
    }

    /// Makes a user, or gives it another name and other groups.
    pub async fn set(&self, user: User) -> Result<()> {
        done(&self.control.change(Change::SetUser(user)).await?)
    }

    /// Removes a user and its access keys, also those that somebody is connected with. What belongs to it stays, and belongs to a
    /// number without a name.
    pub async fn remove(&self, user: u32) -> Result<()> {
        done(&self.control.change(Change::RemoveUser(RemoveUser { user })).await?)
    }
}
