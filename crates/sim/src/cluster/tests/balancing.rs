//! Targets that are added to a cluster that is full, and get their share while files are read and written.

use super::*;
use crate::cluster::check::agreement;
use forebay_client::files::keep::Kept;
use forebay_model::{Rate, Result};
use std::cell::Cell;

const LENGTH: usize = 3_000_000;
const FILES: u64 = 40;

/// Quicker than usual, so that rounds follow one another.
fn quick() -> Settings {
    Settings {
        life: Duration::from_secs(40),
        client_timeout: Duration::from_secs(60),
        node_timeout: Duration::from_secs(6),
        ..Settings::default()
    }
}

/// Files in the root, from 0 on, each over four targets.
fn filled(cluster: &Cluster, machine: &ClientMachine, files: u64, length: usize) {
    let policy = Policy { raid: Raid::Five, unit: Bytes::kib(64), targets: 4 };
    for nth in 0..files {
        let files = machine.files.clone();
        cluster.world().run(async move {
            let file =
                files.create(&format!("/f{nth}"), 0o644, Some(policy), Options::alone()).await.expect("there is room");
            file.write_at(Bytes::ZERO, Slice::from(pattern(length, nth))).await.expect("it is taken");
            file.close().await.expect("it is durable");
        });
    }
    cluster.world().run_for(Duration::from_secs(10));
}

/// A server's client that moves no faster than this; how many components it moved.
fn keeper(cluster: &Cluster, rate: Rate) -> Rc<Cell<u32>> {
    let keeper = cluster.client_machine("keeper");
    let moved: Rc<Cell<u32>> = Rc::default();
    keeper.host.env().spawner.detach({
        let (files, moved) = (keeper.files.clone(), moved.clone());
        async move {
            let told = |_, kept: Result<Kept>| match kept {
                Ok(Kept::Moved(one)) => moved.set(moved.get() + one.components),
                other => println!("{other:?}"),
            };
            files.keep_moving(Duration::from_secs(3), rate, told).await;
        }
    });
    moved
}

fn uses(cluster: &Cluster, machine: &ClientMachine) -> Vec<u64> {
    cluster.map(machine).targets.iter().map(|target| (target.size - target.free).0 * 1000 / target.size.0).collect()
}

fn spread(uses: &[u64]) -> u64 {
    uses.iter().max().expect("targets") - uses.iter().min().expect("targets")
}

#[test]
fn a_target_that_is_added_to_a_full_cluster_gets_its_share_beside_readers_and_writers() {
    let world = Rc::new(World::new(50));
    let mut cluster =
        Cluster::new(world.clone(), ClusterSpec { disk: presets::ssd().scaled(2000), settings: quick(), ..spec(5) });
    let machine = cluster.client_machine("writer");
    let shared = Options::beside();
    let path = |nth: u64| format!("/f{nth}");
    filled(&cluster, &machine, FILES, LENGTH);
    let before = uses(&cluster, &machine);
    assert!(spread(&before) < 100 && before[0] > 300, "{before:?}");
    let new = cluster.add_node();
    let moved = keeper(&cluster, Rate::mb(8));
    // One file stays open, the others are opened, changed and closed, one after the other.
    let (stop, wrote) = (Rc::new(Cell::new(false)), Rc::new(Cell::new(0u64)));
    let writing = {
        let (stop, wrote, files, clock) = (stop.clone(), wrote.clone(), machine.files.clone(), world.clock());
        world.spawner().spawn(async move {
            let held = files.open_to_write("/f0", shared).await.expect("it is there");
            while !stop.get() {
                let nth = 1 + wrote.get() % (FILES - 1);
                let file = files.open_to_write(&path(nth), Options::alone()).await.expect("who copies makes way");
                for file in [&file, &held] {
                    file.write_at(Bytes(5_000), Slice::from(vec![7; 1000])).await.expect("it is taken");
                }
                file.close().await.expect("it is durable");
                wrote.set(wrote.get() + 1);
                clock.sleep(Duration::from_millis(700)).await;
            }
            held.close().await.expect("it is durable");
        })
    };
    let end = world.now() + Duration::from_secs(3600);
    while spread(&uses(&cluster, &machine)) > 50 {
        assert!(world.now() < end, "{:?} from {before:?} after {moved:?} moves", uses(&cluster, &machine));
        world.run_for(Duration::from_secs(10));
    }
    let after = uses(&cluster, &machine);
    assert!(after[new] * 10 > after[0] * 8 && moved.get() > 10 && wrote.get() > 100, "{after:?}, {moved:?}, {wrote:?}");
    stop.set(true);
    world.run(writing);
    // It stays as it is.
    let there = moved.get();
    world.run_for(Duration::from_secs(400));
    assert_eq!(moved.get(), there);
    let (_reading, files) = cluster.client("reader");
    world.run(async move {
        for nth in 0..FILES {
            let mut expected = pattern(LENGTH, nth);
            expected[5_000..6_000].fill(7);
            let file = files.open(&path(nth), Options::alone()).await.expect("it is there");
            assert!(file.read_at(Bytes::ZERO, Bytes::mib(4)).await.expect("it is whole") == expected, "{nth}");
            agreement::check(&files, &path(nth)).await;
        }
    });
}

#[test]
fn what_is_copied_so_that_targets_are_filled_evenly_hurries_from_when_something_drains_on() {
    let world = Rc::new(World::new(51));
    let mut cluster =
        Cluster::new(world.clone(), ClusterSpec { disk: presets::ssd().scaled(1000), settings: quick(), ..spec(5) });
    let machine = cluster.client_machine("writer");
    // A component is 12 MB: at 50 kB a second it would be copied for four minutes.
    filled(&cluster, &machine, 8, 36_000_000);
    let new = cluster.add_node();
    let moved = keeper(&cluster, Rate(50_000));
    let end = world.now() + Duration::from_secs(300);
    let used = |cluster: &Cluster| *uses(cluster, &machine).get(new).unwrap_or(&0);
    while used(&cluster) < 4 {
        assert!(world.now() < end, "nothing is copied: {:?}", uses(&cluster, &machine));
        world.run_for(Duration::from_secs(1));
    }
    assert_eq!(moved.get(), 0);
    say(&cluster, &machine, holder(&cluster, 1), TargetState::Draining);
    world.run_for(Duration::from_secs(150));
    assert!(moved.get() > 2, "{} were moved", moved.get());
}
