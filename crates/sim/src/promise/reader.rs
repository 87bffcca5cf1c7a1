//! Readers that always have something to read.

use forebay_env::pipe::pipe;
use forebay_env::{Clock, Random};
use forebay_model::Result;
use forebay_model::query::Query;
use forebay_model::ring::{Batch, Item};
use forebay_target::Ring;
use forebay_target::query::Limits;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Reads from a random moment of the history on and, at the end or when the writer has overtaken it, from another.
pub(super) struct Reader {
    pub(super) ring: Rc<Ring>,
    pub(super) random: Rc<dyn Random>,
    pub(super) clock: Rc<dyn Clock>,
    /// How far back nothing is missing.
    pub(super) history: Duration,
    pub(super) stop: Rc<Cell<bool>>,
    pub(super) read: Rc<Cell<u64>>,
}

/// How long a reader waits before it looks elsewhere when it found nothing.
const NOTHING_THERE: Duration = Duration::from_millis(20);

impl Reader {
    /// Reads until it is told to stop.
    pub(super) async fn saturate(self) {
        while !self.stop.get() {
            let back = Duration::from_micros(self.random.below(self.history.as_micros() as u64 + 1));
            let text = format!("after {}us ago", back.as_micros());
            let query = Query::parse(&text, &self.ring.keys, self.clock.wall()).expect("a query of the bench's own");
            let before = self.read.get();
            if self.look_back(query).await.is_err() {
                return;
            }
            if self.read.get() == before {
                // Nothing is there yet, or not where it looked.
                self.clock.sleep(NOTHING_THERE).await;
            }
        }
    }

    /// Takes what `query` finds, until the writer overtakes it.
    async fn look_back(&self, query: Query) -> Result<()> {
        let (inlet, mut outlet) = pipe::<Batch>(8 << 20);
        let limits = Limits { follow: false, elements: u64::MAX, gaps_only: false, blocks: false, numbered: false };
        let ring = self.ring.clone();
        let task =
            self.ring.spawner().spawn(async move { forebay_target::query::run(ring, query, limits, &inlet).await });
        while let Some(batch) = outlet.receive().await {
            self.read.set(self.read.get() + batch.payload.len() as u64);
            let overtaken = batch.items.iter().any(|item| matches!(item, Item::Expired { .. }));
            if self.stop.get() || overtaken {
                break;
            }
        }
        drop(outlet);
        task.await.map(|_| ())
    }
}
