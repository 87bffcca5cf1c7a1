// Tests of what threads share need threads.
#![allow(clippy::disallowed_methods)]

use super::*;
use crate::executor::Executor;
use std::cell::RefCell;
use std::rc::Rc;

#[test]
fn messages_come_in_order_and_then_the_end() {
    let executor = Executor::new(|| {});
    let (sender, mut receiver) = mailbox();
    let seen: Rc<RefCell<Vec<u32>>> = Rc::default();
    let ended = Rc::new(std::cell::Cell::new(false));
    let (out, end) = (seen.clone(), ended.clone());
    executor.spawner().detach(async move {
        while let Some(number) = receiver.receive().await {
            out.borrow_mut().push(number);
        }
        end.set(true);
    });
    sender.send(1).unwrap();
    executor.run_ready(10);
    let second = sender.clone();
    second.send(2).unwrap();
    sender.send(3).unwrap();
    drop(sender);
    executor.run_ready(10);
    assert_eq!((seen.borrow().as_slice(), ended.get()), ([1, 2, 3].as_slice(), false));
    // The last sender's end is news too.
    drop(second);
    executor.run_ready(10);
    assert!(ended.get());
}

#[test]
fn what_nobody_will_receive_comes_back() {
    let (sender, receiver) = mailbox();
    sender.send("kept").unwrap();
    drop(receiver);
    assert_eq!(sender.send("returned"), Err("returned"));
}

#[test]
fn undelivered_messages_are_dropped_with_the_receiver_without_a_lock_held() {
    // A message that sends to the same box when it is dropped, as a reply channel may.
    struct Echo(Option<Sender<Echo>>);
    impl Drop for Echo {
        fn drop(&mut self) {
            if let Some(sender) = self.0.take() {
                let _ = sender.send(Echo(None));
            }
        }
    }
    let (sender, receiver) = mailbox();
    sender.send(Echo(Some(sender.clone()))).ok().unwrap();
    drop(receiver);
    assert!(sender.send(Echo(None)).is_err());
}

#[test]
fn many_threads_send_to_one_receiver_and_nothing_is_lost() {
    let (sender, mut receiver) = mailbox::<u64>();
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let sender = sender.clone();
            std::thread::spawn(move || (0..5000).for_each(|number| sender.send(number).unwrap()))
        })
        .collect();
    drop(sender);
    for thread in threads {
        thread.join().unwrap();
    }
    let executor = Executor::new(|| {});
    let sum: Rc<std::cell::Cell<u64>> = Rc::default();
    let total = sum.clone();
    executor.spawner().detach(async move {
        while let Some(number) = receiver.receive().await {
            total.set(total.get() + number);
        }
    });
    executor.run_ready(10);
    assert_eq!(sum.get(), 4 * (0..5000).sum::<u64>());
}
