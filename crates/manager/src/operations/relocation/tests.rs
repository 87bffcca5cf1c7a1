use crate::principal::Principal;
use crate::testing::{NODES, Stage, close, report, root, targets_of, user};
use forebay_model::layout::{Raid, UNIT};
use forebay_model::{Kind, Result, TargetId};
use forebay_wire::control::cluster::{Order, SetTarget, TargetState};
use forebay_wire::control::files::{
    After, ClientGone, Component, ComponentState, CreateHeap, GiveUp, GivenUp, Grant, OpenHeap, OpenToRead,
    OpenToWrite, Refill, Relocate, Relocated, Relocating, Relocation, Renew, Renewed,
};
use forebay_wire::control::names::{CreateFile, FileId, Place, RemoveFile};
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Change, Question, Reply};
use std::time::Duration;

const ALL: After = After { file: FileId(0), most: 100 };

/// Another client of root, which copies.
fn mover() -> Principal {
    Principal::root(9)
}

fn kind<T: std::fmt::Debug>(answer: Result<T>) -> Kind {
    answer.unwrap_err().kind
}

impl Stage {
    /// A file over four targets that was written and closed.
    fn closed(&mut self, path: &str, raid: Raid) -> Grant {
        let policy = Some(Policy { raid, unit: UNIT, targets: 4 });
        let create = CreateFile {
            place: Place::path(path),
            mode: 0o666,
            exclusive: true,
            policy,
            open: true,
            alone: true,
            cached: false,
        };
        let Reply::Grant(grant) = self.root(Change::CreateFile(create)).unwrap() else { panic!("no grant") };
        self.shut(&root(), grant.entry.file);
        grant
    }

    fn shut(&mut self, by: &Principal, file: FileId) {
        self.change(by, Change::Close(close(file))).unwrap();
    }

    fn opened(&mut self, by: &Principal, file: FileId, alone: bool) -> Result<Reply> {
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
    }

    fn seen_by(&mut self, by: &Principal, file: FileId) -> Grant {
        match self.ask(by, &Question::OpenToRead(OpenToRead { place: Place::of(file), cached: false })).unwrap() {
            Reply::Grant(grant) => grant,
            other => panic!("{other:?} is no grant"),
        }
    }

    fn say(&mut self, target: TargetId, state: TargetState) {
        self.root(Change::SetTarget(SetTarget { target, state })).unwrap();
        self.manager.tick(self.now).unwrap();
    }

    fn displaced(&mut self) -> Vec<FileId> {
        match self.ask(&root(), &Question::Displaced(ALL)).unwrap() {
            Reply::Displaced(displaced) => displaced.files,
            other => panic!("{other:?} are no files"),
        }
    }

    fn begin(&mut self, by: &Principal, file: FileId) -> Result<Relocation> {
        self.change(by, Change::Relocate(Relocate { file, last: false }))?;
        self.way(by, file)
    }

    fn way(&mut self, by: &Principal, file: FileId) -> Result<Relocation> {
        match self.ask(by, &Question::Relocating(Relocating { file }))? {
            Reply::Relocation(relocation) => Ok(relocation),
            other => panic!("{other:?} says not with what it is copied"),
        }
    }

    fn end(
        &mut self,
        by: &Principal,
        file: FileId,
        Relocation { component, version, .. }: &Relocation,
    ) -> Result<Reply> {
        let (component, version) = (*component, *version);
        self.change(by, Change::Relocated(Relocated { file, component, version, recorded: false }))
    }

    fn left(&mut self, target: TargetId) -> Option<u64> {
        let Reply::Map(map) = self.ask(&root(), &Question::Map).unwrap() else { panic!("no map") };
        map.targets.iter().find(|known| known.target == target).unwrap().left
    }

    /// All nodes report, and that they did all that they had to.
    fn all_obey(&mut self) -> Vec<(TargetId, Order)> {
        let mut all = Vec::new();
        for node in 1..=NODES {
            let told = self.report(&report(node)).unwrap();
            let mut done = report(node);
            for (to, reported) in told.targets.into_iter().zip(&mut done.targets) {
                all.extend(to.orders.iter().map(|order| (to.target, *order)));
                reported.carried_out = to.orders;
            }
            self.report(&done).unwrap();
        }
        all
    }
}

#[test]
fn what_lies_on_a_target_that_drains_is_copied_and_lies_elsewhere_and_what_is_left_behind_is_removed() {
    for raid in [Raid::Zero, Raid::One(2), Raid::Five] {
        let mut stage = Stage::new();
        let before = stage.closed("x", raid);
        let file = before.entry.file;
        let target = before.components[1].target;
        assert_eq!(kind(stage.change(&mover(), Change::Relocate(Relocate { file, last: false }))), Kind::Stale);
        stage.say(target, TargetState::Draining);
        assert_eq!((stage.displaced(), stage.left(target)), (vec![file], Some(1)), "{raid}");
        assert_eq!(kind(stage.change(&user(5), Change::Relocate(Relocate { file, last: false }))), Kind::Forbidden);
        let way = stage.begin(&mover(), file).unwrap();
        assert_eq!((way.component, way.from.target), (1, target));
        assert!(before.components.iter().all(|there| there.target != way.to.target), "{raid}");
        let object = before.components[1].object;
        assert_eq!((way.from.object, way.to.object), (object, object), "{raid}");
        // Until then it is read where it lies.
        let seen = stage.seen_by(&user(5), file);
        assert_eq!((seen.components[1].target, seen.components[1].state), (target, ComponentState::Whole));
        stage.end(&mover(), file, &way).unwrap();
        let seen = stage.seen_by(&user(5), file);
        assert_eq!((seen.components[1].target, seen.components[1].state), (way.to.target, ComponentState::Whole));
        stage.manager.tick(stage.now).unwrap();
        assert_eq!((stage.displaced(), stage.left(target)), (vec![], Some(0)), "{raid}");
        // Who reads may still be answered where it lay, until its target has heard of it.
        let version = seen.entry.attributes.version;
        let given_up = Question::GivenUp(GivenUp { file, version });
        assert_eq!(kind(stage.ask(&root(), &given_up)), Kind::Busy, "{raid}");
        let heard = stage.all_obey();
        let is_fence = |order: &Order| order.object == way.from.object && !order.remove;
        assert!(heard.iter().any(|(to, order)| *to == target && is_fence(order)), "{raid}");
        stage.ask(&root(), &given_up).unwrap();
        stage.pass(Duration::from_secs(400));
        let told = stage.all_obey();
        let removed: Vec<_> = told.iter().filter(|(_, order)| order.remove).map(|(to, _)| *to).collect();
        assert_eq!(removed, [target], "{raid}");
    }
}

#[test]
fn who_copies_makes_way_for_who_wants_to_write_also_for_itself_and_begins_anew() {
    let mut stage = Stage::new();
    let before = stage.closed("x", Raid::Zero);
    let file = before.entry.file;
    stage.say(before.components[0].target, TargetState::Draining);
    for (by, alone) in [(root(), true), (root(), false), (mover(), false), (mover(), true)] {
        let way = stage.begin(&mover(), file).unwrap();
        stage.opened(&by, file, alone).unwrap();
        assert_eq!(kind(stage.end(&mover(), file, &way)), Kind::Stale, "{alone}");
        assert_eq!(kind(stage.way(&mover(), file)), Kind::Stale, "{alone}");
        // Nobody copies what is written.
        assert_eq!(kind(stage.begin(&mover(), file)), Kind::Busy, "{alone}");
        stage.shut(&by, file);
        let again = stage.begin(&mover(), file).unwrap();
        assert_eq!(again.to.target, way.to.target, "what was begun there is written anew");
        assert!(again.version > way.version);
    }
    // Another client goes on where that one died.
    let way = stage.begin(&root(), file).unwrap();
    assert_eq!(kind(stage.way(&mover(), file)), Kind::Stale);
    stage.end(&root(), file, &way).unwrap();
}

#[test]
fn of_a_file_that_others_have_open_for_long_the_component_is_given_up_if_it_can_do_without() {
    for (raid, is_given_up) in [(Raid::Five, true), (Raid::Zero, false)] {
        let mut stage = Stage::new();
        let before = stage.closed("x", raid);
        let file = before.entry.file;
        stage.say(before.components[2].target, TargetState::Draining);
        stage.opened(&root(), file, false).unwrap();
        assert_eq!(kind(stage.begin(&mover(), file)), Kind::Busy);
        stage.pass(Duration::from_secs(301));
        let begun = kind(stage.begin(&mover(), file));
        assert_eq!(begun, if is_given_up { Kind::Stale } else { Kind::Busy }, "{raid}");
        let state = stage.seen_by(&root(), file).components[2].state;
        assert_eq!(state == ComponentState::Missed, is_given_up, "{raid}");
    }
}

#[test]
fn of_a_file_that_others_have_open_for_long_nothing_is_given_up_that_no_other_target_takes() {
    let mut stage = Stage::new();
    let before = stage.closed("x", Raid::Five);
    let (file, target) = (before.entry.file, before.components[2].target);
    let is_its = |one: &TargetId| before.components.iter().any(|there| there.target == *one);
    let others: Vec<TargetId> = (1..=NODES).flat_map(targets_of).filter(|one| !is_its(one)).collect();
    for other in &others {
        stage.say(*other, TargetState::Draining);
    }
    stage.say(target, TargetState::Draining);
    stage.opened(&root(), file, false).unwrap();
    stage.pass(Duration::from_secs(301));
    let seen = |stage: &mut Stage| {
        let seen = stage.seen_by(&root(), file);
        (seen.components[2].state, seen.entry.attributes.version)
    };
    let (state, version) = seen(&mut stage);
    assert_eq!(state, ComponentState::Whole);
    for _ in 0..3 {
        assert_eq!(kind(stage.begin(&mover(), file)), Kind::Full);
        assert_eq!(seen(&mut stage), (state, version), "it is good where it lies");
    }
    // As soon as another one takes it, it is made anew there. Without a tick, for which nodes are silent for too long.
    stage.root(Change::SetTarget(SetTarget { target: others[0], state: TargetState::Up })).unwrap();
    assert_eq!(kind(stage.begin(&mover(), file)), Kind::Stale);
    assert_eq!(seen(&mut stage).0, ComponentState::Missed);
    let (_, version) = seen(&mut stage);
    stage.root(Change::Refill(Refill { file, component: 2, version, emptied: false })).unwrap();
    assert_eq!(stage.seen_by(&root(), file).components[2].target, others[0]);
}

#[test]
fn what_is_returned_keeps_what_it_has_and_copies_that_came_to_nothing_are_removed() {
    let mut stage = Stage::new();
    let before = stage.closed("x", Raid::Five);
    let file = before.entry.file;
    let target = before.components[3].target;
    stage.say(target, TargetState::Draining);
    let way = stage.begin(&mover(), file).unwrap();
    stage.opened(&root(), file, true).unwrap();
    stage.shut(&root(), file);
    stage.say(target, TargetState::Up);
    assert_eq!((stage.displaced(), stage.left(target)), (vec![], None));
    assert_eq!(stage.seen_by(&root(), file).components[3].target, target);
    stage.pass(Duration::from_secs(400));
    let told = stage.all_obey();
    let removed: Vec<_> = told.iter().filter(|(_, order)| order.remove).map(|(to, _)| *to).collect();
    assert_eq!(removed, [way.to.target]);
}

#[test]
fn a_file_that_is_removed_while_it_is_copied_leaves_nothing_anywhere() {
    let mut stage = Stage::new();
    let before = stage.closed("x", Raid::Zero);
    let file = before.entry.file;
    stage.say(before.components[3].target, TargetState::Draining);
    let way = stage.begin(&mover(), file).unwrap();
    stage.root(Change::RemoveFile(RemoveFile::at(Place::path("x")))).unwrap();
    assert_eq!(kind(stage.end(&mover(), file, &way)), Kind::Missing);
    stage.manager.tick(stage.now).unwrap();
    assert_eq!(stage.displaced(), []);
    stage.pass(Duration::from_secs(400));
    let told = stage.all_obey();
    let removed: Vec<_> = told.iter().filter(|(_, order)| order.remove).map(|(to, _)| *to).collect();
    assert!(removed.len() == 5 && removed.contains(&way.to.target), "{removed:?}");
}

#[test]
fn nothing_new_is_put_on_a_target_that_drains_and_a_copy_to_one_is_begun_anew() {
    let mut stage = Stage::new();
    let before = stage.closed("x", Raid::Zero);
    let file = before.entry.file;
    stage.say(before.components[0].target, TargetState::Draining);
    let way = stage.begin(&mover(), file).unwrap();
    stage.say(way.to.target, TargetState::Draining);
    assert_eq!(kind(stage.end(&mover(), file, &way)), Kind::Busy);
    let again = stage.begin(&mover(), file).unwrap();
    assert_ne!(again.to.target, way.to.target);
    stage.end(&mover(), file, &again).unwrap();
    for node in 1..=NODES {
        targets_of(node).into_iter().for_each(|target| stage.say(target, TargetState::Draining));
    }
    let policy = Some(Policy { raid: Raid::Zero, unit: UNIT, targets: 4 });
    let place = Place::path("y");
    let create = CreateFile { place, mode: 0o666, exclusive: true, policy, open: false, alone: false, cached: false };
    assert_eq!(kind(stage.root(Change::CreateFile(create))), Kind::Refused);
}

#[test]
fn who_copied_in_vain_and_is_alone_with_the_file_later_is_one_who_writes() {
    let mut stage = Stage::new();
    let before = stage.closed("x", Raid::Zero);
    let file = before.entry.file;
    stage.say(before.components[0].target, TargetState::Draining);
    stage.begin(&mover(), file).unwrap();
    stage.shut(&mover(), file);
    stage.opened(&mover(), file, true).unwrap();
    assert_eq!(kind(stage.opened(&root(), file, false)), Kind::Busy);
    assert_eq!(kind(stage.begin(&root(), file)), Kind::Busy);
}

#[test]
fn what_is_made_anew_is_not_put_where_a_copy_of_it_was_begun() {
    let mut stage = Stage::new();
    let before = stage.closed("x", Raid::Five);
    let (file, target) = (before.entry.file, before.components[2].target);
    stage.say(target, TargetState::Draining);
    let way = stage.begin(&mover(), file).unwrap();
    // No other one would take it. Without a tick, which would take the file off the list.
    let used = |one: &TargetId| *one == way.to.target || before.components.iter().any(|there| there.target == *one);
    for other in (1..=NODES).flat_map(targets_of).filter(|one| !used(one)) {
        stage.root(Change::SetTarget(SetTarget { target: other, state: TargetState::Draining })).unwrap();
    }
    stage.opened(&root(), file, false).unwrap();
    let version = stage.seen_by(&root(), file).entry.attributes.version;
    stage.root(Change::GiveUp(GiveUp { file, components: vec![2], version })).unwrap();
    let version = stage.seen_by(&root(), file).entry.attributes.version;
    stage.root(Change::Refill(Refill { file, component: 2, version, emptied: false })).unwrap();
    assert_eq!(stage.seen_by(&root(), file).components[2].target, target);
}

impl Stage {
    /// A heap, and the only target that has it.
    fn heap(&mut self) -> (FileId, TargetId) {
        let create = CreateHeap { place: Place::path("h"), mode: 0o644, refused_by: Vec::new() };
        let Reply::Grant(grant) = self.root(Change::CreateHeap(create)).unwrap() else { panic!("no grant") };
        (grant.entry.file, grant.components[0].target)
    }

    fn used(&mut self, file: FileId) -> Result<Grant> {
        match self.ask(&root(), &Question::OpenHeap(OpenHeap { place: Place::of(file), write: true }))? {
            Reply::Grant(grant) => Ok(grant),
            other => panic!("{other:?} is no grant"),
        }
    }

    fn last(&mut self, by: &Principal, file: FileId) -> Result<Relocation> {
        self.change(by, Change::Relocate(Relocate { file, last: true }))?;
        self.way(by, file)
    }
}

/// Whether a capability allows to see a heap as it lies on its device: to read and remove, as docs/protocol/capabilities.md has it.
fn shows_units(Component { capability, .. }: &Component) -> bool {
    u16::from_le_bytes([capability[2], capability[3]]) & (1 | 1 << 6) == 1 | 1 << 6
}

#[test]
fn a_heap_is_used_while_it_is_copied_and_is_nobody_elses_while_the_last_of_it_is() {
    let mut stage = Stage::new();
    let (file, target) = stage.heap();
    let other = Principal::root(10);
    assert_eq!(kind(stage.begin(&mover(), file)), Kind::Stale);
    stage.say(target, TargetState::Draining);
    assert_eq!((stage.displaced(), stage.left(target)), (vec![file], Some(1)));
    assert_eq!(kind(stage.last(&mover(), file)), Kind::Stale);
    let before = stage.used(file).unwrap();
    let way = stage.begin(&mover(), file).unwrap();
    assert!(way.from.target == target && way.to.target != target && way.hurries);
    assert!(shows_units(&way.from) && shows_units(&way.to) && !shows_units(&before.components[0]));
    let meanwhile = stage.used(file).unwrap();
    assert_eq!(meanwhile.entry.attributes.version, before.entry.attributes.version, "what is begun goes on");
    assert_eq!((meanwhile.components[0].target, shows_units(&meanwhile.components[0])), (target, false));
    assert_eq!(kind(stage.begin(&other, file)), Kind::Busy);
    // It is not all there yet, and only who copies it says so.
    assert_eq!(kind(stage.end(&mover(), file, &way)), Kind::Stale);
    assert_eq!(kind(stage.last(&other, file)), Kind::Busy);
    let last = stage.last(&mover(), file).unwrap();
    assert!(last.version > way.version && last.to.target == way.to.target);
    assert_eq!(kind(stage.used(file)), Kind::Busy);
    let renew = Renew { files: vec![Renewed { file, write: true, version: meanwhile.entry.attributes.version }] };
    let Reply::Grants(grants) = stage.ask(&root(), &Question::Renew(renew)).unwrap() else { panic!("no grants") };
    assert_eq!(grants.grants[0].error.as_ref().unwrap().kind, Kind::Busy);
    assert_eq!(kind(stage.begin(&other, file)), Kind::Busy);
    assert_eq!(kind(stage.end(&mover(), file, &way)), Kind::Stale, "it has another version");
    stage.restart();
    assert_eq!(kind(stage.used(file)), Kind::Busy);
    stage.end(&mover(), file, &last).unwrap();
    let after = stage.used(file).unwrap();
    assert_eq!(after.components[0].target, way.to.target);
    assert!(after.entry.attributes.version > last.version);
    stage.manager.tick(stage.now).unwrap();
    assert_eq!((stage.displaced(), stage.left(target)), (vec![], Some(0)));
    stage.pass(Duration::from_secs(400));
    let told = stage.all_obey();
    let removed: Vec<_> = told.iter().filter(|(_, order)| order.remove).map(|(to, _)| *to).collect();
    assert_eq!(removed, [target]);
}

#[test]
fn a_heap_is_used_again_where_it_lies_if_who_copies_the_last_of_it_is_gone_or_takes_too_long() {
    for is_gone in [true, false] {
        let mut stage = Stage::new();
        let (file, target) = stage.heap();
        stage.say(target, TargetState::Draining);
        stage.begin(&mover(), file).unwrap();
        let last = stage.last(&mover(), file).unwrap();
        if is_gone {
            stage.root(Change::ClientGone(ClientGone { client: mover().client })).unwrap();
        } else {
            // It is heard of all the time.
            for seconds in [25, 25, 11] {
                assert_eq!(kind(stage.used(file)), Kind::Busy);
                stage.pass(Duration::from_secs(seconds));
                stage.way(&mover(), file).unwrap();
                stage.manager.tick(stage.now).unwrap();
            }
        }
        for node in 1..=NODES {
            stage.report(&report(node)).unwrap();
        }
        assert_eq!(stage.used(file).unwrap().components[0].target, target);
        assert_eq!(kind(stage.end(&mover(), file, &last)), Kind::Stale);
        assert_eq!(kind(stage.way(&mover(), file)), Kind::Stale);
        // Nothing of it is to be scrubbed, and it is copied to another one later.
        assert!(!stage.displaced().is_empty());
        let again = stage.begin(&mover(), file).unwrap();
        assert!(again.to.target != last.to.target && again.version == last.version);
        let last = stage.last(&mover(), file).unwrap();
        stage.end(&mover(), file, &last).unwrap();
        stage.pass(Duration::from_secs(400));
        let told = stage.all_obey();
        assert_eq!(told.iter().filter(|(_, order)| order.remove).count(), 2, "{told:?}");
    }
}
