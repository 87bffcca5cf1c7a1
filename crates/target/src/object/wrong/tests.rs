use super::super::Placement;
use super::super::rows::BLOCK;
use super::super::testing::{device, id};
use forebay_model::{Bytes, Kind};

#[test]
fn what_was_found_damaged_counts_as_put_right_when_it_is_written_again_and_not_when_it_is_gone() {
    let (fake, target) = device(Bytes::mib(64));
    let objects = target.objects();
    let write = |object: u64, block: u64, value: u8, blocks: u64| {
        let bytes = vec![value; (blocks * BLOCK.0) as usize];
        let written = objects.write(target.stream(), id(object), block * BLOCK.0, &bytes, Placement::Auto);
        fake.run(written).unwrap();
    };
    objects.set_cache(Bytes::ZERO);
    for object in 1..=2 {
        fake.run(objects.create(id(object), Vec::new())).unwrap();
        write(object, 0, object as u8, 80);
    }
    let spoil = |object: u64, block: u64| {
        let at = objects.work().stretches(id(object), block, block + 1)[0].at;
        fake.disk.flip(BLOCK * at + Bytes(9));
        let read = fake.run(objects.read(target.stream(), id(object), block * BLOCK.0, BLOCK.0));
        assert_eq!(read.expect_err("it is damaged").kind, Kind::Damaged);
    };
    (3..6).for_each(|block| spoil(1, block));
    spoil(2, 7);
    let counted = || (objects.counters().damaged, objects.counters().mended);
    assert_eq!(counted(), (4, 0));
    // Beside them, and then two of them.
    write(1, 6, 5, 1);
    assert_eq!(counted(), (4, 0));
    write(1, 4, 5, 2);
    assert_eq!(counted(), (4, 2));
    write(1, 4, 6, 2);
    fake.run(objects.remove(id(2))).unwrap();
    assert_eq!(counted(), (4, 2));
    write(1, 0, 7, 80);
    assert_eq!(counted(), (4, 3));
}
