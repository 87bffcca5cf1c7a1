//! Group commit: while one commit is under way, whoever comes is gathered for the next.

use super::batch::{Batch, Ended};
use super::place::SmallWrite;
use super::system::Doing;
use forebay_env::Spawner;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Gathers rounds, and commits what has been gathered, one commit at a time.
pub(super) struct Group {
    spawner: Spawner,
    commit: Box<dyn Fn(Vec<SmallWrite>) -> Doing>,
    gathered: RefCell<(Vec<SmallWrite>, Vec<Rc<Batch>>)>,
    running: Cell<bool>,
}

impl Group {
    pub(super) fn new(spawner: Spawner, commit: impl Fn(Vec<SmallWrite>) -> Doing + 'static) -> Rc<Group> {
        Rc::new(Group { spawner, commit: Box::new(commit), gathered: RefCell::default(), running: Cell::new(false) })
    }

    /// Adds a round; waits until the commit that it is part of is durable.
    pub(super) fn join(self: &Rc<Self>, writes: Vec<SmallWrite>) -> Doing {
        let batch = Rc::new(Batch::default());
        batch.add();
        let mut gathered = self.gathered.borrow_mut();
        gathered.0.extend(writes);
        gathered.1.push(batch.clone());
        drop(gathered);
        if !self.running.replace(true) {
            self.spawner.detach(self.clone().run());
        }
        Box::pin(Ended(batch))
    }

    async fn run(self: Rc<Self>) {
        loop {
            let (writes, waiters) = std::mem::take(&mut *self.gathered.borrow_mut());
            if waiters.is_empty() {
                self.running.set(false);
                return;
            }
            let result = (self.commit)(writes).await;
            for waiter in waiters {
                waiter.end(result.clone());
            }
        }
    }
}
