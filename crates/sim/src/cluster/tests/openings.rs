//! Files that one process opens and closes while others of its tasks do.

use super::*;
use crate::cluster::life::hand::{DEADLINE, within};
use forebay_env::together::all;
use forebay_model::Kind;

/// Who has files open to write.
fn open_files(cluster: &Cluster, asks: &ClientMachine) -> usize {
    let control = asks.control.clone();
    let asked = Question::OpenFiles(After { file: FileId(0), most: 10 });
    match cluster.world().run(async move { control.ask(asked).await }) {
        Ok(Reply::OpenFiles(open)) => open.files.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_closes_a_file_last_takes_nobody_off_the_list_who_opens_it_meanwhile() {
    for micros in (0..2000).step_by(50) {
        let world = Rc::new(World::new(micros));
        let cluster = Cluster::new(world.clone(), spec(4));
        let (_host, files) = cluster.client("writer");
        let other = cluster.client_machine("other");
        let others = other.files.clone();
        let first = world.run({
            let files = files.clone();
            async move { files.create("/x", 0o644, None, beside()).await.expect("a file") }
        });
        let second = world.spawner().spawn(async move { files.open_to_write("/x", beside()).await });
        world.run_for(Duration::from_micros(micros));
        world.run(async move { first.close().await }).expect("it closes");
        let second = world.run(second).expect("it opens");
        assert_eq!(open_files(&cluster, &other), 1, "after {micros} us");
        world.run(async move {
            let alone = others.open_to_write("/x", Options::alone()).await;
            assert_eq!(alone.map(drop).expect_err("it is open").kind, Kind::Busy);
            second.close().await.expect("it is still open");
        });
        assert_eq!(open_files(&cluster, &other), 0, "after {micros} us");
    }
}

#[test]
fn a_file_that_cannot_be_opened_is_not_kept_from_others() {
    let world = Rc::new(World::new(51));
    let cluster = Cluster::new(world.clone(), spec(4));
    let machine = cluster.client_machine("writer");
    let files = machine.files.clone();
    world.run({
        let files = files.clone();
        async move { files.create("/x", 0o644, None, beside()).await.expect("a file").close().await.expect("it closes") }
    });
    (0..4).for_each(|node| cluster.crash_node(node));
    for options in [beside(), Options::alone()] {
        let files = files.clone();
        let refused = world.run(async move { files.open_to_write("/x", options).await.map(drop) });
        refused.expect_err("no node is there");
        assert_eq!(open_files(&cluster, &machine), 0);
    }
}

#[test]
fn nothing_of_a_file_is_rebuilt_by_the_client_that_mends_it_and_it_is_mended_alone() {
    let mut beside_mending = 0;
    for micros in (0..10_000).step_by(500) {
        let world = Rc::new(World::new(micros));
        let cluster = Cluster::new(world.clone(), spec(5));
        let writer = cluster.client_machine("writer");
        let files = writer.files.clone();
        let file = world.run(async move { made(&files, "/x", 1, 1_000_000).await });
        let number = file.entry().file;
        writer.host.crash();
        drop(file);
        let keeper = cluster.client_machine("keeper");
        let (files, control, gone) = (keeper.files.clone(), keeper.control.clone(), writer.control.client());
        world.run(async move { control.change(Change::ClientGone(ClientGone { client: gone })).await }).expect("root");
        let mending = world.spawner().spawn({
            let files = files.clone();
            async move { files.mend(number).await }
        });
        world.run_for(Duration::from_micros(micros));
        let rebuilt = world.run(async move { files.rebuild(number).await });
        assert_eq!(rebuilt.expect("the manager is there"), None);
        // Whoever mends it is alone until it has closed it.
        let (_host, others) = cluster.client("other");
        let other = world.run(async move { others.open_to_write("/x", beside()).await });
        match other {
            Ok(other) => {
                let came = world.now();
                let mended = world.run(mending).expect("it is mended, or was by nobody");
                // It was let in before the mending began, or when it was over but for the answer.
                let is_over = world.now().since(came) < Duration::from_millis(1);
                assert!(mended.is_none() || is_over, "after {micros} us: somebody came in meanwhile");
                drop(other);
            }
            Err(error) => {
                assert_eq!(error.kind, Kind::Busy, "{error}");
                beside_mending += 1;
                world.run(mending).expect("it is mended").expect("by this client");
            }
        }
    }
    assert!(beside_mending > 3, "{beside_mending} came while it was mended");
}

/// Files that are to be mended.
fn unfinished(cluster: &Cluster, asks: &ClientMachine) -> usize {
    let control = asks.control.clone();
    let asked = Question::Unscrubbed(After { file: FileId(0), most: 10 });
    match cluster.world().run(async move { control.ask(asked).await }) {
        Ok(Reply::Unscrubbed(left)) => left.files.len(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn who_did_not_close_a_file_is_alone_with_it_only_when_it_was_mended() {
    let world = Rc::new(World::new(61));
    let cluster = Cluster::new(world.clone(), spec(5));
    let (writer, keeper) = (cluster.client_machine("writer"), cluster.client_machine("keeper"));
    let files = writer.files.clone();
    let file = world.run({
        let files = files.clone();
        async move { made(&files, "/x", 1, 300_000).await }
    });
    let number = file.entry().file;
    drop(file);
    let alone = world.run({
        let files = files.clone();
        async move { files.open_to_write("/x", Options::alone()).await.map(drop) }
    });
    let error = alone.expect_err("something may be half written");
    assert!(error.kind == Kind::Busy && error.message.contains("mended first"), "{error:?}");
    assert_eq!((open_files(&cluster, &keeper), unfinished(&cluster, &keeper)), (0, 1));
    let mending = keeper.files.clone();
    world.run(async move { mending.mend(number).await }).expect("it is mended").expect("nobody has it");
    assert_eq!(unfinished(&cluster, &keeper), 0);
    world.run(async move {
        let file = files.open_to_write("/x", Options::alone()).await.expect("it is whole");
        file.close().await.expect("it closes");
    });
    assert_eq!((open_files(&cluster, &keeper), unfinished(&cluster, &keeper)), (0, 0));
}

#[test]
fn who_closes_a_file_that_another_task_did_not_close_has_it_mended() {
    let world = Rc::new(World::new(62));
    let cluster = Cluster::new(world.clone(), spec(5));
    let (writer, keeper) = (cluster.client_machine("writer"), cluster.client_machine("keeper"));
    let files = writer.files.clone();
    world.run(async move {
        let first = files.create("/x", 0o644, None, beside()).await.expect("a file");
        let second = files.open_to_write("/x", beside()).await.expect("beside the first");
        second.write_at(Bytes::ZERO, Slice::from(vec![2; 10_000])).await.expect("it is taken");
        drop(first);
        second.close().await.expect("what it wrote is durable");
        assert_eq!(files.stat("/x").await.expect("it is there").attributes.size, Bytes(10_000));
    });
    assert_eq!((open_files(&cluster, &keeper), unfinished(&cluster, &keeper)), (0, 1));
}

#[test]
fn who_is_heard_last_of_two_who_close_a_file_undoes_nothing_of_what_the_other_one_said() {
    let world = Rc::new(World::new(63));
    let cluster = Cluster::new(world.clone(), spec(5));
    let (writer, other) = (cluster.client_machine("writer"), cluster.client_machine("other"));
    let (files, others) = (writer.files.clone(), other.files.clone());
    let (first, second) = world.run(async move {
        let first = files.create("/x", 0o644, None, beside()).await.expect("a file");
        first.append(Slice::from(vec![1; 100])).await.expect("it is durable");
        (first, others.open_to_write("/x", beside()).await.expect("beside the first"))
    });
    // It has asked how long the file is, and its word to the manager is long under way.
    cluster.network().partition(&[&writer.host], &[&cluster.manager.host]);
    let closing = world.spawner().spawn(async move { first.close().await });
    world.run_for(Duration::from_millis(500));
    world.run(async move {
        second.append(Slice::from(vec![2; 100])).await.expect("it is durable");
        second.close().await.expect("it closes");
    });
    cluster.network().heal();
    world.run(closing).expect("it closes");
    let files = other.files.clone();
    let size = world.run(async move { files.stat("/x").await.expect("it is there").attributes.size });
    assert_eq!(size, Bytes(200));
    // What is cut counts, though it is less.
    let files = other.files.clone();
    let size = world.run(async move {
        let file = files.open_to_write("/x", Options::alone()).await.expect("nobody else has it");
        file.truncate(Bytes(50)).await.expect("it is cut");
        file.close().await.expect("it closes");
        files.stat("/x").await.expect("it is there").attributes.size
    });
    assert_eq!(size, Bytes(50));
}

#[test]
fn a_file_that_is_nearly_all_holes_keeps_no_other_one_from_being_mended() {
    let world = Rc::new(World::new(64));
    let cluster = Cluster::new(world.clone(), spec(5));
    let (writer, keeper) = (cluster.client_machine("writer"), cluster.client_machine("keeper"));
    let files = writer.files.clone();
    world.run(async move {
        let huge = made(&files, "/huge", 1, 300_000).await;
        huge.truncate(Bytes((1 << 59) + 12_345)).await.expect("it is a hole");
        let small = made(&files, "/small", 2, 300_000).await;
        drop((huge, small));
    });
    let mending = keeper.files.clone();
    keeper.host.env().spawner.detach(async move {
        let told =
            |file, mended: forebay_model::Result<_>| drop(mended.unwrap_or_else(|error| panic!("{file}: {error}")));
        mending.keep_mending(Duration::from_secs(1), told).await;
    });
    world.run_for(Duration::from_secs(20));
    assert_eq!(unfinished(&cluster, &keeper), 0);
    let files = writer.files.clone();
    world.run(async move {
        let huge = files.open("/huge", beside()).await.expect("it is there");
        assert_eq!(huge.size().await.expect("it is known"), Bytes((1 << 59) + 12_345));
        assert_eq!(huge.read_at(Bytes(299_999), Bytes(3)).await.expect("bytes"), [1, 0, 0]);
    });
}

#[test]
fn what_was_under_way_of_a_file_that_was_not_closed_does_not_come_when_the_same_client_has_it_open_again() {
    const LENGTH: u64 = 2_000_000;
    for node in 0..5 {
        let world = Rc::new(World::new(65 + node as u64));
        let cluster = Cluster::new(world.clone(), spec(5));
        let (writer, keeper) = (cluster.client_machine("writer"), cluster.client_machine("keeper"));
        let files = writer.files.clone();
        let file = world.run({
            let files = files.clone();
            async move {
                let options = Options { gather: Bytes::kib(512), ..Options::alone() };
                let file = files.create("/x", 0o644, None, options).await.expect("a file");
                file.write_at(Bytes::ZERO, Slice::from(vec![1; LENGTH as usize])).await.expect("it is taken");
                file.flush().await.expect("it is durable");
                file
            }
        });
        let number = file.entry().file;
        cluster.network().partition(&[&writer.host], &[cluster.node_host(node)]);
        let file = world.run(async move {
            file.write_at(Bytes(LENGTH), Slice::from(vec![2; 1_500_000])).await.expect("it is taken");
            file
        });
        world.run_for(Duration::from_millis(100));
        drop(file);
        world.run_for(Duration::from_millis(100));
        let mending = keeper.files.clone();
        world.run(async move { mending.mend(number).await }).expect("it is mended").expect("nobody has it");
        let again = world.spawner().spawn({
            let files = files.clone();
            async move { files.open_to_write("/x", beside()).await }
        });
        world.run_for(Duration::from_millis(500));
        cluster.network().heal();
        let again = world.run(again).expect("it opens");
        world.run_for(Duration::from_secs(10));
        world.run(async move {
            again.close().await.expect("it closes");
            let file = files.open_to_write("/x", Options::alone()).await.expect("nobody else has it");
            file.truncate(Bytes(LENGTH + 1_500_000)).await.expect("it is a hole");
            let behind = file.read_at(Bytes(LENGTH), Bytes(1_500_000)).await.expect("bytes");
            assert!(behind.iter().all(|byte| *byte == 0), "without node {node}: what was not acknowledged came later");
            file.close().await.expect("it closes");
            crate::cluster::check::agreement::check(&files, "/x").await;
        });
    }
}

#[test]
fn more_of_one_process_append_to_a_file_than_wait_for_a_node_at_once_and_each_comes_to_its_turn() {
    const APPENDERS: usize = 450;
    let world = Rc::new(World::new(54));
    let cluster = Cluster::new(world.clone(), spec(4));
    let (_host, files) = cluster.client("writer");
    let clock = world.clock();
    let ends = world.run(async move {
        // The end of the file and all stripes are locked at its first component.
        let policy = Policy { raid: Raid::One(2), unit: Bytes::kib(64), targets: 2 };
        let made = files.create("/x", 0o644, Some(policy), beside()).await.expect("a file");
        made.close().await.expect("it closes");
        let mut open = Vec::new();
        for _ in 0..APPENDERS {
            open.push(files.open_to_write("/x", beside()).await.expect("it opens"));
        }
        let appends = all(open.iter().map(|file| file.append(Slice::from_static(b"ten bytes."))));
        let appended = within(&clock, 5 * DEADLINE, "appending", appends).await;
        let mut ends: Vec<u64> = appended.into_iter().map(|end| end.expect("it is appended").0).collect();
        ends.sort_unstable();
        ends
    });
    assert!(ends.into_iter().eq((0..APPENDERS as u64).map(|nth| nth * 10)));
}
