use super::{Shape, Tree, TreeOptions};
use crate::store::PageStore;
use forebay_model::{Error, Kind, Result};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Pages in memory: nothing waits, and whoever frees what is not there is told.
#[derive(Clone, Default)]
struct Memory(Rc<RefCell<Inside>>);

#[derive(Default)]
struct Inside {
    now: BTreeMap<u64, Vec<u8>>,
    committed: BTreeMap<u64, Vec<u8>>,
    root: Option<u64>,
    next: u64,
    put: u64,
}

impl PageStore for Memory {
    async fn put(&self, bytes: &[u8]) -> Result<u64> {
        let mut inside = self.0.borrow_mut();
        inside.next += 1;
        inside.put += 1;
        let id = inside.next;
        inside.now.insert(id, bytes.to_vec());
        Ok(id)
    }

    async fn get(&self, id: u64) -> Result<Vec<u8>> {
        self.0.borrow().now.get(&id).cloned().ok_or_else(|| Error::missing(format!("no page {id}")))
    }

    async fn free(&self, id: u64) -> Result<()> {
        self.0.borrow_mut().now.remove(&id).map(drop).ok_or_else(|| Error::missing(format!("no page {id}")))
    }

    async fn commit(&self, root: Option<u64>) -> Result<()> {
        let mut inside = self.0.borrow_mut();
        inside.committed = inside.now.clone();
        inside.root = root;
        Ok(())
    }

    async fn abort(&self) -> Result<()> {
        let mut inside = self.0.borrow_mut();
        inside.now = inside.committed.clone();
        Ok(())
    }

    fn root(&self) -> Option<u64> {
        self.0.borrow().root
    }
}

/// The end of a future that never waits.
fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("a store in memory waits for nothing"),
    }
}

const SMALL: TreeOptions = TreeOptions { page: 128, cached: 20, dirty: 7 };

fn open(store: &Memory) -> Tree<Memory> {
    now(Tree::open(store.clone(), SMALL)).unwrap()
}

fn key(n: u64) -> [u8; 8] {
    n.to_be_bytes()
}

/// Numbers that look random and are the same each time.
fn scattered(n: u64) -> u64 {
    (n + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20
}

fn all(tree: &mut Tree<Memory>) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut found = Vec::new();
    now(tree.range(b"", None, |key, value| {
        found.push((key.to_vec(), value.to_vec()));
        true
    }))
    .unwrap();
    found
}

#[test]
fn an_empty_tree_has_nothing_and_one_page_once_it_is_committed() {
    let store = Memory::default();
    let mut tree = open(&store);
    assert_eq!(now(tree.get(b"a")).unwrap(), None);
    assert_eq!(now(tree.remove(b"a")).unwrap(), None);
    now(tree.commit()).unwrap();
    assert_eq!(now(tree.verify()).unwrap(), Shape { pages: 1, bytes: 3, keys: 0, depth: 1 });
    assert_eq!(all(&mut open(&store)), []);
}

#[test]
fn what_was_inserted_in_any_order_is_found_in_order() {
    for order in [|n: u64| n, |n: u64| 2000 - n, scattered] {
        let store = Memory::default();
        let mut tree = open(&store);
        let mut model = BTreeMap::new();
        for n in 0..2000 {
            let (key, value) = (key(order(n)), vec![n as u8; (n % 9) as usize]);
            assert_eq!(now(tree.insert(&key, &value)).unwrap(), model.insert(key.to_vec(), value));
            let (pages, dirty) = tree.in_memory();
            assert!(pages <= SMALL.cached && dirty <= SMALL.dirty, "{pages} pages, {dirty} of them changed");
        }
        now(tree.commit()).unwrap();
        let shape = now(tree.verify()).unwrap();
        assert_eq!(shape.keys, 2000);
        assert_eq!(shape.pages, store.0.borrow().now.len() as u64, "no page is left behind");
        let mut again = open(&store);
        assert_eq!(all(&mut again), model.clone().into_iter().collect::<Vec<_>>());
        for (key, value) in &model {
            assert_eq!(now(again.get(key)).unwrap().as_ref(), Some(value));
        }
    }
}

#[test]
fn keys_that_come_in_order_leave_full_pages() {
    let store = Memory::default();
    let mut tree = open(&store);
    (0..2000).for_each(|n| drop(now(tree.insert(&key(n), b"1234")).unwrap()));
    now(tree.commit()).unwrap();
    let shape = now(tree.verify()).unwrap();
    assert!(shape.bytes * 100 > shape.pages * SMALL.page as u64 * 85, "{shape:?}");
}

#[test]
fn a_tree_from_which_all_is_removed_is_one_page_again() {
    let store = Memory::default();
    let mut tree = open(&store);
    (0..1000).for_each(|n| drop(now(tree.insert(&key(n), b"value")).unwrap()));
    now(tree.commit()).unwrap();
    for n in 0..1000 {
        let n = (n * 7) % 1000;
        assert_eq!(now(tree.remove(&key(n))).unwrap().as_deref(), Some(&b"value"[..]));
    }
    now(tree.commit()).unwrap();
    let shape = now(tree.verify()).unwrap();
    assert_eq!((shape.keys, shape.pages), (0, store.0.borrow().now.len() as u64));
    assert!(shape.pages <= 2 * u64::from(shape.depth), "{shape:?}");
}

#[test]
fn a_range_begins_and_ends_where_it_is_asked_to() {
    let mut tree = open(&Memory::default());
    (0..300).for_each(|n| drop(now(tree.insert(&key(2 * n), b"")).unwrap()));
    let mut count = |from: u64, end: Option<u64>, most: usize| {
        let mut seen = Vec::new();
        now(tree.range(&key(from), end.map(key).as_ref().map(|end| &end[..]), |key, _| {
            seen.push(u64::from_be_bytes(key.try_into().unwrap()));
            seen.len() < most
        }))
        .unwrap();
        seen
    };
    assert_eq!(count(101, Some(108), 1000), [102, 104, 106]);
    assert_eq!(count(590, None, 1000), [590, 592, 594, 596, 598]);
    assert_eq!(count(10, None, 2), [10, 12]);
    assert_eq!(count(10, Some(10), 1000), []);
    assert_eq!(count(0, None, 1000).len(), 300);
}

#[test]
fn what_is_aborted_is_as_if_it_had_not_been() {
    let store = Memory::default();
    let mut tree = open(&store);
    (0..500).for_each(|n| drop(now(tree.insert(&key(scattered(n)), b"kept")).unwrap()));
    now(tree.commit()).unwrap();
    let before = all(&mut tree);
    (400..900).for_each(|n| drop(now(tree.insert(&key(scattered(n)), b"lost")).unwrap()));
    (0..300).for_each(|n| drop(now(tree.remove(&key(scattered(n)))).unwrap()));
    now(tree.abort()).unwrap();
    assert_eq!(all(&mut tree), before);
    now(tree.commit()).unwrap();
    assert_eq!(now(tree.verify()).unwrap().pages, store.0.borrow().now.len() as u64);
}

#[test]
fn a_page_that_changes_often_is_written_once() {
    let store = Memory::default();
    let mut tree = open(&store);
    (0..1000).for_each(|n| drop(now(tree.insert(&key(n % 5), &n.to_le_bytes())).unwrap()));
    now(tree.commit()).unwrap();
    now(tree.commit()).unwrap();
    assert_eq!(store.0.borrow().put, 1);
}

#[test]
fn an_entry_that_fits_no_page_and_options_that_make_no_tree_are_refused() {
    let store = Memory::default();
    let mut tree = open(&store);
    let error = now(tree.insert(b"key", &[0; 40])).unwrap_err();
    assert!(error.kind == Kind::Usage && error.message.contains("nothing was changed"), "{error}");
    for (page, cached, dirty) in [(10, 1, 1), (70_000, 1, 1), (128, 0, 1), (128, 1, 0)] {
        let options = TreeOptions { page, cached, dirty };
        assert_eq!(now(Tree::open(store.clone(), options)).err().unwrap().kind, Kind::Usage);
    }
}
