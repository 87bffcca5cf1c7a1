use super::*;
use crate::host::TargetHandle;
use crate::network::{Bounds, TargetDoor};
use crate::service::Order as Asked;
use forebay_env::fabric::NetworkEnv;
use forebay_env::mailbox::{Sender, mailbox};
use forebay_env::{Clock, real};
use forebay_model::{Bytes, ObjectId, Timestamp};
use forebay_wire::capability::{Capability, Nonces, Rights, Said, Wanted};
use forebay_wire::command::{Activity, Info};
use forebay_wire::control::access::Hidden;
use forebay_wire::control::cluster::VersionedKey;
use forebay_wire::{Command, RequestId};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::{Future, pending};
use std::pin::Pin;

const HUNG: TargetId = TargetId(1);
const WELL: TargetId = TargetId(2);

/// Hands on what is reported, and tells one target to fence so many objects.
struct Manager(Sender<Report>, Option<(TargetId, u64)>);

impl ToManager for Manager {
    fn report(&self, report: Report) -> FabricFuture<Result<Reported>> {
        drop(self.0.send(report));
        let Some((target, orders)) = self.1 else {
            return Box::pin(async { Err(Error::disconnected("the manager is away")) });
        };
        let order = |object| Order { object: ObjectId { volume: 1, object }, version: 2, remove: false };
        let key = VersionedKey { version: 1, key: Hidden(vec![3; 32]) };
        let to = |id, orders| ToTarget { target: id, keys: vec![key.clone()], orders, astray: vec![], refused: None };
        let targets = vec![to(target, (1..=orders).map(order).collect()), to(WELL, Vec::new())];
        Box::pin(async {
            Ok(Reported { epoch: 7, least_epoch: 7, targets, wall: real::clock::wall(), shut_out: vec![] })
        })
    }
}

/// A clock with which no pause ever ends: who goes on does so at once.
struct Endless(Rc<dyn Clock>);

impl Clock for Endless {
    fn now(&self) -> Moment {
        self.0.now()
    }

    fn wall(&self) -> Timestamp {
        self.0.wall()
    }

    fn sleep_until(&self, _: Moment) -> Pin<Box<dyn Future<Output = ()>>> {
        Box::pin(pending())
    }
}

fn without_pauses(env: &NetworkEnv) -> NetworkEnv {
    NetworkEnv { clock: Rc::new(Endless(env.clock.clone())), ..env.clone() }
}

/// A target that is well.
pub(in crate::network) fn target(id: TargetId) -> TargetInfo {
    TargetInfo {
        id,
        device: "a file".to_string(),
        openings: 3,
        size: Bytes::gib(1),
        rotates: false,
        group: Bytes::mib(1),
        free: Bytes::mib(5),
        largest_free: Bytes::mib(5),
        complaints: Vec::new(),
        failed: None,
        activity: Activity::default(),
        map_memory: Bytes::ZERO,
        map_memory_limit: Bytes::ZERO,
        rings_made_anew: 0,
        recorded: None,
    }
}

fn info(id: TargetId) -> Info {
    Info { version: String::new(), process: 1, targets: vec![target(id)] }
}

#[test]
fn targets_are_asked_at_once_so_one_that_hangs_does_not_keep_the_others_from_being_asked() {
    real::run_network(|env| async move {
        let (hung, mut hanging) = mailbox();
        let (well, mut orders) = mailbox();
        let doors =
            [(HUNG, hung), (WELL, well)].map(|(id, orders)| TargetDoor { id, handle: TargetHandle::new(orders) });
        let bounds = Bounds { patience: Duration::from_millis(200), ..Bounds::default() };
        let node = Node::new(env.clone(), doors.into(), bounds, 1);
        let (to_manager, mut reports) = mailbox();
        let identity = Identity { node: 7, cluster: 77, address: "here".to_string() };
        env.spawner.detach(node.keep_reporting(identity, Rc::new(Manager(to_manager, None)), |_| {}));
        let asked = hanging.receive().await.expect("it is asked");
        // The first one has not answered, nor ever does.
        let Some(Asked::Ask { answer, .. }) = orders.receive().await else {
            panic!("the other one is not asked meanwhile")
        };
        answer.send(Ok(Reply::Info(info(WELL))), 0).await;
        let report = reports.receive().await.expect("what is known is reported");
        let told: Vec<(TargetId, u64)> = report.targets.iter().map(|one| (one.target, one.openings)).collect();
        assert_eq!(told, [(WELL, 3)]);
        drop(asked);
    })
    .expect("the loop of the network");
}

/// What comes of a command that shows what was given out at the epoch of which the manager tells.
fn shown(node: &Node, target: TargetId, now: Timestamp) -> Result<Capability> {
    let object = ObjectId { volume: 1, object: 3 };
    let capability = Capability {
        cluster: 77,
        target,
        client: 1,
        object,
        version: 1,
        epoch: 7,
        rights: Rights::READ,
        bytes: 0..9,
        until: now.after(Duration::from_secs(60)),
        key: 1,
        serial: 1,
    };
    let nonces = Nonces { client: [1; 16], node: [2; 16] };
    let payload = (0, Bytes::ZERO);
    let said = Said { nonces: &nonces, request: RequestId(1), command: Command(48), body: b"", payload };
    let secret = TargetKey::from_bytes(1, [3; 32]).secret(&capability);
    let wanted = Wanted { object, version: None, rights: Rights::READ, bytes: 0..9 };
    node.keys.check(target, true, Some((&capability.to_bytes(), secret.prove(&said))), &said, &wanted, now)
}

#[test]
fn a_target_that_does_not_do_what_it_is_told_does_not_keep_its_node_from_reporting_nor_counts_as_having_done_it() {
    real::run_network(|env| async move {
        let (slow, mut never) = mailbox();
        let (well, mut orders) = mailbox();
        let doors =
            [(HUNG, slow), (WELL, well)].map(|(id, orders)| TargetDoor { id, handle: TargetHandle::new(orders) });
        let bounds = Bounds { patience: Duration::from_millis(200), ..Bounds::default() };
        let node = Node::new(env.clone(), doors.into(), bounds, 1);
        let (to_manager, mut reports) = mailbox();
        let identity = Identity { node: 7, cluster: 77, address: "here".to_string() };
        let manager = Rc::new(Manager(to_manager, Some((HUNG, 2))));
        env.spawner.detach(node.clone().keep_reporting(identity, manager, |_| {}));
        // It says what it is, and no more: what it is told to fence is kept, so that it is never answered.
        let kept = Rc::new(Cell::new(0));
        env.spawner.detach({
            let kept = kept.clone();
            async move {
                let mut hung = Vec::new();
                while let Some(order) = never.receive().await {
                    match order {
                        Asked::Ask { answer, .. } => drop(answer.send(Ok(Reply::Info(info(HUNG))), 0).await),
                        order => hung.push(order),
                    }
                    kept.set(hung.len());
                }
            }
        });
        env.spawner.detach(async move {
            while let Some(Asked::Ask { answer, .. }) = orders.receive().await {
                answer.send(Ok(Reply::Info(info(WELL))), 0).await;
            }
        });
        reports.receive().await.expect("the first report");
        let began = env.clock.now();
        let second = reports.receive().await.expect("the next report");
        assert!(env.clock.now().since(began) < EVERY + 2 * DEVICE, "its orders are not waited for one after the other");
        assert_eq!(kept.get(), 1, "the second one is told again later");
        let known = |id| second.targets.iter().find(|one| one.target == id).map(|one| (one.key, one.epoch));
        assert_eq!(known(WELL), Some((1, 0)), "the node has not heard of this epoch everywhere");
        assert_eq!(known(HUNG), Some((0, 0)), "it takes no key before it has fenced");
        let now = env.clock.wall();
        assert!(shown(&node, WELL, now).is_ok());
        assert_eq!(shown(&node, HUNG, now).expect_err("it did not fence").kind, Kind::Busy);
    })
    .expect("the loop of the network");
}

#[test]
fn many_orders_to_a_slow_target_do_not_keep_its_node_from_reporting_and_what_is_left_is_told_again() {
    real::run_network(|env| async move {
        let (slow, mut orders) = mailbox();
        let door = TargetDoor { id: WELL, handle: TargetHandle::new(slow) };
        let bounds = Bounds { patience: Duration::from_millis(200), ..Bounds::default() };
        let node = Node::new(env.clone(), vec![door], bounds, 1);
        let (to_manager, mut reports) = mailbox();
        let identity = Identity { node: 7, cluster: 77, address: "here".to_string() };
        env.spawner.detach(node.keep_reporting(identity, Rc::new(Manager(to_manager, Some((WELL, 50)))), |_| {}));
        let clock = env.clock.clone();
        env.spawner.detach(async move {
            while let Some(order) = orders.receive().await {
                match order {
                    Asked::Ask { answer, .. } => drop(answer.send(Ok(Reply::Info(info(WELL))), 0).await),
                    Asked::Fence { answer, .. } => {
                        // Less than is waited for one.
                        clock.sleep(Duration::from_millis(60)).await;
                        answer.send(Ok(()), 0).await;
                    }
                    _ => panic!("nothing else was told"),
                }
            }
        });
        reports.receive().await.expect("the first report");
        let second = reports.receive().await.expect("the next report");
        let (done, epoch) = (second.targets[0].carried_out.len(), second.targets[0].epoch);
        assert!(done < 10, "{done} of 50 were carried out before the next report");
        assert_eq!(epoch, 0, "not all of them were");
    })
    .expect("the loop of the network");
}

#[test]
fn a_target_that_cannot_carry_out_an_order_serves_all_else_and_what_it_cannot_is_told() {
    real::run_network(|env| async move {
        let (broken, mut orders) = mailbox();
        let door = TargetDoor { id: WELL, handle: TargetHandle::new(broken) };
        let node = Node::new(env.clone(), vec![door], Bounds::default(), 1);
        let (to_manager, mut reports) = mailbox();
        let (told, mut heard) = mailbox();
        let identity = Identity { node: 7, cluster: 77, address: "here".to_string() };
        let manager = Rc::new(Manager(to_manager, Some((WELL, 3))));
        env.spawner.detach(node.clone().keep_reporting(identity, manager, move |heard| drop(told.send(heard))));
        env.spawner.detach(async move {
            while let Some(order) = orders.receive().await {
                match order {
                    Asked::Ask { answer, .. } => drop(answer.send(Ok(Reply::Info(info(WELL))), 0).await),
                    // As one that has no room to write it down, and one whose tables of objects cannot be read.
                    Asked::Fence { answer, object, .. } if object.object == 1 => {
                        answer.send(Err(Error::full("there is no room")), 0).await;
                    }
                    Asked::Fence { answer, version: 2, object } if object.object == 2 => {
                        answer.send(Err(Error::device("a table cannot be read")), 0).await;
                    }
                    Asked::Fence { answer, .. } => drop(answer.send(Ok(()), 0).await),
                    _ => panic!("nothing else was told"),
                }
            }
        });
        reports.receive().await.expect("the first report");
        let heard = heard.receive().await.expect("what came of it").expect("the manager answered");
        // The manager here tells of this target twice.
        assert_eq!((heard.refused, heard.serving), (Vec::new(), 2));
        assert_eq!(
            heard.unable.iter().map(|(target, error)| (*target, error.kind)).collect::<Vec<_>>(),
            [(WELL, Kind::Device)]
        );
        assert!(shown(&node, WELL, env.clock.wall()).is_ok());
        let second = reports.receive().await.expect("the next report");
        let carried_out: Vec<u64> = second.targets[0].carried_out.iter().map(|order| order.object.object).collect();
        let TargetReport { key, epoch, .. } = second.targets[0];
        assert_eq!((carried_out, key, epoch), (vec![3], 1, 7), "the others are told again");
    })
    .expect("the loop of the network");
}

/// A manager that takes one of those rings that were made anew for astray.
struct Knowing(Sender<Report>);

impl ToManager for Knowing {
    fn report(&self, report: Report) -> FabricFuture<Result<Reported>> {
        let targets = report.targets.iter().map(|one| ToTarget {
            target: one.target,
            keys: vec![VersionedKey { version: 1, key: Hidden(vec![3; 32]) }],
            orders: Vec::new(),
            astray: one.anew.iter().copied().filter(|ring| ring.object == 2).collect(),
            refused: None,
        });
        let targets = targets.collect();
        drop(self.0.send(report));
        Box::pin(async {
            Ok(Reported { epoch: 7, least_epoch: 7, targets, wall: real::clock::wall(), shut_out: vec![] })
        })
    }
}

#[test]
fn before_a_target_serves_it_is_settled_which_of_the_rings_that_it_made_anew_are_to_be_there() {
    real::run_network(|env| async move {
        let (at, mut orders) = mailbox();
        let door = TargetDoor { id: WELL, handle: TargetHandle::new(at) };
        let node = Node::new(env.clone(), vec![door], Bounds::default(), 1);
        let (to_manager, mut reports) = mailbox();
        let (told, mut heard) = mailbox();
        let identity = Identity { node: 7, cluster: 77, address: "here".to_string() };
        let manager = Rc::new(Knowing(to_manager));
        env.spawner.detach(node.clone().keep_reporting(identity, manager, move |heard| drop(told.send(heard))));
        let rings = [1, 2, 3].map(|object| ObjectId { volume: 1, object });
        let settled = Rc::new(RefCell::new(Vec::new()));
        env.spawner.detach({
            let (settled, node, clock) = (settled.clone(), node.clone(), env.clock.clone());
            async move {
                // The first time it fails.
                while let Some(order) = orders.receive().await {
                    let rings_made_anew = if settled.borrow().len() < 2 { 3 } else { 0 };
                    match order {
                        Asked::Ask { answer, .. } => {
                            let info =
                                Info { targets: vec![TargetInfo { rings_made_anew, ..target(WELL) }], ..info(WELL) };
                            answer.send(Ok(Reply::Info(info)), 0).await;
                        }
                        Asked::MadeAnew(answer) => drop(answer.send(rings.to_vec(), 0).await),
                        Asked::Settle { rings, answer } => {
                            let is_first = settled.borrow().is_empty();
                            assert_eq!(shown(&node, WELL, clock.wall()).is_err(), is_first, "nobody is served before");
                            settled.borrow_mut().push(rings);
                            let result = if is_first { Err(Error::device("a write failed")) } else { Ok(()) };
                            answer.send(result, 0).await;
                        }
                        _ => panic!("nothing else was told"),
                    }
                }
            }
        });
        let first = heard.receive().await.expect("what came of it").expect("the manager answered");
        assert_eq!((first.unable.len(), first.set_aside, first.serving), (1, vec![], 1), "all else is served");
        let second = heard.receive().await.expect("what came of it").expect("the manager answered");
        assert_eq!((second.unable, second.set_aside), (vec![], vec![(WELL, rings[1])]));
        let is_to_be_there = BTreeMap::from([(rings[0], true), (rings[1], false), (rings[2], true)]);
        assert_eq!(*settled.borrow(), [is_to_be_there.clone(), is_to_be_there]);
        let third = heard.receive().await.expect("what came of it").expect("the manager answered");
        assert_eq!(third.set_aside, []);
        let mut asked = Vec::new();
        for _ in 0..3 {
            asked.push(reports.receive().await.expect("a report").targets[0].anew.clone());
        }
        assert_eq!(asked, [rings.to_vec(), rings.to_vec(), vec![]]);
    })
    .expect("the loop of the network");
}

/// A manager that knows of more that was revoked than it tells of at once.
struct InParts(Sender<Report>, Cell<u64>);

impl ToManager for InParts {
    fn report(&self, report: Report) -> FabricFuture<Result<Reported>> {
        drop(self.0.send(report));
        self.1.set(self.1.get() + 1);
        let part = self.1.get();
        let order = Order { object: ObjectId { volume: 1, object: part }, version: 2, remove: false };
        let keys = match part {
            1 | 2 => Vec::new(),
            _ => vec![VersionedKey { version: 1, key: Hidden(vec![3; 32]) }],
        };
        let targets = vec![ToTarget { target: WELL, keys, orders: vec![order], astray: vec![], refused: None }];
        let wall = real::clock::wall();
        Box::pin(async move { Ok(Reported { epoch: 7, least_epoch: 7, targets, wall, shut_out: vec![] }) })
    }
}

#[test]
fn a_target_that_has_not_heard_of_all_that_was_revoked_serves_nobody_yet_and_asks_on_at_once() {
    real::run_network(|env| async move {
        let (at, mut orders) = mailbox();
        let door = TargetDoor { id: WELL, handle: TargetHandle::new(at) };
        // What was carried out is said at once, or never.
        let node = Node::new(without_pauses(&env), vec![door], Bounds::default(), 1);
        let (to_manager, mut reports) = mailbox();
        let (told, mut heard) = mailbox();
        let identity = Identity { node: 7, cluster: 77, address: "here".to_string() };
        let manager = Rc::new(InParts(to_manager, Cell::new(0)));
        let (serves, clock) = (node.clone(), env.clock.clone());
        let hears = move |heard: Result<Heard>| {
            let refused = shown(&serves, WELL, clock.wall()).err().map(|error| error.kind);
            let _ = told.send((heard.expect("the manager answered").serving, refused));
        };
        env.spawner.detach(node.keep_reporting(identity, manager, hears));
        env.spawner.detach(async move {
            while let Some(order) = orders.receive().await {
                match order {
                    Asked::Ask { answer, .. } => drop(answer.send(Ok(Reply::Info(info(WELL))), 0).await),
                    Asked::Fence { answer, .. } => drop(answer.send(Ok(()), 0).await),
                    _ => panic!("nothing else was told"),
                }
            }
        });
        for expected in [(0, Some(Kind::Busy)), (0, Some(Kind::Busy)), (1, None)] {
            assert_eq!(heard.receive().await, Some(expected));
        }
        for (carried_out, known) in [(0, (0, 0)), (1, (0, 0)), (1, (0, 0)), (1, (1, 7))] {
            let report = reports.receive().await.expect("a report").targets.remove(0);
            assert_eq!((report.carried_out.len(), (report.key, report.epoch)), (carried_out, known));
        }
    })
    .expect("the loop of the network");
}

/// What a manager answers: the objects that are to be fenced, and whether with a key; or an answer that is lost.
type Part = Option<(Vec<u64>, bool)>;

/// What a target said: the objects that it fenced, and its key; and whether it served then.
type Spoken = (Vec<u64>, u32, bool);

/// A manager that answers with one part after the other, and hands on what its target said.
struct Scripted {
    node: Rc<Node>,
    told: Sender<Spoken>,
    parts: RefCell<VecDeque<Part>>,
}

impl ToManager for Scripted {
    fn report(&self, report: Report) -> FabricFuture<Result<Reported>> {
        let wall = real::clock::wall();
        let fenced = report.targets[0].carried_out.iter().map(|order| order.object.object).collect();
        drop(self.told.send((fenced, report.targets[0].key, shown(&self.node, WELL, wall).is_ok())));
        let Some((objects, is_last)) = self.parts.borrow_mut().pop_front().unwrap_or(Some((Vec::new(), true))) else {
            return Box::pin(async { Err(Error::disconnected("the answer was lost")) });
        };
        let order = |object| Order { object: ObjectId { volume: 1, object }, version: 2, remove: false };
        let key = VersionedKey { version: 1, key: Hidden(vec![3; 32]) };
        let keys = if is_last { vec![key] } else { Vec::new() };
        let orders = objects.into_iter().map(order).collect();
        let targets = vec![ToTarget { target: WELL, keys, orders, astray: vec![], refused: None }];
        Box::pin(async move { Ok(Reported { epoch: 7, least_epoch: 7, targets, wall, shut_out: vec![] }) })
    }
}

/// What a target says before and after each of these parts. The first time that it is to fence object 2 it is busy.
fn said(parts: Vec<Part>, has_pauses: bool) -> Vec<Spoken> {
    real::run_network(move |env| async move {
        let (at, mut orders) = mailbox();
        let door = TargetDoor { id: WELL, handle: TargetHandle::new(at) };
        let of_node = if has_pauses { env.clone() } else { without_pauses(&env) };
        let node = Node::new(of_node, vec![door], Bounds::default(), 1);
        let (told, mut reports) = mailbox();
        let identity = Identity { node: 7, cluster: 77, address: "here".to_string() };
        let count = parts.len() + 1;
        let manager = Rc::new(Scripted { node: node.clone(), told, parts: RefCell::new(parts.into()) });
        env.spawner.detach(node.keep_reporting(identity, manager, |_| {}));
        env.spawner.detach(async move {
            let mut is_busy = true;
            while let Some(order) = orders.receive().await {
                match order {
                    Asked::Ask { answer, .. } => drop(answer.send(Ok(Reply::Info(info(WELL))), 0).await),
                    Asked::Fence { answer, object, .. } => {
                        let is_refused = object.object == 2 && std::mem::take(&mut is_busy);
                        let result = if is_refused { Err(Error::busy("something is under way")) } else { Ok(()) };
                        answer.send(result, 0).await;
                    }
                    _ => panic!("nothing else was told"),
                }
            }
        });
        let mut said = Vec::new();
        for _ in 0..count {
            said.push(reports.receive().await.expect("a report"));
        }
        said
    })
    .expect("the loop of the network")
}

#[test]
fn a_target_that_did_not_do_all_of_an_earlier_part_takes_no_key_before_it_has_heard_all_from_the_first_on() {
    let part = |objects: &[u64], is_last| Some((objects.to_vec(), is_last));
    let parts = vec![part(&[1, 2], false), part(&[3], false), part(&[4], true), part(&[2], false), part(&[5], true)];
    let expected: [Spoken; 6] = [
        (vec![], 0, false),
        (vec![1], 0, false),
        (vec![3], 0, false),
        (vec![4], 0, false),
        (vec![2], 0, false),
        (vec![5], 1, true),
    ];
    assert_eq!(said(parts, false), expected);
}

#[test]
fn a_target_that_did_not_do_all_of_the_last_part_takes_no_key_with_it() {
    let part = |objects: &[u64]| Some((objects.to_vec(), true));
    let parts = vec![part(&[1, 2]), part(&[2]), part(&[3])];
    let expected: [Spoken; 4] = [(vec![], 0, false), (vec![1], 0, false), (vec![2], 0, false), (vec![3], 1, true)];
    assert_eq!(said(parts, false), expected);
}

#[test]
fn a_target_without_keys_takes_none_with_a_part_behind_an_answer_that_was_lost() {
    let parts = vec![None, Some((vec![1], true)), Some((vec![3], true))];
    let expected: [Spoken; 4] = [(vec![], 0, false), (vec![], 0, false), (vec![1], 0, false), (vec![3], 1, true)];
    assert_eq!(said(parts, true), expected);
}
