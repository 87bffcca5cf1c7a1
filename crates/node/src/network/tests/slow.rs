//! Clients that drip: what they hold is free for others in time, and whoever is only slow is waited for.

use super::frames::greeted;
use super::*;
use bytes::Bytes as Shared;
use forebay_env::conformance::streams::send;
use forebay_env::race::{First, race};
use forebay_wire::capability::Nonces;

/// A write of so many bytes, as it goes over the wire.
fn writing(rig: &Rig, all: &Capability, nonces: &Nonces, length: usize) -> Vec<u8> {
    let body = ObjectRequest::new(rig.target, write(0)).body().expect("it fits");
    let payload = vec![Shared::from(vec![5; length])];
    let shown = rig.shown(all);
    let frame = Frame::shown(RequestId(1), Command::WRITE_OBJECT, 0, &body, payload, (&shown, nonces));
    frame.expect("it fits").to_bytes()
}

/// A read of so many bytes, of which none may be sent yet.
fn reading(rig: &Rig, all: &Capability, nonces: &Nonces, length: u32) -> Vec<u8> {
    let body = ObjectRequest::new(rig.target, read(0, length)).body().expect("it fits");
    let shown = rig.shown(all);
    let frame = Frame::shown(RequestId(1), Command::READ_OBJECT, 0, &body, Vec::<u8>::new(), (&shown, nonces));
    frame.expect("it fits").to_bytes()
}

/// Lets so many more bytes of that come.
fn granting(bytes: u32) -> Vec<u8> {
    let grant = Frame::new(RequestId(1), Command::GRANT, Flags::NONE, bytes, &[], Vec::<u8>::new());
    grant.expect("it fits").to_bytes()
}

#[test]
fn who_drips_within_a_frame_is_cut_and_who_waits_for_the_memory_that_it_held_is_not() {
    let bounds = Bounds { memory: Bytes::mib(1), patience: Duration::from_millis(400), ..Bounds::default() };
    with_node(bounds, |rig| async move {
        let (other, all) = rig.made().await;
        let (_source, mut to, nonces) = greeted(&rig).await;
        let bytes = writing(&rig, &all, &nonces, 700_000);
        send(&mut to, &bytes[..2000]).await.expect("it hears");
        while rig.node.memory_used().0 < 700_000 {
            rig.env.clock.sleep(Duration::from_millis(1)).await;
        }
        let (clock, began) = (rig.env.clock.clone(), rig.env.clock.now());
        let dripping = rig.env.spawner.spawn(async move {
            let mut drips = bytes[2000..4000].iter();
            // What comes every 10 ms would come for hours.
            while send(&mut to, std::slice::from_ref(drips.next().expect("it is cut"))).await.is_ok() {
                clock.sleep(Duration::from_millis(10)).await;
            }
        });
        rig.ask(&other, &all, write(0), vec![7; 700_000]).await.expect("there is memory for it");
        let waited = rig.env.clock.now().since(began);
        assert!(waited >= Duration::from_millis(300), "it waited for longer than whoever drips may: {waited:?}");
        dripping.await;
        assert_eq!(rig.node.cuts(), CutCounts { slow: 1, ..CutCounts::default() });
        assert_eq!(rig.node.memory_used(), Bytes::ZERO);
    });
}

#[test]
fn who_lets_an_answer_come_byte_by_byte_is_cut_and_its_memory_is_free() {
    let bounds = Bounds { memory: Bytes::mib(1), patience: Duration::from_millis(400), ..Bounds::default() };
    with_node(bounds, |rig| async move {
        let (other, all) = rig.made().await;
        rig.ask(&other, &all, write(0), vec![7; 700_000]).await.expect("it is durable");
        let (_source, mut to, nonces) = greeted(&rig).await;
        send(&mut to, &reading(&rig, &all, &nonces, 700_000)).await.expect("it hears");
        while rig.node.memory_used().0 < 700_000 {
            rig.env.clock.sleep(Duration::from_millis(1)).await;
        }
        let clock = rig.env.clock.clone();
        let dripping = rig.env.spawner.spawn(async move {
            let mut drips = 0..2000;
            while send(&mut to, &granting(1)).await.is_ok() {
                drips.next().expect("it is cut");
                clock.sleep(Duration::from_millis(10)).await;
            }
        });
        let read = rig.ask(&other, &all, read(0, 700_000), Vec::new()).await.expect("there is memory for it");
        assert_eq!(read.payload.len(), 700_000);
        dripping.await;
        assert_eq!(rig.node.cuts(), CutCounts { slow: 1, ..CutCounts::default() });
    });
}

#[test]
fn who_is_slow_and_faster_than_the_least_rate_comes_to_its_end() {
    let bounds = Bounds { patience: Duration::from_secs(1), least_rate: Rate(100_000), ..Bounds::default() };
    with_node(bounds, |rig| async move {
        let (other, all) = rig.made().await;
        rig.ask(&other, &all, write(0), vec![7; 800_000]).await.expect("it is durable");
        let (mut written, mut to, nonces) = greeted(&rig).await;
        let bytes = writing(&rig, &all, &nonces, 800_000);
        let clock = rig.env.clock.clone();
        let slow = rig.env.spawner.spawn(async move {
            for piece in bytes.chunks(20_000) {
                send(&mut to, piece).await.expect("it is waited for");
                clock.sleep(Duration::from_millis(60)).await;
            }
            to
        });
        let (mut source, mut asking, nonces) = greeted(&rig).await;
        send(&mut asking, &reading(&rig, &all, &nonces, 800_000)).await.expect("it hears");
        let mut came = Vec::new();
        while came.len() < 800_000 {
            let head = source.receive().await.expect("it goes on").expect("more of the answer");
            if head.command == Command::READ_OBJECT {
                source.payload_onto(&mut came).await.expect("bytes");
                rig.env.clock.sleep(Duration::from_millis(60)).await;
                send(&mut asking, &granting(20_000)).await.expect("it is waited for");
            }
        }
        let _to = slow.await;
        let answered = loop {
            let head = written.receive().await.expect("it goes on").expect("an answer");
            if head.command == Command::WRITE_OBJECT {
                break head;
            }
        };
        assert!(!answered.flags.has(Flags::ERROR), "{answered:?}");
        assert_eq!(rig.node.cuts(), CutCounts::default());
    });
}

#[test]
fn who_is_faster_than_the_least_rate_and_keeps_others_from_memory_for_long_is_cut_and_is_not_while_nobody_waits() {
    let bounds = Bounds {
        memory: Bytes::mib(1),
        patience: Duration::from_millis(400),
        least_rate: Rate(1000),
        ..Bounds::default()
    };
    with_node(bounds, |rig| async move {
        let (other, all) = rig.made().await;
        let (_source, mut to, nonces) = greeted(&rig).await;
        let bytes = writing(&rig, &all, &nonces, 700_000);
        send(&mut to, &bytes[..2000]).await.expect("it hears");
        while rig.node.memory_used().0 < 700_000 {
            rig.env.clock.sleep(Duration::from_millis(1)).await;
        }
        let clock = rig.env.clock.clone();
        let dripping = rig.env.spawner.spawn(async move {
            // All of them come in more than a minute.
            let mut drips = bytes[2000..].chunks(100);
            while send(&mut to, drips.next().expect("it is cut")).await.is_ok() {
                clock.sleep(Duration::from_millis(10)).await;
            }
        });
        rig.env.clock.sleep(Duration::from_millis(1200)).await;
        assert_eq!(rig.node.cuts(), CutCounts::default(), "nobody waits");
        let written = rig.ask(&other, &all, write(0), vec![7; 700_000]);
        let First::Left(written) = race(written, rig.env.clock.sleep(Duration::from_secs(20))).await else {
            panic!("there is no memory for it")
        };
        written.expect("there is memory for it");
        dripping.await;
        assert_eq!(rig.node.cuts(), CutCounts { slow: 1, ..CutCounts::default() });
        assert_eq!(rig.node.memory_used(), Bytes::ZERO);
    });
}
