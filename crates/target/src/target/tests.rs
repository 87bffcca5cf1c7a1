use crate::fake::{Fake, Writer, sequences, small};
use crate::object::Placement;
use crate::object::rows::Quota;
use crate::{Ring, Target};

use forebay_model::ring::{Beginning, PinPolicy, RingSpec, RingState};
use forebay_model::{Bytes, Kind, ObjectId, Profile, Rate, Timestamp};
use std::rc::Rc;
use std::time::Duration;

/// A device of 64 MiB, with groups of 1 MiB.
fn device() -> (Fake, Rc<Target>) {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    (fake, target)
}

/// Records `count` elements of 1000 bytes, 1 ms apart, until they are durable.
fn record(fake: &Fake, ring: &Rc<Ring>, count: u64) {
    let mut writer = Writer::new(fake, ring);
    fake.run(async {
        for number in 0..count {
            writer.element(&[number as u8; 1000]).await.unwrap();
            fake.env().clock.sleep(Duration::from_millis(1)).await;
        }
        writer.durable().await.unwrap();
    });
}

fn kind<T>(result: forebay_model::Result<T>) -> Kind {
    result.err().expect("it is refused").kind
}

#[test]
fn a_ring_is_as_it_was_asked_for_and_is_there_after_opening_again() {
    let (fake, target) = device();
    let mut spec = small("/a", Bytes::mib(4));
    spec.keys = vec!["id=u32le@0".into(), "pcap".into()];
    let ring = fake.create(&target, spec.clone()).unwrap();
    let made = ring.status().spec;
    assert_eq!((made.capacity, made.keys.clone()), (Bytes::mib(4), spec.keys.clone()));
    assert_eq!(made.index_percent, 9, "seven keys: the packets' six, and one");
    record(&fake, &ring, 100);
    drop((ring, target));
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let ring = target.ring("/a").unwrap();
    fake.run(ring.ready()).unwrap();
    assert_eq!(ring.status().spec, made);
    assert_eq!(ring.status().next_sequence, 100);
    assert!(target.complaints().is_empty(), "{:?}", target.complaints());
}

#[test]
fn a_profile_by_which_promises_cannot_be_kept_is_taken_and_that_is_said() {
    let (fake, target) = device();
    fake.create(&target, RingSpec { guarantee: Rate(1000), ..small("/a", Bytes::mib(4)) }).unwrap();
    assert!(target.complaints().is_empty(), "{:?}", target.complaints());
    let slow = Profile { full_seek: Duration::from_secs(2), ..target.profile() };
    fake.run(target.set_profile(slow)).unwrap();
    let [said] = &target.complaints()[..] else { panic!("{:?}", target.complaints()) };
    assert!(said.contains("promised 1.0 kB/s"), "{said}");
}

#[test]
fn what_cannot_be_created_is_refused_and_leaves_nothing() {
    let (fake, target) = device();
    fake.create(&target, small("/a", Bytes::mib(4))).unwrap();
    let free = target.free_runs();
    let refused = |spec: RingSpec| kind(fake.create(&target, spec));
    assert_eq!(refused(small("/a", Bytes::mib(4))), Kind::Exists);
    assert_eq!(refused(RingSpec { relatives: vec!["/b".into()], ..small("/c", Bytes::mib(4)) }), Kind::Missing);
    assert_eq!(refused(RingSpec { segment: Bytes::mib(2), ..small("/c", Bytes::mib(4)) }), Kind::Usage);
    assert_eq!(refused(RingSpec { segment: Bytes::kib(64), ..small("/c", Bytes::mib(4)) }), Kind::Usage);
    assert_eq!(refused(RingSpec { keys: vec!["id=u33@0".into()], ..small("/c", Bytes::mib(4)) }), Kind::Usage);
    assert_eq!(refused(RingSpec { index_percent: 60, ..small("/c", Bytes::mib(4)) }), Kind::Usage);
    assert!(fake.create(&target, small("/c", Bytes::gib(1))).is_err(), "more than there is");
    assert_eq!(refused(RingSpec { guarantee: Rate::mb(150), ..small("/c", Bytes::mib(4)) }), Kind::Refused);
    assert_eq!(target.free_runs(), free);
    assert_eq!(target.status().len(), 1);
    let Err(missing) = target.ring("/b") else { panic!("a ring that was never made") };
    assert!(missing.message.contains("/a"), "{missing}");
}

#[test]
fn several_guarantees_are_kept_together_or_the_last_is_refused_with_the_most_that_can_be() {
    let fake = Fake::new(Bytes::gib(1), false);
    let target = fake.target();
    let spec = |name: &str, rate| RingSpec { guarantee: rate, ..small(name, Bytes::mib(250)) };
    let first = fake.create(&target, spec("/a", Rate::mb(30))).unwrap();
    fake.create(&target, spec("/b", Rate::mb(20))).unwrap();
    let Err(error) = fake.create(&target, spec("/c", Rate::mb(60))) else { panic!("110 MB/s of 100") };
    assert_eq!(error.kind, Kind::Refused);
    assert!(error.message.contains("50.0 MB/s promised already"), "{error}");
    // The rate that is named can be had.
    let words: Vec<&str> = error.message.split("the most is ").nth(1).unwrap().split(' ').collect();
    let named: Rate = format!("{}{}", words[0], words[1].trim_end_matches(',')).parse().unwrap();
    assert!(named > Rate::mb(20), "{error}");
    fake.create(&target, spec("/c", named)).unwrap();
    assert_eq!(target.demands().len(), 3);
    // One that goes makes room.
    drop(first);
    assert!(target.could_create(&spec("/d", Rate::mb(20))).is_err());
    fake.run(target.delete_ring("/a")).unwrap();
    target.could_create(&spec("/d", Rate::mb(20))).unwrap();
}

#[test]
fn a_ring_that_is_used_is_not_deleted_and_one_that_is_not_gives_its_space_back() {
    let (fake, target) = device();
    let free = target.free_runs();
    let ring = fake.create(&target, small("/a", Bytes::mib(4))).unwrap();
    record(&fake, &ring, 50);
    let pinned = fake.run(target.pin("/a", "p", Timestamp(0), fake.now())).unwrap();
    assert_eq!(kind(fake.run(target.delete_ring("/a"))), Kind::Busy);
    fake.run(target.unpin("/a", pinned.pin.id)).unwrap();
    ring.attach(3).unwrap();
    assert_eq!(kind(fake.run(target.delete_ring("/a"))), Kind::Busy);
    ring.detach(3);
    fake.run(target.delete_ring("/a")).unwrap();
    assert_eq!(target.free_runs(), free);
    assert_eq!(kind(target.ring("/a").map(|_| ())), Kind::Missing);
    // Who still holds it is told, and what was still to be done for it is left.
    assert_eq!(kind(fake.try_ask(&ring, "all", 1)), Kind::Missing);
    fake.wait(Duration::from_secs(5));
    // Another of the same name begins anew.
    let again = fake.create(&target, small("/a", Bytes::mib(4))).unwrap();
    assert_eq!(sequences(&fake.ask(&again, "all").0), [0u64; 0]);
}

#[test]
fn of_two_who_delete_a_ring_at_once_one_is_told_that_it_is_gone() {
    let (fake, target) = device();
    let ring = fake.create(&target, small("/a", Bytes::mib(4))).unwrap();
    let mut writer = Writer::new(&fake, &ring);
    fake.run(async { writer.element(&[1; 1000]).await.unwrap() });
    writer.send().unwrap();
    drop(writer);
    let deleted = [0; 2].map(|_| {
        let target = target.clone();
        fake.env().spawner.spawn(async move { target.delete_ring("/a").await })
    });
    let both = fake.run(async {
        let [one, other] = deleted;
        [one.await, other.await]
    });
    let refused: Vec<Kind> = both.into_iter().filter_map(|deleted| deleted.err().map(|error| error.kind)).collect();
    assert_eq!(refused, [Kind::Missing]);
    assert!(target.status().is_empty());
}

#[test]
fn who_waits_to_change_a_ring_that_is_deleted_is_told_so() {
    let (fake, target) = device();
    let ring = fake.create(&target, small("/a", Bytes::mib(4))).unwrap();
    record(&fake, &ring, 50);
    drop((ring, target));
    fake.kill();
    // It still looks for its tail when all of them come.
    let target = fake.run(Target::open(fake.env())).unwrap();
    let beginning = Beginning { sequence: 1000, writer: 7, number: 30 };
    let [first, second, third] = [0; 3].map(|_| target.clone());
    let spawner = fake.env().spawner;
    let deleted = spawner.spawn(async move { first.delete_ring("/a").await });
    let resized = spawner.spawn(async move { second.resize_ring("/a", Bytes::mib(8)).await });
    let begun = spawner.spawn(async move { third.begin_ring("/a", beginning).await });
    let (deleted, resized, begun) = fake.run(async { (deleted.await, resized.await, begun.await) });
    deleted.unwrap();
    assert_eq!((kind(resized), kind(begun)), (Kind::Disconnected, Kind::Disconnected));
}

#[test]
fn a_ring_does_not_shrink_to_what_its_pins_hold_and_less_than_the_writer_needs() {
    let (fake, target) = device();
    // Ten groups, each a segment.
    let ring = fake.create(&target, RingSpec { segment: Bytes::ZERO, ..small("/a", Bytes::mib(10)) }).unwrap();
    assert_eq!(ring.status().segments, 10);
    record(&fake, &ring, 6500);
    let mut kept: Vec<_> = target.core.with_ring(ring.id, |r| r.slots.iter().flatten().copied().collect());
    kept.sort_unstable_by_key(|segment| segment.sequence);
    fake.run(target.pin("/a", "p", Timestamp(0), Timestamp(kept[4].max_time))).unwrap();
    assert_eq!(ring.status().pinned_segments, 5);
    for size in [Bytes::mib(6), Bytes::mib(7)] {
        let refused = fake.run(target.resize_ring("/a", size)).unwrap_err();
        assert!(refused.kind == Kind::Refused && refused.message.contains("pins hold 5"), "{refused}");
        assert!(refused.message.contains(&Bytes::mib(8).to_string()), "{refused}");
        assert_eq!((ring.status().spec.capacity, ring.status().segments), (Bytes::mib(10), 10));
    }
    assert_eq!(fake.run(target.resize_ring("/a", Bytes::mib(8))).unwrap(), Bytes::mib(8));
    record(&fake, &ring, 3000);
    let end = ring.status().next_sequence;
    let newest = sequences(&fake.ask(&ring, "all").0);
    assert!((end - 1000..end).all(|sequence| newest.contains(&sequence)), "what was recorded last is there");
}

#[test]
fn growing_keeps_everything_and_shrinking_gives_back_what_is_oldest() {
    let (fake, target) = device();
    let ring = fake.create(&target, small("/a", Bytes::mib(4))).unwrap();
    // More than a lap.
    record(&fake, &ring, 6000);
    let before = sequences(&fake.ask(&ring, "all").0);
    assert!(before[0] > 0 && before.last() == Some(&5999));
    assert_eq!(fake.run(target.resize_ring("/a", Bytes::mib(8))).unwrap(), Bytes::mib(8));
    assert_eq!(sequences(&fake.ask(&ring, "all").0), before);
    record(&fake, &ring, 3000);
    let grown = sequences(&fake.ask(&ring, "all").0);
    assert!(grown.len() > before.len() + 2000, "{} and {}", grown.len(), before.len());
    assert_eq!(fake.run(target.resize_ring("/a", Bytes::mib(3))).unwrap(), Bytes::mib(3));
    let left = sequences(&fake.ask(&ring, "all").0);
    assert_eq!(left.last(), Some(&8999));
    assert!(left.len() < 3500 && left.len() > 1000, "{} elements are left", left.len());
    assert_eq!(kind(fake.run(target.resize_ring("/a", Bytes::ZERO))), Kind::Usage);
    assert!(fake.run(target.resize_ring("/a", Bytes::gib(1))).is_err(), "more than there is");
    assert_eq!(ring.status().spec.capacity, Bytes::mib(3));
    assert_eq!(sequences(&fake.ask(&ring, "all").0), left);
    // It goes on at its new size, also after opening again.
    record(&fake, &ring, 500);
    fake.run(target.close()).unwrap();
    drop((ring, target));
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let ring = target.ring("/a").unwrap();
    fake.run(ring.ready()).unwrap();
    assert_eq!(sequences(&fake.ask(&ring, "all").0).last(), Some(&9499));
}

#[test]
fn who_waits_while_a_commit_is_under_way_shares_the_next_one() {
    let (fake, target) = device();
    let ring = fake.create(&target, small("/a", Bytes::mib(4))).unwrap();
    record(&fake, &ring, 100);
    let generation = || fake.run(Target::inspect(fake.env())).unwrap().0.generation;
    let before = generation();
    let now = fake.now();
    fake.run(async {
        let spawner = fake.env().spawner;
        let pins: Vec<_> = (0..20)
            .map(|n| {
                let target = target.clone();
                spawner.spawn(async move {
                    // One after the other, while the first commit is on its way.
                    target.disk().env().clock.sleep(Duration::from_micros(n)).await;
                    target.pin("/a", "p", Timestamp(0), now).await
                })
            })
            .collect();
        for pin in pins {
            pin.await.unwrap();
        }
    });
    assert_eq!(generation() - before, 2, "one for the first, one for all others");
    assert_eq!(fake.run(Target::inspect(fake.env())).unwrap().1.rings.values().next().unwrap().pins.len(), 20);
    // A commit that fails is a failure for all who waited for it.
    fake.disk.fail_writes(true);
    fake.run(async {
        let unpin = |n| {
            let target = target.clone();
            fake.env().spawner.spawn(async move { target.unpin("/a", n).await })
        };
        let (first, second) = (unpin(1), unpin(2));
        assert!(first.await.is_err() && second.await.is_err());
    });
}

/// What a target has and where it lies.
fn table(fake: &Fake, target: &Target) -> (Vec<std::ops::Range<Bytes>>, crate::catalog::Catalog) {
    // A change of relatives that changes nothing makes what is in memory durable.
    fake.run(target.relate_ring("/a", Vec::new())).unwrap();
    let catalog = fake.run(Target::inspect(fake.env())).unwrap().1;
    (target.free_runs(), catalog)
}

/// Asks for each size in turn, which is refused and changes nothing.
fn refuse_sizes(fake: &Fake, target: &Target, sizes: &[(&str, Bytes, &str)]) {
    let ring = target.ring("/a").unwrap();
    record(fake, &ring, 2000);
    let look = || (table(fake, target), sequences(&fake.ask(&ring, "all").0));
    let before = look();
    for (name, size, why) in sizes {
        let error = fake.run(target.resize_ring(name, *size)).expect_err("it is refused");
        assert!(error.message.contains(why), "{name}: {error}");
        assert_eq!(look(), before, "{name}");
    }
}

#[test]
fn a_size_that_is_refused_leaves_all_as_it_was() {
    // Groups of 100 MiB.
    let fake = Fake::new(Bytes::gib(64), false);
    let target = fake.target();
    fake.create(&target, small("/a", Bytes::gib(1))).unwrap();
    fake.create(&target, RingSpec { segment: Bytes::mib(90), ..small("/b", Bytes::mib(400)) }).unwrap();
    let sizes = [("/a", Bytes::gib(40), "keep track of"), ("/b", Bytes::mib(200), "cannot run round")];
    refuse_sizes(&fake, &target, &sizes);

    // As much as can be promised, which is less where the ring comes round sooner.
    let fake = Fake::new(Bytes::mib(64), true);
    let target = fake.target();
    let mut spec = RingSpec { pin_budget_percent: 0, ..small("/a", Bytes::mib(48)) };
    spec.flush_interval = Duration::from_secs(1);
    let promised = (1..100).rev().find(|rate| {
        spec.guarantee = Rate::mb(*rate);
        fake.create(&target, spec.clone()).is_ok()
    });
    assert!(promised.is_some_and(|rate| rate > 2), "{promised:?} MB/s");
    refuse_sizes(&fake, &target, &[("/a", Bytes::mib(1), "cannot be promised")]);
}

/// A rotating device with a ring without logs, since it has promised nearly all that the device gives, and bytes of an
/// object in logs where the ring would grow.
fn without_logs() -> (Fake, Rc<Target>, Rc<Ring>) {
    let fake = Fake::new(Bytes::mib(64), true);
    let target = fake.target();
    let mut spec = RingSpec { pin_budget_percent: 0, ..small("/a", Bytes::mib(8)) };
    spec.flush_interval = Duration::from_secs(1);
    let made = (1..5000).rev().find_map(|step| {
        spec.guarantee = Rate(step * 20_000);
        fake.create(&target, spec.clone()).ok()
    });
    let ring = made.expect("something can be promised");
    assert!(target.core.with_ring(ring.id, |r| r.without_logs));
    fake.run(async {
        let objects = target.objects();
        objects.create_volume(1, Quota::default()).await.unwrap();
        let id = ObjectId { volume: 1, object: 1 };
        objects.create(id, Vec::new()).await.unwrap();
        // Near the ring, since that is where the arm is then.
        let mut writer = Writer::new(&fake, &ring);
        let is_near = || {
            let (groups, without_logs) = target.growth(ring.id, 4).unwrap().unwrap();
            assert!(without_logs);
            groups.into_iter().any(|group| objects.uses_log(group))
        };
        for _ in 0..2000 {
            if is_near() {
                return;
            }
            writer.element(&[1; 1000]).await.unwrap();
            writer.durable().await.unwrap();
            objects.write(target.stream(), id, 0, &[7; 16 << 10], Placement::Log).await.unwrap();
        }
        panic!("nothing lies in the logs near the ring");
    });
    (fake, target, ring)
}

#[test]
fn of_two_who_resize_a_ring_at_once_one_is_told_to_try_again() {
    let (fake, target, ring) = without_logs();
    let resized = [Bytes::mib(12), Bytes::mib(10)].map(|size| {
        let target = target.clone();
        fake.env().spawner.spawn(async move { target.resize_ring("/a", size).await })
    });
    let [one, other] = fake.run(async {
        let [one, other] = resized;
        [one.await, other.await]
    });
    let size = match (one, other) {
        (Ok(size), Err(error)) | (Err(error), Ok(size)) => {
            assert_eq!(error.kind, Kind::Busy, "{error}");
            size
        }
        both => panic!("{both:?}"),
    };
    let groups = target.core.with_ring(ring.id, |r| r.groups.iter().flatten().count() as u64);
    assert_eq!((target.core.layout().group * groups, ring.status().spec.capacity), (size, size));
}

#[test]
fn pins_are_held_to_what_a_ring_still_has_after_it_shrank() {
    let (fake, target) = device();
    let ring = fake.create(&target, small("/a", Bytes::mib(12))).unwrap();
    let all = ring.status().segments;
    fake.run(target.resize_ring("/a", Bytes::mib(3))).unwrap();
    assert_eq!(ring.status().segments, all / 4);
    record(&fake, &ring, 6000);
    // More than half of what is left, and less than half of what there was.
    let status = ring.status();
    let pin = target.pin("/a", "p", status.oldest.unwrap(), status.newest.unwrap());
    assert_eq!(kind(fake.run(pin)), Kind::Refused);
}

#[test]
fn a_pin_stands_in_the_way_of_shrinking() {
    let (fake, target) = device();
    let ring = fake.create(&target, small("/a", Bytes::mib(4))).unwrap();
    record(&fake, &ring, 3500);
    let status = ring.status();
    let (oldest, newest) = (status.oldest.unwrap(), status.newest.unwrap());
    let middle = Timestamp((oldest.0 + newest.0) / 2);
    let pin = fake.run(target.pin("/a", "p", oldest, middle)).unwrap().pin;
    let refused = fake.run(target.resize_ring("/a", Bytes::mib(1)));
    assert_eq!(kind(refused), Kind::Refused);
    assert_eq!(ring.status().spec.capacity, Bytes::mib(4));
    let held = sequences(&fake.ask(&ring, "all").0);
    assert!(held.contains(&pin.first_sequence) && held.contains(&(pin.end_sequence - 1)));
}

#[test]
fn pins_hold_what_is_there_within_their_budget_and_tell_what_is_not() {
    let (fake, target) = device();
    let mut spec = small("/a", Bytes::mib(4));
    spec.pin_budget_percent = 40;
    let ring = fake.create(&target, spec).unwrap();
    record(&fake, &ring, 6000);
    let status = ring.status();
    let (oldest, newest) = (status.oldest.unwrap(), status.newest.unwrap());
    let pin = |from, to| fake.run(target.pin("/a", "p", from, to));
    assert_eq!(kind(pin(newest, oldest)), Kind::Usage, "it ends before it begins");
    assert_eq!(kind(pin(newest.after(Duration::from_secs(60)), newest.after(Duration::from_secs(90)))), Kind::Usage);
    assert_eq!(kind(pin(Timestamp(0), oldest.before(Duration::from_millis(1)))), Kind::Expired);
    assert_eq!(kind(pin(oldest, newest)), Kind::Refused, "more than the budget");
    assert_eq!(ring.status().pinned_segments, 0);
    let early = pin(Timestamp(0), oldest.after(Duration::from_millis(300))).unwrap();
    assert_eq!(early.expired_until, Some(oldest), "the beginning of what was asked for is gone");
    assert!(!early.open_end);
    let before = sequences(&fake.ask(&ring, "all").0);
    record(&fake, &ring, 8000);
    let kept = sequences(&fake.ask(&ring, "all").0);
    assert!(before.iter().filter(|s| **s < early.pin.end_sequence).all(|s| kept.contains(s)), "what is pinned stays");
    assert!(!kept.contains(&(early.pin.end_sequence + 500)), "what is not is overwritten");
    fake.run(target.unpin("/a", early.pin.id)).unwrap();
    assert_eq!(kind(fake.run(target.unpin("/a", early.pin.id))), Kind::Missing);
    record(&fake, &ring, 6000);
    assert!(sequences(&fake.ask(&ring, "all").0)[0] > early.pin.end_sequence);
}

#[test]
fn a_pin_that_reaches_into_the_future_holds_what_comes() {
    let (fake, target) = device();
    let ring = fake.create(&target, small("/a", Bytes::mib(8))).unwrap();
    record(&fake, &ring, 100);
    let until = fake.now().after(Duration::from_secs(3));
    let pinned = fake.run(target.pin("/a", "p", fake.now().before(Duration::from_millis(50)), until)).unwrap();
    assert!(pinned.open_end);
    // Elements come 1 ms apart.
    let left = until.since(fake.now()).as_millis() as u64;
    assert!(left > 1000, "the pin itself took {:?}", Duration::from_secs(3) - Duration::from_millis(left));
    record(&fake, &ring, 12_000);
    let kept = sequences(&fake.ask(&ring, "all").0);
    assert!((0..left).all(|s| kept.contains(&s)), "what was there, and what came after the pin");
    assert!(!kept.contains(&(left + 1500)), "and no more");
}

#[test]
fn relatives_are_pinned_along_and_let_go_along() {
    let (fake, target) = device();
    let other = fake.create(&target, small("/b", Bytes::mib(4))).unwrap();
    let ring = fake.create(&target, RingSpec { relatives: vec!["/b".into()], ..small("/a", Bytes::mib(4)) }).unwrap();
    // The relative has nothing yet: nothing to hold there.
    record(&fake, &ring, 10);
    let alone = fake.run(target.pin("/a", "alone", Timestamp(0), fake.now())).unwrap().pin;
    assert!(alone.relatives.is_empty());
    record(&fake, &other, 10);
    let pin = fake.run(target.pin("/a", "both", Timestamp(0), fake.now())).unwrap().pin;
    assert_eq!(pin.relatives, [("/b".to_owned(), other.status().pins[0].id)]);
    fake.run(target.unpin("/a", pin.id)).unwrap();
    assert_eq!((other.status().pins.len(), ring.status().pins.len()), (0, 1));
    // A relative that refuses undoes the whole.
    let tight = fake.create(&target, RingSpec { pin_budget_percent: 0, ..small("/c", Bytes::mib(4)) }).unwrap();
    let third = fake.create(&target, RingSpec { relatives: vec!["/c".into()], ..small("/d", Bytes::mib(4)) }).unwrap();
    record(&fake, &tight, 10);
    record(&fake, &third, 10);
    let error = fake.run(target.pin("/d", "p", Timestamp(0), fake.now())).unwrap_err();
    assert!(error.kind == Kind::Refused && error.message.contains("/c"), "{error}");
    assert_eq!((third.status().pins.len(), tight.status().pins.len()), (0, 0));
}

#[test]
fn what_was_pinned_elsewhere_is_kept_with_a_pin_and_touched_by_nobody_here() {
    let (fake, target) = device();
    let elsewhere = vec!["/ring/0/7".to_string(), "/ring/0/8".to_string()];
    let ring = fake.create(&target, RingSpec { relatives: elsewhere.clone(), ..small("/a", Bytes::mib(4)) }).unwrap();
    record(&fake, &ring, 10);
    let along = vec![(elsewhere[0].clone(), 3)];
    let pin = fake.run(target.pin_along("/a", "p", (Timestamp(0), fake.now()), along.clone())).unwrap().pin;
    assert_eq!(pin.relatives, along);
    assert_eq!(fake.run(target.pin("/a", "alone", Timestamp(0), fake.now())).unwrap().pin.relatives, []);
    fake.run(target.relate_ring("/a", elsewhere[1..].to_vec())).unwrap();
    assert_eq!(kind(fake.run(target.relate_ring("/a", vec!["/b".into()]))), Kind::Missing);
    let status = ring.status();
    assert_eq!((&status.spec.relatives[..], &status.pins[0].relatives), (&elsewhere[1..], &along));
    fake.run(target.unpin("/a", pin.id)).unwrap();
    assert_eq!(ring.status().pins.len(), 1);
}

#[test]
fn beyond_the_budget_history_shortens_or_recording_stops_as_the_ring_says() {
    let (fake, target) = device();
    let policy =
        |name: &str, policy| RingSpec { pin_budget_percent: 10, pin_policy: policy, ..small(name, Bytes::mib(2)) };
    let shorten = fake.create(&target, policy("/shorten", PinPolicy::Shorten)).unwrap();
    record(&fake, &shorten, 1500);
    let half = shorten.status().oldest.unwrap().after(Duration::from_millis(600));
    let pin = fake.run(target.pin("/shorten", "p", Timestamp(0), half)).unwrap().pin;
    record(&fake, &shorten, 3000);
    let kept = sequences(&fake.ask(&shorten, "all").0);
    assert!((pin.first_sequence..pin.end_sequence).all(|s| kept.contains(&s)) && kept.contains(&4499));

    let stop = fake.create(&target, policy("/stop", PinPolicy::Stop)).unwrap();
    record(&fake, &stop, 1900);
    let pin = fake.run(target.pin("/stop", "all", Timestamp(0), fake.now())).unwrap().pin;
    let mut writer = Writer::new(&fake, &stop);
    let staging = stop.staging().count();
    fake.run(async {
        while stop.staging().available() > staging / 2 {
            writer.element(&[1; 1000]).await.unwrap();
            fake.env().clock.sleep(Duration::from_millis(1)).await;
        }
    });
    fake.wait(Duration::from_secs(5));
    assert_eq!(stop.status().state, RingState::Full);
    let stood = stop.progress().sequence;
    fake.run(target.unpin("/stop", pin.id)).unwrap();
    let end = fake.run(writer.durable()).unwrap();
    assert!(end > stood && stop.status().state == RingState::Ready, "it goes on when something is let go");
    assert_eq!(sequences(&fake.ask(&stop, "all").0).last(), Some(&(end - 1)));
}

#[test]
fn a_target_closes_beside_a_ring_that_is_full_and_has_what_it_acknowledged_and_all_of_its_others() {
    let policy = RingSpec { pin_budget_percent: 10, pin_policy: PinPolicy::Stop, ..small("/stop", Bytes::mib(2)) };
    let mut full = 0;
    for waiting in 0..30 {
        let (fake, target) = device();
        let other = fake.create(&target, small("/other", Bytes::mib(2))).unwrap();
        let stop = fake.create(&target, policy.clone()).unwrap();
        record(&fake, &stop, 1900);
        fake.run(target.pin("/stop", "all", Timestamp(0), fake.now())).unwrap();
        let (mut last, mut beside) = (Writer::new(&fake, &stop), Writer::new(&fake, &other));
        // Some are on their way when what is after them finds no room.
        fake.run(async {
            for _ in 0..waiting * 16 {
                while stop.staging().available() <= 2 && stop.status().state != RingState::Full {
                    fake.env().clock.sleep(Duration::from_micros(100)).await;
                }
                if stop.status().state != RingState::Full {
                    last.element(&[1; 1000]).await.unwrap();
                }
            }
            last.send().unwrap();
            beside.element(&[2; 1000]).await.unwrap();
            beside.send().unwrap();
            fake.env().clock.sleep(Duration::from_micros(300 * waiting % 700)).await;
        });
        let acknowledged = stop.progress().sequence;
        fake.run(target.close()).unwrap_or_else(|e| panic!("{waiting} blocks more, and it does not close: {e}"));
        let durable = stop.progress().sequence;
        full += u32::from(stop.status().state == RingState::Full);
        drop((last, beside));
        fake.kill();
        let target = fake.run(Target::open(fake.env())).unwrap();
        let stop = target.ring("/stop").unwrap();
        fake.run(stop.ready()).unwrap();
        assert!(durable >= acknowledged, "{waiting}: {durable} of {acknowledged}");
        let kept = sequences(&fake.ask(&stop, "all").0);
        assert_eq!(kept.last(), Some(&(durable - 1)), "{waiting}: what was acknowledged, and no more");
        assert_eq!(sequences(&fake.ask(&target.ring("/other").unwrap(), "all").0), [0], "{waiting}");
    }
    assert!((5..30).contains(&full), "{full} of 30 were full");
}

#[test]
fn pins_have_their_part_of_the_catalog_and_what_goes_beyond_is_refused_with_nothing_changed() {
    let (fake, target) = device();
    let ring = fake.create(&target, small("/a", Bytes::mib(8))).unwrap();
    record(&fake, &ring, 2000);
    let (from, to) = (ring.status().oldest.unwrap(), ring.status().newest.unwrap());
    let pin = |label: &str| fake.run(target.pin("/a", label, from, to));
    assert_eq!(kind(pin(&"x".repeat(256))), Kind::Usage, "a label that is too long");
    // All hold the same: the budget of segments is no bound.
    let label = "x".repeat(255);
    let mut made = 0;
    let refused = loop {
        match pin(&label) {
            Ok(_) => made += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(refused.kind, Kind::Refused, "{refused}");
    assert!((60..4096).contains(&made), "{made} pins");
    assert_eq!(ring.status().pins.len(), made);
    // All else goes on.
    record(&fake, &ring, 3000);
    let last = ring.status().pins.last().unwrap().id;
    fake.run(target.unpin("/a", last)).unwrap();
    pin(&label).unwrap();
    fake.run(target.close()).unwrap();
    drop((ring, target));
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    assert_eq!(target.ring("/a").unwrap().status().pins.len(), made);
}

#[test]
fn what_opening_finds_behind_the_last_checkpoint_is_held_by_a_pin_that_was_open() {
    let (fake, target) = device();
    let ring = fake.create(&target, small("/a", Bytes::mib(8))).unwrap();
    record(&fake, &ring, 100);
    let until = fake.now().after(Duration::from_secs(3));
    fake.run(target.pin("/a", "p", fake.now().before(Duration::from_millis(50)), until)).unwrap();
    // Nothing that is held from here on is durable.
    record(&fake, &ring, 1500);
    drop((ring, target));
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    let ring = target.ring("/a").unwrap();
    fake.run(ring.ready()).unwrap();
    record(&fake, &ring, 12_000);
    let kept = sequences(&fake.ask(&ring, "all").0);
    let lost: Vec<u64> = (100..1600).filter(|s| !kept.contains(s)).collect();
    assert!(lost.is_empty(), "{} of what came after the pin are gone, from {:?} on", lost.len(), lost.first());
}
