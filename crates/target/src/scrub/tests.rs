use super::Options;
use crate::Target;
use crate::fake::{Fake, Writer, small};
use crate::object::Placement;
use crate::object::rows::{BLOCK, Key, Part, Quota, Row};
use crate::seeds::each;
use forebay_model::scrub::Scrubbed;
use forebay_model::{Bytes, ObjectId, Rate};
use std::rc::Rc;
use std::time::Duration;

fn id(object: u64) -> ObjectId {
    ObjectId { volume: 1, object }
}

/// A device with a ring that has gone round, objects at home, and objects in logs.
fn device() -> (Fake, Rc<Target>) {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let ring = fake.create(&target, small("/ring", Bytes::mib(2))).unwrap();
    let mut writer = Writer::new(&fake, &ring);
    for n in 0..2500 {
        fake.run(writer.element(&[n as u8; 1000])).unwrap();
    }
    fake.run(writer.durable()).unwrap();
    let objects = target.objects();
    fake.run(objects.create_volume(1, Quota::default())).unwrap();
    for object in 1..=6 {
        fake.run(objects.create(id(object), Vec::new())).unwrap();
        let bytes = vec![object as u8; 500_000];
        fake.run(objects.write(target.stream(), id(object), 0, &bytes, Placement::Home)).unwrap();
        fake.run(objects.write(target.stream(), id(object), 8192, b"into a log", Placement::Auto)).unwrap();
    }
    fake.run(objects.checkpoint()).unwrap();
    (fake, target)
}

fn step(fake: &Fake, target: &Target, span: Duration, anew: bool) -> Scrubbed {
    fake.run(target.scrub(Options { rate: None, span, anew })).unwrap()
}

/// A whole scrub in one.
fn scrub(fake: &Fake, target: &Target) -> Scrubbed {
    let scrubbed = step(fake, target, Duration::from_secs(3600), true);
    assert!(scrubbed.finished);
    scrubbed
}

/// Where each block of the objects lies, of which the rows tell and that nothing hides.
fn blocks(target: &Target) -> Vec<(ObjectId, u64, u64)> {
    let work = target.objects().work();
    let mut blocks = Vec::new();
    for (key, row) in work.meta.tree.range(Key::FIRST, Key::LAST) {
        match (key.part, row) {
            (Part::Piece(first), Row::Piece(piece)) => {
                let hidden = |block: u64| work.meta.tree.get(&Key::logged(key.id, block)).is_some();
                let shown = (0..piece.blocks()).filter(|n| !hidden(first + n));
                blocks.extend(shown.map(|n| (key.id, first + n, piece.at + n)));
            }
            (Part::Logged(block), Row::Logged(logged)) => blocks.push((key.id, block, logged.at)),
            _ => {}
        }
    }
    blocks
}

#[test]
fn what_is_sound_is_read_once_and_found_sound() {
    let (fake, target) = device();
    let scrubbed = scrub(&fake, &target);
    assert_eq!((scrubbed.found, scrubbed.damaged), (vec![], 0));
    assert!(scrubbed.done > Bytes(6 * 500_000), "{} read", scrubbed.done);
    assert_eq!(scrubbed.done, scrubbed.total);
    assert!(target.disk().counters().background >= scrubbed.done - Bytes::kib(64 * 8), "it is done in the background");
}

#[test]
fn every_rotten_block_of_an_object_is_found_with_its_object_and_place_and_nothing_else_is() {
    each(30, |random| {
        let (fake, target) = device();
        let blocks = blocks(&target);
        let mut rotten: Vec<(ObjectId, u64, u64)> =
            (0..1 + random.below(5)).map(|_| blocks[random.below(blocks.len() as u64) as usize]).collect();
        rotten.sort_unstable();
        rotten.dedup();
        for (_, _, at) in &rotten {
            fake.disk.flip(BLOCK * *at + Bytes(random.below(BLOCK.0)));
        }
        let scrubbed = scrub(&fake, &target);
        let mut found: Vec<(String, Bytes)> = scrubbed.found.iter().map(|f| (f.owner.clone(), f.at)).collect();
        found.sort_unstable();
        let mut expected: Vec<(String, Bytes)> =
            rotten.iter().map(|(id, _, at)| (id.to_string(), BLOCK * *at)).collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
        assert_eq!(scrubbed.damaged, rotten.len() as u64);
        assert!(scrubbed.found.iter().all(|f| f.what.contains("checksum") && !f.remedy.is_empty()));
    });
}

#[test]
fn rot_in_a_ring_is_found_with_the_ring_and_the_elements_it_costs() {
    let (fake, target) = device();
    let core = target.core();
    let ring = core.ring_ids()[0];
    let at = core.with_ring(ring, |r| {
        let (slot, _) = (0..).zip(&r.slots).find(|(slot, s)| s.is_some() && !r.path.contains(slot)).unwrap();
        r.slot_at(&core.layout(), slot)
    });
    fake.disk.flip(at + Bytes(300));
    let scrubbed = scrub(&fake, &target);
    assert_eq!(scrubbed.found.len(), 1, "{:?}", scrubbed.found);
    let finding = &scrubbed.found[0];
    assert!(finding.owner == "/ring" && finding.at == at && finding.what.contains("gone"), "{finding:?}");
}

#[test]
fn a_rotten_table_of_objects_is_found_before_anybody_needs_it() {
    let (fake, target) = device();
    let leaf = target.objects().work().meta.tree.leaf_of(Key::FIRST).unwrap();
    fake.disk.flip(BLOCK * leaf.place.at + Bytes(100));
    let scrubbed = scrub(&fake, &target);
    assert_eq!(scrubbed.found.len(), 1, "{:?}", scrubbed.found);
    assert_eq!(scrubbed.found[0].at, BLOCK * leaf.place.at);
}

#[test]
fn a_scrub_that_is_cut_off_anywhere_goes_on_and_finds_what_lies_behind() {
    each(20, |random| {
        let (fake, mut target) = device();
        let blocks = blocks(&target);
        let (id, _, at) = blocks[random.below(blocks.len() as u64) as usize];
        fake.disk.flip(BLOCK * at);
        let mut steps = 0;
        let mut found = 0;
        let damaged = loop {
            let scrubbed = step(&fake, &target, Duration::from_millis(1 + random.below(6)), false);
            found += scrubbed.found.iter().filter(|f| f.owner == id.to_string()).count();
            steps += 1;
            if scrubbed.finished {
                break scrubbed.damaged;
            }
            if random.once_in(4) {
                // Killed; what some commit has made durable of the place counts.
                drop(target);
                fake.kill();
                target = fake.run(Target::open(fake.env())).unwrap();
                fake.run(target.objects().ready()).unwrap();
            }
            assert!(steps < 1000, "it comes to an end");
        };
        assert!(found >= 1 && damaged >= 1, "{found} found in {steps} steps");
        assert!(steps > 3, "it was cut into {steps} steps");
    });
}

#[test]
fn a_scrub_keeps_to_its_rate() {
    let (fake, target) = device();
    let begin = fake.now();
    let rate = Some(Rate::mb(1));
    let scrubbed = fake.run(target.scrub(Options { rate, span: Duration::from_secs(3600), anew: true })).unwrap();
    let took = fake.now().since(begin);
    assert!(took >= Rate::mb(1).time_for(scrubbed.done), "{} in {took:?}", scrubbed.done);
}

#[test]
fn what_is_written_while_a_scrub_goes_on_is_not_taken_for_damage() {
    each(10, |random| {
        let (fake, target) = device();
        let scrubbing = {
            let target = target.clone();
            target.disk().env().spawner.clone().spawn(async move {
                target.scrub(Options { rate: None, span: Duration::from_secs(3600), anew: true }).await
            })
        };
        let ring = target.ring("/ring").unwrap();
        let mut writer = Writer::new(&fake, &ring);
        for n in 0..30 {
            let object = id(1 + random.below(6));
            let bytes = vec![n as u8; 1 + random.below(100_000) as usize];
            let place = if random.once_in(2) { Placement::Home } else { Placement::Auto };
            fake.run(target.objects().write(target.stream(), object, random.below(400_000), &bytes, place)).unwrap();
            match random.below(8) {
                0 => drop(fake.run(target.objects().take_home()).unwrap()),
                1 => fake.run(target.objects().punch(object, random.below(400_000), 50_000)).unwrap(),
                2..5 => (0..100).for_each(|n| fake.run(writer.element(&[n; 1000])).unwrap()),
                _ => {}
            }
        }
        let scrubbed = fake.run(scrubbing).unwrap();
        assert_eq!(scrubbed.found, [], "nothing is damaged");
    });
}

#[test]
fn two_scrubs_at_once_are_refused() {
    let (fake, target) = device();
    let options = Options { rate: None, span: Duration::from_secs(3600), anew: true };
    let first = target.clone();
    let scrubbing = target.disk().env().spawner.spawn(async move { first.scrub(options).await });
    fake.wait(Duration::from_micros(10));
    let error = fake.run(target.scrub(options)).expect_err("it is refused");
    assert_eq!(error.kind, forebay_model::Kind::Busy);
    fake.run(scrubbing).unwrap();
}
