//! Looking at a commit while others go on: as long as a session is open, what its commit has keeps its place.

use super::Heap;
use super::allocator::Bits;
use super::root::{self, PER_PAGE, Root};
use super::slot::Role;
use super::view::{Eye, Seen, View};
use forebay_model::heap::{CommitInfo, RecordId};
use forebay_model::{Error, Kind, Result};
use std::rc::{Rc, Weak};

/// A commit that is being looked at.
pub struct Session {
    heap: Rc<Heap>,
    view: Rc<View>,
    eye: Eye,
}

impl Session {
    /// Which commit it sees.
    pub fn info(&self) -> CommitInfo {
        self.view.info
    }

    /// The root of its commit.
    pub fn root(&self) -> Option<RecordId> {
        self.view.info.root
    }

    /// The bytes of a record. [`Kind::Missing`] if the commit has none of this id: it was put later, say.
    pub async fn get(&self, id: RecordId) -> Result<Vec<u8>> {
        self.heap.get_as(&self.eye, id, Role::Record).await
    }

    /// As [`Heap::get_many`], of the commit.
    pub async fn get_many(&self, ids: &[RecordId]) -> Vec<Result<Vec<u8>>> {
        self.heap.get_many_as(&self.eye, ids).await
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.heap.unpin(self.view.info.commit);
    }
}

/// A commit that must not go, until this is dropped or kept.
pub(super) struct Pin<'a> {
    heap: &'a Heap,
    commit: Option<u64>,
}

impl Drop for Pin<'_> {
    fn drop(&mut self) {
        if let Some(commit) = self.commit {
            self.heap.unpin(commit);
        }
    }
}

impl Heap {
    fn pin(&self, commit: u64) -> Pin<'_> {
        *self.work.borrow_mut().views.entry(commit).or_default() += 1;
        Pin { heap: self, commit: Some(commit) }
    }

    /// As long as the answer lives, no slot that is taken now is used again, whatever is freed and committed.
    pub(super) fn pin_last(&self) -> Pin<'_> {
        let last = self.work.borrow().last.commit;
        self.pin(last)
    }

    fn unpin(&self, commit: u64) {
        let mut work = self.work.borrow_mut();
        let count = work.views.get_mut(&commit).expect("what is seen is pinned");
        *count -= 1;
        if *count == 0 {
            work.views.remove(&commit);
        }
    }

    /// A session that sees the last commit.
    pub fn session(self: &Rc<Self>) -> Session {
        let (info, allocators) = self.last_seen();
        self.pin(info.commit).commit = None;
        match self.view_of(info.commit) {
            Some(view) => self.seeing(view),
            None => self.seeing_anew(info, self.committed_slots(), Seen::count(&self.core.seen, allocators)),
        }
    }

    fn last_seen(&self) -> (CommitInfo, u32) {
        let last = &self.work.borrow().last;
        (last.info(), last.allocators)
    }

    /// What others have who look at a commit.
    fn view_of(&self, commit: u64) -> Option<Rc<View>> {
        self.work.borrow().seen.get(&commit).and_then(Weak::upgrade)
    }

    fn seeing_anew(self: &Rc<Self>, info: CommitInfo, slots: Vec<Rc<Bits>>, seen: Seen) -> Session {
        let view = Rc::new(View { info, slots, _seen: seen });
        let all = &mut self.work.borrow_mut().seen;
        all.retain(|_, view| view.strong_count() > 0);
        all.insert(info.commit, Rc::downgrade(&view));
        self.seeing(view)
    }

    /// What is looked at is pinned already.
    fn seeing(self: &Rc<Self>, view: Rc<View>) -> Session {
        Session { heap: self.clone(), eye: Eye::At(view.clone()), view }
    }

    fn committed_slots(&self) -> Vec<Rc<Bits>> {
        let work = self.work.borrow();
        let allocators = 0..work.last.allocators;
        allocators.map(|number| work.allocation.get(number).committed().clone()).collect()
    }

    /// A session that sees this commit. [`Kind::Missing`] if there is none of this number yet, or it was not kept;
    /// [`Kind::Busy`] if others look at so much that there is no memory for it.
    pub async fn as_of(self: &Rc<Self>, commit: u64) -> Result<Session> {
        let (newest, oldest) = (self.work.borrow().last.commit, self.oldest());
        if commit != newest && !(oldest..=newest).contains(&commit) {
            return Err(Error::missing(format!(
                "the heap can be read as of commits {oldest} to {newest}, and not of {commit}; `forebay heap history` lists \
                 them"
            )));
        }
        let mut pin = self.pin(commit);
        if let Some(view) = self.view_of(commit) {
            pin.commit = None;
            return Ok(self.seeing(view));
        }
        let (info, allocators) = self.last_seen();
        // Before the memory is taken. An older commit has no more allocators: none ends.
        let seen = Seen::within(&self.core.seen, allocators)?;
        if commit == newest {
            pin.commit = None;
            return Ok(self.seeing_anew(info, self.committed_slots(), seen));
        }
        let last = self.work.borrow().last.clone();
        let committed = self.committed_slots();
        let root = self.kept_root(&last, commit).await?;
        let mut slots = Vec::with_capacity(root.allocators as usize);
        for (page, record) in (0..).zip(&root.pages) {
            if last.pages.get(page as usize) == Some(record) {
                let first = (page * PER_PAGE) as usize;
                let end = (first + PER_PAGE as usize).min(root.allocators as usize);
                slots.extend_from_slice(&committed[first..end]);
                continue;
            }
            let bytes = self.read_page(&last, record.place).await?;
            let allocators = root::decode_page(self.stamp, &root, page, &bytes)?;
            slots.extend(allocators.iter().map(|allocator| allocator.committed().clone()));
        }
        pin.commit = None;
        Ok(self.seeing_anew(root.info(), slots, seen))
    }

    /// Commits that can be read, the newest first: those up to `before`, `most` of them.
    pub async fn history(self: &Rc<Self>, before: Option<u64>, most: usize) -> Result<Vec<CommitInfo>> {
        let last = self.work.borrow().last.clone();
        let newest = before.map_or(last.commit, |before| before.saturating_sub(1).min(last.commit));
        if newest < self.oldest() {
            return Ok(Vec::new());
        }
        let pin = self.pin(self.oldest());
        let mut root = match newest == last.commit {
            true => last,
            false => self.kept_root(&last, newest).await?,
        };
        let mut all = vec![root.info()];
        while all.len() < most && root.commit > pin.commit.unwrap_or(root.commit) {
            root = self.kept_root(&root, root.commit - 1).await?;
            all.push(root.info());
        }
        all.truncate(most);
        Ok(all)
    }

    /// The root of a commit that was kept, found from a later one.
    pub(super) async fn kept_root(self: &Rc<Self>, from: &Root, commit: u64) -> Result<Root> {
        let mut root = from.clone();
        while root.commit != commit {
            let Some((kept, id)) = root.towards(commit) else {
                return Err(Error::damaged(format!(
                    "heap {}: commit {} does not say where commit {commit} was kept",
                    self.stamp.heap, root.commit
                )));
            };
            root = self.kept_as(kept, id).await?;
        }
        Ok(root)
    }

    /// The root of a commit that was kept as this record.
    pub(super) async fn kept_as(self: &Rc<Self>, kept: u64, id: RecordId) -> Result<Root> {
        let body = self.get_as(&Eye::Live, id, Role::Commit).await.map_err(|error| match error.kind {
            Kind::Missing => Error::damaged(format!("the record that keeps commit {kept}: {}", error.message)),
            _ => error,
        })?;
        let root = Root::decode_body(self.stamp, &body)?;
        if root.commit != kept {
            return Err(Error::damaged(format!("the record that keeps commit {kept} has commit {}", root.commit)));
        }
        Ok(root)
    }
}

#[cfg(test)]
mod tests;
