use super::*;
use crate::mailbox::mailbox;
use crate::real::thread;
use std::cell::Cell;
use std::time::Duration;

#[test]
fn the_result_of_the_main_future_is_the_result() {
    assert_eq!(run_network(|_| async { 7 }).unwrap(), 7);
}

#[test]
fn timers_fire_in_order_never_early_and_hardly_late() {
    run_network(|env| async move {
        let seen: Rc<RefCell<Vec<u64>>> = Rc::default();
        let start = env.clock.now();
        let late: Rc<Cell<Duration>> = Rc::new(Cell::new(Duration::MAX));
        let tasks: Vec<_> = [9, 3, 6, 3, 0, 12, 15, 18]
            .into_iter()
            .map(|millis| {
                let (env, seen, late) = (env.clone(), seen.clone(), late.clone());
                env.clone().spawner.spawn(async move {
                    let due = start + Duration::from_millis(millis);
                    env.clock.sleep_until(due).await;
                    assert!(env.clock.now() >= due);
                    late.set(late.get().min(env.clock.now().since(due)));
                    seen.borrow_mut().push(millis);
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        assert_eq!(*seen.borrow(), [0, 3, 3, 6, 9, 12, 15, 18]);
        // The machine may be busy: of the best of them only.
        assert!(late.get() < Duration::from_millis(1), "at best {:?} late", late.get());
    })
    .unwrap();
}

#[test]
fn limits_that_are_dropped_do_not_hold_up_what_is_due_later() {
    run_network(|env| async move {
        let start = env.clock.now();
        for _ in 0..100 {
            drop(env.clock.sleep(Duration::from_millis(1)));
        }
        env.clock.sleep(Duration::from_millis(5)).await;
        env.clock.sleep(Duration::from_millis(5)).await;
        assert!(env.clock.now().since(start) >= Duration::from_millis(10));
    })
    .unwrap();
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
    run_network(|_| async move {
        let mut turn = 0;
        while let Some(answer) = inbox.receive().await {
            answer.send(turn).unwrap();
            turn += 1;
        }
    })
    .unwrap();
    asking.join().unwrap();
}

/// Adds one to its counter when dropped.
struct Dropped(Arc<std::sync::atomic::AtomicUsize>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }
}

#[test]
fn all_tasks_and_connections_end_with_the_main_future() {
    let dropped: Arc<std::sync::atomic::AtomicUsize> = Arc::default();
    let seen = dropped.clone();
    let address = run_network(|env| async move {
        let door = env.fabric.listen("127.0.0.1:0").await.unwrap();
        let address = door.address();
        let connecting = env.fabric.connect(&address);
        for _ in 0..10 {
            let (env, kept) = (env.clone(), Dropped(seen.clone()));
            env.clone().spawner.detach(async move {
                let _kept = kept;
                env.clock.sleep(Duration::from_secs(3600)).await;
            });
        }
        let (ours, theirs) = (connecting.await.unwrap(), door.accept().await.unwrap());
        env.spawner.detach(async move {
            let _kept = (door, ours, theirs);
            std::future::pending::<()>().await;
        });
        address
    })
    .unwrap();
    assert_eq!(dropped.load(Ordering::SeqCst), 10);
    let refused = run_network(|env| async move { env.fabric.connect(&address).await.err().unwrap().kind }).unwrap();
    assert_eq!(refused, forebay_model::Kind::Missing);
}

#[test]
fn a_panic_of_a_task_is_a_panic_of_the_loop() {
    let caught = std::panic::catch_unwind(|| {
        run_network(|env| async move {
            env.spawner.detach(async { panic!("on purpose") });
            std::future::pending::<()>().await;
        })
    });
    assert_eq!(caught.unwrap_err().downcast_ref::<&str>(), Some(&"on purpose"));
}

#[test]
fn a_task_that_is_always_ready_does_not_keep_others_from_the_network() {
    run_network(|env| async move {
        env.spawner.detach(async {
            loop {
                crate::yield_now().await;
            }
        });
        let door = env.fabric.listen("127.0.0.1:0").await.unwrap();
        let accepting = env.spawner.spawn(door.accept());
        env.fabric.connect(&door.address()).await.unwrap();
        accepting.await.unwrap();
        env.clock.sleep(Duration::from_millis(2)).await;
    })
    .unwrap();
}
