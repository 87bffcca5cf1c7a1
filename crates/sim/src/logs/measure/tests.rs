use super::*;
use crate::disk::presets;
use crate::world::World;
use forebay_model::Bytes;
use std::cell::RefCell;

/// Two seconds on a device of which only that is known.
fn on_a_device(policy: Policy) -> (Outcome, Vec<(Stage, Bytes, Bytes)>) {
    let world = World::new(1);
    let disk = world.disk(presets::ssd().scaled(250));
    let load = Load { span: Duration::from_secs(2), ..Load::beside_reader(policy, 80) };
    let stages = RefCell::new(Vec::new());
    let tell = |stage, _| {
        let counters = disk.counters();
        stages.borrow_mut().push((stage, counters.bytes_read, counters.bytes_written));
    };
    let outcome = world.run(on_disks(Disks::real(vec![world.env(disk.clone())], 1), &load, &tell)).unwrap();
    (outcome, stages.into_inner())
}

#[test]
fn each_policy_runs_on_any_device_and_writes_first_what_will_be_read() {
    let file = {
        let places = Places::new(presets::ssd().scaled(250).size, 1).unwrap();
        Bytes(places.read.end - places.read.start)
    };
    for (name, policy) in Policy::ALL.into_iter().filter(|(name, _)| *name != "ideal") {
        let (outcome, stages) = on_a_device(policy);
        let names: Vec<Stage> = stages.iter().map(|(stage, ..)| *stage).collect();
        assert_eq!(names, [Stage::Preparing, Stage::Alone, Stage::Beside, Stage::Settling], "{name}");
        assert_eq!((outcome.latencies.len(), outcome.due), (8, 8), "{name}");
        assert!(outcome.latencies[0] > Duration::ZERO, "{name}");
        let share = outcome.read.unwrap().share();
        assert!((0.2..1.1).contains(&share), "{name}: {share}");
        assert!(stages[1].2 >= file, "{name}: {} of {file} are written before it is read", stages[1].2);
    }
}

#[test]
fn what_a_reader_goes_over_again_and_again_comes_from_the_device_each_time() {
    let (outcome, stages) = on_a_device(Policy::Nearest);
    let [.., (_, before, _), (_, after, _)] = stages[..] else { panic!("{stages:?}") };
    let moved = Bytes(outcome.read.unwrap().beside.0 * 2);
    assert!(after - before >= moved, "{} of {moved}", after - before);
}
