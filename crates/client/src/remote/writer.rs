//! A recorder's blocks on their way to another process of this machine: two threads serve the connection, one for each
//! direction.

use super::patient::{Patience, Vigil, Wait};
use super::{Connection, hung_up};
use crate::outbox::{Outbox, Shared, State};
use crate::peer::{Block, WriterLink};
use crate::stopper::Stopper;
use forebay_env::Buffer;
use forebay_env::network::Stream;
use forebay_env::real::{clock, thread};
use forebay_model::{Error, Result};
use forebay_wire::command::{Append, CloseWriter, Durable, OpenWriter, WriterEvent, WriterOpened};
use forebay_wire::{Command, Flags, FrameReader, FrameWriter, RequestId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

const OPEN: RequestId = RequestId(1);
const APPEND: RequestId = RequestId(2);
const CLOSE: RequestId = RequestId(3);
pub(super) struct RemoteWriter {
    outbox: Outbox,
    stream: Box<dyn Stream>,
    vigil: Arc<Vigil>,
    /// How much silence is borne by whoever waits for what was recorded to be durable.
    limit: Duration,
    threads: Vec<thread::JoinHandle<()>>,
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
        let outbox = Outbox::new(*opened)?;
        let shared = outbox.shared.clone();
        let beats = shared.clone();
        vigil.expect(Wait::Beats(Box::new(move |silent| {
            beats.change(|state| state.silent = silent);
        })));
        let mut this = RemoteWriter { outbox, stream, vigil, limit: patience.limit, threads: Vec::new() };
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
        self.outbox.end();
        self.stream.shutdown();
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

/// Sends blocks as they come, until the session is closed or fails.
fn send_all(shared: &Shared, frames: &mut FrameWriter<Box<dyn Stream>>, writer: u64) -> Result<()> {
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
fn receive_all(shared: &Shared, reader: &mut FrameReader<Box<dyn Stream>>) -> Result<()> {
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
        shared.settle(durable);
    }
}

impl WriterLink for RemoteWriter {
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

    fn unsettled(mut self: Box<Self>) -> VecDeque<Block> {
        self.end();
        self.outbox.unsettled()
    }

    fn close(mut self: Box<Self>) -> Result<()> {
        let result = self.outbox.close(|state| self.going_on(state));
        self.end();
        result
    }
}

impl Drop for RemoteWriter {
    fn drop(&mut self) {
        self.end();
    }
}
