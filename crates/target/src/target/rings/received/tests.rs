use super::*;
use crate::fake::{Fake, Told, Writer, sequences, small};
use crate::ring::Ring;
use crate::verify::verify;
use forebay_model::ring::RingSpec;
use forebay_model::{Kind, Timestamp};
use std::rc::Rc;

const NAME: &str = "/ring/1/2a";

fn record(fake: &Fake, ring: &Rc<Ring>, elements: u64) {
    let mut writer = Writer::new(fake, ring);
    fake.run(async {
        for _ in 0..elements {
            let bytes = vec![7; 2 + fake.below(1500) as usize];
            writer.element(&bytes).await.unwrap();
        }
        writer.durable().await.unwrap();
    });
}

fn opened(fake: &Fake) -> (Rc<Target>, Rc<Ring>) {
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let ring = target.ring(NAME).unwrap();
    fake.run(ring.ready()).unwrap();
    (target, ring)
}

fn answer(fake: &Fake, ring: &Rc<Ring>) -> Vec<Told> {
    fake.ask(ring, "all").0
}

/// Copies the ring to a target that has none of this name.
fn copy(from: (&Fake, &Rc<Ring>), to: (&Fake, &Target)) -> Portrait {
    let portrait = from.0.run(from.1.portrait()).unwrap();
    to.0.run(to.1.receive_ring(NAME, &portrait.encode().unwrap())).unwrap();
    send(from, to, &portrait);
    to.0.run(to.1.received_ring(NAME, 9)).unwrap();
    portrait
}

fn send(from: (&Fake, &Rc<Ring>), to: (&Fake, &Target), portrait: &Portrait) {
    let mut at = Bytes::ZERO;
    while at < portrait.length() {
        // Not as segments lie.
        let length = Bytes::kib(300).min(portrait.length() - at);
        let bytes = from.0.run(from.1.image(at, length)).unwrap();
        to.0.run(to.1.write_image(NAME, at, &bytes)).unwrap();
        at += length;
    }
}

/// How many groups nobody has.
fn free(target: &Rc<Target>) -> usize {
    target.core.groups_of(GroupClass::Free).len()
}

/// Opens the target, which has this ring alone, closes it, and looks at what lies there.
fn is_whole(fake: &Fake) {
    let (target, ring) = opened(fake);
    drop(ring);
    fake.run(target.close()).unwrap();
    drop(target);
    fake.kill();
    let found = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap();
    assert_eq!((&found.complaints[..], found.rings.len()), (&[][..], 1));
    assert_eq!((&found.rings[0].damage[..], found.rings[0].half_expired), (&[][..], 0));
}

#[test]
fn a_ring_goes_from_target_to_target_with_all_it_has_and_goes_on_there_whatever_crashes() {
    let sizes = [(Bytes::mib(64), false), (Bytes::mib(96), true), (Bytes::mib(48), false)];
    // Each with other chance, or its sessions are those of another one.
    let fakes = [1, 2, 3].map(|seed| Fake::with_chance(sizes[seed as usize - 1].0, sizes[seed as usize - 1].1, seed));
    let spec = RingSpec { keys: vec!["k=u16le@0".into()], ..small(NAME, Bytes::mib(6)) };
    for (fake, has) in fakes.iter().zip([true, false, false]) {
        let target = fake.target();
        // Others have had rings, so that its number is another one there.
        let made =
            if has { fake.create(&target, spec.clone()) } else { fake.create(&target, small("/other", Bytes::mib(1))) };
        drop(made.unwrap());
        if !has {
            fake.run(target.delete_ring("/other")).unwrap();
        }
    }
    for turn in 0..12 {
        let (here, there) = (&fakes[turn % 3], &fakes[(turn + 1) % 3]);
        let (target, ring) = opened(here);
        for _ in 0..here.below(3) {
            record(here, &ring, here.below(900) + 1);
        }
        if turn % 4 == 1 {
            here.run(target.pin(NAME, &format!("pin {turn}"), Timestamp(0), here.now())).unwrap();
        }
        let (before, status) = (answer(here, &ring), ring.status());
        there.kill();
        let other = there.run(Target::open(there.env())).unwrap();
        let portrait = copy((here, &ring), (there, &other));
        assert_eq!(portrait, here.run(ring.portrait()).unwrap(), "nothing was recorded meanwhile");
        drop(other);
        status.pins.iter().for_each(|pin| here.run(target.unpin(NAME, pin.id)).unwrap());
        drop(ring);
        here.run(target.delete_ring(NAME)).unwrap();
        drop(target);
        is_whole(there);
        let (target, ring) = opened(there);
        let now = ring.status();
        assert_eq!(answer(there, &ring), before, "turn {turn}");
        assert_eq!((&now.pins, now.next_sequence, now.losses), (&status.pins, status.next_sequence, status.losses));
        assert_eq!(target.fence_of_ring(NAME), Some(9));
        // What is written there is newer than all that came.
        record(there, &ring, 40);
        drop((target, ring));
        let (_target, ring) = opened(there);
        let told = sequences(&answer(there, &ring));
        assert_eq!(told.last(), Some(&(status.next_sequence + 39)), "turn {turn}");
        assert!(told.is_sorted_by(|one, next| one + 1 == *next), "turn {turn}");
        drop(ring);
        is_whole(there);
    }
}

#[test]
fn what_is_not_all_there_is_no_ring_and_its_space_is_free_again_after_a_crash_and_when_it_is_deleted() {
    let (from, fake) = (Fake::new(Bytes::mib(64), false), Fake::new(Bytes::mib(64), false));
    let source = from.target();
    let ring = from.create(&source, small(NAME, Bytes::mib(4))).unwrap();
    record(&from, &ring, 3000);
    let portrait = from.run(ring.portrait()).unwrap();
    let bytes = portrait.encode().unwrap();
    let mut target = fake.target();
    let before = free(&target);
    for ends in ["a crash", "deleted"] {
        fake.run(target.receive_ring(NAME, &bytes)).unwrap();
        send((&from, &ring), (&fake, &target), &portrait);
        assert!(free(&target) < before, "{ends}");
        assert_eq!(target.ring(NAME).map(drop).unwrap_err().kind, Kind::Missing);
        assert_eq!(target.status(), []);
        // Nobody takes another one in under this name, nor makes one.
        assert_eq!(fake.run(target.receive_ring(NAME, &bytes)).unwrap_err().kind, Kind::Exists);
        assert_eq!(fake.create(&target, small(NAME, Bytes::mib(4))).map(drop).unwrap_err().kind, Kind::Exists);
        if ends == "deleted" {
            fake.run(target.delete_ring(NAME)).unwrap();
        } else {
            drop(target);
            fake.kill();
            target = fake.run(Target::open(fake.env())).unwrap();
        }
        assert_eq!(free(&target), before, "{ends}");
        assert_eq!(fake.run(target.write_image(NAME, Bytes::ZERO, &[0; 4096])).unwrap_err().kind, Kind::Stale);
        assert_eq!(fake.run(target.received_ring(NAME, 1)).unwrap_err().kind, Kind::Stale);
        assert_eq!(fake.run(target.delete_ring(NAME)).unwrap_err().kind, Kind::Missing);
    }
    copy((&from, &ring), (&fake, &target));
    assert_eq!(answer(&fake, &target.ring(NAME).unwrap()), answer(&from, &ring));
}

#[test]
fn a_ring_that_somebody_records_into_is_not_copied_and_what_is_on_its_way_is_waited_for() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let ring = fake.create(&target, small(NAME, Bytes::mib(4))).unwrap();
    let mut writer = Writer::new(&fake, &ring);
    assert_eq!(fake.run(ring.portrait()).unwrap_err().kind, Kind::Busy);
    fake.run(async { writer.element(&[1; 500]).await.unwrap() });
    writer.send().unwrap();
    drop(writer);
    assert_eq!(fake.run(ring.portrait()).unwrap().durable_end, 1);
    // What was recorded, pinned or resized since is another portrait.
    let before = fake.run(ring.portrait()).unwrap();
    record(&fake, &ring, 1);
    assert_ne!(fake.run(ring.portrait()).unwrap(), before);
    let before = fake.run(ring.portrait()).unwrap();
    fake.run(target.pin(NAME, "p", Timestamp(0), fake.now())).unwrap();
    assert_ne!(fake.run(ring.portrait()).unwrap(), before);
}

#[test]
fn a_ring_that_cannot_be_here_what_it_is_is_refused_and_nothing_is_begun() {
    let from = Fake::new(Bytes::mib(256), false);
    let source = from.target();
    let spec = RingSpec { guarantee: Rate::mb(20), ..small(NAME, Bytes::mib(64)) };
    let ring = from.create(&source, spec).unwrap();
    record(&from, &ring, 3000);
    let portrait = from.run(ring.portrait()).unwrap();
    let fake = Fake::new(Bytes::mib(256), false);
    let target = fake.target();
    let before = free(&target);
    let refused = |portrait: &Portrait, kind: Kind| {
        let error = fake.run(target.receive_ring(NAME, &portrait.encode().unwrap())).unwrap_err();
        assert_eq!((error.kind, free(&target)), (kind, before), "{error}");
    };
    let spec = |spec: RingSpec| Portrait { spec, ..portrait.clone() };
    refused(&spec(RingSpec { guarantee: Rate::mb(2_000_000), ..portrait.spec.clone() }), Kind::Refused);
    refused(&spec(RingSpec { block: Bytes(5000), ..portrait.spec.clone() }), Kind::Usage);
    refused(&spec(RingSpec { segment: Bytes(5000), ..portrait.spec.clone() }), Kind::Usage);
    refused(&Portrait { slots: portrait.slots + 1, ..portrait.clone() }, Kind::Usage);
    refused(&Portrait { slots: 0, places: Vec::new(), ..portrait.clone() }, Kind::Usage);
    refused(&Portrait { places: vec![false; portrait.places.len()], ..portrait.clone() }, Kind::Usage);
    refused(&Portrait { path: vec![7, 7], ..portrait.clone() }, Kind::Usage);
    refused(&Portrait { path: vec![portrait.slots], ..portrait.clone() }, Kind::Usage);
    refused(&Portrait { path_segment: 0, ..portrait.clone() }, Kind::Usage);
    refused(&Portrait { path_segment: u64::MAX, ..portrait.clone() }, Kind::Usage);
    refused(&Portrait { path_segment: 1, ..portrait.clone() }, Kind::Usage);
    refused(&Portrait { path_element: 0, ..portrait.clone() }, Kind::Usage);
    refused(&Portrait { durable_end: u64::MAX, ..portrait.clone() }, Kind::Usage);
    let mut pinned = portrait.clone();
    from.run(source.pin(NAME, "it", Timestamp(0), from.now())).unwrap();
    pinned.pins = from.run(ring.portrait()).unwrap().pins;
    for (bytes, slot) in [(Bytes(u64::MAX), 0), (Bytes(1), portrait.slots)] {
        let mut absurd = pinned.clone();
        (absurd.pins[0].pin.bytes, absurd.pins[0].held[0].0) = (bytes, slot);
        refused(&absurd, Kind::Usage);
    }
    let mut twice = portrait.clone();
    twice.segments.push(twice.segments[0]);
    refused(&twice, Kind::Usage);
    let error = fake.run(target.receive_ring(NAME, &[0xff; 100])).unwrap_err();
    assert_eq!((error.kind, free(&target)), (Kind::Usage, before), "{error}");
    // Bytes where none are expected.
    fake.run(target.receive_ring(NAME, &portrait.encode().unwrap())).unwrap();
    for (at, length) in [(0, 0), (0, 100), (100, 4096), (portrait.length().0, 4096), (u64::MAX - 4095, 4096)] {
        let error = fake.run(target.write_image(NAME, Bytes(at), &vec![0; length])).unwrap_err();
        assert_eq!(error.kind, Kind::Usage, "{error}");
    }
    for (at, length) in [(0, 0), (portrait.length().0, 1), (0, 5 << 20), (u64::MAX, 1)] {
        assert_eq!(from.run(ring.image(Bytes(at), Bytes(length))).unwrap_err().kind, Kind::Usage);
    }
}

#[test]
fn a_ring_that_was_made_smaller_keeps_its_size_and_goes_only_where_groups_are_as_large() {
    let from = Fake::new(Bytes::mib(256), false);
    let source = from.target();
    let ring = from.create(&source, small(NAME, Bytes::mib(64))).unwrap();
    record(&from, &ring, 20_000);
    let before = from.run(source.resize_ring(NAME, Bytes::mib(32))).unwrap();
    record(&from, &ring, 20_000);
    let like = Fake::new(Bytes::mib(256), false);
    let target = like.target();
    copy((&from, &ring), (&like, &target));
    let there = target.ring(NAME).unwrap();
    assert_eq!(there.status().spec.capacity, before);
    assert_eq!(answer(&like, &there), answer(&from, &ring));
    let other = Fake::new(Bytes::gib(4), false);
    let target = other.target();
    assert_ne!(target.core.layout().group, source.core.layout().group, "or this shows nothing");
    let portrait = from.run(ring.portrait()).unwrap().encode().unwrap();
    assert_eq!(other.run(target.receive_ring(NAME, &portrait)).unwrap_err().kind, Kind::Refused);
    // One that has all its places goes there.
    let whole = from.create(&source, small("/whole", Bytes::mib(32))).unwrap();
    record(&from, &whole, 20_000);
    copy((&from, &whole), (&other, &target));
    assert_eq!(answer(&other, &target.ring(NAME).unwrap()), answer(&from, &whole));
}
