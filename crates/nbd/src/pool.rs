//! Threads that do what connections ask of the device, whoever asked first. They never wait for a client: answers go to
//! the connection's own thread.

use forebay_env::real::thread;
use forebay_model::Result;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Requests that are done at once. In a process that is not the cluster's owner each takes a connection to that.
const WORKERS: usize = 16;

/// Something to be done.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The threads. What waits is bounded by the connections, each by its window.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// Gives jobs to the threads.
#[derive(Clone)]
pub(crate) struct Jobs(Arc<Shared>);

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    pub(crate) fn start() -> Result<Pool> {
        let mut pool = Pool { shared: Arc::default(), threads: Vec::new() };
        for _ in 0..WORKERS {
            let shared = pool.shared.clone();
            pool.threads.push(thread::spawn("nbd", move || work(&shared))?);
        }
        Ok(pool)
    }

    pub(crate) fn jobs(&self) -> Jobs {
        Jobs(self.shared.clone())
    }
}

impl Drop for Pool {
    /// Everything that was given is done first.
    fn drop(&mut self) {
        self.shared.lock().closed = true;
        self.shared.changed.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Jobs {
    pub(crate) fn push(&self, job: Job) {
        self.0.lock().jobs.push_back(job);
        self.0.changed.notify_one();
    }
}

fn work(shared: &Shared) {
    let mut state = shared.lock();
    loop {
        match state.jobs.pop_front() {
            Some(job) => {
                drop(state);
                job();
                state = shared.lock();
            }
            None if state.closed => return,
            None => state = shared.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
        }
    }
}
