use super::{Bounds, Node, TargetDoor};
use crate::host::Host;
use bytes::Bytes;
use forebay_env::fabric::{Duplex, NetworkEnv};
use forebay_env::real::{self, OpenMode};
use forebay_model::object::{Durability, FENCE, FENCES, FIRST_FENCE, Placement};
use forebay_model::{Kind, ObjectId, Profile, Result, TargetId, Timestamp};
use forebay_target::Target;
use forebay_wire::capability::{Capability, Nonces, Rights, RootKey, TargetKey};
use forebay_wire::credit::Credit;
use forebay_wire::link::{Answer, Asked, Link};
use forebay_wire::lock::{Lock, Locked, Unlock};
use forebay_wire::object::{Ask, ObjectAnswer, ObjectReply, ObjectRequest, Riders, companion};
use forebay_wire::sink::{Frame, Shown};
use forebay_wire::source::FrameSource;
use forebay_wire::{Command, Flags, RequestId, ServerHello};
use futures_io::{AsyncRead, AsyncWrite};
use std::future::Future;
use std::rc::Rc;
use std::time::Duration;

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
    let device = real::create_file(&path, forebay_model::Bytes::mib(256)).expect("a file for the target");
    real::run(real::Options { device }, |env| async move {
        Target::format(env, Profile::guess(forebay_model::Bytes::mib(256), false)).await
    })
    .and_then(|formatted| formatted)
    .expect("a target");
    let host =
        Rc::new(Host::start(vec![real::open(&path, OpenMode::Exclusive).expect("it is there")]).expect("it opens"));
    let serving = host.clone();
    real::run_network(|env| async move {
        let doors = TargetDoor::of(&serving);
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
        let rig = Rig { env, node, address, target, key };
        test(rig).await;
    })
    .expect("the loop of the network");
    host.close().expect("everything is durable");
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

    /// From now on capabilities for the object have to be of `version`.
    async fn fence(&self, version: u64) -> Result<()> {
        self.node.door(self.target)?.handle.fence(OBJECT, version).await
    }

    async fn link(&self, credit: Credit) -> Link {
        let Duplex { read, write, .. } = self.env.fabric.connect(&self.address).await.expect("a connection");
        let (link, running) = Link::open(read, write, ([9; 16], None), credit).await.expect("a welcome");
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
        let payload = if payload.is_empty() { Vec::new() } else { vec![Bytes::from(payload)] };
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

#[test]
fn what_was_written_over_the_network_is_read_over_it_however_little_may_come_at_once() {
    with_node(Bounds::default(), |rig| async move {
        let all = rig.capability(Rights::ALL);
        let writer = rig.link(Credit::new(1 << 20)).await;
        rig.ask(&writer, &all, create(), Vec::new()).await.expect("an object");
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
                whole.extend(part.await.expect("bytes").payload);
            }
            assert_eq!(whole.len(), bytes.len());
            assert!(whole == bytes, "with a credit of {credit}");
        }
        assert_eq!(rig.node.memory_used(), forebay_model::Bytes::ZERO);
    });
}

#[test]
fn what_nothing_shown_allows_is_refused_in_the_same_words_and_counted_and_the_connection_goes_on() {
    with_node(Bounds::default(), |rig| async move {
        let link = rig.link(Credit::new(1 << 20)).await;
        let all = rig.capability(Rights::ALL);
        rig.ask(&link, &all, create(), Vec::new()).await.expect("an object");
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
        let bytes = rig.ask(&link, &all, read(0, 5000), Vec::new()).await.expect("bytes").payload;
        assert!(bytes[..1900].iter().all(|b| *b == 1) && bytes[1900..2000].iter().all(|b| *b == 3));
        assert_eq!(rig.node.memory_used(), forebay_model::Bytes::ZERO);
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
        assert_eq!(rig.ask(&link, &reading, asked, Vec::new()).await.expect("bytes").payload, [1; 500]);
    });
}

/// What a node answers to these bytes behind a good hello, until it ends the connection.
async fn answered(rig: &Rig, bytes: Vec<u8>) -> Vec<u8> {
    let Duplex { mut read, mut write, .. } = rig.env.fabric.connect(&rig.address).await.expect("a connection");
    let mut sent = 0;
    let mut answer = vec![0; 1 << 16];
    let mut came = 0;
    std::future::poll_fn(|context| {
        use std::pin::Pin;
        use std::task::Poll;
        while sent < bytes.len() {
            match Pin::new(&mut write).poll_write(context, &bytes[sent..]) {
                Poll::Ready(Ok(count)) => sent += count,
                Poll::Ready(Err(_)) => break,
                Poll::Pending => break,
            }
        }
        loop {
            match Pin::new(&mut read).poll_read(context, &mut answer[came..]) {
                Poll::Ready(Ok(0)) | Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Ready(Ok(count)) => came += count,
                Poll::Pending => return Poll::Pending,
            }
        }
    })
    .await;
    answer.truncate(came);
    answer
}

fn hello() -> Vec<u8> {
    let hello = forebay_wire::ClientHello::new(None, [9; 16]);
    Frame::of(RequestId(0), Command::HELLO, Flags::NONE, &hello).expect("it fits").to_bytes()
}

#[test]
fn malformed_oversized_and_truncated_frames_end_that_connection_alone() {
    with_node(Bounds { patience: Duration::from_millis(300), ..Bounds::default() }, |rig| async move {
        let link = rig.link(Credit::new(1 << 20)).await;
        let all = rig.capability(Rights::ALL);
        rig.ask(&link, &all, create(), Vec::new()).await.expect("an object");
        let frame = |flags, body: &[u8], payload: usize| {
            let payload = vec![Bytes::from(vec![5; payload])];
            Frame::new(RequestId(1), Command::WRITE_OBJECT, flags, 0, body, payload).expect("it fits").to_bytes()
        };
        let body = ObjectRequest::new(rig.target, write(0)).body().expect("it fits");
        let cut = |bytes: Vec<u8>, length: usize| bytes[..length].to_vec();
        let damaged = |mut bytes: Vec<u8>, at: usize| {
            bytes[at] ^= 1;
            bytes
        };
        let whole = frame(Flags::NONE, &body, 100);
        // Outcomes 9, 11 and 20; the last of them drip, or stop in the middle.
        let attempts = vec![
            b"GET / HTTP/1.1\r\nHost: forebay\r\n\r\n                                      ".to_vec(),
            vec![0; 200],
            vec![0x16; 300],
            [hello(), damaged(whole.clone(), 70)].concat(),
            [hello(), damaged(whole.clone(), 10)].concat(),
            [hello(), frame(Flags::SHOWN, &[1; 100], 0)].concat(),
            [hello(), frame(Flags::NONE, &[0xff; 30], 0)].concat(),
            [hello(), hello()].concat(),
            [hello(), frame(Flags::RESPONSE, &body, 0)].concat(),
            cut(hello(), 3),
            [hello(), cut(whole.clone(), 63)].concat(),
            [hello(), cut(whole.clone(), whole.len() - 1)].concat(),
        ];
        for bytes in attempts {
            answered(&rig, bytes).await;
        }
        // Nothing of all that was done, and others are served as before.
        let stat = Ask::Stat { id: OBJECT, page: None };
        let ObjectReply::Info(info) = rig.ask(&link, &all, stat, Vec::new()).await.expect("it is there").reply else {
            panic!("an object")
        };
        assert_eq!(info.head.size, 0);
    });
}

/// A connection over which hello was said, and what proofs on it are made of.
async fn greeted(rig: &Rig) -> (FrameSource, Box<dyn AsyncWrite + Unpin>, Nonces) {
    let Duplex { read, mut write, .. } = rig.env.fabric.connect(&rig.address).await.expect("a connection");
    send(&mut *write, &hello()).await;
    let mut source = FrameSource::new(read);
    source.receive().await.expect("it goes on").expect("a hello");
    let answer: ServerHello = source.decode().expect("a hello");
    source.set_limits(forebay_wire::Limits::SESSION);
    (source, write, Nonces { client: [9; 16], node: answer.nonce })
}

async fn send(write: &mut (dyn AsyncWrite + Unpin), bytes: &[u8]) {
    let mut sent = 0;
    std::future::poll_fn(|context| {
        while sent < bytes.len() {
            match std::pin::Pin::new(&mut *write).poll_write(context, &bytes[sent..]) {
                std::task::Poll::Ready(Ok(count)) => sent += count,
                // The node has heard enough.
                std::task::Poll::Ready(Err(_)) => return std::task::Poll::Ready(()),
                std::task::Poll::Pending => return std::task::Poll::Pending,
            }
        }
        std::task::Poll::Ready(())
    })
    .await;
}

#[test]
fn of_a_write_that_is_allowed_no_byte_may_be_changed_on_the_way() {
    with_node(Bounds::default(), |rig| async move {
        let all = rig.capability(Rights::ALL);
        let link = rig.link(Credit::new(1 << 20)).await;
        rig.ask(&link, &all, create(), Vec::new()).await.expect("an object");
        let body = ObjectRequest::new(rig.target, write(0)).body().expect("it fits");
        let frame = |nonces: &Nonces| {
            let payload = vec![Bytes::from(vec![5; 100])];
            let shown = (&rig.shown(&all), nonces);
            let frame = Frame::shown(RequestId(1), Command::WRITE_OBJECT, 0, &body, payload, shown);
            frame.expect("it fits").to_bytes()
        };
        let size = async || {
            let stat = Ask::Stat { id: OBJECT, page: None };
            match rig.ask(&link, &all, stat, Vec::new()).await.expect("it is there").reply {
                ObjectReply::Info(info) => info.head.size,
                other => panic!("{other:?}"),
            }
        };
        let length = frame(&Nonces { client: [9; 16], node: [0; 16] }).len();
        for at in 0..length {
            let (mut source, mut to, nonces) = greeted(&rig).await;
            let mut bytes = frame(&nonces);
            bytes[at] ^= 1 << (at % 8);
            send(&mut *to, &bytes).await;
            // It says why, and ends the connection.
            let head = source.receive().await.expect("it says why").expect("an error");
            assert!(head.request == RequestId(0) && head.flags.has(Flags::ERROR), "byte {at}: {head:?}");
            let why = source.decode::<forebay_model::Error>().expect("an error").kind;
            assert!(matches!(why, Kind::Damaged | Kind::Version), "byte {at}: {why:?}");
            assert_eq!(source.receive().await.expect("it ends"), None);
        }
        assert_eq!(size().await, 0);
        let (mut source, mut to, nonces) = greeted(&rig).await;
        send(&mut *to, &frame(&nonces)).await;
        let head = source.receive().await.expect("an answer").expect("an answer");
        assert!(head.request == RequestId(1) && !head.flags.has(Flags::ERROR), "{head:?}");
        assert_eq!(size().await, 100);
    });
}

#[test]
fn what_was_heard_on_a_connection_is_no_use_on_it_nor_on_another_one() {
    with_node(Bounds::default(), |rig| async move {
        let link = rig.link(Credit::new(1 << 20)).await;
        let all = rig.capability(Rights::ALL);
        rig.ask(&link, &all, create(), Vec::new()).await.expect("an object");
        rig.ask(&link, &all, write(0), vec![1; 100]).await.expect("it is durable");
        let nonces = forebay_wire::capability::Nonces { client: [9; 16], node: link.hello().nonce };
        let body = ObjectRequest::new(rig.target, write(0)).body().expect("it fits");
        let payload = vec![Bytes::from(vec![2; 100])];
        let shown = rig.shown(&all);
        let heard = Frame::shown(RequestId(7), Command::WRITE_OBJECT, 0, &body, payload, (&shown, &nonces));
        let heard = heard.expect("it fits").to_bytes();
        // Outcome 4. The nonce of the node is another one there; the same client nonce is the worst case.
        let refused = rig.node.keys().refusals().forbidden;
        let end = Frame::of(RequestId(1), Command::HELLO, Flags::NONE, &()).expect("it fits").to_bytes();
        answered(&rig, [hello(), heard, end].concat()).await;
        assert_eq!(rig.node.keys().refusals().forbidden, refused + 1);
        let bytes = rig.ask(&link, &all, read(0, 100), Vec::new()).await.expect("bytes").payload;
        assert_eq!(bytes, [1; 100]);
    });
}

#[test]
fn locks_are_held_in_turn_and_say_from_which_version_on_they_keep_others_out() {
    with_node(Bounds::default(), |rig| async move {
        let shown = rig.shown(&rig.capability(Rights::WRITE));
        let lock = forebay_wire::write_body(&Lock { target: rig.target, id: OBJECT, part: 3 }).expect("it fits");
        let ask = |link: &Link| {
            let asked = Asked { command: Command::LOCK, body: &lock, payload: vec![], most: 0, shown: Some(&shown) };
            link.ask(asked).expect("it is asked")
        };
        let (one, two) = (rig.link(Credit::new(1 << 20)).await, rig.link(Credit::new(1 << 20)).await);
        let fence = |answer: Answer| forebay_wire::read_body::<Locked>(&answer.body).expect("a lock").fence;
        let held = ask(&one);
        let held_by = held.request();
        // What was before this node was started, nobody knows.
        assert_eq!(fence(held.await.expect("nobody holds it")), FIRST_FENCE + 1);
        let next = ask(&two);
        let unlock = forebay_wire::write_body(&Unlock { request: held_by.0 }).expect("it fits");
        let asked = Asked { command: Command::UNLOCK, body: &unlock, payload: vec![], most: 0, shown: None };
        one.ask(asked).expect("it is asked").await.expect("it is given back");
        assert_eq!(fence(next.await.expect("it is free")), FIRST_FENCE + 1);
        let waits = ask(&one);
        rig.fence(FIRST_FENCE + 1).await.expect("it is durable");
        two.close();
        // Who was shut out while it waited gets nothing.
        assert_eq!(waits.await.expect_err("it shows an old version").kind, Kind::Stale);
        let newer = Capability { version: FIRST_FENCE + 1, ..rig.capability(Rights::WRITE) };
        let newer = rig.shown(&newer);
        let again = || {
            let asked = Asked { command: Command::LOCK, body: &lock, payload: vec![], most: 0, shown: Some(&newer) };
            one.ask(asked).expect("it is asked")
        };
        // One was lost under the version before, or so the node has to take it.
        let held = again();
        let request = held.request();
        assert_eq!(fence(held.await.expect("its holder is gone")), FIRST_FENCE + 2);
        let body = forebay_wire::write_body(&Unlock { request: request.0 }).expect("it fits");
        let asked = Asked { command: Command::UNLOCK, body: &body, payload: vec![], most: 0, shown: None };
        one.ask(asked).expect("it is asked").await.expect("it is given back");
        let reading = rig.shown(&rig.capability(Rights::READ));
        let asked = Asked { command: Command::LOCK, body: &lock, payload: vec![], most: 0, shown: Some(&reading) };
        let refused = one.ask(asked).expect("it is asked").await.expect_err("who reads locks nothing");
        assert_eq!(refused.kind, Kind::Forbidden);
    });
}

#[test]
fn nothing_of_a_connection_is_done_once_the_one_that_replaces_it_is_welcome() {
    with_node(Bounds::default(), |rig| async move {
        let all = rig.capability(Rights::ALL);
        let one = rig.link(Credit::new(1 << 20)).await;
        rig.ask(&one, &all, create(), Vec::new()).await.expect("an object");
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
        let Duplex { read: from, write: to, .. } = rig.env.fabric.connect(&rig.address).await.expect("a connection");
        let opening = Link::open(from, to, ([8; 16], Some(one.hello().nonce)), Credit::new(1 << 20));
        let (two, running) = opening.await.expect("a welcome");
        rig.env.spawner.detach(async move { drop(running.await) });
        rig.ask(&two, &all, write(0), vec![77; 100_000]).await.expect("it is durable");
        for answer in asked {
            drop(answer.await);
        }
        let bytes = rig.ask(&two, &all, read(0, 100_000), Vec::new()).await.expect("bytes").payload;
        assert!(bytes.iter().all(|byte| *byte == 77));
    });
}

#[test]
fn who_is_refused_and_does_not_listen_takes_no_memory() {
    with_node(Bounds { patience: Duration::from_millis(200), ..Bounds::default() }, |rig| async move {
        let Duplex { read: _from, mut write, .. } = rig.env.fabric.connect(&rig.address).await.expect("a connection");
        let frame = |n| Frame::of(RequestId(n), Command(99), Flags::NONE, &()).expect("it fits").to_bytes();
        let bytes: Vec<u8> = std::iter::once(hello()).chain((1..200_000).map(frame)).flatten().collect();
        let mut sent = 0;
        // It is ended with most of it not even taken in.
        let ended = std::future::poll_fn(|context| {
            while sent < bytes.len() {
                match std::pin::Pin::new(&mut write).poll_write(context, &bytes[sent..]) {
                    std::task::Poll::Ready(Ok(count)) => sent += count,
                    std::task::Poll::Ready(Err(_)) => return std::task::Poll::Ready(true),
                    std::task::Poll::Pending => return std::task::Poll::Pending,
                }
                assert!(rig.node.memory_used() <= forebay_model::Bytes::kib(64));
            }
            std::task::Poll::Ready(false)
        })
        .await;
        assert!(ended, "{sent} of {} bytes were taken", bytes.len());
    });
}

#[test]
fn answers_that_nobody_takes_any_more_leave_the_memory_to_others() {
    with_node(Bounds { memory: forebay_model::Bytes::mib(1), ..Bounds::default() }, |rig| async move {
        let all = rig.capability(Rights::ALL);
        let other = rig.link(Credit::new(1 << 20)).await;
        rig.ask(&other, &all, create(), Vec::new()).await.expect("an object");
        rig.ask(&other, &all, write(0), vec![7; 400_000]).await.expect("it is durable");
        let gone = rig.link(Credit::new(1)).await;
        let asked: Vec<_> = (0..4)
            .map(|_| {
                let (rig, gone, all) = (rig.clone(), gone.clone(), all.clone());
                let spawner = rig.env.spawner.clone();
                spawner.spawn(async move { rig.ask(&gone, &all, read(0, 400_000), Vec::new()).await })
            })
            .collect();
        while rig.node.memory_used().0 < 800_000 {
            rig.env.clock.sleep(Duration::from_millis(1)).await;
        }
        gone.close();
        for answer in asked {
            assert_eq!(kind(answer.await), Kind::Disconnected);
        }
        let read = rig.ask(&other, &all, read(0, 400_000), Vec::new()).await.expect("there is memory for it");
        assert_eq!(read.payload.len(), 400_000);
        assert_eq!(rig.node.memory_used(), forebay_model::Bytes::ZERO);
    });
}

#[test]
fn one_connection_too_many_is_told_so() {
    with_node(Bounds { connections: 2, ..Bounds::default() }, |rig| async move {
        let (_first, _second) = (rig.link(Credit::new(1 << 20)).await, rig.link(Credit::new(1 << 20)).await);
        let Duplex { read, write, .. } = rig.env.fabric.connect(&rig.address).await.expect("a connection");
        let refused = Link::open(read, write, ([9; 16], None), Credit::new(1 << 20)).await;
        let error = refused.map(|_| ()).expect_err("two are open");
        assert_eq!(error.kind, Kind::Busy, "{error}");
    });
}
