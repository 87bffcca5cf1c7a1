//! The loop of a target in reality: tasks, timers and one device on one thread.
//!
//! A turn runs what is ready, then enters the kernel once: it hands over all new I/O and, if nothing is ready, waits
//! for the first of a completion, a timer and a wake-up from another thread. Such a wake-up costs a system call only
//! while the loop is asleep.

use super::clock::{self, RealClock};
use super::open::Opened;
use super::process;
use super::random::KernelRandom;
use super::uring::{UringDevice, Wait};
use crate::Env;
use crate::executor::Executor;
use forebay_model::Result;
use std::cell::RefCell;
use std::future::Future;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Tasks that run before the loop looks at the device and the timers again.
const SLICE: usize = 64;

/// What a loop runs on.
pub struct Options {
    /// The device of the target.
    pub device: Opened,
}

/// Runs the future that `make` gives on this thread until it ends; then ends all tasks that it started, and awaits
/// the I/O under way.
pub fn run<T, F>(options: Options, make: impl FnOnce(Env) -> F) -> Result<T>
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    run_on(options, |env, _| make(env))
}

/// As [`run`], and lets `make` see the device itself.
pub fn run_on<T, F>(options: Options, make: impl FnOnce(Env, Rc<UringDevice>) -> F) -> Result<T>
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    drive(UringDevice::new(options.device)?, make)
}

/// As [`run`], on a thread that others wait for: a panic of any task ends the process, before anything of the loop is
/// dropped.
pub fn run_or_end<T, F>(options: Options, make: impl FnOnce(Env) -> F) -> Result<T>
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    let name = options.device.geometry().name.clone();
    let guard = |turns: &dyn Fn() -> Result<()>| process::or_end(&format!("the loop of the target on {name}"), turns);
    drive_under(UringDevice::new(options.device)?, |env, _| make(env), guard)
}

/// The loop itself.
pub(super) fn drive<T, F>(device: UringDevice, make: impl FnOnce(Env, Rc<UringDevice>) -> F) -> Result<T>
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    drive_under(device, make, |turns| turns())
}

/// The same; `guard` is what its turns run under.
fn drive_under<T, F>(
    device: UringDevice,
    make: impl FnOnce(Env, Rc<UringDevice>) -> F,
    guard: impl FnOnce(&dyn Fn() -> Result<()>) -> Result<()>,
) -> Result<T>
where
    T: 'static,
    F: Future<Output = T> + 'static,
{
    process::keep_freed_memory();
    let device = Rc::new(device);
    let asleep = Arc::new(AtomicBool::new(false));
    let executor = Executor::new({
        let asleep = asleep.clone();
        let wake = device.wake_descriptor();
        move || {
            if asleep.load(Ordering::SeqCst) && asleep.swap(false, Ordering::SeqCst) {
                // It fails only if 2^64 wake-ups are unread, and then the loop is awake anyway.
                let _ = rustix::io::write(&*wake, &1u64.to_ne_bytes());
            }
        }
    });
    let clock = RealClock::default();
    let env = Env {
        device: device.clone(),
        clock: Rc::new(clock.clone()),
        random: Rc::new(KernelRandom::default()),
        spawner: executor.spawner(),
    };
    let outcome: Rc<RefCell<Option<T>>> = Rc::default();
    let main = {
        let outcome = outcome.clone();
        let future = make(env.clone(), device.clone());
        env.spawner.spawn(async move {
            let value = future.await;
            *outcome.borrow_mut() = Some(value);
        })
    };
    let ended = guard(&|| turn_until(&executor, &clock, &device, &asleep, || main.is_finished()));
    drop(main);
    executor.kill_all();
    let drained = device.drain();
    // Ended I/O may have woken tasks that nobody holds any more.
    executor.kill_all();
    ended.and(drained)?;
    let value = outcome.borrow_mut().take();
    Ok(value.expect("the main future has ended"))
}

fn turn_until(
    executor: &Executor,
    clock: &RealClock,
    device: &UringDevice,
    asleep: &AtomicBool,
    done: impl Fn() -> bool,
) -> Result<()> {
    loop {
        let mut idle = executor.run_ready(SLICE);
        if done() {
            return Ok(());
        }
        if idle {
            // From here on a wake-up writes to the descriptor. One that came just before has left its task in the
            // queue, under the queue's lock, so it is seen by looking once more.
            asleep.store(true, Ordering::SeqCst);
            idle = executor.run_ready(1);
        }
        let wait = match (idle, clock.next_due()) {
            (false, _) => Wait::No,
            (true, None) => Wait::Forever,
            (true, Some(due)) => Wait::For(due.since(clock::now())),
        };
        let wait = if wait == Wait::For(std::time::Duration::ZERO) { Wait::No } else { wait };
        let turned = device.turn(wait);
        asleep.store(false, Ordering::SeqCst);
        turned?;
        clock.fire(clock::now());
    }
}

#[cfg(test)]
mod tests;
