use crate::Target;
use crate::fake::Fake;
use crate::object::Placement;
use crate::object::audit::ObjectsFound;
use crate::object::rows::{BLOCK, Key, Part, Row};
use crate::object::testing::{self, id};
use crate::seeds::each;
use crate::verify::verify;
use forebay_model::Bytes;
use std::rc::Rc;

/// A device with objects after a life of random commands.
fn device(below: impl Fn(u64) -> u64) -> (Fake, Rc<Target>) {
    let (fake, target) = testing::device(Bytes::mib(64));
    let objects = target.objects();
    for object in 1..=8 {
        fake.run(objects.create(id(object), vec![(1, 1, vec![1; 30])])).unwrap();
    }
    for n in 0..60 {
        let object = id(1 + below(8));
        let bytes = vec![n as u8; 1 + below(60_000) as usize];
        let place = if below(2) == 0 { Placement::Home } else { Placement::Auto };
        fake.run(objects.write(target.stream(), object, below(300_000), &bytes, place)).unwrap();
        match below(12) {
            0 => drop(fake.run(objects.take_home()).unwrap()),
            1 => fake.run(objects.truncate(object, below(200_000))).unwrap(),
            2 => fake.run(objects.punch(object, below(200_000), 40_000)).unwrap(),
            3 => fake.run(objects.checkpoint()).unwrap(),
            4 if n > 30 => fake.run(objects.snapshot(object, id(100 + n), Vec::new())).unwrap(),
            _ => {}
        }
    }
    (fake, target)
}

/// What looking over the device finds when nobody uses it.
fn look(fake: &Fake, target: Rc<Target>, closed: bool) -> ObjectsFound {
    if closed {
        fake.run(target.close()).unwrap();
    }
    drop(target);
    fake.kill();
    fake.run(verify(fake.env(), &mut |_, _| ())).unwrap().objects
}

#[test]
fn whatever_was_done_the_rows_agree_also_after_a_kill() {
    each(24, |random| {
        let (fake, target) = device(|bound| random.below(bound));
        let found = look(&fake, target, random.once_in(2));
        assert!(found.volumes == 1 && found.objects >= 8);
        assert_eq!((&found.damage, &found.contradictions), (&vec![], &vec![]));
        assert!(found.blocks > 0);
    });
}

#[test]
fn looking_over_changes_nothing() {
    let (fake, target) = device(|bound| 12_345 % bound);
    drop(target);
    fake.kill();
    let first = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap().objects;
    let second = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap().objects;
    assert!(first.records > 0, "opening would find records");
    assert_eq!(first, second);
}

#[test]
fn rotten_bytes_and_rows_are_found_by_looking_over() {
    let (fake, target) = device(|bound| 7_919 % bound);
    let objects = target.objects();
    fake.run(objects.write(target.stream(), id(3), 0, &[3; 100_000], Placement::Home)).unwrap();
    fake.run(objects.checkpoint()).unwrap();
    let (piece, leaf) = {
        let work = objects.work();
        let pieces = work.meta.tree.range(Key::piece(id(3), 0), Key::piece(id(3), 5));
        let piece = pieces.filter_map(|(_, row)| if let Row::Piece(p) = row { Some(p.at) } else { None }).next();
        (piece.unwrap(), work.meta.tree.leaf_of(Key::FIRST).unwrap().place.at)
    };
    drop(target);
    fake.kill();
    fake.disk.flip(BLOCK * piece + Bytes(5));
    let found = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap().objects;
    assert_eq!(found.damage.len(), 1, "{found:?}");
    assert_eq!((found.damage[0].owner.clone(), found.damage[0].at), (id(3).to_string(), BLOCK * piece));
    fake.disk.flip(BLOCK * leaf + Bytes(50));
    let found = fake.run(verify(fake.env(), &mut |_, _| ())).unwrap().objects;
    assert!(
        found
            .contradictions
            .iter()
            .map(|c| &c.what)
            .chain(found.damage.iter().map(|d| &d.what))
            .any(|w| w.contains("table"))
    );
}

#[test]
fn rows_that_contradict_one_another_are_told() {
    // What is made wrong in the rows, and what is said of it.
    type Spoil = fn(&mut crate::object::tree::Tree);
    let cases: [(Spoil, &str); 5] = [
        (
            |tree| {
                let Some(Row::Head(mut head)) = tree.take(&Key::head(id(2))) else { panic!("no head") };
                head.blocks += 1;
                tree.put(Key::head(id(2)), Row::Head(head));
            },
            "says that it has",
        ),
        (|tree| drop(tree.take(&Key::head(id(2)))), "rows and no head"),
        (
            |tree| {
                let Some(Row::Piece(piece)) = tree.get(&Key::piece(id(2), 0)).cloned() else { panic!("no piece") };
                tree.put(Key::piece(id(2), 500), Row::Piece(piece));
            },
            "objects more than is said",
        ),
        (|tree| drop(tree.take(&Key::piece(id(2), 0))), "no object has them"),
        (
            |tree| {
                let key = Key { id: id(2), part: Part::Attribute { page: 1, number: 1 } };
                let Some(Row::Head(head)) = tree.get(&Key::head(id(2))).cloned() else { panic!("no head") };
                tree.put(key, Row::Head(head));
            },
            "not what its key says",
        ),
    ];
    for (spoil, words) in cases {
        let (fake, target) = testing::device(Bytes::mib(64));
        let objects = target.objects();
        for object in 1..=3 {
            fake.run(objects.create(id(object), Vec::new())).unwrap();
            fake.run(objects.write(target.stream(), id(object), 0, &[1; 50_000], Placement::Home)).unwrap();
        }
        spoil(&mut objects.work_mut().meta.tree);
        fake.run(objects.checkpoint()).unwrap();
        let found = look(&fake, target, false);
        assert!(found.contradictions.iter().any(|c| c.what.contains(words)), "{words}: {:?}", found.contradictions);
    }
}
