use crate::balance::REST;
use crate::draft::View;
use crate::keys;
use crate::principal::Principal;
use crate::records::{Layout, Moves};
use crate::testing::{NODES, Stage, close, healthy, report, root, targets_of};
use forebay_model::layout::{Raid, UNIT};
use forebay_model::{Bytes, Kind, TargetId};
use forebay_wire::control::cluster::{AddNode, Report, SetTarget, TargetReport, TargetState};
use forebay_wire::control::files::{After, Close, GiveUp, OpenToWrite, Relocate, Relocated, Relocating, Relocation};
use forebay_wire::control::names::{CreateFile, FileId, Place};
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Change, Question, Reply};
use std::collections::BTreeMap;
use std::time::Duration;

const ALL: After = After { file: FileId(0), most: 1000 };

fn mover() -> Principal {
    Principal::root(9)
}

impl Stage {
    /// Files of a gibibyte over four targets each.
    fn filled(&mut self, count: usize) -> Vec<FileId> {
        let policy = Some(Policy { raid: Raid::Five, unit: UNIT, targets: 4 });
        let made = (0..count).map(|nth| {
            let place = Place::path(format!("f{nth}"));
            let create =
                CreateFile { place, mode: 0o644, exclusive: true, policy, open: true, alone: true, cached: false };
            let Reply::Grant(grant) = self.root(Change::CreateFile(create)).unwrap() else { panic!("no grant") };
            let file = grant.entry.file;
            self.root(Change::Close(Close { size: Some(Bytes::gib(1)), ..close(file) })).unwrap();
            file
        });
        made.collect()
    }

    /// A node with targets of which so much is free.
    fn joins(&mut self, node: u64, free: Bytes) {
        self.root(Change::AddNode(AddNode { node, user: 0 })).unwrap();
        let targets = targets_of(node).map(|target| TargetReport { free, ..healthy(target) }).to_vec();
        self.report(&Report { targets, ..report(node) }).unwrap();
    }

    /// Time passes, and all nodes have reported then; of those targets that were added so much is free.
    fn later(&mut self, span: Duration, free: Bytes) {
        self.pass(span);
        for node in 1..=NODES {
            self.report(&report(node)).unwrap();
        }
        self.joins(6, free);
        self.ticks();
    }

    fn ticks(&mut self) {
        for _ in 0..3 {
            self.pass(Duration::from_secs(1));
            self.manager.tick(self.now).unwrap();
        }
    }

    fn chosen(&mut self) -> Vec<FileId> {
        match self.ask(&root(), &Question::Displaced(ALL)).unwrap() {
            Reply::Displaced(displaced) => displaced.files,
            other => panic!("{other:?} are no files"),
        }
    }

    fn layout(&self, file: FileId) -> Layout {
        self.manager.view().unwrap().require(&keys::layout(file)).unwrap()
    }

    fn begins(&mut self, file: FileId) -> forebay_model::Result<Relocation> {
        self.change(&mover(), Change::Relocate(Relocate { file, last: false }))?;
        match self.ask(&mover(), &Question::Relocating(Relocating { file }))? {
            Reply::Relocation(relocation) => Ok(relocation),
            other => panic!("{other:?} says not with what it is copied"),
        }
    }

    fn moves(&mut self, file: FileId) -> (TargetId, TargetId) {
        let way = self.begins(file).unwrap();
        assert!(!way.hurries);
        self.ends(file, &way);
        (way.from.target, way.to.target)
    }

    fn ends(&mut self, file: FileId, way: &Relocation) {
        let Relocation { component, version, .. } = *way;
        self.change(&mover(), Change::Relocated(Relocated { file, component, version, recorded: false })).unwrap();
    }

    fn drains(&mut self, target: TargetId) {
        self.root(Change::SetTarget(SetTarget { target, state: TargetState::Draining })).unwrap();
    }
}

#[test]
fn targets_that_were_added_get_their_share_in_rounds_and_none_has_more_than_that() {
    let mut stage = Stage::new();
    stage.filled(300);
    stage.ticks();
    assert_eq!(stage.chosen(), [], "all of them are as full");
    stage.joins(6, Bytes::gib(100));
    stage.ticks();
    let chosen = stage.chosen();
    let mut left: BTreeMap<TargetId, u64> = BTreeMap::new();
    for file in &chosen {
        let (from, to) = stage.moves(*file);
        assert!(targets_of(6).contains(&to) && !targets_of(6).contains(&from), "{file}");
        *left.entry(from).or_default() += 1;
    }
    // Of each of the ten others a thirty-second part.
    let most = (Bytes::gib(100).0 / 32).div_ceil(Bytes::mib(341).0);
    assert!(left.len() == 10 && left.values().all(|count| (1..=most).contains(count)), "{left:?}");
    assert_eq!(stage.chosen(), []);
    // Until it is known what is free by now, nothing else is chosen.
    stage.later(Duration::from_secs(1), Bytes::gib(100));
    stage.later(Duration::from_secs(650), Bytes::gib(100));
    assert_eq!(stage.chosen(), []);
    stage.later(Duration::from_secs(100), Bytes::gib(100));
    assert!(!stage.chosen().is_empty(), "they are as uneven as before, as far as is known");
}

#[test]
fn it_begins_above_what_is_set_ends_at_half_of_that_and_never_begins_if_nothing_is_set() {
    let mut stage = Stage::new();
    stage.filled(300);
    stage.joins(6, Bytes::gib(59));
    stage.ticks();
    assert_eq!(stage.chosen(), [], "nine points are not too many");
    stage.manager.settings.balance_above = 0;
    stage.joins(6, Bytes::gib(100));
    stage.ticks();
    assert_eq!(stage.chosen(), []);
    stage.manager.settings.balance_above = 10;
    stage.ticks();
    assert!(!stage.chosen().is_empty());
    for (free, is_over) in [(Bytes::gib(57), false), (Bytes::gib(54), true), (Bytes::gib(57), true)] {
        for file in stage.chosen() {
            stage.moves(file);
        }
        stage.later(Duration::from_secs(800), free);
        assert_eq!(stage.chosen().is_empty(), is_over, "{free}");
    }
}

#[test]
fn no_file_is_moved_onto_a_target_or_node_that_has_another_part_of_it() {
    let mut stage = Stage::new();
    let files = stage.filled(200);
    // Another target of the first node.
    let third = TargetReport { free: Bytes::gib(100), ..healthy(TargetId(99)) };
    let mut more = report(1);
    more.targets.push(third);
    stage.report(&more).unwrap();
    stage.ticks();
    let node_of = |target: TargetId| if target.0 == 99 { 1 } else { target.0 / 2 };
    let nodes = |layout: &Layout| {
        let mut nodes: Vec<u128> = layout.targets.iter().map(|target| node_of(*target)).collect();
        nodes.sort_unstable();
        nodes.dedup();
        nodes.len()
    };
    let chosen = stage.chosen();
    assert!(chosen.len() > 10 && chosen.len() < files.len(), "{}", chosen.len());
    for file in chosen {
        let before = stage.layout(file);
        assert!(!before.targets.contains(&TargetId(99)));
        stage.moves(file);
        let after = stage.layout(file);
        assert!(nodes(&after) >= nodes(&before) && after.targets.contains(&TargetId(99)), "{before:?} {after:?}");
    }
}

#[test]
fn who_writes_a_file_is_not_waited_for_and_what_was_given_up_is_rebuilt_first() {
    let mut stage = Stage::new();
    let files = stage.filled(60);
    let open = |file, alone| {
        Change::OpenToWrite(OpenToWrite { place: Place::of(file), alone, upkeep: false, yields: false, cached: false })
    };
    stage.root(open(files[0], false)).unwrap();
    stage.joins(6, Bytes::gib(100));
    stage.ticks();
    let chosen = stage.chosen();
    assert!(chosen.len() > 10 && !chosen.contains(&files[0]), "{chosen:?}");
    // Somebody who opens it comes first, also if it is copied just now.
    let (one, other) = (chosen[0], chosen[1]);
    stage.root(open(one, false)).unwrap();
    assert_eq!(stage.begins(one).unwrap_err().kind, Kind::Busy);
    let way = stage.begins(other).unwrap();
    stage.root(open(other, true)).unwrap();
    let ended = Relocated { file: other, component: way.component, version: way.version, recorded: false };
    assert_eq!(stage.change(&mover(), Change::Relocated(ended)).unwrap_err().kind, Kind::Stale);
    stage.pass(Duration::from_secs(400));
    assert_eq!(stage.begins(one).unwrap_err().kind, Kind::Busy, "however long it is open");
    stage.later(Duration::from_secs(1), Bytes::gib(100));
    assert!([one, other].iter().all(|file| !stage.chosen().contains(file)), "others will do");
    let Reply::Grant(grant) = stage.root(open(one, false)).unwrap() else { panic!("no grant") };
    let version = grant.entry.attributes.version;
    stage.root(Change::GiveUp(GiveUp { file: one, components: vec![0], version })).unwrap();
    let third = stage.chosen()[0];
    assert_eq!(stage.begins(third).unwrap_err().kind, Kind::Busy);
    stage.ticks();
    assert_eq!(stage.chosen(), []);
    stage.later(REST + Duration::from_secs(100), Bytes::gib(100));
    assert_eq!(stage.chosen(), []);
}

#[test]
fn what_was_chosen_stays_chosen_after_a_restart_and_stays_where_it_is_if_the_other_target_is_not_used_any_more() {
    let mut stage = Stage::new();
    stage.filled(60);
    stage.joins(6, Bytes::gib(100));
    stage.ticks();
    let chosen = stage.chosen();
    assert!(chosen.len() > 10);
    stage.restart();
    for node in 1..=NODES {
        stage.report(&report(node)).unwrap();
    }
    stage.joins(6, Bytes::gib(100));
    stage.ticks();
    assert_eq!(stage.chosen(), chosen);
    let file = chosen[0];
    let Moves(moves) = stage.manager.view().unwrap().require(&keys::moves(file)).unwrap();
    stage.drains(moves[0].to);
    stage.ticks();
    assert!(!stage.chosen().contains(&file));
    assert_eq!(stage.begins(file).unwrap_err().kind, Kind::Stale);
}

#[test]
fn what_drains_comes_before_all_that_was_chosen_and_is_not_begun_and_what_is_begun_hurries() {
    let mut stage = Stage::new();
    let files = stage.filled(60);
    stage.joins(6, Bytes::gib(100));
    stage.ticks();
    let chosen = stage.chosen();
    let begun = chosen[0];
    assert!(chosen.len() > 10 && !stage.begins(begun).unwrap().hurries);
    let target = targets_of(1)[0];
    let lie_there = |stage: &Stage| -> Vec<FileId> {
        files.iter().copied().filter(|file| stage.layout(*file).targets.contains(&target)).collect()
    };
    let displaced = lie_there(&stage);
    assert!(!displaced.is_empty());
    stage.drains(target);
    let waits = chosen.iter().copied().find(|file| *file != begun && !displaced.contains(file)).unwrap();
    assert_eq!(
        stage.begins(waits).unwrap_err().kind,
        Kind::Busy,
        "also before anybody has counted what is to be moved"
    );
    stage.ticks();
    let mut listed = displaced.clone();
    if !listed.contains(&begun) {
        listed.insert(listed.partition_point(|file| *file < begun), begun);
    }
    assert_eq!(stage.chosen(), listed);
    let Reply::Relocation(way) = stage.ask(&mover(), &Question::Relocating(Relocating { file: begun })).unwrap() else {
        panic!("it is copied by nobody")
    };
    assert!(way.hurries);
    stage.ends(begun, &way);
    for file in lie_there(&stage) {
        let way = stage.begins(file).unwrap();
        assert!(way.hurries && way.from.target == target, "{file}");
        stage.ends(file, &way);
    }
    stage.ticks();
    // Of files that were moved first for the other reason, what was chosen may follow.
    for file in stage.chosen() {
        assert!(displaced.contains(&file) && chosen.contains(&file), "{file}");
        stage.moves(file);
    }
    stage.later(Duration::from_secs(800), Bytes::gib(100));
    let again = stage.chosen();
    assert!(!again.is_empty(), "a target on which nothing is left keeps nothing from being moved");
    stage.moves(again[0]);
}

#[test]
fn a_round_ends_when_anything_drains_or_is_to_be_rebuilt() {
    for is_drained in [true, false] {
        let mut stage = Stage::new();
        let files = stage.filled(60);
        stage.joins(6, Bytes::gib(100));
        // One tick begins a round, the next one chooses.
        stage.manager.tick(stage.now).unwrap();
        let target = stage.layout(files[0]).targets[0];
        if is_drained {
            stage.drains(target);
        } else {
            let set = SetTarget { target, state: TargetState::Failed };
            stage.root(Change::SetTarget(set)).unwrap();
        }
        stage.manager.tick(stage.now).unwrap();
        for file in stage.chosen() {
            assert!(is_drained && stage.layout(file).targets.contains(&target), "{file}");
        }
    }
}
