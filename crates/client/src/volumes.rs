//! Volumes of a cluster on the network: trees of names that share a quota and a policy, as root makes them.

pub mod blocking;

use crate::control::{Control, done, strange};
use crate::files::{Files, about};
use forebay_model::{Error, Result};
use forebay_wire::control::names::{FileId, Place};
use forebay_wire::control::volumes::{CreateVolume, RemoveVolume, SetVolume, Volume};
use forebay_wire::control::{Change, Question, Reply};
use std::rc::Rc;

/// The volumes of a cluster.
#[derive(Clone)]
pub struct Volumes {
    files: Files,
    control: Rc<dyn Control>,
}

impl Volumes {
    /// As the manager knows them.
    pub(crate) fn new(files: Files, control: Rc<dyn Control>) -> Volumes {
        Volumes { files, control }
    }

    /// All of them, by number, with what is in them.
    pub async fn list(&self) -> Result<Vec<Volume>> {
        match self.control.ask(Question::Volumes).await? {
            Reply::Volumes(volumes) => Ok(volumes),
            other => Err(strange(&other)),
        }
    }

    /// The one in which something is, or would be made.
    pub async fn of(&self, path: &str) -> Result<Volume> {
        let number = self.files.stat(path).await?.attributes.volume;
        let missing = || Error::missing(format!("volume {number}, in which {path} was, is gone; look how things are"));
        self.list().await?.into_iter().find(|volume| volume.volume == number).ok_or_else(missing)
    }

    /// What the directory is called that is the root of one; it takes the right to list those above it.
    pub async fn path(&self, root: FileId) -> Result<String> {
        let path = self.files.path_of(root).await?;
        Ok(if path.is_empty() { "/".to_string() } else { path })
    }

    /// Makes a directory that is the root of a volume of its own.
    pub async fn create(&self, asked: CreateVolume) -> Result<Volume> {
        let path = asked.place.path.clone();
        volume(self.control.change(Change::CreateVolume(asked)).await.map_err(|e| about(&path, e))?)
    }

    /// Gives one another quota or policy; files that are there stay as they are.
    pub async fn set(&self, asked: SetVolume) -> Result<Volume> {
        volume(self.control.change(Change::SetVolume(asked)).await?)
    }

    /// Removes one with nothing in it, and its directory.
    pub async fn remove(&self, path: &str) -> Result<()> {
        let remove = Change::RemoveVolume(RemoveVolume { place: Place::path(path) });
        done(&self.control.change(remove).await.map_err(|e| about(path, e))?)
    }
}

fn volume(reply: Reply) -> Result<Volume> {
    match reply {
        Reply::Volume(volume) => Ok(volume),
        other => Err(strange(&other)),
    }
}
