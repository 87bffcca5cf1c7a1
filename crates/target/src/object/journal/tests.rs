use super::Batch;
use crate::fake::Fake;
use crate::object::record::{Change, Write};
use crate::object::rows::{BLOCK, Crcs, Quota};
use forebay_model::{Bytes, ObjectId, Timestamp};
use std::rc::Rc;

#[test]
fn records_written_side_by_side_count_only_when_all_before_them_do() {
    let fake = Fake::new(Bytes::mib(64), false);
    let target = fake.target();
    let id = ObjectId { volume: 1, object: 1 };
    fake.run(target.objects().create_volume(1, Quota::default())).unwrap();
    fake.run(target.objects().create(id, Vec::new())).unwrap();
    let objects = target.objects();
    let before = objects.work().durable;
    // What is queued is taken away at once, as if its write were under way; the loop does not run meanwhile.
    let write = |block: u64| {
        let content = vec![block as u8 + 1; BLOCK.0 as usize];
        let logged = vec![(block, Crcs::of(&content))];
        let (time, size) = (Timestamp(0), (block + 1) * BLOCK.0);
        let change = Change::Write(Write {
            id,
            time,
            size,
            commands: 1,
            dropped: None,
            logged,
            inline: None,
            pieces: Vec::new(),
        });
        objects.enact(&[change], &mut content.to_vec(), false).unwrap();
        let mut work = objects.work_mut();
        let records = Rc::new(work.queue.drain(..).collect::<Vec<_>>());
        work.batches.push_back(Batch { records: records.clone(), taken: false, written: false });
        records
    };
    let (first, second) = (write(0), write(1));
    let numbers = [&first, &second].map(|records| records.last().unwrap().number);
    objects.batch_written(&second);
    assert_eq!((objects.work().durable, objects.work().unwritten.len()), (before, 2), "a hole is before it");
    objects.batch_written(&first);
    assert_eq!((objects.work().durable, objects.work().unwritten.len()), (numbers[1], 0));
    assert!(objects.work().batches.is_empty() && numbers[0] < numbers[1]);
}
