//! The loop of a process that talks to other machines: tasks and timers of ours inside tokio's runtime, which waits for
//! the sockets.
//!
//! To tokio the loop is one future, woken when one of our tasks becomes ready and when the alarm of our timers goes off;
//! each time it runs a slice of tasks. A wake-up from another thread costs a system call only while the loop is asleep,
//! and one from a socket never does.

use super::TcpFabric;
use super::alarm::Alarm;
use super::tls::Tls;
use crate::executor::Executor;
use crate::fabric::NetworkEnv;
use crate::real::clock::{self, RealClock};
use crate::real::{KernelRandom, io_error, process};
use forebay_model::Result;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Tasks that run before the loop looks at the sockets and the timers again.
const SLICE: usize = 64;

/// Runs the future that `make` gives on this thread until it ends; then ends all tasks that it started, and their
/// connections. Another thread ends it by a message to that future.
pub fn run_network<T, F>(make: impl FnOnce(NetworkEnv) -> F) -> Result<T>
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    run_network_with(Tls::default(), make)
}

/// The same with TLS on its connections.
pub fn run_network_with<T, F>(tls: Tls, make: impl FnOnce(NetworkEnv) -> F) -> Result<T>
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    process::keep_freed_memory();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build()
        .map_err(|e| io_error("starting", "the loop of the network", &e))?;
    let outcome = {
        let _inside = runtime.enter();
        drive(&runtime, tls, make)
    };
    // Whoever still looks up a name does so for nobody: that thread is not waited for.
    runtime.shutdown_background();
    outcome
}

fn drive<T, F>(runtime: &tokio::runtime::Runtime, tls: Tls, make: impl FnOnce(NetworkEnv) -> F) -> Result<T>
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    let bell = Arc::new(Bell::default());
    let executor = Executor::new({
        let bell = bell.clone();
        move || bell.ring()
    });
    let clock = Rc::new(RealClock::default());
    let env = NetworkEnv {
        fabric: Rc::new(TcpFabric::new(clock.clone(), executor.spawner(), tls)),
        clock: clock.clone(),
        random: Rc::new(KernelRandom::default()),
        spawner: executor.spawner(),
    };
    let mut alarm = Alarm::new()?;
    let outcome: Rc<RefCell<Option<T>>> = Rc::default();
    let main = {
        let outcome = outcome.clone();
        let future = make(env.clone());
        env.spawner.spawn(async move {
            let value = future.await;
            *outcome.borrow_mut() = Some(value);
        })
    };
    let ended = runtime.block_on(std::future::poll_fn(|context| {
        let turned = turn(&executor, &clock, &mut alarm, &bell, context);
        match turned {
            _ if main.is_finished() => Poll::Ready(Ok(())),
            Ok(()) => Poll::Pending,
            Err(e) => Poll::Ready(Err(e)),
        }
    }));
    drop(main);
    executor.kill_all();
    ended?;
    let value = outcome.borrow_mut().take();
    Ok(value.expect("the main future has ended"))
}

/// Runs what is ready, and sees to it that `context` is woken when there is more.
fn turn(
    executor: &Executor,
    clock: &RealClock,
    alarm: &mut Alarm,
    bell: &Bell,
    context: &mut Context<'_>,
) -> Result<()> {
    bell.awake();
    clock.fire(clock::now());
    let mut idle = executor.run_ready(SLICE);
    if idle {
        bell.sleeps(context.waker());
        // A wake-up that came just before has left its task in the queue, under the queue's lock: one more look sees it.
        idle = executor.run_ready(1);
    }
    if idle {
        return alarm.wait_for(clock.next_due(), context);
    }
    bell.awake();
    context.waker().wake_by_ref();
    Ok(())
}

/// What wakes the loop, from any thread.
#[derive(Default)]
struct Bell {
    asleep: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

impl Bell {
    /// From here on, who rings wakes the loop.
    fn sleeps(&self, waker: &Waker) {
        let mut kept = self.waker.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_none_or(|kept| !kept.will_wake(waker)) {
            *kept = Some(waker.clone());
        }
        drop(kept);
        self.asleep.store(true, Ordering::SeqCst);
    }

    fn awake(&self) {
        self.asleep.store(false, Ordering::SeqCst);
    }

    fn ring(&self) {
        if self.asleep.load(Ordering::SeqCst)
            && self.asleep.swap(false, Ordering::SeqCst)
            && let Some(waker) = &*self.waker.lock().unwrap_or_else(PoisonError::into_inner)
        {
            waker.wake_by_ref();
        }
    }
}

#[cfg(test)]
mod tests;
