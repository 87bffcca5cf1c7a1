//! One target of a ring over several, as a recorder sees it: there, with a session that takes blocks in, or away and tried again.

use super::super::replaced;
use super::super::way::Way;
use super::super::writer::{self, Carrier};
use crate::outbox::Shared;
use crate::peer::Block;
use forebay_env::Task;
use forebay_model::ring::{RingSpec, Spread};
use forebay_model::{Error, Moment};
use forebay_wire::command::{Durable, WriterOpened};
use forebay_wire::link::Link;
use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long is waited before a target that is away is tried again.
const PAUSE: Duration = Duration::from_secs(1);

/// A session that was opened on a target.
type Opened = (WriterOpened, u64, Link);

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
    },
    Away {
        /// Opens it again.
        coming: Task<Opened>,
        /// Why it cannot be.
        error: Option<Error>,
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
            LaneState::Up { shared, buffers, .. } => shared.lock().kept.len() < *buffers,
            LaneState::Away { .. } => false,
        }
    }

    pub(super) fn begin(&mut self, (opened, writer, link): Opened) {
        let shared = Shared::new(Durable { number: 0, ..opened.durable });
        let carrier = Carrier { way: self.way.clone(), writer, shared: shared.clone() };
        self.way.nodes().env().spawner.detach(carrier.run(link));
        (self.writer, self.next) = (writer, 1);
        self.state = LaneState::Up { shared, buffers: (opened.buffers as usize).max(2), broken: None };
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
        let coming = self.way.nodes().env().spawner.spawn(async move {
            loop {
                let env = way.nodes().env();
                env.clock.sleep(PAUSE).await;
                let writer = env.random.next_u64();
                if let Ok((opened, link)) = writer::open(&way, writer, false).await {
                    return (opened, writer, link);
                }
                if let Some((spec, spread)) = covered.as_deref() {
                    // Whatever is in the way, it is tried again.
                    drop(replaced::find_place(&way, spec, *spread).await);
                }
            }
        });
        self.state = LaneState::Away { coming, error };
        kept.unwrap_or_default()
    }

    pub(super) fn hand_over(&mut self, block: Arc<Block>) {
        self.next += 1;
        if let Some(shared) = self.up() {
            shared.change(|state| state.kept.push_back(block));
        }
    }
}
