//! From numbers back to paths: one directory after the other is listed, up to the root.

use super::Files;
use crate::control::strange;
use forebay_model::{Error, Result};
use forebay_wire::control::names::{FileId, List, Place, Stat};
use forebay_wire::control::{Question, Reply};

/// Entries of a directory that are asked for at once.
const NAMES: u32 = 1000;

impl Files {
    /// What a file is called.
    pub(crate) async fn path_of(&self, file: FileId) -> Result<String> {
        let (mut names, mut below) = (Vec::new(), file);
        while below != FileId::ROOT {
            let stat = Question::Stat(Stat { place: Place::of(below) });
            let directory = self.entry(self.control.ask(stat).await?)?.parent;
            names.push(self.name_in(directory, below).await?);
            below = directory;
        }
        names.push(String::new());
        names.reverse();
        Ok(names.join("/"))
    }

    async fn name_in(&self, directory: FileId, file: FileId) -> Result<String> {
        let mut after = String::new();
        loop {
            let list = List { place: Place::of(directory), after, most: NAMES, attributes: false };
            let page = match self.control.ask(Question::List(list)).await? {
                Reply::Page(page) => page,
                other => return Err(strange(&other)),
            };
            if let Some(listed) = page.entries.iter().find(|listed| listed.file == file) {
                return Ok(listed.name.clone());
            }
            match page.entries.last() {
                Some(last) if page.more => after = last.name.clone(),
                _ => return Err(Error::missing(format!("{file} has another name by now, or was removed"))),
            }
        }
    }
}
