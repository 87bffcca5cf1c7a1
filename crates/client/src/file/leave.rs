//! Components on devices that have become far slower than they were and report no error: who writes does not wait for them, if
//! the others of the file are enough. Such a component is given up like one that is lost, and made anew on another device.
//!
//! That a request takes long says nothing of the device, which may have much to do. So its node says it with each answer, by what
//! the device once took at the worst.

use super::reach::Reach;
use super::together::either;
use forebay_model::{Error, Result};
use std::future::Future;
use std::time::Duration;

/// So often who waits looks whether the device is known to be slow by now.
const LOOKED: Duration = Duration::from_millis(100);

impl Reach {
    /// What comes of something that changes a component: an error, if its device is slow and the file does without it from now on.
    pub(super) async fn unless_slow<T>(&self, component: u32, change: impl Future<Output = Result<T>>) -> Result<T> {
        if self.striping.spare() == 0 {
            return change.await;
        }
        if self.leave_if_slow(component) {
            return Err(is_left(component));
        }
        let left = async {
            loop {
                self.clock.sleep(LOOKED).await;
                if self.leave_if_slow(component) {
                    return Some(Err(is_left(component)));
                }
            }
        };
        either(change, left).await
    }

    /// Whether it is left. If the others are as slow, nothing is won by that.
    fn leave_if_slow(&self, component: u32) -> bool {
        if !self.components.is_slow(component) {
            return false;
        }
        let others = || self.family(component).filter(|other| *other != component);
        let slow = others().filter(|other| self.components.is_slow(*other)).count();
        2 * slow < others().count() && self.leave(component)
    }
}

fn is_left(component: u32) -> Error {
    Error::device(format!(
        "the device of component {component} has become far slower than it was, and its file does without it; drain its target, or \
         measure its profile anew"
    ))
}
