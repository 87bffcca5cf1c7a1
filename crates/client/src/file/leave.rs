//! Components that whoever writes does not wait for, if the others of the file are enough: their devices have become far slower than
//! they were and report no error, or their nodes take requests and answer none. Such a component is given up like one that is lost,
//! and made anew on another device.
//!
//! That a request takes long says nothing of the device, which may have much to do. So its node says it with each answer, by what
//! the device once took at the worst. And a node that has much to do still says that it is there when it is asked that.

use super::reach::Reach;
use super::together::either;
use forebay_model::{Error, Result};
use std::future::Future;
use std::time::Duration;

/// So often who waits looks whether the device is known to be slow by now, or the node to be silent.
pub(super) const LOOKED: Duration = Duration::from_millis(100);

impl Reach {
    /// What comes of something that changes a component: an error, if it is slow or silent and the file does without it from now on.
    pub(super) async fn unless_left<T>(&self, component: u32, change: impl Future<Output = Result<T>>) -> Result<T> {
        if self.striping.spare() == 0 {
            return change.await;
        }
        if let Some(error) = self.leave_if_it_keeps(component) {
            return Err(error);
        }
        let left = async {
            loop {
                self.clock.sleep(LOOKED).await;
                if let Some(error) = self.leave_if_it_keeps(component) {
                    return Some(Err(error));
                }
            }
        };
        either(change, left).await
    }

    /// Leaves a component for which who writes would wait long: why it is left.
    fn leave_if_it_keeps(&self, component: u32) -> Option<Error> {
        let error = if self.is_slower_than_others(component) {
            Error::device(format!(
                "the device of component {component} has become far slower than it was, and its file does without it; drain its \
                 target, or measure its profile anew"
            ))
        } else if self.components.is_silent(component) {
            is_silent(component)
        } else {
            return None;
        };
        self.leave(component).then_some(error)
    }

    /// Whether its device is slow. If the others are as slow, nothing is won by leaving it.
    fn is_slower_than_others(&self, component: u32) -> bool {
        if !self.components.is_slow(component) {
            return false;
        }
        let others = || self.family(component).filter(|other| *other != component);
        let slow = others().filter(|other| self.components.is_slow(*other)).count();
        2 * slow < others().count()
    }
}

/// Why a component is left whose node is silent.
pub(super) fn is_silent(component: u32) -> Error {
    Error::disconnected(format!(
        "the node of component {component} takes requests and answers none, and the file does without it; see whether it hangs or is \
         cut off"
    ))
}
