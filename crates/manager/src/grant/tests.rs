use crate::principal::Principal;
use crate::testing::{CLUSTER, Stage, close, create, report, root, targets_of, unchanged, user};
use forebay_model::Bytes;
use forebay_model::layout::Raid;
use forebay_model::{Kind, ObjectId, Result, TargetId};
use forebay_wire::capability::{Keyring, Nonces, Rights, Said, Secret, TargetKey, Wanted};
use forebay_wire::control::cluster::{Order, Reported, RollKeys, SetTarget, TargetState};
use forebay_wire::control::files::{
    After, ClientGone, Close, Fence, Grant, OpenToRead, OpenToWrite, Renew, Renewed, Revoke, Scrubbed,
};
use forebay_wire::control::names::{CreateFile, FileId, Place, RemoveFile, SetAttributes};
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Change, Question, Reply};
use forebay_wire::target::ITSELF;
use forebay_wire::{Command, RequestId};
use std::collections::BTreeMap;
use std::time::Duration;

const NONCES: Nonces = Nonces { client: [1; 16], node: [2; 16] };

/// Targets as they would check capabilities, with what the manager tells them.
struct Targets(BTreeMap<TargetId, Keyring>);

impl Targets {
    fn new() -> Targets {
        let all = (1..=5).flat_map(targets_of);
        Targets(all.map(|target| (target, Keyring::new(CLUSTER, target, [9; 32]))).collect())
    }

    fn told(&mut self, reported: &Reported) -> Vec<(TargetId, Order)> {
        let mut orders = Vec::new();
        for told in &reported.targets {
            assert_eq!(told.refused, None);
            let keyring = self.0.get_mut(&told.target).unwrap();
            keyring.advance(reported.epoch, reported.least_epoch);
            for key in &told.keys {
                keyring.roll(TargetKey::from_bytes(key.version, key.key.0.clone().try_into().unwrap()));
            }
            orders.extend(told.orders.iter().map(|order| (told.target, *order)));
        }
        orders
    }

    /// What the target of a grant's component says to a command by whoever has the grant.
    fn check(
        &self,
        stage: &Stage,
        grant: &Grant,
        component: usize,
        rights: Rights,
        version: Option<u64>,
    ) -> Result<()> {
        let component = &grant.components[component];
        let said = Said {
            nonces: &NONCES,
            request: RequestId(7),
            command: Command(48),
            body: b"body",
            payload: (1, Bytes(2)),
        };
        let secret = Secret::from_bytes(component.secret.0.clone().try_into().unwrap());
        let wanted = Wanted { object: component.object, version, rights, bytes: 0..4096 };
        let capability = component.capability.clone().try_into().unwrap();
        self.0[&component.target].check(&capability, secret.prove(&said), &said, &wanted, stage.now.wall).map(drop)
    }
}

#[test]
fn everybody_is_told_with_what_each_target_that_is_not_gone_is_asked_about_itself_and_about_nothing_else() {
    let (mut stage, targets) = stage();
    let gone = targets_of(2)[1];
    stage.root(Change::SetTarget(SetTarget { target: gone, state: TargetState::Gone })).unwrap();
    let Reply::Targets(told) = stage.ask(&user(5), &Question::Targets).unwrap() else { panic!("no targets") };
    let expected = (1..=5).flat_map(targets_of).filter(|target| *target != gone);
    assert!(told.iter().map(|one| one.target).eq(expected), "{told:?}");
    for one in &told {
        let check = |rights| {
            let said = Said {
                nonces: &NONCES,
                request: RequestId(7),
                command: Command::PROFILES,
                body: b"body",
                payload: (1, Bytes::ZERO),
            };
            let secret = Secret::from_bytes(one.secret.0.clone().try_into().unwrap());
            let wanted = Wanted { object: ITSELF, version: None, rights, bytes: 0..0 };
            let capability = one.capability.clone().try_into().unwrap();
            targets.0[&one.target].check(&capability, secret.prove(&said), &said, &wanted, stage.now.wall).map(drop)
        };
        check(Rights::GET_ATTRIBUTES).unwrap();
        for more in [Rights::READ, Rights::WRITE, Rights::CREATE, Rights::SET_ATTRIBUTES, Rights::LIST] {
            assert_eq!(check(more).unwrap_err().kind, Kind::Forbidden, "{more:?}");
        }
    }
}

fn stage() -> (Stage, Targets) {
    let (mut stage, mut targets) = (Stage::new(), Targets::new());
    heartbeat(&mut stage, &mut targets);
    (stage, targets)
}

/// All nodes report, with what their targets have heard of.
fn heartbeat(stage: &mut Stage, targets: &mut Targets) -> Vec<(TargetId, Order)> {
    let mut orders = Vec::new();
    for node in 1..=5 {
        orders.extend(targets.told(&stage.report(&report(node)).unwrap()));
    }
    orders
}

fn made(stage: &mut Stage, by: &Principal, path: &str) -> Grant {
    let create = CreateFile {
        place: Place::path(path),
        mode: 0o640,
        exclusive: true,
        policy: None,
        open: true,
        alone: false,
        cached: false,
    };
    grant(stage.change(by, Change::CreateFile(create)).unwrap())
}

fn grant(reply: Reply) -> Grant {
    match reply {
        Reply::Grant(grant) => grant,
        other => panic!("{other:?} is no grant"),
    }
}

fn read(stage: &mut Stage, by: &Principal, file: FileId) -> Result<Grant> {
    stage.ask(by, &Question::OpenToRead(OpenToRead { place: Place::of(file), cached: false })).map(grant)
}

fn renew(stage: &mut Stage, by: &Principal, file: FileId, write: bool) -> Result<Grant> {
    let question = Question::Renew(Renew { files: vec![Renewed { file, write, version: 1 }] });
    let Reply::Grants(mut grants) = stage.ask(by, &question).unwrap() else { panic!("no grants") };
    let granted = grants.grants.remove(0);
    granted.grant.ok_or_else(|| granted.error.unwrap())
}

#[test]
fn what_is_granted_is_taken_by_the_targets_and_for_nothing_else() {
    let (mut stage, targets) = stage();
    let grant = made(&mut stage, &root(), "a");
    assert_eq!(grant.components.len(), 10);
    assert_eq!(grant.components[3].object, ObjectId { volume: 1, object: grant.entry.file.0 << 12 | 3 });
    for component in 0..10 {
        for rights in [Rights::READ, Rights::WRITE, Rights::CREATE, Rights::TRUNCATE] {
            targets.check(&stage, &grant, component, rights, None).unwrap();
            targets.check(&stage, &grant, component, rights, Some(1)).unwrap();
        }
        let denied = targets.check(&stage, &grant, component, Rights::REMOVE, Some(1)).unwrap_err();
        assert_eq!(denied.kind, Kind::Forbidden);
    }
    let mut swapped = grant.clone();
    swapped.components[0].object = grant.components[1].object;
    assert_eq!(targets.check(&stage, &swapped, 0, Rights::READ, None).unwrap_err().kind, Kind::Forbidden);
    let reads = read(&mut stage, &root(), grant.entry.file).unwrap();
    targets.check(&stage, &reads, 0, Rights::READ, Some(1)).unwrap();
    assert_eq!(targets.check(&stage, &reads, 0, Rights::WRITE, Some(1)).unwrap_err().kind, Kind::Forbidden);
    stage.pass(Duration::from_secs(300));
    assert_eq!(targets.check(&stage, &grant, 0, Rights::READ, Some(1)).unwrap_err().kind, Kind::Stale);
    let again = renew(&mut stage, &root(), grant.entry.file, true).unwrap();
    targets.check(&stage, &again, 0, Rights::WRITE, Some(1)).unwrap();
    let serials =
        |grant: &Grant| grant.components.iter().map(|it| it.capability[104..112].to_vec()).collect::<Vec<_>>();
    assert!(serials(&again).iter().all(|serial| !serials(&grant).contains(serial)));
}

#[test]
fn only_whom_the_mode_allows_gets_a_grant_and_who_writes_without_parity_does_not_read() {
    let (mut stage, targets) = stage();
    let (owner, member, other) = (user(5), Principal { groups: vec![5], ..user(6) }, user(7));
    let open = |mode| SetAttributes { mode: Some(mode), ..unchanged(Place::path("")) };
    stage.root(Change::SetAttributes(open(0o777))).unwrap();
    let file = made(&mut stage, &owner, "a").entry.file;
    assert!(read(&mut stage, &member, file).is_ok());
    assert_eq!(read(&mut stage, &other, file).unwrap_err().kind, Kind::Forbidden);
    let write = Change::OpenToWrite(OpenToWrite {
        place: Place::of(file),
        alone: false,
        upkeep: false,
        yields: false,
        cached: false,
    });
    assert_eq!(stage.change(&member, write.clone()).unwrap_err().kind, Kind::Forbidden);
    assert_eq!(stage.change(&other, write).unwrap_err().kind, Kind::Forbidden);
    assert_eq!(read(&mut stage, &root(), FileId::ROOT).unwrap_err().kind, Kind::Usage);
    // A drop box: whoever writes there reads nothing.
    for (path, raid, kind) in [("zero", Raid::Zero, Some(Kind::Forbidden)), ("five", Raid::Five, None)] {
        let policy = Some(Policy { raid, ..Policy::default() });
        let create = CreateFile {
            place: Place::path(path),
            mode: 0o622,
            exclusive: true,
            policy,
            open: false,
            alone: false,
            cached: false,
        };
        stage.change(&owner, Change::CreateFile(create)).unwrap();
        let write = Change::OpenToWrite(OpenToWrite {
            place: Place::path(path),
            alone: false,
            upkeep: false,
            yields: false,
            cached: false,
        });
        let granted = grant(stage.change(&other, write).unwrap());
        targets.check(&stage, &granted, 0, Rights::WRITE, None).unwrap();
        assert_eq!(targets.check(&stage, &granted, 0, Rights::READ, None).err().map(|error| error.kind), kind);
    }
}

#[test]
fn to_write_a_file_has_to_be_open_and_what_is_removed_is_renewed_for_nobody() {
    let (mut stage, _) = stage();
    let file = made(&mut stage, &root(), "a").entry.file;
    let other = Principal::root(2);
    assert_eq!(renew(&mut stage, &other, file, true).unwrap_err().kind, Kind::Stale);
    assert!(renew(&mut stage, &other, file, false).is_ok());
    stage.restart();
    assert!(renew(&mut stage, &root(), file, true).is_ok());
    stage.root(Change::Close(Close { size: Some(Bytes(5)), ..close(file) })).unwrap();
    assert_eq!(renew(&mut stage, &root(), file, true).unwrap_err().kind, Kind::Stale);
    stage.root(Change::RemoveFile(RemoveFile::at(Place::path("a")))).unwrap();
    assert_eq!(renew(&mut stage, &root(), file, false).unwrap_err().kind, Kind::Missing);
    let many = Question::Renew(Renew { files: vec![Renewed { file, write: false, version: 1 }; 65] });
    assert_eq!(stage.ask(&root(), &many).unwrap_err().kind, Kind::Usage);
}

#[test]
fn who_has_a_file_open_to_write_may_fence_it_by_one_step_and_nobody_else() {
    let (mut stage, mut targets) = stage();
    let before = made(&mut stage, &root(), "a");
    let file = before.entry.file;
    let fence = |version| Change::Fence(Fence { file, version });
    assert_eq!(stage.change(&user(5), fence(2)).unwrap_err().kind, Kind::Stale);
    assert_eq!(stage.root(fence(3)).unwrap_err().kind, Kind::Usage);
    stage.root(fence(2)).unwrap();
    stage.root(fence(2)).unwrap();
    let orders = heartbeat(&mut stage, &mut targets);
    assert!(orders.len() == 10 && orders.iter().all(|(_, order)| order.version == 2 && !order.remove), "{orders:?}");
    assert_eq!(targets.check(&stage, &before, 0, Rights::READ, Some(2)).unwrap_err().kind, Kind::Stale);
    let after = renew(&mut stage, &root(), file, true).unwrap();
    targets.check(&stage, &after, 0, Rights::WRITE, Some(2)).unwrap();
    stage.root(Change::Close(close(file))).unwrap();
    assert_eq!(stage.root(fence(3)).unwrap_err().kind, Kind::Stale);
}

#[test]
fn a_file_is_open_for_a_user_and_not_for_whoever_has_its_clients_number() {
    let (mut stage, _) = stage();
    stage.directory(&root(), "d", 0o777).unwrap();
    let owner = user(5);
    let file = made(&mut stage, &owner, "d/a").entry.file;
    // What was answered to the client is forgotten, and so whose it was.
    let key = crate::keys::client(owner.client);
    stage.put_raw([(key, None)]);
    let thief = Principal { client: owner.client, ..user(6) };
    assert_eq!(renew(&mut stage, &thief, file, true).unwrap_err().kind, Kind::Stale);
    let close = Change::Close(close(file));
    assert!(renew(&mut stage, &owner, file, true).is_ok());
    assert_eq!(stage.change(&thief, close).unwrap_err().kind, Kind::Missing);
}

#[test]
fn who_wants_to_be_alone_with_a_file_has_it_alone_until_it_closes_it_or_is_gone() {
    let (mut stage, _) = stage();
    stage.directory(&root(), "d", 0o777).unwrap();
    let create = CreateFile {
        place: Place::path("d/a"),
        mode: 0o666,
        exclusive: true,
        policy: None,
        open: true,
        alone: true,
        cached: false,
    };
    let Reply::Grant(grant) = stage.change(&user(5), Change::CreateFile(create)).unwrap() else { panic!("a grant") };
    let file = grant.entry.file;
    let open = |alone| {
        Change::OpenToWrite(OpenToWrite { place: Place::of(file), alone, upkeep: false, yields: false, cached: false })
    };
    for alone in [false, true] {
        let refused = stage.change(&user(6), open(alone)).unwrap_err();
        assert!(refused.kind == Kind::Busy && refused.message.contains("600 seconds"), "{refused}");
    }
    // It may change its mind, and then others may come.
    stage.change(&user(5), open(true)).unwrap();
    stage.change(&user(5), open(false)).unwrap();
    stage.change(&user(6), open(false)).unwrap();
    assert_eq!(stage.change(&user(5), open(true)).unwrap_err().kind, Kind::Busy);
    let close = || Change::Close(close(file));
    stage.change(&user(6), close()).unwrap();
    stage.change(&user(5), open(true)).unwrap();
    stage.root(Change::ClientGone(ClientGone { client: user(5).client })).unwrap();
    // What was begun is ended by those alone who look for it, and they come beside others first.
    assert_eq!(stage.change(&user(6), open(true)).unwrap_err().kind, Kind::Busy);
    stage.change(&user(6), open(false)).unwrap();
    stage.change(&user(6), open(true)).unwrap();
    stage.change(&user(6), close()).unwrap();
    assert_eq!(stage.change(&user(6), open(true)).unwrap_err().kind, Kind::Busy);
    stage.root(Change::Scrubbed(Scrubbed { file })).unwrap();
    stage.change(&user(6), open(true)).unwrap();
}

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
