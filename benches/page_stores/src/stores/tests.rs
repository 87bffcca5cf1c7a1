use super::fjall::Fjall;
use super::redb::Redb;
use super::{Buffered, Engine};
use forebay_btree::PageStore;
use forebay_model::Kind;
use std::collections::BTreeMap;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

fn now<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("engines block the thread that calls them"),
    }
}

/// Puts, frees and commits a few times, with so little memory that much goes to the engine before its commit.
fn keeps_pages(engine: impl Engine) {
    let store = Buffered::new(engine, 20_000);
    let mut pages: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut gone = Vec::new();
    for number in 0..2000_u64 {
        let bytes = vec![number as u8; 1 + (number * 37 % 900) as usize];
        pages.insert(now(store.put(&bytes)).unwrap(), bytes);
        if number % 3 == 2 {
            let id = *pages.keys().nth((number * 7 % pages.len() as u64) as usize).unwrap();
            now(store.free(id)).unwrap();
            pages.remove(&id);
            gone.push(id);
        }
        if number % 10 == 0 {
            let (id, bytes) = pages.iter().nth((number / 2 % pages.len() as u64) as usize).unwrap();
            assert_eq!(&now(store.get(*id)).unwrap(), bytes);
        }
        if number % 300 == 299 {
            now(store.commit(pages.keys().next().copied())).unwrap();
        }
    }
    pages.iter().for_each(|(id, bytes)| assert_eq!(&now(store.get(*id)).unwrap(), bytes));
    gone.into_iter().for_each(|id| assert_eq!(now(store.get(id)).unwrap_err().kind, Kind::Missing));
}

#[test]
fn redb_keeps_pages() {
    let dir = tempfile::tempdir().unwrap();
    keeps_pages(Redb::create(dir.path(), 8 << 20).unwrap());
}

#[test]
fn fjall_keeps_pages() {
    let dir = tempfile::tempdir().unwrap();
    keeps_pages(Fjall::create(dir.path(), 8 << 20).unwrap());
}

#[cfg(feature = "rocksdb")]
#[test]
fn rocksdb_keeps_pages() {
    let dir = tempfile::tempdir().unwrap();
    keeps_pages(super::rocksdb::Rocks::create(dir.path(), 8 << 20).unwrap());
}
