//! What a tree needs of whoever keeps its pages, and how a heap does it.

use forebay_model::Result;
use forebay_model::heap::RecordId;
use forebay_target::heap::Heap;
use std::future::Future;
use std::rc::Rc;

/// Keeps pages under numbers that it chooses. What is put and freed takes effect with the next commit, all of it or
/// nothing, and is seen at once by whoever asks here.
pub trait PageStore {
    /// Keeps a page: its number.
    fn put(&self, bytes: &[u8]) -> impl Future<Output = Result<u64>>;

    /// The bytes of a page.
    fn get(&self, id: u64) -> impl Future<Output = Result<Vec<u8>>>;

    /// A page is no longer wanted.
    fn free(&self, id: u64) -> impl Future<Output = Result<()>>;

    /// Makes durable what was put and freed. `root` is what [`PageStore::root`] says from then on.
    fn commit(&self, root: Option<u64>) -> impl Future<Output = Result<()>>;

    /// What was put and freed since the last commit is undone.
    fn abort(&self) -> impl Future<Output = Result<()>>;

    /// The root of the last commit.
    fn root(&self) -> Option<u64>;
}

impl PageStore for Rc<Heap> {
    async fn put(&self, bytes: &[u8]) -> Result<u64> {
        Ok(Heap::put(self, bytes).await?.number())
    }

    async fn get(&self, id: u64) -> Result<Vec<u8>> {
        Heap::get(self, RecordId::from_number(id)).await
    }

    async fn free(&self, id: u64) -> Result<()> {
        Heap::free(self, RecordId::from_number(id)).await
    }

    async fn commit(&self, root: Option<u64>) -> Result<()> {
        Heap::commit(self, root.map(RecordId::from_number)).await.map(drop)
    }

    async fn abort(&self) -> Result<()> {
        Heap::abort(self).await
    }

    fn root(&self) -> Option<u64> {
        Heap::root(self).map(RecordId::number)
    }
}
