//! Users for threads that block: what they ask is done by the loop that does what is asked of files.

use crate::files::blocking::{FilesClient, Way};
use forebay_model::Result;
use forebay_wire::control::access::User;
use std::sync::Arc;

/// The users of a cluster. Cheap to clone.
#[derive(Clone)]
pub struct UsersClient {
    way: Arc<Way>,
}

impl FilesClient {
    /// The users of the cluster.
    pub fn users(&self) -> UsersClient {
        UsersClient { way: self.way() }
    }
}

impl UsersClient {
    /// All of them, by number.
    pub fn list(&self) -> Result<Vec<User>> {
        self.way.run(|here| async move { here.files().users().list().await })
    }

    /// Makes a user, or gives it another name and other groups.
    pub fn set(&self, user: User) -> Result<()> {
        self.way.run(|here| async move { here.files().users().set(user).await })
    }

    /// Removes a user and its access keys. What belongs to it stays, and belongs to a number without a name.
    pub fn remove(&self, user: u32) -> Result<()> {
        self.way.run(move |here| async move { here.files().users().remove(user).await })
    }
}
