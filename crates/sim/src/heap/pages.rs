//! The pages of three B+trees over a heap, as a database of triples has them: keys come in order in one, at random in the
//! others. Pages that have changed wait in memory for a while; when one leaves, its new bytes go to a new record, and the
//! old one is freed (RWStore, 2010, and its sources).
//!
//! No keys are kept: of a page it counts how many entries it has, so how large it is, and which page is above it.

use super::load::{Tell, normal, tell_now_and_then};
use forebay_btree::PageStore;
use forebay_env::Random;
use forebay_model::{Error, Result};
use std::collections::VecDeque;
use std::rc::Rc;

/// Trees: keys come in order in the first.
const TREES: usize = 3;
/// Entries of a page at most.
const FAN_OUT: u32 = 128;
/// Pages that wait in memory: each time that one is touched counts.
const WAITING: usize = 4000;
/// Bytes of an entry, on average, so that a page has about 1.5 KB.
const ENTRY: f64 = 17.0;
/// Bytes of a page beside its entries.
const PAGE: f64 = 64.0;
/// How different entries of pages are: the logarithm of their size has this deviation.
const SPREAD: f64 = 0.5;
const LARGEST_PAGE: f64 = 8182.0;

/// What is put.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Keys that are put into each of the trees.
    pub keys: u64,
    /// Keys between commits.
    pub per_commit: u64,
}

/// A page of a tree.
struct Node {
    id: Option<u64>,
    /// Bytes of an entry of this page.
    entry: f64,
    entries: u32,
    parent: Option<usize>,
    dirty: bool,
    /// How many times it stands in the queue.
    waits: u32,
}

struct Forest {
    nodes: Vec<Node>,
    /// Of each tree, the pages with keys, in no order, but for the last one in the first tree.
    leaves: [Vec<usize>; TREES],
    queue: VecDeque<usize>,
    random: Rc<dyn Random>,
}

impl Forest {
    fn new(random: Rc<dyn Random>) -> Forest {
        let mut forest = Forest { nodes: Vec::new(), leaves: Default::default(), queue: VecDeque::new(), random };
        for tree in 0..TREES {
            let root = forest.node(0, None);
            forest.nodes[root].entries = 1;
            let leaf = forest.node(0, Some(root));
            forest.leaves[tree].push(leaf);
        }
        forest
    }

    fn node(&mut self, entries: u32, parent: Option<usize>) -> usize {
        let entry = ENTRY * (SPREAD * normal(&*self.random) - SPREAD * SPREAD / 2.0).exp();
        self.nodes.push(Node { id: None, entry, entries, parent, dirty: true, waits: 0 });
        self.nodes.len() - 1
    }

    /// One entry more on a page; the page that half of them went to if it had been full, so that the one above has one
    /// more, too. `at_end`: keys come in order, and most stay.
    fn add(&mut self, node: usize, at_end: bool) -> Option<usize> {
        self.nodes[node].entries += 1;
        self.nodes[node].dirty = true;
        if self.nodes[node].entries <= FAN_OUT {
            return None;
        }
        let moved = if at_end { 1 } else { self.nodes[node].entries / 2 };
        self.nodes[node].entries -= moved;
        let parent = match self.nodes[node].parent {
            Some(parent) => parent,
            None => {
                let root = self.node(1, None);
                self.nodes[node].parent = Some(root);
                root
            }
        };
        let fresh = self.node(moved, Some(parent));
        if let Some(above) = self.add(parent, at_end) {
            // Which pages went along is not kept: the new one did.
            self.nodes[fresh].parent = Some(above);
        }
        Some(fresh)
    }

    /// A page with changes is in memory; those that wait no longer.
    fn touch(&mut self, node: usize, leaving: &mut Vec<usize>) {
        self.nodes[node].waits += 1;
        self.queue.push_back(node);
        if self.queue.len() > WAITING
            && let Some(oldest) = self.queue.pop_front()
        {
            self.nodes[oldest].waits -= 1;
            if self.nodes[oldest].waits == 0 && self.nodes[oldest].dirty {
                leaving.push(oldest);
            }
        }
    }

    /// Writes a page to a new record, and frees the old one: the page above has another address in it then.
    async fn write(&mut self, store: &impl PageStore, node: usize) -> Result<()> {
        let size = (PAGE + f64::from(self.nodes[node].entries) * self.nodes[node].entry).min(LARGEST_PAGE) as usize;
        let old = self.nodes[node].id.take();
        let id = store.put(&bytes(node, self.nodes[node].entries, size)).await?;
        if let Some(old) = old {
            store.free(old).await?;
        }
        self.nodes[node].id = Some(id);
        self.nodes[node].dirty = false;
        if let Some(parent) = self.nodes[node].parent {
            self.nodes[parent].dirty = true;
        }
        Ok(())
    }

    /// Puts a key into each tree.
    async fn put(&mut self, store: &impl PageStore) -> Result<()> {
        let mut leaving = Vec::new();
        for tree in 0..TREES {
            let count = self.leaves[tree].len();
            let chosen = if tree == 0 { count - 1 } else { self.random.below(count as u64) as usize };
            let leaf = self.leaves[tree][chosen];
            if let Some(fresh) = self.add(leaf, tree == 0) {
                self.leaves[tree].push(fresh);
                self.touch(fresh, &mut leaving);
            }
            self.touch(leaf, &mut leaving);
        }
        while let Some(node) = leaving.pop() {
            if self.nodes[node].dirty && self.nodes[node].waits == 0 {
                self.write(store, node).await?;
                if let Some(parent) = self.nodes[node].parent {
                    self.touch(parent, &mut leaving);
                }
            }
        }
        Ok(())
    }

    /// Writes all pages that have changed, those below others first, and commits.
    async fn commit(&mut self, store: &impl PageStore) -> Result<()> {
        let mut dirty: Vec<usize> = (0..self.nodes.len()).filter(|node| self.nodes[*node].dirty).collect();
        while !dirty.is_empty() {
            for node in &dirty {
                self.nodes[*node].dirty = false;
            }
            let mut above = Vec::new();
            for node in dirty {
                self.write(store, node).await?;
                above.extend(self.nodes[node].parent);
            }
            above.sort_unstable();
            above.dedup();
            dirty = above;
        }
        store.commit(self.nodes[0].id).await
    }
}

/// The bytes of a page: whose they are can be told.
fn bytes(node: usize, entries: u32, size: usize) -> Vec<u8> {
    let mut bytes = vec![node as u8 ^ entries as u8; size];
    bytes[..8].copy_from_slice(&(node as u64).to_le_bytes());
    bytes
}

/// The load on a store.
pub struct Running<S> {
    load: Load,
    store: S,
    forest: Forest,
}

impl<S: PageStore> Running<S> {
    /// Three empty trees.
    pub fn new(load: &Load, store: S, random: Rc<dyn Random>) -> Result<Running<S>> {
        if load.keys == 0 || load.per_commit == 0 {
            return Err(Error::usage("give at least one key, and commit after at least one"));
        }
        Ok(Running { load: *load, store, forest: Forest::new(random) })
    }

    /// Puts all keys.
    pub async fn run(&mut self, tell: &Tell) -> Result<()> {
        let Load { keys, per_commit } = self.load;
        for key in 1..=keys {
            self.forest.put(&self.store).await?;
            if key % per_commit == 0 || key == keys {
                self.forest.commit(&self.store).await?;
            }
            tell_now_and_then(tell, key, keys);
        }
        Ok(())
    }

    /// Reads all pages.
    pub async fn verify(&mut self) -> Result<()> {
        let nodes = self.forest.nodes.iter().enumerate();
        for (node, page) in nodes.filter_map(|(node, page)| Some((node, page.id?))) {
            if self.store.get(page).await?[..8] != (node as u64).to_le_bytes() {
                return Err(Error::damaged(format!("record {page:016x} has bytes of another page")));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
