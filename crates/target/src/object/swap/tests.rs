use crate::Target;
use crate::fake::Fake;
use crate::object::Placement;
use crate::object::rows::{BLOCK, Key};
use crate::object::testing::{self, again, id};
use forebay_model::{Bytes, ObjectId};
use std::rc::Rc;
use std::time::Duration;

const ONE: ObjectId = ObjectId { volume: 1, object: 1 };

/// A device of 64 MiB with logs of 16 blocks, an object on it, and `blocks` of that in logs near the arm.
fn device(blocks: u64) -> (Fake, Rc<Target>) {
    let (fake, target) = testing::device(Bytes::mib(64));
    fake.run(target.objects().create(ONE, Vec::new())).unwrap();
    (0..blocks).for_each(|n| write(&fake, &target, n));
    (fake, target)
}

fn write(fake: &Fake, target: &Target, block: u64) {
    let bytes = vec![block as u8 + 1; BLOCK.0 as usize];
    fake.run(target.objects().write(target.stream(), ONE, block * BLOCK.0, &bytes, Placement::Log)).unwrap();
}

fn whole(fake: &Fake, target: &Target, blocks: u64) {
    let bytes = fake.run(target.objects().read(target.stream(), ONE, 0, 1 << 20)).unwrap();
    assert_eq!(bytes.len() as u64, blocks * BLOCK.0);
    for (n, block) in bytes.chunks(BLOCK.0 as usize).enumerate() {
        assert!(block.iter().all(|byte| *byte == n as u8 + 1), "block {n}");
    }
}

/// Logs with something in them that is needed.
fn logs(target: &Target) -> Vec<u32> {
    let work = target.objects().work.borrow();
    (0..target.objects().core.layout().groups).filter(|group| work.meta.logs.state(*group).1 > 0).collect()
}

#[test]
fn in_a_pause_what_counts_in_a_full_log_goes_to_one_further_away_and_nothing_of_it_home() {
    let (fake, target) = device(14);
    let before = logs(&target);
    // A few of them are written anew: the old ones need not be copied.
    (0..3).for_each(|n| write(&fake, &target, n));
    fake.run(fake.env().clock.sleep(Duration::from_millis(700)));
    let counters = target.objects().counters();
    assert!(counters.swaps > 0 && counters.swapped < 14 && counters.homed == 0, "{counters:?}");
    let after = logs(&target);
    assert!(after.iter().any(|group| !before.contains(group)), "{before:?}, then {after:?}");
    whole(&fake, &target, 14);
    let target = again(&fake, target);
    whole(&fake, &target, 14);
    assert_eq!(target.objects().redirected(), BLOCK * 14);
}

#[test]
fn what_is_damaged_stays_and_the_rest_changes_places() {
    let (fake, target) = device(14);
    let at = {
        let work = target.objects().work.borrow();
        let (group, _) = work.meta.logs.fullest(false, 1)[0];
        BLOCK * work.meta.logs.at(group, 1)
    };
    fake.disk.flip(at + Bytes(70));
    fake.run(fake.env().clock.sleep(Duration::from_millis(700)));
    let read = |n: u64| fake.run(target.objects().read(target.stream(), ONE, n * BLOCK.0, BLOCK.0));
    let wrong = (0..14).filter(|n| read(*n).is_err()).count();
    assert!(wrong <= 1, "{wrong} blocks cannot be read");
    assert!((0..14).all(|n| read(n).map_or(true, |bytes| bytes.iter().all(|byte| *byte == n as u8 + 1))));
}

#[test]
fn what_cannot_be_told_of_stays_and_what_lies_beside_it_changes_places() {
    let (fake, target) = testing::device(Bytes::mib(64));
    let objects = target.objects();
    objects.work_mut().tending = true;
    // A leaf for each row.
    objects.set_leaf_split(Bytes(64));
    fake.run(async {
        for n in 1..=3 {
            objects.create(id(n), Vec::new()).await.unwrap();
            objects.write(target.stream(), id(n), 0, &[n as u8; 4096], Placement::Log).await.unwrap();
        }
        objects.checkpoint().await.unwrap();
    });
    let (log, filled) = objects.work().meta.logs.fullest(false, 1)[0];
    let state = || objects.work().meta.logs.state(log);
    assert_eq!(state(), (filled, 3), "all of them lie in one log");
    let leaf = objects.work().meta.tree.leaf_of(Key::logged(id(2), 0)).unwrap();
    objects.work_mut().meta.tree.shrink(0);
    fake.disk.lose(BLOCK * leaf.place.at);
    fake.run(objects.swap(log, filled, false)).unwrap();
    assert_eq!((state().1, objects.counters().swapped, objects.redirected()), (1, 2, BLOCK * 3));
    assert!(testing::read(&fake, &target, 1) == [1; 4096] && testing::read(&fake, &target, 3) == [3; 4096]);
    fake.disk.find_again();
    assert!(testing::read(&fake, &target, 2) == [2; 4096]);
}
