use super::*;
use crate::disk::{Mechanism, presets};
use forebay_env::Device;
use forebay_model::{ObjectId, Profile};
use forebay_target::Target;
use forebay_target::layout::Layout;
use forebay_target::object::Placement;
use forebay_target::object::rows::Quota;

fn load(policy: Policy, iops: u64) -> MixedLoad {
    MixedLoad { disk: presets::smr(), policy, iops, span: Duration::from_secs(60) }
}

/// At the middle of the shortest first, in ms.
fn median(latencies: &[Duration]) -> f64 {
    latencies[latencies.len() / 2].as_secs_f64() * 1e3
}

/// One whose appends are under way side by side, ours, and one that is always under the arm.
#[test]
fn near_logs_on_a_shingled_disk_are_faster_than_one_far_away_and_nearly_as_fast_as_logs_can_be() {
    let policies = [Policy::Single, Policy::Nearest, Policy::Ideal];
    let [single, nearest, ideal] = policies.map(|policy| run_mixed(1, &load(policy, 60)).unwrap());
    assert_eq!(single.all().len(), nearest.all().len(), "the same accesses");
    let means = [&single, &nearest, &ideal].map(|outcome| mean(&outcome.all()).as_secs_f64() * 1e3);
    assert!(means[1] < means[0] && means[2] < means[1] && means[1] < means[2] * 1.25, "{means:?} ms");
    let writes = [&single, &nearest].map(|outcome| median(&outcome.writes));
    assert!(writes[1] < writes[0] * 0.9, "{writes:?} ms");
    let share = nearest.disk.busy.as_secs_f64() / nearest.took.as_secs_f64();
    assert!((0.5..0.8).contains(&share), "the arm is busy for {share} of the time");
    assert!(nearest.sequential_writes.len() > 20 && nearest.sequential_reads.len() > 100);
}

#[test]
fn every_policy_is_asked_for_the_same_and_the_same_seed_gives_the_same() {
    let short = |policy| MixedLoad { span: Duration::from_secs(5), ..load(policy, 20) };
    let [home, again] = [(); 2].map(|()| run_mixed(3, &short(Policy::Home)).unwrap());
    assert_eq!(home, again);
    let single = run_mixed(3, &short(Policy::Single)).unwrap();
    assert_eq!((home.reads.len(), home.writes.len()), (single.reads.len(), single.writes.len()));
    assert!(home.reads.len() > 20 && home.writes.len() > 20, "{} and {}", home.reads.len(), home.writes.len());
}

#[test]
fn mixed_loads_that_cannot_be_run_are_refused_with_the_remedy() {
    let message = |load: MixedLoad| run_mixed(1, &load).unwrap_err().message;
    assert_eq!(message(load(Policy::Home, 0)), "0 accesses a second; give 1 to 100000");
    assert_eq!(
        message(load(Policy::Data, 10)),
        "the mixed load is not modelled for data; take home, single, nearest or ideal"
    );
    let nothing = MixedLoad { span: Duration::ZERO, ..load(Policy::Home, 10) };
    assert_eq!(message(nothing), "nothing can be measured in no time; give --seconds 1 or more");
    let small = MixedLoad { disk: presets::smr().scaled(100), ..load(Policy::Home, 10) };
    assert!(message(small).ends_with("take a larger disk"));
}

#[test]
fn logs_and_checkpoints_of_a_shingled_disk_lie_where_its_tracks_do_not_overlap() {
    let spec = presets::smr();
    let Mechanism::Shingled(shingled) = spec.mechanism.clone() else { panic!("{spec:?}") };
    let world = World::new(1);
    let layout = Layout::for_geometry(&world.disk(spec).geometry()).unwrap();
    assert_eq!((layout.group, layout.log), (Bytes::mib(320), Bytes::mib(10)));
    let plain = |from: Bytes, length: Bytes| {
        let (first, last) = (from.0 / shingled.band.0, (from + length).0.div_ceil(shingled.band.0));
        (first..last).all(|band| shingled.is_plain(band))
    };
    assert!(plain(layout.area_at(0), layout.area * 2));
    for group in 0..layout.groups {
        let log = layout.group_at(group) + layout.data(true);
        assert!(plain(log, layout.log), "the log of group {group} at {log}");
        assert!(!plain(layout.group_at(group), Bytes(1)), "data begins with a band that overlaps");
    }
}

#[test]
fn objects_on_a_shingled_disk_are_there_after_a_power_cut() {
    let world = World::new(5);
    let disk = world.disk(presets::smr().scaled(200));
    let id = ObjectId { volume: 1, object: 1 };
    let small = |at: u64| vec![at as u8 + 1; 5000];
    world
        .run_until_cut(async {
            let geometry = disk.geometry();
            Target::format(world.env(disk.clone()), Profile::guess(geometry.size, true)).await?;
            let target = Target::open(world.env(disk.clone())).await?;
            assert!(target.layout().is_zoned());
            let (objects, stream) = (target.objects(), target.stream());
            objects.create_volume(1, Quota::default()).await?;
            objects.create(id, Vec::new()).await?;
            for at in 0..20 {
                objects.write(stream, id, at << 20, &small(at), Placement::Auto).await?;
            }
            assert!(objects.redirected() > Bytes::ZERO, "they are in logs");
            Ok::<(), Error>(())
        })
        .unwrap()
        .unwrap();
    world.crash(&[&disk]);
    world
        .run(async {
            let target = Target::open(world.env(disk.clone())).await?;
            let (objects, stream) = (target.objects(), target.stream());
            objects.ready().await?;
            for at in 0..20 {
                assert_eq!(objects.read(stream, id, at << 20, 5000).await?, small(at), "at {at} MiB");
            }
            target.close().await
        })
        .unwrap();
}
