use super::load;
use crate::Target;
use crate::fake::Fake;
use crate::schedule::Scheduler;
use forebay_model::{Bytes, Kind, Profile};
use std::time::Duration;

const SIZE: Bytes = Bytes::mib(64);

/// What a single look says is wrong.
fn glimpse(fake: &Fake) -> Vec<String> {
    let disk = Scheduler::new(fake.env(), Profile::guess(SIZE, false));
    fake.run(load(&disk)).map_or_else(|error| vec![error.message], |found| found.complaints)
}

#[test]
fn a_copy_that_a_commit_is_writing_is_not_damaged_for_one_who_looks() {
    let fake = Fake::new(SIZE, false);
    let target = fake.target();
    let before = fake.run(Target::inspect(fake.env())).unwrap().0.generation;
    // The area of a copy is written, and its root waits.
    fake.disk.hold_writes_after(1);
    let (core, spawner) = (target.core(), fake.env().spawner);
    core.next_pin();
    let committing = spawner.spawn(async move { core.commit().await });
    fake.wait(Duration::from_millis(10));
    assert_eq!(glimpse(&fake).len(), 1, "one copy is half written");
    let looking = spawner.spawn(Target::inspect(fake.env()));
    // Longer than it looks once.
    fake.wait(Duration::from_millis(100));
    fake.disk.let_writes_go();
    let (committed, looked) = fake.run(async { (committing.await, looking.await) });
    committed.unwrap();
    let (superblock, _, complaints) = looked.unwrap();
    assert_eq!((superblock.generation, complaints), (before + 1, Vec::new()));
}

#[test]
fn who_looks_again_and_again_beside_an_owner_that_commits_finds_nothing_damaged() {
    let fake = Fake::new(SIZE, false);
    let target = fake.target();
    let (core, env) = (target.core(), fake.env());
    fake.env().spawner.detach(async move {
        core.next_pin();
        while core.commit().await.is_ok() {
            core.next_pin();
            env.clock.sleep(Duration::from_micros(env.random.below(10_000))).await;
        }
    });
    let mut doubtful = 0;
    for look in 0..300 {
        fake.wait(Duration::from_micros(fake.below(5_000)));
        doubtful += usize::from(!glimpse(&fake).is_empty());
        let (_, _, complaints) = fake.run(Target::inspect(fake.env())).unwrap_or_else(|e| panic!("look {look}: {e}"));
        assert!(complaints.is_empty(), "look {look}: {complaints:?}");
    }
    assert!(doubtful > 0, "no single look was while a copy was written");
}

#[test]
fn what_is_damaged_stays_so_and_is_said() {
    let fake = Fake::new(SIZE, false);
    drop(fake.target());
    fake.kill();
    let layout = fake.run(Target::inspect(fake.env())).unwrap().0.layout;
    fake.disk.flip(layout.area_at(0));
    let (_, _, complaints) = fake.run(Target::inspect(fake.env())).unwrap();
    assert_eq!(complaints, glimpse(&fake));
    assert!(complaints.len() == 1 && complaints[0].contains("checkpoint copy 0"), "{complaints:?}");
    fake.disk.flip(layout.area_at(1));
    let error = fake.run(Target::inspect(fake.env())).expect_err("nothing is whole");
    assert!(error.kind == Kind::Damaged && error.message.contains("--rebuild"), "{error}");
    // Of what is never the same for two looks that cannot be said.
    let (disk, clock) = (fake.disk.clone(), fake.env().clock);
    fake.env().spawner.detach(async move {
        for n in 0..80 {
            clock.sleep(Duration::from_millis(7)).await;
            (0..2).for_each(|which| disk.flip(layout.area_at(which) + Bytes(1 + n % 40)));
        }
    });
    let error = fake.run(Target::inspect(fake.env())).expect_err("nothing is whole");
    assert!(error.kind == Kind::Busy && error.message.contains("look again"), "{error}");
}
