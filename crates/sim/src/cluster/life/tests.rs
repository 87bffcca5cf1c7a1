use super::*;
use crate::seeds;

/// Lives as many lives as seeds, and demands that something happened in each of them, and of everything enough in all.
fn lives(count: u64, chances: Chances) {
    let tally = RefCell::new(Tally::default());
    seeds::each(count, |seed| {
        let one = live(seed, chances).0;
        let worked = one.operations >= 10 && one.flushes + one.shared + one.cells > 0 && one.compared > 0;
        assert!(
            !seeds::are_the_suites() || worked && one.faults >= 5 && one.objects > 0,
            "hardly anything happened: {one:?}"
        );
        tally.borrow_mut().add(&one);
    });
    let tally = tally.into_inner();
    println!("{tally:?}");
    if seeds::are_the_suites() {
        let worked = tally.operations > 100 * count
            && tally.flushes > 5 * count
            && tally.compared > 500_000 * count
            && tally.cuts > count;
        assert!(worked && (chances.shared == 0 || tally.shared > 10 * count && tally.cells > 20 * count), "{tally:?}");
        assert!(chances.shared == 0 || tally.kept > count, "{tally:?}");
        let failed = tally.faults > 10 * count && 2 * tally.commits_cut > count && tally.clients_lost > count;
        // Beside what fails, and after that.
        let rebuilt = tally.rebuilt_meanwhile > 0 && tally.rebuilt + tally.rebuilt_meanwhile > count;
        assert!(4 * tally.disks_failed > count && tally.nodes_moved > count && rebuilt, "{tally:?}");
        assert!(failed && tally.recovered > 3 * count && tally.left > count, "{tally:?}");
        assert!(tally.rotten > count && tally.degraded > 5 * count && tally.objects > 20 * count, "{tally:?}");
    }
}

#[test]
fn files_of_one_client_are_what_was_acknowledged_whatever_fails() {
    lives(12, Chances::ALONE);
}

#[test]
fn files_of_several_clients_are_what_they_wrote_whatever_fails() {
    lives(8, Chances::TOGETHER);
}

#[test]
fn files_are_what_was_acknowledged_where_nodes_have_several_targets_and_all_of_one_or_one_of_all_is_gone() {
    lives(24, Chances::SEVERAL);
}

/// Lives lives in which the manager may lose its disk whenever it says that all it has answered is in copies, beside all that fails.
fn lives_without_a_manager(count: u64, chances: Chances) -> Tally {
    let tally = RefCell::new(Tally::default());
    seeds::each(count, |seed| {
        let (one, _) = live(seed, Chances { wipes: true, ..chances });
        assert!(!seeds::are_the_suites() || one.operations > 0 && one.objects > 0, "hardly anything happened: {one:?}");
        tally.borrow_mut().add(&one);
    });
    let tally = tally.into_inner();
    println!("{tally:?}");
    assert!(!seeds::are_the_suites() || tally.compared > 100_000 * count && tally.recovered > count, "{tally:?}");
    tally
}

#[test]
fn outcome_45_files_are_what_was_acknowledged_whatever_fails_where_the_manager_loses_its_disk_as_well() {
    let tally = lives_without_a_manager(12, Chances { shared: 1, ..Chances::ALONE });
    assert!(!seeds::are_the_suites() || tally.wiped > 20 && tally.wiped_beside > 0 && tally.cells > 300, "{tally:?}");
}

#[test]
fn outcome_45_files_are_what_was_acknowledged_where_copies_and_components_move_when_the_manager_loses_its_disk() {
    let tally = lives_without_a_manager(8, Chances::DRAINING);
    assert!(!seeds::are_the_suites() || tally.wiped > 10 && tally.moved > 5, "{tally:?}");
    lives_without_a_manager(4, Chances::SEVERAL);
}

#[test]
fn outcome_45_what_was_acknowledged_is_there_after_any_of_60_short_lives_without_the_managers_disk() {
    let tally = lives_without_a_manager(60, Chances::SHORT);
    assert!(!seeds::are_the_suites() || tally.wiped > 60 && tally.wiped_beside > 2 && tally.cells > 300, "{tally:?}");
}

/// In each of these lives targets drain, one after the other, beside faults.
#[test]
fn targets_drain_beside_all_that_fails_and_hold_nothing_then() {
    let tally = RefCell::new(Tally::default());
    seeds::each(6, |seed| {
        let (one, _) = live(seed, Chances::DRAINING);
        tally.borrow_mut().add(&one);
    });
    let tally = tally.into_inner();
    println!("{tally:?}");
    assert!(!seeds::are_the_suites() || tally.drained >= 8 && tally.moved > 5 && tally.cells > 80, "{tally:?}");
}

/// Lives short lives, and demands that something happened in each of them, and of everything enough in all.
fn short_lives(of: std::ops::Range<u64>) {
    let (tally, count) = (RefCell::new(Tally::default()), of.end - of.start);
    seeds::each_of(of, |seed| {
        let one = live(seed, Chances::SHORT).0;
        assert!(!seeds::are_the_suites() || one.operations > 0 && one.objects > 0, "nothing happened: {one:?}");
        tally.borrow_mut().add(&one);
    });
    let tally = tally.into_inner();
    println!("{tally:?}");
    if seeds::are_the_suites() {
        let worked = tally.operations > 30 * count
            && tally.flushes > 3 * count
            && tally.compared > 100_000 * count
            && 4 * tally.cuts > count;
        assert!(worked && tally.shared > 3 * count && tally.cells > 8 * count && tally.kept > count, "{tally:?}");
        let failed = tally.faults > 5 * count && 5 * tally.commits_cut > count && 8 * tally.disks_failed > count;
        assert!(failed && 3 * tally.clients_lost > count && 2 * tally.recovered > count, "{tally:?}");
        // Who rebuilds while others fail rebuilds much or nothing: 9 components in one half of the seeds, 37 in the other.
        let rebuilt = 2 * tally.rebuilt > count && 100 * tally.rebuilt_meanwhile > count;
        assert!(rebuilt && tally.left > count && 3 * tally.drained > count && 3 * tally.moved > count, "{tally:?}");
        assert!(tally.rotten > count && tally.degraded > 3 * count && tally.objects > 15 * count, "{tally:?}");
    }
}

#[test]
fn what_was_acknowledged_is_there_after_a_short_life_of_any_of_500_seeds() {
    short_lives(0..500);
}

#[test]
fn what_was_acknowledged_is_there_after_a_short_life_of_any_of_500_other_seeds() {
    short_lives(500..1000);
}

/// A component went on behind the end of its file, within a block that was damaged: no part of that could be written, so scrubs
/// left it as it was and did not say so, and it was missed when a target was lost.
#[test]
fn a_damaged_block_is_made_good_where_a_component_goes_on_behind_the_end_of_its_file() {
    live(6, Chances::SHORT);
}

#[test]
fn a_life_is_lived_again_by_its_seed() {
    let chances = Chances { steps: 20, ..Chances::DRAINING };
    let (_, one) = live(3, chances);
    assert_eq!(one, live(3, chances).1);
    assert_ne!(one, live(4, chances).1);
}

/// A write failed in the middle of a stripe; what was made of its parity was read as if it had been written.
#[test]
fn nothing_is_made_of_the_parity_of_a_stripe_of_which_a_write_failed() {
    live(273, Chances::ALONE);
}

/// The answer to what a client intends is lost with the node that kept it; what was written since stays.
#[test]
fn an_intent_that_was_kept_twice_undoes_nothing_that_was_written_since() {
    for node in 0..4 {
        let (world, extent) = (Rc::new(World::new(7)), Chances::ALONE.extent());
        let cluster = Cluster::new(world.clone(), extent.cluster((4, 1), extent.settings(), false));
        let machine = cluster.client_machine("writer");
        let policy = Policy { raid: Raid::Five, unit: Bytes::kib(4), targets: 4 };
        let files = machine.files.clone();
        let file = Rc::new(world.run(async move {
            let file = files.create("/x", 0o644, Some(policy), options(Sharing::Alone)).await.expect("a file");
            file.write_at(Bytes::ZERO, vec![1; 60_000].into()).await.expect("it is taken");
            file.flush().await.expect("it is durable");
            file
        }));
        let over = |value: u8| {
            let file = file.clone();
            async move {
                // So much of a stripe that the old parity is not read for it.
                file.write_at(Bytes::ZERO, vec![value; 8192].into()).await?;
                file.flush().await
            }
        };
        world.run(over(4)).expect("nothing fails yet");
        cluster.network().cut(cluster.node_host(node), &machine.host);
        let first = world.spawner().spawn(over(2));
        world.run_for(Duration::from_millis(50));
        cluster.crash_node(node);
        cluster.network().heal();
        cluster.restart_node(node);
        world.run(first).expect("it is asked again");
        world.run(over(3)).expect("nothing fails any more");
        machine.host.crash();
        let machine = cluster.client_machine("reader");
        let number = world.run({
            let files = machine.files.clone();
            async move { files.stat("/x").await.expect("it is there").file }
        });
        recover(&cluster, &machine, "/x", number);
        let found = read(&cluster, &machine.files, "/x").expect("it is whole");
        assert!(found[..8192] == [3; 8192], "node {node}: {:?}", found[0]);
    }
}

/// A node whose processes stop for a moment, or until all have given it up, is behind when it goes on: what it does then is
/// nothing that somebody else was given meanwhile.
#[test]
fn outcome_32_a_node_that_stopped_for_3_or_80_seconds_and_goes_on_owns_nothing_that_others_were_given() {
    let stops = Cell::new(0);
    seeds::each(4, |seed| {
        // Whoever waits for such a node alone is not taken for gone himself.
        let settings = Settings { client_timeout: Duration::from_secs(300), ..Chances::SHORT.extent().settings() };
        let (tally, _) = live_with(seed, Chances { steps: 25, ..Chances::SHORT }, settings, |faults, random| {
            // Of five of them one is long.
            let span = Duration::from_secs(if stops.get() % 5 == 1 { 80 } else { 3 });
            faults.stop_a_node(span);
            stops.set(stops.get() + 1);
            let world = faults.cluster().world();
            let end = world.now() + span + Duration::from_secs(1 + random.below(5));
            while world.now() < end {
                world.run_for(Duration::from_millis(500));
                faults.end_due();
            }
        });
        assert!(tally.cells > 20 && tally.flushes > 5, "{tally:?}");
    });
    assert!(!seeds::are_the_suites() || stops.get() == 100);
}
