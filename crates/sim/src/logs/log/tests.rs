use super::*;
use crate::World;
use crate::disk::{SimDisk, presets};
use crate::logs::disks::Disks;
use crate::logs::elevator::ElevatorSpec;

const START: u64 = 1 << 30;

fn log(world: &World, blocks: u64, order: Order) -> (Rc<Log>, SimDisk) {
    let disk = world.disk(presets::cheetah15k());
    let array =
        Rc::new(Array::new(&Disks::simulated(world, std::slice::from_ref(&disk)), &ElevatorSpec::default()).unwrap());
    (Log::new(array, world.clock(), START..START + blocks * BLOCK.0, order), disk)
}

#[test]
fn blocks_go_home_once_with_neighbours_as_one_and_only_those_that_came_before() {
    let world = World::new(1);
    let (log, disk) = log(&world, 100, Order::Places);
    world.run(async {
        log.append(4).await.unwrap();
        log.keep([8192, 0, 4096, 1 << 20]);
        log.append(1).await.unwrap();
        log.keep([4096]);
    });
    let before = disk.counters();
    world.run(log.bring_home()).unwrap();
    let written = disk.counters() - before;
    assert_eq!((written.writes, written.bytes_written), (2, BLOCK * 4));
    let took = log.homeward();
    world.run(log.bring_home()).unwrap();
    assert_eq!(((disk.counters() - before).writes, log.homeward()), (2, took), "nothing was left");
}

#[test]
fn commit_by_commit_a_block_goes_home_with_the_last_that_has_it() {
    let world = World::new(1);
    let (log, disk) = log(&world, 100, Order::Commits);
    world.run(async {
        log.append(2).await.unwrap();
        log.keep([0, 4096]);
        log.append(2).await.unwrap();
        log.keep([4096, 8192]);
    });
    let before = disk.counters();
    world.run(log.bring_home()).unwrap();
    assert_eq!((disk.counters() - before).writes, 2, "0 alone, then 4096 with 8192");
}

#[test]
fn a_log_that_is_nearly_full_is_emptied_and_begins_again_at_its_start() {
    let world = World::new(1);
    let (log, disk) = log(&world, 16, Order::Places);
    world.run(async {
        for i in 0..40 {
            log.append(3).await.unwrap();
            log.keep([i * BLOCK.0]);
            assert!(log.appended.get() - log.home.get() <= 12 * BLOCK.0);
            assert!((START..=START + 16 * BLOCK.0).contains(&log.head.get()));
        }
    });
    assert!(log.homeward() > Duration::ZERO);
    assert!(disk.counters().bytes_written >= BLOCK * (3 * 40 + 36), "{:?}", disk.counters());
}

#[test]
fn who_asks_while_blocks_go_home_waits_for_that() {
    let world = World::new(1);
    let (log, disk) = log(&world, 100, Order::Places);
    world.run(async {
        log.append(50).await.unwrap();
        log.keep((0..50).map(|i| i << 30));
        let other = log.clone();
        let first = world.spawner().spawn(async move { other.bring_home().await });
        log.append(1).await.unwrap();
        log.keep([4096]);
        log.bring_home().await.unwrap();
        first.await.unwrap();
    });
    assert_eq!(disk.counters().writes, 2 + 50);
    assert_eq!(log.appended.get() - log.home.get(), BLOCK.0, "what came later is still in the log");
}
