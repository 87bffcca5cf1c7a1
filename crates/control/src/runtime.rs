//! Tokio's loop for one thread, with sockets and timers.

use forebay_model::{Error, Result};
use tokio::runtime::{Builder, Runtime};

/// A loop that runs on the thread that enters it.
pub(crate) fn runtime() -> Result<Runtime> {
    Builder::new_current_thread().enable_all().build().map_err(|e| {
        Error::busy(format!("the loop of the control plane could not be started: {e}; close some files and try again"))
    })
}
