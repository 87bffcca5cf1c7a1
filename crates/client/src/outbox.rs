//! A recorder's blocks on their way to another process, whatever the way is.
//!
//! Every block is kept until the other side says that it is durable; its buffer is free then. Whoever carries the blocks is
//! told when there are some, and the recorder itself never waits for the other side: it runs out of buffers, and then waits or
//! drops as its ring says.

use crate::peer::{Block, Lost};
use crate::stopper::Stopper;
use forebay_env::watched::Watched;
use forebay_env::{Buffer, Slab};
use forebay_model::{Error, Result};
use forebay_wire::command::{Durable, WriterOpened};
use std::collections::VecDeque;
use std::sync::{Arc, MutexGuard};
use std::task::Waker;
use std::time::Duration;

/// The least number of buffers: one being packed, one on its way, and some to be made durable.
const LEAST_BUFFERS: usize = 4;

/// What the recorder has of it.
pub(crate) struct Outbox {
    pub(crate) opened: WriterOpened,
    slab: Slab,
    pub(crate) shared: Arc<Shared>,
}

/// What it shares with whoever carries the blocks.
pub(crate) struct Shared {
    state: Watched<State>,
}

pub(crate) struct State {
    /// Blocks that are not durable, oldest first.
    pub(crate) kept: VecDeque<Arc<Block>>,
    /// How many of them, from the front, were handed to the connection.
    pub(crate) sent: usize,
    pub(crate) durable: Durable,
    pub(crate) closing: bool,
    pub(crate) closed: bool,
    /// How long nothing has been heard, though something is said all the time.
    pub(crate) silent: Duration,
    pub(crate) failure: Option<Error>,
    /// A task that carries the blocks.
    pub(crate) carrier: Option<Waker>,
    /// A task that looks how far they are.
    pub(crate) watcher: Option<Waker>,
    /// Whether there is no connection now.
    pub(crate) is_broken: bool,
    /// Whether a block is to begin with an element soon, as blocks are to go elsewhere from there on.
    pub(crate) is_leaving: bool,
    /// Up to here somebody waits for blocks to be durable.
    pub(crate) wanted: u64,
    /// What was given up and not told of yet.
    pub(crate) lost: Vec<Lost>,
}

impl State {
    /// Nothing is on its way.
    pub(crate) fn new(durable: Durable) -> State {
        State {
            kept: VecDeque::new(),
            sent: 0,
            durable,
            closing: false,
            closed: false,
            silent: Duration::ZERO,
            failure: None,
            carrier: None,
            watcher: None,
            is_broken: false,
            is_leaving: false,
            wanted: 0,
            lost: Vec::new(),
        }
    }

    /// The first reason counts.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }

    /// The blocks that are known to be durable now; they are kept no more.
    pub(crate) fn settle(&mut self, durable: Durable) -> Vec<Arc<Block>> {
        self.durable = durable;
        let settled = self.kept.iter().take_while(|block| block.number <= durable.number).count();
        self.sent = self.sent.saturating_sub(settled);
        self.kept.drain(..settled).collect()
    }
}

impl Shared {
    pub(crate) fn new(durable: Durable) -> Arc<Shared> {
        Arc::new(Shared { state: Watched::new(State::new(durable)) })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    pub(crate) fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.state.wait(state)
    }

    /// Tells all who wait of a change.
    pub(crate) fn tell(&self) {
        let mut state = self.lock();
        let tasks = [state.carrier.take(), state.watcher.take()];
        drop(state);
        self.state.tell();
        tasks.into_iter().flatten().for_each(Waker::wake);
    }

    pub(crate) fn change<R>(&self, change: impl FnOnce(&mut State) -> R) -> R {
        let result = change(&mut self.lock());
        self.tell();
        result
    }

    /// Takes note of what is durable.
    pub(crate) fn settle(&self, durable: Durable) {
        let freed = self.lock().settle(durable);
        drop(freed);
        self.tell();
    }
}

impl Outbox {
    /// For blocks of the session that was opened.
    pub(crate) fn new(opened: WriterOpened) -> Result<Outbox> {
        let slab = Slab::new(opened.spec.block, (opened.buffers as usize).max(LEAST_BUFFERS))?;
        let shared = Shared::new(opened.durable);
        Ok(Outbox { opened, slab, shared })
    }

    pub(crate) fn take(&self, wait: bool, stopper: &Stopper) -> Result<Option<Buffer>> {
        let shared = self.shared.clone();
        if wait {
            stopper.on_stop(move || shared.tell());
        }
        let mut state = self.shared.lock();
        loop {
            if let Some(error) = &state.failure {
                return Err(error.clone());
            }
            if let Some(buffer) = self.slab.try_take() {
                return Ok(Some(buffer));
            }
            if !wait || stopper.is_stopped() {
                return Ok(None);
            }
            state = self.shared.wait(state);
        }
    }

    pub(crate) fn send(&self, block: Block) -> Result<()> {
        let mut state = self.shared.lock();
        state.kept.push_back(Arc::new(block));
        let failure = state.failure.clone();
        drop(state);
        self.shared.tell();
        failure.map_or(Ok(()), Err)
    }

    pub(crate) fn durable(&self) -> Durable {
        self.shared.lock().durable
    }

    pub(crate) fn check(&self) -> Result<()> {
        self.shared.lock().failure.clone().map_or(Ok(()), Err)
    }

    /// Waits until block `number` is durable or cannot be now, as long as `going_on` says that there is hope.
    pub(crate) fn wait_durable(&self, number: u64, going_on: impl Fn(&State) -> Result<()>) -> Result<Durable> {
        if self.shared.lock().durable.number < number {
            self.shared.change(|state| state.wanted = state.wanted.max(number));
        }
        let mut state = self.shared.lock();
        loop {
            if state.durable.number >= number || state.durable.full {
                return Ok(state.durable);
            }
            going_on(&state)?;
            state = self.shared.wait(state);
        }
    }

    /// Has the session closed, and waits for that.
    pub(crate) fn close(&self, going_on: impl Fn(&State) -> Result<()>) -> Result<()> {
        self.shared.change(|state| state.closing = true);
        let mut state = self.shared.lock();
        while !state.closed {
            going_on(&state)?;
            state = self.shared.wait(state);
        }
        Ok(())
    }

    /// What was given up since this was asked last.
    pub(crate) fn lost(&self) -> Vec<Lost> {
        std::mem::take(&mut self.shared.lock().lost)
    }

    /// Nothing more is carried.
    pub(crate) fn end(&self) {
        self.shared.change(|state| state.fail(Error::disconnected("the session was ended")));
    }

    /// What is not known to be durable, in order; nobody carries it any more.
    pub(crate) fn unsettled(&self) -> VecDeque<Block> {
        let kept = std::mem::take(&mut self.shared.lock().kept);
        kept.into_iter().filter_map(Arc::into_inner).collect()
    }
}
