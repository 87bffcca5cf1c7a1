//! One target of a ring over several, as a recorder sees it: there, with a session that takes blocks in, or away and tried again.

use super::super::replaced;
use super::super::way::Way;
use super::super::writer::{self, Carrier};
use crate::outbox::Shared;
use crate::peer::Block;
use forebay_env::Task;
use forebay_model::ring::{RingSpec, Spread};
use forebay_model::{Error, Moment};
use forebay_wire::command::Durable;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

/// How long is waited before a target that is away is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// A session that was opened on a target, and its number.
type Opened = (writer::Opened, u64);

/// For so long a part that goes on on another target is waited for.
const MOVED: Duration = Duration::from_secs(1);

/// One target, as a recorder sees it.
pub(super) struct Lane {
    pub(super) way: Way,
    /// The ring, if the others can do without this target: then its part is made elsewhere when it is lost.
    pub(super) covered: Option<Rc<(RingSpec, Spread)>>,
    /// The session there, and the number of its next block; if it is away, that of what it was to have.
    pub(super) writer: u64,
    pub(super) next: u64,
    pub(super) state: LaneState,
}

pub(super) enum LaneState {
    Up {
        shared: Arc<Shared>,
        /// Blocks that it has buffers for.
        buffers: usize,
        /// Since when it has no connection.
        broken: Option<Moment>,
        /// Where the session is.
        place: Way,
        /// It takes nothing more: its part lies on another target by now.
        leaves: bool,
    },
    Away {
        /// Opens it again.
        coming: Task<Opened>,
        /// Why it cannot be.
        error: Option<Error>,
        /// All of it is durable, and until then it goes on on another target in a moment, so that nothing counts as missing.
        moves: Option<Moment>,
    },
}

impl Lane {
    pub(super) fn up(&self) -> Option<&Arc<Shared>> {
        match &self.state {
            LaneState::Up { shared, .. } => Some(shared),
            LaneState::Away { .. } => None,
        }
    }

    pub(super) fn has_room(&self) -> bool {
        match &self.state {
            LaneState::Up { shared, buffers, leaves, .. } => !leaves && shared.lock().kept.len() < *buffers,
            LaneState::Away { .. } => false,
        }
    }

    /// Whether it takes no blocks just now, and none counts as missing for that.
    pub(super) fn is_leaving(&self, now: Moment) -> bool {
        match self.state {
            LaneState::Up { leaves, .. } => leaves,
            LaneState::Away { moves, .. } => moves.is_some_and(|until| now < until),
        }
    }

    /// Goes on on the target where its part lies by now, once all that was handed over is durable where it lay, and no sooner than it
    /// `may`. Until then it takes nothing.
    pub(super) fn leave_when_durable(&mut self, may: bool, now: Moment) {
        let LaneState::Up { shared, leaves, place, .. } = &mut self.state else { return };
        *leaves = place.target() != self.way.target();
        if !*leaves || !may || !shared.lock().kept.is_empty() {
            return;
        }
        shared.change(|state| state.closing = true);
        let (way, covered, shared) = (self.way.clone(), self.covered.clone(), shared.clone());
        let coming = self.way.nodes().env().spawner.spawn(async move {
            closed(&shared).await;
            opened(way, covered, Duration::ZERO).await
        });
        self.state = LaneState::Away { coming, error: None, moves: Some(now + MOVED) };
    }

    pub(super) fn begin(&mut self, (writer::Opened { opened, link, place }, writer): Opened) {
        let shared = Shared::new(Durable { number: 0, ..opened.durable });
        let carrier = Carrier::new(place.clone(), writer, shared.clone());
        self.way.nodes().env().spawner.detach(carrier.run(link));
        (self.writer, self.next) = (writer, 1);
        self.state =
            LaneState::Up { shared, buffers: (opened.buffers as usize).max(2), broken: None, leaves: false, place };
    }

    /// Counts as away from now on; what was handed over and is not known to be durable, in order.
    pub(super) fn leave(&mut self, error: Option<Error>) -> VecDeque<Arc<Block>> {
        let kept = self.up().map(|shared| {
            shared.change(|state| {
                state.fail(Error::disconnected("the target is away"));
                std::mem::take(&mut state.kept)
            })
        });
        let (way, covered) = (self.way.clone(), self.covered.clone());
        let coming = self.way.nodes().env().spawner.spawn(opened(way, covered, PAUSE));
        self.state = LaneState::Away { coming, error, moves: None };
        kept.unwrap_or_default()
    }

    pub(super) fn hand_over(&mut self, block: Arc<Block>) {
        self.next += 1;
        if let Some(shared) = self.up() {
            shared.change(|state| state.kept.push_back(block));
        }
    }
}

/// Opens another session, as soon as it can be and no sooner than in so long.
async fn opened(way: Way, covered: Option<Rc<(RingSpec, Spread)>>, mut pause: Duration) -> Opened {
    loop {
        let env = way.nodes().env();
        env.clock.sleep(pause).await;
        let writer = env.random.next_u64();
        if let Ok(opened) = writer::open(&way, writer, None).await {
            return (opened, writer);
        }
        if let Some((spec, spread)) = covered.as_deref() {
            // Whatever is in the way, it is tried again.
            drop(replaced::find_place(&way, spec, *spread).await);
        }
        pause = PAUSE;
    }
}

/// Waits until a session is closed, or cannot be.
async fn closed(shared: &Shared) {
    poll_fn(|context| {
        let mut state = shared.lock();
        state.watcher = Some(context.waker().clone());
        if state.closed || state.failure.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
}
