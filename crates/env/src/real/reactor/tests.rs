use super::*;
use crate::mailbox::mailbox;
use crate::real::{create_file, thread};
use crate::yield_now;
use crate::{Buffer, Slab};
use forebay_model::Bytes;
use std::cell::Cell;
use std::time::Duration;

fn on_file<T: 'static, F: Future<Output = T> + 'static>(make: impl FnOnce(Env) -> F) -> T {
    let folder = tempfile::tempdir().unwrap();
    let device = create_file(folder.path().join("device"), Bytes::mib(1)).unwrap();
    run(Options { device }, make).unwrap()
}

#[test]
fn the_result_of_the_main_future_is_the_result() {
    assert_eq!(on_file(|_| async { 7 }), 7);
}

#[test]
fn timers_fire_in_order_and_never_early() {
    on_file(|env| async move {
        let seen: Rc<RefCell<Vec<u64>>> = Rc::default();
        let start = env.clock.now();
        let tasks: Vec<_> = [9, 3, 6, 3, 0]
            .into_iter()
            .map(|millis| {
                let (env, seen) = (env.clone(), seen.clone());
                env.clone().spawner.spawn(async move {
                    let due = start + Duration::from_millis(millis);
                    env.clock.sleep_until(due).await;
                    assert!(env.clock.now() >= due);
                    seen.borrow_mut().push(millis);
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        assert_eq!(*seen.borrow(), [0, 3, 3, 6, 9]);
    });
}

#[test]
fn dropped_sleeps_leave_nothing_behind() {
    let clock = RealClock::default();
    use crate::Clock;
    let kept = clock.sleep(Duration::from_secs(3600));
    for _ in 0..1000 {
        drop(clock.sleep(Duration::from_secs(7200)));
    }
    let due = clock.next_due().unwrap();
    assert!(clock.timer_count() < 200, "{} timers for one sleep", clock.timer_count());
    clock.fire(due);
    drop(kept);
    assert!(clock.next_due().is_none_or(|next| next > due));
}

#[test]
fn another_thread_wakes_a_sleeping_loop_a_hundred_thousand_times() {
    let (requests, mut inbox) = mailbox::<std::sync::mpsc::Sender<u64>>();
    let asking = thread::spawn("asking", move || {
        let (answer, answers) = std::sync::mpsc::channel();
        for turn in 0..100_000u64 {
            // The loop sleeps, or is about to, whenever a request comes.
            requests.send(answer.clone()).unwrap();
            assert_eq!(answers.recv().unwrap(), turn);
        }
    })
    .unwrap();
    on_file(|_| async move {
        let mut turn = 0;
        while let Some(answer) = inbox.receive().await {
            answer.send(turn).unwrap();
            turn += 1;
        }
    });
    asking.join().unwrap();
}

#[test]
fn buffers_given_back_by_another_thread_wake_the_loop() {
    let slab = Slab::new(Bytes::kib(4), 1).unwrap();
    let (hand_over, taken) = std::sync::mpsc::channel::<Buffer>();
    let dropping = thread::spawn("dropping", move || taken.into_iter().count()).unwrap();
    on_file(|_| async move {
        for _ in 0..1000 {
            hand_over.send(slab.take().await).unwrap();
        }
    });
    assert_eq!(dropping.join().unwrap(), 1000);
}

#[test]
fn a_busy_task_holds_up_neither_timers_nor_io() {
    on_file(|env| async move {
        let ended = Rc::new(Cell::new(0));
        for _ in 0..2 {
            let (env, ended) = (env.clone(), ended.clone());
            env.clone().spawner.detach(async move {
                env.clock.sleep(Duration::from_millis(1)).await;
                env.device.read(Bytes(0), Buffer::alone(Bytes::kib(4)).unwrap()).await.1.unwrap();
                ended.set(ended.get() + 1);
            });
        }
        while ended.get() < 2 {
            yield_now().await;
        }
    });
}

#[test]
fn tasks_end_with_the_loop_and_their_destructors_run() {
    struct Flag(Rc<Cell<u32>>);
    impl Drop for Flag {
        fn drop(&mut self) {
            self.0.set(self.0.get() + 1);
        }
    }
    let dropped = Rc::new(Cell::new(0));
    let count = dropped.clone();
    on_file(|env| async move {
        for _ in 0..3 {
            let (flag, env) = (Flag(count.clone()), env.clone());
            env.clone().spawner.detach(async move {
                let _flag = flag;
                loop {
                    env.device.read(Bytes(0), Buffer::alone(Bytes::kib(4)).unwrap()).await.1.unwrap();
                    env.clock.sleep(Duration::from_secs(3600)).await;
                }
            });
        }
        yield_now().await;
    });
    assert_eq!(dropped.get(), 3);
}

#[test]
fn a_panic_of_the_main_future_reaches_the_caller_after_the_io() {
    let slab = Slab::new(Bytes::kib(64), 4).unwrap();
    let lent = slab.clone();
    let caught = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        on_file(|env| async move {
            for _ in 0..4 {
                drop(env.device.write(Bytes(0), lent.try_take().unwrap()));
            }
            panic!("as asked");
        })
    }));
    assert!(caught.is_err());
}
