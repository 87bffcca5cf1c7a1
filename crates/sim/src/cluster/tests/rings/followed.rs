//! Who follows a ring while what was given and was not durable is lost with its target.

use super::*;
use forebay_env::Task;
use std::cell::RefCell;

/// What was told, as elements and gaps.
pub(super) type Told = Rc<RefCell<Vec<Found>>>;

/// Follows the ring, and asks again from behind the last element as often as the answer breaks.
pub(super) fn follow(world: &Rc<World>, cluster: &Cluster) -> (Told, Task<()>) {
    let ring = open(cluster, "tail", false);
    let told = Told::default();
    let task = world.spawner().spawn({
        let (told, world) = (told.clone(), world.clone());
        async move {
            let mut from = 0;
            loop {
                let query = asked(&world, format!("seq >= {from}"), true);
                let Ok(mut answer) = ring.query(query).await else { continue };
                let mut joined = Vec::new();
                while let Ok(Part::Batch(batch)) = answer.next().await {
                    let mut visit = |event: Event<'_>| {
                        match event {
                            Event::Element { sequence, payload, .. } => {
                                let at = |at| u64::from_le_bytes(payload[at..at + 8].try_into().expect("eight bytes"));
                                assert!(payload[16..].iter().all(|byte| *byte == 7), "it is one element");
                                from = sequence + 1;
                                told.borrow_mut().push(Found::Element { session: at(0), number: at(8) });
                            }
                            Event::Gap(gap) => told.borrow_mut().push(Found::Gap(gap)),
                            Event::Expired { .. } => {}
                        }
                        Ok(true)
                    };
                    forebay_client::answer::visit_batch(&batch, &mut joined, &mut visit).expect("it is visited");
                }
            }
        }
    });
    (told, task)
}

/// The host of a ring and of who records there loses power: what was told that is not there any more, and the trace.
fn life(seed: u64, most: u64) -> (usize, u64) {
    let (world, cluster, _maker) = with_one(seed);
    let (chance, node) = (world.random(), node_of(&cluster));
    let (told, tail) = follow(&world, &cluster);
    let mut recording = Recording::begin(&cluster, 1);
    (0..chance.below(100)).for_each(|_| recording.step(&world, &*chance));
    // More than fits a block, and it is given before it is durable.
    for _ in 0..20 {
        recording.offer(&world, chance.below(most) as usize);
    }
    recording.tell_time(&world);
    recording.recorder.tick().expect("it goes on");
    world.run_for(Duration::from_millis(chance.below(30)));
    recording.machine.host.crash();
    cluster.crash_node(node);
    let before: BTreeSet<(u64, u64)> = told.borrow().iter().filter_map(Found::element).collect();
    world.run_for(Duration::from_secs(2));
    cluster.restart_node(node);
    let mut next = Recording::begin(&cluster, 2);
    (0..5).for_each(|_| next.offer(&world, 100));
    next.settle(&world);
    world.run_for(Duration::from_secs(30));
    let there = read_of(&cluster, &open(&cluster, "reader", false), String::new());
    let there: Vec<(u64, u64)> = there.iter().filter_map(Found::element).collect();
    let told = told.borrow();
    let elements: Vec<(u64, u64)> = told.iter().filter_map(Found::element).collect();
    let unique: BTreeSet<(u64, u64)> = elements.iter().copied().collect();
    assert_eq!(unique.len(), elements.len(), "nothing is told twice");
    assert!(there.iter().all(|element| unique.contains(element)), "{there:?} is there, and told is {elements:?}");
    let restarts = told.iter().filter_map(Found::gap).filter(|gap| gap.cause == Cause::Restart).count();
    let had_something = there.iter().any(|(session, _)| *session == 1);
    assert!(restarts > 0 || !had_something, "that it began anew is told");
    drop(tail);
    (before.iter().filter(|element| !there.contains(element)).count(), world.trace())
}

#[test]
fn who_follows_a_ring_is_told_what_has_the_numbers_of_what_was_lost_with_the_power_of_its_host() {
    let lost = Cell::new(0);
    seeds::each(60, |seed| lost.set(lost.get() + life(seed, 9000).0));
    assert!(!seeds::are_the_suites() || lost.get() > 0, "nothing was ever told before it was durable");
}

#[test]
fn an_element_of_which_the_end_was_lost_is_not_put_together_with_another_one_of_its_number() {
    seeds::each(12, |seed| {
        life(seed, 300_000);
    });
}
