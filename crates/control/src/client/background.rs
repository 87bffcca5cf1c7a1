//! The thread of a client, on which tokio waits for its connection. Whoever asks waits on an executor of its own.

use crate::runtime::runtime;
use forebay_env::real::thread::{self, JoinHandle};
use forebay_model::{Error, Result};
use std::future::Future;
use std::sync::mpsc;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::task;

/// A loop on a thread of its own; dropping it drops what runs there.
pub(super) struct Background {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    pub(super) fn start() -> Result<Background> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (tell, told) = mpsc::sync_channel(1);
        let thread = thread::spawn("forebay-asks", move || match runtime() {
            Err(error) => {
                // Whoever starts it waits for this.
                let _ = tell.send(Err(error));
            }
            Ok(runtime) => {
                let _ = tell.send(Ok(runtime.handle().clone()));
                // An error is that the other side was dropped: that says it too.
                let _ = runtime.block_on(stopped);
                // A name that is still looked up is looked up for nobody.
                runtime.shutdown_background();
            }
        })?;
        let handle = told.recv().map_err(|_| gone())??;
        Ok(Background { handle, stop: Some(stop), thread: Some(thread) })
    }

    /// Has this done there; it is given up when what is returned is dropped.
    pub(super) async fn run<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T>> + Send + 'static,
    ) -> Result<T> {
        let mut running = Running(self.handle.spawn(future));
        match (&mut running.0).await {
            Ok(outcome) => outcome,
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(_) => Err(gone()),
            },
        }
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It does nothing that could panic.
            let _ = thread.join();
        }
    }
}

fn gone() -> Error {
    Error::disconnected("the thread of the client has ended; connect again")
}

/// A task that ends when nobody waits for it.
struct Running<T>(task::JoinHandle<T>);

impl<T> Drop for Running<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
