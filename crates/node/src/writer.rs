//! Recording into a ring of this process, from any thread.

use crate::host::TargetHandle;
use crate::service::{Order, SessionId};
use crate::watch::Watch;
use forebay_env::pipe::pipe;
use forebay_env::{Buffer, Slab};
use forebay_model::{Error, Moment, Result};
use forebay_wire::command::{Durable, WriterOpened};
use std::sync::Arc;

/// What a service answers when a session is opened.
pub struct Opening {
    pub(crate) opened: WriterOpened,
    pub(crate) watch: Arc<Watch>,
    pub(crate) slab: Slab,
    /// Bytes of caller-supplied keys of an element.
    pub(crate) keys: usize,
    /// Nothing was ever recorded into the ring here: an element that the session had begun elsewhere does not go on here.
    pub(crate) is_empty: bool,
}

/// A writer session. It ends when this is dropped.
pub struct Writer {
    target: TargetHandle,
    session: SessionId,
    opening: Opening,
}

impl Writer {
    pub(crate) fn new(target: TargetHandle, session: SessionId, opening: Opening) -> Writer {
        Writer { target, session, opening }
    }

    /// What the ring said when it was opened.
    pub fn opened(&self) -> &WriterOpened {
        &self.opening.opened
    }

    /// Whether the next block goes on with an element of the one before, if that is known of a session that goes on or begins.
    pub(crate) fn goes_on(&self, resumes: bool) -> Option<bool> {
        (!resumes || self.opening.is_empty).then_some(false)
    }

    /// Bytes of caller-supplied keys of an element.
    pub fn caller_width(&self) -> usize {
        self.opening.keys
    }

    /// A staging buffer if there is one now.
    pub fn try_take(&self) -> Option<Buffer> {
        self.opening.slab.try_take()
    }

    /// A staging buffer, waiting for one; `None` if the wait was ended.
    pub fn take(&self) -> Result<Option<Buffer>> {
        self.check()?;
        if let Some(buffer) = self.try_take() {
            return Ok(Some(buffer));
        }
        let (answer, mut buffer) = pipe(0);
        self.target.order(Order::TakeBuffer { session: self.session, answer })?;
        match buffer.receive_blocking() {
            Some(buffer) => Ok(Some(buffer)),
            None => self.check().map(|()| None),
        }
    }

    /// The same as a task.
    pub(crate) async fn take_from_task(&self) -> Result<Option<Buffer>> {
        self.check()?;
        if let Some(buffer) = self.try_take() {
            return Ok(Some(buffer));
        }
        let (answer, mut buffer) = pipe(0);
        self.target.order(Order::TakeBuffer { session: self.session, answer })?;
        match buffer.receive().await {
            Some(buffer) => Ok(Some(buffer)),
            None => self.check().map(|()| None),
        }
    }

    /// What ends a wait in [`Writer::take`] for good, from any thread.
    pub fn interrupter(&self) -> impl Fn() + Send + Sync + 'static {
        let (target, session) = (self.target.clone(), self.session);
        move || {
            // A target that is gone has ended every wait.
            let _ = target.order(Order::StopTaking(session));
        }
    }

    /// Hands a block over. What becomes of it is told by [`Writer::durable`] and [`Writer::check`].
    pub fn send(&self, buffer: Buffer, number: u64, accepted: Moment) -> Result<()> {
        self.check()?;
        self.target.order(Order::Append { session: self.session, buffer, number, accepted })
    }

    /// How far it is durable now, also if nothing more will be.
    pub fn durable(&self) -> Durable {
        self.opening.watch.now().0
    }

    /// Waits until block `number` is durable, or everything is pinned.
    pub fn wait_durable(&self, number: u64) -> Result<Durable> {
        self.opening.watch.until(number)
    }

    pub(crate) fn watch(&self) -> Arc<Watch> {
        self.opening.watch.clone()
    }

    /// An error if nothing more will be durable in this session.
    pub fn check(&self) -> Result<()> {
        match self.opening.watch.now().1 {
            None => Ok(()),
            Some(Err(error)) => Err(error),
            Some(Ok(())) => Err(Error::disconnected("the writer session is closed")),
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // A target that is gone has no sessions.
        let _ = self.target.order(Order::CloseWriter(self.session));
    }
}
