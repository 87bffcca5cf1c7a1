use super::*;
use crate::disk::presets;
use crate::world::World;

fn array(world: &World, disks: usize) -> Array {
    let disks: Vec<_> = (0..disks).map(|_| world.disk(presets::cheetah15k())).collect();
    Array::new(&Disks::simulated(world, &disks), &ElevatorSpec::default()).unwrap()
}

fn parts(array: &Array, at: u64, length: u64) -> Vec<Vec<(u64, u64)>> {
    let mut parts = vec![Vec::new(); array.width() as usize];
    split(array.width(), at, length, &mut parts);
    parts
}

const UNIT: u64 = STRIPE.0;

#[test]
fn a_range_is_split_by_units_and_is_one_piece_on_each_disk() {
    let world = World::new(1);
    let four = array(&world, 4);
    assert_eq!(parts(&four, 0, 8 * UNIT), vec![vec![(0, 2 * UNIT)]; 4]);
    assert_eq!(
        parts(&four, 5 * UNIT + 4096, UNIT),
        vec![vec![], vec![(UNIT + 4096, UNIT - 4096)], vec![(UNIT, 4096)], vec![]]
    );
    assert_eq!(parts(&array(&world, 1), 12_288, 10 * UNIT), vec![vec![(12_288, 10 * UNIT)]]);
}

#[test]
fn four_disks_stream_four_times_as_fast() {
    let rate = |disks| {
        let world = World::new(1);
        let array = array(&world, disks);
        world.run(array.transfer(Op::Read, 0, 256 << 20)).unwrap();
        (256u64 << 20) as f64 / world.now().since(Default::default()).as_secs_f64()
    };
    let gain = rate(4) / rate(1);
    assert!((3.5..4.2).contains(&gain), "{gain}");
}

#[test]
fn one_failed_part_fails_the_whole_and_a_flush_without_caches_costs_nothing() {
    let world = World::new(1);
    let disks = [world.disk(presets::cheetah15k()), world.disk(presets::cheetah15k())];
    let array = Array::new(&Disks::simulated(&world, &disks), &ElevatorSpec::default()).unwrap();
    disks[1].inject(crate::disk::Fault::Fail { op: Op::Write, nth: 0, sticky: true });
    world.run(array.transfer(Op::Write, 0, UNIT)).unwrap();
    assert!(world.run(array.transfer(Op::Write, 0, 2 * UNIT)).is_err());
    let before = world.now();
    world.run(array.flush()).unwrap();
    assert_eq!(world.now(), before);
}
