use super::super::tests::{Shelf, copies, rank, said, there};
use super::super::{AGAIN, Copies, PATIENCE, PAUSE, Sizes, VOLUME, WANTED};
use super::{Candidate, choose, worth};
use crate::engine::{Engine, Transaction, Write};
use crate::keys;
use crate::manager::Now;
use crate::records::{CopiedOn, Next, decode, encode};
use crate::seeds;
use crate::testing::{NODES, Stage, create, report, root, targets_of};
use forebay_env::Clock;
use forebay_model::{Kind, Moment, ObjectId, TargetId, Timestamp};
use forebay_wire::capability::{Capability, Keyring, LENGTH, Nonces, Rights, Said, Wanted};
use forebay_wire::control::cluster::{Report, SetTarget, TargetState};
use forebay_wire::control::files::OpenToWrite;
use forebay_wire::control::names::{FileId, Place};
use forebay_wire::control::volumes::{CreateVolume, Policy, Quota};
use forebay_wire::control::{Change, Reply};
use forebay_wire::{Command, RequestId};
use std::cell::Cell;
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::Poll;
use std::time::Duration;

/// A clock that is moved; whoever sleeps wakes when it has been.
#[derive(Clone)]
struct Moved(Rc<Cell<Now>>);

impl Clock for Moved {
    fn now(&self) -> Moment {
        self.0.get().moment
    }

    fn wall(&self) -> Timestamp {
        self.0.get().wall
    }

    fn sleep_until(&self, until: Moment) -> Pin<Box<dyn Future<Output = ()>>> {
        // Nobody else is there for whom it could wait: so time passes at once, unless something is ready meanwhile.
        let (this, mut is_asked) = (self.clone(), false);
        Box::pin(std::future::poll_fn(move |context| {
            if !std::mem::replace(&mut is_asked, true) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            let now = this.0.get();
            if now.moment < until {
                let span = until.since(now.moment);
                this.0.set(Now { wall: now.wall.after(span), moment: until });
            }
            Poll::Ready(())
        }))
    }
}

/// A manager without targets beside it, and its copies on those of others.
struct Far {
    stage: Stage,
    shelf: Rc<Shelf>,
    clock: Moved,
    writing: Copies,
}

impl Far {
    fn new(stage: Stage, here: u128) -> Far {
        let shelf = Shelf::with(here);
        shelf.reaches_others.set(true);
        let clock = Moved(Rc::new(Cell::new(stage.now)));
        let writing = Far::copies(&shelf, &clock);
        Far { stage, shelf, clock, writing }
    }

    fn copies(shelf: &Rc<Shelf>, clock: &Moved) -> Copies {
        Copies { clock: Rc::new(clock.clone()), ..copies(shelf, clock.0.get()) }
    }

    /// Time passes, and nodes report meanwhile.
    fn pass(&mut self, span: Duration, nodes: impl IntoIterator<Item = u64>) {
        let now = self.clock.0.get();
        let now = Now { wall: now.wall.after(span), moment: now.moment + span };
        self.clock.0.set(now);
        self.stage.now = now;
        nodes.into_iter().for_each(|node| drop(self.stage.report(&report(node)).unwrap()));
        self.stage.manager.tick(now).unwrap();
    }

    fn tick(&mut self) {
        in_time(self.writing.tick(&mut self.stage.manager)).unwrap();
    }

    /// Makes a directory, and says how long its answer waited.
    fn make(&mut self, name: &str) -> Duration {
        let before = self.clock.now();
        self.stage.directory(&root(), name, 0o755).unwrap();
        in_time(self.writing.keep(&mut self.stage.manager)).unwrap();
        self.clock.now().since(before)
    }

    fn restart(&mut self) {
        self.stage.restart();
        self.writing = Far::copies(&self.shelf, &self.clock);
    }

    /// The nodes with copies that have all that there is.
    fn whole(&self) -> Vec<u64> {
        let of = |node: u64| targets_of(node).map(|target| (node, target));
        let best = self.shelf.best().map(|chain| rank(&chain));
        let all = (1..=NODES).flat_map(of).filter(|(_, target)| Some(rank(&self.shelf.chain(*target))) == best);
        all.map(|(node, _)| node).collect()
    }

    fn on(&self) -> Vec<TargetId> {
        self.writing.on.iter().map(|one| one.target).collect()
    }
}

/// Has a future done that waits for the clock alone.
fn in_time<T>(future: impl Future<Output = T>) -> T {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    let mut future = std::pin::pin!(future);
    for _ in 0..10_000 {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
    }
    panic!("it waits for somebody")
}

fn candidate(target: u128, node: Option<u64>) -> Candidate {
    Candidate { target: TargetId(target), node, is_slow: false, has_chain: false, is_heard: true, reported: None }
}

#[test]
fn different_nodes_come_first_and_all_of_the_managers_process_is_one() {
    let chosen = |candidates: Vec<Candidate>| -> Vec<u128> {
        let chosen = choose(candidates);
        assert!(chosen.len() <= WANTED);
        chosen.into_iter().map(|one| one.target.0).collect()
    };
    let here = |target| candidate(target, None);
    let of = |node, target| candidate(target, Some(node));
    assert_eq!(chosen(vec![]), [0; 0]);
    assert_eq!(chosen(vec![here(4), here(1), here(2), here(3)]), [1, 2, 3]);
    assert_eq!(chosen(vec![here(1), here(2), here(3), of(7, 9)]), [1, 9, 2]);
    assert_eq!(chosen(vec![of(7, 1), of(7, 2), of(8, 3), of(9, 4), of(6, 5)]), [1, 3, 4]);
    assert_eq!(chosen(vec![of(7, 1), of(7, 2)]), [1, 2]);
    // What has one already keeps it, and what is slow gets none if another can have it.
    let having = Candidate { has_chain: true, ..of(6, 5) };
    let slow = Candidate { is_slow: true, has_chain: true, ..of(7, 1) };
    assert_eq!(chosen(vec![slow, of(8, 3), of(9, 4), having, of(5, 6)]), [5, 3, 4]);
    assert_eq!(chosen(vec![slow, of(7, 2)]), [2, 1]);
    assert!(worth(&[of(7, 1), of(8, 3)]) > worth(&[of(7, 1), of(7, 2)]));
    assert!(worth(&[of(7, 1), of(7, 2)]) > worth(&[of(7, 1)]));
    assert!(worth(&[of(7, 2)]) > worth(&[slow]));
}

#[test]
fn a_manager_without_targets_goes_on_without_copies_and_has_them_as_nodes_join() {
    let mut far = Far::new(Stage::empty(), 0);
    far.tick();
    far.make("first");
    assert!(far.shelf.best().is_none());
    for node in 1..=NODES {
        let change = Change::AddNode(forebay_wire::control::cluster::AddNode { node, user: 0 });
        far.stage.root(change).unwrap();
    }
    far.pass(Duration::from_secs(1), [4]);
    // The next change has them begin, and both targets of the node have one: there are no others.
    far.make("second");
    (0..20).for_each(|_| far.tick());
    assert_eq!(far.whole(), [4, 4]);
    far.pass(Duration::from_secs(1), [2]);
    far.make("third");
    (0..20).for_each(|_| far.tick());
    assert_eq!(far.whole().len(), 3);
    far.pass(Duration::from_secs(1), 1..=NODES);
    (0..20).for_each(|_| far.tick());
    let nodes: BTreeSet<u64> = far.whole().into_iter().collect();
    assert_eq!((nodes.len(), far.whole().len()), (3, 3), "on three nodes, and no more");
    // They stay there, and nothing is left elsewhere.
    let on = far.on();
    far.pass(Duration::from_secs(1), 1..=NODES);
    (0..20).for_each(|_| far.tick());
    assert_eq!(far.on(), on);
    let others = (1..=NODES).flat_map(targets_of).filter(|target| !on.contains(target));
    assert!(others.into_iter().all(|target| far.shelf.chain(target).cluster().is_none()));
}

#[test]
fn with_targets_beside_the_manager_one_copy_is_there_and_two_are_on_other_nodes() {
    // Those of the stage's nodes have numbers from 2 on: the first node is beside the manager.
    let mut far = Far::new(Stage::new(), 3);
    (0..20).for_each(|_| far.tick());
    let nodes: Vec<Option<u64>> = far.writing.on.iter().map(|one| one.node).collect();
    assert_eq!(nodes.len(), 3);
    assert_eq!(nodes.iter().filter(|node| node.is_none()).count(), 1);
    assert_eq!(nodes.into_iter().collect::<BTreeSet<_>>().len(), 3);
}

#[test]
fn a_copy_that_is_lost_or_takes_too_long_is_replaced_and_what_was_answered_is_whole_elsewhere_all_the_time() {
    let mut far = Far::new(Stage::new(), 0);
    (0..20).for_each(|_| far.tick());
    let first = far.on();
    assert_eq!(far.whole().len(), 3);
    far.shelf.broken.borrow_mut().insert(first[0]);
    assert_eq!(far.make("a"), Duration::ZERO);
    assert!(far.on().len() == 3 && !far.on().contains(&first[0]), "another one has it");
    let best = rank(&far.shelf.best().unwrap());
    assert_eq!(best, rank(&far.shelf.chain(first[1])), "those that stay have all of it at once");
    let before = far.on();
    far.shelf.silent.borrow_mut().insert(before[0]);
    assert_eq!(far.make("b"), PATIENCE);
    assert!(far.on().len() == 3 && !far.on().contains(&before[0]));
    // When both are well again nothing goes back to them, and nodes that go away are noticed without any change.
    far.shelf.broken.borrow_mut().clear();
    far.shelf.silent.borrow_mut().clear();
    let before = far.on();
    far.pass(AGAIN, 1..=NODES);
    (0..20).for_each(|_| far.tick());
    assert_eq!(far.on(), before);
    let gone = far.writing.on[1].node.unwrap();
    for _ in 0..4 {
        far.pass(Duration::from_secs(10), (1..=NODES).filter(|node| *node != gone));
    }
    (0..20).for_each(|_| far.tick());
    assert!(far.on().len() == 3 && far.writing.on.iter().all(|one| one.node != Some(gone)));
    assert_eq!(far.whole().into_iter().filter(|node| *node != gone).count(), 3);
}

#[test]
fn copies_that_move_and_are_not_whole_yet_go_on_with_those_before_wherever_these_are() {
    let mut far = Far::new(Stage::new(), 0);
    (0..20).for_each(|_| far.tick());
    far.make("before");
    // Of all that there is nearly nothing is written from now on.
    far.writing.sizes = Sizes { part: 1, keys: 1, longer: 1 << 30 };
    let first = far.on();
    far.shelf.broken.borrow_mut().extend(&first);
    far.make("moved");
    let second = far.on();
    assert!(second.len() == 3 && second.iter().all(|target| !first.contains(target)));
    far.make("there");
    far.shelf.broken.borrow_mut().extend(&second);
    far.make("moved again");
    assert!(!far.on().is_empty() && far.on().iter().all(|target| !first.contains(target) && !second.contains(target)));
    far.make("last");
    let all = first.iter().chain(&second).chain(&far.on()).copied().collect::<Vec<TargetId>>();
    assert_eq!(all.iter().filter(|target| far.shelf.chain(**target).is_whole()).count(), 3, "none is but the first");
    let best = far.shelf.best().unwrap();
    assert!(best.is_whole() && said(&best) == there(&far.stage));
    let newest: Vec<TargetId> = best.targets().filter(|(_, is_furthest, _)| *is_furthest).map(|(it, ..)| it).collect();
    assert_eq!(newest.into_iter().collect::<BTreeSet<_>>(), far.on().into_iter().collect());
    // Without those in the middle something is not known, and all that others have of it counts.
    far.shelf.lose(&second);
    let best = far.shelf.best().unwrap();
    let has = |name: &str| best.state.contains_key(&keys::name(FileId::ROOT, name));
    assert!(!best.is_whole() && has("before") && !has("there") && has("last"));
}

#[test]
fn what_drains_has_failed_or_was_not_heard_of_gets_no_copy() {
    let mut far = Far::new(Stage::new(), 0);
    let mut set = |target: TargetId, state: TargetState| {
        far.stage.root(Change::SetTarget(SetTarget { target, state })).unwrap();
    };
    targets_of(1).into_iter().for_each(|target| set(target, TargetState::Draining));
    targets_of(2).into_iter().for_each(|target| set(target, TargetState::Failed));
    let Report { targets, .. } = report(3);
    let failed = |target| forebay_wire::control::cluster::TargetReport { failed: Some("a write".into()), ..target };
    let of_failed = Report { targets: targets.into_iter().map(failed).collect(), ..report(3) };
    far.stage.report(&of_failed).unwrap();
    (0..20).for_each(|_| far.tick());
    let nodes: BTreeSet<u64> = far.writing.on.iter().filter_map(|one| one.node).collect();
    assert_eq!(nodes.into_iter().collect::<Vec<_>>(), [4, 5]);
}

#[test]
fn a_manager_that_is_opened_again_goes_on_with_the_targets_that_it_had_before_others_have_reported() {
    let mut far = Far::new(Stage::new(), 0);
    far.tick();
    let on: BTreeSet<TargetId> = far.on().into_iter().collect();
    far.make("a");
    (0..20).for_each(|_| far.tick());
    far.make("b");
    let CopiedOn(named) =
        decode(keys::COPIED_ON, &far.stage.engine.snapshot().unwrap().get(keys::COPIED_ON).unwrap().unwrap()).unwrap();
    assert_eq!(named.into_iter().collect::<BTreeSet<_>>(), on);
    far.restart();
    // Without any report since; and what is written now is no whole copy but with what was there before.
    far.make("c");
    assert_eq!(far.on().into_iter().collect::<BTreeSet<_>>(), on);
    assert_eq!(far.whole().len(), 3);
    // If they cannot be reached yet, that is no reason to leave them alone once they have reported.
    far.restart();
    far.shelf.broken.borrow_mut().extend(&on);
    far.make("d");
    assert!(far.on().is_empty());
    far.shelf.broken.borrow_mut().clear();
    far.pass(Duration::from_secs(2), 1..=NODES);
    far.make("e");
    assert_eq!(far.on().into_iter().collect::<BTreeSet<_>>(), on);
    assert_eq!(far.whole().len(), 3);
}

#[test]
fn an_answer_waits_for_a_bounded_time_when_no_target_answers_and_then_for_none() {
    let mut far = Far::new(Stage::new(), 0);
    (0..20).for_each(|_| far.tick());
    *far.shelf.silent.borrow_mut() = (1..=NODES).flat_map(targets_of).collect();
    assert_eq!(far.make("a"), 2 * PATIENCE);
    for number in 0..10 {
        assert_eq!(far.make(&format!("b{number}")), Duration::ZERO);
    }
    // As soon as nodes report again and a little later: those that are back go on with what they had.
    far.shelf.silent.borrow_mut().clear();
    far.pass(Duration::from_secs(1), 1..=NODES);
    assert_eq!(far.make("c"), Duration::ZERO);
    assert!(far.on().is_empty(), "what came just now was perhaps sent before");
    far.pass(PAUSE, 1..=NODES);
    far.make("d");
    assert!(!far.on().is_empty() && said(&far.shelf.best().unwrap()) == there(&far.stage), "of all meanwhile, too");
    (0..20).for_each(|_| far.tick());
    assert_eq!(far.whole().len(), 3);
}

#[test]
fn those_that_answer_go_on_being_written_when_all_others_are_silent_and_few_answers_wait_for_these() {
    let mut far = Far::new(Stage::new(), 0);
    (0..20).for_each(|_| far.tick());
    let on = far.on();
    let others = (1..=NODES).flat_map(targets_of).filter(|target| !on[1..].contains(target));
    *far.shelf.silent.borrow_mut() = others.collect();
    assert_eq!(far.make("a"), 2 * PATIENCE);
    assert_eq!(far.on(), on[1..]);
    let mut waited = Duration::ZERO;
    for number in 0..600 {
        far.pass(Duration::from_secs(1), 1..=NODES);
        waited += far.make(&format!("b{number}"));
        far.tick();
        assert!(on[1..].iter().all(|target| far.on().contains(target)));
    }
    assert!(waited <= 8 * PATIENCE, "{waited:?} of ten minutes");
    far.shelf.silent.borrow_mut().clear();
    for _ in 0..20 {
        far.pass(Duration::from_secs(60), 1..=NODES);
        far.tick();
    }
    far.make("c");
    (0..100).for_each(|_| far.tick());
    assert_eq!(far.whole().len(), 3);
}

#[test]
fn the_manager_alone_has_capabilities_for_the_volume_of_copies() {
    let mut stage = Stage::new();
    let target = targets_of(1)[0];
    let site = stage.manager.site(target, false, stage.now.wall.after(Duration::from_secs(60)));
    let way = site.way.unwrap();
    assert_eq!(way.address, "node1:7000");
    let mut ring = Keyring::new(crate::testing::CLUSTER, target, [7; 32]);
    ring.roll(stage.manager.cluster.root_key.of_target(target, 1));
    ring.advance(1, 1);
    let nonces = Nonces { client: [1; 16], node: [2; 16] };
    let said = Said {
        nonces: &nonces,
        request: RequestId(1),
        command: Command::APPEND_OBJECT,
        body: b"append",
        payload: (0, forebay_model::Bytes(0)),
    };
    let wanted =
        |object, rights| Wanted { object: ObjectId { volume: VOLUME, object }, version: None, rights, bytes: 0..10 };
    let now = stage.now.wall;
    let shown = way.shown(5, Rights::WRITE);
    let check = |capability: &[u8; LENGTH], secret: &forebay_wire::capability::Secret, wanted: &Wanted| {
        ring.check(capability, secret.prove(&said), &said, wanted, now).map_err(|error| error.kind)
    };
    let allowed: Result<Capability, Kind> = check(&shown.capability, &shown.secret, &wanted(5, Rights::WRITE));
    assert_eq!(allowed.unwrap().client, 0, "no client has that number");
    assert_eq!(check(&shown.capability, &shown.secret, &wanted(5, Rights::READ)).unwrap_err(), Kind::Forbidden);
    assert_eq!(check(&shown.capability, &shown.secret, &wanted(6, Rights::WRITE)).unwrap_err(), Kind::Forbidden);
    // What root is given for files, root's own among them, is of volumes that were made, and does for no other.
    stage.root(create("f", 0o666)).unwrap();
    let open = OpenToWrite { place: Place::path("f"), alone: false, cached: false, upkeep: false, yields: false };
    let Reply::Grant(grant) = stage.root(Change::OpenToWrite(open)).unwrap() else { panic!("no grant") };
    for component in grant.components {
        assert_ne!(component.object.volume, VOLUME);
        let capability: [u8; LENGTH] = component.capability[..].try_into().unwrap();
        let secret = forebay_wire::capability::Secret::from_bytes(component.secret.0[..].try_into().unwrap());
        let mut ring = Keyring::new(crate::testing::CLUSTER, component.target, [7; 32]);
        ring.roll(stage.manager.cluster.root_key.of_target(component.target, 1));
        ring.advance(9, 1);
        let proof = secret.prove(&said);
        let object = component.object.object;
        let refused = ring.check(&capability, proof, &said, &wanted(object, Rights::WRITE), now);
        assert_eq!(refused.unwrap_err().kind, Kind::Forbidden);
    }
    // And no volume gets that number, however many are made.
    let next = Next { file: 1000, volume: VOLUME };
    let write = Write { key: keys::NEXT.to_vec(), value: Some(encode(keys::NEXT, &next).unwrap()) };
    stage.engine.commit(&[Transaction { conditions: vec![], writes: vec![write] }]).unwrap();
    stage.restart();
    let volume = CreateVolume {
        place: Place::path("v"),
        mode: 0o755,
        owner: 0,
        group: 0,
        quota: Quota::default(),
        policy: Policy::default(),
    };
    assert_eq!(stage.root(Change::CreateVolume(volume)).unwrap_err().kind, Kind::Full);
}

#[test]
fn wherever_nodes_come_and_go_there_are_three_copies_at_most_and_all_of_them_soon() {
    seeds::each(30, |chance| {
        let mut far = Far::new(Stage::new(), 0);
        for number in 0..30 {
            let nodes: Vec<u64> = (1..=NODES).filter(|_| !chance.once_in(4)).collect();
            far.pass(Duration::from_secs(1 + chance.below(20)), nodes);
            let broken = (1..=NODES).flat_map(targets_of).filter(|_| chance.once_in(6));
            *far.shelf.broken.borrow_mut() = broken.collect();
            if chance.once_in(8) {
                far.restart();
            }
            let having = far.stage.manager.copying.having().to_vec();
            let is_whole = |target: &TargetId| far.shelf.chain(*target).is_whole();
            let was_whole: Vec<TargetId> = having.into_iter().filter(is_whole).collect();
            far.make(&format!("f{number}"));
            if chance.once_in(2) {
                far.tick();
            }
            assert!(far.writing.on.len() <= WANTED);
            let having = far.stage.manager.copying.having();
            for target in far.on() {
                let chain = far.shelf.chain(target);
                assert!(!chain.is_whole() || said(&chain) == there(&far.stage), "a whole copy says something else");
                let is_lost = was_whole.contains(&target) && having.contains(&target) && !chain.is_whole();
                assert!(!is_lost, "what has the chain does not stay whole");
            }
        }
        far.shelf.broken.borrow_mut().clear();
        for _ in 0..90 {
            far.pass(Duration::from_secs(60), 1..=NODES);
            far.tick();
        }
        // What is left where nobody could remove it goes with the next object.
        let object = far.writing.object;
        for number in 0.. {
            far.make(&format!("more {number}"));
            far.tick();
            if far.writing.object > object && far.writing.from.is_none() {
                break;
            }
        }
        far.tick();
        let nodes: BTreeSet<u64> = far.whole().into_iter().collect();
        assert_eq!((far.whole().len(), nodes.len()), (3, 3));
        let all = (1..=NODES).flat_map(targets_of).filter(|target| far.shelf.chain(*target).cluster().is_some());
        assert_eq!(all.count(), 3, "what is not needed any more is removed");
    });
}
