//! Keys in three real B+trees (`examples/btree`): in order in one, at random in the others, as in the load of pages; each
//! with a value of eight bytes. A record with the roots of all three is the root of the store.

use super::load::{Tell, tell_now_and_then};
use forebay_btree::{PageStore, Tree, TreeOptions};
use forebay_env::Random;
use forebay_model::{Error, Result};
use std::cell::Cell;
use std::rc::Rc;

/// Trees, if both orders are asked for: keys come in order in the first.
const TREES: usize = 3;
/// Pages that wait in memory, of all trees together: as many as in the load of pages.
const WAITING: usize = 4000;
/// Keys that are looked up after the load.
const LOOKED_UP: u64 = 1000;

/// In which order keys come.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Order {
    /// Each is greater than those before, in one tree.
    Rising,
    /// Any, in one tree.
    Random,
    /// Rising in one tree, any in two more.
    #[default]
    Both,
}

/// What is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Keys that are put into each of the trees.
    pub keys: u64,
    /// Keys between commits.
    pub per_commit: u64,
    /// In which order they come.
    pub order: Order,
}

/// A store for one of several trees: its commit only says which root that tree has.
#[derive(Clone)]
struct Shared<S> {
    store: S,
    root: Rc<Cell<Option<u64>>>,
}

impl<S: PageStore> PageStore for Shared<S> {
    async fn put(&self, bytes: &[u8]) -> Result<u64> {
        self.store.put(bytes).await
    }

    async fn get(&self, id: u64) -> Result<Vec<u8>> {
        self.store.get(id).await
    }

    async fn free(&self, id: u64) -> Result<()> {
        self.store.free(id).await
    }

    async fn commit(&self, root: Option<u64>) -> Result<()> {
        self.root.set(root);
        Ok(())
    }

    async fn abort(&self) -> Result<()> {
        Err(Error::usage("one of several trees cannot be aborted alone; abort all of them"))
    }

    fn root(&self) -> Option<u64> {
        self.root.get()
    }
}

/// The load on a store.
pub struct Running<S> {
    load: Load,
    store: S,
    trees: Vec<(Tree<Shared<S>>, bool)>,
    roots: Option<u64>,
    seed: u64,
}

impl<S: PageStore + Clone> Running<S> {
    /// Empty trees.
    pub async fn new(load: &Load, store: S, random: Rc<dyn Random>) -> Result<Running<S>> {
        if load.keys == 0 || load.per_commit == 0 {
            return Err(Error::usage("give at least one key, and commit after at least one"));
        }
        let rising: &[bool] = match load.order {
            Order::Rising => &[true],
            Order::Random => &[false],
            Order::Both => &[true, false, false],
        };
        let options = TreeOptions { dirty: WAITING / TREES, cached: WAITING, ..TreeOptions::default() };
        let mut trees = Vec::new();
        for rising in rising {
            let shared = Shared { store: store.clone(), root: Rc::default() };
            trees.push((Tree::open(shared, options).await?, *rising));
        }
        Ok(Running { load: *load, store, trees, roots: None, seed: random.next_u64() })
    }

    /// Puts all keys.
    pub async fn run(&mut self, tell: &Tell) -> Result<()> {
        let Load { keys, per_commit, .. } = self.load;
        for number in 1..=keys {
            let seed = self.seed;
            for (tree, (pages, rising)) in (0..).zip(&mut self.trees) {
                pages.insert(&key(seed, tree, number, *rising), &number.to_le_bytes()).await?;
            }
            if number % per_commit == 0 || number == keys {
                self.commit().await?;
            }
            tell_now_and_then(tell, number, keys);
        }
        Ok(())
    }

    async fn commit(&mut self) -> Result<()> {
        let mut roots = Vec::new();
        for (tree, _) in &mut self.trees {
            tree.commit().await?;
            roots.extend(tree.store().root().unwrap_or_default().to_le_bytes());
        }
        let put = self.store.put(&roots).await?;
        if let Some(old) = self.roots.replace(put) {
            self.store.free(old).await?;
        }
        self.store.commit(self.roots).await
    }

    /// Looks over all trees, and for some of the keys.
    pub async fn verify(&mut self) -> Result<()> {
        let step = (self.load.keys / LOOKED_UP).max(1) as usize;
        for (number, (tree, rising)) in (0..).zip(&mut self.trees) {
            let found = tree.verify().await?.keys;
            if found != self.load.keys {
                return Err(Error::damaged(format!(
                    "{} keys were put into a tree, and {found} are in it",
                    self.load.keys
                )));
            }
            for value in (1..=self.load.keys).step_by(step) {
                let found = tree.get(&key(self.seed, number, value, *rising)).await?;
                if found.as_deref() != Some(&value.to_le_bytes()) {
                    return Err(Error::damaged(format!("key {value} of a tree has another value than was put")));
                }
            }
        }
        Ok(())
    }
}

/// The key with this number. Those that are not rising are as good as random, and no two are the same: each step can be
/// undone.
fn key(seed: u64, tree: u64, number: u64, rising: bool) -> [u8; 8] {
    if rising {
        return number.to_be_bytes();
    }
    let mut mixed = number ^ seed.wrapping_add(tree);
    for multiplier in [0xff51_afd7_ed55_8ccd_u64, 0xc4ce_b9fe_1a85_ec53] {
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(multiplier);
    }
    (mixed ^ (mixed >> 33)).to_be_bytes()
}

#[cfg(test)]
mod tests;
