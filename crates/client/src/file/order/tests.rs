use super::Order;
use forebay_env::Executor;
use std::cell::RefCell;
use std::rc::Rc;

#[test]
fn readers_share_writers_do_not_and_the_first_to_come_goes_first() {
    let (executor, order) = (Executor::new(|| ()), Rc::new(Order::default()));
    let got: Rc<RefCell<Vec<&str>>> = Rc::default();
    let mut tickets = Vec::new();
    for (name, stripes, alone) in [
        ("first", 0..4, false),
        ("beside", 2..3, false),
        ("writer", 1..3, true),
        ("behind", 2..6, false),
        ("apart", 9..10, true),
    ] {
        let ticket = Rc::new(order.enter(stripes, alone));
        let (waits, got) = (ticket.clone(), got.clone());
        executor.spawner().detach(async move {
            waits.granted().await;
            got.borrow_mut().push(name);
        });
        tickets.push(ticket);
    }
    executor.run_ready(100);
    assert_eq!(*got.borrow(), ["first", "beside", "apart"]);
    tickets.remove(0);
    executor.run_ready(100);
    assert_eq!(got.borrow().len(), 3, "one reader is left");
    tickets.remove(0);
    executor.run_ready(100);
    assert_eq!(got.borrow()[3..], ["writer"]);
    tickets.clear();
    executor.run_ready(100);
    assert_eq!(got.borrow()[4..], ["behind"]);
}
