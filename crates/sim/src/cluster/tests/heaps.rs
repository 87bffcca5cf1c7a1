//! Heaps over the network beside a plain model: transactions of two clients while connections, nodes and clients come and go.
//!
//! Always: of what was put and freed for a commit, all is there if it was answered, all or nothing if it was asked for and not
//! answered, and nothing otherwise.

mod moving;

use super::*;
use crate::seeds;
use forebay_client::heaps::network::{HEAP_MODE, NetworkHeaps};
use forebay_client::heaps::{HeapSettings, NewRoot, RecordId};
use forebay_env::Random;
use forebay_model::Kind;
use forebay_wire::heap::network::MOST_TRANSACTIONS;
use forebay_wire::heap::{HeapAnswer, HeapAsk, HeapReply};
use std::collections::BTreeMap;

/// Records of a client that are there, and what they have.
type Model = BTreeMap<RecordId, Vec<u8>>;

/// How far a transaction came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    Begun,
    Asked,
    Committed,
    /// It was refused, aborted, or lost before a commit was asked for.
    Undone,
}

impl Came {
    /// Where it counts, of those that were committed, undone, and left open.
    fn counted(self) -> usize {
        match self {
            Came::Committed => 0,
            Came::Undone | Came::Begun => 1,
            Came::Asked => 2,
        }
    }
}

/// A transaction of a client.
struct Story {
    came: Cell<Came>,
    is_over: Cell<bool>,
    put: RefCell<Model>,
    freed: Vec<RecordId>,
}

/// What a transaction is to do.
struct Plan {
    records: Vec<Vec<u8>>,
    freed: Vec<RecordId>,
    aborts: bool,
}

fn plan(chance: &dyn Random, own: &Model, number: u64) -> Plan {
    let record =
        |n: u64| pattern(1 + chance.below(if chance.below(20) == 0 { 60_000 } else { 900 }) as usize, number << 20 | n);
    let records = (0..1 + chance.below(60)).map(record).collect();
    let freed = own.keys().copied().filter(|_| chance.below(4) == 0).collect();
    Plan { records, freed, aborts: chance.below(8) == 0 }
}

fn story(heaps: NetworkHeaps, plan: Plan) -> (Rc<Story>, impl Future<Output = ()>) {
    let Plan { records, freed, aborts } = plan;
    let story = Rc::new(Story {
        came: Cell::new(Came::Begun),
        is_over: Cell::new(false),
        put: RefCell::default(),
        freed: freed.clone(),
    });
    let told = story.clone();
    let running = async move {
        let result = act(&heaps, &told, records, freed, aborts).await;
        if result.is_none() && told.came.get() == Came::Begun {
            told.came.set(Came::Undone);
        }
        told.is_over.set(true);
    };
    (story, running)
}

/// Each client begins a transaction.
fn begin(
    world: &World,
    chance: &dyn Random,
    machines: &[ClientMachine],
    own: &[Model; 2],
    round: u64,
) -> Vec<Rc<Story>> {
    let each = (0..).zip(machines.iter().zip(own));
    let begun = each.map(|(n, (machine, own))| {
        let (story, running) = story(machine.files.heaps(), plan(chance, own, round * 2 + n));
        world.spawner().detach(running);
        story
    });
    begun.collect()
}

/// Does it; nothing if it was refused, or the transaction was lost.
async fn act(
    heaps: &NetworkHeaps,
    story: &Story,
    records: Vec<Vec<u8>>,
    freed: Vec<RecordId>,
    aborts: bool,
) -> Option<()> {
    let mut transaction = heaps.begin("/heap");
    // Several requests are under way.
    for some in records.chunks(20) {
        let lengths = some.iter().map(|record| record.len() as u32).collect();
        let ask = HeapAsk::Put { lengths, from: 0, more: false };
        transaction.send(ask, Slice::from(some.concat())).await.ok()?;
    }
    for some in records.chunks(20) {
        let HeapReply::Ids(ids) = transaction.receive().await.ok()?.ok()?.reply else { panic!("they are no ids") };
        assert_eq!(ids.len(), some.len());
        story.put.borrow_mut().extend(ids.into_iter().zip(some.iter().cloned()));
    }
    if !freed.is_empty() {
        transaction.ask(HeapAsk::Free { ids: freed }, Slice::new()).await.ok()?.ok()?;
    }
    let ids: Vec<RecordId> = story.put.borrow().keys().copied().collect();
    let seen = got(&mut transaction, &ids).await?;
    assert!(seen.into_iter().map(Some).eq(story.put.borrow().values().map(|record| Some(Some(record.clone())))));
    if aborts {
        return None;
    }
    story.came.set(Came::Asked);
    let committed = transaction.ask(HeapAsk::Commit { root: NewRoot::Same }, Slice::new()).await.ok()?;
    // What is refused is undone.
    story.came.set(if committed.is_ok() { Came::Committed } else { Came::Undone });
    Some(())
}

/// What records have; nothing if they cannot be asked for.
async fn got(
    transaction: &mut forebay_client::heaps::network::Transaction,
    ids: &[RecordId],
) -> Option<Vec<Option<Vec<u8>>>> {
    let mut all = Vec::new();
    while all.len() < ids.len() {
        let ask = HeapAsk::Get { ids: ids[all.len()..].to_vec(), from: 0, as_of: None };
        let HeapAnswer { reply, mut payload } = transaction.ask(ask, Slice::new()).await.ok()?.ok()?;
        let HeapReply::Records(found) = reply else { panic!("they are no records") };
        for length in found {
            all.push(match length {
                Ok(length) => {
                    let rest = payload.split_off(length as usize);
                    Some(std::mem::replace(&mut payload, rest))
                }
                Err(error) => {
                    assert_eq!(error.kind, Kind::Missing, "{error}");
                    None
                }
            });
        }
    }
    Some(all)
}

/// What records have, asked by somebody else until it is answered.
fn read(cluster: &Cluster, reader: &ClientMachine, ids: Vec<RecordId>) -> BTreeMap<RecordId, Option<Vec<u8>>> {
    let world = cluster.world();
    let end = world.now() + Duration::from_secs(120);
    loop {
        let (heaps, asked) = (reader.files.heaps(), ids.clone());
        let found = world.run(async move { got(&mut heaps.begin("/heap"), &asked).await });
        if let Some(found) = found {
            return ids.into_iter().zip(found).collect();
        }
        assert!(world.now() < end, "nobody answers");
        world.run_for(Duration::from_secs(1));
    }
}

/// Takes over what came of a transaction.
fn settle(cluster: &Cluster, reader: &ClientMachine, own: &mut Model, story: &Story) {
    let put = story.put.borrow();
    let found = read(cluster, reader, put.keys().chain(&story.freed).copied().collect());
    let there = put.iter().filter(|(id, record)| found[id].as_ref() == Some(record)).count();
    let kept = story.freed.iter().filter(|id| found[id].as_ref() == own.get(id)).count();
    let is_done = match story.came.get() {
        Came::Committed => true,
        Came::Begun | Came::Undone => false,
        Came::Asked => there > 0,
    };
    let expected = if is_done { (put.len(), 0) } else { (0, story.freed.len()) };
    assert_eq!((there, kept), expected, "of {} put and {} freed: {:?}", put.len(), story.freed.len(), story.came.get());
    if is_done {
        own.retain(|id, _| !story.freed.contains(id));
        own.extend(put.iter().map(|(id, record)| (*id, record.clone())));
    }
}

/// Where the heap lies.
fn node_of(cluster: &Cluster) -> usize {
    let has = |node: &usize| {
        let process = cluster.nodes[*node].process.borrow();
        process.as_ref().is_some_and(|process| !process.target().heap_names().is_empty())
    };
    (0..cluster.nodes.len()).find(has).expect("some node has the heap")
}

/// A life of a heap: how many transactions were committed, undone and left open what came of them, and the trace.
fn life(seed: u64) -> ([u64; 3], u64) {
    let world = Rc::new(World::new(seed));
    let cluster = Cluster::new(world.clone(), super::spec(3));
    let reader = cluster.client_machine("reader");
    let heaps = reader.files.heaps();
    world.run(async move { heaps.create("/heap", HEAP_MODE, HeapSettings::default()).await.expect("there is room") });
    let (chance, node) = (world.random(), node_of(&cluster));
    let mut counts = [0; 3];
    let mut own: [Model; 2] = Default::default();
    let mut machines: Vec<ClientMachine> = (0..2).map(|n| cluster.client_machine(&format!("client{n}"))).collect();
    for round in 0..12 {
        let stories = begin(&world, &*chance, &machines, &own, round);
        world.run_for(Duration::from_micros(chance.below(20_000)));
        let (victim, fault) = (chance.below(2) as usize, chance.below(7));
        match fault {
            0 => cluster.network().partition(&[&machines[victim].host], &[cluster.node_host(node)]),
            1 => cluster.network().cut(cluster.node_host(node), &machines[victim].host),
            2 => cluster.kill_node(node),
            3 => cluster.crash_node(node),
            4 => machines[victim].host.kill(),
            5 => machines[victim].host.crash(),
            _ => {}
        }
        world.run_for(Duration::from_millis(chance.below(3000)));
        cluster.network().heal();
        if cluster.node(node).is_none() {
            cluster.restart_node(node);
        }
        let end = world.now() + Duration::from_secs(120);
        // Who died waits for ever.
        let is_dead = |n: usize| n == victim && matches!(fault, 4 | 5);
        while stories.iter().enumerate().any(|(n, story)| !story.is_over.get() && !is_dead(n)) {
            assert!(world.now() < end, "it ends one way or the other");
            world.run_for(Duration::from_millis(100));
        }
        // What is on its way from who died may still be done.
        world.run_for(Duration::from_secs(10));
        for (n, story) in stories.iter().enumerate() {
            counts[story.came.get().counted()] += 1;
            settle(&cluster, &reader, &mut own[n], story);
        }
        for (n, machine) in machines.iter_mut().enumerate() {
            *machine = cluster.client_machine(&format!("client{n} of {round}"));
        }
        let all: Model = own.iter().flatten().map(|(id, record)| (*id, record.clone())).collect();
        let found = read(&cluster, &reader, all.keys().copied().collect());
        assert!(found.into_iter().eq(all.into_iter().map(|(id, record)| (id, Some(record)))), "all of it is there");
    }
    (counts, world.trace())
}

#[test]
fn what_was_committed_is_there_whole_and_what_was_not_is_not_whoever_is_cut_off_or_dies() {
    let sums = RefCell::new([0; 3]);
    seeds::each(12, |seed| {
        let (counts, _) = life(seed);
        sums.borrow_mut().iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    });
    let [committed, undone, unknown] = *sums.borrow();
    assert!(
        !seeds::are_the_suites() || committed > 60 && undone > 12 && unknown > 0,
        "{committed}, {undone}, {unknown}"
    );
}

#[test]
fn the_same_seed_is_the_same_life_of_a_heap() {
    assert_eq!(life(3), life(3));
}

#[test]
fn a_heap_that_is_removed_is_gone_from_its_target_and_who_had_put_something_is_told() {
    let world = Rc::new(World::new(5));
    let cluster = Cluster::new(world.clone(), super::spec(3));
    let machine = cluster.client_machine("client");
    let heaps = machine.files.heaps();
    let making = heaps.clone();
    let mut transaction = world.run(async move {
        making.create("/heap", HEAP_MODE, HeapSettings::default()).await.expect("there is room");
        let exists = making.create("/heap", HEAP_MODE, HeapSettings::default()).await.expect_err("it is there");
        assert_eq!(exists.kind, Kind::Exists);
        let mut transaction = making.begin("/heap");
        let ask = HeapAsk::Put { lengths: vec![4], from: 0, more: false };
        transaction.ask(ask, Slice::from_static(b"lost")).await.expect("it is there").expect("it is put");
        transaction
    });
    let node = node_of(&cluster);
    world.run(async move { heaps.remove("/heap").await.expect("it is root") });
    let end = world.now() + Duration::from_secs(900);
    while !cluster.nodes[node].process.borrow().as_ref().expect("it is up").target().heap_names().is_empty() {
        assert!(world.now() < end, "its target is told some time");
        world.run_for(Duration::from_secs(1));
    }
    world.run(async move {
        let commit = transaction.ask(HeapAsk::Commit { root: NewRoot::Same }, Slice::new()).await;
        let told = commit.and_then(|answer| answer).expect_err("there is no heap");
        assert!(matches!(told.kind, Kind::Missing | Kind::Stale | Kind::Disconnected), "{told:?}");
    });
}

/// Records of a heap that are put and not committed.
fn kept(world: &World, heaps: &NetworkHeaps) -> u64 {
    let heaps = heaps.clone();
    let info = world.run(async move { heaps.info("/heap").await.expect("it is there") });
    info.classes.iter().map(|class| class.kept).sum()
}

#[test]
fn transactions_may_be_many_and_leave_nothing_when_they_are_dropped_after_what_allowed_them_ran_out() {
    let world = Rc::new(World::new(7));
    let cluster = Cluster::new(world.clone(), super::spec(3));
    let heaps = cluster.client_machine("client").files.heaps();
    let making = heaps.clone();
    world.run(async move { making.create("/heap", HEAP_MODE, HeapSettings::default()).await.expect("there is room") });
    let many = 3 * MOST_TRANSACTIONS as u64;
    for _ in 0..3 {
        let begun: Vec<_> = (0..many)
            .map(|_| {
                let mut transaction = heaps.begin("/heap");
                world.run(async move {
                    let put = HeapAsk::Put { lengths: vec![4], from: 0, more: false };
                    let answer = transaction.ask(put, Slice::from_static(b"lost")).await;
                    answer.expect("it is there").expect("there is room for one more");
                    transaction
                })
            })
            .collect();
        world.run_for(Duration::from_mins(20));
        assert_eq!(kept(&world, &heaps), many);
        drop(begun);
        world.run_for(Duration::from_secs(1));
        assert_eq!(kept(&world, &heaps), 0);
    }
}

#[test]
fn a_heap_whose_node_is_away_is_said_to_be_and_what_was_put_there_is_undone() {
    let world = Rc::new(World::new(6));
    let cluster = Cluster::new(world.clone(), super::spec(3));
    let heaps = cluster.client_machine("client").files.heaps();
    let making = heaps.clone();
    let put = || HeapAsk::Put { lengths: vec![4], from: 0, more: false };
    let (mut transaction, lost) = world.run(async move {
        making.create("/heap", HEAP_MODE, HeapSettings::default()).await.expect("there is room");
        let mut transaction = making.begin("/heap");
        let answer =
            transaction.ask(put(), Slice::from_static(b"lost")).await.expect("it is there").expect("it is put");
        let HeapReply::Ids(ids) = answer.reply else { panic!("it is no id") };
        (transaction, ids[0])
    });
    let node = node_of(&cluster);
    cluster.kill_node(node);
    let asked = heaps.clone();
    world.run(async move {
        let commit = transaction.ask(HeapAsk::Commit { root: NewRoot::Same }, Slice::new()).await;
        assert_eq!(commit.expect_err("its connection is gone").kind, Kind::Disconnected);
        // A new one finds nobody, and nothing of it is begun.
        let away = asked.begin("/heap").ask(put(), Slice::from_static(b"more")).await.expect("nothing is lost");
        assert_eq!(away.expect_err("nobody is there").kind, Kind::Disconnected);
        assert_eq!(asked.info("/heap").await.expect_err("nobody is there").kind, Kind::Disconnected);
    });
    cluster.restart_node(node);
    let found = world.run(async move { got(&mut heaps.begin("/heap"), &[lost]).await });
    assert_eq!(found, Some(vec![None]), "it was not committed");
}

#[test]
fn where_a_target_is_away_the_heaps_on_others_are_listed_and_it_is_said_which_are_not() {
    let world = Rc::new(World::new(9));
    let cluster = Cluster::new(world.clone(), super::spec(3));
    let heaps = cluster.client_machine("client").files.heaps();
    let making = heaps.clone();
    let targets = world.run(async move {
        let mut targets = BTreeMap::new();
        for name in ["/heap", "/b", "/c", "/d", "/e", "/f"] {
            let made = making.create(name, HEAP_MODE, HeapSettings::default()).await.expect("there is room");
            targets.insert(name.to_string(), made.target);
        }
        let list = making.list().await.expect("all are there");
        assert_eq!((list.heaps.len(), list.lost.len()), (targets.len(), 0));
        targets
    });
    let node = cluster
        .nodes
        .iter()
        .position(|node| node.process.borrow().as_ref().expect("it is up").target().id() == targets["/heap"]);
    cluster.kill_node(node.expect("one has it"));
    let list = world.run(async move { heaps.list().await.expect("the manager has them") });
    let is_away = |name: &String| targets[name] == targets["/heap"];
    let names: Vec<String> = list.heaps.iter().map(|heap| heap.name.clone()).collect();
    assert!(!names.is_empty() && names.iter().all(|name| !is_away(name)), "{names:?}");
    assert!(list.lost.iter().all(|(name, error)| is_away(name) && error.kind == Kind::Disconnected), "{:?}", list.lost);
    assert_eq!(names.len() + list.lost.len(), targets.len());
}
