//! Every structure that objects have on a device, damaged in every way, one at a time: what it costs is what
//! `docs/format/objects.md` says that it costs. Never wrong bytes.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use crate::harm::{Harm, costs_what_the_page_says};
use forebay_model::{Bytes, Kind, ObjectId};
use forebay_sim::disk::{Fault, presets};
use forebay_sim::stage::{Scene, Stage};
use forebay_target::Target;
use forebay_target::object::Placement::{Auto, Home, Log};
use forebay_target::object::record::{HEADER, MAGIC};
use forebay_target::object::rows::{Key, Quota};

const OBJECTS: u64 = 8;
const PAGE: u64 = 4096;

fn id(object: u64) -> ObjectId {
    ObjectId { volume: 1, object }
}

/// What object `object` holds after its `round`th writing: each block is like no other.
fn content(object: u64, round: u64, blocks: u64) -> Vec<u8> {
    let word = |block: u64, n: u64| (object << 48 | round << 32 | block << 16 | n).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (0..blocks).flat_map(|block| (0..512).flat_map(move |n| word(block, n).to_le_bytes())).collect()
}

/// Small objects: one whose bytes lie in a record, and one whose bytes lie in a leaf that no record needs, with another
/// between them.
const SMALL: [u64; 3] = [20, 21, 22];

/// What a small object holds.
fn small(object: u64, round: u64) -> Vec<u8> {
    content(object, round, 1)[..500].to_vec()
}

/// A structure: where it lies, and another one like it.
struct Part {
    name: &'static str,
    at: Bytes,
    length: u64,
    other: Bytes,
    /// The object that it concerns, if it is only one.
    object: Option<u64>,
}

/// Objects of which some lie at home and some in logs, after a kill; the disk as it was a while before.
fn scene() -> (Scene, Vec<Part>, Vec<u8>) {
    let stage = Stage::new(5, presets::ssd().scaled(15_000), |_| ());
    let env = stage.env();
    stage.world.run(async move {
        let target = Target::open(env).await.unwrap();
        let objects = target.objects();
        objects.create_volume(1, Quota::default()).await.unwrap();
        for object in (1..=OBJECTS).chain(SMALL) {
            objects.create(id(object), Vec::new()).await.unwrap();
            if object <= OBJECTS {
                objects.write(target.stream(), id(object), 0, &content(object, 0, 4), Home).await.unwrap();
            } else {
                objects.write(target.stream(), id(object), 0, &small(object, 0), Auto).await.unwrap();
            }
            // Enough rows for some leaves.
            let set = |page| (0..40).map(|number| (page, number, Some(vec![1; 200]))).collect();
            for page in 1..=3 {
                objects.set_attributes(id(object), set(page)).await.unwrap();
            }
        }
        // The places of the next round have had something else in them.
        for object in OBJECTS + 1..=OBJECTS + 4 {
            objects.create(id(object), Vec::new()).await.unwrap();
            objects.write(target.stream(), id(object), 0, &content(object, 0, 4), Home).await.unwrap();
            objects.remove(id(object)).await.unwrap();
        }
        objects.take_home().await.unwrap();
        objects.checkpoint().await.unwrap();
    });
    stage.world.kill();
    let before = stage.image();
    let env = stage.env();
    stage.world.run(async move {
        let target = Target::open(env).await.unwrap();
        let objects = target.objects();
        for object in 1..=4 {
            objects.write(target.stream(), id(object), 0, &content(object, 1, 4), Home).await.unwrap();
        }
        objects.write(target.stream(), id(SMALL[2]), 0, &small(SMALL[2], 1), Auto).await.unwrap();
        objects.checkpoint().await.unwrap();
        objects.write(target.stream(), id(SMALL[0]), 0, &small(SMALL[0], 1), Auto).await.unwrap();
        for object in 5..=OBJECTS {
            objects.write(target.stream(), id(object), 0, &content(object, 1, 2), Log).await.unwrap();
        }
    });
    stage.world.kill();
    let parts = parts(&stage);
    (stage.scene(), parts, before)
}

fn parts(stage: &Stage) -> Vec<Part> {
    let image = stage.image();
    let page = |at: u64| &image[at as usize..(at + PAGE) as usize];
    let (_, catalog, _) = stage.world.run(Target::inspect(stage.env())).unwrap();
    let find = |bytes: &[u8]| (0..image.len() as u64 / PAGE).map(|n| n * PAGE).find(|at| page(*at) == bytes).unwrap();
    let long = |at: u64, field: usize| u64::from_le_bytes(page(at)[field..field + 8].try_into().unwrap());
    let word = |at: u64, field: usize| u32::from_le_bytes(page(at)[field..field + 4].try_into().unwrap());
    let counts = |at: &u64| {
        let objects = &catalog.objects;
        page(*at)[..8] == MAGIC && long(*at, 32) == objects.epoch && long(*at, 40) > objects.number && word(*at, 72) > 0
    };
    let mut records: Vec<u64> = (0..image.len() as u64 / PAGE).map(|n| n * PAGE).filter(counts).collect();
    records.sort_unstable_by_key(|at| long(*at, 40));
    assert_eq!(records.len() as u64, OBJECTS - 4);
    let leaves = &catalog.objects.leaves;
    let leaf = |n: usize| (leaves[n].place.at * PAGE, u64::from(leaves[n].place.blocks));
    // The records since do not need the rows in this one.
    assert!(leaves[2].first.id < id(5), "it has {:?}", leaves[2].first);
    let part = |name, at, length, other, object| Part { name, at: Bytes(at), length, other: Bytes(other), object };
    let of_small = leaves.iter().rposition(|leaf| leaf.first <= Key::inline(id(SMALL[2]))).unwrap();
    let within = |at: u64, length: u64, bytes: &[u8]| {
        let found = image[at as usize..(at + length) as usize].windows(bytes.len()).position(|part| part == bytes);
        at + found.unwrap_or_else(|| panic!("it is not at {at}")) as u64
    };
    let is_small = |at: &u64| {
        let objects = &catalog.objects;
        page(*at)[..8] == MAGIC
            && long(*at, 32) == objects.epoch
            && long(*at, 40) > objects.number
            && word(*at, 72) == 0
    };
    let record =
        (0..image.len() as u64 / PAGE).map(|n| n * PAGE).filter(is_small).min_by_key(|at| long(*at, 40)).unwrap();
    let in_record = within(record, PAGE, &small(SMALL[0], 1));
    let in_leaf = within(leaf(of_small).0, leaf(of_small).1 * PAGE, &small(SMALL[2], 1));
    let (header, last) = (HEADER as u64, records[records.len() - 1]);
    vec![
        part("first leaf", leaf(0).0, leaf(0).1 * PAGE, leaf(1).0, None),
        part("leaf", leaf(1).0, leaf(1).1 * PAGE, leaf(0).0, None),
        part("record header", records[1], header, records[0], None),
        part("record body", records[1] + header, u64::from(word(records[1], 64)), records[0] + header, None),
        part("header of the last record", last, header, records[0], None),
        part("body of the last record", last + header, u64::from(word(last, 64)), records[0] + header, None),
        part("small object in its record", in_record, 500, in_leaf, None),
        part("small object in its leaf", in_leaf, 500, in_record, None),
        part("logged block", records[1] + PAGE, PAGE, records[0] + PAGE, Some(6)),
        part("logged block of the last record", last + PAGE, PAGE, records[0] + PAGE, Some(8)),
        part("home block", find(&content(2, 1, 4)[4096..8192]), PAGE, find(&content(3, 1, 4)[..4096]), Some(2)),
    ]
}

/// What is read of an object after the damage: its bytes are right, or why there are none.
async fn cost(target: &Target, part: &Part) -> Result<&'static str, String> {
    let objects = target.objects();
    if let Err(error) = objects.ready().await {
        let named = error.message.contains("record ") || error.message.contains("log of group");
        let named = named || error.message.contains("table of objects") && error.message.contains("of the device");
        return match error.kind == Kind::Device && named {
            true => Ok("objects are not served, said"),
            false => Err(format!("it is not said where: {error}")),
        };
    }
    let (mut damaged, mut torn) = (Vec::new(), false);
    for object in (1..=OBJECTS).chain(SMALL) {
        let mut expected = content(object, 0, 4);
        let newer = content(object, 1, if object <= 4 { 4 } else { 2 });
        let older = expected.clone();
        expected[..newer.len()].copy_from_slice(&newer);
        if SMALL.contains(&object) {
            expected = small(object, u64::from(object != SMALL[1]));
        }
        match objects.read(target.stream(), id(object), 0, 1 << 20).await {
            Ok(bytes) if bytes == expected => {}
            Ok(bytes) if bytes == older && object == OBJECTS => torn = true,
            Ok(_) => return Err(format!("{} returned wrong bytes", id(object))),
            Err(error) => {
                let place = error.message.contains("of the device");
                let named = |what: &str| error.message.contains(what);
                let named = named(&id(object).to_string()) || named("table of objects");
                if error.kind != Kind::Damaged || !named || !place {
                    return Err(format!("it is not said which and where: {error}"));
                }
                damaged.push(object);
            }
        }
    }
    match (damaged.is_empty(), torn) {
        (true, true) => Ok("torn tail"),
        (true, false) => Ok("nothing"),
        (false, false) if part.object.is_none() => Ok("its objects, said"),
        (false, false) if damaged == [part.object.unwrap()] => Ok("its object, said"),
        _ => Err(format!("{damaged:?} are damaged, torn: {torn}")),
    }
}

fn cell(part: &Part, (scene, before): (&Scene, &[u8]), harm: Harm) -> Result<&'static str, String> {
    let stage = scene.begin(7);
    let changed = harm.harm(&stage, (part.at, part.length), before, |then| stage.disk.peek(part.other, then));
    assert!(changed, "{harm:?} changes nothing of the {}", part.name);
    let env = stage.env();
    stage.world.run(async {
        let target = Target::open(env).await.map_err(|e| format!("the target does not open: {e}"))?;
        let first = cost(&target, part).await?;
        // A ring is served all the same.
        let ring = target.ring(forebay_sim::stage::NAME).map_err(|e| e.to_string())?;
        ring.ready().await.map_err(|e| format!("a ring is not served: {e}"))?;
        let again = cost(&target, part).await?;
        if again != first { Err(format!("{first} at first, then {again}")) } else { Ok(first) }
    })
}

#[test]
fn every_damage_to_a_structure_of_objects_costs_what_the_page_says() {
    let (scene, parts, before) = scene();
    costs_what_the_page_says("objects.md", &parts, |part| part.name, |part, harm| cell(part, (&scene, &before), harm));
}

#[test]
fn a_write_home_that_was_lost_or_went_elsewhere_is_noticed_when_it_is_read() {
    for lost in [true, false] {
        for nth in 0..3 {
            let stage = Stage::new(5, presets::ssd().scaled(15_000), |_| ());
            let (env, disk) = (stage.env(), stage.disk.clone());
            let noticed = stage.world.run(async move {
                let target = Target::open(env).await.unwrap();
                let (objects, stream) = (target.objects(), target.stream());
                objects.create_volume(1, Quota::default()).await.unwrap();
                for object in 1..=3 {
                    objects.create(id(object), Vec::new()).await.unwrap();
                    objects.write(stream, id(object), 0, &content(object, 0, 4), Home).await.unwrap();
                }
                let to = Bytes::mib(8);
                let fault = if lost { Fault::LoseWrite { nth } } else { Fault::MisdirectWrite { nth, to } };
                disk.inject(fault);
                // The blocks at home, and what their record needs.
                let written = objects.write(stream, id(2), 0, &content(2, 1, 4), Home).await;
                disk.calm();
                written.unwrap();
                let result = objects.read(stream, id(2), 0, 1 << 20).await;
                match &result {
                    Ok(bytes) => assert!(*bytes == content(2, 1, 4), "wrong bytes"),
                    Err(error) => {
                        assert!(error.kind == Kind::Damaged && error.message.contains("object 1/2"), "{error}");
                    }
                }
                assert!(objects.read(stream, id(1), 0, 1 << 20).await.unwrap() == content(1, 0, 4));
                result.is_err()
            });
            // The first write is the one of the blocks.
            assert_eq!(noticed, nth == 0, "lost: {lost}, write {nth}");
        }
    }
}
