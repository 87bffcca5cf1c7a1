use crate::fake::{Fake, Op, Told, Writer, sequences, small};
use crate::verify::verify;
use crate::{Ring, Target};
use forebay_model::ring::{Beginning, PinPolicy, RingSpec, RingState};
use forebay_model::{Bytes, Cause, Kind, Rate, Timestamp};
use std::rc::Rc;
use std::time::Duration;

#[test]
fn a_block_is_acknowledged_only_by_a_flush_that_began_after_it_was_written() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let ring = fake.create(&target, small("/a", Bytes::mib(4))).unwrap();
    fake.disk.log();
    let mut writer = Writer::new(&fake, &ring);
    let end = fake.run(async {
        for _ in 0..100 {
            writer.element(&[1; 500]).await.unwrap();
        }
        writer.durable().await.unwrap()
    });
    assert_eq!(end, 100);
    let log = fake.disk.log();
    let last_write = log.iter().rposition(|op| matches!(op, Op::Write(_))).unwrap();
    assert!(log[last_write..].contains(&Op::Flush), "{log:?}");
}

#[test]
fn what_waits_is_flushed_within_the_interval_without_being_asked() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let ring = fake.create(&target, RingSpec { guarantee: Rate::mb(1), ..small("/a", Bytes::mib(4)) }).unwrap();
    let mut writer = Writer::new(&fake, &ring);
    fake.run(async { writer.element(&[1; 500]).await.unwrap() });
    writer.send().unwrap();
    fake.wait(Duration::from_millis(200));
    assert_eq!(ring.progress().sequence, 1);
    assert_eq!(ring.status().missed_deadlines, 0);
}

#[test]
fn the_flush_of_one_ring_acknowledges_what_was_written_of_all() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let seldom = RingSpec { flush_interval: Duration::from_secs(40), ..small("/seldom", Bytes::mib(4)) };
    let [seldom, often] = [seldom, small("/often", Bytes::mib(4))].map(|spec| fake.create(&target, spec).unwrap());
    for ring in [&seldom, &often] {
        let mut writer = Writer::new(&fake, ring);
        fake.run(async { writer.element(&[1; 500]).await.unwrap() });
        writer.send().unwrap();
    }
    fake.wait(Duration::from_secs(2));
    assert_eq!([&seldom, &often].map(|ring| ring.progress().sequence), [1, 1]);
}

#[test]
fn a_ring_has_one_writer_at_a_time() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let ring = fake.create(&target, small("/a", Bytes::mib(4))).unwrap();
    ring.attach(1).unwrap();
    ring.attach(1).unwrap();
    assert_eq!(ring.attach(2).unwrap_err().kind, Kind::Busy);
    assert!(ring.status().recording);
    // Only the one who records can end it.
    ring.detach(2);
    assert!(ring.status().recording);
    ring.detach(1);
    ring.attach(2).unwrap();
}

#[test]
fn closing_makes_everything_durable_that_was_accepted_and_takes_nothing_more() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let ring = fake.create(&target, small("/a", Bytes::mib(4))).unwrap();
    let mut writer = Writer::new(&fake, &ring);
    fake.run(async {
        for _ in 0..3000 {
            writer.element(&[1; 500]).await.unwrap();
        }
    });
    writer.send().unwrap();
    fake.run(target.close()).unwrap();
    assert_eq!(ring.progress().sequence, 3000);
    fake.run(async { writer.element(&[1; 500]).await.unwrap() });
    assert_eq!(writer.send().unwrap_err().kind, Kind::Disconnected);
    drop((writer, ring, target));
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let ring = target.ring("/a").unwrap();
    fake.run(ring.ready()).unwrap();
    assert_eq!(sequences(&fake.ask(&ring, "all").0).last(), Some(&2999));
}

#[test]
fn after_a_failed_write_nothing_is_acknowledged_and_what_was_stays_readable() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let ring = fake.create(&target, small("/a", Bytes::mib(4))).unwrap();
    let mut writer = Writer::new(&fake, &ring);
    fake.run(async {
        for _ in 0..50 {
            writer.element(&[1; 500]).await.unwrap();
        }
        writer.durable().await.unwrap()
    });
    fake.disk.fail_writes(true);
    let error = fake.run(async {
        writer.element(&[2; 500]).await.unwrap();
        writer.durable().await.unwrap_err()
    });
    assert_eq!(error.kind, Kind::Device, "{error}");
    assert_eq!(ring.progress().sequence, 50);
    assert!(ring.attach(9).is_err());
    assert_eq!(sequences(&fake.ask(&ring, "all").0), (0..50).collect::<Vec<_>>());
    // Whole again, it is not trusted before the target is opened anew.
    fake.disk.fail_writes(false);
    assert!(fake.run(target.pin("/a", "p", fake.now().before(Duration::from_secs(60)), fake.now())).is_err());
    drop((writer, ring, target));
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let ring = target.ring("/a").unwrap();
    fake.run(ring.ready()).unwrap();
    assert_eq!((ring.status().state, ring.status().next_sequence), (RingState::Ready, 50));
}

#[test]
fn the_writer_passes_over_a_pin_and_comes_back_to_it_when_it_is_let_go() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let ring = fake.create(&target, small("/a", Bytes::mib(2))).unwrap();
    let mut writer = Writer::new(&fake, &ring);
    let mut record = |count| {
        fake.run(async {
            for _ in 0..count {
                writer.element(&[3; 1000]).await.unwrap();
                fake.env().clock.sleep(Duration::from_millis(1)).await;
            }
            writer.durable().await.unwrap()
        })
    };
    record(700);
    let pin = fake.run(target.pin("/a", "p", fake.now().before(Duration::from_millis(300)), fake.now())).unwrap().pin;
    for _ in 0..4 {
        record(1500);
        let kept = sequences(&fake.ask(&ring, "all").0);
        assert!((pin.first_sequence..pin.end_sequence).all(|s| kept.contains(&s)), "{pin:?}");
    }
    fake.run(target.unpin("/a", pin.id)).unwrap();
    record(3000);
    let kept = sequences(&fake.ask(&ring, "all").0);
    assert!(kept[0] > pin.end_sequence && kept.windows(2).all(|w| w[1] == w[0] + 1), "one run again");
}

#[test]
fn what_rots_after_a_crash_in_a_ring_that_never_came_round_is_damaged_and_not_expired() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let ring = fake.create(&target, small("/a", Bytes::mib(16))).unwrap();
    let mut writer = Writer::new(&fake, &ring);
    fake.run(async {
        for _ in 0..3000 {
            writer.element(&[1; 500]).await.unwrap();
        }
        writer.durable().await.unwrap();
    });
    assert!(ring.core.with_ring(ring.id, |r| r.slots.iter().flatten().count()) > 3);
    drop((writer, ring, target));
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let ring = target.ring("/a").unwrap();
    fake.run(ring.ready()).unwrap();
    // In the second block of the oldest segment.
    fake.disk.lose(ring.core.with_ring(ring.id, |r| r.slot_at(&ring.core.layout(), 0)) + Bytes::kib(20));
    let (told, summary) = fake.ask(&ring, "all");
    assert_eq!(summary.expired, 0);
    let damaged = told.iter().filter(|told| matches!(told, Told::Gap(gap) if gap.cause == Cause::Damaged)).count();
    assert_eq!(damaged, 1);
}

#[test]
fn a_ring_that_goes_on_with_what_another_target_has_begins_with_its_numbers_whatever_crashes() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    fake.create(&target, small("/a", Bytes::mib(4))).unwrap();
    let beginning = Beginning { sequence: 1000, writer: 7, number: 30 };
    fake.run(target.begin_ring("/a", beginning)).unwrap();
    for absurd in [Beginning { sequence: u64::MAX, ..beginning }, Beginning { number: u64::MAX, ..beginning }] {
        assert_eq!(fake.run(target.begin_ring("/a", absurd)).unwrap_err().kind, Kind::Usage, "nothing could follow it");
    }
    assert_eq!(fake.run(target.begin_ring("/b", beginning)).unwrap_err().kind, Kind::Missing);
    drop(target);
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let ring = target.ring("/a").unwrap();
    fake.run(ring.ready()).unwrap();
    let status = ring.status();
    assert_eq!((status.begins, status.first_sequence, status.next_sequence), (1000, 1000, 1000));
    assert_eq!(ring.durable_of(7), 30, "what is on the other target is not asked for again");
    assert_eq!(fake.ask(&ring, "all").1.expired, 0, "what came before is none of it");
    // Nothing is recorded: it may begin elsewhere yet.
    let later = Beginning { sequence: 1001, writer: 0, number: 0 };
    fake.run(target.begin_ring("/a", later)).unwrap();
    assert_eq!(ring.durable_of(7), 30);
    let mut writer = Writer::new(&fake, &ring);
    fake.run(async {
        writer.element(&[1; 500]).await.unwrap();
        assert_eq!(writer.durable().await.unwrap(), 1002);
    });
    fake.run(target.begin_ring("/a", beginning)).unwrap();
    assert_eq!((ring.status().begins, ring.status().next_sequence), (1001, 1002), "it has begun");
    drop((writer, ring, target));
    fake.kill();
    let found = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap();
    assert_eq!((found.rings[0].elements, &found.rings[0].damage[..], &found.complaints[..]), (1, &[][..], &[][..]));
    let target = fake.run(Target::open(fake.env())).unwrap();
    let ring = target.ring("/a").unwrap();
    fake.run(ring.ready()).unwrap();
    assert_eq!(sequences(&fake.ask(&ring, "all").0), [1001]);
    assert!(!ring.status().has_come_round());
    let mut writer = Writer::new(&fake, &ring);
    fake.run(async {
        for _ in 0..20_000 {
            writer.element(&[1; 500]).await.unwrap();
        }
        writer.durable().await.unwrap();
    });
    assert!(ring.status().has_come_round());
}

/// A ring in which all is pinned, and for which blocks wait; and the pin.
fn full(fake: &Fake, target: &Target) -> (Rc<Ring>, u64) {
    let spec = RingSpec { pin_budget_percent: 10, pin_policy: PinPolicy::Stop, ..small("/stop", Bytes::mib(2)) };
    let ring = fake.create(target, spec).unwrap();
    let mut writer = Writer::new(fake, &ring);
    fake.run(async {
        for _ in 0..1900 {
            writer.element(&[1; 1000]).await.unwrap();
        }
        writer.durable().await.unwrap();
    });
    let pin = fake.run(target.pin("/stop", "all", Timestamp(0), fake.now())).unwrap().pin.id;
    let staging = ring.staging().count();
    fake.run(async {
        while ring.staging().available() > staging / 2 {
            writer.element(&[2; 1000]).await.unwrap();
            fake.env().clock.sleep(Duration::from_millis(1)).await;
        }
    });
    fake.wait(Duration::from_secs(5));
    assert_eq!(ring.status().state, RingState::Full);
    (ring, pin)
}

/// Has a full ring see that there is room, before that is durable.
fn sees_room(fake: &Fake, ring: &Ring) {
    fake.wait(Duration::from_micros(10));
    ring.progressed.notify();
}

#[test]
fn a_full_ring_that_is_let_go_of_and_deleted_while_it_waits_for_a_checkpoint_takes_nothing_more() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let (ring, pin) = full(&fake, &target);
    let deleted = {
        let target = target.clone();
        fake.env().spawner.spawn(async move {
            target.unpin("/stop", pin).await?;
            target.delete_ring("/stop").await
        })
    };
    sees_room(&fake, &ring);
    fake.run(deleted).unwrap();
    fake.wait(Duration::from_secs(5));
    assert_eq!(ring.staging().available(), ring.staging().count(), "nothing waits any more");
    // Others are served all the same, where it was.
    let again = fake.create(&target, small("/again", Bytes::mib(2))).unwrap();
    let mut writer = Writer::new(&fake, &again);
    fake.run(async {
        writer.element(&[3; 1000]).await.unwrap();
        writer.durable().await.unwrap();
    });
    assert_eq!(sequences(&fake.ask(&again, "all").0), [0]);
}

#[test]
fn a_full_ring_whose_target_is_closed_while_it_waits_for_a_checkpoint_takes_nothing_more() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let (ring, pin) = full(&fake, &target);
    let before = sequences(&fake.ask(&ring, "all").0);
    let closed = {
        let target = target.clone();
        fake.env().spawner.spawn(async move {
            target.unpin("/stop", pin).await?;
            target.close().await
        })
    };
    sees_room(&fake, &ring);
    fake.run(closed).unwrap();
    fake.wait(Duration::from_secs(5));
    assert_eq!(ring.status().state, RingState::Full, "no slot is taken behind the last checkpoint");
    drop((ring, target));
    fake.kill();
    let found = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap();
    assert_eq!((&found.rings[0].damage[..], &found.complaints[..]), (&[][..], &[][..]));
    let target = fake.run(Target::open(fake.env())).unwrap();
    let ring = target.ring("/stop").unwrap();
    fake.run(ring.ready()).unwrap();
    assert_eq!(sequences(&fake.ask(&ring, "all").0), before);
}
