//! Threads that do what connections ask of the device, whoever asked first. They never wait for a client: answers go to
//! the connection's own thread.

use forebay_env::real::thread;
use forebay_env::watched::Watched;
use forebay_model::Result;
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests that are done at once. In a process that is not the cluster's owner each takes a connection to that.
const WORKERS: usize = 16;

/// Something to be done.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The threads. What waits is bounded by the connections, each by its window.
pub(crate) struct Pool {
    shared: Arc<Watched<State>>,
    threads: Vec<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// Gives jobs to the threads.
#[derive(Clone)]
pub(crate) struct Jobs(Arc<Watched<State>>);

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
        self.shared.change(|state| state.closed = true);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

impl Jobs {
    pub(crate) fn push(&self, job: Job) {
        self.0.lock().jobs.push_back(job);
        self.0.tell_one();
    }
}

fn work(shared: &Watched<State>) {
    let mut state = shared.lock();
    loop {
        match state.jobs.pop_front() {
            Some(job) => {
                drop(state);
                job();
                state = shared.lock();
            }
            None if state.closed => return,
            None => state = shared.wait(state),
        }
    }
}
