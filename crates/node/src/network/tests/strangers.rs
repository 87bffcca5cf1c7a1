//! Connections that have shown no capability that counts: what they may cost.

use super::frames::greeted;
use super::*;
use bytes::Bytes as Shared;
use forebay_env::conformance::streams::send;
use forebay_wire::capability::Nonces;
use forebay_wire::frame::MAX_STRANGER;
use forebay_wire::source::FrameSource;

/// The next answer to a request, and what it says if it is an error.
async fn answered(source: &mut FrameSource) -> (RequestId, Result<()>) {
    loop {
        let head = source.receive().await.expect("it goes on").expect("an answer");
        if head.command != Command::WINDOW {
            let said = if head.flags.has(Flags::ERROR) { Err(source.decode().expect("an error")) } else { Ok(()) };
            return (head.request, said);
        }
    }
}

/// A write of so many bytes with what is shown for it, as it goes over the wire.
fn writing(rig: &Rig, number: u64, shown: &Shown, nonces: &Nonces, length: usize) -> Vec<u8> {
    let body = ObjectRequest::new(rig.target, write(0)).body().expect("it fits");
    let payload = vec![Shared::from(vec![5; length])];
    let frame = Frame::shown(RequestId(number), Command::WRITE_OBJECT, 0, &body, payload, (shown, nonces));
    frame.expect("it fits").to_bytes()
}

/// What nobody knows, with a body of so many bytes.
fn unknown(number: u64, body: usize) -> Vec<u8> {
    let frame = Frame::new(RequestId(number), Command(99), Flags::NONE, 0, &vec![1; body], Vec::<u8>::new());
    frame.expect("it fits").to_bytes()
}

#[test]
fn whoever_comes_takes_the_place_of_the_longest_stranger_and_of_nobody_who_has_shown_a_capability() {
    with_node(Bounds { connections: 3, ..Bounds::default() }, |rig| async move {
        let (known, all) = rig.made().await;
        let mut strangers = Vec::new();
        for _ in 0..6 {
            strangers.push(greeted(&rig).await);
            assert!(rig.node.connections() <= 3, "{}", rig.node.connections());
        }
        for (source, ..) in &mut strangers[..4] {
            assert!(!matches!(source.receive().await, Ok(Some(_))), "it has made room");
        }
        assert_eq!(rig.node.cuts(), CutCounts { stranger: 4, ..CutCounts::default() });
        // The last ones are served, and then so is nobody else.
        for (source, to, nonces) in &mut strangers[4..] {
            send(to, &writing(&rig, 1, &rig.shown(&all), nonces, 100)).await.expect("it hears");
            answered(source).await.1.expect("it is durable");
        }
        let (mut late, ..) = refused(&rig).await;
        assert_eq!(late.decode::<forebay_model::Error>().expect("an error").kind, Kind::Busy);
        assert_eq!(rig.node.cuts(), CutCounts { stranger: 4, full: 1, ..CutCounts::default() });
        rig.ask(&known, &all, write(0), vec![1; 100]).await.expect("it has its place");
    });
}

/// A connection whose hello was answered with an error.
async fn refused(rig: &Rig) -> (FrameSource, Box<dyn futures_io::AsyncWrite + Unpin>) {
    let Duplex { read, mut write, .. } = rig.env.fabric.connect(&rig.address).await.expect("a connection");
    drop(send(&mut write, &hello()).await);
    let mut source = FrameSource::new(read);
    let head = source.receive().await.expect("it says why").expect("an error");
    assert!(head.flags.has(Flags::ERROR), "{head:?}");
    (source, write)
}

#[test]
fn of_one_machine_there_are_no_more_strangers_than_may_be() {
    with_node(Bounds { strangers: 2, ..Bounds::default() }, |rig| async move {
        let (known, all) = rig.made().await;
        let mut strangers = Vec::new();
        for _ in 0..5 {
            strangers.push(greeted(&rig).await);
            assert!(rig.node.connections() <= 3, "{}", rig.node.connections());
        }
        assert_eq!(rig.node.cuts(), CutCounts { stranger: 3, ..CutCounts::default() });
        rig.ask(&known, &all, write(0), vec![1; 100]).await.expect("it has its place");
    });
}

#[test]
fn a_stranger_has_no_memory_for_payloads_and_little_for_bodies_and_its_first_write_may_be_large() {
    with_node(Bounds::default(), |rig| async move {
        let (_link, all) = rig.made().await;
        let (mut source, mut to, nonces) = greeted(&rig).await;
        // It is answered before its payload has come, which nobody keeps.
        let forged = Shown { capability: all.to_bytes(), ..rig.shown(&rig.capability(Rights::READ)) };
        let bytes = writing(&rig, 1, &forged, &nonces, 3_000_000);
        let (first, rest) = bytes.split_at(20_000);
        send(&mut to, first).await.expect("it hears");
        assert_eq!(answered(&mut source).await.1.expect_err("it is forged").kind, Kind::Forbidden);
        assert_eq!(rig.node.memory_used(), Bytes::ZERO);
        send(&mut to, rest).await.expect("it is passed over");
        send(&mut to, &unknown(2, MAX_STRANGER as usize)).await.expect("it hears");
        assert_eq!(answered(&mut source).await.1.expect_err("nobody knows it").kind, Kind::Usage);
        assert_eq!(rig.node.memory_used(), Bytes::ZERO);
        // What counts is no less for it, and then it may send more.
        send(&mut to, &writing(&rig, 3, &rig.shown(&all), &nonces, 3_000_000)).await.expect("it hears");
        assert_eq!(answered(&mut source).await, (RequestId(3), Ok(())));
        send(&mut to, &unknown(4, 900_000)).await.expect("it hears");
        assert_eq!(answered(&mut source).await.1.expect_err("nobody knows it").kind, Kind::Usage);
        let (mut source, mut to, _) = greeted(&rig).await;
        send(&mut to, &unknown(1, MAX_STRANGER as usize + 1)).await.expect("it hears");
        let (request, said) = answered(&mut source).await;
        assert_eq!((request, said.expect_err("it is too much").kind), (RequestId(0), Kind::Damaged));
        assert_eq!(rig.node.cuts(), CutCounts { malformed: 1, ..CutCounts::default() });
    });
}

#[test]
fn a_stranger_may_ask_little_at_once() {
    with_node(Bounds::default(), |rig| async move {
        let (mut source, mut to, _) = greeted(&rig).await;
        let ping = |number| Frame::of(RequestId(number), Command::PING, Flags::NONE, &()).expect("it fits").to_bytes();
        let pings: Vec<u8> = (1..=200).flat_map(ping).collect();
        send(&mut to, &pings).await.expect("it hears");
        let mut busy = 0;
        for _ in 0..200 {
            match answered(&mut source).await.1 {
                Ok(()) => {}
                Err(error) => {
                    assert_eq!(error.kind, Kind::Busy, "{error}");
                    busy += 1;
                }
            }
        }
        assert!(busy > 0, "200 were under way");
        send(&mut to, &ping(201)).await.expect("it hears");
        answered(&mut source).await.1.expect("there is room again");
    });
}

#[test]
fn where_nobody_is_a_stranger_whoever_has_nothing_that_counts_any_more_makes_room_unless_it_holds_a_lock() {
    with_node(Bounds { connections: 2, ..Bounds::default() }, |rig| async move {
        let (holds, all) = rig.made().await;
        let until = Timestamp(rig.env.clock.wall().0 + 2_000_000_000);
        let brief = Capability { until, ..all.clone() };
        rig.lock(&holds, &rig.shown(&brief)).await.expect("nobody holds it");
        let (mut source, mut to, nonces) = greeted(&rig).await;
        send(&mut to, &writing(&rig, 1, &rig.shown(&brief), &nonces, 100)).await.expect("it hears");
        answered(&mut source).await.1.expect("it is durable");
        drop(refused(&rig).await);
        while rig.env.clock.wall() <= until {
            rig.env.clock.sleep(Duration::from_millis(10)).await;
        }
        let (mut late, mut late_to, nonces) = greeted(&rig).await;
        while let Ok(Some(_)) = source.receive().await {}
        send(&mut late_to, &writing(&rig, 1, &rig.shown(&all), &nonces, 100)).await.expect("it hears");
        answered(&mut late).await.1.expect("it is durable");
        drop(refused(&rig).await);
        assert_eq!(rig.node.cuts(), CutCounts { stranger: 1, full: 2, ..CutCounts::default() });
        rig.ask(&holds, &all, write(0), vec![1; 100]).await.expect("it has its place");
    });
}
