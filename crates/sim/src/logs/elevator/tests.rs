use super::*;
use crate::disk::{SimDisk, presets};
use crate::logs::batch::Ended;
use crate::world::World;

fn elevator(world: &World, depth: usize) -> (Elevator, SimDisk) {
    let disk = world.disk(presets::cheetah15k());
    let spec = ElevatorSpec { depth, ..ElevatorSpec::default() };
    (Elevator::new(spec, world.env(disk.clone())).unwrap(), disk)
}

/// Requests in the order in which they ended, by their numbers.
fn order(world: &World, elevator: &Elevator, requests: &[(Op, u64)]) -> Vec<usize> {
    let ended = Rc::new(RefCell::new(Vec::new()));
    let mut last = Vec::new();
    for (number, (op, at)) in requests.iter().enumerate() {
        let batch = Rc::new(Batch::default());
        elevator.submit(*op, &[(*at, 4096)], &batch);
        let ended = ended.clone();
        last.push(world.spawner().spawn(async move {
            Ended(batch).await.unwrap();
            ended.borrow_mut().push(number);
        }));
    }
    world.run(async move {
        for task in last {
            task.await;
        }
    });
    ended.take()
}

const GB: u64 = 1_000_000_000 / 4096 * 4096;

#[test]
fn what_waits_is_served_upwards_whatever_the_order_of_arrival() {
    let world = World::new(1);
    let (elevator, _) = elevator(&world, 1);
    // The first goes at once; the others wait for it.
    let requests = [50, 90, 10, 70, 60, 20].map(|at| (Op::Write, at * GB));
    assert_eq!(order(&world, &elevator, &requests), [0, 4, 3, 1, 2, 5]);
}

#[test]
fn reads_go_before_writes_until_writes_have_starved() {
    let world = World::new(1);
    let (elevator, _) = elevator(&world, 1);
    let mut requests = vec![(Op::Read, 0), (Op::Write, 100 * GB)];
    requests.extend((0..60).map(|i| (Op::Read, (200 + i) * GB)));
    let order = order(&world, &elevator, &requests);
    let place = order.iter().position(|number| *number == 1).unwrap();
    assert_eq!(place, 3 * 16, "the batch under way and two more pass: {order:?}");
}

#[test]
fn a_request_that_has_waited_too_long_is_next() {
    let world = World::new(1);
    let (elevator, _) = elevator(&world, 1);
    let mut requests = vec![(Op::Read, 100 * GB), (Op::Read, 0)];
    requests.extend((1..380).map(|i| (Op::Read, 100 * GB + i * GB / 2 / 4096 * 4096)));
    let order = order(&world, &elevator, &requests);
    let place = order.iter().position(|number| *number == 1).unwrap();
    assert!((16..370).contains(&place), "{place}");
}

#[test]
fn neighbours_are_one_request_up_to_the_longest() {
    let world = World::new(1);
    let (elevator, disk) = elevator(&world, 1);
    let batch = Rc::new(Batch::default());
    let blocks: Vec<(u64, u64)> = (0..256).map(|i| (i * 4096, 4096)).collect();
    elevator.submit(Op::Write, &blocks, &batch);
    world.run(Ended(batch)).unwrap();
    assert_eq!((disk.started(), disk.counters().bytes_written), (2, Bytes::mib(1)));
    let batch = Rc::new(Batch::default());
    elevator.submit(Op::Write, &[(0, 2 << 20)], &batch);
    world.run(Ended(batch)).unwrap();
    assert_eq!(disk.started(), 6);
}

#[test]
fn the_disk_has_no_more_at_once_than_it_should() {
    let world = World::new(1);
    let (elevator, disk) = elevator(&world, 3);
    let batch = Rc::new(Batch::default());
    let blocks: Vec<(u64, u64)> = (0..10).map(|i| (i * GB, 4096)).collect();
    elevator.submit(Op::Read, &blocks, &batch);
    assert_eq!(disk.started(), 3);
    world.run(Ended(batch)).unwrap();
    assert_eq!(disk.started(), 10);
}

#[test]
fn flushes_that_come_while_one_is_under_way_share_the_next() {
    let world = World::new(1);
    let disk = world.disk(presets::sata7200());
    let elevator = Elevator::new(ElevatorSpec::default(), world.env(disk.clone())).unwrap();
    let ended = world.run(async {
        let mut ended = Vec::new();
        for at in 0..5 {
            let written = Rc::new(Batch::default());
            elevator.submit(Op::Write, &[(at * 100 * GB, 4096)], &written);
            Ended(written).await.unwrap();
            let flushed = Rc::new(Batch::default());
            elevator.flush(&flushed);
            ended.push(Ended(flushed));
        }
        for flushed in ended {
            flushed.await.unwrap();
        }
        disk.unflushed()
    });
    assert_eq!((ended, disk.counters().flushes), (Bytes::ZERO, 2));
}
