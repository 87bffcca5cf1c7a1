//! Reads a ring back in virtual time, as a list of events.

use forebay_env::pipe::pipe;
use forebay_env::{Clock, Spawner};
use forebay_model::gap::Gap;
use forebay_model::query::Query;
use forebay_model::ring::{Batch, Item, QuerySummary};
use forebay_model::{Result, Timestamp};
use forebay_target::Ring;
use forebay_target::query::{Limits, run};
use std::rc::Rc;

/// One thing that a query returned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A whole element.
    Element {
        /// Its sequence.
        sequence: u64,
        /// Its time.
        time: Timestamp,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// A gap.
    Gap(Gap),
    /// A range that is gone.
    Expired(u64, u64),
}

/// Runs a query to its end.
pub async fn read(
    ring: Rc<Ring>,
    text: &str,
    clock: &Rc<dyn Clock>,
    spawner: &Spawner,
) -> Result<(Vec<Event>, QuerySummary)> {
    read_with(
        ring,
        text,
        Limits { follow: false, elements: u64::MAX, gaps_only: false, blocks: false, numbered: false },
        clock,
        spawner,
    )
    .await
}

/// Runs a query within limits to its end.
pub async fn read_with(
    ring: Rc<Ring>,
    text: &str,
    limits: Limits,
    clock: &Rc<dyn Clock>,
    spawner: &Spawner,
) -> Result<(Vec<Event>, QuerySummary)> {
    let query = Query::parse(text, &ring.keys, clock.wall())?;
    let (inlet, mut outlet) = pipe::<Batch>(4 << 20);
    let task = spawner.spawn(async move { run(ring, query, limits, &inlet).await });
    let mut events = Vec::new();
    let mut open: Option<(u64, Timestamp, Vec<u8>)> = None;
    while let Some(batch) = outlet.receive().await {
        let mut at = 0usize;
        for item in &batch.items {
            match *item {
                Item::Element { sequence, time, length, caller, cut: _, first, last } => {
                    let bytes = &batch.payload[at..at + length as usize];
                    at += length as usize + caller as usize;
                    if first {
                        open = Some((sequence, time, Vec::new()));
                    }
                    if let Some((_, _, whole)) = &mut open {
                        whole.extend_from_slice(bytes);
                    }
                    if last && let Some((sequence, time, bytes)) = open.take() {
                        events.push(Event::Element { sequence, time, bytes });
                    }
                }
                Item::Gap(gap) => {
                    open = None;
                    events.push(Event::Gap(gap));
                }
                Item::Expired { from, to } => events.push(Event::Expired(from, to)),
                Item::Block { .. } => {}
            }
        }
    }
    Ok((events, task.await?))
}
