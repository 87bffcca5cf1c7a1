use super::Room;
use forebay_env::Executor;
use std::cell::RefCell;
use std::rc::Rc;

#[test]
fn no_more_is_under_way_than_there_is_room_for_unless_it_is_alone() {
    let (executor, room) = (Executor::new(|| ()), Room::of(10));
    let held = Rc::new(RefCell::new(Vec::new()));
    for bytes in [6, 4, 1, 50, 2] {
        let (room, held) = (room.clone(), held.clone());
        executor.spawner().detach(async move {
            let one = room.hold(bytes).await;
            held.borrow_mut().push((bytes, one));
        });
    }
    let has = || held.borrow().iter().map(|(bytes, _)| *bytes).collect::<Vec<u64>>();
    executor.run_ready(100);
    assert_eq!(has(), [6, 4]);
    assert!(!room.fits(0), "others wait");
    held.borrow_mut().remove(0);
    executor.run_ready(100);
    assert_eq!(has(), [4, 1]);
    held.borrow_mut().clear();
    executor.run_ready(100);
    assert_eq!(has(), [50], "more than there is, alone");
    held.borrow_mut().clear();
    executor.run_ready(100);
    assert_eq!(has(), [2]);
    assert!(room.fits(8) && !room.fits(9));
}
