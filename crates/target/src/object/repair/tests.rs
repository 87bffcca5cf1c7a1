use crate::fake::Fake;
use crate::object::audit::ObjectsFound;
use crate::object::rows::{BLOCK, Head, Key, Piece, Row, Shared};
use crate::object::space::Run;
use crate::object::testing::{self, id};
use crate::object::{Placement, Work};
use crate::verify::verify;
use forebay_model::{Bytes, ObjectId};
use std::time::Duration;

/// Bytes of object `n`.
fn content(n: u64) -> Vec<u8> {
    (0..50_000 * n).map(|at| (at / 7 * n) as u8).collect()
}

/// A device with three objects of some pieces, one in a log, and a snapshot; and its rows made wrong by `spoil`.
fn spoiled(spoil: impl FnOnce(&mut Work)) -> Fake {
    let (fake, target) = testing::device(Bytes::mib(64));
    let objects = target.objects();
    for n in 1..=3 {
        fake.run(objects.create(id(n), Vec::new())).unwrap();
        fake.run(objects.write(target.stream(), id(n), 0, &content(n), Placement::Home)).unwrap();
    }
    fake.run(objects.snapshot(id(1), id(9), Vec::new())).unwrap();
    fake.run(objects.write(target.stream(), id(2), 0, &content(2)[..8192], Placement::Log)).unwrap();
    spoil(&mut objects.work_mut());
    fake.run(objects.checkpoint()).unwrap();
    drop(target);
    fake.kill();
    fake
}

fn look(fake: &Fake) -> ObjectsFound {
    fake.run(verify(fake.env(), &mut |_, _| ())).unwrap().objects
}

/// Puts right what can be; the target is closed again.
fn repair(fake: &Fake) -> ObjectsFound {
    let target = testing::opened(fake);
    let found = fake.run(target.objects().repair(&mut |_, _| ())).unwrap();
    fake.run(target.close()).unwrap();
    drop(target);
    fake.kill();
    found
}

fn head(work: &mut Work, n: u64, spoil: impl FnOnce(&mut Head)) {
    work.meta.change_head(id(n), spoil);
}

fn piece(work: &Work, n: u64) -> Piece {
    match work.meta.tree.get(&Key::piece(id(n), 0)) {
        Some(Row::Piece(piece)) => piece.clone(),
        other => panic!("{other:?} is no piece"),
    }
}

#[test]
fn what_follows_from_other_rows_is_made_anew_and_all_bytes_are_there() {
    type Spoil = fn(&mut Work);
    let cases: [(Spoil, &str); 7] = [
        (|work| head(work, 2, |head| head.blocks += 5), "says that it has"),
        (
            |work| {
                work.meta.change_head(ObjectId::volume(1), |head| {
                    let holds = head.volume.as_mut().unwrap();
                    (holds.objects, holds.blocks) = (1, 2);
                });
            },
            "says that it holds",
        ),
        // Taken, and nobody's.
        (|work| drop(work.meta.data.allocate(10, None).unwrap()), "no object has them"),
        // An object's, and free: whoever writes next would overwrite it.
        (
            |work| {
                let at = piece(work, 3).at;
                work.meta.data.give(Run { at, blocks: 4 });
            },
            "are said to be free",
        ),
        // Shared with the snapshot, and not said so: the first to let it go would free it.
        (
            |work| {
                let at = piece(work, 1).at;
                work.meta.set_sharers(Run { at: at + 1, blocks: 3 }, 0);
            },
            "more than is said",
        ),
        (
            |work| {
                let at = piece(work, 3).at;
                work.meta.tree.put(Key::shared(at), Row::Shared(Shared { blocks: 2, more: 4 }));
            },
            "more than have them",
        ),
        (
            |work| {
                let group = (0..64).find(|group| work.meta.logs.state(*group).1 > 0).unwrap();
                work.meta.logs.recount(group, 1);
            },
            "are said to be needed",
        ),
    ];
    for (spoil, words) in cases {
        let fake = spoiled(spoil);
        let found = look(&fake);
        assert!(found.contradictions.iter().any(|c| c.what.contains(words) && c.repairable), "{words}: {found:?}");
        assert_eq!(repair(&fake).contradictions, found.contradictions, "{words}");
        let after = look(&fake);
        assert_eq!((&after.contradictions, &after.damage), (&vec![], &vec![]), "{words}");
        let target = testing::opened(&fake);
        let objects = target.objects();
        for n in [1, 2, 3, 9] {
            let content = content(if n == 9 { 1 } else { n });
            assert!(fake.run(objects.read(target.stream(), id(n), 0, 1 << 20)).unwrap() == content, "{words}: {n}");
        }
        // What was put right serves: all can be removed, and then everything is free.
        [1, 2, 3, 9].into_iter().for_each(|n| fake.run(objects.remove(id(n))).unwrap());
        fake.run(objects.checkpoint()).unwrap();
        let work = objects.work();
        assert_eq!(work.meta.data.free(), work.meta.data.capacity(), "{words}");
    }
}

#[test]
fn what_follows_from_nothing_stays_and_is_told() {
    let fake = spoiled(|work| drop(work.meta.tree.take(&Key::head(id(2)))));
    let found = repair(&fake);
    let stays = |found: &ObjectsFound| found.contradictions.iter().any(|c| c.what.contains("no head") && !c.repairable);
    assert!(stays(&found), "{found:?}");
    let after = look(&fake);
    assert!(stays(&after) && after.contradictions.len() == 1, "what could be put right was: {after:?}");
}

#[test]
fn nothing_is_put_right_beside_rows_that_cannot_be_read() {
    let fake = spoiled(|work| head(work, 2, |head| head.blocks += 5));
    let target = testing::opened(&fake);
    for n in 20..60 {
        fake.run(target.objects().create(id(n), vec![(1, 1, vec![1; 3000])])).unwrap();
    }
    fake.run(target.objects().checkpoint()).unwrap();
    let leaf = target.objects().work().meta.tree.leaf_of(Key::head(id(59))).unwrap().place.at;
    drop(target);
    fake.kill();
    let one = |found: &ObjectsFound, repairable| matches!(&found.contradictions[..], [c] if c.what.contains("says that it has") && c.repairable == repairable);
    let found = look(&fake);
    assert!(one(&found, true), "{found:?}");
    fake.disk.flip(BLOCK * leaf + Bytes(50));
    for found in [look(&fake), repair(&fake), look(&fake)] {
        assert!(!found.damage.is_empty() && one(&found, false), "{found:?}");
    }
}

#[test]
fn a_repair_that_is_cut_off_anywhere_leaves_what_was_there_or_what_is_right() {
    let (mut as_before, mut right) = (0, 0);
    for span in (0..8000).step_by(250).map(Duration::from_micros) {
        let fake = spoiled(|work| {
            head(work, 2, |head| head.blocks += 5);
            drop(work.meta.data.allocate(10, None).unwrap());
        });
        let before = look(&fake).contradictions;
        let target = testing::opened(&fake);
        let objects = target.objects().clone();
        fake.env().spawner.detach(async move { drop(objects.repair(&mut |_, _| ()).await) });
        fake.wait(span);
        drop(target);
        fake.kill();
        let after = look(&fake).contradictions;
        assert!(after.is_empty() || after == before, "after {span:?}: {after:?}");
        as_before += u32::from(after == before);
        right += u32::from(after.is_empty());
    }
    assert!(as_before > 0 && right > 0, "{as_before} and {right}");
}
