//! The only door to threads.

use forebay_model::{Error, Result};
pub use std::thread::JoinHandle;

/// Starts a thread that people see as `name` (its first 15 bytes are what tools show).
pub fn spawn<T: Send + 'static>(name: &str, body: impl FnOnce() -> T + Send + 'static) -> Result<JoinHandle<T>> {
    std::thread::Builder::new()
        .name(name.to_string())
        .spawn(body)
        .map_err(|e| Error::busy(format!("the thread '{name}' could not be started: {e}")))
}
