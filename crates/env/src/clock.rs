//! The door to time.

use forebay_model::{Moment, Timestamp};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// Monotonic time decides; wall time is data.
pub trait Clock {
    /// Monotonic time.
    fn now(&self) -> Moment;

    /// Monotonic time that passes while the machine sleeps, too: what somebody else waits for ends by it. It is not that of
    /// [`Clock::now`], and only differences of it count.
    fn through_sleep(&self) -> Moment {
        self.now()
    }

    /// Wall time. It may jump either way.
    fn wall(&self) -> Timestamp;

    /// Completes at or after `moment`.
    fn sleep_until(&self, moment: Moment) -> Pin<Box<dyn Future<Output = ()>>>;

    /// Completes `span` from now.
    fn sleep(&self, span: Duration) -> Pin<Box<dyn Future<Output = ()>>> {
        self.sleep_until(self.now() + span)
    }
}
