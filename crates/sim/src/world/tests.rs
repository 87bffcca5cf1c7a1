use super::*;
use crate::disk::{Fault, Op, Survival, presets};
use forebay_env::Buffer;
use forebay_model::{Bytes, Kind};
use std::cell::RefCell;

fn buffer(byte: u8, length: u64) -> Buffer {
    let mut buffer = Buffer::alone(Bytes(length)).unwrap();
    buffer.fill(byte);
    buffer
}

#[test]
fn time_passes_only_by_waiting_and_exactly_as_long_as_asked() {
    let world = World::new(0);
    let clock = world.clock();
    let seen = world.run(async {
        let begin = clock.now();
        clock.sleep(Duration::from_nanos(1)).await;
        let then = clock.now();
        clock.sleep(Duration::from_secs(3600)).await;
        [then.since(begin), clock.now().since(then)]
    });
    assert_eq!(seen, [Duration::from_nanos(1), Duration::from_secs(3600)]);
    world.run_for(Duration::from_millis(5));
    assert_eq!(world.now(), Moment(3_605_000_000_000 - 5_000_000_000 + 5_000_001));
}

#[test]
fn tasks_and_timers_run_in_the_order_of_their_moments() {
    let world = World::new(0);
    let log = Rc::new(RefCell::new(Vec::new()));
    for span in [3, 1, 2, 1] {
        let (clock, log) = (world.clock(), log.clone());
        world.spawner().detach(async move {
            clock.sleep(Duration::from_millis(span)).await;
            log.borrow_mut().push(span);
        });
    }
    world.run_for(Duration::from_millis(10));
    assert_eq!(*log.borrow(), [1, 1, 2, 3]);
}

#[test]
fn the_wall_clock_steps_back_and_monotonic_time_does_not() {
    let world = World::new(0);
    let clock = world.clock();
    world.run_for(Duration::from_secs(10));
    let wall = clock.wall();
    assert_eq!(wall.to_string(), "2026-01-01T00:00:10Z");
    world.set_wall(wall.before(Duration::from_secs(3600)));
    world.run_for(Duration::from_secs(1));
    assert_eq!(clock.wall().to_string(), "2025-12-31T23:00:11Z");
    assert_eq!(clock.now(), Moment(11_000_000_000));
}

#[test]
#[should_panic(expected = "seed 77: at 0 ns everything waits and nothing will happen")]
fn a_deadlock_is_a_panic_that_names_the_seed() {
    World::new(77).run(std::future::pending::<()>());
}

#[test]
fn a_timer_that_nobody_waits_for_does_not_move_time() {
    let world = World::new(0);
    let clock = world.clock();
    drop(clock.sleep(Duration::from_secs(100)));
    world.run_for(Duration::from_secs(1));
    world.run_for(Duration::from_secs(200));
    assert_eq!(world.now(), Moment(201_000_000_000));
}

/// A little of everything: tasks that compete for a disk, with chance, faults and a power cut.
fn history(seed: u64) -> (u64, Moment, Vec<u8>) {
    let world = World::new(seed);
    let disk = world.disk(presets::wd15ears().scaled(2000));
    let random = world.random();
    disk.inject(Fault::Fail { op: Op::Write, nth: 20, sticky: false });
    disk.inject(Fault::LoseWrite { nth: 5 });
    for task in 0..4u8 {
        let env = world.env(disk.clone());
        world.spawner().detach(async move {
            loop {
                let offset = Bytes(env.random.below(1000) * 4096);
                let length = (1 + env.random.below(16)) * 4096;
                let _ = env.device.write(offset, buffer(task + 1, length)).await;
                let _ = env.device.read(offset, buffer(0, length)).await;
                env.clock.sleep(Duration::from_nanos(env.random.below(1_000_000))).await;
                if env.random.below(10) == 0 {
                    let _ = env.device.flush().await;
                }
            }
        });
    }
    disk.cut_after(200 + random.below(50));
    world.run_until_cut(std::future::pending::<()>()).unwrap_err();
    let mut content = vec![0; 4 << 20];
    disk.peek(Bytes(0), &mut content);
    (world.trace(), world.now(), content)
}

#[test]
fn the_same_seed_gives_the_same_history_and_another_seed_another() {
    crate::seeds::each(10, |seed| {
        let first = history(seed);
        assert!(first == history(seed), "seed {seed} gave two histories");
        assert_ne!(first.0, history(seed + 1000).0);
    });
}

#[test]
fn the_trace_tells_different_bytes_apart() {
    let trace = |byte| {
        let world = World::new(0);
        let disk = world.disk(presets::ssd().scaled(1000));
        world.run(disk.write(Bytes(0), buffer(byte, 8192))).1.unwrap();
        world.trace()
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

#[test]
fn a_power_cut_stops_everything_and_the_world_goes_on() {
    let world = World::new(3);
    let disk = world.disk(presets::cheetah15k().scaled(1000));
    let done = Rc::new(Cell::new(0));
    let (env, count) = (world.env(disk.clone()), done.clone());
    disk.cut_after(5);
    let crashed = world.run_until_cut(async {
        for i in 0.. {
            env.device.write(Bytes(i * 4096), buffer(i as u8 + 1, 4096)).await.1.unwrap();
            count.set(count.get() + 1);
        }
    });
    assert_eq!(crashed, Err(Crashed { at: world.now() }));
    assert_eq!(done.get(), 4, "the fifth was in flight");
    for i in 0..4u8 {
        let (read, result) = world.run(disk.read(Bytes(u64::from(i) * 4096), buffer(0, 4096)));
        result.unwrap();
        assert!(read.iter().all(|byte| *byte == i + 1), "a completed write without a cache is durable");
    }
}

#[test]
fn power_can_go_at_a_moment() {
    let world = World::new(0);
    world.cut_power_at(Moment(1_500));
    let crashed = world.run_until_cut(world.clock().sleep(Duration::from_secs(1)));
    assert_eq!(crashed, Err(Crashed { at: Moment(1_500) }));
    world.run_for(Duration::from_secs(1));
}

#[test]
fn a_kill_loses_no_io_that_had_started_and_no_cache() {
    let world = World::new(0);
    let disk = world.disk(presets::wd15ears().scaled(1000));
    disk.set_survival(Survival::Nothing);
    let env = world.env(disk.clone());
    world.spawner().detach(async move {
        let _lost = env.device.write(Bytes(0), buffer(7, 8192));
        std::future::pending::<()>().await;
    });
    world.run_for(Duration::from_nanos(1));
    assert!(disk.is_busy());
    world.kill();
    assert!(!disk.is_busy());
    let mut content = [0; 8192];
    disk.peek(Bytes(0), &mut content);
    assert_eq!(content, [7; 8192]);
    world.crash(&[&disk]);
    disk.peek(Bytes(0), &mut content);
    assert_eq!(content, [0; 8192], "and without a flush the power takes it away");
}

#[test]
fn a_crash_takes_the_power_of_the_named_disks_only() {
    let world = World::new(0);
    let [a, b] = [(); 2].map(|()| world.disk(presets::wd15ears().scaled(1000)));
    for disk in [&a, &b] {
        disk.set_survival(Survival::Nothing);
        world.run(disk.write(Bytes(0), buffer(1, 4096))).1.unwrap();
    }
    world.crash(&[&a]);
    let mut byte = [9];
    a.peek(Bytes(0), &mut byte);
    assert_eq!(byte, [0]);
    b.peek(Bytes(0), &mut byte);
    assert_eq!(byte, [1]);
}

#[test]
fn destructors_of_killed_tasks_reach_no_disk() {
    struct Writes(Env);
    impl Drop for Writes {
        fn drop(&mut self) {
            drop(self.0.device.write(Bytes(0), buffer(1, 4096)));
        }
    }
    let world = World::new(0);
    let disk = world.disk(presets::ssd().scaled(1000));
    let guard = Writes(world.env(disk.clone()));
    world.spawner().detach(async move {
        let _guard = guard;
        std::future::pending::<()>().await
    });
    world.run_for(Duration::from_millis(1));
    world.kill();
    assert_eq!(disk.started(), 0);
}

#[test]
fn an_error_of_a_disk_names_it_and_the_place() {
    let world = World::new(0);
    let disk = world.disk(presets::wd15ears().scaled(1000));
    disk.inject(Fault::Fail { op: Op::Read, nth: 0, sticky: false });
    let error = world.run(disk.read(Bytes(8192), buffer(0, 4096))).1.unwrap_err();
    assert_eq!(error.kind, Kind::Device);
    assert_eq!(error.message, "reading 4096 bytes at offset 8192 of sim:wd15ears failed: it was told to");
}
