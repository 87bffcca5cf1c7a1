//! Who follows a ring with parity is told everything once, while targets come and go and are lost.

use super::replaced::{lose, nodes_of, until_replaced};
use super::spread::{STRIPED, WITH_PARITY, heal, steps, strike, with_ring};
use super::*;
use crate::disk::{Fault, Op};
use forebay_env::Task;
use std::cell::RefCell;
use std::collections::BTreeSet;

/// What a tail was told.
#[derive(Default)]
pub(super) struct Told {
    elements: BTreeSet<(u64, u64)>,
    /// Elements that were told again.
    pub(super) twice: u64,
    /// Gaps of targets that were away.
    pub(super) gaps: Vec<Gap>,
    pub(super) error: Option<Error>,
    /// Whether an element goes on in what comes next.
    is_within: bool,
}

/// A client that follows the ring.
pub(super) struct Tail {
    pub(super) machine: ClientMachine,
    pub(super) told: Rc<RefCell<Told>>,
    _task: Task<()>,
}

impl Tail {
    pub(super) fn begin(cluster: &Cluster, name: &str) -> Tail {
        let machine = cluster.client_machine(name);
        let rings = machine.files.rings();
        let ring = cluster.world().run(async move { rings.open("/ring", false).await.expect("it is there") });
        let query = asked(cluster.world(), String::new(), true);
        let told = Rc::new(RefCell::new(Told::default()));
        let task = cluster.world().spawner().spawn({
            let told = told.clone();
            async move {
                let (mut answer, mut joined) = (ring.query(query).await.expect("it is asked"), Vec::new());
                loop {
                    let batch = match answer.next().await {
                        Ok(Part::Batch(batch)) => batch,
                        Ok(Part::End(_)) => return,
                        Err(error) => {
                            told.borrow_mut().error = Some(error);
                            return;
                        }
                    };
                    told.borrow_mut().is_within = matches!(batch.items.last(), Some(Item::Element { last: false, .. }));
                    let mut visit = |event: Event<'_>| {
                        let told = &mut *told.borrow_mut();
                        match event {
                            Event::Element { payload, .. } => {
                                let at = |at| u64::from_le_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
                                told.twice += u64::from(!told.elements.insert((at(0), at(8))));
                            }
                            Event::Gap(gap) if gap.cause == Cause::TargetAway => told.gaps.push(gap),
                            _ => {}
                        }
                        Ok(true)
                    };
                    forebay_client::answer::visit_batch(&batch, &mut joined, &mut visit).expect("it is visited");
                }
            }
        });
        Tail { machine, told, _task: task }
    }

    /// When those elements were recorded that were accepted and that it was not told.
    pub(super) fn missing(&self, recording: &Recording) -> Vec<Timestamp> {
        let (told, all) = (self.told.borrow(), recording.accepted.iter().zip(&recording.times));
        all.filter(|(number, _)| !told.elements.contains(&(recording.session, **number)))
            .map(|(_, time)| *time)
            .collect()
    }
}

/// A life in which targets come and go before a tail, one at a time, and now and then one is lost for good.
fn life(seed: u64) -> u64 {
    let (world, cluster, nodes) = with_ring(seed, WITH_PARITY);
    let (chance, looker) = (world.random(), cluster.client_machine("looker"));
    let mut recording = Recording::begin(&cluster, 1);
    steps(&mut recording, &world, &*chance, 100);
    let tail = Tail::begin(&cluster, "tail");
    // Which part was lost for good: the next one is borne when that has come round, which takes longer than this.
    let (mut nodes, mut lost) = (nodes, None);
    for _ in 0..4 {
        steps(&mut recording, &world, &*chance, 60);
        let at = chance.below(nodes.len() as u64) as usize;
        let how = chance.below(if lost.is_none() { 7 } else { 6 });
        match how {
            0..4 => strike(&cluster, &recording.machine, nodes[at], how),
            4 => strike(&cluster, &tail.machine, nodes[at], chance.below(2)),
            5 => {
                strike(&cluster, &tail.machine, nodes[at], 0);
                strike(&cluster, &recording.machine, nodes[at], 0);
            }
            _ => {
                lose(&cluster, &looker, nodes[at]);
                until_replaced(&mut recording, &cluster, &looker, &*chance, nodes[at]);
                nodes = nodes_of(&cluster, &looker);
                lost = Some(at);
                continue;
            }
        }
        steps(&mut recording, &world, &*chance, 300);
        heal(&cluster, nodes[at]);
        steps(&mut recording, &world, &*chance, 200);
        // So that all are there again for who records: two at once are not borne.
        recording.settle(&world);
    }
    recording.settle(&world);
    world.run_for(Duration::from_secs(90));
    let told = tail.told.borrow();
    assert!(told.error.is_none(), "it goes on: {:?}", told.error);
    assert_eq!(told.twice, 0, "{nodes:?}, lost {lost:?}");
    let missing = tail.missing(&recording);
    if lost.is_none() {
        let counted: Vec<&Gap> = told.gaps.iter().filter(|gap| gap.count.is_some()).collect();
        assert!(counted.is_empty() && missing.is_empty(), "all of it can be had: {}, {counted:?}", missing.len());
    }
    // What others had missed that is needed for what is lost, nobody has.
    assert_told(&missing, &told.gaps, &format!("{nodes:?}, lost {lost:?}"));
    world.trace()
}

#[test]
fn who_follows_a_ring_with_parity_is_told_everything_once_whichever_target_comes_and_goes_or_is_lost() {
    seeds::each(16, |seed| {
        life(seed);
    });
}

#[test]
fn the_same_seed_is_the_same_life_before_a_tail() {
    assert_eq!(life(3), life(3));
}

#[test]
fn a_tail_goes_on_where_a_lost_part_lies_by_now_with_what_had_not_been_given_of_it() {
    for at in 0..4 {
        let (world, cluster, nodes) = with_ring(7 + at as u64, WITH_PARITY);
        let (chance, looker) = (world.random(), cluster.client_machine("looker"));
        let mut recording = Recording::begin(&cluster, 1);
        let tail = Tail::begin(&cluster, "tail");
        steps(&mut recording, &world, &*chance, 200);
        // What its target takes now does not reach it, and is lost then.
        strike(&cluster, &tail.machine, nodes[at], 0);
        steps(&mut recording, &world, &*chance, 100);
        let behind = tail.missing(&recording).len();
        lose(&cluster, &looker, nodes[at]);
        until_replaced(&mut recording, &cluster, &looker, &*chance, nodes[at]);
        steps(&mut recording, &world, &*chance, 300);
        recording.settle(&world);
        world.run_for(Duration::from_secs(60));
        let told = tail.told.borrow();
        assert!(behind > 0 || at == 3, "something was there that had not been given");
        assert_eq!((tail.missing(&recording).len(), told.twice), (0, 0), "part {at}, gaps {:?}", told.gaps);
        // What the parity alone knew that is lost, nobody knows.
        assert_eq!(told.gaps.len(), usize::from(at == 3), "part {at}: {:?}", told.gaps);
    }
}

#[test]
fn a_tail_without_parity_is_told_what_a_target_has_that_had_failed_and_is_opened_again() {
    let (world, cluster, nodes) = with_ring(11, STRIPED);
    let chance = world.random();
    let mut recording = Recording::begin(&cluster, 1);
    let tail = Tail::begin(&cluster, "tail");
    let all_of = |recording: &mut Recording| {
        for _ in 0..300 {
            recording.step_of(&world, &*chance, 40);
        }
    };
    all_of(&mut recording);
    cluster.disk(nodes[1]).inject(Fault::Fail { op: Op::Write, nth: 0, sticky: true });
    for _ in 0..4 {
        all_of(&mut recording);
    }
    assert!(cluster.disk(nodes[1]).counters().failed > 0, "the disk failed");
    cluster.crash_node(nodes[1]);
    cluster.disk(nodes[1]).calm();
    cluster.restart_node(nodes[1]);
    let back = world.clock().wall();
    for _ in 0..4 {
        all_of(&mut recording);
    }
    recording.settle(&world);
    world.run_for(Duration::from_secs(90));
    let told = tail.told.borrow();
    assert!(told.error.is_none() && told.twice == 0, "{} twice, {:?}", told.twice, told.error);
    let missing = tail.missing(&recording);
    let since = missing.iter().filter(|time| **time > back.after(Duration::from_secs(5))).count();
    assert_eq!(since, 0, "all three are there; gaps {:?}", told.gaps);
    assert_told(&missing, &told.gaps, "of one that had failed");
}

#[test]
fn a_tail_without_parity_goes_on_with_what_others_have_when_a_target_goes_away_within_an_element() {
    for at in 0..3 {
        let (world, cluster, nodes) = with_ring(12, STRIPED);
        let chance = world.random();
        let mut recording = Recording::begin(&cluster, 1);
        let tail = Tail::begin(&cluster, "tail");
        let small = |recording: &mut Recording, steps: u32| {
            for _ in 0..steps {
                recording.tell_time(&world);
                recording.offer(&world, chance.below(3000) as usize);
                recording.recorder.tick().expect("it goes on");
                world.run_for(Duration::from_millis(100));
            }
        };
        small(&mut recording, 50);
        // Some blocks of it go to one target, and the rest is not there yet.
        let (number, time) = (recording.offered, Timestamp(world.clock().wall().0 + recording.offered as i64));
        let begins = [recording.session.to_le_bytes(), number.to_le_bytes()].concat();
        recording.recorder.begin(time, &[]).expect("there is room");
        recording.recorder.part(&begins).expect("there is room");
        recording.recorder.part(&[7; 150_000]).expect("there is room");
        recording.accepted.push(number);
        recording.times.push(time);
        recording.offered += 1;
        let end = world.now() + Duration::from_secs(10);
        while !tail.told.borrow().is_within {
            assert!(world.now() < end, "what is there of it is told");
            world.run_for(Duration::from_millis(1));
        }
        // It is that one, once in three times.
        strike(&cluster, &tail.machine, nodes[at], 0);
        recording.tell_time(&world);
        recording.recorder.part(&[7; 50_000]).expect("there is room");
        recording.recorder.end().expect("there is room");
        small(&mut recording, 600);
        let (told, all) = (tail.told.borrow().elements.len(), recording.accepted.len());
        assert!(told > 300, "{told} of {all} while node {} is away", nodes[at]);
        cluster.network().heal();
        recording.settle(&world);
        world.run_for(Duration::from_secs(30));
        let told = tail.told.borrow();
        assert!(told.error.is_none() && told.twice == 0, "{} twice, {:?}", told.twice, told.error);
        assert_eq!(tail.missing(&recording).len(), 0, "what it has comes when it is back; gaps {:?}", told.gaps);
    }
}
