//! Files of which clients keep what they may, and give it up when others come.

use super::*;
use forebay_client::files::Files;
use forebay_model::Kind;
use forebay_wire::control::files::LEASE;

fn cached() -> Options {
    Options { sharing: Sharing::Cached, ..Options::default() }
}

/// A file with so many bytes of 1, whose writer keeps what it writes.
fn begun(cluster: &Cluster, files: &Files, length: usize) -> File {
    let files = files.clone();
    cluster.world().run(async move {
        let file = files.create("/x", 0o644, None, cached()).await.expect("a file");
        write(&file, 0, 1, length).await;
        file.flush().await.expect("it is durable");
        assert!(!file.engine().is_shared(), "nobody else has it");
        file
    })
}

async fn write(file: &File, at: u64, value: u8, length: usize) {
    file.write_at(Bytes(at), Slice::from(vec![value; length])).await.expect("it is taken");
}

async fn read(file: &File, at: u64, length: u64) -> Vec<u8> {
    file.read_at(Bytes(at), Bytes(length)).await.expect("it can be read")
}

fn opened(cluster: &Cluster, files: &Files, write: bool) -> File {
    let files = files.clone();
    let open = async move {
        match write {
            true => files.open_to_write("/x", cached()).await,
            false => files.open("/x", cached()).await,
        }
    };
    cluster.world().run(open).expect("it opens")
}

#[test]
fn who_opens_a_file_reads_what_another_one_has_written_and_not_flushed() {
    let world = Rc::new(World::new(71));
    let cluster = Cluster::new(world.clone(), spec(5));
    let (_writing, writing) = cluster.client("writer");
    let (_reading, reading) = cluster.client("reader");
    let writer = begun(&cluster, &writing, 100_000);
    let writer = world.run(async move {
        write(&writer, 50_000, 2, 100_000).await;
        writer
    });
    let asked = world.now();
    let reader = opened(&cluster, &reading, false);
    assert!(world.now().since(asked) < Duration::from_secs(1), "it gave way at once");
    world.run(async move {
        assert!(writer.engine().is_shared() && reader.engine().is_shared());
        let bytes = read(&reader, 0, 200_000).await;
        assert!(bytes.len() == 150_000 && bytes[50_000..].iter().all(|byte| *byte == 2));
        // From now on everybody reads what was written at once.
        for value in 3..20 {
            write(&writer, u64::from(value) * 1000, value, 5000).await;
            assert_eq!(read(&reader, u64::from(value) * 1000, 5000).await, vec![value; 5000]);
        }
        write(&writer, 150_000, 9, 10).await;
        assert_eq!(reader.size().await.expect("it is known"), Bytes(150_010));
        reader.close().await.expect("it closes");
        writer
    });
}

#[test]
fn who_writes_keeps_what_it_writes_again_when_the_others_have_closed_the_file_or_are_gone() {
    for crashes in [false, true] {
        let world = Rc::new(World::new(72));
        let cluster = Cluster::new(world.clone(), spec(5));
        let (_writing, writing) = cluster.client("writer");
        let machine = cluster.client_machine("reader");
        let writer = begun(&cluster, &writing, 100_000);
        let reader = opened(&cluster, &machine.files, false);
        assert!(writer.engine().is_shared());
        match crashes {
            true => {
                machine.host.crash();
                drop(reader);
            }
            false => world.run(async move { reader.close().await }).expect("it closes"),
        }
        world.run_for(if crashes { LEASE + Duration::from_secs(5) } else { Duration::from_secs(3) });
        assert!(!writer.engine().is_shared());
        world.run(async move {
            write(&writer, 100_000, 3, 100_000).await;
            assert_eq!(read(&writer, 99_999, 3).await, [1, 3, 3]);
            writer.close().await.expect("it is durable");
        });
        let reader = opened(&cluster, &writing, false);
        assert!(!reader.engine().is_shared());
        assert_eq!(world.run(async move { read(&reader, 0, 300_000).await.len() }), 200_000);
    }
}

#[test]
fn what_was_read_ahead_is_not_read_when_somebody_else_has_written_it() {
    let world = Rc::new(World::new(73));
    let cluster = Cluster::new(world.clone(), spec(5));
    let (_writing, writing) = cluster.client("writer");
    let writer = begun(&cluster, &writing, 2_000_000);
    world.run(async move { writer.close().await }).expect("it is durable");
    let machines = ["a", "b", "c"].map(|name| cluster.client(name));
    let readers: Vec<File> = machines.iter().map(|(_, files)| opened(&cluster, files, false)).collect();
    for reader in &readers {
        assert!(!reader.engine().is_shared(), "all of them keep what they read");
    }
    let readers = world.run(async move {
        for reader in &readers {
            for at in 0..8 {
                assert_eq!(read(reader, at * 50_000, 50_000).await, vec![1; 50_000]);
            }
        }
        readers
    });
    let writer = opened(&cluster, &writing, true);
    world.run(async move {
        write(&writer, 0, 2, 2_000_000).await;
        for reader in &readers {
            assert!(reader.engine().is_shared());
            assert_eq!(read(reader, 400_000, 200_000).await, vec![2; 200_000]);
        }
    });
}

#[test]
fn who_died_is_waited_for_as_long_as_its_lease_and_what_it_had_flushed_is_there() {
    let world = Rc::new(World::new(74));
    let cluster = Cluster::new(world.clone(), spec(5));
    let machine = cluster.client_machine("writer");
    let keeper = cluster.client_machine("keeper");
    let writer = begun(&cluster, &machine.files, 100_000);
    let number = writer.entry().file;
    let writer = world.run(async move {
        write(&writer, 60_000, 2, 200_000).await;
        writer
    });
    machine.host.crash();
    drop(writer);
    let asked = world.now();
    let (_reading, reading) = cluster.client("reader");
    let reader = opened(&cluster, &reading, false);
    let waited = world.now().since(asked);
    assert!(waited > LEASE / 2 && waited < LEASE + Duration::from_secs(4), "{waited:?}");
    let bytes = world.run(async move {
        let bytes = read(&reader, 0, 60_000).await;
        reader.close().await.expect("it closes");
        bytes
    });
    assert_eq!(bytes, vec![1; 60_000]);
    let next = world.spawner().spawn({
        let files = reading.clone();
        async move { files.open_to_write("/x", cached()).await }
    });
    world.run_for(Duration::from_secs(5));
    // Nobody writes it before it was mended.
    let mended = world.run(async move { keeper.files.mend(number).await }).expect("it is mended");
    assert!(mended.is_some());
    let next = world.run(next).expect("it opens");
    assert!(!next.engine().is_shared());
}

#[test]
fn who_cannot_reach_the_manager_writes_on_until_others_want_the_file_and_changes_nothing_then() {
    let world = Rc::new(World::new(75));
    let cluster = Cluster::new(world.clone(), spec(5));
    let machine = cluster.client_machine("writer");
    let (_other, others) = cluster.client("other");
    let writer = begun(&cluster, &machine.files, 100_000);
    cluster.network().partition(&[&machine.host], &[&cluster.manager.host]);
    world.run_for(LEASE + Duration::from_millis(100));
    let writer = world.run(async move {
        write(&writer, 0, 2, 1000).await;
        assert_eq!(read(&writer, 0, 1000).await, vec![2; 1000]);
        writer.flush().await.expect("it is durable");
        writer
    });
    let reader = opened(&cluster, &others, false);
    let late = world.run(async move {
        assert_eq!(read(&reader, 0, 1000).await, vec![2; 1000]);
        let late = writer.write_at(Bytes::ZERO, Slice::from(vec![3; 1000])).await;
        let late = match late {
            Ok(()) => writer.flush().await,
            failed => failed,
        };
        assert_eq!(read(&reader, 0, 1000).await, vec![if late.is_ok() { 3 } else { 2 }; 1000]);
        late
    });
    let error = late.expect_err("the file was taken from it");
    assert!(matches!(error.kind, Kind::Stale | Kind::Disconnected), "{error}");
}

#[test]
fn another_manager_knows_what_is_kept_before_anybody_writes() {
    let world = Rc::new(World::new(76));
    let cluster = Cluster::new(world.clone(), spec(5));
    let (_writing, writing) = cluster.client("writer");
    let (_reading, reading) = cluster.client("reader");
    let writer = begun(&cluster, &writing, 1_000_000);
    world.run(async move { writer.close().await }).expect("it is durable");
    let reader = opened(&cluster, &reading, false);
    let reader = world.run(async move {
        for at in 0..8 {
            read(&reader, at * 10_000, 10_000).await;
        }
        reader
    });
    cluster.crash_manager();
    world.run_for(Duration::from_secs(1));
    cluster.restart_manager();
    assert!(!reader.engine().is_shared(), "its lease is not over");
    let asked = world.now();
    let writer = opened(&cluster, &writing, true);
    assert!(world.now().since(asked) < LEASE, "the reader has said what it keeps");
    world.run(async move {
        write(&writer, 0, 2, 1_000_000).await;
        assert_eq!(read(&reader, 80_000, 100_000).await, vec![2; 100_000]);
    });
}

#[test]
fn tasks_of_one_client_that_have_a_file_open_see_what_each_of_them_writes() {
    let world = Rc::new(World::new(77));
    let cluster = Cluster::new(world.clone(), spec(5));
    let (_host, files) = cluster.client("client");
    let first = begun(&cluster, &files, 100_000);
    let reader = opened(&cluster, &files, false);
    let second = opened(&cluster, &files, true);
    let (_other, others) = cluster.client("other");
    let (first, second) = world.run(async move {
        assert!([&first, &second, &reader].iter().all(|file| file.engine().is_shared()));
        write(&first, 90_000, 2, 20_000).await;
        write(&second, 95_000, 3, 1000).await;
        let expected = [vec![2; 5000], vec![3; 1000], vec![2; 14_000]].concat();
        for file in [&first, &second, &reader] {
            assert_eq!(read(file, 90_000, 50_000).await, expected);
        }
        reader.close().await.expect("it closes");
        (first, second)
    });
    let third = opened(&cluster, &others, false);
    world.run(async move {
        write(&second, 0, 4, 10).await;
        second.close().await.expect("it closes");
        write(&first, 10, 5, 10).await;
        assert_eq!(read(&third, 0, 21).await, [vec![4; 10], vec![5; 10], vec![1]].concat());
        first.close().await.expect("it closes");
    });
}

#[test]
fn a_file_is_rebuilt_while_somebody_writes_it_who_keeps_what_it_writes() {
    let world = Rc::new(World::new(78));
    let cluster = Cluster::new(
        world.clone(),
        ClusterSpec { policy: Policy { raid: Raid::Five, unit: UNIT, targets: 4 }, ..spec(6) },
    );
    let (_writing, writing) = cluster.client("writer");
    let keeper = cluster.client_machine("keeper");
    let writer = begun(&cluster, &writing, 2_000_000);
    let number = writer.entry().file;
    let lost = holder(&cluster, 1);
    say(&cluster, &keeper, lost, TargetState::Failed);
    cluster.crash_node(lost);
    let files = keeper.files.clone();
    let rebuilt = world.run(async move { files.rebuild(number).await }).expect("it is made elsewhere");
    assert!(rebuilt.is_some());
    world.run_for(Duration::from_secs(3));
    assert!(!writer.engine().is_shared(), "it is alone again");
    world.run(async move {
        write(&writer, 1_000_000, 2, 1_500_000).await;
        writer.close().await.expect("it is durable");
    });
    let reader = opened(&cluster, &writing, false);
    let bytes = world.run(async move { read(&reader, 0, 3_000_000).await });
    assert!(bytes == [vec![1; 1_000_000], vec![2; 1_500_000]].concat());
}

#[test]
fn who_was_out_of_touch_reads_nothing_that_it_kept_when_others_have_written_and_closed_the_file_since() {
    for stops in [false, true] {
        let world = Rc::new(World::new(79));
        let cluster = Cluster::new(world.clone(), spec(5));
        let machine = cluster.client_machine("reader");
        let (_writing, writing) = cluster.client("writer");
        let writer = begun(&cluster, &writing, 1_000_000);
        world.run(async move { writer.close().await }).expect("it is durable");
        let reader = opened(&cluster, &machine.files, false);
        let reader = world.run(async move {
            for at in 0..8 {
                read(&reader, at * 10_000, 10_000).await;
            }
            reader
        });
        assert!(!reader.engine().is_shared());
        let away = |for_long: bool| match (stops, for_long) {
            (true, true) => machine.host.pause(),
            (false, true) => cluster.network().partition(&[&machine.host], &[&cluster.manager.host]),
            (true, false) => machine.host.resume(),
            (false, false) => cluster.network().heal(),
        };
        away(true);
        let writer = opened(&cluster, &writing, true);
        world.run(async move {
            write(&writer, 0, 2, 1_500_000).await;
            writer.close().await.expect("it is durable");
        });
        away(false);
        let reader = world.run(async move {
            assert_eq!(read(&reader, 80_000, 100_000).await, vec![2; 100_000]);
            assert_eq!(reader.size().await.expect("it is known"), Bytes(1_500_000));
            reader
        });
        world.run_for(Duration::from_secs(10));
        assert!(!reader.engine().is_shared(), "it keeps what it reads again");
        let bytes = world.run(async move { read(&reader, 0, 2_000_000).await });
        assert!(bytes == vec![2; 1_500_000]);
    }
}

#[test]
fn what_is_being_opened_while_the_manager_changes_is_called_back_by_the_next_one() {
    for micros in (0..4000).step_by(200) {
        let world = Rc::new(World::new(micros));
        let cluster = Cluster::new(world.clone(), spec(5));
        let (_reading, reading) = cluster.client("reader");
        let (_writing, writing) = cluster.client("writer");
        let first = begun(&cluster, &writing, 400_000);
        let other = world.run({
            let files = reading.clone();
            async move {
                first.close().await.expect("it is durable");
                files.create("/other", 0o644, None, cached()).await.expect("a file")
            }
        });
        let opening = world.spawner().spawn({
            let files = reading.clone();
            async move { files.open("/x", cached()).await }
        });
        world.run_for(Duration::from_micros(micros));
        cluster.crash_manager();
        cluster.restart_manager();
        let reader = world.run(opening).expect("it opens");
        let reader = world.run(async move {
            for at in 0..4 {
                read(&reader, at * 10_000, 10_000).await;
            }
            reader
        });
        let writer = opened(&cluster, &writing, true);
        world.run(async move {
            write(&writer, 0, 2, 400_000).await;
            writer.flush().await.expect("it is durable");
            assert_eq!(read(&reader, 40_000, 50_000).await, vec![2; 50_000], "after {micros} us");
            other.close().await.expect("it closes");
        });
    }
}

#[test]
fn a_file_that_readers_open_again_and_again_is_written_within_seconds() {
    let world = Rc::new(World::new(80));
    let cluster = Cluster::new(world.clone(), spec(5));
    let (_writing, writing) = cluster.client("writer");
    let writer = begun(&cluster, &writing, 100_000);
    world.run(async move { writer.close().await }).expect("it is durable");
    let machines: Vec<_> = (0..3).map(|number| cluster.client(&format!("reader{number}"))).collect();
    let ends = Rc::new(std::cell::Cell::new(false));
    for (_, files) in &machines {
        for _ in 0..2 {
            let (files, ends) = (files.clone(), ends.clone());
            world.spawner().detach(async move {
                while !ends.get() {
                    let file = files.open("/x", cached()).await.expect("it opens");
                    read(&file, 0, 1000).await;
                    file.close().await.expect("it closes");
                }
            });
        }
    }
    world.run_for(Duration::from_secs(1));
    let asked = world.now();
    let writer = opened(&cluster, &writing, true);
    assert!(world.now().since(asked) < Duration::from_secs(2), "{:?}", world.now().since(asked));
    world.run(async move {
        write(&writer, 0, 2, 1000).await;
        writer.close().await.expect("it is durable");
    });
    ends.set(true);
    world.run_for(Duration::from_secs(1));
}

#[test]
fn a_reader_keeps_what_it_reads_again_when_the_same_client_has_closed_what_it_wrote() {
    let world = Rc::new(World::new(81));
    let cluster = Cluster::new(world.clone(), spec(5));
    let (_host, files) = cluster.client("client");
    let writer = begun(&cluster, &files, 100_000);
    let reader = opened(&cluster, &files, false);
    assert!(writer.engine().is_shared() && reader.engine().is_shared());
    world.run(async move { writer.close().await }).expect("it is durable");
    world.run_for(Duration::from_secs(1));
    assert!(!reader.engine().is_shared());
    let (_other, others) = cluster.client("other");
    let other = opened(&cluster, &others, true);
    assert!(reader.engine().is_shared(), "it was called back");
    world.run(async move {
        write(&other, 0, 3, 1000).await;
        assert_eq!(read(&reader, 0, 1000).await, vec![3; 1000]);
    });
}

/// What a client said that it keeps, while it had a file open twice, is all that it keeps when it has closed one of them: whoever heard
/// that calls nothing back.
#[test]
fn who_said_that_it_keeps_nothing_takes_nothing_up_again_of_which_the_manager_does_not_know() {
    for is_another_manager in [true, false] {
        let world = Rc::new(World::new(82));
        let cluster = Cluster::new(world.clone(), spec(5));
        let ((_host, files), (_other, others)) = (cluster.client("client"), cluster.client("other"));
        let reader = world.run({
            let writer = begun(&cluster, &files, 100_000);
            let reader = opened(&cluster, &files, false);
            async move {
                writer.close().await.expect("it is durable");
                reader
            }
        });
        let writer = opened(&cluster, &files, true);
        assert!(writer.engine().is_shared() && reader.engine().is_shared());
        match is_another_manager {
            true => {
                cluster.crash_manager();
                world.run_for(Duration::from_secs(1));
                cluster.restart_manager();
            }
            // It may keep all again when another one has gone, and says that it does not.
            false => {
                let other = opened(&cluster, &others, false);
                world.run(async move { other.close().await }).expect("it only read");
            }
        }
        world.run_for(Duration::from_secs(3));
        // How long the file is is kept as well.
        let (other, reader) = world.run(async move {
            writer.close().await.expect("it wrote nothing");
            read(&reader, 0, 100_000).await;
            let other = others.open_to_write("/x", cached()).await.expect("it opens");
            write(&other, 50_000, 3, 100_000).await;
            other.flush().await.expect("it is durable");
            (other, reader)
        });
        let found = world.run(async move { read(&reader, 50_000, 100_000).await });
        assert!(found == vec![3; 100_000], "another manager: {is_another_manager}");
        drop(other);
    }
}

/// Who is alone takes no locks, and so would not see what the other one began and did not end.
#[test]
fn what_one_of_a_client_left_unfinished_is_mended_before_another_one_of_it_is_alone_with_the_file() {
    for reads in [false, true] {
        let world = Rc::new(World::new(83));
        let cluster = Cluster::new(world.clone(), spec(5));
        let (_host, files) = cluster.client("client");
        let keeper = cluster.client_machine("keeper");
        let first = begun(&cluster, &files, 100_000);
        let number = first.entry().file;
        let second = opened(&cluster, &files, !reads);
        assert!(first.engine().is_shared() && second.engine().is_shared());
        drop(first);
        world.run_for(Duration::from_secs(3));
        assert!(second.engine().is_shared(), "to read: {reads}");
        let second = if reads {
            second
        } else {
            // Nor is one that comes then.
            let third = opened(&cluster, &files, true);
            assert!(third.engine().is_shared());
            world.run(async move {
                write(&second, 50_000, 2, 100_000).await;
                second.close().await.expect("it is durable");
                third
            })
        };
        world.run_for(Duration::from_secs(3));
        assert!(second.engine().is_shared(), "to read: {reads}");
        let length = if reads { 100_000 } else { 150_000 };
        let second = world.run(async move {
            assert_eq!(read(&second, 0, 200_000).await.len(), length);
            match reads {
                true => Some(second),
                false => {
                    second.close().await.expect("it wrote nothing");
                    None
                }
            }
        });
        let mending = keeper.files.clone();
        let mended = world.run(async move { mending.mend(number).await }).expect("it is mended");
        assert!(mended.is_some(), "the manager knows that it was left");
        world.run_for(Duration::from_secs(3));
        let after = second.unwrap_or_else(|| opened(&cluster, &files, true));
        assert!(!after.engine().is_shared(), "to read: {reads}");
        assert_eq!(world.run(async move { read(&after, 0, 200_000).await.len() }), length);
    }
}

/// The manager does not know what was in the way: it is told.
#[test]
fn who_had_a_file_open_twice_is_alone_with_it_again_as_soon_as_one_is_closed() {
    let world = Rc::new(World::new(84));
    let cluster = Cluster::new(world.clone(), spec(5));
    let ((_host, files), (_other, others)) = (cluster.client("client"), cluster.client("other"));
    let first = begun(&cluster, &files, 100_000);
    let second = opened(&cluster, &files, true);
    let reader = opened(&cluster, &others, false);
    world.run(async move { reader.close().await }).expect("it only read");
    // It may keep all again, and does not while both are open.
    world.run_for(Duration::from_secs(5));
    assert!(first.engine().is_shared() && second.engine().is_shared());
    world.run(async move { second.close().await }).expect("it wrote nothing");
    world.run_for(Duration::from_secs(3));
    assert!(!first.engine().is_shared());
}
