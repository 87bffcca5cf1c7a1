use super::*;
use crate::disk::presets;

fn outcome(policy: Policy, iops: u64) -> Outcome {
    on_cheetah(1, &Load { span: Duration::from_secs(30), ..Load::beside_reader(policy, iops) })
}

fn on_cheetah(disks: u64, load: &Load) -> Outcome {
    run(1, &presets::cheetah15k(), disks, load).unwrap()
}

fn share(outcome: &Outcome) -> f64 {
    outcome.read.or(outcome.written).unwrap().share()
}

fn millis(outcome: &Outcome) -> f64 {
    mean(&outcome.latencies).as_secs_f64() * 1e3
}

const IOPS: [u64; 4] = [40, 80, 160, 320];

/// Shares and mean latencies at each rate, held against published ones: a share may be off by `share`, a latency by
/// the factor `latency`.
fn near(what: &str, run: impl Fn(u64) -> Outcome, published: [(f64, f64); 4], off: (f64, f64)) -> Vec<f64> {
    let mut shares = Vec::new();
    for (iops, (published_share, published_latency)) in IOPS.into_iter().zip(published) {
        let outcome = run(iops);
        let (share, latency) = (share(&outcome), millis(&outcome));
        let told =
            format!("{what} at {iops}: {share:.2} {latency:.0} ms, {published_share} {published_latency} ms published");
        assert!((share - published_share).abs() <= off.0, "{told}");
        let factor = latency / published_latency;
        assert!(factor < off.1 && factor > 1.0 / off.1, "{told}");
        assert_eq!(outcome.latencies.len() as u64, outcome.due, "{told}");
        shares.push(share);
    }
    assert!(shares.is_sorted_by(|a, b| a > b), "{what}: more writes leave less: {shares:?}");
    shares
}

#[test]
fn beside_a_reader_the_opponents_do_what_was_published_of_them() {
    let ordered = [(0.57, 209.0), (0.19, 215.0), (0.05, 500.0), (0.05, 919.0)];
    let ordered = near("ordered", |iops| outcome(Policy::Ordered, iops), ordered, (0.1, 1.5));
    let data = [(0.73, 160.0), (0.38, 155.0), (0.13, 245.0), (0.085, 445.0)];
    let data = near("data", |iops| outcome(Policy::Data, iops), data, (0.1, 1.5));
    let adaptive = [(0.85, 58.0), (0.72, 48.0), (0.46, 75.0), (0.17, 100.0)];
    let adaptive = near("adaptive", |iops| outcome(Policy::Adaptive, iops), adaptive, (0.17, 2.2));
    for ((ordered, data), adaptive) in ordered.iter().zip(&data).zip(&adaptive) {
        assert!(ordered < data && data < adaptive, "{ordered} {data} {adaptive}");
    }
}

#[test]
fn beside_a_sequential_writer_the_opponents_do_what_was_published_of_them() {
    let beside_writer = |policy, iops| {
        let mut load = Load::beside_reader(policy, iops);
        (load.reader, load.writer) = (None, load.reader);
        load.span = Duration::from_secs(30);
        on_cheetah(1, &load)
    };
    let ordered = [(0.64, 340.0), (0.45, 445.0), (0.36, 650.0), (0.27, 1170.0)];
    near("ordered", |iops| beside_writer(Policy::Ordered, iops), ordered, (0.1, 1.5));
    let data = [(0.45, 470.0), (0.45, 580.0), (0.36, 680.0), (0.36, 970.0)];
    near("data", |iops| beside_writer(Policy::Data, iops), data, (0.25, 2.2));
    let adaptive = [(0.91, 190.0), (0.82, 170.0), (0.73, 180.0), (0.64, 205.0)];
    near("adaptive", |iops| beside_writer(Policy::Adaptive, iops), adaptive, (0.15, 2.2));
}

#[test]
fn on_four_striped_disks_one_straggler_costs_the_reader_more_than_on_one() {
    let striped =
        |policy, iops| on_cheetah(4, &Load { span: Duration::from_secs(12), ..Load::beside_reader(policy, iops) });
    let [few, many] = [40, 320].map(|iops| striped(Policy::Ordered, iops));
    assert!((0.3..0.65).contains(&share(&few)) && share(&many) < 0.06, "{} {}", share(&few), share(&many));
    assert!(few.read.unwrap().alone > Rate::mb(400), "{:?}", few.read);
    assert!(share(&striped(Policy::Single, 320)) < share(&outcome(Policy::Single, 320)));
}

#[test]
fn one_log_costs_two_seeks_a_round_and_writing_home_costs_them_for_each_block() {
    let single = outcome(Policy::Single, 320);
    assert!((0.75..0.9).contains(&share(&single)), "{}", share(&single));
    assert!((5.0..15.0).contains(&millis(&single)), "{}", millis(&single));
    assert!(single.checkpoint > Duration::from_secs(5), "{:?}", single.checkpoint);
    let home = outcome(Policy::Home, 40);
    assert!((0.7..0.9).contains(&share(&home)), "{}", share(&home));
    assert_eq!((home.checkpoint, home.log_swaps), (Duration::ZERO, 0));
}

#[test]
fn a_disk_that_cannot_keep_up_does_fewer_rounds_and_says_so() {
    let load = Load { span: Duration::from_secs(30), ..Load::beside_reader(Policy::Home, 320) };
    let outcome = run(1, &presets::sata7200(), 1, &load).unwrap();
    assert!((outcome.latencies.len() as u64) < outcome.due, "{} of {}", outcome.latencies.len(), outcome.due);
    let longest = *outcome.latencies.last().expect("some rounds are durable");
    // Those under way take seven seconds; what they had waited before they began counts, too.
    assert!((10..load.span.as_secs()).contains(&longest.as_secs()), "{longest:?}");
}

#[test]
fn the_same_seed_gives_the_same_outcome_and_another_one_nearly_so() {
    let load = Load { span: Duration::from_secs(20), ..Load::beside_reader(Policy::Adaptive, 80) };
    let [first, again, other] = [3, 3, 4].map(|seed| run(seed, &presets::cheetah15k(), 1, &load).unwrap());
    assert_eq!(first, again);
    assert_ne!(first, other);
    assert!((share(&first) - share(&other)).abs() < 0.05, "{} {}", share(&first), share(&other));
}

#[test]
fn without_small_writes_a_streaming_user_gets_all() {
    let outcome = outcome(Policy::Ordered, 0);
    assert!((0.98..1.02).contains(&share(&outcome)), "{}", share(&outcome));
    let alone = outcome.read.unwrap().alone.0 as f64 / outcome.disk_rate.0 as f64;
    assert!((0.97..1.03).contains(&alone), "{alone}");
    assert_eq!((outcome.due, mean(&outcome.latencies)), (0, Duration::ZERO));
}

#[test]
fn loads_that_cannot_be_run_are_refused_with_the_remedy() {
    let refused = |disk: DiskSpec, disks, load: &Load| run(1, &disk, disks, load).unwrap_err().message;
    let message = |change: fn(&mut Load)| {
        let mut load = Load::beside_reader(Policy::Home, 40);
        change(&mut load);
        refused(presets::cheetah15k(), 1, &load)
    };
    let load = Load::beside_reader(Policy::Home, 40);
    assert_eq!(refused(presets::cheetah15k(), 0, &load), "0 disks cannot be striped; take 1 to 64");
    let small = refused(presets::cheetah15k().scaled(2000), 1, &load);
    assert!(small.ends_with("take 160 MiB or more for each disk"), "{small}");
    assert_eq!(
        message(|load| load.span = Duration::ZERO),
        "nothing can be measured in no time; give --seconds 1 or more"
    );
    assert_eq!(message(|load| load.iops = 100_001), "100001 writes a second for each disk; give at most 100000");
    assert_eq!(
        Policy::parse("nearer").unwrap_err().message,
        "no policy is called 'nearer'; the names are home, ordered, data, adaptive, single, nearest, ideal"
    );
    for (name, policy) in Policy::ALL {
        assert_eq!((Policy::parse(name).unwrap(), policy.name()), (policy, name));
    }
}

fn nearest(disk: &DiskSpec, disks: u64, load: &Load) -> Outcome {
    let outcome = run(1, disk, disks, load).unwrap();
    assert_eq!(outcome.latencies.len() as u64, outcome.due, "{}", load.iops);
    outcome
}

fn beside_nearest(iops: u64, seconds: u64) -> Load {
    Load { span: Duration::from_secs(seconds), ..Load::beside_reader(Policy::Nearest, iops) }
}

#[test]
fn the_nearest_log_costs_a_reader_little_and_is_soon_durable() {
    for (iops, seconds, least) in [(40, 30, 0.98), (320, 12, 0.86)] {
        let outcome = nearest(&presets::cheetah15k(), 1, &beside_nearest(iops, seconds));
        assert!(share(&outcome) > least, "{iops}: {}", share(&outcome));
        assert!(millis(&outcome) < 20.0, "{iops}: {} ms", millis(&outcome));
    }
}

#[test]
fn what_is_done_with_logs_beside_a_reader_counts_as_checkpoint_work() {
    // A disk of few logs, that are crowded soon.
    let outcome = nearest(&presets::cheetah15k().scaled(30), 1, &beside_nearest(320, 30));
    let (all, in_run) = (outcome.checkpoint, outcome.checkpoint_in_run);
    println!("{all:?}, {in_run:?} in the run");
    assert!(in_run > Duration::ZERO && in_run < all && in_run < Duration::from_secs(30), "{all:?}, {in_run:?}");
}

#[test]
fn the_nearest_log_costs_a_sequential_writer_little() {
    let mut load = beside_nearest(320, 20);
    (load.reader, load.writer) = (None, load.reader);
    let outcome = nearest(&presets::cheetah15k(), 1, &load);
    assert!(share(&outcome) > 0.9, "{}", share(&outcome));
    assert!(millis(&outcome) < 20.0, "{} ms", millis(&outcome));
}

#[test]
fn four_targets_that_are_striped_lose_hardly_more_to_small_writes_than_one() {
    let outcome = nearest(&presets::cheetah15k(), 4, &beside_nearest(320, 8));
    assert!(outcome.read.unwrap().alone > Rate::mb(400), "{:?}", outcome.read);
    assert!(share(&outcome) > 0.84, "{}", share(&outcome));
    assert!(millis(&outcome) < 25.0, "{} ms", millis(&outcome));
}

#[test]
fn many_clients_share_what_makes_their_writes_durable() {
    let durable = |clients| {
        let world = World::new(1);
        let disk = world.disk(presets::sata7200());
        let env = world.env(disk);
        let writes =
            async { Clients::on(env, None, clients).await?.write(Duration::from_secs(5), || Duration::ZERO).await };
        world.run(writes).unwrap()
    };
    let (one, many) = (durable(1), durable(64));
    assert!(many.rate() > 20.0 * one.rate(), "{} and {} a second", one.rate(), many.rate());
    assert!(many.syncs * 20 < many.latencies.len() as u64, "{} flushes for {}", many.syncs, many.latencies.len());
    let world = World::new(1);
    let disk = world.disk(presets::sata7200());
    let error = world.run(Clients::on(world.env(disk), None, 0)).err().unwrap();
    assert_eq!(error.message, "0 clients at once; give 1 to 4096");
}
