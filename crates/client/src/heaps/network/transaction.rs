//! A transaction with a heap on the network: what is asked in it goes over one connection, which others share.
//!
//! Invariant: all of it goes over the same connection. When that ends, or when what allowed it was revoked, the transaction is
//! undone at its target, and nothing more is asked in it: whoever has it is told, and begins another one.

use super::lanes::Seat;
use super::{NetworkHeaps, about};
use crate::way::{PAUSE, Way};
use bytes::Bytes as Slice;
use forebay_model::{Error, Kind, Result, TargetId};
use forebay_wire::capability::Rights;
use forebay_wire::heap::network::{NetworkAsk, name_of, rights};
use forebay_wire::heap::{HeapAnswer, HeapAsk};
use forebay_wire::link::{Coming, Link};
use forebay_wire::object::MOST_AT_ONCE;
use std::collections::VecDeque;
use std::time::Duration;

/// What counts for less is renewed before more is asked.
const SOON: Duration = Duration::from_secs(5);

/// A transaction. It is undone, if it was not committed, when this is dropped.
pub struct Transaction {
    heaps: NetworkHeaps,
    path: String,
    /// What it is called on its connection: by chance, so that no two of this client have the same.
    number: u64,
    reading: Option<Way>,
    writing: Option<Way>,
    /// The connection, and the target to which it leads.
    link: Option<(TargetId, Link)>,
    /// Something was put or freed since the last commit.
    is_changed: bool,
    sent: VecDeque<Sent>,
    /// Free for another one once all that was asked is answered.
    seat: Seat,
}

/// What was asked.
struct Sent {
    ask: HeapAsk,
    payload: Slice,
    /// Why it did not go out; the heap is as before.
    answer: Result<Coming>,
}

impl Transaction {
    pub(super) fn new(heaps: NetworkHeaps, seat: Seat, path: &str) -> Transaction {
        let number = heaps.nodes.env().random.next_u64();
        let (path, sent) = (path.to_string(), VecDeque::new());
        Transaction { heaps, path, number, reading: None, writing: None, link: None, is_changed: false, sent, seat }
    }

    /// Asks, and waits for the answer; as [`Transaction::send`] and [`Transaction::receive`].
    pub async fn ask(&mut self, ask: HeapAsk, payload: Slice) -> Result<Result<HeapAnswer>> {
        self.send(ask, payload).await?;
        self.receive().await
    }

    /// Asks; the answer is not waited for. An error means that the transaction is undone.
    pub async fn send(&mut self, ask: HeapAsk, payload: Slice) -> Result<()> {
        let way = match self.way_for(&ask).await {
            Ok(way) => way,
            Err(error) => {
                self.sent.push_back(Sent { ask, payload, answer: Err(error) });
                return Ok(());
            }
        };
        let link = match &self.link {
            Some((target, _)) if *target != way.target() => return Err(self.shut_out(&ask, moved())),
            Some((_, link)) => link.clone(),
            None => match connect(&way).await {
                Ok(link) => self.link.insert((way.target(), link)).1.clone(),
                Err(error) => {
                    self.sent.push_back(Sent { ask, payload, answer: Err(error) });
                    return Ok(());
                }
            },
        };
        self.is_changed |= matches!(ask, HeapAsk::Put { .. } | HeapAsk::Free { .. });
        let coming = self.ask_over(&way, &link, &ask, payload.clone())?;
        self.sent.push_back(Sent { ask, payload, answer: Ok(coming) });
        Ok(())
    }

    /// Waits for the answer to the oldest request that has none. An outer error means that the transaction is undone; if what was
    /// asked is a commit, it may have been done.
    pub async fn receive(&mut self) -> Result<Result<HeapAnswer>> {
        let nothing = || Error::usage("nothing was asked that is not answered");
        let Sent { ask, payload, answer } = self.sent.pop_front().ok_or_else(nothing)?;
        let mut coming = match answer {
            Ok(coming) => coming,
            Err(error) => return Ok(Err(error)),
        };
        let mut is_renewed = false;
        loop {
            let error = match coming.await {
                Ok(answer) => {
                    let reply = forebay_wire::read_body(&answer.body)?;
                    if matches!(ask, HeapAsk::Commit { .. } | HeapAsk::Abort) {
                        self.is_changed = false;
                    }
                    return Ok(Ok(HeapAnswer { reply, payload: answer.payload.into_vec() }));
                }
                Err(error) => error,
            };
            let (Some((target, link)), Some(way)) = (self.link.clone(), self.known_way(&ask).cloned()) else {
                return Err(error);
            };
            let error = way.with_name(error, name_of);
            if error.kind == Kind::Disconnected || link.ended().is_some() {
                return Err(error);
            }
            if error.kind != Kind::Stale {
                return Ok(Err(error));
            }
            // What is refused like this changed nothing. What follows it may not overtake it.
            if is_renewed || !self.sent.is_empty() {
                return Err(self.shut_out(&ask, error));
            }
            is_renewed = true;
            if let Err(refused) = way.renew().await {
                return Ok(Err(refused));
            }
            if way.target() != target {
                return Err(self.shut_out(&ask, moved()));
            }
            coming = self.ask_over(&way, &link, &ask, payload.clone())?;
        }
    }

    /// What was begun counts no more: whoever put nothing begins anew without a word. Of a commit that is not done it is to be known
    /// that it was not.
    fn shut_out(&self, ask: &HeapAsk, error: Error) -> Error {
        let is_told = self.is_changed || matches!(ask, HeapAsk::Commit { .. });
        if is_told { error } else { Error { kind: Kind::Disconnected, ..error } }
    }

    fn ask_over(&self, way: &Way, link: &Link, ask: &HeapAsk, payload: Slice) -> Result<Coming> {
        // Also what was moved since is aborted where it was begun.
        let begun = self.link.as_ref().map_or(way.target(), |(target, _)| *target);
        let most = if matches!(ask, HeapAsk::Get { .. }) { MOST_AT_ONCE.0 as usize } else { 0 };
        let asked = || NetworkAsk::Records { transaction: self.number, ask: ask.clone() };
        let payload = if payload.is_empty() { Vec::new() } else { vec![payload] };
        way.ask_over_about(link, |_, heap| about(begun, heap, asked(), most), payload)
    }

    /// The way by which this may be asked, with what counts for a while.
    async fn way_for(&mut self, ask: &HeapAsk) -> Result<Way> {
        let way = match self.known_way(ask) {
            Some(way) => way.clone(),
            None => {
                let write = rights(ask) == Rights::WRITE;
                let way = self.heaps.open(&self.path, write).await?;
                *if write { &mut self.writing } else { &mut self.reading } = Some(way.clone());
                way
            }
        };
        // One that is over would be refused, and with it what is under way behind it. If it cannot be renewed, that is told.
        if way.until() < self.heaps.nodes.env().clock.wall().after(SOON) {
            drop(way.renew().await);
        }
        Ok(way)
    }

    fn known_way(&self, ask: &HeapAsk) -> Option<&Way> {
        match rights(ask) {
            Rights::WRITE => self.writing.as_ref(),
            Rights::READ => self.reading.as_ref(),
            _ => self.reading.as_ref().or(self.writing.as_ref()),
        }
    }
}

/// What was begun where the heap was is undone.
fn moved() -> Error {
    Error::stale("the heap was moved to another target, and what was not committed is undone; abort, and do it again")
}

/// A connection to the node of a heap, as long as patience lasts.
async fn connect(way: &Way) -> Result<Link> {
    let clock = &way.nodes().env().clock;
    let end = clock.now() + way.nodes().patience();
    loop {
        let error = match way.link().await {
            Ok(link) => return Ok(link),
            Err(error) => error,
        };
        if error.kind != Kind::Disconnected || clock.now() >= end {
            return Err(error.of(way.path()));
        }
        clock.sleep(PAUSE).await;
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        let (Some((_, link)), Some(way)) = (&self.link, self.known_way(&HeapAsk::Abort)) else { return };
        // The node takes this whatever still counts; with a connection that ended it is over anyway.
        let Ok(aborted) = self.ask_over(way, link, &HeapAsk::Abort, Slice::new()) else { return };
        // Who comes next asks for as much: all that was asked here is answered by then.
        let seat = self.seat.clone();
        self.heaps.nodes.env().spawner.detach(async move {
            drop(aborted.await);
            drop(seat);
        });
    }
}
