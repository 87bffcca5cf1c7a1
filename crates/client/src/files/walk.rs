//! All that a user may find in the tree of a cluster, in the order of directories, and in each in that of names.
//!
//! Of directories, one within the other, a page each is held at a time; so what is held of the tree does not grow with its files.

use crate::control::{Control, strange};
use forebay_model::{Error, Kind, Result};
use forebay_wire::control::names::{FileKind, List, Listed, Place};
use forebay_wire::control::{Question, Reply};
use std::rc::Rc;
use std::vec::IntoIter;

/// How many entries of a directory are asked for at once.
const PAGE: u32 = 1000;

/// A walk through the tree.
pub(crate) struct Walk {
    control: Rc<dyn Control>,
    levels: Vec<Level>,
    /// Directories that may not be read.
    pub(crate) unread: Vec<Error>,
}

/// A directory, as far as it was walked.
struct Level {
    path: String,
    entries: IntoIter<Listed>,
    /// Behind which name there is more, if there is.
    after: Option<String>,
}

impl Walk {
    /// Begins at the root.
    pub(crate) fn new(control: Rc<dyn Control>) -> Walk {
        Walk { control, levels: vec![Level::of("/".to_string())], unread: Vec::new() }
    }

    /// The next entry, a directory before what is in it, with its path; nothing at the end.
    pub(crate) async fn next(&mut self) -> Result<Option<(String, Listed)>> {
        while let Some(level) = self.levels.last_mut() {
            match level.next(&*self.control).await {
                Ok(Some(entry)) => {
                    let path = level.path_of(&entry.name);
                    if entry.kind == FileKind::Directory {
                        self.levels.push(Level::of(path.clone()));
                    }
                    return Ok(Some((path, entry)));
                }
                Ok(None) => drop(self.levels.pop()),
                Err(error) => {
                    match error.kind {
                        Kind::Forbidden => self.unread.push(error.of(&level.path)),
                        // It was removed meanwhile.
                        Kind::Missing => {}
                        _ => return Err(error.of(&level.path)),
                    }
                    self.levels.pop();
                }
            }
        }
        Ok(None)
    }
}

impl Level {
    fn of(path: String) -> Level {
        Level { path, entries: Vec::new().into_iter(), after: Some(String::new()) }
    }

    /// The next entry; nothing at the end.
    async fn next(&mut self, control: &dyn Control) -> Result<Option<Listed>> {
        loop {
            if let Some(entry) = self.entries.next() {
                return Ok(Some(entry));
            }
            let Some(after) = self.after.take() else { return Ok(None) };
            let list = List { place: Place::path(self.path.clone()), after, most: PAGE, attributes: true };
            let page = match control.ask(Question::List(list)).await? {
                Reply::Page(page) => page,
                other => return Err(strange(&other)),
            };
            self.after = page.entries.last().filter(|_| page.more).map(|last| last.name.clone());
            self.entries = page.entries.into_iter();
        }
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.path.trim_end_matches('/'))
    }
}
