//! The one loop of a target: tasks on one thread, run in the order in which they were woken.
//!
//! The loop around it decides what happens when nothing is ready: in reality wait for the ring or a timer, in
//! simulation move the clock to the next event.

use async_task::Runnable;
pub use async_task::Task;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::Future;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

type Unpark = Arc<dyn Fn() + Send + Sync>;

/// Tasks that are ready to run, in the order in which they were woken.
pub struct Executor {
    queue: Arc<Queue>,
    running: Rc<Running>,
}

/// Tasks that run until they end or are ended.
#[derive(Default)]
struct Running {
    tasks: RefCell<Vec<Task<()>>>,
    /// Those that can also be ended apart from these.
    apart: RefCell<Vec<Rc<Running>>>,
    /// Through which they get to the queue, if they can be paused.
    gate: Option<Arc<Gate>>,
}

/// Keeps tasks from running for a while that are ready to.
struct Gate {
    beyond: Door,
    /// Those that became ready while it is shut.
    held: Mutex<Option<VecDeque<Runnable>>>,
}

/// Where a task goes that is ready.
#[derive(Clone)]
enum Door {
    Queue(Arc<Queue>),
    Gate(Arc<Gate>),
}

impl Door {
    fn pass(&self, runnable: Runnable) {
        match self {
            Door::Queue(queue) => queue.push(runnable),
            Door::Gate(gate) => gate.pass(runnable),
        }
    }
}

impl Gate {
    fn pass(&self, runnable: Runnable) {
        if let Some(held) = self.held().as_mut() {
            return held.push_back(runnable);
        }
        self.beyond.pass(runnable);
    }

    fn shut(&self) {
        self.held().get_or_insert_default();
    }

    fn open(&self) {
        let held = self.held().take();
        held.into_iter().flatten().for_each(|runnable| self.beyond.pass(runnable));
    }

    fn held(&self) -> MutexGuard<'_, Option<VecDeque<Runnable>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Running {
    /// All of them, none of which is paused any more, so that it ends when it is dropped.
    fn take(&self) -> Vec<Task<()>> {
        if let Some(gate) = &self.gate {
            gate.open();
        }
        let mut all = std::mem::take(&mut *self.tasks.borrow_mut());
        for apart in self.apart.borrow().iter() {
            all.extend(apart.take());
        }
        all
    }
}

struct Queue {
    ready: Mutex<VecDeque<Runnable>>,
    /// Called for each wake-up, so that a loop asleep in the kernel looks again. Cheap when the loop is awake.
    unpark: Unpark,
}

impl Queue {
    fn push(&self, runnable: Runnable) {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).push_back(runnable);
        (self.unpark)();
    }

    fn pop(&self) -> Option<Runnable> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }
}

/// Starts tasks on the loop it came from. Stays on that loop's thread.
#[derive(Clone)]
pub struct Spawner {
    door: Door,
    running: Rc<Running>,
}

impl Executor {
    /// An empty loop. `unpark` is called, on any thread, whenever a task becomes ready.
    pub fn new(unpark: impl Fn() + Send + Sync + 'static) -> Executor {
        Executor {
            queue: Arc::new(Queue { ready: Mutex::new(VecDeque::new()), unpark: Arc::new(unpark) }),
            running: Rc::default(),
        }
    }

    /// Starts tasks here.
    pub fn spawner(&self) -> Spawner {
        Spawner { door: Door::Queue(self.queue.clone()), running: self.running.clone() }
    }

    /// Runs ready tasks until none is, or `limit` have run. True if none is ready any more.
    pub fn run_ready(&self, limit: usize) -> bool {
        for _ in 0..limit {
            match self.queue.pop() {
                Some(runnable) => {
                    runnable.run();
                }
                None => return true,
            }
        }
        false
    }

    /// Ends all tasks, wherever they are: what a kill does to a process. Their destructors run.
    pub fn kill_all(&self) {
        loop {
            let tasks = self.running.take();
            let ended = tasks.is_empty();
            drop(tasks);
            while let Some(runnable) = self.queue.pop() {
                drop(runnable);
            }
            if ended {
                return;
            }
        }
    }
}

impl Spawner {
    /// Starts `future`; the handle gives its result. Dropping the handle cancels it; see [`Spawner::detach`].
    pub fn spawn<T: 'static>(&self, future: impl Future<Output = T> + 'static) -> Task<T> {
        let door = self.door.clone();
        let (runnable, task) = async_task::spawn_local(future, move |runnable| door.pass(runnable));
        runnable.schedule();
        task
    }

    /// Starts `future` and lets it run until it ends or the loop is killed.
    pub fn detach(&self, future: impl Future<Output = ()> + 'static) {
        let task = self.spawn(future);
        let mut running = self.running.tasks.borrow_mut();
        // Ended tasks are swept when they are half of the list, so that the list stays in proportion.
        if running.len() >= 64 && running.len().is_power_of_two() {
            running.retain(|t| !t.is_finished());
        }
        running.push(task);
    }

    /// Tasks that were detached here and have not ended.
    #[cfg(test)]
    pub(crate) fn detached(&self) -> usize {
        self.running.tasks.borrow().iter().filter(|task| !task.is_finished()).count()
    }

    /// One whose detached tasks can be ended apart from those of others, and whose tasks can be paused. They end with the loop as
    /// well.
    pub fn apart(&self) -> Spawner {
        let gate = Arc::new(Gate { beyond: self.door.clone(), held: Mutex::default() });
        let running = Rc::new(Running { gate: Some(gate.clone()), ..Running::default() });
        self.running.apart.borrow_mut().push(running.clone());
        Spawner { door: Door::Gate(gate), running }
    }

    /// Tasks that were started on what was set [`Spawner::apart`], here or further apart, do not run until they are resumed or
    /// ended, but for those that are ready now: what a stop signal does to the processes of a machine.
    pub fn pause(&self) {
        if let Some(gate) = &self.running.gate {
            gate.shut();
        }
    }

    /// They run again, in the order in which they became ready.
    pub fn resume(&self) {
        if let Some(gate) = &self.running.gate {
            gate.open();
        }
    }

    /// Ends all tasks that were detached here and on what was set [`Spawner::apart`] from here: what a crash does to the
    /// processes of a machine. Each is dropped when the loop comes to it.
    pub fn end_all(&self) {
        loop {
            let tasks = self.running.take();
            if tasks.is_empty() {
                return;
            }
        }
    }
}

/// Lets others run: who computes for long between pieces of I/O asks for the next one first.
pub async fn yield_now() {
    let mut yielded = false;
    std::future::poll_fn(|context| {
        if std::mem::replace(&mut yielded, true) {
            return std::task::Poll::Ready(());
        }
        context.waker().wake_by_ref();
        std::task::Poll::Pending
    })
    .await
}

#[cfg(test)]
mod tests;
