use super::{Load, Order, key};
use crate::disk::{DiskSpec, SimDisk, presets};
use crate::heap::load::Work;
use crate::heap::measure::{Setup, simulated};
use crate::seeds;
use crate::world::World;
use crate::{fresh, life};
use forebay_btree::{PageStore, Tree, TreeOptions};
use forebay_env::Env;
use forebay_model::heap::HeapSettings;
use forebay_target::Target;
use forebay_target::heap::{Heap, HeapOptions};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

type Keys = BTreeMap<Vec<u8>, Vec<u8>>;

/// The plain model.
#[derive(Default)]
struct Model {
    committed: Keys,
    under_way: Option<Keys>,
    now: Keys,
    commits: u64,
    aborts: u64,
    opened: u64,
}

const SMALL: TreeOptions = TreeOptions { page: 512, cached: 30, dirty: 12 };

async fn open(env: Env) -> (Rc<Target>, Tree<Rc<Heap>>) {
    let target = Target::open(env).await.unwrap();
    let heap = target.heap("/tree", HeapOptions { buffers: 6, ..HeapOptions::default() }).await.unwrap();
    (target, Tree::open(heap, SMALL).await.unwrap())
}

async fn content(tree: &mut Tree<Rc<Heap>>) -> Keys {
    let mut found = Keys::new();
    let mut last: Option<Vec<u8>> = None;
    tree.range(b"", None, |key, value| {
        assert!(last.as_deref().is_none_or(|last| last < key), "a range is in order");
        last = Some(key.to_vec());
        found.insert(key.to_vec(), value.to_vec());
        true
    })
    .await
    .unwrap();
    found
}

async fn one_life(env: Env, model: Rc<RefCell<Model>>) {
    let random = env.random.clone();
    let (_target, mut tree) = open(env).await;
    for _ in 0..random.below(3000) {
        let any = random.below(1200).to_be_bytes().to_vec();
        match random.below(1000) {
            0..550 => {
                let value = vec![random.next_u64() as u8; random.below(60) as usize];
                let before = tree.insert(&any, &value).await.unwrap();
                assert_eq!(before, model.borrow_mut().now.insert(any, value));
            }
            550..900 => {
                let before = tree.remove(&any).await.unwrap();
                assert_eq!(before, model.borrow_mut().now.remove(&any));
            }
            900..990 => assert_eq!(tree.get(&any).await.unwrap(), model.borrow().now.get(&any).cloned()),
            990..997 => {
                let now = model.borrow().now.clone();
                model.borrow_mut().under_way = Some(now);
                tree.commit().await.unwrap();
                let mut model = model.borrow_mut();
                model.committed = model.under_way.take().unwrap();
                model.commits += 1;
            }
            _ => {
                tree.abort().await.unwrap();
                let mut model = model.borrow_mut();
                model.now = model.committed.clone();
                model.aborts += 1;
            }
        }
        let (pages, dirty) = tree.in_memory();
        assert!(pages <= SMALL.cached && dirty <= SMALL.dirty);
    }
    assert!(content(&mut tree).await == model.borrow().now);
}

/// What was committed is there, in as many records as the tree has pages.
async fn verify(env: Env, model: Rc<RefCell<Model>>, seed: u64) {
    let (_target, mut tree) = open(env).await;
    let found = content(&mut tree).await;
    let heap = tree.store().clone();
    let used: u64 = heap.status().classes.iter().map(|class| class.used).sum();
    let shape = tree.verify().await.unwrap();
    assert_eq!((shape.keys, shape.pages), (found.len() as u64, used), "seed {seed}: records without a page");
    assert_eq!(PageStore::root(&heap).is_none(), used == 0);
    let mut model = model.borrow_mut();
    match model.under_way.take() {
        Some(under_way) if found == under_way => model.committed = under_way,
        _ => assert!(found == model.committed, "seed {seed}: the tree is not as it was committed"),
    }
    model.now = model.committed.clone();
    model.opened += 1;
}

fn lives(seed: u64, spec: DiskSpec) -> Model {
    let world = World::new(seed);
    let disk: SimDisk = world.disk(spec);
    let model = Rc::new(RefCell::new(Model::default()));
    world.run(async {
        let env = world.env(disk.clone());
        Target::format(env.clone(), fresh::guessed(&env)).await.unwrap();
        let target = Target::open(env).await.unwrap();
        target.create_heap("/tree", HeapSettings::default(), HeapOptions::default()).await.unwrap();
    });
    world.kill();
    for _ in 0..6 {
        life::ended(&world, &disk, 120, one_life(world.env(disk.clone()), model.clone()), async |env| {
            let target = Target::open(env).await.unwrap();
            target.heap("/tree", HeapOptions::default()).await.unwrap();
        });
        world.run(verify(world.env(disk.clone()), model.clone(), seed));
        world.kill();
    }
    model.take()
}

#[test]
fn a_tree_is_what_a_map_is_through_commits_aborts_and_power_cuts() {
    let sum = RefCell::new((0, 0, 0));
    seeds::each(18, |seed| {
        let model = lives(seed, life::disk(seed));
        let mut sum = sum.borrow_mut();
        *sum = (sum.0 + model.commits, sum.1 + model.aborts, sum.2 + model.opened);
    });
    let (commits, aborts, opened) = *sum.borrow();
    if seeds::are_the_suites() {
        assert!(commits > 60 && aborts > 20 && opened > 100, "{commits} commits, {aborts} aborts, {opened} openings");
    }
}

#[test]
fn keys_of_a_load_are_all_different() {
    let keys: BTreeSet<_> = (1..50_000).map(|number| key(7, 1, number, false)).collect();
    assert_eq!(keys.len(), 49_999);
    assert!(key(7, 1, 1, true) < key(7, 1, 256, true));
}

#[test]
fn keys_in_any_order_are_all_in_their_trees_in_the_end() {
    let setup = Setup { settings: HeapSettings::default(), options: HeapOptions::default() };
    for order in [Order::Rising, Order::Random, Order::Both] {
        let work = Work::Tree(Load { keys: 10_000, per_commit: 3000, order });
        let outcome = simulated(1, presets::ssd().scaled(100), setup, work, Rc::new(|_, _| ())).unwrap();
        assert_eq!(outcome.given.commits, 4);
        assert!(outcome.given.puts > 100 && outcome.given.frees > 5, "{outcome:?}");
    }
}
