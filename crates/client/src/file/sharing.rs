//! Going over from keeping what is read and written to sharing the file with others, and back, while it is open.

use super::File;
use super::ahead::Ahead;
use forebay_model::Result;
use std::rc::Rc;

impl File {
    /// All that was written is durable when this ends, and nothing is kept from then on.
    pub(super) async fn share(self: &Rc<Self>) -> Result<()> {
        let _uses = self.uses.everything().await;
        if !self.reach.is_alone() {
            return Ok(());
        }
        self.send_all();
        let _quiet = self.order.everything().await;
        let sent = self.state.borrow().sent;
        let flushed = self.flush_to(sent).await;
        self.state.borrow_mut().ahead = Ahead::default();
        self.reach.set_alone(false);
        flushed
    }

    /// What is read and written may be kept from then on: as others left it, it is looked at anew. Not after a write that
    /// failed, for who is alone takes no locks, and so would not see what it began.
    pub(super) async fn unshare(self: &Rc<Self>) -> Result<()> {
        let _uses = self.uses.everything().await;
        if self.reach.is_alone() {
            return Ok(());
        }
        let _quiet = self.order.everything().await;
        self.check_ended()?;
        self.reach.look().await?;
        let size = self.reach.components.length().await?.0;
        let mut state = self.state.borrow_mut();
        (state.size, state.sent, state.acknowledged) = (size, size, size);
        state.ahead = Ahead::default();
        drop(state);
        // What was given up or rebuilt while that was asked: who is alone does not look again.
        self.reach.heed();
        self.reach.set_alone(true);
        Ok(())
    }
}
