use super::*;
use crate::disk::presets;
use forebay_wire::control::files::AskDegraded;

/// With ten files for each of the others.
fn loss(targets: u32) -> Loss {
    Loss {
        targets,
        width: 5,
        files: 10 * (targets - 1),
        size: Bytes::mib(2),
        link: LinkSpec::gigabit().rate,
        // Beside it, a node's port takes what is written to its target.
        credit: Bytes::kib(64),
        network: NetworkSpec::jumbo(),
        disk: presets::ssd().scaled(2000),
        seed: 1,
    }
}

/// With nothing on it.
fn empty(loss: &Loss, settings: Settings) -> Cluster {
    let spec = ClusterSpec { settings, ..spec(loss) };
    Cluster::with_first(Rc::new(World::new(loss.seed)), spec, larger(loss))
}

#[test]
fn what_a_lost_target_had_is_made_anew_by_all_others_the_faster_the_more_there_are() {
    let [few, many] = [6, 16].map(|targets| lose_one(&loss(targets)));
    assert_eq!((few.components, many.components), (50, 150));
    assert!(few.written.0 > 0 && many.written == few.written * 3, "{few:?} {many:?}");
    let (faster, more) = (many.rate().0 as f64 / few.rate().0 as f64, 15.0 / 5.0);
    assert!(faster >= 0.8 * more, "{faster:.2} times as fast by {more} times as many: {few:?} {many:?}");
}

#[test]
fn nearly_each_file_has_a_part_on_the_target_that_is_lost_however_many_there_are() {
    for targets in [6, 30] {
        let loss = Loss { files: 50, size: Bytes::kib(64), ..loss(targets) };
        let made = fill(&empty(&loss, Settings::default()), &loss);
        // One of each writer may come too late.
        assert!((50..=50 + WRITERS as u32 + 1).contains(&made), "{made} of {targets} targets");
    }
}

#[test]
fn what_a_client_was_at_that_died_is_passed_over_by_others_until_it_is_known_to_be_gone() {
    let loss = Loss { files: 20, ..loss(6) };
    let (life, client_timeout) = (Duration::from_secs(5), Duration::from_secs(10));
    let cluster = empty(&loss, Settings { life, client_timeout, ..Settings::default() });
    let operator = fill_and_lose(&cluster, &loss);
    let (world, dies) = (cluster.world(), cluster.client_machine("dies"));
    let files = dies.files.clone();
    dies.host.env().spawner.detach(async move {
        drop(files.rebuild_missing(|_, _| ()).await);
    });
    let left_to = |by: &ClientMachine| {
        let control = by.control.clone();
        world.run(async move {
            let asked = Question::Degraded(AskDegraded { file: FileId(0), most: 100, left: true });
            let Ok(Reply::Degraded(found)) = control.ask(asked).await else { panic!("no list") };
            found.files.len()
        })
    };
    // Both of its hands are at one.
    let end = world.now() + Duration::from_secs(10);
    while cluster.degraded(&operator).len() < left_to(&operator) + 2 {
        assert!(world.now() < end, "it begins nothing");
        world.run_for(Duration::from_micros(100));
    }
    dies.host.crash();
    let other = cluster.client_machine("other");
    let rebuild = || {
        let (files, failed) = (other.files.clone(), Rc::new(Cell::new(0)));
        let told = failed.clone();
        world.run(async move {
            let tell = |_, rebuilt: Result<Rebuilt>| told.set(told.get() + u32::from(rebuilt.is_err()));
            files.rebuild_missing(tell).await.expect("the manager is there");
        });
        failed.get()
    };
    assert_eq!((rebuild(), cluster.degraded(&operator).len(), left_to(&other)), (0, 2, 0));
    world.run_for(client_timeout * 2);
    assert_eq!((left_to(&other), rebuild()), (2, 0));
    assert!(cluster.degraded(&operator).is_empty(), "nothing is hidden for ever");
}
