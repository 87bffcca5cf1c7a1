//! A recorder's blocks on their way to another process.
//!
//! Every block is kept until the other side says that it is durable; its buffer is free then. Two threads serve the
//! connection, one for each direction, so that the recorder itself never waits for the other side: it runs out of
//! buffers, and then waits or drops as its ring says.

use super::patient::{Patience, Vigil, Wait};
use super::{Connection, hung_up};
use crate::peer::{Block, WriterLink};
use crate::stopper::Stopper;
use forebay_env::network::Stream;
use forebay_env::real::{clock, thread};
use forebay_env::watched::Watched;
use forebay_env::{Buffer, Slab};
use forebay_model::{Error, Result};
use forebay_wire::command::{Append, CloseWriter, Durable, OpenWriter, WriterEvent, WriterOpened};
use forebay_wire::{Command, Flags, FrameReader, FrameWriter, RequestId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

const OPEN: RequestId = RequestId(1);
const APPEND: RequestId = RequestId(2);
const CLOSE: RequestId = RequestId(3);
/// The least number of buffers: one being packed, one on its way, and some to be made durable.
const LEAST_BUFFERS: usize = 4;

pub(super) struct RemoteWriter {
    opened: WriterOpened,
    slab: Slab,
    shared: Arc<Watched<State>>,
    stream: Box<dyn Stream>,
    vigil: Arc<Vigil>,
    /// How much silence is borne by whoever waits for what was recorded to be durable.
    limit: Duration,
    threads: Vec<thread::JoinHandle<()>>,
}

struct State {
    /// Blocks that are not durable, oldest first.
    kept: VecDeque<Arc<Block>>,
    /// How many of them, from the front, were handed to the connection.
    sent: usize,
    durable: Durable,
    closing: bool,
    closed: bool,
    /// How long nothing has been heard, though something is said all the time.
    silent: Duration,
    failure: Option<Error>,
}

impl State {
    /// The first reason counts.
    fn fail(&mut self, error: Error) {
        self.failure.get_or_insert(error);
    }
}

impl RemoteWriter {
    pub(super) fn open(
        connection: Connection,
        patience: Patience,
        ring: &str,
        writer: u64,
        resume: bool,
    ) -> Result<RemoteWriter> {
        let Connection { mut reader, writer: mut frames, stream, vigil, .. } = connection;
        let request = OpenWriter { ring: ring.to_string(), writer, resume };
        frames.send(OPEN, Command::OPEN_WRITER, Flags::NONE, &request, &[])?;
        let head = reader.receive().and_then(|head| head.ok_or_else(hung_up)).map_err(|error| vigil.explain(error))?;
        let WriterEvent::Opened(opened) = reader.answer::<WriterEvent>(&head)? else {
            return Err(Error::damaged("a node did not say how it opened a ring: it is broken"));
        };
        let slab = Slab::new(opened.spec.block, (opened.buffers as usize).max(LEAST_BUFFERS))?;
        let state = State {
            kept: VecDeque::new(),
            sent: 0,
            durable: opened.durable,
            closing: false,
            closed: false,
            silent: Duration::ZERO,
            failure: None,
        };
        let shared = Arc::new(Watched::new(state));
        let beats = shared.clone();
        vigil.expect(Wait::Beats(Box::new(move |silent| {
            beats.change(|state| state.silent = silent);
        })));
        let mut this = RemoteWriter {
            opened: *opened,
            slab,
            shared: shared.clone(),
            stream,
            vigil,
            limit: patience.limit,
            threads: Vec::new(),
        };
        let sending = shared.clone();
        this.threads.push(thread::spawn("record-send", move || {
            if let Err(error) = send_all(&sending, &mut frames, writer) {
                sending.change(|state| state.fail(error));
            }
        })?);
        this.threads.push(thread::spawn("record-ack", move || {
            if let Err(error) = receive_all(&shared, &mut reader) {
                shared.change(|state| state.fail(error));
            }
        })?);
        Ok(this)
    }

    /// An error if it is useless to wait any longer.
    fn going_on(&self, state: &State) -> Result<()> {
        match &state.failure {
            Some(error) => Err(error.clone()),
            None if state.silent >= self.limit => Err(self.vigil.too_long(state.silent)),
            None => Ok(()),
        }
    }

    fn end(&mut self) {
        self.shared.change(|state| state.fail(Error::disconnected("the session was ended")));
        self.stream.shutdown();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Sends blocks as they come, until the session is closed or fails.
fn send_all(shared: &Watched<State>, frames: &mut FrameWriter<Box<dyn Stream>>, writer: u64) -> Result<()> {
    let mut state = shared.lock();
    loop {
        if let Some(error) = &state.failure {
            return Err(error.clone());
        }
        if let Some(block) = state.kept.get(state.sent).cloned() {
            state.sent += 1;
            drop(state);
            let age = clock::now().since(block.accepted);
            frames.send(APPEND, Command::APPEND, Flags::NONE, &Append { writer, age }, &[&block.buffer])?;
            drop(block);
            // The other side may have been faster: then this was the last handle on the buffer.
            shared.tell();
            state = shared.lock();
        } else if state.closing {
            return frames.send(CLOSE, Command::CLOSE_WRITER, Flags::NONE, &CloseWriter { writer }, &[]);
        } else {
            state = shared.wait(state);
        }
    }
}

/// Takes note of what is durable, until the session is closed or fails.
fn receive_all(shared: &Watched<State>, reader: &mut FrameReader<Box<dyn Stream>>) -> Result<()> {
    loop {
        let head = reader.receive()?.ok_or_else(hung_up)?;
        if head.request == CLOSE {
            reader.answer::<forebay_wire::command::Reply>(&head)?;
            shared.change(|state| state.closed = true);
            return Ok(());
        }
        let WriterEvent::Durable(durable) = reader.answer(&head)? else {
            return Err(Error::damaged("a node opened a ring twice: it is broken"));
        };
        let mut state = shared.lock();
        state.durable = durable;
        let settled = state.kept.iter().take_while(|block| block.number <= durable.number).count();
        let freed: Vec<Arc<Block>> = state.kept.drain(..settled).collect();
        state.sent = state.sent.saturating_sub(settled);
        drop(state);
        drop(freed);
        shared.tell();
    }
}

impl WriterLink for RemoteWriter {
    fn opened(&self) -> &WriterOpened {
        &self.opened
    }

    fn take(&self, wait: bool, stopper: &Stopper) -> Result<Option<Buffer>> {
        let shared = self.shared.clone();
        if wait {
            stopper.on_stop(move || {
                drop(shared.lock());
                shared.tell();
            });
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

    fn send(&mut self, block: Block) -> Result<()> {
        let mut state = self.shared.lock();
        state.kept.push_back(Arc::new(block));
        let failure = state.failure.clone();
        drop(state);
        self.shared.tell();
        failure.map_or(Ok(()), Err)
    }

    fn durable(&self) -> Durable {
        self.shared.lock().durable
    }

    fn check(&self) -> Result<()> {
        self.shared.lock().failure.clone().map_or(Ok(()), Err)
    }

    fn wait_durable(&self, number: u64) -> Result<Durable> {
        let mut state = self.shared.lock();
        loop {
            if state.durable.number >= number || state.durable.full {
                return Ok(state.durable);
            }
            self.going_on(&state)?;
            state = self.shared.wait(state);
        }
    }

    fn unsettled(mut self: Box<Self>) -> VecDeque<Block> {
        self.end();
        let kept = std::mem::take(&mut self.shared.lock().kept);
        kept.into_iter().filter_map(Arc::into_inner).collect()
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        self.shared.change(|state| state.closing = true);
        let mut state = self.shared.lock();
        let result = loop {
            if state.closed {
                break Ok(());
            }
            if let Err(error) = self.going_on(&state) {
                break Err(error);
            }
            state = self.shared.wait(state);
        };
        drop(state);
        self.end();
        result
    }
}

impl Drop for RemoteWriter {
    fn drop(&mut self) {
        self.end();
    }
}
