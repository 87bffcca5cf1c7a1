use super::Allowance;
use crate::Executor;
use std::cell::RefCell;
use std::rc::Rc;

#[test]
fn who_waits_is_let_in_in_turn_and_one_that_is_too_large_for_all_of_it_when_nothing_is_used() {
    let (executor, allowance) = (Executor::new(|| ()), Allowance::new(10));
    let (said, held) = (Rc::new(RefCell::new(Vec::new())), Rc::new(RefCell::new(Vec::new())));
    for (name, weight) in [("six", 6), ("five", 5), ("one", 1), ("thirty", 30), ("two", 2)] {
        let (allowance, said, held) = (allowance.clone(), said.clone(), held.clone());
        executor.spawner().detach(async move {
            let allowed = allowance.take(weight).await;
            said.borrow_mut().push(name);
            held.borrow_mut().push(allowed);
        });
    }
    let mut steps = Vec::new();
    loop {
        executor.run_ready(100);
        steps.push(said.borrow_mut().drain(..).collect::<Vec<_>>());
        if held.borrow().is_empty() {
            break;
        }
        let next = held.borrow_mut().remove(0);
        drop(next);
    }
    // "one" has room beside "six" and still waits for its turn.
    assert_eq!(steps[..3], [vec!["six"], vec!["five", "one"], vec![]], "{steps:?}");
    assert_eq!(steps.concat(), ["six", "five", "one", "thirty", "two"]);
    assert_eq!(allowance.used(), 0);
}

#[test]
fn who_gives_up_waiting_leaves_its_turn_to_the_next() {
    let (executor, allowance) = (Executor::new(|| ()), Allowance::new(10));
    let take = |weight| {
        let allowance = allowance.clone();
        executor.spawner().spawn(async move { allowance.take(weight).await })
    };
    let (held, large, small) = (take(5), take(9), take(1));
    executor.run_ready(100);
    assert!(held.is_finished() && !large.is_finished() && !small.is_finished());
    // Nothing is given back: the small one has room as soon as nobody is before it.
    drop(large);
    executor.run_ready(100);
    assert!(small.is_finished());
    assert_eq!(allowance.used(), 6);
    drop((held, small));
    executor.run_ready(100);
    assert_eq!(allowance.used(), 0);
}
