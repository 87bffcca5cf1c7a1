//! Two rings on one disk whose superblocks and checkpoints are lost.

use forebay_env::Env;
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Cause, Gap, Kind, Rate, Result, TargetId};
use forebay_sim::anatomy::Part;
use forebay_sim::disk::{Survival, presets};
use forebay_sim::feeder::Feeder;
use forebay_sim::reader::{Event, read};
use forebay_sim::stage::{Ending, NAME, Scene, Stage, element};
use forebay_target::Target;
use forebay_target::rebuild::{self, Plan};
use std::collections::BTreeMap;

/// A ring that uses the log areas of its groups, and has other segments than the first.
pub const OTHER: &str = "/other";

/// Both rings, and what they are called once they are rebuilt, if no trailer says what they were.
const RECOVERED: [(&str, &str); 2] = [(NAME, "/recovered/1"), (OTHER, "/recovered/2")];

pub const BOTH: [&str; 2] = [NAME, OTHER];

/// What was read of a ring that was rebuilt.
pub fn of<'a>(after: &'a Answers, ring: &str) -> &'a Vec<Event> {
    let (own, other) = RECOVERED.into_iter().find(|(own, _)| *own == ring).unwrap();
    after.get(own).or_else(|| after.get(other)).unwrap()
}

/// What queries for all of each ring told.
pub type Answers = BTreeMap<String, Vec<Event>>;

/// Two rings on one disk, empty.
pub fn two_rings(seed: u64) -> Stage {
    let stage = Stage::new(seed, presets::ssd().scaled(12_000), |spec| {
        spec.capacity = Bytes::mib(3);
        spec.segment = Bytes::kib(300);
    });
    let env = stage.env();
    stage.world.run(async move {
        let target = Target::open(env).await.unwrap();
        let mut spec = RingSpec::new(OTHER, Bytes::mib(4));
        (spec.block, spec.segment) = (Bytes::kib(64), Bytes::kib(500));
        // The highest rate there is takes the log areas, too.
        for rate in (1..100).rev() {
            spec.guarantee = Rate::mb(rate);
            if target.create_ring(spec.clone()).await.is_ok() {
                break;
            }
        }
        target.close().await.unwrap();
    });
    stage.world.kill();
    let (_, catalog, _) = stage.world.run(Target::inspect(stage.env())).unwrap();
    let without_logs: Vec<bool> = catalog.rings.values().map(|ring| ring.without_logs).collect();
    assert_eq!(without_logs, [false, true]);
    stage
}

/// Records `count` elements of some lengths into a ring, and waits until they are durable.
pub async fn feed(env: &Env, target: &Target, name: &str, count: u64, most: u64) -> Result<()> {
    let ring = target.ring(name)?;
    ring.ready().await?;
    let first = ring.status().next_sequence;
    let mut feeder = Feeder::new(ring, env.clock.clone(), env.random.next_u64())?;
    for number in first..first + count {
        let length = if number % 50 == 7 { most } else { 100 + env.random.below(5000) };
        let known = element(env.clock.wall(), number, length);
        feeder.element(known.time, &[&known.bytes]).await?;
        if number % 40 == 3 {
            let gap = Gap { cause: Cause::Kernel, count: Some(number), first: known.time, last: known.time };
            feeder.gap(&gap).await?;
        }
        // A long stream has several segments under way.
        if count < 600 && number % 9 == 0 {
            feeder.durable().await?;
        }
    }
    feeder.durable().await.map(drop)
}

pub async fn all(env: &Env, target: &Target) -> Answers {
    let mut answers = BTreeMap::new();
    for status in target.status() {
        let ring = target.ring(&status.spec.name).unwrap();
        let (events, _) = read(ring, "all", &env.clock, &env.spawner).await.unwrap();
        answers.insert(status.spec.name, events);
    }
    answers
}

/// So many elements come last in each ring, alone in their blocks.
pub const UNPROVEN: usize = 3;

/// Records into both rings, reads them, and ends; what was read.
pub fn record(stage: &Stage, counts: [u64; 2], ending: Ending) -> Answers {
    let env = stage.env();
    let answers = stage.world.run(async move {
        let target = Target::open(env.clone()).await.unwrap();
        feed(&env, &target, NAME, counts[0], 40_000).await.unwrap();
        feed(&env, &target, OTHER, counts[1], 150_000).await.unwrap();
        // The last blocks say of those before them that they were durable: where all trailers are lost, nothing else tells those
        // from what a crash undid.
        for name in [NAME, OTHER].repeat(UNPROVEN) {
            feed(&env, &target, name, 1, 100).await.unwrap();
        }
        let answers = all(&env, &target).await;
        if ending == Ending::Closed {
            target.close().await.unwrap();
        }
        answers
    });
    match ending {
        Ending::Cut => stage.world.crash(&[&stage.disk]),
        _ => stage.world.kill(),
    }
    answers
}

/// Overwrites everything before the first group.
pub fn wipe(stage: &Stage) {
    let layout = forebay_target::layout::Layout::for_device(stage.disk.spec().size).unwrap();
    stage.disk.poke(Bytes::ZERO, &vec![0; layout.groups_at.0 as usize]);
}

pub fn look(stage: &Stage, wanted: Option<TargetId>) -> Result<Plan> {
    let plan = stage.world.run(rebuild::look(stage.env(), wanted, &mut |_, _| ()));
    stage.world.kill();
    plan
}

/// Looks, which writes nothing, and writes what was found.
pub fn rebuild(stage: &Stage) -> Plan {
    let before = stage.image();
    let said = look(stage, None).unwrap();
    assert!(stage.image() == before, "looking writes nothing");
    let plan = look(stage, None).unwrap();
    stage.world.run(plan.write(stage.env())).unwrap();
    stage.world.kill();
    let layout = stage.world.run(Target::inspect(stage.env())).unwrap().0.layout;
    let at = layout.groups_at.0 as usize;
    assert!(stage.image()[at..] == before[at..], "only superblock and checkpoint are written");
    let error = look(stage, None).err().expect("there is a whole pair now");
    assert!(error.kind == Kind::Refused && error.message.contains("nothing to rebuild"), "{error}");
    said
}

/// The power goes at each write of a rebuilding after `lose` took something away: either it is done, or it is refused and done again.
/// Each plan and what is read afterwards are as they are demanded to be.
pub fn cut_at_each_write(
    scene: &Scene,
    lose: impl Fn(&Stage, u64),
    check_plan: impl Fn(&Plan),
    check: impl Fn(&Answers),
) {
    for survival in [Survival::Random, Survival::Nothing, Survival::Everything] {
        for cut in 1.. {
            let stage = scene.begin(cut);
            lose(&stage, cut);
            let plan = look(&stage, None).unwrap();
            stage.disk.set_survival(survival);
            stage.disk.cut_after(cut);
            let over = stage.world.run_until_cut(plan.write(stage.env())).is_ok();
            stage.disk.no_cut();
            if stage.world.run(Target::inspect(stage.env())).is_err() {
                let again = look(&stage, None).unwrap();
                check_plan(&again);
                stage.world.run(again.write(stage.env())).unwrap();
            }
            stage.world.kill();
            check(&read_all(&stage));
            assert!(!over || cut > 8, "{cut}");
            if over {
                break;
            }
        }
    }
}

/// Loses both copies, and has them written anew; what is read then.
pub fn wiped_and_rebuilt(stage: &Stage) -> Answers {
    wipe(stage);
    let plan = look(stage, None).unwrap();
    stage.world.run(plan.write(stage.env())).unwrap();
    stage.world.kill();
    read_all(stage)
}

pub fn read_all(stage: &Stage) -> Answers {
    let env = stage.env();
    let answers = stage.world.run(async move {
        let target = Target::open(env.clone()).await.unwrap();
        let answers = all(&env, &target).await;
        target.close().await.unwrap();
        answers
    });
    stage.world.kill();
    answers
}

pub fn sequences(events: &[Event]) -> Vec<u64> {
    events.iter().filter_map(|e| if let Event::Element { sequence, .. } = e { Some(*sequence) } else { None }).collect()
}

/// The elements among what was told, by sequence.
pub fn elements(events: &[Event]) -> BTreeMap<u64, &Event> {
    let of = |e: &Event| if let Event::Element { sequence, .. } = e { Some(*sequence) } else { None };
    events.iter().filter_map(|e| of(e).map(|n| (n, e))).collect()
}

pub fn damaged(events: &[Event]) -> u64 {
    let count = |e: &Event| match e {
        Event::Gap(gap) if gap.cause == Cause::Damaged => gap.count.unwrap_or(1),
        _ => 0,
    };
    events.iter().map(count).sum()
}

/// Everything that was there is there, as it was; what is there beside it had expired, and is as it was recorded.
pub fn same(before: &Answers, after: &Answers) {
    same_but_the_last(0, before, after);
}

/// The same, but that of the last so many of each ring some may not be there.
pub fn same_but_the_last(unproven: usize, before: &Answers, after: &Answers) {
    assert_eq!(after.len(), BOTH.len());
    for ring in BOTH {
        let (old, new) = (&before[ring], of(after, ring));
        let data = |e: &&Event| !matches!(e, Event::Expired(..));
        let (first, was): (u64, Vec<&Event>) = (sequences(old)[0], old.iter().filter(data).collect());
        let now: Vec<&Event> = new
            .iter()
            .filter(data)
            .skip_while(|e| !matches!(e, Event::Element { sequence, .. } if *sequence >= first))
            .collect();
        let lead = was.iter().position(|e| matches!(e, Event::Element { .. })).unwrap();
        let was = &was[lead..];
        let most = was.len() - unproven..=was.len();
        assert!(most.contains(&now.len()), "{:?} after {:?}", sequences(new), sequences(old));
        assert!(now == was[..now.len()], "something is other than it was");
        assert_eq!(damaged(new), 0);
    }
}

/// The rings take more, and return that too.
pub fn goes_on(stage: &Stage, before: &Answers) {
    for (name, count) in before.keys().zip([90, 120]) {
        let env = stage.env();
        stage.world.run(async move {
            let target = Target::open(env.clone()).await.unwrap();
            feed(&env, &target, name, count, 30_000).await.unwrap();
            target.close().await.unwrap();
        });
        stage.world.kill();
        let then = sequences(&before[name]);
        let now = read_all(stage).remove(name).unwrap();
        assert!(damaged(&now) <= damaged(&before[name]));
        let (end, now) = (then.last().unwrap() + 1, sequences(&now));
        assert_eq!(*now.last().unwrap(), end + count - 1, "{name}");
        assert!(now.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(now.iter().filter(|n| **n >= end).count() as u64, count, "{name}");
    }
}

pub fn two_laps() -> (Scene, Answers, Vec<Part>) {
    let stage = two_rings(5);
    record(&stage, [700, 300], Ending::Closed);
    let before = record(&stage, [800, 400], Ending::Killed);
    let parts = stage.parts();
    assert!(before.values().all(|events| sequences(events)[0] > 0), "each ring has gone round");
    (stage.scene(), before, parts)
}
