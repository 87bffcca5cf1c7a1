//! Readers that take what they can get while the bench records.

use super::NAME;
use forebay_client::Cluster;
use forebay_env::real::{clock, thread};
use forebay_model::ring::{Item, RingStatus};
use forebay_model::{Bytes, Error, Result};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Between two beginnings of a reader, as a share of the history: they come everywhere, and never in a pattern.
const STEP: f64 = 0.618_033_988_749_895;

/// All of them.
pub(super) struct Readers {
    threads: Vec<thread::JoinHandle<Result<()>>>,
    shared: Arc<Shared>,
}

struct Shared {
    cluster: Cluster,
    /// Elements of a lap, pinned ones left out; of what is there before anything was recorded, none.
    lap: u64,
    stop: AtomicBool,
    read: AtomicU64,
}

impl Readers {
    /// Begins with `count` readers of the ring as it is.
    pub fn begin(cluster: &Cluster, count: u64, ring: &RingStatus) -> Result<Readers> {
        let unpinned = 1.0 - ring.pinned_segments as f64 / ring.segments.max(1) as f64;
        let lap = ((ring.next_sequence - ring.first_sequence) as f64 * unpinned * 0.95) as u64;
        let (stop, read) = (AtomicBool::new(false), AtomicU64::new(0));
        let shared = Arc::new(Shared { cluster: cluster.clone(), lap, stop, read });
        let begin = |number| {
            let shared = shared.clone();
            thread::spawn("reader", move || shared.saturate(number as f64 / count as f64))
        };
        let threads = (0..count).map(begin).collect::<Result<_>>()?;
        Ok(Readers { threads, shared })
    }

    /// Ends them; what they have read.
    pub fn end(self) -> Result<Bytes> {
        let read = self.shared.read.load(Ordering::Relaxed);
        self.shared.stop.store(true, Ordering::Relaxed);
        for reader in self.threads {
            reader.join().map_err(|_| Error::busy("a reader of the bench failed"))??;
        }
        Ok(Bytes(read))
    }
}

impl Shared {
    /// Reads from somewhere in the history on and, at the end or when the writer has overtaken it, from elsewhere.
    fn saturate(&self, mut share: f64) -> Result<()> {
        while !self.stop.load(Ordering::Relaxed) {
            let ring = self.cluster.ring(NAME)?;
            let there = ring.next_sequence - ring.first_sequence;
            let history = if self.lap > 0 { self.lap.min(there) } else { there };
            let from = ring.next_sequence - (history as f64 * share) as u64;
            if self.look_back(from)? == 0 {
                clock::pause(Duration::from_millis(5));
            }
            share = (share + STEP).fract();
        }
        Ok(())
    }

    /// Takes what there is from `from` on; how many bytes.
    fn look_back(&self, from: u64) -> Result<u64> {
        let mut answer = self.cluster.query(NAME, &format!("seq >= {from}"))?;
        let mut taken = 0;
        while let Some(batch) = answer.next_batch()? {
            taken += batch.payload.len() as u64;
            self.read.fetch_add(batch.payload.len() as u64, Ordering::Relaxed);
            let overtaken = batch.items.iter().any(|item| matches!(item, Item::Expired { .. }));
            if overtaken || self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok(taken)
    }
}
