//! What is damaged beyond what others can make: it is lost, wherever the component that had it lies by then, and nothing waits for it.

use super::*;
use crate::cluster::check::agreement;
use crate::cluster::life::rot::find;
use crate::disk::Fault;
use forebay_client::files::keep::Kept;
use forebay_client::files::scrub::{Scrubbed, Scrubbing};
use forebay_model::{Rate, Result};
use std::cell::RefCell;
use std::ops::Range;

const STRIPE_UNIT: usize = 16 << 10;
const BLOCK: u64 = 4096;
const LENGTH: usize = 700_001;

/// What a server's client told.
#[derive(Default)]
struct Told {
    rebuilt: u32,
    moved: u32,
    /// Bytes of components that were said to be lost.
    lost: u64,
    scrubbed: Vec<Scrubbed>,
}

/// A server's client, which looks after everything.
fn keeper(cluster: &Cluster) -> Rc<RefCell<Told>> {
    let told: Rc<RefCell<Told>> = Rc::default();
    let machine = cluster.client_machine("keeper");
    let spawner = machine.host.env().spawner.clone();
    let note = {
        let told = told.clone();
        move |_, kept: Result<Kept>| {
            let mut told = told.borrow_mut();
            match kept {
                Ok(Kept::Rebuilt(one)) => {
                    (told.rebuilt, told.lost) = (told.rebuilt + one.components, told.lost + one.lost.0)
                }
                Ok(Kept::Moved(one)) => (told.moved, told.lost) = (told.moved + one.components, told.lost + one.lost.0),
                Ok(Kept::Scrubbed(one)) => told.scrubbed.push(one),
                other => println!("{other:?}"),
            }
        }
    };
    let [moving, rebuilding, scrubbing] = [(); 3].map(|()| machine.files.clone());
    let [first, second, third] = [note.clone(), note.clone(), note];
    let often = Duration::from_secs(3);
    spawner.detach(async move { moving.keep_moving(often, Rate(0), first).await });
    spawner.detach(async move { rebuilding.keep_rebuilding(often, second).await });
    spawner.detach(async move { scrubbing.keep_scrubbing(often, Scrubbing::default(), third).await });
    told
}

/// A cluster with a file of bytes that come once.
fn story(seed: u64, raid: Raid) -> (Cluster, ClientMachine, Vec<u8>) {
    let world = Rc::new(World::new(seed));
    let cluster = Cluster::new(world.clone(), ClusterSpec { disk: presets::ssd().scaled(8000), ..spec(6) });
    let machine = cluster.client_machine("writer");
    let random = world.random();
    let mut bytes: Vec<u8> = (0..LENGTH.div_ceil(8)).flat_map(|_| random.next_u64().to_le_bytes()).collect();
    bytes.truncate(LENGTH);
    let (files, written) = (machine.files.clone(), bytes.clone());
    let policy = Policy { raid, unit: Bytes(STRIPE_UNIT as u64), targets: 4 };
    world.run(async move {
        let file = files.create("/x", 0o644, Some(policy), Options::alone()).await.expect("a file");
        file.write_at(Bytes::ZERO, Slice::from(written)).await.expect("it is taken");
        file.close().await.expect("it is durable");
    });
    (cluster, machine, bytes)
}

/// Spoils a block of the file where it lies; on which node that is.
fn spoil(cluster: &Cluster, bytes: &[u8], at: usize) -> usize {
    let spoils = |node: &usize| {
        // What the node has in memory does not count.
        cluster.crash_node(*node);
        let places = find(cluster, *node, &[&bytes[at..at + 256]]);
        places
            .iter()
            .for_each(|place| cluster.disk(*node).inject(Fault::FlipBit { offset: *place + Bytes(17), bit: 3 }));
        cluster.restart_node(*node);
        !places.is_empty()
    };
    (0..6).find(spoils).expect("it lies somewhere")
}

/// The nodes that have components of the file.
fn holders(cluster: &Cluster) -> Vec<usize> {
    let has = |node: &usize| {
        let objects = cluster.objects(*node).expect("it is up");
        cluster.world().run(async move { objects.list(1, 1, 10).await }).is_ok_and(|there| !there.is_empty())
    };
    (0..6).filter(has).collect()
}

/// What can be read of the file is what was written; what cannot.
fn left(cluster: &Cluster, name: &str, bytes: &[u8]) -> Vec<Range<u64>> {
    let (_host, files) = cluster.client(name);
    let (found, lost) = cluster.world().run(async move {
        let file = files.open("/x", Options::alone()).await.expect("it is there");
        file.engine().read_what_is_left(Bytes::ZERO, Bytes::mib(1)).await.expect("the rest is there")
    });
    assert_eq!(found.len(), bytes.len(), "{name}");
    let is_lost = |at: usize| lost.iter().any(|range| range.contains(&(at as u64)));
    assert!((0..bytes.len()).all(|at| found[at] == bytes[at] || is_lost(at)), "{name}: other bytes, and not said");
    lost
}

/// Writes all of the file anew.
fn write_anew(cluster: &Cluster, machine: &ClientMachine, bytes: &[u8]) {
    let (files, written) = (machine.files.clone(), bytes.to_vec());
    cluster.world().run(async move {
        let file = files.open_to_write("/x", Options::alone()).await.expect("it is there");
        file.write_at(Bytes::ZERO, Slice::from(written)).await.expect("it is taken");
        file.close().await.expect("it is durable");
        agreement::check(&files, "/x").await;
    });
    assert_eq!(left(cluster, "after all", bytes), []);
}

fn wait(cluster: &Cluster, what: &str, is_done: impl Fn() -> bool) {
    let end = cluster.world().now() + Duration::from_secs(300);
    while !is_done() {
        assert!(cluster.world().now() < end, "{what}");
        cluster.world().run_for(Duration::from_secs(1));
    }
}

#[test]
fn a_damaged_block_beside_a_lost_target_is_lost_alone_is_named_and_the_file_has_its_parity_again() {
    for nth in 0..4 {
        let (cluster, machine, bytes) = story(50 + nth as u64, Raid::Five);
        let at = nth * 5 * STRIPE_UNIT;
        let spoiled = spoil(&cluster, &bytes, at);
        let holders = holders(&cluster);
        let gone = holders.iter().copied().find(|node| *node != spoiled).expect("it lies on four");
        let told = keeper(&cluster);
        cluster.stop_node(gone);
        say(&cluster, &machine, gone, TargetState::Failed);
        wait(&cluster, "it is not rebuilt", || told.borrow().rebuilt > 0);
        assert_eq!(cluster.degraded(&machine), [], "{nth}");
        assert_eq!((told.borrow().rebuilt, told.borrow().lost), (1, BLOCK), "{nth}");
        // All that is lost is said, by name.
        wait(&cluster, "nothing is said", || !told.borrow().scrubbed.is_empty());
        let scrubbed = told.borrow().scrubbed[0].clone();
        let lost = left(&cluster, "reader", &bytes);
        assert!(scrubbed.lost == lost && scrubbed.path.as_deref() == Some("/x"), "{nth}: {scrubbed:?}, {lost:?}");
        let blocks: u64 = lost.iter().map(|range| (range.end - range.start).div_ceil(BLOCK)).sum();
        assert!(blocks <= 2 && lost.iter().any(|range| range.contains(&(at as u64))), "{nth}: {lost:?}");
        // Any one more may be lost, and costs nothing but in that stripe.
        let next = holders.iter().copied().find(|node| ![gone, spoiled].contains(node)).expect("there are others");
        cluster.stop_node(next);
        let more = left(&cluster, "without one more", &bytes);
        let (stripe, width) = (at / (3 * STRIPE_UNIT), 3 * STRIPE_UNIT as u64);
        let is_there =
            |range: &Range<u64>| range.start >= stripe as u64 * width && range.end <= (stripe as u64 + 1) * width;
        assert!(more.iter().all(is_there), "{nth}: {more:?}");
        cluster.restart_node(next);
        write_anew(&cluster, &machine, &bytes);
    }
}

#[test]
fn what_lies_on_a_target_that_is_drained_goes_elsewhere_also_if_some_of_it_is_damaged() {
    // With nothing to make it of; with parity; with parity, and damaged in another component as well.
    for (nth, (raid, blocks, is_lost)) in
        [(Raid::Zero, 1, true), (Raid::Five, 1, false), (Raid::Five, 2, true)].into_iter().enumerate()
    {
        let (cluster, machine, bytes) = story(60 + nth as u64, raid);
        let at = 9 * STRIPE_UNIT;
        let drained = spoil(&cluster, &bytes, at);
        if blocks > 1 {
            assert_ne!(spoil(&cluster, &bytes, at + STRIPE_UNIT), drained);
        }
        let told = keeper(&cluster);
        say(&cluster, &machine, drained, TargetState::Draining);
        wait(&cluster, "it does not drain", || target_of(&cluster, &machine, drained).left == Some(0));
        assert_eq!((told.borrow().moved, told.borrow().lost), (1, if is_lost { BLOCK } else { 0 }), "{nth}");
        cluster.stop_node(drained);
        let expected: Vec<Range<u64>> =
            [at, at + STRIPE_UNIT].map(|at| at as u64..at as u64 + BLOCK)[..blocks].to_vec();
        let lost = left(&cluster, "reader", &bytes);
        assert_eq!(lost, if is_lost { expected } else { Vec::new() }, "{nth}");
        if is_lost {
            wait(&cluster, "nothing is said", || told.borrow().scrubbed.iter().any(|one| one.lost == lost));
        }
        write_anew(&cluster, &machine, &bytes);
    }
}
