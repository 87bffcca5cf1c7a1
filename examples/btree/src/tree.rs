//! The tree. Whatever it does goes through pages in memory; those that changed go to new records when there are too many
//! of them, and at a commit, and their old records are freed.
//!
//! After an error, what was done since the last commit is to be aborted: a step may have been half done.

mod nodes;

use crate::page::{Entry, HEADER, INNER_ENTRY, LEAF_ENTRY, Page};
use crate::store::PageStore;
use forebay_model::heap::LARGEST_RECORD;
use forebay_model::{Error, Result};
use nodes::{Child, Nodes, Split};

/// How a tree uses memory and its store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TreeOptions {
    /// Bytes of a page at most. An entry has a quarter of it at most.
    pub page: usize,
    /// Pages in memory at most, beside those on the way to one key.
    pub cached: usize,
    /// Of these, pages that have changed and were not written yet.
    pub dirty: usize,
}

impl Default for TreeOptions {
    fn default() -> TreeOptions {
        TreeOptions { page: 2032, cached: 8192, dirty: 4096 }
    }
}

/// What a tree looks like in its store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Shape {
    /// Pages.
    pub pages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Keys.
    pub keys: u64,
    /// Pages from the root to a key.
    pub depth: u32,
}

/// A B+tree over a store.
pub struct Tree<S> {
    store: S,
    options: TreeOptions,
    nodes: Nodes,
    root: usize,
}

impl<S: PageStore> Tree<S> {
    /// The tree that the store's last commit names, or an empty one if it names none.
    pub async fn open(store: S, options: TreeOptions) -> Result<Tree<S>> {
        let TreeOptions { page, cached, dirty } = options;
        if !(64..=usize::from(u16::MAX).min(LARGEST_RECORD)).contains(&page) || cached == 0 || dirty == 0 {
            return Err(Error::usage(format!(
                "a tree with pages of {page} bytes, {cached} of them in memory and {dirty} of them changed, cannot be: \
                 take 64 to 65535 bytes, and at least one page"
            )));
        }
        let mut tree = Tree { store, options, nodes: Nodes::default(), root: 0 };
        tree.load_root().await?;
        Ok(tree)
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Pages in memory, and those of them that were not written yet.
    pub fn in_memory(&self) -> (usize, usize) {
        (self.nodes.len(), self.nodes.dirty())
    }

    /// The value of a key.
    pub async fn get(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let leaf = self.leaf(key).await?;
        let entries = self.nodes.entries(leaf);
        let found = find(entries, key).ok().map(|at| entries[at].1.to_vec());
        self.make_room().await?;
        Ok(found)
    }

    /// Sets the value of a key; the one that it had.
    pub async fn insert(&mut self, key: &[u8], value: &[u8]) -> Result<Option<Vec<u8>>> {
        let most = self.options.page / 4;
        if HEADER + LEAF_ENTRY.max(INNER_ENTRY) + key.len() + value.len() > most {
            return Err(Error::usage(format!(
                "a key of {} bytes and a value of {} do not fit a quarter of a page, {most} bytes, with what a page has \
                 beside; take larger pages, or keep the value as a record and its id in the tree (nothing was changed)",
                key.len(),
                value.len()
            )));
        }
        let leaf = self.leaf(key).await?;
        let before = self.nodes.set(leaf, key, value);
        self.split(leaf, key);
        self.make_room().await?;
        Ok(before)
    }

    /// Removes a key; the value that it had.
    pub async fn remove(&mut self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let leaf = self.leaf(key).await?;
        let before = self.nodes.unset(leaf, key);
        if before.is_some() {
            self.merge(leaf).await?;
        }
        self.make_room().await?;
        Ok(before)
    }

    /// Hands keys from `from` on, and below `end` if there is one, with their values to `take`, in order, until it says no.
    pub async fn range(
        &mut self,
        from: &[u8],
        end: Option<&[u8]>,
        mut take: impl FnMut(&[u8], &[u8]) -> bool,
    ) -> Result<()> {
        let mut from: Box<[u8]> = from.into();
        loop {
            let leaf = self.leaf(&from).await?;
            let entries = self.nodes.entries(leaf);
            let first = find(entries, &from).unwrap_or_else(|at| at);
            let below_end = |key: &[u8]| end.is_none_or(|end| key < end);
            let go_on = entries[first..].iter().all(|(key, value)| below_end(key) && take(key, value));
            // Where the next leaf begins is known, so nothing has to stay in memory between two leaves.
            let next = self.nodes.key_right_of(leaf).filter(|next| go_on && below_end(next));
            self.make_room().await?;
            match next {
                Some(next) => from = next,
                None => return Ok(()),
            }
        }
    }

    /// Makes everything durable that was done since the last commit.
    pub async fn commit(&mut self) -> Result<()> {
        // Pages below before those above, which have their numbers; neighbours one after another, so that they become
        // neighbours in the store.
        for node in self.nodes.changed_from(self.root) {
            self.write(node).await?;
        }
        self.store.commit(self.nodes.stored(self.root)).await
    }

    /// Undoes everything that was done since the last commit.
    pub async fn abort(&mut self) -> Result<()> {
        self.store.abort().await?;
        self.load_root().await
    }

    /// Reads all that the last commit has, and looks whether it is a tree: keys in order, each where it is looked for.
    pub async fn verify(&self) -> Result<Shape> {
        let mut shape = Shape::default();
        type Bound = Option<Box<[u8]>>;
        let mut waiting: Vec<(u64, Bound, Bound, u32)> =
            self.store.root().map(|root| (root, None, None, 1)).into_iter().collect();
        while let Some((id, low, high, depth)) = waiting.pop() {
            let page = self.read(id).await?;
            shape.pages += 1;
            shape.bytes += page.size() as u64;
            let odd = |what: &str| Error::damaged(format!("page {id:016x} of the tree {what}"));
            let keys: Vec<&[u8]> = match &page {
                Page::Leaf(entries) => entries.iter().map(|(key, _)| &**key).collect(),
                Page::Inner { keys, .. } => keys.iter().map(|key| &**key).collect(),
            };
            let within = |key: &[u8]| {
                low.as_ref().is_none_or(|low| key >= &**low) && high.as_ref().is_none_or(|high| key < &**high)
            };
            if !keys.is_sorted_by(|a, b| a < b) || !keys.iter().all(|key| within(key)) {
                return Err(odd("has keys that are not in order, or belong elsewhere"));
            }
            match page {
                Page::Leaf(entries) if shape.depth == 0 || shape.depth == depth => {
                    shape.keys += entries.len() as u64;
                    shape.depth = depth;
                }
                Page::Leaf(_) => return Err(odd("is a leaf at another depth than the others")),
                Page::Inner { keys, children } => {
                    let bounds: Vec<Bound> =
                        [low].into_iter().chain(keys.into_iter().map(Some)).chain([high]).collect();
                    for (child, bounds) in children.into_iter().zip(bounds.windows(2)) {
                        waiting.push((child, bounds[0].clone(), bounds[1].clone(), depth + 1));
                    }
                }
            }
        }
        Ok(shape)
    }

    async fn load_root(&mut self) -> Result<()> {
        self.nodes = Nodes::default();
        self.root = match self.store.root() {
            Some(id) => {
                let page = self.read(id).await?;
                self.nodes.add(page, None, Some(id))
            }
            None => self.nodes.add(Page::Leaf(Vec::new()), None, None),
        };
        Ok(())
    }

    async fn read(&self, id: u64) -> Result<Page<u64>> {
        Page::decode(id, &self.store.get(id).await?)
    }

    /// The leaf where a key is, or would be. It and all pages above it are in memory until [`Tree::make_room`].
    async fn leaf(&mut self, key: &[u8]) -> Result<usize> {
        let mut node = self.root;
        while let Some(place) = self.nodes.place_for(node, key) {
            node = self.child(node, place).await?;
        }
        Ok(node)
    }

    async fn child(&mut self, parent: usize, place: usize) -> Result<usize> {
        match self.nodes.child(parent, place) {
            Child::Loaded(node) => Ok(node),
            Child::Stored(id) => {
                let page = self.read(id).await?;
                Ok(self.nodes.add(page, Some((parent, place)), Some(id)))
            }
        }
    }

    /// Splits a page that has become too large, and those above it that do by that. `key` is what made it so: if it is
    /// the last one, keys come in order, and the full page stays as it is.
    fn split(&mut self, mut node: usize, key: &[u8]) {
        while self.nodes.size(node) > self.options.page {
            let parent = match self.nodes.parent(node) {
                Some(parent) => parent,
                None => {
                    self.root = self.nodes.add_above(node);
                    self.root
                }
            };
            let split = if self.nodes.is_last(node, key) { Split::Last } else { Split::Half };
            self.nodes.split(node, parent, split);
            node = parent;
        }
    }

    /// Merges a page of which little is left with a neighbour, if both fit one page, and so on upwards.
    async fn merge(&mut self, mut node: usize) -> Result<()> {
        while let Some(parent) = self.nodes.parent(node) {
            if self.nodes.size(node) > self.options.page / 4 || self.nodes.children(parent) == 1 {
                break;
            }
            let place = self.nodes.place_of(node, parent);
            let left = place.min(self.nodes.children(parent) - 2);
            let (left, right) = (self.child(parent, left).await?, self.child(parent, left + 1).await?);
            if self.nodes.size_of_both(left, right, parent) > self.options.page {
                break;
            }
            self.drop_record(right).await?;
            self.nodes.merge(left, right, parent);
            node = parent;
        }
        while let Some(only) = self.nodes.only_child(self.root) {
            let below = match only {
                Child::Loaded(node) => node,
                Child::Stored(_) => self.child(self.root, 0).await?,
            };
            self.drop_record(self.root).await?;
            self.nodes.lower_root(self.root, below);
            self.root = below;
        }
        Ok(())
    }

    async fn drop_record(&self, node: usize) -> Result<()> {
        match self.nodes.stored(node) {
            Some(id) => self.store.free(id).await,
            None => Ok(()),
        }
    }

    /// Writes a page to a new record and frees the old one: the page above has changed by that, and is written later.
    async fn write(&mut self, node: usize) -> Result<()> {
        let id = self.store.put(&self.nodes.encode(node)).await?;
        let old = self.nodes.written(node, id);
        match old {
            Some(old) => self.store.free(old).await,
            None => Ok(()),
        }
    }

    /// Writes pages that have waited longest, and forgets those that nobody looked at for longest, until there are as many
    /// as may be.
    async fn make_room(&mut self) -> Result<()> {
        while self.nodes.dirty() > self.options.dirty
            && let Some(node) = self.nodes.next_to_write()
        {
            self.write(node).await?;
        }
        while self.nodes.len() > self.options.cached
            && let Some(node) = self.nodes.next_to_forget(self.root)
        {
            if self.nodes.is_dirty(node) {
                self.write(node).await?;
            }
            self.nodes.forget(node);
        }
        Ok(())
    }
}

/// Where a key is in a leaf, or else where it would be.
fn find(entries: &[Entry], key: &[u8]) -> std::result::Result<usize, usize> {
    entries.binary_search_by(|(other, _)| (**other).cmp(key))
}

#[cfg(test)]
mod tests;
