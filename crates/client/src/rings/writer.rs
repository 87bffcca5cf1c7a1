//! A recorder's blocks on their way to a ring on the network.
//!
//! A task carries them over one connection after the other, and resumes the session whenever one broke, for as long as the
//! recorder is there: a node that is away is waited for, with the buffers that there are. Blocks are known by session and number,
//! so none is stored twice; each is kept until it is durable and not only received, since a node may die in between.

use super::spread::Conductor;
use super::way::{PAUSE, Way};
use super::{checked, moved, replaced};
use crate::outbox::{Outbox, Shared, State};
use crate::peer::{Block, Lost, Splitting, WriterLink};
use crate::stopper::Stopper;
use bytes::Bytes as Slice;
use forebay_env::Buffer;
use forebay_model::block::{Header, View};
use forebay_model::ring::Spread;
use forebay_model::{Error, Kind, Moment, Result};
use forebay_wire::command::{Durable, WriterOpened};
use forebay_wire::control::files::ComponentState;
use forebay_wire::link::{Coming, Link};
use forebay_wire::ring::RingAsk;
use std::cell::Cell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Blocks that were handed to the connection and not taken in by the node: under what a node takes of one connection.
const MOST_PENDING: usize = 512;

/// A writer session of a ring on the network. It goes on by itself when a connection breaks; it ends when this is
/// dropped, and what is not durable by then may be lost: [`WriterLink::close`] waits for it.
pub struct RingWriter {
    outbox: Outbox,
    splitting: Splitting,
    /// How much silence is borne by whoever waits for what was recorded to be durable.
    limit: Duration,
}

impl RingWriter {
    pub(super) async fn open(way: Way, writer: u64, limit: Duration) -> Result<RingWriter> {
        let Opened { opened, link, place } = open(&way, writer, None).await?;
        let outbox = Outbox::new(opened)?;
        let spawner = way.nodes().env().spawner.clone();
        let watching = spawner.spawn(replaced::watch(vec![way.clone()], Spread::default()));
        let carrier = Carrier { follows: Some(way), ..Carrier::new(place, writer, outbox.shared.clone()) };
        spawner.detach(async move {
            carrier.run(link).await;
            drop(watching);
        });
        Ok(RingWriter { outbox, splitting: Splitting::Anywhere, limit })
    }

    /// The same for a ring over several targets.
    pub(super) async fn open_spread(
        ways: Vec<Way>,
        spread: Spread,
        writer: u64,
        limit: Duration,
    ) -> Result<RingWriter> {
        let spawner = ways[0].nodes().env().spawner.clone();
        let (opened, conductor) = Conductor::open(ways, spread, writer).await?;
        let outbox = Outbox::new(opened)?;
        spawner.detach(conductor.run(outbox.shared.clone()));
        let splitting = if spread.parity { Splitting::Nowhere } else { Splitting::FromABlock };
        Ok(RingWriter { outbox, splitting, limit })
    }

    fn going_on(&self, state: &State) -> Result<()> {
        match &state.failure {
            Some(error) => Err(error.clone()),
            None if state.silent >= self.limit => Err(Error::busy(format!(
                "the node that has the ring was not heard for {:?}; the wait for it is over",
                state.silent
            ))),
            None => Ok(()),
        }
    }
}

/// A session that was opened.
pub(super) struct Opened {
    pub(super) opened: WriterOpened,
    pub(super) link: Link,
    /// Where it is.
    pub(super) place: Way,
}

/// Opens a session where a part lies, or has one go on there of which this is the last block in its former place.
pub(super) async fn open(way: &Way, writer: u64, resumed: Option<u64>) -> Result<Opened> {
    let before = moved::go_on(way, writer, resumed.unwrap_or(0)).await?;
    let mut opened = open_at(way.bound(), writer, resumed.is_some()).await?;
    // Who was there before recorded in both places: a session that is new tells how long nobody did.
    opened.opened.newest = opened.opened.newest.max(before);
    Ok(opened)
}

/// Opens or resumes a session in this place.
async fn open_at(place: Way, writer: u64, resume: bool) -> Result<Opened> {
    let (answer, _, link) = place.ask(&RingAsk::OpenWriter { writer, resume }).await?;
    let opened = checked::opened(place.target(), forebay_wire::read_body(&answer.body)?)?;
    Ok(Opened { opened, link, place })
}

/// What carries the blocks of a session to one target.
pub(super) struct Carrier {
    /// Where the session is.
    way: Way,
    writer: u64,
    shared: Arc<Shared>,
    /// The session goes on on another target when the part lies there.
    follows: Option<Way>,
    /// The last block that was handed over ends within an element.
    is_within: Cell<bool>,
}

/// Why blocks are not carried any more over a connection.
enum Over {
    /// The session was given up.
    GivenUp,
    /// All is durable, and the session is to be closed.
    Closing,
    /// The ring is to go on on another target.
    Leaves,
}

/// What was asked over one connection.
#[derive(Default)]
struct UnderWay {
    appends: VecDeque<Coming>,
    durable: Option<Coming>,
}

/// A block on a connection, where only its bytes matter. Whoever waits for its buffer is told when it has gone.
struct OnItsWay {
    block: Option<Arc<Block>>,
    shared: Arc<Shared>,
}

impl AsRef<[u8]> for OnItsWay {
    fn as_ref(&self) -> &[u8] {
        self.block.as_ref().map_or(&[], |block| &block.buffer)
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        drop(self.block.take());
        self.shared.tell();
    }
}

impl Carrier {
    pub(super) fn new(way: Way, writer: u64, shared: Arc<Shared>) -> Carrier {
        Carrier { way, writer, shared, follows: None, is_within: Cell::new(false) }
    }

    /// Carries them until the session is closed or fails.
    pub(super) async fn run(mut self, mut link: Link) {
        loop {
            let carried = self.carry(&link).await;
            // A query that waits, and what was asked over it, ends with it.
            link.close();
            match carried {
                Ok(Over::GivenUp | Over::Closing) => return self.shared.change(|state| state.closed = true),
                Ok(Over::Leaves) => self.way = self.follows.as_ref().map_or_else(|| self.way.clone(), Way::bound),
                Err(error) if !is_passing(&error) => return self.fail(error),
                Err(_) => self.shared.change(|state| state.is_broken = true),
            }
            let since = self.now();
            link = loop {
                if self.shared.lock().failure.is_some() {
                    return;
                }
                match self.open_again().await {
                    Ok(Opened { opened, link, place }) => {
                        self.resumed(&opened);
                        self.way = place;
                        break link;
                    }
                    Err(error) if !is_passing(&error) => return self.fail(error),
                    Err(_) => {
                        let silent = self.now().since(since);
                        self.shared.change(|state| state.silent = silent);
                        self.way.nodes().env().clock.sleep(PAUSE).await;
                    }
                }
            };
        }
    }

    /// Resumes the session where it is, or goes on with it where the part lies.
    async fn open_again(&self) -> Result<Opened> {
        let Some(way) = &self.follows else { return open_at(self.way.clone(), self.writer, true).await };
        // It is ended where it is; what was copied from there meanwhile, where the copy is. On a lost target nothing can be ended.
        let is_there = |place: &Way| place.state() != ComponentState::Missed;
        let places = [Some(self.way.clone()), way.former()].into_iter().flatten();
        if self.way.target() != way.target()
            && let Some(place) = places.into_iter().find(is_there)
        {
            return open_at(place, self.writer, true).await;
        }
        let durable = self.shared.lock().durable.number;
        open(way, self.writer, Some(durable)).await
    }

    fn now(&self) -> Moment {
        self.way.nodes().env().clock.now()
    }

    fn fail(&self, error: Error) {
        let error = self.way.named(error);
        self.shared.change(|state| state.fail(error));
    }

    /// The node says how far it has the session: what it lacks is sent again.
    fn resumed(&self, opened: &WriterOpened) {
        let mut state = self.shared.lock();
        let freed = state.settle(opened.durable);
        state.sent = state.kept.iter().take_while(|block| block.number <= opened.received).count();
        state.silent = Duration::ZERO;
        state.is_broken = false;
        drop(state);
        drop(freed);
        self.shared.tell();
    }

    /// Carries blocks over a connection until the session is closed or given up, or the connection breaks.
    async fn carry(&self, link: &Link) -> Result<Over> {
        let mut under_way = UnderWay::default();
        let over = poll_fn(|context| self.poll(link, &mut under_way, context)).await?;
        if !matches!(over, Over::GivenUp) {
            match self.way.ask_over(link, &RingAsk::CloseWriter(self.writer), Vec::new(), 0)?.await {
                // All is durable, and the session ended with the connection.
                Err(error) if error.kind == Kind::Disconnected => {}
                closed => drop(closed?),
            }
        }
        Ok(over)
    }

    /// Why nothing more is carried.
    fn poll(&self, link: &Link, under_way: &mut UnderWay, context: &mut Context<'_>) -> Poll<Result<Over>> {
        let leaves = self.follows.as_ref().is_some_and(|way| way.target() != self.way.target());
        loop {
            let block = {
                let mut state = self.shared.lock();
                state.carrier = Some(context.waker().clone());
                state.is_leaving = leaves;
                if state.failure.is_some() {
                    return Poll::Ready(Ok(Over::GivenUp));
                }
                if state.closing && state.kept.is_empty() {
                    return Poll::Ready(Ok(Over::Closing));
                }
                let next = state.kept.get(state.sent);
                // An element is on one target as a whole.
                let stays = leaves && next.map_or(!self.is_within.get(), |next| !header_of(next).starts_within());
                if stays && state.sent == 0 {
                    return Poll::Ready(Ok(Over::Leaves));
                }
                let block = next.filter(|_| !stays && under_way.appends.len() < MOST_PENDING).cloned();
                state.sent += usize::from(block.is_some());
                block
            };
            let Some(block) = block else { break };
            match self.append(link, block) {
                Ok(coming) => under_way.appends.push_back(coming),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let mut is_less = false;
        while let Some(first) = under_way.appends.front_mut() {
            match Pin::new(first).poll(context) {
                Poll::Ready(Ok(_)) => is_less = under_way.appends.pop_front().is_some(),
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => break,
            }
        }
        loop {
            let durable = match &mut under_way.durable {
                Some(durable) => durable,
                none => {
                    let seen = self.shared.lock().durable;
                    let ask = RingAsk::Durable { writer: self.writer, seen };
                    match self.way.ask_over(link, &ask, Vec::new(), 0) {
                        Ok(coming) => none.insert(coming),
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                }
            };
            match Pin::new(durable).poll(context) {
                Poll::Ready(answer) => {
                    under_way.durable = None;
                    let durable: Result<Durable> = answer.and_then(|answer| forebay_wire::read_body(&answer.body));
                    match durable {
                        Ok(durable) => self.shared.settle(durable),
                        Err(error) => return Poll::Ready(Err(error)),
                    }
                    is_less = true;
                }
                Poll::Pending => break,
            }
        }
        if is_less {
            // There may be room now for what waits here, or nothing left to wait for.
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }

    fn append(&self, link: &Link, block: Arc<Block>) -> Result<Coming> {
        let age = self.now().since(block.accepted);
        if self.follows.is_some() {
            self.is_within.set(header_of(&block).continues());
        }
        let ask = RingAsk::Append { writer: self.writer, number: block.number, age };
        let bytes = Slice::from_owner(OnItsWay { block: Some(block), shared: self.shared.clone() });
        self.way.ask_over(link, &ask, vec![bytes], 0)
    }
}

/// The header of a block as it was packed: its checksum comes with its place.
fn header_of(block: &Block) -> Header {
    *View::of_sealed(&block.buffer).expect("the recorder packed it").header()
}

/// Whether it may be over by itself: then the session is resumed, as often as need be.
pub(super) fn is_passing(error: &Error) -> bool {
    matches!(error.kind, Kind::Disconnected | Kind::Busy | Kind::Stale)
}

impl WriterLink for RingWriter {
    fn opened(&self) -> &WriterOpened {
        &self.outbox.opened
    }

    fn take(&self, wait: bool, stopper: &Stopper) -> Result<Option<Buffer>> {
        self.outbox.take(wait, stopper)
    }

    fn send(&mut self, block: Block) -> Result<()> {
        self.outbox.send(block)
    }

    fn durable(&self) -> Durable {
        self.outbox.durable()
    }

    fn check(&self) -> Result<()> {
        self.outbox.check()
    }

    fn wait_durable(&self, number: u64) -> Result<Durable> {
        self.outbox.wait_durable(number, |state| self.going_on(state))
    }

    fn lost(&self) -> Vec<Lost> {
        self.outbox.lost()
    }

    fn splitting(&self) -> Splitting {
        match self.splitting {
            // Else a ring of large elements might never come to a block that begins with one.
            Splitting::Anywhere if self.outbox.shared.lock().is_leaving => Splitting::FromABlock,
            splitting => splitting,
        }
    }

    fn unsettled(self: Box<Self>) -> VecDeque<Block> {
        self.outbox.end();
        self.outbox.unsettled()
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.outbox.close(|state| self.going_on(state))
    }
}

impl Drop for RingWriter {
    fn drop(&mut self) {
        self.outbox.end();
    }
}
