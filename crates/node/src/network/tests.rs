use super::{Bounds, CutCounts, Node, TargetDoor};
use crate::host::Host;
use forebay_env::fabric::{Duplex, NetworkEnv};
use forebay_env::real::{self, OpenMode};
use forebay_model::object::{Durability, FENCE, FENCES, FIRST_FENCE, Placement};
use forebay_model::{Bytes, Kind, ObjectId, Profile, Rate, Result, TargetId, Timestamp};
use forebay_target::Target;
use forebay_wire::arrived::Memory;
use forebay_wire::capability::{Capability, Rights, RootKey, TargetKey};
use forebay_wire::control::cluster::ShutOut;
use forebay_wire::credit::Credit;
use forebay_wire::link::{Answer, Asked, Link};
use forebay_wire::object::{Ask, LARGEST, MOST_AT_ONCE, ObjectAnswer, ObjectReply, ObjectRequest, Riders, companion};
use forebay_wire::sink::{Frame, Shown};
use forebay_wire::{Command, Flags, RequestId};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

mod frames;
mod heaps;
mod hung;
mod locks;
mod memory;
mod rings;
mod slow;
mod strangers;
mod targets;

const CLUSTER: u128 = 77;
const OBJECT: ObjectId = ObjectId { volume: 5, object: 9 };

/// A node with one target in a file, reached over TCP.
#[derive(Clone)]
struct Rig {
    env: NetworkEnv,
    node: Rc<Node>,
    address: String,
    target: TargetId,
    key: TargetKey,
}

/// Runs a test on the loop of the network.
fn with_node<F: Future<Output = ()> + 'static>(bounds: Bounds, test: impl FnOnce(Rig) -> F + 'static) {
    let dir = tempfile::tempdir().expect("a directory for the test");
    let path = dir.path().join("target");
    let device = real::create_file(&path, Bytes::mib(256)).expect("a file for the target");
    real::run(real::Options { device }, |env| async move {
        Target::format(env, Profile::guess(Bytes::mib(256), false)).await
    })
    .and_then(|formatted| formatted)
    .expect("a target");
    let host =
        Rc::new(Host::start(vec![real::open(&path, OpenMode::Exclusive).expect("it is there")]).expect("it opens"));
    let serving = host.clone();
    real::run_network(|env| async move {
        test(served(env, TargetDoor::of(&serving, |_| {}), bounds).await).await;
    })
    .expect("the loop of the network");
    host.close().expect("everything is durable");
}

/// A node that serves these, of which the first one has a key.
async fn served(env: NetworkEnv, doors: Vec<TargetDoor>, bounds: Bounds) -> Rig {
    let target = doors[0].id();
    let node = Node::new(env.clone(), doors, bounds, 4711);
    let key = RootKey::new([3; 32]).of_target(target, 1);
    node.keys().join(CLUSTER, target, [1; 32]);
    node.keys().roll(target, key.clone());
    node.keys().advance(target, 7, 0);
    let door = env.fabric.listen("127.0.0.1:0").await.expect("a port");
    let address = door.address();
    env.spawner.detach({
        let node = node.clone();
        async move { drop(node.serve(door).await) }
    });
    Rig { env, node, address, target, key }
}

impl Rig {
    fn capability(&self, rights: Rights) -> Capability {
        Capability {
            cluster: CLUSTER,
            target: self.target,
            client: 1,
            object: OBJECT,
            version: FIRST_FENCE,
            epoch: 7,
            rights,
            bytes: 0..u64::MAX,
            until: Timestamp(self.env.clock.wall().0 + 60_000_000_000),
            key: 1,
            serial: 1,
        }
    }

    fn shown(&self, capability: &Capability) -> Shown {
        Shown { capability: capability.to_bytes(), secret: self.key.secret(capability) }
    }

    /// A connection, what allows everything about an object, and the object.
    async fn made(&self) -> (Link, Capability) {
        let (link, all) = (self.link(Credit::new(1 << 20)).await, self.capability(Rights::ALL));
        self.ask(&link, &all, create(), Vec::new()).await.expect("an object");
        (link, all)
    }

    /// From now on capabilities for the object have to be of `version`.
    async fn fence(&self, version: u64) -> Result<()> {
        self.node.door(self.target)?.handle.fence(OBJECT, version).await
    }

    async fn link(&self, credit: Credit) -> Link {
        self.open(([9; 16], None), credit).await
    }

    /// A connection that replaces this one.
    async fn link_after(&self, before: &Link) -> Link {
        self.open(([8; 16], Some(before.hello().nonce)), Credit::new(1 << 20)).await
    }

    async fn open(&self, replaces: ([u8; 16], Option<[u8; 16]>), credit: Credit) -> Link {
        let Duplex { read, write, .. } = self.env.fabric.connect(&self.address).await.expect("a connection");
        let opening = Link::open(read, write, replaces, (credit, Memory::default()));
        let (link, running) = opening.await.expect("a welcome");
        self.env.spawner.detach(async move { drop(running.await) });
        link
    }

    async fn ask(&self, link: &Link, of: &Capability, ask: Ask, payload: Vec<u8>) -> Result<ObjectAnswer> {
        self.ask_with(link, Some(&self.shown(of)), Riders::default(), ask, payload).await
    }

    async fn ask_with(
        &self,
        link: &Link,
        shown: Option<&Shown>,
        riders: Riders,
        ask: Ask,
        payload: Vec<u8>,
    ) -> Result<ObjectAnswer> {
        let most = if let Ask::Read { length, .. } = ask { length as usize } else { 0 };
        let request = ObjectRequest { target: self.target, riders, ask };
        let payload = if payload.is_empty() { Vec::new() } else { vec![bytes::Bytes::from(payload)] };
        let body = request.body().expect("it fits");
        let Answer { body, payload } =
            link.ask(Asked { command: request.command(), body: &body, payload, most, shown })?.await?;
        ObjectAnswer::read(&body, payload)
    }
}

fn write(offset: u64) -> Ask {
    Ask::Write { id: OBJECT, offset, placement: Placement::Auto, durability: Durability::Durable }
}

fn read(offset: u64, length: u32) -> Ask {
    Ask::Read { id: OBJECT, offset, length }
}

fn create() -> Ask {
    Ask::Create { id: OBJECT, attributes: Vec::new() }
}

fn kind(result: Result<ObjectAnswer>) -> Kind {
    result.expect_err("it is refused").kind
}

fn hello() -> Vec<u8> {
    let hello = forebay_wire::ClientHello::new(None, [9; 16]);
    Frame::of(RequestId(0), Command::HELLO, Flags::NONE, &hello).expect("it fits").to_bytes()
}

#[test]
fn what_was_written_over_the_network_is_read_over_it_however_little_may_come_at_once() {
    with_node(Bounds::default(), |rig| async move {
        let (writer, all) = rig.made().await;
        let bytes: Vec<u8> = (0..3_000_001u32).map(|n| (n % 251) as u8).collect();
        rig.ask(&writer, &all, write(0), bytes.clone()).await.expect("it is durable");
        let spawner = rig.env.spawner.clone();
        for credit in [1, 100_000, 1 << 20, 64 << 20] {
            let reader = rig.link(Credit::new(credit)).await;
            let parts: Vec<_> = (0..8u64)
                .map(|nth| {
                    let (rig, reader, all) = (rig.clone(), reader.clone(), all.clone());
                    let asked = async move { rig.ask(&reader, &all, read(nth * 400_000, 400_000), Vec::new()).await };
                    spawner.spawn(asked)
                })
                .collect();
            let mut whole = Vec::new();
            for part in parts {
                whole.extend(part.await.expect("bytes").payload.into_vec());
            }
            assert_eq!(whole.len(), bytes.len());
            assert!(whole == bytes, "with a credit of {credit}");
        }
        assert_eq!(rig.node.memory_used(), Bytes::ZERO);
    });
}

#[test]
fn what_nothing_shown_allows_is_refused_in_the_same_words_and_counted_and_the_connection_goes_on() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.made().await;
        rig.ask(&link, &all, write(0), vec![1; 5000]).await.expect("it is durable");
        let other = ObjectId { object: 10, ..OBJECT };
        let reading = rig.capability(Rights::READ);
        let within = Capability { bytes: 1000..2000, ..all.clone() };
        let forged = Shown { capability: all.to_bytes(), ..rig.shown(&reading) };
        // Outcome 1: each bit in turn.
        let good = rig.shown(&all);
        let mut said = Vec::new();
        for bit in 0..good.capability.len() * 8 {
            let mut shown = good.clone();
            shown.capability[bit / 8] ^= 1 << (bit % 8);
            let refused = rig.ask_with(&link, Some(&shown), Riders::default(), write(0), vec![2; 100]).await;
            said.push(refused.expect_err("it was changed"));
        }
        // Outcomes 3 and 5.
        let foreign = Capability { target: TargetId(rig.target.0 ^ 1), ..all.clone() };
        let of_another_cluster = Capability { cluster: CLUSTER + 1, ..all.clone() };
        let attempts = [
            (Some(rig.shown(&Capability { object: other, ..all.clone() })), write(0)),
            (Some(rig.shown(&reading)), write(0)),
            (Some(rig.shown(&within)), write(999)),
            (Some(rig.shown(&within)), write(1901)),
            (Some(rig.shown(&foreign)), write(0)),
            (Some(rig.shown(&of_another_cluster)), write(0)),
            (Some(forged), write(0)),
        ];
        for (shown, ask) in attempts {
            let refused = rig.ask_with(&link, shown.as_ref(), Riders::default(), ask.clone(), vec![2; 100]).await;
            said.push(refused.expect_err(&format!("{ask:?}")));
        }
        // What is not there and what is forbidden look alike.
        let missing = Capability { object: other, ..reading.clone() };
        let asked = Ask::Read { id: ObjectId { object: 11, ..OBJECT }, offset: 0, length: 10 };
        said.push(rig.ask(&link, &missing, asked, Vec::new()).await.expect_err("another object"));
        assert!(said.iter().all(|error| error.kind == Kind::Forbidden && *error == said[0]), "{said:?}");
        let refused = rig.ask_with(&link, None, Riders::default(), write(0), vec![2; 100]).await;
        assert_eq!(kind(refused), Kind::Forbidden);
        assert_eq!(rig.node.keys().refusals().forbidden, said.len() as u64 + 1);
        let expired = Capability { until: Timestamp(rig.env.clock.wall().0 - 1_000_000), ..all.clone() };
        assert_eq!(kind(rig.ask(&link, &expired, write(0), vec![2; 100]).await), Kind::Stale);
        let newer = Capability { epoch: 8, ..all.clone() };
        assert_eq!(kind(rig.ask(&link, &newer, write(0), vec![2; 100]).await), Kind::Busy);
        rig.ask(&link, &within, write(1900), vec![3; 100]).await.expect("that is within");
        let bytes = rig.ask(&link, &all, read(0, 5000), Vec::new()).await.expect("bytes").payload.into_vec();
        assert!(bytes[..1900].iter().all(|b| *b == 1) && bytes[1900..2000].iter().all(|b| *b == 3));
        assert_eq!(rig.node.memory_used(), Bytes::ZERO);
    });
}

#[test]
fn a_fence_shuts_out_what_was_given_out_before_also_of_objects_that_are_not_there_yet() {
    with_node(Bounds::default(), |rig| async move {
        let link = rig.link(Credit::new(1 << 20)).await;
        let old = rig.capability(Rights::ALL);
        rig.fence(3).await.expect("it is durable");
        assert_eq!(kind(rig.ask(&link, &old, create(), Vec::new()).await), Kind::Stale);
        let new = Capability { version: 3, ..old.clone() };
        assert_eq!(kind(rig.ask(&link, &new, create(), Vec::new()).await), Kind::Exists);
        rig.ask(&link, &new, write(0), vec![1; 100]).await.expect("it is allowed");
        rig.fence(2).await.expect("fences do not fall");
        assert_eq!(kind(rig.ask(&link, &old, write(0), vec![2; 100]).await), Kind::Stale);
        rig.ask(&link, &new, write(0), vec![3; 100]).await.expect("it is allowed");
        assert_eq!(rig.node.keys().refusals().stale, 2);
        // Nobody sets it but the node.
        let set = vec![(FENCES, FENCE, Some(vec![9; 8]))];
        let asked = Ask::SetAttributes { id: OBJECT, changes: set.clone() };
        assert_eq!(kind(rig.ask(&link, &new, asked, Vec::new()).await), Kind::Forbidden);
        let riders = Riders { set, get: None };
        let riding = rig.ask_with(&link, Some(&rig.shown(&new)), riders, write(0), vec![2; 100]).await;
        assert_eq!(kind(riding), Kind::Forbidden);
    });
}

#[test]
fn what_a_client_had_whose_key_was_revoked_counts_no_more_and_what_it_has_under_way_ends() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.made().await;
        let (others, of_other) =
            (rig.link(Credit::new(1 << 20)).await, Capability { client: 2, ..rig.capability(Rights::ALL) });
        rig.ask(&others, &of_other, write(0), vec![1; 100]).await.expect("it is allowed");
        let out = [ShutOut { client: all.client, until: all.until }];
        rig.node.shut_out(&out);
        assert_eq!(kind(rig.ask(&link, &all, read(0, 10), Vec::new()).await), Kind::Disconnected);
        rig.ask(&others, &of_other, read(0, 10), Vec::new()).await.expect("another client's connection goes on");
        let again = rig.link(Credit::new(1 << 20)).await;
        assert_eq!(kind(rig.ask(&again, &all, read(0, 10), Vec::new()).await), Kind::Stale);
        assert_eq!(rig.node.keys().refusals().stale, 1);
        // With another key it has something that counts for longer.
        let newer = Capability { until: Timestamp(all.until.0 + 1), ..all.clone() };
        rig.ask(&again, &newer, read(0, 10), Vec::new()).await.expect("it is allowed");
        rig.node.shut_out(&out);
        rig.ask(&again, &newer, read(0, 10), Vec::new()).await.expect("its connection goes on");
        rig.node.shut_out(&[]);
        rig.ask(&again, &all, read(0, 10), Vec::new()).await.expect("what is over by now is not told any more");
    });
}

#[test]
fn who_may_write_an_object_may_write_its_companion() {
    with_node(Bounds::default(), |rig| async move {
        let link = rig.link(Credit::new(1 << 20)).await;
        let writing = Capability { bytes: 0..10, ..rig.capability(Rights::WRITE) };
        let id = companion(OBJECT);
        let made = Ask::Create { id, attributes: Vec::new() };
        rig.ask(&link, &writing, made.clone(), Vec::new()).await.expect("a companion");
        let (placement, durability) = (Placement::Log, Durability::Durable);
        let append = Ask::Append { id, placement, durability };
        let answer = rig.ask(&link, &writing, append.clone(), vec![1; 500]).await.expect("it is durable");
        assert_eq!(answer.reply, ObjectReply::At(0));
        let reading = rig.capability(Rights::READ);
        assert_eq!(kind(rig.ask(&link, &reading, append.clone(), vec![1; 500]).await), Kind::Forbidden);
        // Nor by looking at something on the way.
        let riders = || Riders { set: Vec::new(), get: Some(1) };
        let shown = rig.shown(&rig.capability(Rights::READ | Rights::GET_ATTRIBUTES));
        let changes = [
            (append, vec![1; 500]),
            (Ask::Truncate { id, size: 0 }, Vec::new()),
            (Ask::Punch { id, offset: 0, length: 500 }, Vec::new()),
            (Ask::Remove { id }, Vec::new()),
        ];
        for (ask, payload) in changes {
            let refused = rig.ask_with(&link, Some(&shown), riders(), ask, payload).await;
            assert_eq!(kind(refused), Kind::Forbidden);
        }
        let asked = Ask::Read { id, offset: 0, length: 4096 };
        assert_eq!(rig.ask(&link, &reading, asked, Vec::new()).await.expect("bytes").payload.into_vec(), [1; 500]);
    });
}

#[test]
fn bytes_are_lost_by_who_may_write_them_and_not_too_many_at_once() {
    with_node(Bounds::default(), |rig| async move {
        let (link, all) = rig.made().await;
        rig.ask(&link, &all, write(0), vec![5; 10_000]).await.expect("it is durable");
        let lose = |offset, length| Ask::Lose { id: OBJECT, offset, length };
        let writing = Capability { bytes: 0..4096, ..rig.capability(Rights::WRITE) };
        for (by, offset) in [(&rig.capability(Rights::READ), 0), (&writing, 4096)] {
            assert_eq!(kind(rig.ask(&link, by, lose(offset, 4096), Vec::new()).await), Kind::Forbidden);
        }
        assert_eq!(kind(rig.ask(&link, &all, lose(0, MOST_AT_ONCE.0 + 4096), Vec::new()).await), Kind::Usage);
        let whole = rig.ask(&link, &all, read(0, 10_000), Vec::new()).await.expect("nothing was lost");
        assert_eq!(whole.payload.into_vec(), [5; 10_000]);
        rig.ask(&link, &writing, lose(0, 4096), Vec::new()).await.expect("it is durable");
        assert_eq!(kind(rig.ask(&link, &all, read(0, 10), Vec::new()).await), Kind::Damaged);
        let rest = rig.ask(&link, &all, read(4096, 10_000), Vec::new()).await.expect("the rest is there");
        assert_eq!(rest.payload.into_vec(), [5; 10_000 - 4096]);
    });
}

#[test]
fn nothing_of_a_connection_is_done_once_the_one_that_replaces_it_is_welcome() {
    with_node(Bounds::default(), |rig| async move {
        let (one, all) = rig.made().await;
        let asked: Vec<_> = (0..50u8)
            .map(|n| {
                let (rig, one, all) = (rig.clone(), one.clone(), all.clone());
                let spawner = rig.env.spawner.clone();
                spawner.spawn(async move { rig.ask(&one, &all, write(0), vec![n; 100_000]).await })
            })
            .collect();
        while rig.node.memory_used().0 == 0 {
            rig.env.clock.sleep(Duration::from_micros(100)).await;
        }
        let two = rig.link_after(&one).await;
        rig.ask(&two, &all, write(0), vec![77; 100_000]).await.expect("it is durable");
        for answer in asked {
            drop(answer.await);
        }
        let bytes = rig.ask(&two, &all, read(0, 100_000), Vec::new()).await.expect("bytes").payload.into_vec();
        assert!(bytes.iter().all(|byte| *byte == 77));
    });
}
