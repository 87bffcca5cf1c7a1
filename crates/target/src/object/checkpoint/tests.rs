use crate::object::Placement;
use crate::object::testing::{device, id, read};
use forebay_model::Bytes;
use std::time::Duration;

/// Objects whose bytes lie in rows: enough for many more leaves than are written at once.
const OBJECTS: u64 = 1500;

#[test]
fn leaves_on_their_way_to_the_device_are_not_looked_for_there() {
    let (fake, target) = device(Bytes::mib(256));
    let objects = target.objects();
    let written = |number: u64| vec![number as u8; 1000];
    (1..=OBJECTS).for_each(|number| fake.run(objects.create(id(number), Vec::new())).unwrap());
    // Together, so that no checkpoint comes between.
    let write = |number: u64| {
        let (objects, stream) = (objects.clone(), target.stream());
        async move { objects.write(stream, id(number), 0, &written(number), Placement::Auto).await }
    };
    let writes: Vec<_> = (1..=OBJECTS).map(|number| fake.env().spawner.spawn(write(number))).collect();
    writes.into_iter().for_each(|write| fake.run(write).unwrap());
    let before = objects.counters().checkpoints;
    objects.set_rows_in_memory(Bytes::ZERO);
    let checkpoint = fake.env().spawner.spawn({
        let objects = objects.clone();
        async move { objects.checkpoint().await }
    });
    // From the end: the first leaves are soon written.
    let mut number = OBJECTS;
    while !checkpoint.is_finished() {
        fake.run(fake.env().clock.sleep(Duration::from_micros(20)));
        // As each record that goes out does.
        objects.work_mut().meta.tree.trim();
        assert!(read(&fake, &target, number) == written(number), "object {number}");
        number -= 20;
    }
    fake.run(checkpoint).unwrap();
    assert!(objects.work().meta.tree.leaves() > 20);
    assert_eq!(objects.counters().checkpoints, before + 1);
}
