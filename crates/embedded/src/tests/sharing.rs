//! Several processes' worth of peers at one directory, and what a peer may do wrong.

use super::{Seen, element, enter, fresh, read, spec, time};
use forebay_client::{Cluster, Event, PlanRequest, Remote};
use forebay_env::Network;
use forebay_env::network::Stream;
use forebay_env::real::UnixNetwork;
use forebay_model::block::Packer;
use forebay_model::ring::{Overflow, PinPolicy, RingSpec};
use forebay_model::{Bytes, Kind, Rate, Timestamp};
use forebay_wire::command::{Append, OpenWriter, WriterEvent};
use forebay_wire::{Command, Flags, FrameReader, FrameWriter, RequestId, handshake};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// A guest of the owner in `dir`, in this process.
fn guest(dir: &Path) -> Cluster {
    Cluster::over(Arc::new(Remote::connect(Arc::new(UnixNetwork), &socket(dir)).expect("connected")))
}

fn socket(dir: &Path) -> String {
    dir.join("forebay.sock").to_str().expect("UTF-8").to_string()
}

pub(super) type Frames = (FrameReader<Box<dyn Stream>>, FrameWriter<Box<dyn Stream>>);

/// A connection by hand, after the handshake.
pub(super) fn frames(dir: &Path) -> Frames {
    let stream = UnixNetwork.connect(&socket(dir)).expect("connected");
    let mut reader = FrameReader::new(stream.try_clone().expect("a handle"));
    let mut writer = FrameWriter::new(stream);
    handshake::connect(&mut reader, &mut writer, None).expect("welcome");
    (reader, writer)
}

fn numbers(seen: &Seen) -> Vec<u32> {
    seen.elements.iter().map(|(_, n, _)| *n).collect()
}

#[test]
fn rings_are_recorded_and_read_side_by_side_by_owner_and_guests() {
    let dir = fresh();
    let owner = enter(dir.path());
    let names: Vec<String> = (0..4).map(|i| format!("/ring/{i}")).collect();
    for name in &names {
        owner.create_ring(spec(name)).expect("created");
    }
    std::thread::scope(|scope| {
        for (i, name) in names.iter().enumerate() {
            let cluster = if i % 2 == 0 { owner.clone() } else { guest(dir.path()) };
            let reading = guest(dir.path());
            scope.spawn(move || {
                let mut recorder = cluster.recorder(name).expect("recording");
                for n in 0..3000 {
                    recorder.element(time(n), &[&element(n, 200)], &[]).expect("room");
                }
                recorder.close().expect("durable");
            });
            scope.spawn(move || {
                let mut tail = reading
                    .query_with(
                        name,
                        "",
                        forebay_client::QueryOptions { follow: true, limit: Some(3000), gaps_only: false },
                    )
                    .expect("a tail");
                let mut next = 0;
                let follow = tail.for_each(|event| {
                    let Event::Element { sequence, payload, .. } = event else { panic!("{event:?}") };
                    assert_eq!((sequence, payload), (u64::from(next), &element(next, 200)[..]));
                    next += 1;
                    Ok(true)
                });
                assert_eq!(follow.expect("an answer").elements, 3000);
            });
        }
    });
    for name in &names {
        assert_eq!(numbers(&read(&guest(dir.path()), name, "")), (0..3000).collect::<Vec<_>>());
    }
    let status = owner.status().expect("status");
    assert!(status.iter().all(|ring| !ring.recording && ring.elements == 3000), "{status:?}");
}

#[test]
fn large_elements_and_limits_and_bad_queries_are_the_same_for_guests() {
    let dir = fresh();
    let owner = enter(dir.path());
    owner.create_ring(spec("/a")).expect("created");
    let guest = guest(dir.path());
    let mut recorder = guest.recorder("/a").expect("recording");
    for n in 0..6 {
        recorder.element(time(n), &[&element(n, 500_000 + n as usize)], &[]).expect("room");
    }
    recorder.close().expect("durable");
    for cluster in [&owner, &guest] {
        assert_eq!(read(cluster, "/a", "id = 3").elements, [(3, 3, 500_003)]);
        let error = |text: &str| cluster.query("/a", text).and_then(|mut a| a.next_batch()).expect_err("refused");
        assert_eq!(error("id == == 3").kind, Kind::Usage);
        assert!(error("colour = 3").message.contains('^'), "{}", error("colour = 3"));
        let missing = cluster.query("/b", "").and_then(|mut a| a.next_batch()).expect_err("missing");
        assert_eq!(missing.kind, Kind::Missing);
        assert_eq!(cluster.recorder("/b").err().map(|e| e.kind), Some(Kind::Missing));
        assert_eq!(cluster.gaps("/a", Timestamp::MIN, Timestamp::MAX).expect("gaps"), []);
    }
}

#[test]
fn a_ring_has_one_recorder_and_the_next_one_may_follow() {
    let dir = fresh();
    let owner = enter(dir.path());
    owner.create_ring(spec("/a")).expect("created");
    let guest = guest(dir.path());
    let mut first = guest.recorder("/a").expect("recording");
    first.element(time(1), &[&element(0, 8)], &[]).expect("room");
    let busy = owner.recorder("/a").err().expect("one at a time");
    assert_eq!(busy.kind, Kind::Busy);
    assert!(busy.message.contains("/a"), "{busy}");
    assert_eq!(owner.delete_ring("/a").expect_err("in use").kind, Kind::Busy);
    first.close().expect("durable");
    let mut second = owner.recorder("/a").expect("recording");
    second.element(time(2), &[&element(1, 8)], &[]).expect("room");
    second.close().expect("durable");
    assert_eq!(numbers(&read(&guest, "/a", "")), [0, 1]);
    guest.delete_ring("/a").expect("deleted");
    assert_eq!(owner.status().expect("status"), []);
}

#[test]
fn pins_and_plans_and_profiles_go_through_a_connection() {
    let dir = fresh();
    let owner = enter(dir.path());
    owner.create_ring(spec("/a")).expect("created");
    let guest = guest(dir.path());
    let mut recorder = owner.recorder("/a").expect("recording");
    for n in 0..100 {
        recorder.element(time(n), &[&element(n, 100)], &[]).expect("room");
    }
    recorder.flush().expect("durable");
    let pinned = guest.pin("/a", "flare", time(10), time(20)).expect("pinned");
    assert_eq!(guest.pins("/a").expect("pins"), std::slice::from_ref(&pinned.pin));
    let gone = guest.unpin("/a", pinned.pin.id + 1).expect_err("another pin");
    assert_eq!(gone.kind, Kind::Missing);
    guest.unpin("/a", pinned.pin.id).expect("unpinned");
    assert_eq!(owner.pins("/a").expect("pins"), []);

    let request = PlanRequest {
        rate: Rate::mb(1),
        capacity: None,
        pin_percent: 5,
        flush_interval: Duration::from_secs(1),
        block: Bytes::mib(1),
        keys: 0,
    };
    let [without, with] =
        [0, 6].map(|keys| guest.plan(PlanRequest { keys, ..request }).expect("plans").told.remove(0).plan);
    assert!(with.usable < without.usable, "an index takes space: {} and {}", with.usable, without.usable);
    assert_eq!(guest.plan(request).expect("plans").told, owner.plan(request).expect("plans").told);
    let profiles = guest.profiles().expect("profiles").told;
    let [profile] = &profiles[..] else { panic!("{profiles:?}") };
    assert_eq!(guest.measure(profile.target, Duration::from_millis(300)).expect_err("recording").kind, Kind::Busy);
    recorder.close().expect("durable");
    match guest.measure(profile.target, Duration::from_millis(300)) {
        Ok(measured) => assert_eq!(owner.profiles().expect("profiles").told, [measured]),
        // Most of the file was never written, which a device may notice.
        Err(error) => assert!(error.kind == Kind::Usage && error.message.contains("never written"), "{error}"),
    }
    guest.set_profile(profile.target, profile.profile.clone()).expect("set");
    assert_eq!(owner.profiles().expect("profiles").told, profiles);
}

#[test]
fn a_full_ring_drops_or_waits_and_can_be_left() {
    let dir = fresh();
    let owner = enter(dir.path());
    for (name, overflow) in [("/drop", Overflow::DropNewest), ("/wait", Overflow::Block)] {
        let full = RingSpec { pin_policy: PinPolicy::Stop, pin_budget_percent: 95, overflow, ..spec(name) };
        owner.create_ring(full).expect("created");
    }
    let guest = guest(dir.path());
    for (cluster, name) in [(&owner, "/drop"), (&guest, "/drop"), (&owner, "/wait"), (&guest, "/wait")] {
        let mut recorder = cluster.recorder(name).expect("recording");
        recorder.element(time(0), &[&element(0, 100)], &[]).expect("room");
        recorder.flush().expect("durable");
        let pinned = cluster.pin(name, "all", Timestamp(0), Timestamp::MAX).expect("pinned");
        let stopper = recorder.stopper();
        let watch = {
            let (cluster, name) = (cluster.clone(), name);
            std::thread::spawn(move || {
                while cluster.ring(name).expect("status").state != forebay_model::ring::RingState::Full {}
                stopper.stop();
            })
        };
        // A ring that is full takes what its buffers hold, and then drops, or waits until it is stopped.
        let mut n = 1;
        let refused = loop {
            match recorder.element(time(n), &[&element(n, 30_000)], &[]) {
                Err(error) => break Some(error),
                Ok(()) if recorder.progress().losses.total() > 0 && watch.is_finished() => break None,
                Ok(()) => n += 1,
            }
        };
        watch.join().expect("no panic");
        assert_eq!(refused.map(|e| e.kind), (name == "/wait").then_some(Kind::Busy));
        let closed = recorder.close().expect_err("the last blocks have no place");
        assert_eq!(closed.kind, Kind::Full, "{closed}");
        cluster.unpin(name, pinned.pin.id).expect("unpinned");
    }
}

#[test]
fn a_guest_that_goes_away_while_it_waits_for_room_leaves_the_ring_to_others() {
    let dir = fresh();
    let owner = enter(dir.path());
    let full =
        RingSpec { pin_policy: PinPolicy::Stop, pin_budget_percent: 95, overflow: Overflow::DropNewest, ..spec("/a") };
    owner.create_ring(full).expect("created");
    let mut recorder = guest(dir.path()).recorder("/a").expect("recording");
    recorder.element(time(0), &[&element(0, 100)], &[]).expect("room");
    recorder.flush().expect("durable");
    owner.pin("/a", "all", Timestamp(0), Timestamp::MAX).expect("pinned");
    let mut n = 1;
    while recorder.progress().losses.total() < 100 {
        recorder.element(time(n), &[&element(n, 30_000)], &[]).expect("dropped");
        n += 1;
    }
    assert_eq!(owner.recorder("/a").err().map(|e| e.kind), Some(Kind::Busy));
    drop(recorder);
    // As soon as it is noticed that nobody listens.
    while owner.recorder("/a").is_err() {}
}

#[test]
fn a_peer_that_speaks_nonsense_is_told_why_and_harms_nobody() {
    let dir = fresh();
    let owner = enter(dir.path());
    owner.create_ring(spec("/a")).expect("created");

    // No frame at all.
    let mut stream = UnixNetwork.connect(&socket(dir.path())).expect("connected");
    stream.write_all(&[b'x'; 4096]).expect("sent");
    let mut answer = FrameReader::new(stream);
    let head = answer.receive().expect("a frame").expect("a reason");
    assert!(head.flags.has(Flags::ERROR));

    // A command that nobody knows is answered, and the connection goes on.
    let (mut reader, mut writer) = frames(dir.path());
    writer.send(RequestId(1), Command(999), Flags::NONE, &(), &[]).expect("sent");
    let head = reader.receive().expect("a frame").expect("an answer");
    assert_eq!(reader.answer::<()>(&head).expect_err("unknown").kind, Kind::Usage);

    // A block that is none ends the session and the connection.
    let open = OpenWriter { ring: "/a".into(), writer: 7, resume: false };
    writer.send(RequestId(2), Command::OPEN_WRITER, Flags::NONE, &open, &[]).expect("sent");
    let head = reader.receive().expect("a frame").expect("an answer");
    assert!(matches!(reader.answer(&head).expect("opened"), WriterEvent::Opened(_)));
    let append = Append { writer: 7, age: Duration::MAX };
    writer.send(RequestId(3), Command::APPEND, Flags::NONE, &append, &[&[1; 4096]]).expect("sent");
    let damaged = loop {
        let head = reader.receive().expect("a frame").expect("a reason");
        if let Err(error) = reader.answer::<WriterEvent>(&head) {
            break error;
        }
    };
    assert_eq!(damaged.kind, Kind::Damaged, "{damaged}");

    let mut recorder = owner.recorder("/a").expect("nobody else records");
    recorder.element(time(1), &[&element(0, 8)], &[]).expect("room");
    recorder.close().expect("durable");
    assert_eq!(numbers(&read(&owner, "/a", "")), [0]);
}

#[test]
fn relatives_are_pinned_along_from_when_they_are_named_until_they_are_not() {
    let dir = fresh();
    let owner = enter(dir.path());
    let guest = guest(dir.path());
    for name in ["/a", "/b", "/c"] {
        owner.create_ring(spec(name)).expect("created");
        let mut recorder = owner.recorder(name).expect("recording");
        for n in 0..100 {
            recorder.element(time(n), &[&element(n, 100)], &[]).expect("room");
        }
        recorder.close().expect("durable");
    }
    let pinned = |cluster: &Cluster| cluster.pin("/a", "", time(10), time(20)).expect("pinned").pin.relatives;
    assert_eq!(pinned(&guest), []);
    let related = guest.relate_ring("/a", vec!["/b".into(), "/c".into()]).expect("related");
    assert_eq!(related.spec.relatives, ["/b", "/c"]);
    let along: Vec<String> = pinned(&guest).into_iter().map(|(name, _)| name).collect();
    assert_eq!(along, ["/b", "/c"]);
    for (relatives, kind) in
        [(["/b", "/none"], Kind::Missing), (["/b", "/b"], Kind::Usage), (["/a", "/b"], Kind::Usage)]
    {
        let relatives = relatives.map(String::from).to_vec();
        assert_eq!(guest.relate_ring("/a", relatives).expect_err("cannot be").kind, kind);
    }
    assert_eq!(guest.relate_ring("/none", vec![]).expect_err("no ring").kind, Kind::Missing);
    owner.close().expect("closed");
    let next = enter(dir.path());
    assert_eq!(next.ring("/a").expect("status").spec.relatives, ["/b", "/c"], "it is durable");
    assert_eq!(next.relate_ring("/a", Vec::new()).expect("alone").spec.relatives, [""; 0]);
    assert_eq!(pinned(&next), []);
}

#[test]
fn a_session_that_resumes_after_another_is_told_what_it_has_there_already() {
    let dir = fresh();
    let send = |session: u64, resume: bool, blocks: Range<u64>| {
        let (mut reader, mut writer) = frames(dir.path());
        let open = OpenWriter { ring: "/a".into(), writer: session, resume };
        writer.send(RequestId(1), Command::OPEN_WRITER, Flags::NONE, &open, &[]).expect("sent");
        let head = reader.receive().expect("a frame").expect("an answer");
        let WriterEvent::Opened(opened) = reader.answer(&head).expect("opened") else { panic!("not opened") };
        let mut packer: Packer<Vec<u8>> = Packer::new(session);
        for number in 1..blocks.end {
            packer.give(vec![0; 4096]);
            assert!(packer.push(time(number as u32), &[&element(number as u32, 100)], &[]));
            let sealed = packer.seal().expect("a block");
            if blocks.contains(&number) {
                let append = Append { writer: session, age: Duration::ZERO };
                let bytes = &sealed.buffer[..sealed.length];
                writer.send(RequestId(2), Command::APPEND, Flags::NONE, &append, &[bytes]).expect("sent");
            }
        }
        while !blocks.is_empty() {
            let head = reader.receive().expect("a frame").expect("an event");
            let WriterEvent::Durable(durable) = reader.answer(&head).expect("going on") else { continue };
            if durable.number + 1 >= blocks.end {
                break;
            }
        }
        opened.received
    };
    let mut owner = enter(dir.path());
    owner.create_ring(spec("/a")).expect("created");
    // A connection that ends is no orderly end of a session: it may resume, here or at the next owner.
    assert_eq!(send(7, false, 1..6), 0);
    let free = |owner: &Cluster| while owner.ring("/a").expect("status").recording {};
    free(&owner);
    assert_eq!(send(8, false, 1..4), 0);
    for _ in 0..2 {
        for (session, there) in [(7, 5), (8, 3)] {
            free(&owner);
            assert_eq!(send(session, true, 1..1), there);
        }
        owner.close().expect("closed");
        owner = enter(dir.path());
    }
    assert_eq!(send(7, true, 6..7), 5);
    assert_eq!(numbers(&read(&owner, "/a", "")), [1, 2, 3, 4, 5, 1, 2, 3, 6]);
}

#[test]
fn more_connections_than_there_are_places_are_turned_away_with_a_reason() {
    let dir = fresh();
    let owner = enter(dir.path());
    let open: Vec<Frames> = (0..forebay_node::server::MOST_CONNECTIONS).map(|_| frames(dir.path())).collect();
    let refused = Remote::connect(Arc::new(UnixNetwork), &socket(dir.path())).err().expect("no place");
    assert_eq!(refused.kind, Kind::Busy, "{refused}");
    assert_eq!(owner.status().expect("status"), []);
    drop(open);
    // A place is free as soon as the server has noticed.
    while Remote::connect(Arc::new(UnixNetwork), &socket(dir.path())).is_err() {}
}

#[test]
fn a_reader_that_does_not_read_holds_up_nobody() {
    let dir = fresh();
    let owner = enter(dir.path());
    owner.create_ring(spec("/a")).expect("created");
    let guest = guest(dir.path());
    let mut recorder = owner.recorder("/a").expect("recording");
    for n in 0..50 {
        recorder.element(time(n), &[&element(n, 100_000)], &[]).expect("room");
    }
    recorder.flush().expect("durable");
    let lazy: Vec<_> = (0..8).map(|i| [&owner, &guest][i % 2].query("/a", "").expect("a query")).collect();
    // Three laps while nobody reads.
    for n in 50..300 {
        recorder.element(time(n), &[&element(n, 100_000)], &[]).expect("room");
    }
    recorder.close().expect("durable");
    let last = numbers(&read(&guest, "/a", "")).last().copied();
    assert_eq!(last, Some(299));
    for mut answer in lazy {
        let (mut next, mut expired) = (0, false);
        answer
            .for_each(|event| {
                match event {
                    Event::Element { sequence, payload, .. } => {
                        assert!(sequence >= next, "{sequence} after {next}");
                        assert!(payload == element(sequence as u32, 100_000), "torn");
                        next = sequence + 1;
                    }
                    Event::Expired { to, .. } => {
                        expired = true;
                        next = next.max(to);
                    }
                    Event::Gap(gap) => panic!("{gap}"),
                }
                Ok(true)
            })
            .expect("an answer");
        assert!(expired, "a reader that was lapped is told so");
    }
}
