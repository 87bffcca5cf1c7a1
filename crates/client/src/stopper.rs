//! Ends a wait from another thread: a recorder that waits for room, a query that waits for more.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

type Hook = Box<dyn Fn() + Send + Sync>;

/// A request to stop, once made never withdrawn. Cheap to clone.
#[derive(Clone, Default)]
pub struct Stopper {
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    stopped: AtomicBool,
    /// What ends the wait that may be under way.
    hook: Mutex<Option<Hook>>,
}

impl Stopper {
    /// Asks for the stop.
    pub fn stop(&self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        if let Some(hook) = &*self.shared.hook.lock().unwrap_or_else(PoisonError::into_inner) {
            hook();
        }
    }

    /// Whether the stop was asked for.
    pub fn is_stopped(&self) -> bool {
        self.shared.stopped.load(Ordering::SeqCst)
    }

    /// Calls `hook` when the stop is asked for (at once if it was), in place of the hook before.
    pub fn on_stop(&self, hook: impl Fn() + Send + Sync + 'static) {
        let mut place = self.shared.hook.lock().unwrap_or_else(PoisonError::into_inner);
        if self.is_stopped() {
            hook();
        }
        *place = Some(Box::new(hook));
    }

    /// Forgets the hook.
    pub fn clear(&self) {
        *self.shared.hook.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}
