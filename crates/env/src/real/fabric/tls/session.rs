//! One connection with TLS: a handshake, then two halves of a stream that share its keys.
//!
//! The handshake goes on by itself, as that of TCP does in the kernel; and a little is taken from who writes meanwhile, which
//! goes out when it has ended well.

use super::trouble;
use crate::Clock;
use crate::fabric::Duplex;
use crate::race::race;
use crate::real::clock::RealClock;
use crate::real::fabric::stream::Far;
use crate::{Spawner, Task, fabric::FabricFuture};
use forebay_model::Error;
use futures_io::{AsyncRead, AsyncWrite};
use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Wake, Waker, ready};
use std::time::Duration;
use tokio::io::{AsyncRead as _, AsyncWrite as _, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

/// What is read from the kernel at once: four records.
const READ: usize = 64 << 10;
/// What is taken from who writes before there was a handshake.
const EARLY: usize = 128 << 10;
/// How long it is tried to end a connection in order that was dropped.
const ENDING: Duration = Duration::from_secs(5);

/// The two halves of a connection whose handshake this is, and where it leads.
pub(in crate::real::fabric) fn duplex(
    handshake: impl FnOnce(Ahead) -> FabricFuture<io::Result<TlsStream<Ahead>>>,
    stream: TcpStream,
    Far { peer, machine, is_near }: Far,
    (spawner, clock): (Spawner, Rc<RealClock>),
) -> Duplex {
    let session = Session {
        state: State::Shaking(handshake(Ahead { stream, buffer: Vec::new(), from: 0, to: 0 })),
        waiting: Arc::default(),
        early: Vec::new(),
        peer: peer.clone(),
        is_used: false,
        is_closed: false,
        driver: None,
    };
    let session = Rc::new(RefCell::new(session));
    let shaken = Rc::downgrade(&session);
    let driver = spawner.spawn(std::future::poll_fn(move |context| match shaken.upgrade() {
        // Whoever uses it finds what went wrong.
        Some(session) => session.borrow_mut().poll_driven(context).map(drop),
        None => Poll::Ready(()),
    }));
    session.borrow_mut().driver = Some(driver);
    let write = Outgoing { session: session.clone(), spawner, clock };
    Duplex { read: Box::new(Incoming(session)), write: Box::new(write), peer, machine, is_near }
}

struct Session {
    state: State,
    waiting: Arc<Waiting>,
    /// What was written before there was a handshake.
    early: Vec<u8>,
    peer: String,
    /// Who writes has used it since there was a handshake, and sees to it that what was written goes out.
    is_used: bool,
    is_closed: bool,
    /// Sees the handshake through; nobody would wake it once the connection is gone, so it ends with that.
    driver: Option<Task<()>>,
}

enum State {
    Shaking(FabricFuture<io::Result<TlsStream<Ahead>>>),
    Open(Box<TlsStream<Ahead>>),
    Failed(Error),
}

/// Whoever waits for the end of a handshake: it is in nobody's hands alone.
#[derive(Default)]
struct Waiting(Mutex<[Option<Waker>; 3]>);

impl Wake for Waiting {
    fn wake(self: Arc<Waiting>) {
        let wakers = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        wakers.into_iter().flatten().for_each(Waker::wake);
    }
}

/// Who waits: both halves of a connection, and the task that sees the handshake through.
const READER: usize = 0;
const WRITER: usize = 1;
const DRIVER: usize = 2;

impl Session {
    /// The stream, once there has been a handshake.
    fn poll_open(&mut self, who: usize, context: &mut Context<'_>) -> Poll<io::Result<Pin<&mut TlsStream<Ahead>>>> {
        if let State::Shaking(handshake) = &mut self.state {
            self.waiting.0.lock().unwrap_or_else(PoisonError::into_inner)[who] = Some(context.waker().clone());
            let waker = Waker::from(self.waiting.clone());
            let outcome = ready!(handshake.as_mut().poll(&mut Context::from_waker(&waker)));
            self.state = match outcome {
                Ok(stream) => State::Open(Box::new(stream)),
                Err(error) => State::Failed(self.meaning(&error)),
            };
            waker.wake();
        }
        Poll::Ready(match &mut self.state {
            State::Open(stream) => Ok(Pin::new(&mut **stream)),
            State::Failed(error) => Err(io::Error::new(ErrorKind::ConnectionAborted, error.clone())),
            State::Shaking(_) => unreachable!("it has ended above"),
        })
    }

    fn meaning(&self, error: &io::Error) -> Error {
        trouble(error, &self.peer).unwrap_or_else(|| {
            Error::disconnected(format!(
                "the connection with {} ended as TLS began: {error}; does it speak TLS?",
                self.peer
            ))
        })
    }

    /// The same, with all on its way that was written before.
    fn poll_ready(&mut self, who: usize, context: &mut Context<'_>) -> Poll<io::Result<Pin<&mut TlsStream<Ahead>>>> {
        while !self.early.is_empty() {
            let early = std::mem::take(&mut self.early);
            let written = self.poll_open(who, context).map_ok(|stream| stream.poll_write(context, &early));
            self.early = early;
            let written = ready!(ready!(written)?)?;
            self.early.drain(..written);
        }
        self.poll_open(who, context)
    }

    /// For whoever writes.
    fn poll_writer(&mut self, context: &mut Context<'_>) -> Poll<io::Result<Pin<&mut TlsStream<Ahead>>>> {
        if self.poll_open(WRITER, context).is_pending() {
            return Poll::Pending;
        }
        self.is_used = true;
        self.poll_ready(WRITER, context)
    }

    /// Sees the handshake through, and what was written before. A stream wakes one who writes: that is the writer once it has
    /// come back.
    fn poll_driven(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.is_used {
            return Poll::Ready(Ok(()));
        }
        ready!(self.poll_ready(DRIVER, context))?.poll_flush(context)
    }

    fn poll_close(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let stream = ready!(self.poll_writer(context))?;
        ready!(stream.poll_shutdown(context))?;
        self.is_closed = true;
        Poll::Ready(Ok(()))
    }
}

struct Incoming(Rc<RefCell<Session>>);

struct Outgoing {
    session: Rc<RefCell<Session>>,
    spawner: Spawner,
    clock: Rc<RealClock>,
}

impl AsyncRead for Incoming {
    fn poll_read(self: Pin<&mut Self>, context: &mut Context<'_>, buffer: &mut [u8]) -> Poll<io::Result<usize>> {
        let mut session = self.0.borrow_mut();
        let stream = ready!(session.poll_open(READER, context))?;
        let mut buffer = ReadBuf::new(buffer);
        ready!(stream.poll_read(context, &mut buffer))?;
        Poll::Ready(Ok(buffer.filled().len()))
    }
}

impl Outgoing {
    /// Has some of `parts` written, or kept until there was a handshake.
    fn poll_put(&self, context: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let mut session = self.session.borrow_mut();
        if session.is_closed {
            return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
        }
        if let Poll::Ready(stream) = session.poll_writer(context) {
            return stream?.poll_write_vectored(context, parts);
        }
        if matches!(session.state, State::Open(_)) {
            return Poll::Pending;
        }
        let before = session.early.len();
        for part in parts {
            let room = EARLY - session.early.len();
            session.early.extend_from_slice(&part[..part.len().min(room)]);
        }
        match session.early.len() - before {
            0 => Poll::Pending,
            taken => Poll::Ready(Ok(taken)),
        }
    }
}

impl AsyncWrite for Outgoing {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_put(context, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_put(context, parts)
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut session = self.session.borrow_mut();
        if session.is_closed {
            return Poll::Ready(Ok(()));
        }
        if let Poll::Ready(stream) = session.poll_writer(context) {
            return stream?.poll_flush(context);
        }
        match session.state {
            State::Open(_) => Poll::Pending,
            // It goes on its way by itself, once there was a handshake.
            _ => Poll::Ready(Ok(())),
        }
    }

    fn poll_close(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.session.borrow_mut().poll_close(context)
    }
}

impl Drop for Outgoing {
    /// What was written goes on its way, and the other side reads to the end, without anybody here who waits.
    fn drop(&mut self) {
        let mut session = self.session.borrow_mut();
        let mut context = Context::from_waker(Waker::noop());
        if session.is_closed || session.poll_close(&mut context).is_ready() {
            return;
        }
        let (session, ending) = (self.session.clone(), self.clock.sleep(ENDING));
        self.spawner.detach(async move {
            let closing = std::future::poll_fn(|context| session.borrow_mut().poll_close(context));
            // A peer that does not take it learns that it ended, as of any connection.
            race(closing, ending).await;
        });
    }
}

/// A stream that is read in pieces of [`READ`], since TLS asks for a little at a time. Idle, it takes no memory.
pub(crate) struct Ahead {
    stream: TcpStream,
    /// What was read and not asked for is between these; what is behind is there for the next piece.
    buffer: Vec<u8>,
    from: usize,
    to: usize,
}

impl tokio::io::AsyncRead for Ahead {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.from == this.to {
            (this.from, this.to) = (0, 0);
            if this.stream.poll_read_ready(context)?.is_pending() {
                this.buffer = Vec::new();
                return Poll::Pending;
            }
            this.buffer.resize(READ, 0);
            match this.stream.try_read(&mut this.buffer) {
                Ok(0) => return Poll::Ready(Ok(())),
                Ok(count) => this.to = count,
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        let count = into.remaining().min(this.to - this.from);
        into.put_slice(&this.buffer[this.from..this.from + count]);
        this.from += count;
        Poll::Ready(Ok(()))
    }
}

impl tokio::io::AsyncWrite for Ahead {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
