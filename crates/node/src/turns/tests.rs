use super::Turns;
use forebay_env::executor::{Executor, yield_now};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

#[test]
fn each_has_its_turn_alone_in_the_order_of_the_tickets_whoever_waits_first() {
    let executor = Executor::new(|| {});
    let (turns, order, inside) = (Rc::new(Turns::default()), Rc::new(RefCell::new(Vec::new())), Rc::new(Cell::new(0)));
    let mut tickets: Vec<_> = (0..20).map(|number| (number, turns.ticket())).collect();
    // The last waits first.
    while let Some((number, ticket)) = tickets.pop() {
        let (turns, order, inside) = (turns.clone(), order.clone(), inside.clone());
        executor.spawner().detach(async move {
            let turn = turns.wait(ticket).await;
            inside.set(inside.get() + 1);
            yield_now().await;
            assert_eq!(inside.get(), 1, "{number} is alone");
            order.borrow_mut().push(number);
            inside.set(0);
            drop(turn);
        });
    }
    assert!(executor.run_ready(10_000));
    assert_eq!(*order.borrow(), (0..20).collect::<Vec<_>>());
    let after = Rc::new(Cell::new(false));
    let done = after.clone();
    executor.spawner().detach(async move {
        drop(turns.take().await);
        done.set(true);
    });
    assert!(executor.run_ready(10_000));
    assert!(after.get(), "it is free again");
}
