//! Messages from other threads (or tasks) to one loop: unbounded in count, so bound what a message stands for
//! (staging buffers, reader windows) before sending it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

struct Shared<T> {
    state: Mutex<State<T>>,
}

struct State<T> {
    queue: VecDeque<T>,
    waker: Option<Waker>,
    senders: usize,
    closed: bool,
}

/// The end that sends. Clone it freely.
pub struct Sender<T> {
    shared: Arc<Shared<T>>,
}

/// The end that receives.
pub struct Receiver<T> {
    shared: Arc<Shared<T>>,
}

/// A fresh mailbox.
pub fn mailbox<T>() -> (Sender<T>, Receiver<T>) {
    let state = Mutex::new(State { queue: VecDeque::new(), waker: None, senders: 1, closed: false });
    let shared = Arc::new(Shared { state });
    (Sender { shared: shared.clone() }, Receiver { shared })
}

impl<T> Shared<T> {
    fn lock(&self) -> std::sync::MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> Sender<T> {
    /// Sends `message`, or gives it back if nobody will ever receive it.
    pub fn send(&self, message: T) -> Result<(), T> {
        let mut state = self.shared.lock();
        if state.closed {
            return Err(message);
        }
        state.queue.push_back(message);
        let waker = state.waker.take();
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
        Ok(())
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Self {
        self.shared.lock().senders += 1;
        Sender { shared: self.shared.clone() }
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.senders -= 1;
        let waker = if state.senders == 0 { state.waker.take() } else { None };
        drop(state);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Receiver<T> {
    /// The next message; `None` once every sender is gone and the box is empty.
    pub async fn receive(&mut self) -> Option<T> {
        std::future::poll_fn(|context| {
            let mut state = self.shared.lock();
            match state.queue.pop_front() {
                Some(message) => Poll::Ready(Some(message)),
                None if state.senders == 0 => Poll::Ready(None),
                None => {
                    state.waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<T> Receiver<T> {
    /// The next message, if it is there already.
    pub fn receive_now(&mut self) -> Option<T> {
        self.shared.lock().queue.pop_front()
    }
}

impl<T> Drop for Receiver<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.closed = true;
        // Undelivered messages may hold the last handle on things that lock in their turn: drop them outside.
        let rest = std::mem::take(&mut state.queue);
        drop(state);
        drop(rest);
    }
}

#[cfg(test)]
mod tests;
