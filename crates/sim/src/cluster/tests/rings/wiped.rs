//! Rings whose manager loses its disk, whenever it says that all it has answered is in copies: while they are recorded into, leave
//! targets that drain, are copied, and others come and go.

use super::idle::{over, whole_answer_once_it_is_there};
use super::leaving::{ALONE, leave, on, states, with_ring_among};
use super::replaced::{lose, nodes_of, until_replaced};
use super::spread::{STRIPED, WITH_PARITY, make_ring, missing, steps};
use super::*;
use crate::cluster::tests::keeper::{Keeper, drain, wait_until_empty};
use crate::cluster::tests::wiped::without_copies_as;
use forebay_client::rings::PartState;
use forebay_manager::recover::What;
use forebay_model::ring::Spread;

/// What a ring and those beside it went through.
#[derive(Debug, Default, Clone, Copy)]
struct Lived {
    wiped: u32,
    /// Of these, while the target of a node was away.
    wiped_beside: u32,
    moved: u32,
}

/// What was answered of rings and their pins, besides what was recorded.
struct Answered {
    beside: BTreeSet<String>,
    /// Their labels: numbers are others where a ring lies in two places.
    pins: BTreeSet<String>,
    names: u32,
}

impl Answered {
    /// Another ring is made, one of those is removed, or something of the ring is pinned or let go of.
    fn work(&mut self, cluster: &Cluster, machine: &ClientMachine) {
        let (world, rings) = (cluster.world(), machine.files.rings());
        let chance = world.random();
        let one = |all: usize| chance.below(all.max(1) as u64) as usize;
        match chance.below(4) {
            0 => {
                self.names += 1;
                let name = format!("/{}", self.names);
                let spec = RingSpec { guarantee: Rate::mb(1), ..RingSpec::new(&name, Bytes::mib(32)) };
                world.run(async move { rings.create(spec, RING_MODE).await.expect("there is room") });
                self.beside.insert(name);
            }
            1 => {
                let Some(name) = self.beside.iter().nth(one(self.beside.len())).cloned() else { return };
                self.beside.remove(&name);
                world.run(async move { rings.remove(&name).await.expect("it is there") });
            }
            2 => {
                self.names += 1;
                let (label, to) = (self.names.to_string(), world.clock().wall());
                let asked = label.clone();
                let pinned = world.run(async move {
                    let ring = rings.open("/ring", true).await?;
                    ring.pin(&asked, Timestamp::MIN, to).await
                });
                self.pins.extend(pinned.is_ok().then_some(label));
            }
            _ => {
                let Some(label) = self.pins.iter().nth(one(self.pins.len())).cloned() else { return };
                self.pins.remove(&label);
                world.run(async move {
                    let ring = rings.open("/ring", true).await.expect("it is there");
                    let pins = ring.pins().await.expect("all targets are there");
                    let pin = pins.iter().find(|pin| pin.label == label).expect("it is held");
                    ring.unpin(pin.id).await.expect("it is held");
                });
            }
        }
    }

    /// All that was answered is so, and nothing else.
    fn check(&self, cluster: &Cluster, machine: &ClientMachine) {
        let (world, files) = (cluster.world(), machine.files.clone());
        let (listed, _) = world.run(async move { files.list("/", "").await.expect("it is there") });
        let there: BTreeSet<String> = listed.iter().map(|one| format!("/{}", one.name)).collect();
        let all = self.beside.iter().cloned().chain(["/ring".to_string()]).collect();
        assert_eq!(there, all);
        self.check_pins(cluster, machine);
    }

    fn check_pins(&self, cluster: &Cluster, machine: &ClientMachine) {
        let rings = machine.files.rings();
        let pins = cluster.world().run(async move {
            let ring = rings.open("/ring", true).await.expect("it is there");
            ring.pins().await.expect("all targets are there")
        });
        let pins: BTreeSet<String> = pins.into_iter().map(|pin| pin.label).collect();
        assert_eq!(pins, self.pins);
    }
}

/// The manager loses its disk, if all it has answered is in copies, and is made anew of what targets have, of that of this node perhaps
/// not; whether that was so.
fn wipe(cluster: &Cluster, without: Option<usize>) -> bool {
    let copied_on = cluster.copied_on();
    let mut looked_at = cluster.places().filter(|place| Some(cluster.node_of(*place)) != without);
    if !looked_at.any(|place| copied_on.contains(&cluster.target(place))) {
        return false;
    }
    let recovered = cluster.remade(|node| Some(node) != without);
    let is_away = |what: &What| matches!(what, What::Lacks { .. }) && without.is_some();
    assert!(recovered.findings.iter().all(|found| is_away(&found.what)), "{:?}", recovered.findings);
    cluster.restart_manager();
    (0..cluster.nodes.len()).filter(|node| Some(*node) != without).for_each(|node| cluster.restart_node(node));
    true
}

fn life(seed: u64, spread: Spread) -> (Lived, u64) {
    // In every other one, machines have two targets.
    let (nodes, targets) = if seed.is_multiple_of(2) { (8, 1) } else { (5, 2) };
    let world = Rc::new(World::new(seed));
    let cluster = Cluster::new(world.clone(), ClusterSpec { targets, copies: true, ..spec(nodes) });
    // The first copy is there a moment after nodes have reported.
    world.run_for(Duration::from_secs(5));
    make_ring(&cluster, spread);
    let (chance, moved, mut lived) = (world.random(), Rc::default(), Lived::default());
    let mut answered = Answered { beside: BTreeSet::new(), pins: BTreeSet::new(), names: 0 };
    let mut past = Vec::new();
    let mut looker = cluster.client_machine("looker");
    for session in 1..=5 {
        let keeper = Keeper::new(&cluster, &format!("keeper of {session}"), &moved);
        let mut recording = Recording::begin(&cluster, session);
        steps(&mut recording, &world, &*chance, 300);
        (0..chance.below(4)).for_each(|_| answered.work(&cluster, &looker));
        let there = nodes_of(&cluster, &looker);
        drain(&cluster, &looker, there[chance.below(there.len() as u64) as usize]);
        // Half of the times it is copied when nobody records any more; otherwise it may leave, twenty seconds after somebody began.
        let recording = if chance.below(2) == 0 {
            past.push(over(&world, recording));
            world.run_for(Duration::from_millis(chance.below(6000)));
            None
        } else {
            (0..chance.below(1500)).for_each(|_| recording.step_of(&world, &*chance, 3));
            Some(recording)
        };
        (0..chance.below(3)).for_each(|_| answered.work(&cluster, &looker));
        let mut away = None;
        if chance.below(3) == 0 {
            let node = chance.below(u64::from(nodes)) as usize;
            cluster.crash_node(node);
            away = Some(node);
            world.run_for(Duration::from_millis(chance.below(3000)));
        }
        if wipe(&cluster, away) {
            lived.wiped += 1;
            lived.wiped_beside += u32::from(away.is_some());
            // Nobody's keys count any more.
            keeper.machine.host.crash();
            looker.host.crash();
            looker = cluster.client_machine(&format!("looker since {session}"));
            if let Some(recording) = recording {
                recording.machine.host.crash();
                past.push(recording.past(false));
            }
        } else if let Some(mut recording) = recording {
            steps(&mut recording, &world, &*chance, 100);
            recording.machine.host.kill();
            past.push(recording.past(false));
        }
        keeper.machine.host.kill();
        if let Some(node) = away {
            cluster.restart_node(node);
        }
        world.run_for(Duration::from_secs(10));
        let found = whole_answer_once_it_is_there(&cluster);
        assert_eq!(missing(&found, &past), 0, "what was acknowledged is there");
        answered.check(&cluster, &looker);
    }
    let keeper = Keeper::new(&cluster, "the last keeper", &moved);
    let at = nodes_of(&cluster, &looker)[0];
    drain(&cluster, &looker, at);
    wait_until_empty(&cluster, &looker, at);
    lived.moved = keeper.moved.get();
    assert_eq!(missing(&whole_answer_once_it_is_there(&cluster), &past), 0, "what was acknowledged is there");
    answered.check(&cluster, &looker);
    // What came to nothing is removed, wherever it was; what was left and not run over yet is read.
    let left = states(&cluster, &looker).iter().filter(|state| **state == PartState::Left).count();
    let rings = looker.files.rings();
    for name in std::mem::take(&mut answered.beside) {
        let rings = rings.clone();
        world.run(async move { rings.remove(&name).await.expect("it is there") });
    }
    let parts = |cluster: &Cluster| cluster.places().filter(|place| on(cluster, *place).is_some()).count();
    let end = world.now() + Duration::from_secs(3600);
    while parts(&cluster) > spread.components() as usize + left {
        assert!(world.now() < end, "what is left behind is removed some time: {} parts", parts(&cluster));
        world.run_for(Duration::from_secs(10));
    }
    assert!(nodes_of(&cluster, &looker).iter().all(|node| on(&cluster, *node).is_some()));
    (lived, world.trace())
}

#[test]
fn outcome_45_rings_have_what_was_acknowledged_whenever_the_manager_loses_its_disk() {
    let all = Cell::new(Lived::default());
    seeds::each(6, |seed| {
        for spread in [ALONE, STRIPED, WITH_PARITY] {
            let (lived, sum) = (life(seed, spread).0, all.get());
            all.set(Lived {
                wiped: sum.wiped + lived.wiped,
                wiped_beside: sum.wiped_beside + lived.wiped_beside,
                moved: sum.moved + lived.moved,
            });
        }
    });
    println!("{:?}", all.get());
    let Lived { wiped, wiped_beside, moved } = all.get();
    assert!(!seeds::are_the_suites() || wiped > 40 && wiped_beside > 8 && moved > 30, "{:?}", all.get());
}

#[test]
fn the_same_seed_is_the_same_life_of_a_ring_whose_manager_loses_its_disk() {
    assert_eq!(life(1, WITH_PARITY).1, life(1, WITH_PARITY).1);
}

/// A ring that goes through all that may have happened to its parts before nothing is known of it any more, and goes on then.
fn forgotten(seed: u64, spread: Spread) {
    let (world, cluster, nodes) = with_ring_among((8, 1), seed, spread);
    let (chance, looker) = (world.random(), cluster.client_machine("looker"));
    let (moved, mut past) = (Rc::default(), Vec::new());
    let mut recording = Recording::begin(&cluster, 1);
    (0..20).for_each(|_| recording.step(&world, &*chance));
    steps(&mut recording, &world, &*chance, 600);
    // It lies where it lay; or a part has left its target, was copied to another one, or began anew elsewhere.
    let at = chance.below(nodes.len() as u64) as usize;
    match seed % 4 {
        0 => past.push(over(&world, recording)),
        1 => {
            leave(&mut recording, &cluster, &looker, nodes[at]);
            (0..chance.below(100)).for_each(|_| recording.step(&world, &*chance));
            past.push(over(&world, recording));
        }
        2 => {
            past.push(over(&world, recording));
            let keeper = Keeper::new(&cluster, "keeper", &moved);
            drain(&cluster, &looker, nodes[at]);
            wait_until_empty(&cluster, &looker, nodes[at]);
            keeper.machine.host.kill();
        }
        _ if spread.parity => {
            lose(&cluster, &looker, nodes[at]);
            until_replaced(&mut recording, &cluster, &looker, &*chance, nodes[at]);
            past.push(over(&world, recording));
            // What was lost may be found again.
            if chance.below(2) == 0 {
                cluster.restart_node(nodes[at]);
            }
        }
        _ => past.push(over(&world, recording)),
    }
    let there = nodes_of(&cluster, &looker);
    let before = whole_answer_once_it_is_there(&cluster);
    assert_eq!(missing(&before, &past), 0);
    let label = "held".to_string();
    let (ring, to, asked) = (open(&cluster, "pins", true), world.clock().wall(), label.clone());
    let pinned = world.run(async move { ring.pin(&asked, Timestamp::MIN, to).await }).is_ok();
    // With parity, one of its targets may be lost, too, if none was before.
    let is_spare = spread.parity && seed % 4 != 3 && chance.below(2) == 0;
    let without = is_spare.then(|| there[chance.below(there.len() as u64) as usize]);
    without_copies_as(&cluster, without, "/ring");
    assert_eq!(missing(&whole_answer_once_it_is_there(&cluster), &past), 0, "{there:?} without {without:?}");
    if without.is_none() {
        let (looker, answered) = (cluster.client_machine("looks"), pinned.then_some(label).into_iter().collect());
        Answered { beside: BTreeSet::new(), pins: answered, names: 0 }.check_pins(&cluster, &looker);
    }
    // It is recorded on, and moved; what was lost lies elsewhere then.
    let mut recording = Recording::begin(&cluster, 2);
    steps(&mut recording, &world, &*chance, 400);
    (0..2000).for_each(|_| recording.step_of(&world, &*chance, 3));
    past.push(over(&world, recording));
    let looker = cluster.client_machine("looks again");
    let now = nodes_of(&cluster, &looker);
    assert!(without.is_none_or(|without| !now.contains(&without)), "{now:?} without {without:?}");
    let found = whole_answer_once_it_is_there(&cluster);
    assert_eq!(missing(&found, &past), 0, "{there:?} without {without:?}, now {now:?}");
    if spread.parity && without.is_none() {
        cluster.crash_node(now[chance.below(now.len() as u64) as usize]);
        let found = whole_answer_once_it_is_there(&cluster);
        // What may have gone on elsewhere has to come round before it bears another loss.
        let may_have_left = !seed.is_multiple_of(4) && !away(&found).is_empty();
        assert!(missing(&found, &past) == 0 || may_have_left, "also without another one");
    }
}

#[test]
fn outcome_45_a_ring_of_which_no_copy_is_left_is_made_anew_of_what_its_parts_say() {
    seeds::each(8, |seed| [ALONE, STRIPED, WITH_PARITY].into_iter().for_each(|spread| forgotten(seed, spread)));
}

#[test]
fn of_a_ring_of_which_no_copy_is_left_a_lost_part_that_nothing_makes_up_for_is_told_as_missing() {
    for lost in 0..3 {
        let (world, cluster, nodes) = with_ring_among((6, 1), 60 + lost, STRIPED);
        let chance = world.random();
        let mut recording = Recording::begin(&cluster, 1);
        (0..300).for_each(|_| recording.step(&world, &*chance));
        let past = [over(&world, recording)];
        without_copies_as(&cluster, Some(nodes[lost as usize]), "/ring");
        let found = whole_answer_once_it_is_there(&cluster);
        let gone = missing(&found, &past);
        assert!(gone > 0 && !away(&found).is_empty(), "{gone} are missing, and that is told");
    }
}
