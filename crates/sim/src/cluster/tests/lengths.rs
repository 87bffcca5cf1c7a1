//! How long files are, as their components say it.

use super::*;
use forebay_model::object::LENGTHS;
use forebay_wire::object::COMPANION;

/// The most numbers under which any component says how long its file is.
fn numbers(cluster: &Cluster) -> usize {
    let said = (0..cluster.nodes.len()).map(|node| {
        let objects = cluster.objects(node).expect("it is up");
        cluster.world().run(async move {
            let mut most = 0;
            for found in objects.list(1, 1, 100).await.expect("it is there") {
                let page = objects.attributes(found.id, LENGTHS).await.expect("it is there");
                most = most.max(page.len());
            }
            most
        })
    });
    said.max().expect("there are nodes")
}

async fn append(files: &Files, byte: u8) {
    let file = files.open_to_write("/x", beside()).await.expect("beside others");
    file.engine().append(Slice::from(vec![byte])).await.expect("it is durable");
    file.close().await.expect("it closes");
}

#[test]
fn who_is_alone_ends_what_many_others_said_before_step_by_step() {
    const OTHERS: usize = 300;
    let world = Rc::new(World::new(41));
    let cluster = Cluster::new(world.clone(), spec(4));
    let machine = cluster.client_machine("writer");
    world.run({
        let machine = machine.clone();
        async move {
            let file = machine.files.create("/x", 0o644, None, beside()).await.expect("a file");
            file.close().await.expect("it closes");
            for _ in 0..OTHERS {
                // As many processes.
                append(&Files::new(machine.nodes.clone(), machine.control.clone()), 1).await;
            }
        }
    });
    assert!(numbers(&cluster) >= OTHERS);
    world.run(async move {
        let alone = Files::new(machine.nodes.clone(), machine.control.clone());
        let file = alone.open_to_write("/x", Options::alone()).await.expect("nobody writes it");
        for _ in 0..3 {
            file.engine().append(Slice::from(vec![2])).await.expect("it is taken");
            file.flush().await.expect("it is durable");
        }
        file.close().await.expect("it closes");
        assert_eq!(alone.stat("/x").await.expect("it is there").attributes.size, Bytes(OTHERS as u64 + 3));
    });
    assert_eq!(numbers(&cluster), 1);
}

#[test]
fn a_client_says_it_under_one_number_however_often_it_opens_the_file_and_never_less_than_before() {
    let world = Rc::new(World::new(42));
    let cluster = Cluster::new(world.clone(), spec(4));
    let (first, second) = (cluster.client_machine("first"), cluster.client_machine("second"));
    let (files, others) = (first.files.clone(), second.files.clone());
    world.run(async move {
        let file = files.create("/x", 0o644, None, beside()).await.expect("a file");
        file.close().await.expect("it closes");
        for _ in 0..10 {
            append(&files, 1).await;
            append(&others, 2).await;
            // What is written further down says nothing less.
            let file = files.open_to_write("/x", beside()).await.expect("beside others");
            file.write_at(Bytes::ZERO, Slice::from_static(b"3")).await.expect("it is durable");
            file.close().await.expect("it closes");
        }
        let file = others.open("/x", beside()).await.expect("it is there");
        assert_eq!(file.size().await.expect("it is heard"), Bytes(20));
    });
    assert_eq!(numbers(&cluster), 2);
}

/// A file of which the first components say how long it is, one of which misses something later and is being filled, while
/// another one cannot be reached.
#[test]
fn a_component_that_is_filled_does_not_count_as_one_that_knows_how_long_the_file_is() {
    const LENGTH: usize = 300_000;
    let mut told = 0;
    for (lost, away) in (0..5).flat_map(|lost| (0..5).map(move |away| (lost, away))).filter(|(a, b)| a != b) {
        let world = Rc::new(World::new(43));
        let cluster = Cluster::new(world.clone(), spec(5));
        let writer = cluster.client_machine("writer");
        let files = writer.files.clone();
        world.run(async move {
            let file = files.create("/x", 0o644, None, Options::alone()).await.expect("a file");
            file.write_at(Bytes::ZERO, Slice::from(vec![1; LENGTH])).await.expect("it is taken");
            file.close().await.expect("it is durable");
        });
        cluster.crash_node(lost);
        let files = writer.files.clone();
        world.run(async move {
            let file = files.open_to_write("/x", Options::alone()).await.expect("one may be lost");
            file.write_at(Bytes::ZERO, Slice::from(vec![2; LENGTH])).await.expect("it is taken");
            file.close().await.expect("it is durable");
        });
        cluster.restart_node(lost);
        let files = writer.files.clone();
        let filling = world.run(async move {
            let file = files.open_to_write("/x", beside()).await.expect("nobody is alone");
            let missing = file.engine().missing();
            assert_eq!(missing.len(), 1);
            file.engine().begin_rebuild(missing[0]).await.expect("it is there again");
            file
        });
        cluster.crash_node(away);
        let (_host, files) = cluster.client("reader");
        let found = world.run(async move { files.open("/x", beside()).await?.size().await });
        match found {
            Ok(size) => assert_eq!(size, Bytes(LENGTH as u64), "{lost} is filled and {away} away"),
            Err(error) => told += u32::from(error.kind == forebay_model::Kind::Disconnected),
        }
        drop(filling);
    }
    assert!(told > 0, "it was always known");
}

/// A component is rebuilt, and its node cannot be reached any more after a time: how long the rebuild took, and what the
/// component then says, if it counts as whole.
fn rebuilt_until(cut: Option<Duration>) -> (Duration, Option<bool>) {
    let world = Rc::new(World::new(44));
    let cluster = Cluster::new(world.clone(), spec(3));
    let writer = cluster.client_machine("writer");
    let files = writer.files.clone();
    let policy = Policy { raid: Raid::One(2), unit: UNIT, targets: 2 };
    world.run(async move {
        let file = files.create("/x", 0o644, Some(policy), Options::alone()).await.expect("a file");
        file.write_at(Bytes::ZERO, Slice::from(vec![1; 10_000])).await.expect("it is taken");
        file.close().await.expect("it is durable");
    });
    let node = holder(&cluster, 1);
    cluster.crash_node(node);
    let files = writer.files.clone();
    let file = Rc::new(world.run(async move {
        let file = files.open_to_write("/x", beside()).await.expect("one may be lost");
        file.write_at(Bytes::ZERO, Slice::from(vec![2; 10_000])).await.expect("it is durable");
        file
    }));
    cluster.restart_node(node);
    let objects = cluster.objects(node).expect("it is up");
    // It may be there still as it was.
    let said = world.run({
        let objects = objects.clone();
        async move {
            let there = objects.list(1, 1, 10).await.expect("it is there");
            let found = there.iter().find(|found| found.id.object & COMPANION == 0).expect("it is there").id;
            for (number, _) in objects.attributes(found, LENGTHS).await.expect("it is there") {
                let changes = vec![(LENGTHS, number, None)];
                objects.set_attributes(found, changes).await.expect("it is there");
            }
            found
        }
    });
    let (began, clock) = (world.now(), world.clock());
    let rebuilding = world.spawner().spawn(async move {
        let component = file.engine().missing()[0];
        let mut progress = file.engine().begin_rebuild(component).await?;
        while !file.engine().rebuild(component, &mut progress, Bytes::mib(1)).await? {}
        Ok::<_, forebay_model::Error>(clock.now())
    });
    if let Some(cut) = cut {
        world.run_for(cut);
        cluster.network().partition(&[cluster.node_host(node)], &[&writer.host]);
        world.run_for(Duration::from_secs(15));
        cluster.network().heal();
    }
    match world.run(rebuilding) {
        Ok(ended) => {
            let page = world.run(async move { objects.attributes(said, LENGTHS).await.expect("it is there") });
            (ended.since(began), Some(!page.is_empty()))
        }
        Err(_) => (Duration::ZERO, None),
    }
}

#[test]
fn a_component_counts_as_whole_only_if_it_says_how_long_the_file_is() {
    let (took, says) = rebuilt_until(None);
    assert_eq!(says, Some(true));
    let (mut whole, mut failed) = (0, 0);
    for before in (0..40).map(|nth| Duration::from_micros(nth * 50)) {
        match rebuilt_until(Some(took.saturating_sub(before))).1 {
            Some(says) => {
                assert!(says, "{before:?} before its end: it is whole and says nothing");
                whole += 1;
            }
            None => failed += 1,
        }
    }
    assert!(whole > 0 && failed > 0, "{whole} were rebuilt, {failed} not");
}

#[test]
fn a_file_of_copies_grows_while_one_of_those_is_away_that_say_how_long_it_is() {
    for node in 0..4 {
        let world = Rc::new(World::new(node as u64 + 71));
        let cluster = Cluster::new(world.clone(), spec(4));
        let (_host, files) = cluster.client("writer");
        let policy = Policy { raid: Raid::One(2), unit: UNIT, targets: 4 };
        let file = world.run(async move {
            let file = files.create("/x", 0o644, Some(policy), Options::alone()).await.expect("a file");
            file.write_at(Bytes::ZERO, Slice::from(vec![1; 10])).await.expect("it is taken");
            file.flush().await.expect("it is durable");
            file
        });
        cluster.crash_node(node);
        world.run(async move {
            // That lies on the other two.
            file.write_at(UNIT, Slice::from(vec![2; 10])).await.expect("it is taken");
            file.close().await.expect("one of two may be away");
        });
        let (_other, files) = cluster.client("reader");
        let bytes = world.run(async move {
            let file = files.open("/x", Options::alone()).await.expect("it is there");
            file.read_at(Bytes::ZERO, Bytes::mib(1)).await.expect("one of two may be away")
        });
        assert_eq!(
            (bytes.len() as u64, &bytes[bytes.len() - 10..]),
            (UNIT.0 + 10, &[2; 10][..]),
            "without node {node}"
        );
    }
}
