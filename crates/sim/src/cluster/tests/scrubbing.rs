//! Files that are scrubbed by themselves, beside those who use them.

use super::disks::damage;
use super::*;
use crate::cluster::check::agreement;
use crate::cluster::life::rot::find;
use crate::disk::Fault;
use forebay_client::files::keep::Kept;
use forebay_client::files::scrub::{Scrubbed, Scrubbing};
use forebay_model::{Kind, Rate, Result};
use std::cell::{Cell, RefCell};

const LENGTH: usize = 700_001;
const OFTEN: Scrubbing = Scrubbing { every: Duration::from_secs(1), rate: Rate::mb(4) };

type Told = Rc<RefCell<Vec<(FileId, Scrubbed)>>>;

/// A server's client, which scrubs; what it found.
fn keeper(cluster: &Cluster, how: Scrubbing) -> Told {
    let found: Told = Rc::default();
    let machine = cluster.client_machine("keeper");
    let (files, told) = (machine.files.clone(), found.clone());
    machine.host.env().spawner.detach(async move {
        let told = |file, kept: Result<Kept>| match kept {
            Ok(Kept::Scrubbed(scrubbed)) => told.borrow_mut().push((file, scrubbed)),
            other => println!("{other:?}"),
        };
        files.keep_scrubbing(Duration::from_secs(3), how, told).await;
    });
    found
}

/// A file over four targets that was written and closed.
fn closed(cluster: &Cluster, files: &Files, path: &'static str, raid: Raid, seed: u64) -> FileId {
    let files = files.clone();
    let policy = Policy { raid, unit: Bytes::kib(16), targets: 4 };
    cluster.world().run(async move {
        let file = files.create(path, 0o644, Some(policy), Options::alone()).await.expect("a file");
        file.write_at(Bytes::ZERO, Slice::from(pattern(LENGTH, seed))).await.expect("it is taken");
        let number = file.entry().file;
        file.close().await.expect("it is durable");
        number
    })
}

/// Changes a bit of each place on a node's disk at which these bytes are; whether there was one.
fn spoil(cluster: &Cluster, node: usize, bytes: &[u8]) -> bool {
    let places = find(cluster, node, &[bytes]);
    for offset in &places {
        cluster.disk(node).inject(Fault::FlipBit { offset: *offset + Bytes(17), bit: 3 });
    }
    !places.is_empty()
}

#[test]
fn damage_that_nobody_reads_is_found_and_made_good_or_said_by_name_and_bytes_if_it_cannot_be() {
    for (nth, raid) in
        [Raid::Five, Raid::One(2), Raid::Zero, Raid::Five, Raid::One(2), Raid::Zero].into_iter().enumerate()
    {
        let world = Rc::new(World::new(nth as u64));
        let cluster = Cluster::new(world.clone(), ClusterSpec { disk: presets::ssd().scaled(8000), ..spec(4) });
        let machine = cluster.client_machine("writer");
        let files = machine.files.clone();
        world.run(async move { files.make_directory("/d", 0o755).await }).expect("a directory");
        let number = closed(&cluster, &machine.files, "/d/x", raid, 2);
        let at = nth * 7 * (16 << 10);
        let spoiled = (0..4).find(|node| {
            // What the node has in memory does not count.
            cluster.crash_node(*node);
            let is_there = spoil(&cluster, *node, &pattern(LENGTH, 2)[at..at + 256]);
            assert_eq!(damage(&cluster, *node) > 0, is_there, "{raid} {nth}");
            cluster.restart_node(*node);
            is_there
        });
        let spoiled = spoiled.expect("it is somewhere");
        let told = keeper(&cluster, OFTEN);
        world.run_for(Duration::from_secs(60));
        let told = told.take();
        assert!(told.len() > 3 && told.iter().all(|(file, _)| *file == number), "{raid} {nth}: {told:?}");
        let first = &told[0].1;
        let (_reading, files) = cluster.client("reader");
        let (found, lost) = world.run(async move {
            let file = files.open("/d/x", Options::alone()).await.expect("it is there");
            file.engine().read_what_is_left(Bytes::ZERO, Bytes::mib(1)).await.expect("the rest is there")
        });
        assert_eq!(lost, first.lost, "{raid} {nth}");
        if raid == Raid::Zero {
            // The pattern comes again, and each time as much of it is lost as has one checksum.
            assert!(lost.iter().any(|one| one.contains(&(at as u64 + 17))), "{lost:?}");
            assert!(lost.iter().all(|one| one.end - one.start == 4096 && one.start % 131_072 == at as u64 % 131_072));
            let is_told = |again: &Scrubbed| again.lost == lost && again.path.as_deref() == Some("/d/x");
            assert!(told.iter().all(|(_, again)| is_told(again)), "{nth}: {told:?}");
            continue;
        }
        assert!(found == pattern(LENGTH, 2) && lost.is_empty(), "{raid} {nth}");
        assert!(first.repaired > Bytes::ZERO && first.path.is_none(), "{raid} {nth}: {first:?}");
        assert!(told[1..].iter().all(|(_, again)| again.repaired == Bytes::ZERO), "{raid} {nth}: {told:?}");
        cluster.crash_node(spoiled);
        assert_eq!(damage(&cluster, spoiled), 0, "{raid} {nth}: it was not made good");
    }
}

/// Spoils the beginning of a file of this pattern where it lies; on which node that is.
fn spoiled(cluster: &Cluster) -> usize {
    let spoils = |node: &usize| {
        // What the node has in memory does not count.
        cluster.crash_node(*node);
        let is_there = spoil(cluster, *node, &pattern(LENGTH, 2)[..256]);
        cluster.restart_node(*node);
        is_there
    };
    (0..4).find(spoils).expect("it lies somewhere")
}

#[test]
fn outcome_25_what_who_may_write_finds_damaged_and_makes_good_is_counted_by_the_target_that_had_it() {
    let world = Rc::new(World::new(25));
    let cluster = Cluster::new(world.clone(), ClusterSpec { disk: presets::ssd().scaled(8000), ..spec(4) });
    let machine = cluster.client_machine("writer");
    closed(&cluster, &machine.files, "/x", Raid::Five, 2);
    let spoiled = spoiled(&cluster);
    let (_reading, files) = cluster.client("reader");
    world.run(async move {
        let file = files.open_to_write("/x", Options::alone()).await.expect("it is there");
        let read = file.read_at(Bytes::ZERO, Bytes::mib(1)).await.expect("it is made of the others");
        assert!(read == pattern(LENGTH, 2));
        file.close().await.expect("it is durable");
    });
    for node in 0..4 {
        let counters = cluster.objects(node).expect("it is up").counters();
        let (damaged, mended) = (counters.damaged, counters.mended);
        match node == spoiled {
            true => assert!(damaged >= 1 && mended >= 1, "{damaged} reads found it, and {mended} blocks were mended"),
            false => assert_eq!((damaged, mended), (0, 0), "of node {node}"),
        }
    }
}

#[test]
fn outcome_25_what_who_may_only_read_finds_damaged_is_written_again_within_seconds() {
    let world = Rc::new(World::new(26));
    let cluster = Cluster::new(world.clone(), ClusterSpec { disk: presets::ssd().scaled(8000), ..spec(4) });
    let machine = cluster.client_machine("writer");
    closed(&cluster, &machine.files, "/x", Raid::Five, 2);
    let spoiled = spoiled(&cluster);
    let told = keeper(&cluster, Scrubbing::default());
    world.run_for(Duration::from_secs(20));
    assert!(told.borrow().is_empty(), "it was made just now");
    let (_reading, files) = cluster.client("reader");
    world.run(async move {
        let file = files.open("/x", Options::alone()).await.expect("it is there");
        let read = file.read_at(Bytes::ZERO, Bytes::mib(1)).await.expect("it is made of the others");
        assert!(read == pattern(LENGTH, 2));
        file.close().await.expect("it closes");
    });
    world.run_for(Duration::from_secs(20));
    let counters = cluster.objects(spoiled).expect("it is up").counters();
    assert!(counters.damaged >= 1 && counters.mended >= 1, "{counters:?}");
    assert_eq!(told.borrow().len(), 1, "once: {:?}", told.borrow());
}

#[test]
fn a_scrub_is_in_nobodys_way_and_comes_to_its_end_beside_those_who_write() {
    let world = Rc::new(World::new(40));
    let cluster = Cluster::new(world.clone(), spec(5));
    let machine = cluster.client_machine("writer");
    let [often, held] = ["/often", "/held"].map(|path| closed(&cluster, &machine.files, path, Raid::Five, 1));
    let alone = closed(&cluster, &machine.files, "/alone", Raid::Five, 1);
    let told = keeper(&cluster, OFTEN);
    let (stop, wrote) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0u64)));
    // One file is opened, changed and closed all the time, one is open beside others, and with one somebody is alone.
    let writing = {
        let (stop, wrote, files, clock) = (stop.clone(), wrote.clone(), machine.files.clone(), world.clock());
        world.spawner().spawn(async move {
            let shared = Options::beside();
            let held = files.open_to_write("/held", shared).await.expect("it is there");
            let _alone = files.open_to_write("/alone", Options::alone()).await.expect("it is there");
            while !stop.get() {
                let bytes = pattern(30_000, wrote.get());
                let file = files.open_to_write("/often", Options::alone()).await.expect("a scrub makes way");
                file.write_at(Bytes(5_000), Slice::from(bytes.clone())).await.expect("it is taken");
                held.write_at(Bytes(100_000), Slice::from(bytes)).await.expect("it is durable");
                file.close().await.expect("it is durable");
                wrote.set(wrote.get() + 1);
                clock.sleep(Duration::from_millis(20)).await;
            }
            held.close().await.expect("it is durable");
        })
    };
    world.run_for(Duration::from_secs(60));
    stop.set(true);
    world.run(writing);
    let told = told.take();
    let of = |number: FileId| told.iter().filter(|(file, _)| *file == number).count();
    assert!(wrote.get() > 500 && of(often) >= 1 && of(held) >= 3, "{wrote:?}, {} and {}", of(often), of(held));
    assert_eq!(of(alone), 0, "somebody is alone with it");
    assert!(told.iter().all(|(_, one)| one.repaired == Bytes::ZERO && one.lost.is_empty()), "{told:?}");
    let files = machine.files.clone();
    world.run(async move {
        for path in ["/often", "/held"] {
            agreement::check(&files, path).await;
        }
    });
}

#[test]
fn a_scrub_goes_on_where_it_was_after_all_of_those_were_restarted_that_know_of_it() {
    let world = Rc::new(World::new(41));
    let cluster = Cluster::new(world.clone(), spec(5));
    let machine = cluster.client_machine("writer");
    let paths = ["/a", "/b", "/c", "/d"];
    let files = paths.map(|path| closed(&cluster, &machine.files, path, Raid::Five, 1));
    let weekly = Scrubbing { every: Duration::from_secs(7 * 24 * 3600), rate: Rate::mb(1) };
    world.run_for(Duration::from_secs(10));
    let told = keeper(&cluster, weekly);
    world.run_for(Duration::from_secs(10));
    assert!(told.borrow().is_empty(), "they were made just now");
    world.set_wall(world.clock().wall().after(weekly.every));
    while told.borrow().len() < 2 {
        world.run_for(Duration::from_millis(200));
    }
    let first: Vec<FileId> = told.take().into_iter().map(|(file, _)| file).collect();
    cluster.crash_manager();
    cluster.restart_manager();
    let keeper = cluster.client_machine("next");
    let rest = Rc::new(RefCell::new(Vec::new()));
    let noted = rest.clone();
    let asked = world.run(async move {
        let told = |file, scrubbed: Result<Scrubbed>| noted.borrow_mut().push((file, scrubbed.map(|one| one.compared)));
        keeper.files.scrub_due(weekly, told).await
    });
    asked.expect("the manager is there");
    let rest = rest.take();
    assert!(rest.iter().all(|(_, compared)| compared.as_ref().is_ok_and(|bytes| bytes.0 > LENGTH as u64)), "{rest:?}");
    let both = [first, rest.into_iter().map(|(file, _)| file).collect()].concat();
    assert_eq!(both, files, "each once");
}

#[test]
fn a_file_of_which_a_target_is_away_is_scrubbed_when_that_is_back() {
    let world = Rc::new(World::new(42));
    let cluster = Cluster::new(world.clone(), spec(4));
    let machine = cluster.client_machine("writer");
    let file = closed(&cluster, &machine.files, "/x", Raid::Five, 1);
    cluster.stop_node(2);
    let scrub = |files: &Files| {
        let files = files.clone();
        world.run(async move { files.scrub(file, None, |_| Ok(())).await })
    };
    assert_eq!(scrub(&machine.files).expect("it is for later"), None);
    cluster.restart_node(2);
    let found = scrub(&machine.files).expect("it is there").expect("all of it is");
    assert!(found.compared.0 > LENGTH as u64 && found.lost.is_empty() && found.repaired == Bytes::ZERO, "{found:?}");
    let files = machine.files.clone();
    world.run(async move { files.remove("/x").await }).expect("it is there");
    assert_eq!(scrub(&machine.files).expect_err("it is gone").kind, Kind::Missing);
}

#[test]
fn of_a_file_with_a_large_hole_behind_its_bytes_no_more_is_compared_than_is_there() {
    let world = Rc::new(World::new(43));
    let cluster = Cluster::new(world.clone(), spec(4));
    let machine = cluster.client_machine("writer");
    let number = closed(&cluster, &machine.files, "/x", Raid::Five, 1);
    let files = machine.files.clone();
    let scrubbed = world.run(async move {
        let file = files.open_to_write("/x", Options::alone()).await.expect("nobody else has it");
        file.truncate(Bytes(1 << 50)).await.expect("it is a hole");
        file.close().await.expect("it closes");
        files.scrub(number, Some(Rate::mb(4)), |_| Ok(())).await
    });
    let scrubbed = scrubbed.expect("it is there").expect("all of it is");
    assert!(scrubbed.compared.0 > LENGTH as u64 && scrubbed.compared < Bytes::mib(2), "{scrubbed:?}");
    assert!(scrubbed.lost.is_empty() && scrubbed.repaired == Bytes::ZERO, "{scrubbed:?}");
}
