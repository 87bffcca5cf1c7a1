//! Volumes for threads that block: what they ask is done by the loop that does what is asked of files.

use crate::files::blocking::{FilesClient, Way};
use forebay_model::Result;
use forebay_wire::control::names::FileId;
use forebay_wire::control::volumes::{CreateVolume, SetVolume, Volume};
use std::sync::Arc;

/// The volumes of a cluster. Cheap to clone.
#[derive(Clone)]
pub struct VolumesClient {
    way: Arc<Way>,
}

impl FilesClient {
    /// The volumes of the cluster.
    pub fn volumes(&self) -> VolumesClient {
        VolumesClient { way: self.way() }
    }
}

impl VolumesClient {
    /// All of them, by number, with what is in them.
    pub fn list(&self) -> Result<Vec<Volume>> {
        self.way.run(|here| async move { here.files().volumes().list().await })
    }

    /// The one in which something is, or would be made.
    pub fn of(&self, path: &str) -> Result<Volume> {
        let path = path.to_string();
        self.way.run(move |here| async move { here.files().volumes().of(&path).await })
    }

    /// What the directory is called that is the root of one; it takes the right to list those above it.
    pub fn path(&self, root: FileId) -> Result<String> {
        self.way.run(move |here| async move { here.files().volumes().path(root).await })
    }

    /// Makes a directory that is the root of a volume of its own.
    pub fn create(&self, asked: CreateVolume) -> Result<Volume> {
        self.way.run(|here| async move { here.files().volumes().create(asked).await })
    }

    /// Gives one another quota or policy; files that are there stay as they are.
    pub fn set(&self, asked: SetVolume) -> Result<Volume> {
        self.way.run(|here| async move { here.files().volumes().set(asked).await })
    }

    /// Removes one with nothing in it, and its directory.
    pub fn remove(&self, path: &str) -> Result<()> {
        let path = path.to_string();
        self.way.run(move |here| async move { here.files().volumes().remove(&path).await })
    }
}
