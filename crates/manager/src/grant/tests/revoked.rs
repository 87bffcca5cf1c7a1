//! What was revoked or removed: the targets are told until they say that it is done.

use super::*;

#[test]
fn a_revoked_file_is_fenced_at_each_target_until_that_says_so() {
    let (mut stage, mut targets) = stage();
    let before = made(&mut stage, &root(), "a");
    let file = before.entry.file;
    stage.root(Change::Revoke(Revoke { file })).unwrap();
    assert_eq!(stage.change(&user(5), Change::Revoke(Revoke { file })).unwrap_err().kind, Kind::Forbidden);
    for _ in 0..2 {
        let mut orders = heartbeat(&mut stage, &mut targets);
        assert_eq!(orders.len(), 10, "said again as long as nobody has done it");
        orders.sort();
        let mut expected: Vec<(TargetId, Order)> = before
            .components
            .iter()
            .map(|it| (it.target, Order { object: it.object, version: 2, remove: false }))
            .collect();
        expected.sort();
        assert_eq!(orders, expected);
        stage.restart();
    }
    // A target that did it has version 2 from then on.
    assert_eq!(targets.check(&stage, &before, 0, Rights::READ, Some(2)).unwrap_err().kind, Kind::Stale);
    let after = renew(&mut stage, &root(), file, false).unwrap();
    targets.check(&stage, &after, 0, Rights::READ, Some(2)).unwrap();
    carried_out(&mut stage, &mut targets, &before, 2, false);
    assert!(heartbeat(&mut stage, &mut targets).is_empty());
}

/// All nodes report that they did what they were told about a file, and are told nothing more.
fn carried_out(stage: &mut Stage, targets: &mut Targets, grant: &Grant, version: u64, remove: bool) {
    for node in 1..=5 {
        let mut done = report(node);
        for target in &mut done.targets {
            let of = grant.components.iter().filter(|it| it.target == target.target);
            target.carried_out = of.map(|it| Order { object: it.object, version, remove }).collect();
        }
        let told = stage.report(&done).unwrap();
        assert!(targets.told(&told).is_empty());
    }
}

#[test]
fn whoever_writes_what_is_revoked_has_to_open_it_again_which_its_mode_may_not_allow_any_more() {
    let (mut stage, targets) = stage();
    stage.directory(&root(), "d", 0o777).unwrap();
    let (owner, other) = (user(5), user(7));
    let create = CreateFile {
        place: Place::path("d/a"),
        mode: 0o666,
        exclusive: true,
        policy: None,
        open: true,
        alone: false,
        cached: false,
    };
    let file = grant(stage.change(&owner, Change::CreateFile(create)).unwrap()).entry.file;
    let open = Change::OpenToWrite(OpenToWrite {
        place: Place::of(file),
        alone: false,
        upkeep: false,
        yields: false,
        cached: false,
    });
    stage.change(&other, open.clone()).unwrap();
    let closed_to_others = SetAttributes { mode: Some(0o600), ..unchanged(Place::of(file)) };
    stage.change(&owner, Change::SetAttributes(closed_to_others)).unwrap();
    assert!(renew(&mut stage, &other, file, true).is_ok(), "as in POSIX, what is open stays so");
    stage.change(&owner, Change::Revoke(Revoke { file })).unwrap();
    for by in [&owner, &other] {
        assert_eq!(renew(&mut stage, by, file, true).unwrap_err().kind, Kind::Stale);
        let close = Change::Close(close(file));
        assert_eq!(stage.change(by, close).unwrap_err().kind, Kind::Missing);
    }
    let Reply::Unscrubbed(left) =
        stage.ask(&root(), &Question::Unscrubbed(After { file: FileId(0), most: 9 })).unwrap()
    else {
        panic!("no files")
    };
    assert_eq!(left.files, [file]);
    assert_eq!(stage.change(&other, open.clone()).unwrap_err().kind, Kind::Forbidden);
    let again = grant(stage.change(&owner, open).unwrap());
    targets.check(&stage, &again, 0, Rights::WRITE, Some(2)).unwrap();
}

#[test]
fn what_was_revoked_is_told_before_all_that_is_to_be_removed() {
    let (mut stage, mut targets) = stage();
    let next = crate::records::Next { file: 100_000, volume: 2 };
    let mut pairs = vec![(crate::keys::NEXT.to_vec(), Some(crate::records::encode(crate::keys::NEXT, &next).unwrap()))];
    for file in 1000..11_000 {
        let pending = (1..=5).map(|node| (node as u32, targets_of(node)[0])).collect();
        let orders = crate::records::Orders { volume: 1, version: 1, due: stage.now.wall, pending };
        let key = crate::keys::removals(FileId(file));
        let value = Some(crate::records::encode(&key, &orders).unwrap());
        pairs.push((key, value));
    }
    stage.put_raw(pairs);
    let file = made(&mut stage, &root(), "a").entry.file;
    stage.root(Change::Revoke(Revoke { file })).unwrap();
    let orders = heartbeat(&mut stage, &mut targets);
    assert_eq!(orders.iter().filter(|(_, order)| !order.remove && order.version == 2).count(), 10);
    assert!(orders.len() > 4000, "and the others are told with it: {}", orders.len());
}

#[test]
fn what_was_revoked_and_then_removed_is_fenced_at_once_and_not_made_again_for_that_later() {
    let (mut stage, mut targets) = stage();
    let before = made(&mut stage, &root(), "a");
    stage.root(Change::Revoke(Revoke { file: before.entry.file })).unwrap();
    stage.root(Change::RemoveFile(RemoveFile::at(Place::path("a")))).unwrap();
    let orders = heartbeat(&mut stage, &mut targets);
    assert!(orders.len() == 10 && orders.iter().all(|(_, order)| !order.remove && order.version == 2));
    stage.pass(Duration::from_secs(600));
    let orders = heartbeat(&mut stage, &mut targets);
    assert_eq!(orders.len(), 20);
    for node in orders.chunks(4) {
        let at = |remove| node.iter().position(|(target, order)| *target == node[0].0 && order.remove == remove);
        assert!(at(false).unwrap() < at(true).unwrap(), "{node:?}");
    }
    // Who has removed it is not told to fence it any more, for which it would be made again.
    carried_out(&mut stage, &mut targets, &before, 2, true);
    let view = stage.manager.view().unwrap();
    assert!(view.scan(b"F", b"G", 9).unwrap().is_empty() && view.scan(b"O", b"P", 9).unwrap().is_empty());
}

#[test]
fn objects_of_a_removed_file_are_removed_when_no_capability_for_them_counts_any_more() {
    let (mut stage, mut targets) = stage();
    made(&mut stage, &root(), "a");
    // Never written, it has no objects.
    stage.root(create("b", 0o644)).unwrap();
    for path in ["a", "b"] {
        stage.root(Change::RemoveFile(RemoveFile::at(Place::path(path)))).unwrap();
    }
    // Five minutes, and one by which the clock of a target may be behind.
    stage.pass(Duration::from_secs(359));
    assert!(heartbeat(&mut stage, &mut targets).is_empty());
    stage.pass(Duration::from_secs(1));
    let orders = heartbeat(&mut stage, &mut targets);
    assert!(orders.len() == 10 && orders.iter().all(|(_, order)| order.remove));
    // A target that is gone removes nothing any more.
    let (gone, _) = orders[0];
    stage.root(Change::SetTarget(SetTarget { target: gone, state: TargetState::Gone })).unwrap();
    stage.manager.tick(stage.now).unwrap();
    let view = stage.manager.view().unwrap();
    let pairs = view.scan(b"O", b"P", 9).unwrap();
    let left: crate::records::Orders = crate::records::decode(&pairs[0].0, &pairs[0].1).unwrap();
    assert_eq!(left.pending.len(), 9);
}
