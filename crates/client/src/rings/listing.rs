//! All rings of a cluster on the network: its directories are walked, and the parts of each ring that is found are asked.
//!
//! Of directories, one within the other, a page each is held at a time; so what is held of the tree does not grow with its files.

use super::Rings;
use super::survey::{KnownRing, Targets};
use crate::control::{Control, strange};
use forebay_env::together::all;
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_wire::control::names::{FileKind, List, Listed, Place};
use forebay_wire::control::{Question, Reply};
use std::vec::IntoIter;

/// How many entries of a directory are asked for at once.
const PAGE: u32 = 1000;
/// Rings whose parts are asked at the same time.
const AT_ONCE: usize = 16;

/// The rings of a cluster.
#[derive(Debug, Clone, Default)]
pub struct RingList {
    /// In the order of directories, and in each in that of names.
    pub rings: Vec<KnownRing>,
    /// Directories that may not be read, of which it is not known what rings are there.
    pub unread: Vec<Error>,
}

/// A directory, as far as it was walked.
struct Level {
    path: String,
    entries: IntoIter<Listed>,
    /// Behind which name there is more, if there is.
    after: Option<String>,
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

impl Rings {
    /// All rings that the user may find, with what is known of each; a target that cannot be asked is asked once.
    pub async fn list(&self) -> Result<RingList> {
        let targets = Targets::known_to(&*self.control).await?;
        let (mut list, mut found) = (RingList::default(), Vec::new());
        let mut levels = vec![Level::of("/".to_string())];
        while let Some(level) = levels.last_mut() {
            match level.next(&*self.control).await {
                Ok(Some(entry)) => {
                    let path = level.path_of(&entry.name);
                    match entry.kind {
                        FileKind::Directory => levels.push(Level::of(path)),
                        FileKind::Ring => found.push((path, entry.attributes.map_or(Bytes::ZERO, |known| known.size))),
                        FileKind::File => {}
                    }
                }
                Ok(None) => drop(levels.pop()),
                Err(error) => {
                    match error.kind {
                        Kind::Forbidden => list.unread.push(error.of(&level.path)),
                        // It was removed meanwhile.
                        Kind::Missing => {}
                        _ => return Err(error.of(&level.path)),
                    }
                    levels.pop();
                }
            }
            if found.len() == AT_ONCE {
                self.take(&mut list, &targets, &mut found).await;
            }
        }
        self.take(&mut list, &targets, &mut found).await;
        Ok(list)
    }

    async fn take(&self, list: &mut RingList, targets: &Targets, found: &mut Vec<(String, Bytes)>) {
        let known = all(found.drain(..).map(|(name, capacity)| async move {
            match self.open(&name, false).await {
                Ok(ring) => Some(ring.survey_of(targets).await),
                Err(error) if error.kind == Kind::Missing => None,
                Err(error) => Some(KnownRing { name, capacity, status: Err(error), parts: Vec::new() }),
            }
        }));
        list.rings.extend(known.await.into_iter().flatten());
    }
}
