//! What all loads of small records share: they know no world, only a store, a source of chance, and whom to tell how far
//! they are. So the same load runs on a simulated disk, on a real one, and over other stores of pages.

use super::{churn, pages, trace, tree};
use forebay_btree::PageStore;
use forebay_env::Random;
use forebay_model::{Bytes, Result};
use std::cell::Cell;
use std::rc::Rc;

/// Is told how much is done, and of how much.
pub type Tell = Rc<dyn Fn(u64, u64)>;

/// Puts between two tellings.
const TELL_EVERY: u64 = 256;

/// What is put, read and freed.
#[derive(Debug, Clone)]
pub enum Work {
    /// The pages of three B+trees, without their keys.
    Pages(pages::Load),
    /// Keys, in three B+trees.
    Tree(tree::Load),
    /// Records that are replaced at random.
    Churn(churn::Load),
    /// What a file says.
    Trace(Rc<trace::Trace>),
}

/// What a store was asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Given {
    /// Records put.
    pub puts: u64,
    /// Their bytes.
    pub put_bytes: Bytes,
    /// Records read.
    pub gets: u64,
    /// Records freed.
    pub frees: u64,
    /// Commits.
    pub commits: u64,
}

/// A store that counts what it is asked for.
#[derive(Clone)]
pub struct Counting<S> {
    store: S,
    given: Rc<Cell<Given>>,
}

impl<S> Counting<S> {
    /// Counts what `store` is asked for from now on.
    pub fn new(store: S) -> Counting<S> {
        Counting { store, given: Rc::default() }
    }

    /// What it was asked for.
    pub fn given(&self) -> Given {
        self.given.get()
    }

    /// Begins at zero again.
    pub fn reset(&self) {
        self.given.set(Given::default());
    }

    fn count(&self, change: impl FnOnce(&mut Given)) {
        let mut given = self.given.get();
        change(&mut given);
        self.given.set(given);
    }
}

impl<S: PageStore> PageStore for Counting<S> {
    async fn put(&self, bytes: &[u8]) -> Result<u64> {
        self.count(|given| {
            given.puts += 1;
            given.put_bytes += Bytes(bytes.len() as u64);
        });
        self.store.put(bytes).await
    }

    async fn get(&self, id: u64) -> Result<Vec<u8>> {
        self.count(|given| given.gets += 1);
        self.store.get(id).await
    }

    async fn free(&self, id: u64) -> Result<()> {
        self.count(|given| given.frees += 1);
        self.store.free(id).await
    }

    async fn commit(&self, root: Option<u64>) -> Result<()> {
        self.count(|given| given.commits += 1);
        self.store.commit(root).await
    }

    async fn abort(&self) -> Result<()> {
        self.store.abort().await
    }

    fn root(&self) -> Option<u64> {
        self.store.root()
    }
}

/// A load that is under way on a store.
pub enum Running<S> {
    /// See [`Work`].
    Pages(pages::Running<S>),
    /// See [`Work`].
    Tree(tree::Running<S>),
    /// See [`Work`].
    Churn(churn::Running<S>),
    /// See [`Work`].
    Trace(trace::Running<S>),
}

impl<S: PageStore + Clone> Running<S> {
    /// Puts what has to be there before anything is measured.
    pub async fn prepare(work: &Work, store: S, random: Rc<dyn Random>) -> Result<Running<S>> {
        Ok(match work {
            Work::Pages(load) => Running::Pages(pages::Running::new(load, store, random)?),
            Work::Tree(load) => Running::Tree(tree::Running::new(load, store, random).await?),
            Work::Churn(load) => Running::Churn(churn::Running::fill(load, store, random).await?),
            Work::Trace(trace) => Running::Trace(trace::Running::new(trace.clone(), store)),
        })
    }

    /// Does what is measured; the last thing is a commit.
    pub async fn run(&mut self, tell: &Tell) -> Result<()> {
        match self {
            Running::Pages(load) => load.run(tell).await,
            Running::Tree(load) => load.run(tell).await,
            Running::Churn(load) => load.run(tell).await,
            Running::Trace(load) => load.run(tell).await,
        }
    }

    /// Looks whether what should be there is.
    pub async fn verify(&mut self) -> Result<()> {
        match self {
            Running::Pages(load) => load.verify().await,
            Running::Tree(load) => load.verify().await,
            Running::Churn(load) => load.verify().await,
            Running::Trace(load) => load.verify().await,
        }
    }
}

/// Tells, but not each time.
pub fn tell_now_and_then(tell: &Tell, done: u64, total: u64) {
    if done.is_multiple_of(TELL_EVERY) {
        tell(done, total);
    }
}

/// A number that is distributed normally, nearly: the sum of twelve.
pub fn normal(random: &dyn Random) -> f64 {
    let sum: u64 = (0..12).map(|_| random.below(1 << 20)).sum();
    sum as f64 / f64::from(1 << 20) - 6.0
}
