//! Targets that are drained, while files on them are read and written.

use super::*;
use crate::cluster::check::agreement;
use forebay_client::files::keep::Kept;
use forebay_model::{Rate, Result};
use std::cell::Cell;

const LENGTH: usize = 700_001;

/// A server's client, which moves and rebuilds; how many components it moved.
fn keeper(cluster: &Cluster) -> Rc<Cell<u32>> {
    let moved: Rc<Cell<u32>> = Rc::default();
    let machine = cluster.client_machine("keeper");
    let spawner = machine.host.env().spawner.clone();
    let count = {
        let moved = moved.clone();
        move |_, kept: Result<Kept>| match kept {
            Ok(Kept::Moved(one)) => moved.set(moved.get() + one.components),
            other => println!("{other:?}"),
        }
    };
    let (moving, rebuilding, counting) = (machine.files.clone(), machine.files.clone(), count.clone());
    spawner.detach(async move { moving.keep_moving(Duration::from_secs(3), Rate(0), counting).await });
    spawner.detach(async move { rebuilding.keep_rebuilding(Duration::from_secs(3), count).await });
    moved
}

#[test]
fn a_target_drains_to_its_end_beside_readers_and_writers_and_may_be_taken_away_then() {
    let world = Rc::new(World::new(20));
    let cluster = Cluster::new(world.clone(), spec(6));
    let machine = cluster.client_machine("writer");
    let raids = [("/zero", Raid::Zero), ("/one", Raid::One(2)), ("/five", Raid::Five)];
    for (path, raid) in raids {
        let (files, policy) = (machine.files.clone(), Policy { raid, unit: Bytes::kib(16), targets: 4 });
        world.run(async move {
            let file = files.create(path, 0o644, Some(policy), Options::alone()).await.expect("a file");
            file.write_at(Bytes::ZERO, Slice::from(pattern(LENGTH, 1))).await.expect("it is taken");
            file.close().await.expect("it is durable");
        });
    }
    let moved = keeper(&cluster);
    // One reads all the time, and one opens, changes and closes all the time.
    let (stop, read, wrote) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0)), Rc::new(Cell::new(0u64)));
    let (_reading, reader) = cluster.client("reader");
    let reading = {
        let (stop, read, clock) = (stop.clone(), read.clone(), world.clock());
        world.spawner().spawn(async move {
            let mut open = Vec::new();
            for (path, _) in raids {
                open.push(reader.open(path, Options::alone()).await.expect("it is there"));
            }
            while !stop.get() {
                for file in &open {
                    let found = file.read_at(Bytes(300_000), Bytes(100_000)).await.expect("it is there");
                    assert!(found == pattern(LENGTH, 1)[300_000..400_000]);
                    read.set(read.get() + 1);
                }
                clock.sleep(Duration::from_millis(100)).await;
            }
        })
    };
    let writing = {
        let (stop, wrote, files, clock) = (stop.clone(), wrote.clone(), machine.files.clone(), world.clock());
        world.spawner().spawn(async move {
            while !stop.get() {
                for (path, _) in raids {
                    let file = files.open_to_write(path, Options::alone()).await.expect("who copies makes way");
                    let bytes = pattern(1000, wrote.get());
                    file.write_at(Bytes(5_000), Slice::from(bytes)).await.expect("it is taken");
                    file.close().await.expect("it is durable");
                }
                wrote.set(wrote.get() + 1);
                clock.sleep(Duration::from_secs(7)).await;
            }
        })
    };
    world.run_for(Duration::from_secs(20));
    let drained = holder(&cluster, 2);
    say(&cluster, &machine, drained, TargetState::Draining);
    let end = world.now() + Duration::from_secs(600);
    while target_of(&cluster, &machine, drained).left != Some(0) {
        assert!(world.now() < end, "{:?} after {} moves", target_of(&cluster, &machine, drained), moved.get());
        world.run_for(Duration::from_secs(1));
    }
    world.run_for(Duration::from_secs(20));
    stop.set(true);
    world.run(reading);
    world.run(writing);
    assert!(moved.get() >= 1 && read.get() > 100 && wrote.get() >= 3, "{moved:?}, {read:?}, {wrote:?}");
    // What was left behind is removed when nothing that was given out for it counts any more.
    world.run_for(Duration::from_secs(420));
    let objects = cluster.objects(drained).expect("it is up");
    let there = world.run(async move { objects.list(1, 1, 10).await }).expect("it has a volume");
    assert!(there.is_empty(), "{there:?}");
    cluster.crash_node(drained);
    let mut expected = pattern(LENGTH, 1);
    expected[5_000..6_000].copy_from_slice(&pattern(1000, wrote.get() - 1));
    let (_host, files) = cluster.client("last");
    for (path, _) in raids {
        let files = files.clone();
        let expected = expected.clone();
        world.run(async move {
            let file = files.open(path, Options::alone()).await.expect("it is there");
            assert!(file.read_at(Bytes::ZERO, Bytes::mib(1)).await.expect("it is whole") == expected, "{path}");
            agreement::check(&files, path).await;
        });
    }
}

#[test]
fn what_somebody_has_open_for_long_is_made_anew_elsewhere_while_it_is_written() {
    let world = Rc::new(World::new(21));
    let cluster = Cluster::new(world.clone(), spec(6));
    let machine = cluster.client_machine("writer");
    let policy = Policy { raid: Raid::Five, unit: Bytes::kib(16), targets: 5 };
    let files = machine.files.clone();
    let file = Rc::new(world.run(async move {
        let options = Options::beside();
        let file = files.create("/x", 0o644, Some(policy), options).await.expect("a file");
        file.write_at(Bytes::ZERO, Slice::from(pattern(LENGTH, 1))).await.expect("it is taken");
        file.flush().await.expect("it is durable");
        file
    }));
    keeper(&cluster);
    let drained = holder(&cluster, 1);
    say(&cluster, &machine, drained, TargetState::Draining);
    let mut last = 0;
    let end = world.now() + Duration::from_secs(900);
    while target_of(&cluster, &machine, drained).left != Some(0) {
        assert!(world.now() < end, "{:?}", target_of(&cluster, &machine, drained));
        last += 1;
        let (file, bytes) = (file.clone(), pattern(1000, last));
        world.run(async move {
            file.write_at(Bytes(5_000), Slice::from(bytes)).await.expect("it is taken");
            file.flush().await.expect("it is durable");
        });
        world.run_for(Duration::from_secs(5));
    }
    let file = Rc::into_inner(file).expect("nobody uses it");
    world.run(async move { file.close().await }).expect("it is durable");
    world.run_for(Duration::from_secs(60));
    cluster.crash_node(drained);
    let mut expected = pattern(LENGTH, 1);
    expected[5_000..6_000].copy_from_slice(&pattern(1000, last));
    let files = cluster.client("last").1;
    world.run(async move {
        let file = files.open("/x", Options::alone()).await.expect("it is there");
        assert!(file.read_at(Bytes::ZERO, Bytes::mib(1)).await.expect("it is whole") == expected);
        agreement::check(&files, "/x").await;
    });
}
