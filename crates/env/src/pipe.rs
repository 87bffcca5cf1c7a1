//! A queue from a loop's task to whoever reads, bounded in bytes: a slow reader makes the task wait, nothing else.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Poll, Waker};

struct Shared<T> {
    state: Mutex<State<T>>,
    filled: Condvar,
}

struct State<T> {
    queue: VecDeque<(T, usize)>,
    weight: usize,
    limit: usize,
    sender: bool,
    receiver: bool,
    send_waker: Option<Waker>,
    receive_waker: Option<Waker>,
}

/// The end that fills; one task has it.
pub struct Inlet<T> {
    shared: Arc<Shared<T>>,
}

/// The end that empties; one thread or task has it.
pub struct Outlet<T> {
    shared: Arc<Shared<T>>,
}

/// A pipe that holds things of a total weight of `limit` (and always at least one).
pub fn pipe<T>(limit: usize) -> (Inlet<T>, Outlet<T>) {
    let state = State {
        queue: VecDeque::new(),
        weight: 0,
        limit,
        sender: true,
        receiver: true,
        send_waker: None,
        receive_waker: None,
    };
    let shared = Arc::new(Shared { state: Mutex::new(state), filled: Condvar::new() });
    (Inlet { shared: shared.clone() }, Outlet { shared })
}

impl<T> Shared<T> {
    fn lock(&self) -> std::sync::MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> State<T> {
    fn take(&mut self) -> Option<T> {
        let (thing, weight) = self.queue.pop_front()?;
        self.weight -= weight;
        if let Some(waker) = self.send_waker.take() {
            waker.wake();
        }
        Some(thing)
    }
}

impl<T> Inlet<T> {
    /// Puts `thing` in once there is room. False if nobody will ever take it.
    pub async fn send(&self, thing: T, weight: usize) -> bool {
        let mut thing = Some(thing);
        std::future::poll_fn(|context| {
            let mut state = self.shared.lock();
            if !state.receiver {
                return Poll::Ready(false);
            }
            if state.weight > 0 && state.weight + weight > state.limit {
                state.send_waker = Some(context.waker().clone());
                return Poll::Pending;
            }
            state.weight += weight;
            state.queue.extend(thing.take().map(|t| (t, weight)));
            let waker = state.receive_waker.take();
            drop(state);
            self.shared.filled.notify_one();
            if let Some(waker) = waker {
                waker.wake();
            }
            Poll::Ready(true)
        })
        .await
    }

    /// Whether somebody still takes.
    pub fn is_open(&self) -> bool {
        self.shared.lock().receiver
    }
}

impl<T> Drop for Inlet<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.sender = false;
        let waker = state.receive_waker.take();
        drop(state);
        self.shared.filled.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

impl<T> Outlet<T> {
    /// The next thing, waiting on this thread; `None` at the end.
    pub fn receive_blocking(&mut self) -> Option<T> {
        let mut state = self.shared.lock();
        loop {
            if let Some(thing) = state.take() {
                return Some(thing);
            }
            if !state.sender {
                return None;
            }
            state = self.shared.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// The next thing, waiting as a task; `None` at the end.
    pub async fn receive(&mut self) -> Option<T> {
        std::future::poll_fn(|context| {
            let mut state = self.shared.lock();
            match state.take() {
                Some(thing) => Poll::Ready(Some(thing)),
                None if !state.sender => Poll::Ready(None),
                None => {
                    state.receive_waker = Some(context.waker().clone());
                    Poll::Pending
                }
            }
        })
        .await
    }
}

impl<T> Drop for Outlet<T> {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.receiver = false;
        let rest = std::mem::take(&mut state.queue);
        state.weight = 0;
        let waker = state.send_waker.take();
        drop(state);
        drop(rest);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}
