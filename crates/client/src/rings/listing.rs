//! All rings of a cluster on the network: its directories are walked, and the parts of each ring that is found are asked.

use super::Rings;
use super::survey::{KnownRing, Targets};
use crate::files::walk::Walk;
use forebay_env::together::all;
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_wire::control::names::FileKind;

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

impl Rings {
    /// All rings that the user may find, with what is known of each; a target that cannot be asked is asked once.
    pub async fn list(&self) -> Result<RingList> {
        let targets = Targets::known_to(&*self.control).await?;
        let (mut list, mut found) = (RingList::default(), Vec::new());
        let mut walk = Walk::new(self.control.clone());
        while let Some((path, entry)) = walk.next().await? {
            if entry.kind == FileKind::Ring {
                found.push((path, entry.attributes.map_or(Bytes::ZERO, |known| known.size)));
            }
            if found.len() == AT_ONCE {
                self.take(&mut list, &targets, &mut found).await;
            }
        }
        list.unread = walk.unread;
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
