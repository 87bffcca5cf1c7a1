use super::*;
use crate::fake::{Fake, Told, Writer, sequences, small};
use crate::ring::Ring;
use crate::seeds::each;
use crate::target::Target;
use crate::verify::verify;
use forebay_model::Rate;
use forebay_model::ring::{Content, Overflow, PinPolicy, RingSpec, Spread};
use std::rc::Rc;
use std::time::Duration;

/// As a part of a cluster's ring is called.
const NAME: &str = "/ring/1/2a";
const FENCE: u64 = 7;

/// Records so many elements that come after `first`, each of which says which one it is.
fn record(fake: &Fake, ring: &Rc<Ring>, first: u64, elements: u64) {
    if elements == 0 {
        return;
    }
    let mut writer = Writer::new(fake, ring);
    fake.run(async {
        for number in first..first + elements {
            let bytes = [&number.to_le_bytes()[..], &vec![7; fake.below(1500) as usize]].concat();
            writer.element(&bytes).await.unwrap();
        }
        writer.durable().await.unwrap();
    });
}

fn made(fake: &Fake, target: &Target, spec: RingSpec) -> Rc<Ring> {
    let ring = fake.run(target.create_fenced_ring(spec, FENCE)).unwrap();
    fake.run(ring.ready()).unwrap();
    ring
}

fn opened(fake: &Fake) -> Rc<Target> {
    fake.kill();
    fake.run(Target::open(fake.env())).unwrap()
}

fn ring(fake: &Fake, target: &Target, name: &str) -> Rc<Ring> {
    let ring = target.ring(name).unwrap();
    fake.run(ring.ready()).unwrap();
    ring
}

fn answer(fake: &Fake, ring: &Rc<Ring>) -> Vec<Told> {
    fake.ask(ring, "all").0
}

fn spec_of(target: &Target, name: &str) -> RingSpec {
    target.status().into_iter().find(|ring| ring.spec.name == name).unwrap().spec
}

/// Both copies of the checkpoint are lost, and half of the times those of the superblock, too; what is said of what is made anew.
fn remade(fake: &Fake, target: Rc<Target>) -> Vec<RingFound> {
    let (layout, id) = (target.core().layout(), TargetId(target.core().target_id()));
    let mark = target.core().mark();
    drop(target);
    fake.kill();
    let keeps = fake.below(2) == 0;
    [0, 1].into_iter().for_each(|which| fake.disk.flip(layout.area_at(which)));
    if !keeps {
        [0, 64].into_iter().for_each(|at| fake.disk.flip(Bytes::kib(at) + Bytes(30)));
    }
    let plan = fake.run(look(fake.env(), Some(id), &mut |_, _| ())).unwrap();
    assert_eq!((plan.target, plan.superblock_kept, plan.checkpoint_kept), (id, keeps, false));
    assert_ne!(plan.superblock.mark, mark, "what lies in logs is of objects that are lost");
    let found = plan.rings.clone();
    fake.run(plan.write(fake.env())).unwrap();
    fake.kill();
    let looked_at = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap();
    assert_eq!(&looked_at.complaints[..], &[][..] as &[String]);
    found
}

/// The ring is copied to a target that has none of this name, and removed where it was.
fn moved(from: (&Fake, &Target), to: (&Fake, &Target), name: &str) {
    let ring = ring(from.0, from.1, name);
    let portrait = from.0.run(ring.portrait()).unwrap();
    to.0.run(to.1.receive_ring(name, &portrait.encode().unwrap())).unwrap();
    for at in (0..portrait.length().0).step_by(256 << 10) {
        let bytes = from.0.run(ring.image(Bytes(at), Bytes::kib(256).min(portrait.length() - Bytes(at)))).unwrap();
        to.0.run(to.1.write_image(name, Bytes(at), &bytes)).unwrap();
    }
    to.0.run(to.1.received_ring(name, FENCE + 1)).unwrap();
    drop(ring);
    from.0.run(from.1.delete_ring(name)).unwrap();
}

/// What is there now ends with what was there before: what had expired may have come back.
fn has_all(now: &[Told], before: &[Told]) {
    let (now, before) = (sequences(now), sequences(before));
    let ends = |of: &[u64]| (of.first().copied(), of.last().copied(), of.len());
    assert!(!before.is_empty() && now.ends_with(&before), "{:?} after {:?}", ends(&now), ends(&before));
}

#[test]
fn a_ring_is_what_its_newest_trailer_says_and_has_the_room_that_it_had() {
    for seed in 0..6 {
        let fake = Fake::with_chance(Bytes::mib(64), false, seed);
        let target = fake.target();
        drop(made(&fake, &target, small("/beside", Bytes::mib(2))));
        let spec = RingSpec {
            guarantee: Rate(3_000_000),
            keys: vec!["k=u16le@0".into()],
            pin_budget_percent: 40,
            pin_policy: PinPolicy::Shorten,
            overflow: Overflow::Block,
            content: Content::Packets(1),
            relatives: vec!["/beside".into()],
            spread: Spread { targets: 3, parity: true },
            flush_interval: Duration::from_secs(2),
            ..small(NAME, Bytes::mib(16))
        };
        let it = made(&fake, &target, spec);
        // A part of its first lap; in the other half of the runs more than one.
        record(&fake, &it, 0, if seed % 2 == 0 { 4000 } else { 30_000 });
        fake.run(target.relate_ring(NAME, vec![])).unwrap();
        let more = Bytes::mib(17 + fake.below(4));
        fake.run(target.resize_ring(NAME, more)).unwrap();
        assert!(fake.run(target.fence_ring(NAME, FENCE + 2)).unwrap());
        let target = opened(&fake);
        let it = ring(&fake, &target, NAME);
        record(&fake, &it, 30_000, 4000);
        let (before, was) = (answer(&fake, &it), spec_of(&target, NAME));
        drop(it);
        let found = remade(&fake, target);
        // The other one had nothing to say.
        assert_eq!(found.iter().map(|it| (&it.name[..], it.described)).collect::<Vec<_>>(), [(NAME, true)]);
        let target = opened(&fake);
        assert_eq!((spec_of(&target, NAME), found[0].capacity), (was.clone(), was.capacity), "seed {seed}");
        assert_eq!(target.fence_of_ring(NAME), Some(FENCE + 2));
        let it = ring(&fake, &target, NAME);
        let now = answer(&fake, &it);
        has_all(&now, &before);
        // Its index is there, too.
        assert_eq!(sequences(&fake.ask(&it, "k=30100").0).len(), 1);
        let before_it = it.status().next_sequence;
        record(&fake, &it, 34_000, 3000);
        let told = sequences(&answer(&fake, &it));
        assert_eq!(told.last(), Some(&(before_it + 2999)));
        assert!(told.is_sorted_by(|one, next| one + 1 == *next), "something is missing");
    }
}

#[test]
fn the_number_of_a_pin_that_was_lost_is_never_that_of_another() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let it = made(&fake, &target, small(NAME, Bytes::mib(4)));
    record(&fake, &it, 0, 2000);
    let pin = |target: &Target| fake.run(target.pin(NAME, "p", Timestamp(0), fake.now())).unwrap().pin.id;
    let before: Vec<u64> = (0..3).map(|_| pin(&target)).collect();
    drop(it);
    remade(&fake, target);
    let target = opened(&fake);
    let it = ring(&fake, &target, NAME);
    let after = pin(&target);
    assert!(before.iter().all(|before| *before < after), "{after} after {before:?}");
    for lost in before {
        assert_eq!(fake.run(target.unpin(NAME, lost)).unwrap_err().kind, Kind::Missing);
    }
    assert_eq!(it.status().pins.len(), 1);
}

#[test]
fn what_was_sealed_before_a_ring_was_changed_says_what_it_was_before() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let it = made(&fake, &target, small(NAME, Bytes::mib(4)));
    record(&fake, &it, 0, 2000);
    fake.run(target.fence_ring(NAME, FENCE + 2)).unwrap();
    drop(it);
    remade(&fake, target);
    assert_eq!(opened(&fake).fence_of_ring(NAME), Some(FENCE));
}

#[test]
fn of_two_rings_of_one_name_the_later_one_keeps_it_and_the_other_is_promised_nothing() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let spec = RingSpec { guarantee: Rate(1_000_000), ..small("/a", Bytes::mib(8)) };
    let first = made(&fake, &target, spec.clone());
    record(&fake, &first, 0, 9000);
    drop(first);
    fake.run(target.delete_ring("/a")).unwrap();
    // Nobody is called as the first will be.
    let beside = made(&fake, &target, small("/recovered/1", Bytes::mib(2)));
    record(&fake, &beside, 0, 1200);
    let second = made(&fake, &target, RingSpec { capacity: Bytes::mib(2), ..spec.clone() });
    record(&fake, &second, 0, 1500);
    let (of_beside, of_second) = (answer(&fake, &beside), answer(&fake, &second));
    drop((beside, second));
    remade(&fake, target);
    let target = opened(&fake);
    let names: BTreeMap<String, Rate> =
        target.status().into_iter().map(|it| (it.spec.name, it.spec.guarantee)).collect();
    let guarantees = [("/a", spec.guarantee), ("/recovered/1", Rate(0)), ("/recovered/1-1", Rate(0))];
    assert_eq!(names, guarantees.map(|(name, rate)| (name.to_owned(), rate)).into());
    has_all(&answer(&fake, &ring(&fake, &target, "/a")), &of_second);
    has_all(&answer(&fake, &ring(&fake, &target, "/recovered/1")), &of_beside);
    assert!(
        sequences(&answer(&fake, &ring(&fake, &target, "/recovered/1-1"))).len() > 1000,
        "what was not overwritten"
    );
}

/// Nothing was sealed yet, or what said it is damaged.
#[test]
fn a_ring_says_what_it_is_before_anything_of_it_is_sealed_and_is_there_without_its_name_if_that_is_damaged() {
    for damaged in [false, true] {
        let fake = Fake::new(Bytes::mib(64), false);
        let target = fake.target();
        let it = made(&fake, &target, small(NAME, Bytes::mib(4)));
        record(&fake, &it, 0, 60);
        let (before, was) = (answer(&fake, &it), spec_of(&target, NAME));
        drop(it);
        if damaged {
            let layout = target.core().layout();
            let trailer = target.core().with_ring(RingId(1), |it| it.slot_at(&layout, 0) + it.segment - Bytes(4096));
            fake.disk.flip(trailer + Bytes(30));
        }
        let name = if damaged { "/recovered/1" } else { NAME };
        let found = remade(&fake, target);
        assert_eq!((&found[0].name[..], found[0].described, found.len()), (name, !damaged, 1));
        let target = opened(&fake);
        assert!(damaged || spec_of(&target, NAME) == was);
        has_all(&answer(&fake, &ring(&fake, &target, name)), &before);
    }
}

/// A ring goes from target to target and back, beside others that take the groups which it leaves; whichever loses its checkpoints has it
/// as it was, and has what was recorded beside it.
#[test]
fn a_ring_that_was_moved_is_made_anew_where_it_lies() {
    each(24, |chance| {
        let fakes = [64, 160].map(|mib| Fake::with_chance(Bytes::mib(mib), false, chance.next()));
        let mut targets = [0, 1].map(|nth: usize| Some(fakes[nth].target()));
        let spec = RingSpec { guarantee: Rate(1_000_000), ..small(NAME, Bytes::mib(3 + chance.below(6))) };
        drop(made(&fakes[0], targets[0].as_ref().unwrap(), spec));
        let (mut at, mut recorded, mut beside) = (0, 0, 0);
        for turn in 0..2 + chance.below(5) {
            let (here, there) = (&fakes[at], &fakes[1 - at]);
            let more = if turn == 0 {
                [100, 2000][chance.below(2) as usize]
            } else {
                [0, 300, 3000, 9000][chance.below(4) as usize]
            };
            record(here, &ring(here, targets[at].as_ref().unwrap(), NAME), recorded, more);
            recorded += more;
            if chance.once_in(2) {
                // Epochs of the two are not alike.
                targets[at] = None;
                targets[at] = Some(opened(here));
            }
            let target = targets[at].as_ref().unwrap();
            moved((here, target), (there, targets[1 - at].as_ref().unwrap()), NAME);
            if chance.once_in(2) {
                // Another one takes what the ring has left.
                beside += 1;
                let spec = small(&format!("/beside/{beside}"), Bytes::mib(3 + chance.below(4)));
                record(here, &made(here, target, spec), 0, 1500 + chance.below(5000));
            }
            at = 1 - at;
        }
        let (fake, target) = (&fakes[at], targets[at].take().unwrap());
        let more = [0, 500, 5000][chance.below(3) as usize];
        record(fake, &ring(fake, &target, NAME), recorded, more);
        recorded += more;
        let was = (spec_of(&target, NAME), target.fence_of_ring(NAME));
        let names: Vec<String> = target.status().into_iter().map(|it| it.spec.name).collect();
        let before: BTreeMap<&String, Vec<Told>> =
            names.iter().map(|name| (name, answer(fake, &ring(fake, &target, name)))).collect();
        remade(fake, target);
        let target = opened(fake);
        assert_eq!((spec_of(&target, NAME), target.fence_of_ring(NAME)), was);
        for (name, before) in before {
            has_all(&answer(fake, &ring(fake, &target, name)), &before);
        }
        // What is written there is newer than all that came.
        record(fake, &ring(fake, &target, NAME), recorded, 700);
        drop(target);
        let told = sequences(&answer(fake, &ring(fake, &opened(fake), NAME)));
        assert_eq!(told.last(), Some(&(recorded + 699)));
        assert!(told.is_sorted_by(|one, next| one + 1 == *next), "something is missing");
    });
}

#[test]
fn what_had_left_a_target_and_is_back_by_that_gives_way_to_what_comes() {
    [false, true].into_iter().for_each(gives_way);
}

/// To the ring itself, or to a part that is begun anew.
fn gives_way(recorded: bool) {
    let fakes = [1, 2].map(|seed| Fake::with_chance(Bytes::mib(64), false, seed));
    let targets = [0, 1].map(|nth: usize| fakes[nth].target());
    let it = made(&fakes[0], &targets[0], small(NAME, Bytes::mib(4)));
    record(&fakes[0], &it, 0, 3000);
    drop(it);
    moved((&fakes[0], &targets[0]), (&fakes[1], &targets[1]), NAME);
    let [here, there] = targets;
    let found = remade(&fakes[0], here);
    assert_eq!(found[0].name, NAME);
    let here = opened(&fakes[0]);
    // Not to one that may be it.
    let made_again = |fence| {
        let made = fakes[0].run(here.create_fenced_ring(small(NAME, Bytes::mib(1)), fence));
        made.map(drop).map_err(|error| error.kind)
    };
    let names = || BTreeSet::from_iter(here.status().into_iter().map(|it| it.spec.name));
    drop(made(&fakes[0], &here, small("/another", Bytes::mib(1))));
    assert_eq!(made_again(FENCE), Err(Kind::Exists));
    assert_eq!(names(), BTreeSet::from([NAME, "/another"].map(str::to_owned)));
    // Who shows a newer capability has it shut out others, before anything is asked.
    assert!(fakes[0].run(here.fence_ring(NAME, FENCE + 1)).unwrap());
    if recorded {
        assert_eq!(made_again(FENCE + 1), Ok(()));
    } else {
        moved((&fakes[1], &there), (&fakes[0], &here), NAME);
    }
    assert_eq!(names(), BTreeSet::from([NAME, "/another", "/recovered/1"].map(str::to_owned)));
    // That is none that was made anew.
    assert_eq!(made_again(FENCE + 9), Err(Kind::Exists));
    if recorded {
        return;
    }
    drop(here);
    let here = opened(&fakes[0]);
    let told = sequences(&answer(&fakes[0], &ring(&fakes[0], &here, NAME)));
    assert_eq!((told.last(), told.is_sorted_by(|one, next| one + 1 == *next)), (Some(&2999), true));
}

#[test]
fn who_knows_all_rings_says_which_of_those_that_were_made_anew_are_to_be_there() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let spec = |name| RingSpec { guarantee: Rate(1_000_000), ..small(name, Bytes::mib(4)) };
    for name in ["/kept", "/gone", "/unknown"] {
        record(&fake, &made(&fake, &target, spec(name)), 0, 2000);
    }
    let before = answer(&fake, &ring(&fake, &target, "/gone"));
    remade(&fake, target);
    let target = opened(&fake);
    drop(made(&fake, &target, spec("/made")));
    assert_eq!(target.rings_made_anew(), ["/kept", "/gone", "/unknown"]);
    let settle = |rings: &[(&str, bool)]| {
        let rings = rings.iter().map(|(name, is_to_be_here)| (name.to_string(), *is_to_be_here)).collect();
        fake.run(target.settle_rings(&rings)).unwrap();
    };
    settle(&[("/kept", true), ("/gone", false), ("/made", false), ("/none", false)]);
    // Of what was said once nothing else is said.
    settle(&[("/kept", false)]);
    drop(target);
    let target = opened(&fake);
    let promised: BTreeMap<String, Rate> =
        target.status().into_iter().map(|it| (it.spec.name, it.spec.guarantee)).collect();
    let expected = [("/kept", 1_000_000), ("/made", 1_000_000), ("/recovered/2", 0), ("/unknown", 1_000_000)];
    assert_eq!(promised, expected.map(|(name, rate)| (name.to_owned(), Rate(rate))).into());
    assert_eq!(target.rings_made_anew(), ["/unknown"]);
    has_all(&answer(&fake, &ring(&fake, &target, "/recovered/2")), &before);
}
