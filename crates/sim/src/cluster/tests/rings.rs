//! Rings over the network: recorders and queries while connections, nodes and clients come and go.

mod asking;
mod between;
mod clock;
mod damage;
mod followed;
mod idle;
mod leaving;
mod midway;
mod overrun;
mod parts;
mod pins;
mod promise;
mod recording;
mod remade;
mod replaced;
mod spread;
mod tails;
mod two;
mod unserved;
mod wiped;

use super::*;
use crate::seeds;
use forebay_client::peer::{AnswerLink, HeapLink, ObjectLink, Part, Peer, WriterLink};
use forebay_client::rings::{RING_MODE, Ring};
use forebay_client::{Cluster as Client, Event, Recorder};
use forebay_env::Random;
use forebay_model::ring::{Item, QuerySummary, RingSpec};
use forebay_model::{Cause, Error, Gap, Kind, Moment, Rate, Result, Timestamp};
use forebay_wire::command::{QueryRequest, Request};
use forebay_wire::control::files::Revoke;
use forebay_wire::ring::RingQuery;
use recording::{Past, Recording};
use std::collections::BTreeSet;

fn open(cluster: &Cluster, name: &str, write: bool) -> Ring {
    let machine = cluster.client_machine(name);
    let rings = machine.files.rings();
    cluster.world().run(async move { rings.open("/ring", write).await.expect("it is there") })
}

enum Found {
    Element { session: u64, number: u64 },
    Gap(Gap),
}

impl Found {
    fn element(&self) -> Option<(u64, u64)> {
        match self {
            Found::Element { session, number } => Some((*session, *number)),
            Found::Gap(_) => None,
        }
    }

    fn gap(&self) -> Option<Gap> {
        match self {
            Found::Gap(gap) => Some(*gap),
            Found::Element { .. } => None,
        }
    }
}

/// The gaps of targets that were away.
fn away(found: &[Found]) -> Vec<Gap> {
    found.iter().filter_map(Found::gap).filter(|gap| gap.cause == Cause::TargetAway).collect()
}

/// What is missing is told.
fn assert_told(missing: &[Timestamp], gaps: &[Gap], what: &str) {
    let is_told = |time: &&Timestamp| gaps.iter().any(|gap| (gap.first..=gap.last).contains(time));
    let silent = missing.iter().filter(|time| !is_told(time)).count();
    assert_eq!(silent, 0, "of {} that are missing, {what}: {gaps:?}", missing.len());
}

fn asked(world: &World, text: String, follow: bool) -> RingQuery {
    RingQuery { text, now: world.clock().wall(), follow, limit: None, gaps_only: false, blocks: false, numbered: false }
}

/// All that the ring has, in order.
fn read(cluster: &Cluster, ring: &Ring) -> Vec<Found> {
    read_of(cluster, ring, String::new())
}

/// What the ring has of this, in order.
fn read_of(cluster: &Cluster, ring: &Ring, text: String) -> Vec<Found> {
    cluster.world().run(answer_of(ring, asked(cluster.world(), text, false)))
}

/// All of an answer, in order.
fn answer_of(ring: &Ring, query: RingQuery) -> impl Future<Output = Vec<Found>> + use<> {
    let answer = whole_answer_of(ring, query);
    async move { answer.await.expect("it is answered") }
}

/// The same, if it comes to its end.
fn whole_answer_of(ring: &Ring, query: RingQuery) -> impl Future<Output = Result<Vec<Found>>> + use<> {
    let ring = ring.clone();
    async move {
        let (mut found, mut joined, mut next) = (Vec::new(), Vec::new(), None);
        let mut answer = ring.query(query).await?;
        loop {
            let batch = match answer.next().await? {
                Part::Batch(batch) => batch,
                Part::End(QuerySummary { elements, .. }) => {
                    let got = found.iter().filter(|found| matches!(found, Found::Element { .. })).count();
                    assert_eq!(elements, got as u64);
                    return Ok(found);
                }
            };
            let mut visit = |event: Event<'_>| {
                found.push(match event {
                    Event::Element { sequence, payload, .. } => {
                        assert!(
                            next.is_none_or(|next| next == sequence),
                            "sequences rise by one: {sequence} after {next:?}"
                        );
                        next = Some(sequence + 1);
                        let number = |at| u64::from_le_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
                        assert!(payload[16..].iter().all(|byte| *byte == 7));
                        Found::Element { session: number(0), number: number(8) }
                    }
                    Event::Gap(gap) => Found::Gap(gap),
                    Event::Expired { from, to } => panic!("{from} to {to} expired"),
                });
                Ok(true)
            };
            forebay_client::answer::visit_batch(&batch, &mut joined, &mut visit).expect("it is visited");
        }
    }
}

/// What was acknowledged is there once, in order; and gaps account for the rest.
fn check(found: &[Found], sessions: &[Past]) -> u64 {
    let mut at = found.iter().peekable();
    // One of which nothing is there does not tell that it was not the first: the gap is before the next one's.
    let (mut overflown, mut told) = (0, 0);
    for (index, past) in sessions.iter().enumerate() {
        let (mut there, mut next, mut missing, mut restarts) = (0, 0, 0, 0);
        while let Some(found) = at.peek() {
            match found {
                Found::Element { session, .. } if *session != past.session => break,
                Found::Gap(gap) if gap.cause == Cause::Restart && there > 0 => break,
                Found::Gap(gap) if gap.cause == Cause::Restart => restarts += 1,
                Found::Gap(gap) => {
                    assert_eq!(gap.cause, Cause::Overflow, "{gap:?}");
                    missing += gap.count.expect("drops are counted");
                }
                Found::Element { number, .. } => {
                    assert_eq!(past.accepted.get(there), Some(number), "element {there} of session {index}");
                    assert_eq!(number - next, missing, "what is missing before element {number} of session {index}");
                    overflown += missing;
                    (there, next, missing) = (there + 1, number + 1, 0);
                }
            }
            at.next();
        }
        assert!(there as u64 >= past.durable, "{there} of {} that were acknowledged", past.durable);
        if past.in_order {
            assert_eq!(there, past.accepted.len());
            assert_eq!(next + missing, past.offered, "the end of session {index}");
        }
        let had_something = sessions[..index].iter().any(|past| past.durable > 0);
        told += restarts;
        assert!(told > 0 || !had_something || there == 0, "a session tells that there was another before it");
        if there > 0 {
            told = 0;
        }
        overflown += missing;
    }
    assert!(at.next().is_none(), "there is nothing else");
    overflown
}

fn spec_of_ring() -> RingSpec {
    RingSpec {
        guarantee: Rate::mb(2),
        block: Bytes::kib(64),
        flush_interval: Duration::from_millis(200),
        ..RingSpec::new("/ring", Bytes::mib(128))
    }
}

/// A cluster with a ring on one target, and who made it.
fn with_one(seed: u64) -> (Rc<World>, Cluster, ClientMachine) {
    let world = Rc::new(World::new(seed));
    let cluster = Cluster::new(world.clone(), spec(3));
    let maker = cluster.client_machine("maker");
    let rings = maker.files.rings();
    world.run(async move { rings.create(spec_of_ring(), RING_MODE).await.expect("there is room").0 });
    (world, cluster, maker)
}

/// Takes back what was given out for the ring.
fn revoke(cluster: &Cluster, by: &ClientMachine) {
    let (files, control) = (by.files.clone(), by.control.clone());
    cluster.world().run(async move {
        let file = files.stat("/ring").await.expect("it is there").file;
        control.change(Change::Revoke(Revoke { file })).await.expect("it is root");
    });
}

/// Where the ring lies.
fn node_of(cluster: &Cluster) -> usize {
    (0..cluster.nodes.len())
        .find(|node| {
            let process = cluster.nodes[*node].process.borrow();
            process.as_ref().is_some_and(|process| !process.target().status().is_empty())
        })
        .expect("some node has the ring")
}

/// A life of a ring: what overflew, and the trace.
fn life(seed: u64) -> (u64, u64) {
    let (world, cluster, _maker) = with_one(seed);
    let (chance, node) = (world.random(), node_of(&cluster));
    let mut past = Vec::new();
    for session in 1..=3 {
        let mut recording = Recording::begin(&cluster, session);
        for _ in 0..4 {
            for _ in 0..chance.below(100) {
                recording.step(&world, &*chance);
            }
            match chance.below(5) {
                0 => cluster.network().partition(&[&recording.machine.host], &[cluster.node_host(node)]),
                1 => cluster.network().cut(cluster.node_host(node), &recording.machine.host),
                2 => cluster.kill_node(node),
                3 => cluster.crash_node(node),
                _ => {}
            }
            for _ in 0..chance.below(300) {
                recording.step(&world, &*chance);
            }
            cluster.network().heal();
            if cluster.node(node).is_none() {
                cluster.restart_node(node);
            }
        }
        let in_order = session == 3 || chance.below(3) == 0;
        if in_order {
            recording.settle(&world);
        } else {
            match chance.below(2) {
                0 => recording.machine.host.crash(),
                _ => recording.machine.host.kill(),
            }
        }
        past.push(recording.past(in_order));
    }
    let ring = open(&cluster, "reader", false);
    let overflown = check(&read(&cluster, &ring), &past);
    (overflown, world.trace())
}

#[test]
fn what_was_acknowledged_is_there_once_and_gaps_account_for_the_rest_whoever_is_cut_off_or_dies() {
    let overflown = Cell::new(0);
    seeds::each(12, |seed| overflown.set(overflown.get() + life(seed).0));
    assert!(!seeds::are_the_suites() || overflown.get() > 0, "nobody was ever too fast, so gaps were not looked at");
}

#[test]
fn the_same_seed_is_the_same_life_of_a_ring() {
    assert_eq!(life(3), life(3));
}

#[test]
fn a_ring_goes_to_a_target_that_admits_it_and_if_none_does_it_is_said_what_could_be_had() {
    let world = Rc::new(World::new(8));
    let cluster = Cluster::new(world.clone(), spec(3));
    let rings = cluster.client_machine("maker").files.rings();
    let spec = |number| RingSpec { guarantee: Rate::mb(8), ..RingSpec::new(format!("/{number}"), Bytes::mib(32)) };
    let mut made = 0;
    let refused = loop {
        let (rings, spec) = (rings.clone(), spec(made));
        match world.run(async move { rings.create(spec, RING_MODE).await }) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
        assert!(made < 100, "nothing is admitted for ever");
    };
    assert!(refused.kind == Kind::Refused && refused.message.contains("/s"), "{refused:?}");
    // Only when all were full was it refused, and nothing of that was left behind.
    let rings_of = |node: usize| {
        let process = cluster.nodes[node].process.borrow();
        process.as_ref().map_or(0, |process| process.target().status().len())
    };
    let counts: Vec<usize> = (0..3).map(rings_of).collect();
    assert!(made > 0 && counts.iter().sum::<usize>() == made, "{made} are {counts:?}");
    assert!(counts.iter().all(|count| *count == counts[0]), "all targets are alike: {counts:?}");
    let files = cluster.client_machine("reader").files;
    let (listed, _) = world.run(async move { files.list("/", "").await.expect("it is there") });
    assert_eq!(listed.len(), made);
}

#[test]
fn a_recorder_whose_capability_is_revoked_goes_on_with_another_and_one_whose_ring_is_removed_ends() {
    let (world, cluster, maker) = with_one(9);
    let (chance, node) = (world.random(), node_of(&cluster));
    let mut recording = Recording::begin(&cluster, 1);
    for _ in 0..5 {
        (0..50).for_each(|_| recording.step(&world, &*chance));
        revoke(&cluster, &maker);
    }
    recording.settle(&world);
    let ring = open(&cluster, "reader", false);
    let (session, offered, accepted) = (recording.session, recording.offered, recording.accepted.clone());
    let durable = recording.recorder.progress().durable_elements;
    assert_eq!(durable, accepted.len() as u64);
    check(&read(&cluster, &ring), &[Past { session, accepted, offered, durable, in_order: true }]);
    let rings = maker.files.rings();
    world.run(async move { rings.remove("/ring").await.expect("it is root") });
    let end = world.now() + Duration::from_secs(900);
    let error = loop {
        recording.tell_time(&world);
        if let Err(error) = recording.recorder.tick() {
            break error;
        }
        assert!(world.now() < end, "the ring is removed some time");
        world.run_for(Duration::from_secs(1));
    };
    assert!(error.kind == Kind::Missing, "{error:?}");
    world.run_for(Duration::from_secs(600));
    let process = cluster.nodes[node].process.borrow();
    assert!(process.as_ref().is_some_and(|process| process.target().status().is_empty()), "its space is free again");
}

#[test]
fn who_follows_a_ring_in_which_nothing_happens_for_longer_than_a_capability_counts_is_told_what_comes_then() {
    let (world, cluster, _maker) = with_one(12);
    let chance = world.random();
    let mut recording = Recording::begin(&cluster, 1);
    let ring = open(&cluster, "reader", false);
    let now = world.clock().wall();
    let query = RingQuery {
        text: String::new(),
        now,
        follow: true,
        limit: None,
        gaps_only: false,
        blocks: false,
        numbered: false,
    };
    let mut answer = world.run(async move { ring.query(query).await.expect("it is asked") });
    let mut followed = 0;
    for _ in 0..3 {
        let before = recording.accepted.len();
        while recording.accepted.len() < before + 5 {
            recording.step(&world, &*chance);
        }
        recording.settle(&world);
        while followed < recording.accepted.len() as u64 {
            let (back, part) = world.run(async move {
                let part = answer.next().await;
                (answer, part)
            });
            answer = back;
            let Part::Batch(batch) = part.expect("the query goes on") else { panic!("it ended") };
            let is_element = |item: &&Item| matches!(item, Item::Element { .. });
            followed += batch.items.iter().filter(is_element).count() as u64;
        }
        // The recorder says that it is there; the reader asked for what comes next before this began.
        for _ in 0..70 {
            recording.tell_time(&world);
            recording.recorder.tick().expect("it goes on");
            world.run_for(Duration::from_secs(6));
        }
    }
}
