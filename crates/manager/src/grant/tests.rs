mod keys;
mod revoked;

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
fn who_opens_a_file_to_write_is_told_that_somebody_left_it_until_it_is_mended() {
    let (mut stage, _) = stage();
    let file = stage.file(&root(), "a", 0o644).unwrap();
    let is_left = |stage: &mut Stage, client| {
        let place = Place::of(file);
        let open = OpenToWrite { place, alone: false, upkeep: false, yields: false, cached: false };
        grant(stage.change(&Principal::root(client), Change::OpenToWrite(open)).unwrap()).left
    };
    assert!(!is_left(&mut stage, 3));
    stage.root(Change::ClientGone(ClientGone { client: 3 })).unwrap();
    // Also who comes second, while the first one writes it.
    assert!(is_left(&mut stage, 4) && is_left(&mut stage, 5) && is_left(&mut stage, 4));
    for client in [4, 5] {
        stage.change(&Principal::root(client), Change::Close(close(file))).unwrap();
    }
    stage.root(Change::Scrubbed(Scrubbed { file })).unwrap();
    assert!(!is_left(&mut stage, 4));
}

#[test]
fn who_makes_a_file_is_alone_with_it_or_called_back_and_not_both() {
    let (mut stage, _) = stage();
    let make = |exclusive| {
        let place = Place::path("a");
        let create = CreateFile { place, mode: 0o640, exclusive, policy: None, open: true, alone: true, cached: true };
        Change::CreateFile(create)
    };
    assert_eq!(stage.root(make(true)).unwrap_err().kind, Kind::Usage);
    assert_eq!(stage.stat(&root(), Place::path("a")).unwrap_err().kind, Kind::Missing, "nothing was made");
    made(&mut stage, &root(), "a");
    assert_eq!(stage.root(make(false)).unwrap_err().kind, Kind::Usage, "nor is what is there opened so");
}
