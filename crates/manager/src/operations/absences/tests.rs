use crate::draft::View;
use crate::engine::Engine;
use crate::keys;
use crate::manager::Settings;
use crate::principal::Principal;
use crate::records::{Absence, Absent, Layout, NOWHERE, Orders, encode};
use crate::testing::{NODES, Stage, close, report, root, targets_of, user};
use forebay_model::layout::{Raid, UNIT};
use forebay_model::{Bytes, Error, Kind, Result, TargetId};
use forebay_wire::capability::{LONGEST_LIFE, SKEW};
use forebay_wire::control::cluster::{Order, SetTarget, TargetState};
use forebay_wire::control::files::{
    AskDegraded, ComponentState, Degraded, GiveUp, GivenUp, Grant, OpenToRead, OpenToWrite, Rebuilt, Refill, Renew,
    Renewed, Revoke,
};
use forebay_wire::control::names::{CreateFile, FileId, Place, RemoveFile};
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Change, Question, Reply};
use std::time::Duration;

fn grant(reply: Reply) -> Grant {
    match reply {
        Reply::Grant(grant) => grant,
        other => panic!("{other:?} is no grant"),
    }
}

/// Two more users' clients, of which the second one also has the file open to write.
fn others() -> [Principal; 2] {
    [user(5), user(6)]
}

impl Stage {
    /// A file in RAID 5 over five targets, that root has open to write beside others.
    fn striped(&mut self) -> Grant {
        self.striped_at("striped")
    }

    fn striped_at(&mut self, path: &str) -> Grant {
        let policy = Some(Policy { raid: Raid::Five, unit: UNIT, targets: 5 });
        let create = CreateFile {
            place: Place::path(path),
            mode: 0o666,
            exclusive: true,
            policy,
            open: true,
            alone: false,
            cached: false,
        };
        grant(self.root(Change::CreateFile(create)).unwrap())
    }

    fn open(&mut self, by: &Principal, file: FileId, alone: bool) -> Result<Grant> {
        self.change(
            by,
            Change::OpenToWrite(OpenToWrite {
                place: Place::of(file),
                alone,
                upkeep: false,
                yields: false,
                cached: false,
            }),
        )
        .map(grant)
    }

    fn leave(&mut self, by: &Principal, file: FileId) {
        let close = close(file);
        self.change(by, Change::Close(close)).unwrap();
    }

    fn read(&mut self, by: &Principal, file: FileId) -> Grant {
        grant(self.ask(by, &Question::OpenToRead(OpenToRead { place: Place::of(file), cached: false })).unwrap())
    }

    fn version(&mut self, file: FileId) -> u64 {
        self.stat(&root(), Place::of(file)).unwrap().attributes.version
    }

    fn give_up(&mut self, by: &Principal, file: FileId, components: &[u32]) -> Result<Reply> {
        let version = self.version(file);
        self.change(by, Change::GiveUp(GiveUp { file, components: components.to_vec(), version }))
    }

    fn given_up(&mut self, file: FileId) -> Result<Reply> {
        let version = self.version(file);
        self.ask(&root(), &Question::GivenUp(GivenUp { file, version }))
    }

    fn refill(&mut self, by: &Principal, file: FileId, component: u32, emptied: bool) -> Result<Reply> {
        let version = self.version(file);
        self.change(by, Change::Refill(Refill { file, component, version, emptied }))
    }

    fn rebuilt(&mut self, by: &Principal, file: FileId, component: u32) -> Result<Reply> {
        let version = self.version(file);
        self.change(by, Change::Rebuilt(Rebuilt { file, component, version }))
    }

    fn degraded(&mut self) -> Vec<FileId> {
        self.listed(&root(), AskDegraded { file: FileId(0), most: 10, left: false }).files
    }

    /// What is left to be begun by this client.
    fn left_to_rebuild(&mut self, by: &Principal) -> Vec<FileId> {
        self.listed(by, AskDegraded { file: FileId(0), most: 10, left: true }).files
    }

    fn listed(&mut self, by: &Principal, asked: AskDegraded) -> Degraded {
        match self.ask(by, &Question::Degraded(asked)).unwrap() {
            Reply::Degraded(degraded) => degraded,
            other => panic!("{other:?} are no files"),
        }
    }

    /// A target's node reports, and that it did all that it had to.
    fn obey(&mut self, node: u64) -> Vec<(TargetId, Order)> {
        let told = self.report(&report(node)).unwrap();
        let orders = told.targets.iter().flat_map(|to| to.orders.iter().map(|order| (to.target, *order)));
        let orders: Vec<_> = orders.collect();
        let mut done = report(node);
        for reported in &mut done.targets {
            let own = orders.iter().filter(|(target, _)| *target == reported.target);
            reported.carried_out = own.map(|(_, order)| *order).collect();
        }
        self.report(&done).unwrap();
        orders
    }
}

fn states(grant: &Grant) -> Vec<ComponentState> {
    grant.components.iter().map(|component| component.state).collect()
}

fn node_of(target: TargetId) -> u64 {
    (1..=NODES).find(|node| targets_of(*node).contains(&target)).unwrap()
}

fn kind<T: std::fmt::Debug>(answer: Result<T>) -> Kind {
    answer.unwrap_err().kind
}

#[test]
fn for_what_was_given_up_nobody_gets_a_capability_and_everybody_is_told() {
    let mut stage = Stage::new();
    let before = stage.striped();
    let file = before.entry.file;
    assert_eq!(states(&before), [ComponentState::Whole; 5]);
    stage.give_up(&root(), file, &[3]).unwrap();
    assert_eq!(stage.degraded(), [file]);
    for grant in [stage.open(&root(), file, false).unwrap(), stage.read(&user(5), file)] {
        assert_eq!(grant.entry.attributes.version, before.entry.attributes.version + 1);
        assert_eq!(states(&grant)[3], ComponentState::Missed);
        assert!(grant.components[3].capability.is_empty() && grant.components[3].secret.0.is_empty());
        assert_eq!(states(&grant).iter().filter(|state| **state == ComponentState::Whole).count(), 4);
    }
    // Said again it changes nothing.
    let version = stage.version(file);
    stage.give_up(&root(), file, &[3]).unwrap();
    assert_eq!(stage.version(file), version);
    stage.restart();
    assert_eq!(states(&stage.read(&user(5), file))[3], ComponentState::Missed);
}

#[test]
fn no_more_is_given_up_than_parity_has_to_spare_and_nothing_by_who_does_not_write() {
    let mut stage = Stage::new();
    let file = stage.striped().entry.file;
    let asked = |components: &[u32], version| Change::GiveUp(GiveUp { file, components: components.to_vec(), version });
    assert_eq!(kind(stage.root(asked(&[0, 4], 1))), Kind::Device);
    assert_eq!(kind(stage.root(asked(&[5], 1))), Kind::Usage);
    assert_eq!(kind(stage.root(asked(&[0], 2))), Kind::Stale);
    assert_eq!(kind(stage.change(&user(5), asked(&[0], 1))), Kind::Stale);
    assert_eq!((stage.version(file), stage.degraded()), (1, vec![]));
    stage.give_up(&root(), file, &[0]).unwrap();
    let Error { kind, message } = stage.give_up(&root(), file, &[4]).unwrap_err();
    assert!(kind == Kind::Device && message.contains("[0]") && message.contains("RAID 5"), "{message}");
}

#[test]
fn who_may_still_be_answered_by_what_was_given_up_is_waited_for() {
    let mut stage = Stage::new();
    let [reader, _] = others();
    let file = stage.striped().entry.file;
    stage.read(&reader, file);
    stage.give_up(&root(), file, &[1]).unwrap();
    // The reader may have what was given before.
    assert_eq!(kind(stage.given_up(file)), Kind::Busy);
    stage.pass(Duration::from_secs(400));
    assert!(stage.given_up(file).is_ok());

    let second = stage.striped_at("second").entry.file;
    stage.read(&reader, second);
    stage.give_up(&root(), second, &[1]).unwrap();
    assert_eq!(kind(stage.given_up(second)), Kind::Busy);
    // Whoever has something newer says so when it renews that.
    let version = stage.read(&reader, second).entry.attributes.version;
    assert_eq!(kind(stage.given_up(second)), Kind::Busy);
    let files = vec![Renewed { file: second, write: false, version }];
    stage.ask(&reader, &Question::Renew(Renew { files })).unwrap();
    assert!(stage.given_up(second).is_ok());
}

#[test]
fn who_may_still_be_answered_is_waited_for_no_longer_where_very_many_are_given_something() {
    let mut stage = Stage::new();
    let [reader, _] = others();
    let file = stage.striped().entry.file;
    stage.read(&reader, file);
    stage.give_up(&root(), file, &[1]).unwrap();
    for minute in 0..9 {
        // More than are told apart, so that some are forgotten.
        let (now, until) = (stage.now.wall, stage.now.wall.after(LONGEST_LIFE + SKEW));
        (0..300_000)
            .for_each(|other| stage.manager.holders.note(FileId(1 << 40 | other), 1 << 20 | minute, 1, until, now));
        assert_eq!(stage.given_up(file).is_ok(), minute == 8, "{minute}");
        stage.pass(Duration::from_secs(50));
    }
}

#[test]
fn what_another_manager_gave_before_a_restart_is_waited_for() {
    let mut stage = Stage::new();
    let file = stage.striped().entry.file;
    stage.restart();
    stage.give_up(&root(), file, &[1]).unwrap();
    assert_eq!(kind(stage.given_up(file)), Kind::Busy);
    stage.pass(Duration::from_secs(400));
    assert!(stage.given_up(file).is_ok());
    // Of a file that is newer than this manager nobody else was given anything.
    let newer = stage.striped_at("newer").entry.file;
    stage.give_up(&root(), newer, &[1]).unwrap();
    assert!(stage.given_up(newer).is_ok());
}

#[test]
fn a_target_that_heard_of_it_answers_nobody_for_what_was_given_up() {
    let mut stage = Stage::new();
    let [reader, _] = others();
    let grant = stage.striped();
    let file = grant.entry.file;
    stage.read(&reader, file);
    stage.give_up(&root(), file, &[1]).unwrap();
    let node = node_of(grant.components[1].target);
    for other in (1..=NODES).filter(|other| *other != node) {
        stage.obey(other);
    }
    assert_eq!(kind(stage.given_up(file)), Kind::Busy);
    let orders = stage.obey(node);
    assert!(orders.iter().any(|(_, order)| order.object == grant.components[1].object && !order.remove));
    assert!(stage.given_up(file).is_ok());
}

#[test]
fn a_component_is_emptied_by_one_client_then_written_by_all_and_then_read_again() {
    let mut stage = Stage::new();
    let [_, writer] = others();
    let file = stage.striped().entry.file;
    stage.open(&writer, file, false).unwrap();
    stage.give_up(&writer, file, &[2]).unwrap();
    assert_eq!(kind(stage.refill(&root(), file, 2, true)), Kind::Stale);
    assert_eq!(kind(stage.refill(&root(), file, 1, false)), Kind::Stale);
    stage.refill(&root(), file, 2, false).unwrap();
    let own = stage.open(&root(), file, false).unwrap();
    assert_eq!(states(&own)[2], ComponentState::Emptying);
    assert!(!own.components[2].capability.is_empty());
    assert_eq!(states(&stage.open(&writer, file, false).unwrap())[2], ComponentState::Missed);
    // Somebody else begins anew when it has closed the file.
    assert_eq!(kind(stage.refill(&writer, file, 2, false)), Kind::Busy);
    stage.root(Change::Close(close(file))).unwrap();
    stage.refill(&writer, file, 2, false).unwrap();
    stage.open(&root(), file, false).unwrap();
    assert_eq!(kind(stage.refill(&root(), file, 2, true)), Kind::Busy);
    stage.refill(&writer, file, 2, true).unwrap();
    assert_eq!(states(&stage.open(&root(), file, false).unwrap())[2], ComponentState::Filling);
    // Who only reads has to see there what was begun of a stripe, before anything is made of its parity.
    let read = stage.read(&user(7), file);
    let rights = u16::from_le_bytes(read.components[2].capability[2..4].try_into().unwrap());
    // To read and to get attributes.
    assert_eq!(rights, 0b1001);
    assert_eq!(kind(stage.rebuilt(&root(), file, 2)), Kind::Stale);
    assert_eq!(stage.degraded(), [file]);
    stage.rebuilt(&writer, file, 2).unwrap();
    assert_eq!(states(&stage.open(&root(), file, false).unwrap()), [ComponentState::Whole; 5]);
    assert_eq!(stage.degraded(), []);
    // What missed something while it was filled is not whole.
    stage.give_up(&writer, file, &[2]).unwrap();
    stage.refill(&writer, file, 2, false).unwrap();
    stage.refill(&writer, file, 2, true).unwrap();
    stage.give_up(&root(), file, &[2]).unwrap();
    assert_eq!(kind(stage.rebuilt(&writer, file, 2)), Kind::Stale);
}

#[test]
fn what_was_on_a_target_that_failed_is_rebuilt_on_another_one_and_removed_if_that_comes_back() {
    let mut stage = Stage::new();
    let grant = stage.striped();
    let file = grant.entry.file;
    let target = grant.components[4].target;
    stage.root(Change::SetTarget(SetTarget { target, state: TargetState::Failed })).unwrap();
    stage.manager.tick(stage.now).unwrap();
    assert_eq!(stage.degraded(), [file]);
    assert_eq!(states(&stage.read(&user(5), file))[4], ComponentState::Missed);
    stage.refill(&root(), file, 4, false).unwrap();
    let moved = stage.open(&root(), file, false).unwrap();
    let now = moved.components[4].target;
    let others: Vec<TargetId> = moved.components[..4].iter().map(|component| component.target).collect();
    assert!(now != target && !others.contains(&now), "{now} of {others:?}");
    assert!(others.iter().all(|other| node_of(*other) != node_of(now)), "a node that has none yet is free");
    stage.refill(&root(), file, 4, true).unwrap();
    stage.rebuilt(&root(), file, 4).unwrap();
    // The old one is told when nothing that was given out for it counts any more.
    let is_told = |orders: Vec<(TargetId, Order)>| {
        orders.iter().any(|(to, order)| *to == target && order.remove && order.object == grant.components[4].object)
    };
    assert!(!is_told(stage.obey(node_of(target))));
    stage.pass(Duration::from_secs(400));
    for node in 1..=NODES {
        let told = stage.obey(node);
        assert_eq!(is_told(told), node == node_of(target));
    }
    assert!(!is_told(stage.obey(node_of(target))));
    assert_eq!(states(&stage.read(&user(5), file)), [ComponentState::Whole; 5]);
}

#[test]
fn what_was_given_up_on_a_slow_target_is_rebuilt_on_another_one_or_when_that_is_not_slow_any_more() {
    let mut stage = Stage::new();
    let grant = stage.striped();
    let (file, target) = (grant.entry.file, grant.components[4].target);
    let all_report = |stage: &mut Stage, slow, others_are_full| {
        for node in 1..=NODES {
            let mut told = report(node);
            for reported in &mut told.targets {
                reported.slow = slow && reported.target == target;
                if others_are_full && reported.target != target {
                    reported.free = Bytes::ZERO;
                }
            }
            stage.report(&told).unwrap();
        }
    };
    stage.give_up(&root(), file, &[4]).unwrap();
    all_report(&mut stage, true, true);
    let refused = stage.refill(&root(), file, 4, false).unwrap_err();
    assert!(refused.kind == Kind::Device && refused.message.contains("become slow"), "{refused}");
    for (slow, others_are_full) in [(false, true), (true, false)] {
        all_report(&mut stage, slow, others_are_full);
        stage.refill(&root(), file, 4, false).unwrap();
        let now = stage.open(&root(), file, false).unwrap().components[4].target;
        assert_eq!(now != target, slow, "{now} after {target}");
    }
}

#[test]
fn more_than_parity_has_to_spare_stays_as_it_is_when_targets_fail() {
    let mut stage = Stage::new();
    let grant = stage.striped();
    let file = grant.entry.file;
    for component in [1, 3] {
        let target = grant.components[component].target;
        stage.root(Change::SetTarget(SetTarget { target, state: TargetState::Failed })).unwrap();
    }
    stage.manager.tick(stage.now).unwrap();
    let missed = states(&stage.read(&user(5), file)).iter().filter(|state| **state == ComponentState::Missed).count();
    assert_eq!(missed, 1);
}

#[test]
fn who_rebuilds_makes_way_for_one_who_wants_to_be_alone_and_begins_anew_later() {
    let mut stage = Stage::new();
    let [writer, _] = others();
    let file = stage.striped().entry.file;
    assert_eq!(kind(stage.open(&writer, file, true)), Kind::Busy);
    stage.give_up(&root(), file, &[0]).unwrap();
    assert_eq!(kind(stage.open(&writer, file, true)), Kind::Busy);
    stage.refill(&root(), file, 0, false).unwrap();
    stage.refill(&root(), file, 0, true).unwrap();
    let alone = stage.open(&writer, file, true).unwrap();
    assert_eq!(states(&alone)[0], ComponentState::Missed);
    let version = stage.version(file);
    assert_eq!(alone.entry.attributes.version, version);
    let rebuilt = Change::Rebuilt(Rebuilt { file, component: 0, version });
    assert_eq!(kind(stage.root(rebuilt)), Kind::Stale);
    stage.leave(&writer, file);
    assert_eq!(stage.degraded(), [file]);
    stage.root(Change::RemoveFile(RemoveFile::at(Place::path("striped")))).unwrap();
    assert_eq!(stage.degraded(), []);
}

#[test]
fn a_target_that_a_component_has_left_is_told_of_each_newer_version() {
    let mut stage = Stage::new();
    let grant = stage.striped();
    let (file, left) = (grant.entry.file, &grant.components[4]);
    let node = node_of(left.target);
    stage.root(Change::SetTarget(SetTarget { target: left.target, state: TargetState::Failed })).unwrap();
    stage.manager.tick(stage.now).unwrap();
    stage.refill(&root(), file, 4, false).unwrap();
    stage.refill(&root(), file, 4, true).unwrap();
    stage.rebuilt(&root(), file, 4).unwrap();
    let version = stage.version(file);
    let fence = Order { object: left.object, version, remove: false };
    assert!(stage.obey(node).contains(&(left.target, fence)), "whoever has an older grant may be answered by it alone");
    assert!(!stage.obey(node).contains(&(left.target, fence)), "it has said that it did it");
}

#[test]
fn what_a_reader_holds_counts_for_as_long_as_a_target_whose_clock_is_behind_takes_it() {
    let mut stage = Stage::new();
    let [reader, other] = others();
    let file = stage.striped().entry.file;
    stage.read(&reader, file);
    stage.give_up(&root(), file, &[1]).unwrap();
    stage.pass(Duration::from_secs(301));
    // Whoever comes now makes room for itself among those that are remembered.
    stage.read(&other, file);
    let version = stage.version(file);
    let files = vec![Renewed { file, write: false, version }];
    stage.ask(&other, &Question::Renew(Renew { files })).unwrap();
    assert_eq!(kind(stage.given_up(file)), Kind::Busy);
    stage.pass(Duration::from_secs(60));
    assert!(stage.given_up(file).is_ok());
}

#[test]
fn a_target_that_is_said_to_be_gone_may_answer_until_nothing_counts_that_was_given_out_for_it() {
    let mut stage = Stage::new();
    let [reader, _] = others();
    let grant = stage.striped();
    let file = grant.entry.file;
    stage.read(&reader, file);
    stage.root(Change::SetTarget(SetTarget { target: grant.components[2].target, state: TargetState::Gone })).unwrap();
    stage.manager.tick(stage.now).unwrap();
    stage.manager.tick(stage.now).unwrap();
    assert_eq!(kind(stage.given_up(file)), Kind::Busy);
    stage.refill(&root(), file, 2, false).unwrap();
    stage.manager.tick(stage.now).unwrap();
    assert_eq!(kind(stage.given_up(file)), Kind::Busy, "it has moved, and whoever does not know still asks there");
    stage.pass(Duration::from_secs(361));
    stage.manager.tick(stage.now).unwrap();
    assert!(stage.given_up(file).is_ok());
    let left = stage.manager.view().unwrap().scan(b"F", b"G", 9).unwrap();
    for (key, value) in left {
        let orders: crate::records::Orders = crate::records::decode(&key, &value).unwrap();
        assert!(orders.pending.iter().all(|(_, target)| *target != grant.components[2].target), "{orders:?}");
    }
}

#[test]
fn a_file_that_was_never_written_lacks_nothing_when_a_target_is_lost() {
    let mut stage = Stage::new();
    let policy = Some(Policy { raid: Raid::Five, unit: UNIT, targets: 5 });
    let place = Place::path("fresh");
    let create = CreateFile { place, mode: 0o666, exclusive: true, policy, open: false, alone: false, cached: false };
    stage.root(Change::CreateFile(create)).unwrap();
    let file = stage.stat(&root(), Place::path("fresh")).unwrap().file;
    let grant = stage.read(&root(), file);
    stage
        .root(Change::SetTarget(SetTarget { target: grant.components[0].target, state: TargetState::Failed }))
        .unwrap();
    stage.manager.tick(stage.now).unwrap();
    assert_eq!(stage.degraded(), []);
    // Once it may have been written, it does.
    stage.open(&root(), file, false).unwrap();
    stage.manager.tick(stage.now).unwrap();
    assert_eq!(stage.degraded(), [file]);
}

#[test]
fn nobody_gives_up_more_components_than_there_are() {
    let mut stage = Stage::new();
    let file = stage.striped().entry.file;
    let refused = stage.give_up(&root(), file, &[1; 6]).unwrap_err();
    assert!(refused.kind == Kind::Usage && refused.message.contains("5 components, and 6"), "{refused:?}");
}

#[test]
fn what_another_client_rebuilds_is_left_out_for_who_looks_for_more_until_that_one_is_gone() {
    let mut stage = Stage::new();
    let (file, one, other) = (stage.striped().entry.file, Principal::root(101), Principal::root(102));
    stage.give_up(&root(), file, &[1]).unwrap();
    stage.open(&one, file, false).unwrap();
    // Who has it open has begun nothing yet.
    assert_eq!(stage.left_to_rebuild(&other), [file]);
    for emptied in [false, true] {
        stage.refill(&one, file, 1, emptied).unwrap();
        assert_eq!(
            (stage.left_to_rebuild(&other), stage.left_to_rebuild(&one)),
            (vec![], vec![file]),
            "its own it may begin again"
        );
        assert_eq!(stage.degraded(), [file], "it is no less degraded");
        stage.restart();
        assert_eq!(stage.left_to_rebuild(&other), []);
    }
    // Nobody hears of it for long: then it rebuilds nothing.
    let timeout = Settings::default().client_timeout;
    stage.manager.tick(stage.now).unwrap();
    stage.pass(timeout / 2);
    stage.manager.tick(stage.now).unwrap();
    assert_eq!(stage.left_to_rebuild(&other), []);
    stage.pass(timeout);
    stage.manager.tick(stage.now).unwrap();
    assert_eq!(stage.left_to_rebuild(&other), [file]);
    for node in 1..=NODES {
        stage.report(&report(node)).unwrap();
    }
    stage.open(&other, file, false).unwrap();
    stage.refill(&other, file, 1, false).unwrap();
    assert_eq!(stage.left_to_rebuild(&one), []);
    stage.leave(&other, file);
    assert_eq!(stage.left_to_rebuild(&one), [file], "who closes it leaves it to others");
}

#[test]
fn a_part_of_what_is_left_to_be_rebuilt_says_how_it_goes_on_behind_what_others_do() {
    let mut stage = Stage::new();
    let files: Vec<FileId> = (0..6).map(|nth| stage.striped_at(&format!("f{nth}")).entry.file).collect();
    let (one, other) = (Principal::root(101), Principal::root(102));
    for file in &files {
        stage.give_up(&root(), *file, &[2]).unwrap();
    }
    let walk = |stage: &mut Stage, most| {
        let (mut found, mut after) = (Vec::<FileId>::new(), FileId(0));
        loop {
            let part = stage.listed(&other, AskDegraded { file: after, most, left: true });
            found.extend(&part.files);
            match part.files.last() {
                Some(last) if part.more => after = *last,
                _ => return found,
            }
        }
    };
    let mut left = files.clone();
    for taken in [0, 1, 2, 4, 5, 3] {
        stage.open(&one, files[taken], false).unwrap();
        stage.refill(&one, files[taken], 2, false).unwrap();
        left.retain(|file| *file != files[taken]);
        for most in 1..=7 {
            assert_eq!(walk(&mut stage, most), left, "{most} at a time");
        }
    }
}

#[test]
fn who_asks_and_does_not_know_what_was_given_up_since_is_told_and_does_not_wait_for_itself() {
    let mut stage = Stage::new();
    let grant = stage.striped();
    let file = grant.entry.file;
    stage.give_up(&root(), file, &[1]).unwrap();
    stage.root(Change::SetTarget(SetTarget { target: grant.components[1].target, state: TargetState::Gone })).unwrap();
    let asked = |stage: &mut Stage, version| stage.ask(&root(), &Question::GivenUp(GivenUp { file, version }));
    // Nobody else has anything of the file.
    assert_eq!(kind(asked(&mut stage, 1)), Kind::Stale, "it would be waited for until what it was given is over");
    assert!(asked(&mut stage, 2).is_ok());
    // Of others that do not know it is nothing to say.
    let [reader, _] = others();
    let second = stage.striped_at("second").entry.file;
    stage.read(&reader, second);
    stage.give_up(&root(), second, &[1]).unwrap();
    assert_eq!(kind(stage.given_up(second)), Kind::Busy);
}

#[test]
fn of_what_lies_nowhere_nobody_is_waited_for() {
    let mut stage = Stage::new();
    let file = stage.striped().entry.file;
    stage.leave(&root(), file);
    // As the manager's metadata are made anew if no target was found that has a component.
    let key = keys::layout(file);
    let mut layout: Layout = stage.engine.snapshot().unwrap().require(&key).unwrap();
    layout.targets[3] = NOWHERE;
    layout.absent = vec![Absent { component: 3, since: 1, absence: Absence::Missed }];
    let value = encode(&key, &layout).unwrap();
    stage.put_raw([(key, Some(value))]);
    let pending = |stage: &Stage, key: Vec<u8>| {
        let orders: Option<Orders> = stage.engine.snapshot().unwrap().read(&key).unwrap();
        orders.map(|orders| orders.pending.len())
    };
    stage.root(Change::Revoke(Revoke { file })).unwrap();
    assert_eq!(pending(&stage, keys::fences(file)), Some(4));
    (1..=NODES).for_each(|node| drop(stage.obey(node)));
    assert_eq!(pending(&stage, keys::fences(file)), None, "all have heard");
    stage.root(Change::RemoveFile(RemoveFile::at(Place::path("striped")))).unwrap();
    assert_eq!(pending(&stage, keys::removals(file)), Some(4));
    stage.pass(LONGEST_LIFE + SKEW);
    (1..=NODES).for_each(|node| drop(stage.obey(node)));
    assert_eq!(pending(&stage, keys::removals(file)), None, "it is removed everywhere");
}
