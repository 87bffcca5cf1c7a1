//! Keys of targets that roll.

use super::*;

#[test]
fn rolled_keys_are_used_when_the_target_has_them_and_old_ones_end_at_the_second_roll() {
    let (mut stage, mut targets) = stage();
    let before = made(&mut stage, &root(), "a");
    let (file, target) = (before.entry.file, before.components[0].target);
    for (roll, is_good) in [(Some(target), true), (None, false)] {
        stage.root(Change::RollKeys(RollKeys { target: roll })).unwrap();
        // Nobody is refused in between: what is made now is of a key that the target has.
        let between = read(&mut stage, &root(), file).unwrap();
        targets.check(&stage, &between, 0, Rights::READ, Some(1)).unwrap();
        heartbeat(&mut stage, &mut targets);
        let after = read(&mut stage, &root(), file).unwrap();
        targets.check(&stage, &after, 0, Rights::READ, Some(1)).unwrap();
        assert_eq!(targets.check(&stage, &before, 0, Rights::READ, Some(1)).is_ok(), is_good);
        // The others were rolled once in all.
        targets.check(&stage, &before, 1, Rights::READ, Some(1)).unwrap();
    }
    stage.restart();
    let after = read(&mut stage, &root(), file).unwrap();
    targets.check(&stage, &after, 0, Rights::READ, Some(1)).unwrap();
}

#[test]
fn outcome_5_keys_roll_by_themselves_each_hour_and_what_was_made_two_hours_ago_is_renewed() {
    let (mut stage, mut targets) = stage();
    let hour = Duration::from_secs(3600);
    let grant = made(&mut stage, &root(), "a");
    let file = grant.entry.file;
    // By the clock of a target it would count still: it is the key that decides.
    let check = |stage: &mut Stage, targets: &Targets| {
        let now = stage.now;
        stage.now.wall = grant.until.before(Duration::from_secs(1));
        let checked = targets.check(stage, &grant, 0, Rights::READ, Some(1)).map_err(|error| error.kind);
        stage.now = now;
        checked
    };
    let roll = |stage: &mut Stage, targets: &mut Targets, after: Duration, is_due: bool| {
        stage.pass(after);
        heartbeat(stage, targets);
        assert_eq!(stage.manager.tick(stage.now).unwrap().rolled, is_due);
        heartbeat(stage, targets);
    };
    roll(&mut stage, &mut targets, hour - Duration::from_secs(1), false);
    // Another manager counts from the last time, too, and not from when it was opened.
    stage.restart();
    roll(&mut stage, &mut targets, Duration::from_secs(1), true);
    assert_eq!(check(&mut stage, &targets), Ok(()));
    roll(&mut stage, &mut targets, hour / 2, false);
    stage.restart();
    roll(&mut stage, &mut targets, hour / 2, true);
    assert_eq!(check(&mut stage, &targets), Err(Kind::Stale));
    let renewed = renew(&mut stage, &root(), file, false).unwrap();
    targets.check(&stage, &renewed, 0, Rights::READ, Some(1)).unwrap();
    // People may do it as well, and the hour begins anew.
    roll(&mut stage, &mut targets, hour / 2, false);
    stage.root(Change::RollKeys(RollKeys { target: None })).unwrap();
    roll(&mut stage, &mut targets, hour / 2, false);
    roll(&mut stage, &mut targets, hour / 2, true);
    // A clock that was set back by a day is not waited for.
    stage.now.wall = stage.now.wall.before(24 * hour);
    roll(&mut stage, &mut targets, Duration::ZERO, true);
}

#[test]
fn no_key_is_rolled_by_itself_before_all_targets_that_can_be_reached_have_the_last_one() {
    let mut stage = Stage::new();
    let hour = Duration::from_secs(3600);
    let say = |stage: &mut Stage, node: u64, key: u32| {
        let mut report = report(node);
        report.targets.iter_mut().for_each(|target| target.key = key);
        stage.report(&report).unwrap();
    };
    let all = |stage: &mut Stage, key: u32| (1..=5).for_each(|node| say(stage, node, key));
    let roll = |stage: &mut Stage| stage.manager.tick(stage.now).unwrap().rolled;
    all(&mut stage, 1);
    stage.pass(hour);
    all(&mut stage, 1);
    assert!(roll(&mut stage));
    stage.pass(hour);
    // All but one have said that they have it, and that one can be reached.
    (1..5).for_each(|node| say(&mut stage, node, 2));
    say(&mut stage, 5, 1);
    assert!(!roll(&mut stage));
    say(&mut stage, 5, 2);
    assert!(roll(&mut stage));
    // One that is away is not waited for.
    stage.pass(hour);
    (1..5).for_each(|node| say(&mut stage, node, 3));
    assert!(!roll(&mut stage), "it is down since this tick");
    assert!(roll(&mut stage));
    // Nor is anything rolled before another manager has heard of who is up.
    stage.pass(hour);
    stage.restart();
    assert!(!roll(&mut stage));
    (1..5).for_each(|node| say(&mut stage, node, 4));
    assert!(roll(&mut stage));
}

#[test]
fn a_target_whose_key_was_rolled_twice_between_two_reports_takes_what_is_made_for_it() {
    let (mut stage, mut targets) = stage();
    let grant = made(&mut stage, &root(), "a");
    let target = grant.components[0].target;
    let node = (1..=5).find(|node| targets_of(*node).contains(&target)).unwrap();
    let with_first_key = || {
        let mut report = report(node);
        report.targets.iter_mut().for_each(|target| target.key = 1);
        report
    };
    stage.report(&with_first_key()).unwrap();
    for _ in 0..2 {
        stage.root(Change::RollKeys(RollKeys { target: None })).unwrap();
    }
    let between = read(&mut stage, &root(), grant.entry.file).unwrap();
    targets.check(&stage, &between, 0, Rights::READ, Some(1)).unwrap();
    // With the answer it drops the first key, and what is made from then on is made with one that it has.
    let told = stage.report(&with_first_key()).unwrap();
    targets.told(&told);
    let after = read(&mut stage, &root(), grant.entry.file).unwrap();
    targets.check(&stage, &after, 0, Rights::READ, Some(1)).unwrap();
}

#[test]
fn when_everything_is_revoked_only_what_is_made_later_counts() {
    let (mut stage, mut targets) = stage();
    let before = made(&mut stage, &root(), "a");
    stage.root(Change::RevokeAll).unwrap();
    let after = read(&mut stage, &root(), before.entry.file).unwrap();
    assert_eq!(targets.check(&stage, &after, 0, Rights::READ, Some(1)).unwrap_err().kind, Kind::Busy);
    heartbeat(&mut stage, &mut targets);
    assert_eq!(targets.check(&stage, &before, 0, Rights::READ, Some(1)).unwrap_err().kind, Kind::Stale);
    targets.check(&stage, &after, 0, Rights::READ, Some(1)).unwrap();
    stage.restart();
    let after = read(&mut stage, &root(), before.entry.file).unwrap();
    targets.check(&stage, &after, 0, Rights::READ, Some(1)).unwrap();
}
