// Tests of what threads share need threads.
#![allow(clippy::disallowed_methods)]

use super::*;
use crate::mailbox::mailbox;
use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

fn executor() -> Executor {
    Executor::new(|| {})
}

/// Adds one to its counter when dropped.
struct Dropped(Rc<Cell<usize>>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.set(self.0.get() + 1);
    }
}

#[test]
fn tasks_run_in_the_order_in_which_they_were_woken() {
    let executor = executor();
    let seen: Rc<RefCell<Vec<u32>>> = Rc::default();
    for number in 0..4 {
        let seen = seen.clone();
        executor.spawner().detach(async move {
            seen.borrow_mut().push(number);
            yield_now().await;
            seen.borrow_mut().push(number + 10);
        });
    }
    assert!(executor.run_ready(100));
    assert_eq!(*seen.borrow(), [0, 1, 2, 3, 10, 11, 12, 13]);
}

#[test]
fn a_limit_is_kept_and_says_that_more_is_ready() {
    let executor = executor();
    let runs = Rc::new(Cell::new(0));
    let count = runs.clone();
    executor.spawner().detach(async move {
        loop {
            count.set(count.get() + 1);
            yield_now().await;
        }
    });
    assert!(!executor.run_ready(7));
    assert_eq!(runs.get(), 7);
    executor.kill_all();
    assert!(executor.run_ready(7));
}

#[test]
fn the_handle_gives_the_result_and_dropping_it_cancels() {
    let executor = executor();
    let spawner = executor.spawner();
    let result = Rc::new(Cell::new(0));
    let kept = spawner.spawn(async { 5 });
    let out = result.clone();
    spawner.detach(async move { out.set(kept.await) });
    let dropped = Rc::new(Cell::new(0));
    let guard = Dropped(dropped.clone());
    drop(spawner.spawn(async move {
        let _guard = guard;
        std::future::pending::<()>().await;
    }));
    assert!(executor.run_ready(100));
    assert_eq!((result.get(), dropped.get()), (5, 1));
}

#[test]
fn detached_tasks_are_swept_and_the_running_ones_are_not() {
    let executor = executor();
    let spawner = executor.spawner();
    let (sender, mut receiver) = mailbox::<u32>();
    let got = Rc::new(Cell::new(0));
    let out = got.clone();
    spawner.detach(async move { out.set(receiver.receive().await.unwrap()) });
    for _ in 0..10_000 {
        spawner.detach(async {});
        executor.run_ready(10);
    }
    assert!(
        executor.running.tasks.borrow().len() < 200,
        "{} ended tasks are kept",
        executor.running.tasks.borrow().len()
    );
    sender.send(3).unwrap();
    executor.run_ready(10);
    assert_eq!(got.get(), 3);
}

#[test]
fn a_kill_ends_every_task_also_those_that_destructors_start() {
    let executor = executor();
    let spawner = executor.spawner();
    let dropped = Rc::new(Cell::new(0));
    struct Starter(Spawner, Rc<Cell<usize>>);
    impl Drop for Starter {
        fn drop(&mut self) {
            let guard = Dropped(self.1.clone());
            self.0.detach(async move {
                let _guard = guard;
                std::future::pending::<()>().await;
            });
        }
    }
    let starter = Starter(spawner.clone(), dropped.clone());
    let guard = Dropped(dropped.clone());
    spawner.detach(async move {
        let _held = (starter, guard);
        std::future::pending::<()>().await;
    });
    executor.run_ready(100);
    executor.kill_all();
    assert_eq!(dropped.get(), 2);
    assert!(executor.run_ready(1));
}

#[test]
fn wake_ups_from_other_threads_unpark_the_loop() {
    let wakes = Arc::new(AtomicUsize::new(0));
    let executor = Executor::new({
        let wakes = wakes.clone();
        move || {
            wakes.fetch_add(1, Ordering::SeqCst);
        }
    });
    let (sender, mut receiver) = mailbox::<u32>();
    let sum = Rc::new(Cell::new(0));
    let out = sum.clone();
    executor.spawner().detach(async move {
        while let Some(number) = receiver.receive().await {
            out.set(out.get() + number);
        }
    });
    executor.run_ready(10);
    let before = wakes.load(Ordering::SeqCst);
    std::thread::spawn(move || {
        for _ in 0..100 {
            sender.send(1).unwrap();
        }
    })
    .join()
    .unwrap();
    assert!(wakes.load(Ordering::SeqCst) > before);
    assert!(executor.run_ready(1000));
    assert_eq!(sum.get(), 100);
}

#[test]
fn tasks_that_were_set_apart_end_alone_or_with_all_others() {
    let executor = executor();
    let dropped: Rc<Cell<usize>> = Rc::default();
    let (here, apart) = (executor.spawner(), executor.spawner().apart());
    let further = apart.apart();
    for spawner in [&here, &apart, &further] {
        let kept = Dropped(dropped.clone());
        spawner.detach(async move {
            let _kept = kept;
            std::future::pending::<()>().await;
        });
    }
    executor.run_ready(100);
    apart.end_all();
    executor.run_ready(100);
    assert_eq!(dropped.get(), 2);
    let kept = Dropped(dropped.clone());
    further.detach(async move {
        let _kept = kept;
        std::future::pending::<()>().await;
    });
    executor.kill_all();
    assert_eq!(dropped.get(), 4);
}

#[test]
fn what_is_paused_runs_when_it_is_resumed_or_ends_when_it_is_ended() {
    let executor = executor();
    let (here, apart) = (executor.spawner(), executor.spawner().apart());
    let further = apart.apart();
    let (runs, dropped): (Rc<RefCell<Vec<u32>>>, Rc<Cell<usize>>) = Default::default();
    for (number, spawner) in [&here, &apart, &further].into_iter().enumerate() {
        let (runs, dropped) = (runs.clone(), Dropped(dropped.clone()));
        spawner.detach(async move {
            let _dropped = dropped;
            loop {
                runs.borrow_mut().push(number as u32);
                yield_now().await;
            }
        });
    }
    executor.run_ready(3);
    apart.pause();
    executor.run_ready(5);
    // Those that were ready ran once more.
    assert_eq!(runs.take(), [0, 1, 2, 0, 1, 2, 0, 0]);
    apart.resume();
    executor.run_ready(6);
    assert_eq!(runs.take(), [0, 1, 2, 0, 1, 2]);
    apart.pause();
    executor.run_ready(10);
    further.end_all();
    apart.end_all();
    executor.run_ready(10);
    assert_eq!(dropped.get(), 2);
    apart.pause();
    apart.detach({
        let dropped = Dropped(dropped.clone());
        async move { drop(dropped) }
    });
    executor.kill_all();
    assert_eq!(dropped.get(), 4, "nothing is left when the loop ends");
}
