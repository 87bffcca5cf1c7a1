//! Which volumes there are.

use super::rows::{Key, Row};
use super::{Found, Objects};
use forebay_model::{ObjectId, Result};

impl Objects {
    /// Volumes in the order of their numbers, from `from` on, `most` of them at most.
    pub async fn volumes(&self, from: u64, most: usize) -> Result<Vec<Found>> {
        self.ready().await?;
        let mut found = Vec::new();
        let mut next = Some(from.max(1));
        let last = Key::end_of(ObjectId { volume: u64::MAX, object: u64::MAX });
        while let Some(volume) = next.filter(|_| found.len() < most) {
            let key = Key::head(ObjectId::volume(volume));
            self.bring(&[(key, key)]).await?;
            let work = self.work.borrow();
            // The head of a volume comes before everything in it.
            next = match work.meta.tree.rest_of_leaf(key).next() {
                Some((key, Row::Head(head))) if head.volume.is_some() => {
                    found.push(Found { id: key.id, head: head.clone() });
                    key.id.volume.checked_add(1)
                }
                Some((key, _)) => key.id.volume.checked_add(1),
                // The leaf behind it may begin within a volume whose head is before it, and was found.
                None => match work.meta.tree.leaf_end(key, last) {
                    Some(end) if end.id == ObjectId::volume(end.id.volume) => Some(end.id.volume),
                    Some(end) => end.id.volume.checked_add(1),
                    None => None,
                },
            };
        }
        Ok(found)
    }
}
