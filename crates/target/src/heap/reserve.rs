//! Slots that are left for the records which keep commits, where the target is full.
//!
//! A commit of a heap that keeps them takes a slot to keep the one before; only commits free anything. Without a slot left for
//! that a heap that has filled its target could never commit again.

use super::allocation::Slot;
use super::classes::Class;
use super::view::Eye;
use super::{Heap, chain};
use forebay_model::heap::HeapMode;
use forebay_model::{Kind, Result};
use std::rc::Rc;

/// So many commits can be kept in what is reserved.
const RESERVED: usize = 8;
/// By so much may what describes a commit grow meanwhile.
pub(super) const BODY_GROWS: usize = 256;

impl Heap {
    /// Sees to it that there are slots left in which commits can be kept once the time of older ones is over, however full
    /// the target is. (What these have been kept in is only free when the commits that have it are over, too.)
    pub(super) async fn reserve(self: &Rc<Self>) -> Result<()> {
        let body = {
            let work = self.work.borrow();
            let keeps = work.last.settings.mode == HeapMode::ReadWrite && work.keeps() && work.failure.is_none();
            keeps.then(|| work.last.body().len() + BODY_GROWS)
        };
        let Some(body) = body else { return Ok(()) };
        let classes = chain::classes(body);
        let mut missing: Vec<Class> = (0..RESERVED).flat_map(|_| classes.iter().copied()).collect();
        let others = {
            let work = &mut *self.work.borrow_mut();
            let mut had = std::mem::take(&mut work.reserved);
            missing.retain(|class| match had.iter().position(|(its, _)| its == class) {
                Some(at) => {
                    work.reserved.push(had.swap_remove(at));
                    false
                }
                None => true,
            });
            had
        };
        for class in missing {
            match self.take_slot(&Eye::Commit, class).await {
                Ok(slot) => {
                    let work = &mut *self.work.borrow_mut();
                    work.allocation.hide(slot);
                    work.reserved.push((class, slot));
                }
                // There are none for anybody: what is there has to do, of whatever size.
                Err(error) if error.kind == Kind::Full => {
                    self.work.borrow_mut().reserved.extend(others);
                    return Ok(());
                }
                Err(error) => return Err(error),
            }
        }
        let work = &mut *self.work.borrow_mut();
        others.into_iter().for_each(|(_, slot)| work.allocation.free_hidden(slot));
        Ok(())
    }

    /// A slot that is left for a commit. It is lent: only to a commit with which the time of others is over, so that what
    /// they have comes back when it can be written over; and the last ones only where some comes back at once.
    pub(super) fn take_reserved(&self, length: usize) -> Option<Slot> {
        let (work, now) = (&mut *self.work.borrow_mut(), self.core.disk.env().clock.wall());
        let over = work.over(now);
        let oldest = work.retained.get(over).map_or(work.last.commit, |kept| kept.commit);
        let seen = work.views.keys().next().copied().unwrap_or(u64::MAX);
        let fits = |(nth, (class, _)): (usize, &(Class, Slot))| (class.most() >= length).then_some((*class, nth));
        let (class, at) = work.reserved.iter().enumerate().filter_map(fits).min()?;
        let is_repaid = work.allocation.releases(oldest.min(seen), class);
        let has_more = work.reserved.len() > chain::classes(work.last.body().len() + BODY_GROWS).len();
        if work.going.is_empty() && over == 0 || !is_repaid && !has_more {
            return None;
        }
        let (_, slot) = work.reserved.swap_remove(at);
        work.allocation.reveal(slot);
        Some(slot)
    }
}
