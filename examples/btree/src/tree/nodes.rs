//! Pages in memory: how they hang together, which changed, and which go first when there are too many.
//!
//! Always: a page in memory has the page above it in memory, and that one has changed if it has.

use super::find;
use crate::page::{CHILD, Entry, HEADER, INNER_ENTRY, LEAF_ENTRY, Page};
use std::collections::BTreeMap;

/// Where a page below is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Child {
    /// In the store, under this number.
    Stored(u64),
    /// In memory, at this place.
    Loaded(usize),
}

/// How a page is split.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Split {
    /// Half of its bytes go to the new one.
    Half,
    /// As little as can: keys come in order, and what is left would never be filled.
    Last,
}

struct Node {
    page: Page<Child>,
    /// Its bytes.
    size: usize,
    parent: Option<usize>,
    /// Its record, which is not as the page if that has changed.
    stored: Option<u64>,
    /// Its turn to be written, if it has changed.
    to_write: Option<u64>,
    /// Its turn to be forgotten.
    to_forget: u64,
    /// Pages below it in memory, and those of them that have changed.
    loaded: usize,
    dirty_below: usize,
    /// It was used since its turn was given: it gets another one, once.
    used: bool,
}

/// Pages in memory.
#[derive(Default)]
pub struct Nodes {
    nodes: Vec<Option<Node>>,
    vacant: Vec<usize>,
    turn: u64,
    to_write: BTreeMap<u64, usize>,
    to_forget: BTreeMap<u64, usize>,
}

impl Nodes {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.to_forget.len()
    }

    /// How many have changed.
    pub fn dirty(&self) -> usize {
        self.to_write.len()
    }

    fn node(&self, node: usize) -> &Node {
        self.nodes[node].as_ref().expect("a page that something refers to is in memory")
    }

    fn node_mut(&mut self, node: usize) -> &mut Node {
        self.nodes[node].as_mut().expect("a page that something refers to is in memory")
    }

    fn next_turn(&mut self) -> u64 {
        self.turn += 1;
        self.turn
    }

    /// A page that came from the store, or a new one, which has to be written.
    pub fn add(&mut self, page: Page<u64>, below: Option<(usize, usize)>, stored: Option<u64>) -> usize {
        let page = match page {
            Page::Leaf(entries) => Page::Leaf(entries),
            Page::Inner { keys, children } => {
                Page::Inner { keys, children: children.into_iter().map(Child::Stored).collect() }
            }
        };
        let node = self.insert(page, below.map(|(parent, _)| parent), stored);
        if let Some((parent, place)) = below {
            self.set_child(parent, place, Child::Loaded(node));
        }
        node
    }

    fn insert(&mut self, page: Page<Child>, parent: Option<usize>, stored: Option<u64>) -> usize {
        let to_forget = self.next_turn();
        let size = page.size();
        let entry =
            Node { page, size, parent, stored, to_write: None, to_forget, loaded: 0, dirty_below: 0, used: false };
        let node = self.vacant.pop().unwrap_or_else(|| {
            self.nodes.push(None);
            self.nodes.len() - 1
        });
        self.nodes[node] = Some(entry);
        self.to_forget.insert(to_forget, node);
        if let Some(parent) = parent {
            self.node_mut(parent).loaded += 1;
        }
        if stored.is_none() {
            self.changed(node);
        }
        node
    }

    /// A new root above the old one.
    pub fn add_above(&mut self, node: usize) -> usize {
        let root = self.insert(Page::Inner { keys: Vec::new(), children: vec![Child::Loaded(node)] }, None, None);
        self.adopt(root, node);
        root
    }

    /// A page has another one above it than before.
    fn adopt(&mut self, parent: usize, node: usize) {
        self.lose_parent(node);
        self.node_mut(node).parent = Some(parent);
        let dirty = self.is_dirty(node);
        let above = self.node_mut(parent);
        above.loaded += 1;
        above.dirty_below += usize::from(dirty);
    }

    /// A page has none above it any more.
    fn lose_parent(&mut self, node: usize) {
        let dirty = self.is_dirty(node);
        let Some(parent) = self.node_mut(node).parent.take() else { return };
        let above = self.node_mut(parent);
        above.loaded -= 1;
        above.dirty_below -= usize::from(dirty);
    }

    /// Forgets a root with one page below, which is the root from now on.
    pub fn lower_root(&mut self, root: usize, below: usize) {
        self.lose_parent(below);
        self.take(root);
    }

    /// Takes a page out of memory.
    fn take(&mut self, node: usize) -> Option<Node> {
        let taken = self.nodes[node].take()?;
        self.vacant.push(node);
        self.to_forget.remove(&taken.to_forget);
        if let Some(turn) = taken.to_write {
            self.to_write.remove(&turn);
        }
        if let Some(parent) = taken.parent {
            let above = self.node_mut(parent);
            above.loaded -= 1;
            above.dirty_below -= usize::from(taken.to_write.is_some());
        }
        Some(taken)
    }

    /// A page has changed: those above it will.
    fn changed(&mut self, mut node: usize) {
        while !self.is_dirty(node) {
            let turn = self.next_turn();
            self.to_write.insert(turn, node);
            self.node_mut(node).to_write = Some(turn);
            let Some(parent) = self.node(node).parent else { return };
            self.node_mut(parent).dirty_below += 1;
            node = parent;
        }
    }

    /// Whether a page has changed since it was written.
    pub fn is_dirty(&self, node: usize) -> bool {
        self.node(node).to_write.is_some()
    }

    /// The page above.
    pub fn parent(&self, node: usize) -> Option<usize> {
        self.node(node).parent
    }

    /// The record of a page.
    pub fn stored(&self, node: usize) -> Option<u64> {
        self.node(node).stored
    }

    /// Bytes of a page.
    pub fn size(&self, node: usize) -> usize {
        self.node(node).size
    }

    /// The entries of a leaf.
    pub fn entries(&self, leaf: usize) -> &[Entry] {
        match &self.node(leaf).page {
            Page::Leaf(entries) => entries,
            Page::Inner { .. } => &[],
        }
    }

    fn inner(&self, node: usize) -> (&[Box<[u8]>], &[Child]) {
        match &self.node(node).page {
            Page::Leaf(_) => (&[], &[]),
            Page::Inner { keys, children } => (keys, children),
        }
    }

    /// Which of the pages below a key is under; `None` if there are none below.
    pub fn place_for(&mut self, node: usize, key: &[u8]) -> Option<usize> {
        let node = self.node_mut(node);
        node.used = true;
        match &node.page {
            Page::Leaf(_) => None,
            Page::Inner { keys, .. } => Some(keys.partition_point(|other| **other <= *key)),
        }
    }

    /// The page below at a place.
    pub fn child(&self, parent: usize, place: usize) -> Child {
        self.inner(parent).1[place]
    }

    fn set_child(&mut self, parent: usize, place: usize, child: Child) {
        if let Page::Inner { children, .. } = &mut self.node_mut(parent).page {
            children[place] = child;
        }
    }

    /// How many pages are below.
    pub fn children(&self, node: usize) -> usize {
        self.inner(node).1.len()
    }

    /// The one page below, if there is exactly one.
    pub fn only_child(&self, node: usize) -> Option<Child> {
        match self.inner(node).1 {
            [only] => Some(*only),
            _ => None,
        }
    }

    /// Which of the pages below `parent` this one is.
    pub fn place_of(&self, node: usize, parent: usize) -> usize {
        let place = self.inner(parent).1.iter().position(|child| *child == Child::Loaded(node));
        place.expect("a page is below the one above it")
    }

    /// Where the leaf to the right of this one begins.
    pub fn key_right_of(&self, mut node: usize) -> Option<Box<[u8]>> {
        while let Some(parent) = self.parent(node) {
            let (keys, _) = self.inner(parent);
            if let Some(key) = keys.get(self.place_of(node, parent)) {
                return Some(key.clone());
            }
            node = parent;
        }
        None
    }

    /// Sets a value in a leaf; the one that was there.
    pub fn set(&mut self, leaf: usize, key: &[u8], value: &[u8]) -> Option<Vec<u8>> {
        self.changed(leaf);
        let node = self.node_mut(leaf);
        let Page::Leaf(entries) = &mut node.page else { return None };
        match find(entries, key) {
            Ok(at) => {
                let before = std::mem::replace(&mut entries[at].1, value.into());
                node.size = node.size + value.len() - before.len();
                Some(before.into_vec())
            }
            Err(at) => {
                entries.insert(at, (key.into(), value.into()));
                node.size += LEAF_ENTRY + key.len() + value.len();
                None
            }
        }
    }

    /// Takes a key out of a leaf; its value.
    pub fn unset(&mut self, leaf: usize, key: &[u8]) -> Option<Vec<u8>> {
        let at = find(self.entries(leaf), key).ok()?;
        self.changed(leaf);
        let node = self.node_mut(leaf);
        let Page::Leaf(entries) = &mut node.page else { return None };
        let (key, value) = entries.remove(at);
        node.size -= LEAF_ENTRY + key.len() + value.len();
        Some(value.into_vec())
    }

    /// Whether no key of the page is greater.
    pub fn is_last(&self, node: usize, key: &[u8]) -> bool {
        let last = match &self.node(node).page {
            Page::Leaf(entries) => entries.last().map(|(key, _)| key),
            Page::Inner { keys, .. } => keys.last(),
        };
        last.is_none_or(|last| **last <= *key)
    }

    /// Moves the upper part of a page to a new one to its right.
    pub fn split(&mut self, node: usize, parent: usize, split: Split) {
        self.changed(node);
        let page = &mut self.node_mut(node).page;
        let (separator, upper) = match page {
            Page::Leaf(entries) => {
                let sizes = entries.iter().map(|(key, value)| key.len() + value.len() + LEAF_ENTRY);
                let upper = entries.split_off(middle(sizes, split).min(entries.len() - 1));
                (upper[0].0.clone(), Page::Leaf(upper))
            }
            Page::Inner { keys, children } => {
                // The key in the middle goes up, and each side keeps one.
                let at = middle(keys.iter().map(|key| key.len() + INNER_ENTRY), split).min(keys.len() - 2);
                let upper = keys.split_off(at + 1);
                let separator = keys.pop().expect("there is one before those that were split off");
                (separator, Page::Inner { keys: upper, children: children.split_off(at + 1) })
            }
        };
        let size = page.size();
        self.node_mut(node).size = size;
        let moved = self.insert(upper, Some(parent), None);
        for child in self.inner(moved).1.to_vec() {
            if let Child::Loaded(child) = child {
                self.adopt(moved, child);
            }
        }
        let place = self.place_of(node, parent);
        let above = self.node_mut(parent);
        above.size += INNER_ENTRY + separator.len();
        if let Page::Inner { keys, children } = &mut above.page {
            keys.insert(place, separator);
            children.insert(place + 1, Child::Loaded(moved));
        }
    }

    /// Bytes of a page with all that is on these two.
    pub fn size_of_both(&self, left: usize, right: usize, parent: usize) -> usize {
        let both = self.size(left) + self.size(right) - HEADER;
        match self.inner(right).1.len() {
            0 => both,
            _ => both - CHILD + INNER_ENTRY + self.inner(parent).0[self.place_of(left, parent)].len(),
        }
    }

    /// Moves all of a page to its left neighbour, and forgets it.
    pub fn merge(&mut self, left: usize, right: usize, parent: usize) {
        self.changed(left);
        self.changed(right);
        let place = self.place_of(left, parent);
        let mut separator = None;
        let above = self.node_mut(parent);
        if let Page::Inner { keys, children } = &mut above.page {
            let key = keys.remove(place);
            children.remove(place + 1);
            above.size -= INNER_ENTRY + key.len();
            separator = Some(key);
        }
        for child in self.inner(right).1.to_vec() {
            if let Child::Loaded(child) = child {
                self.adopt(left, child);
            }
        }
        let Some(taken) = self.take(right) else { return };
        let page = &mut self.node_mut(left).page;
        match (&mut *page, taken.page) {
            (Page::Leaf(entries), Page::Leaf(more)) => entries.extend(more),
            (Page::Inner { keys, children }, Page::Inner { keys: more, children: below }) => {
                keys.extend(separator.into_iter().chain(more));
                children.extend(below);
            }
            _ => {}
        }
        let size = page.size();
        self.node_mut(left).size = size;
    }

    /// The bytes of a page, below which nothing has changed.
    pub fn encode(&self, node: usize) -> Vec<u8> {
        self.node(node).page.encode(|child| match child {
            Child::Stored(id) => *id,
            Child::Loaded(node) => self.stored(*node).expect("a page below was written before"),
        })
    }

    /// A page was written to this record; the one that it had.
    pub fn written(&mut self, node: usize, id: u64) -> Option<u64> {
        let written = self.node_mut(node);
        let old = written.stored.replace(id);
        let (turn, parent) = (written.to_write.take(), written.parent);
        if let Some(turn) = turn {
            self.to_write.remove(&turn);
            if let Some(parent) = parent {
                self.node_mut(parent).dirty_below -= 1;
            }
        }
        old
    }

    /// Pages from this one down that have changed, neighbours after one another, each before the one above it.
    pub fn changed_from(&self, node: usize) -> Vec<usize> {
        let mut changed = Vec::with_capacity(self.dirty());
        self.collect_changed(node, &mut changed);
        changed
    }

    fn collect_changed(&self, node: usize, changed: &mut Vec<usize>) {
        if !self.is_dirty(node) {
            return;
        }
        if self.node(node).dirty_below > 0 {
            for child in self.inner(node).1 {
                if let Child::Loaded(child) = child {
                    self.collect_changed(*child, changed);
                }
            }
        }
        changed.push(node);
    }

    /// The page that has waited longest to be written: none below it has changed, and it was not used meanwhile.
    pub fn next_to_write(&mut self) -> Option<usize> {
        loop {
            let (turn, node) = self.to_write.pop_first()?;
            let waits = self.node_mut(node);
            let again = waits.dirty_below > 0 || std::mem::take(&mut waits.used);
            let turn = if again { self.next_turn() } else { turn };
            self.to_write.insert(turn, node);
            self.node_mut(node).to_write = Some(turn);
            if !again {
                return Some(node);
            }
        }
    }

    /// The page that nobody looked at for longest, and below which none is in memory.
    pub fn next_to_forget(&mut self, root: usize) -> Option<usize> {
        if self.len() < 2 {
            return None;
        }
        loop {
            let (turn, node) = self.to_forget.pop_first()?;
            let waits = self.node_mut(node);
            let again = node == root || waits.loaded > 0 || std::mem::take(&mut waits.used);
            let turn = if again { self.next_turn() } else { turn };
            self.to_forget.insert(turn, node);
            self.node_mut(node).to_forget = turn;
            if !again {
                return Some(node);
            }
        }
    }

    /// Forgets a page that is as its record.
    pub fn forget(&mut self, node: usize) {
        let (parent, stored) = (self.parent(node), self.stored(node));
        if let (Some(parent), Some(stored)) = (parent, stored) {
            let place = self.place_of(node, parent);
            self.set_child(parent, place, Child::Stored(stored));
        }
        self.take(node);
    }
}

/// Where to split entries of these sizes: how many stay.
fn middle(sizes: impl ExactSizeIterator<Item = usize> + Clone, split: Split) -> usize {
    let count = sizes.len();
    if split == Split::Last {
        return count - 1;
    }
    let half = sizes.clone().sum::<usize>() / 2;
    let mut before = 0;
    let stay = sizes.take_while(|size| {
        before += size;
        before <= half
    });
    stay.count().clamp(1, count - 1)
}
