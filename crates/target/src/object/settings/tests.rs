use super::{LOGGING, Logging, PAGE};
use crate::Target;
use crate::fake::Fake;
use crate::object::Placement;
use crate::object::logs::Settings;
use crate::object::rows::{BLOCK, Quota};
use forebay_model::settings::{SettingsChange, TargetSettings};
use forebay_model::{Bytes, Kind, ObjectId};
use std::rc::Rc;

const ONE: ObjectId = ObjectId { volume: 1, object: 1 };
const TWO: ObjectId = ObjectId { volume: 1, object: 2 };

/// A device of 64 MiB, with logs of 16 blocks, and two objects.
fn device() -> (Fake, Rc<Target>) {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    fake.run(async {
        target.objects().create_volume(1, Quota::default()).await.unwrap();
        target.objects().create(ONE, Vec::new()).await.unwrap();
        target.objects().create(TWO, Vec::new()).await.unwrap();
    });
    (fake, target)
}

fn write(fake: &Fake, target: &Target, id: ObjectId, at: u64, blocks: u64) {
    let bytes = vec![id.object as u8; (blocks * BLOCK.0) as usize];
    fake.run(target.objects().write(target.stream(), id, at * BLOCK.0, &bytes, Placement::Auto)).unwrap();
}

/// Blocks in logs.
fn logged(target: &Target) -> u64 {
    target.objects().redirected() / BLOCK
}

#[test]
fn an_objects_choice_counts_before_its_volumes_and_that_before_the_targets() {
    let (fake, target) = device();
    let objects = target.objects();
    let logging = |id| fake.run(objects.logging(id)).unwrap();
    assert_eq!(logging(ONE), Logging::UpTo(Bytes::kib(256)));
    let settings = Settings { logged_up_to: 4096, ..Settings::default() };
    fake.run(objects.set_settings(settings)).unwrap();
    write(&fake, &target, ONE, 0, 2);
    assert_eq!(logged(&target), 0, "it was too large");
    fake.run(objects.set_logging(ObjectId::volume(1), Some(Logging::UpTo(Bytes::kib(8))))).unwrap();
    fake.run(objects.set_logging(TWO, Some(Logging::Always))).unwrap();
    write(&fake, &target, ONE, 4, 2);
    assert_eq!(logged(&target), 2);
    write(&fake, &target, ONE, 8, 3);
    assert_eq!(logged(&target), 2);
    write(&fake, &target, TWO, 0, 3);
    assert_eq!(logged(&target), 5);
    drop(target);
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    fake.run(target.objects().ready()).unwrap();
    assert_eq!(target.objects().settings(), settings);
    let logging = |id| fake.run(target.objects().logging(id)).unwrap();
    assert_eq!((logging(ONE), logging(TWO)), (Logging::UpTo(Bytes::kib(8)), Logging::Always));
    fake.run(target.objects().set_logging(TWO, None)).unwrap();
    assert_eq!(logging(TWO), Logging::UpTo(Bytes::kib(8)));
}

#[test]
fn what_is_only_to_be_durable_stays_in_logs_until_they_are_full_and_goes_with_its_object() {
    let (fake, target) = device();
    let objects = target.objects();
    fake.run(objects.set_logging(TWO, Some(Logging::Always))).unwrap();
    write(&fake, &target, ONE, 0, 5);
    write(&fake, &target, TWO, 0, 6);
    write(&fake, &target, ONE, 9, 2);
    assert_eq!(fake.run(objects.take_home()).unwrap(), 7);
    assert_eq!(logged(&target), 6);
    assert_eq!(fake.run(objects.take_home()).unwrap(), 0);
    fake.run(objects.truncate(TWO, 2 * BLOCK.0)).unwrap();
    assert_eq!(logged(&target), 2, "what was cut off is nowhere");
    // Whatever comes, it goes home only when nothing else makes room.
    for n in 0..400 {
        write(&fake, &target, TWO, n * 4, 4);
    }
    assert!(objects.counters().homed > 7, "{:?}", objects.counters());
    let bytes = fake.run(objects.read(target.stream(), TWO, 0, 1600 * BLOCK.0)).unwrap();
    assert!(bytes.len() as u64 == 1600 * BLOCK.0 && bytes.iter().all(|byte| *byte == 2));
    fake.run(objects.remove(TWO)).unwrap();
    assert_eq!(logged(&target), 0);
}

#[test]
fn what_the_target_does_not_understand_is_refused_and_nothing_changes() {
    let (fake, target) = device();
    let objects = target.objects();
    for (number, value) in [
        (LOGGING, vec![9]),
        (LOGGING, vec![0, 1]),
        (LOGGING, Vec::new()),
        (7, vec![1]),
        (LOGGING, Logging::UpTo(Bytes(u64::MAX)).encode()),
    ] {
        let error = fake.run(objects.set_attributes(ONE, vec![(PAGE, number, Some(value))])).unwrap_err();
        assert_eq!(error.kind, Kind::Usage, "{error}");
    }
    for settings in [
        Settings { hot_percent: 0, ..Settings::default() },
        Settings { hot_percent: 101, ..Settings::default() },
        Settings { near_groups: 0, ..Settings::default() },
        Settings { logged_up_to: (64 << 20) + 1, ..Settings::default() },
        Settings { cache: (64 << 30) + 1, ..Settings::default() },
    ] {
        assert_eq!(fake.run(objects.set_settings(settings)).unwrap_err().kind, Kind::Usage);
    }
    assert_eq!(objects.settings(), Settings::default());
    assert_eq!(fake.run(objects.logging(ONE)).unwrap(), Logging::UpTo(Bytes::kib(256)));
}

#[test]
fn what_is_not_named_stays_and_the_cache_is_of_the_chosen_size_after_opening() {
    let (fake, target) = device();
    let objects = target.objects();
    let change = SettingsChange { cache: Some(Bytes::mib(3)), ..SettingsChange::default() };
    let chosen = fake.run(objects.change_settings(change)).unwrap();
    assert_eq!(chosen, TargetSettings { cache: Bytes::mib(3), ..TargetSettings::from(Settings::default()) });
    assert_eq!(objects.cache(), Bytes::mib(3));
    let change = SettingsChange { near_groups: Some(5), hot_percent: Some(101), ..SettingsChange::default() };
    assert_eq!(fake.run(objects.change_settings(change)).unwrap_err().kind, Kind::Usage);
    assert_eq!(fake.run(objects.change_settings(SettingsChange::default())).unwrap(), chosen);
    drop(target);
    fake.kill();
    let target = fake.run(Target::open(fake.env())).unwrap();
    fake.run(target.objects().ready()).unwrap();
    assert_eq!((target.objects().settings(), target.objects().cache()), (chosen.into(), Bytes::mib(3)));
}
