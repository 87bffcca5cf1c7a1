//! Frames to a stream that many tasks of one loop share: they leave their frames here, one task sends them.
//!
//! Frames go out in the order in which they were left, as many in one vectored write as there are; payloads are never copied.
//! Nothing here is bounded: whoever leaves frames bounds what they stand for. After an error of the stream everything that is
//! left is dropped: half a frame may be on its way, so the connection is over.

use crate::body;
use crate::capability::{LENGTH, Nonces, Said, Secret};
use crate::checksum::crc32c;
use crate::frame::{Command, Flags, HEADER, NO_LIMIT, RequestId};
use crate::pieces::Pieces;
use crate::reader::told;
use crate::writer::head_of;
use forebay_model::{Error, Result};
use futures_io::AsyncWrite;
use serde::Serialize;
use std::any::Any;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{ErrorKind, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Pieces handed to the kernel at once.
const PIECES: usize = 64;

/// What a client may send before its node has said how much.
pub const OPENING: u64 = 32 << 10;

/// A frame that is ready to go.
pub struct Frame {
    /// Header and body.
    front: Vec<u8>,
    payload: Pieces,
    /// Dropped when the frame has gone.
    _guard: Option<Rc<dyn Any>>,
}

/// What is shown along with a request.
#[derive(Debug, Clone)]
pub struct Shown {
    /// The capability.
    pub capability: [u8; LENGTH],
    /// What proves that it is one's own.
    pub secret: Secret,
}

impl Frame {
    /// A frame with this body and payload. [`forebay_model::Kind::Usage`] if that is too large for one.
    pub fn new(
        request: RequestId,
        command: Command,
        flags: Flags,
        credit: u32,
        body: &[u8],
        payload: impl Into<Pieces>,
    ) -> Result<Frame> {
        let payload = payload.into();
        let head = head_of(request, command, flags, credit, body, (payload.len(), payload.sum()))?;
        let mut front = Vec::with_capacity(HEADER + body.len());
        front.extend_from_slice(&head.encode());
        front.extend_from_slice(body);
        Ok(Frame { front, payload, _guard: None })
    }

    /// A request that shows a capability.
    pub fn shown(
        request: RequestId,
        command: Command,
        credit: u32,
        body: &[u8],
        payload: impl Into<Pieces>,
        (shown, nonces): (&Shown, &Nonces),
    ) -> Result<Frame> {
        let payload = payload.into();
        let plain = head_of(request, command, Flags::NONE, credit, body, (payload.len(), payload.sum()))?;
        let length = forebay_model::Bytes(u64::from(plain.payload));
        let said = Said { nonces, request, command, body, payload: (plain.payload_checksum, length) };
        let proof = shown.secret.prove(&said);
        let whole = [&shown.capability[..], &proof.0, body].concat();
        let mut head = head_of(request, command, Flags::SHOWN, credit, &whole, (0, crc32c(&[])))?;
        (head.payload, head.payload_checksum) = (plain.payload, plain.payload_checksum);
        let mut front = Vec::with_capacity(HEADER + whole.len());
        front.extend_from_slice(&head.encode());
        front.extend_from_slice(&whole);
        Ok(Frame { front, payload, _guard: None })
    }

    /// A frame with `value` as its body, and without a payload.
    pub fn of<T: Serialize + ?Sized>(request: RequestId, command: Command, flags: Flags, value: &T) -> Result<Frame> {
        Frame::new(request, command, flags, NO_LIMIT, &body::write(value)?, Pieces::default())
    }

    /// The end of a request that failed.
    pub fn error(request: RequestId, command: Command, error: &Error) -> Result<Frame> {
        Frame::of(request, command, Flags::RESPONSE.and(Flags::ERROR).and(Flags::END), error)
    }

    /// The permission to send more of an answer.
    pub(crate) fn grant(request: RequestId, bytes: u32) -> Result<Frame> {
        Frame::new(request, Command::GRANT, Flags::NONE, bytes, &[], Pieces::default())
    }

    /// The permission to send more of what is asked.
    pub fn window(bytes: u32) -> Result<Frame> {
        Frame::new(RequestId(0), Command::WINDOW, Flags::RESPONSE, bytes, &[], Pieces::default())
    }

    /// The same, and `guard` is dropped when the last byte of it has gone, or never will.
    pub fn with_guard(self, guard: Rc<dyn Any>) -> Frame {
        Frame { _guard: Some(guard), ..self }
    }

    /// All of its bytes, one behind the other.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.pieces().flatten().copied().collect()
    }

    fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::once(&self.front[..]).chain(self.payload.iter())
    }
}

/// Where frames are left. Clones lead to the same place.
#[derive(Clone, Default)]
pub struct FrameSink {
    state: Rc<RefCell<State>>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Frame>,
    /// Bytes of the first frame that have gone.
    gone: usize,
    /// Bytes of all frames that were left here.
    left: u64,
    /// Bytes that have gone, of all frames.
    sent: u64,
    /// So many may; without a bound if it is none.
    edge: Option<u64>,
    /// No more is taken: what is there still goes out, unless the stream failed.
    closed: bool,
    failed: Option<Error>,
    waker: Option<Waker>,
}

impl FrameSink {
    /// Leaves a frame; what a connection that is over would have sent is dropped.
    pub fn push(&self, frame: Frame) {
        let mut state = self.state.borrow_mut();
        if !state.closed && state.failed.is_none() {
            state.left += frame.pieces().map(|piece| piece.len() as u64).sum::<u64>();
            state.queue.push_back(frame);
            wake(&mut state);
        }
    }

    /// Lets no more than `bytes` go, until more are let go.
    pub(crate) fn bound(&self, bytes: u64) {
        self.state.borrow_mut().edge = Some(bytes);
    }

    /// Lets so many more bytes go.
    pub(crate) fn let_go(&self, bytes: u32) {
        let mut state = self.state.borrow_mut();
        state.edge = state.edge.map(|edge| edge.saturating_add(u64::from(bytes)));
        wake(&mut state);
    }

    /// Takes no more frames; the stream ends behind those that are there.
    pub fn close(&self) {
        let mut state = self.state.borrow_mut();
        state.closed = true;
        wake(&mut state);
    }

    /// Drops what has not gone, and the guards with it; the stream ends, if need be within a frame.
    pub fn abandon(&self) {
        let mut state = self.state.borrow_mut();
        (state.closed, state.gone) = (true, 0);
        let left = std::mem::take(&mut state.queue);
        wake(&mut state);
        // A guard may wake whoever looks here.
        drop(state);
        drop(left);
    }

    /// Bytes that have gone.
    pub fn progress(&self) -> u64 {
        self.state.borrow().sent
    }

    /// Bytes that were left here since it began, whether or not they have gone.
    pub fn left(&self) -> u64 {
        self.state.borrow().left
    }

    /// Whether frames wait for the other side to take them.
    pub fn is_waiting(&self) -> bool {
        !self.state.borrow().queue.is_empty()
    }

    /// Sends what is left here until the sink is closed, then ends the stream. To be run by one task.
    pub async fn drive(&self, mut stream: Box<dyn AsyncWrite + Unpin>) -> Result<()> {
        let sent = poll_fn(|context| self.poll_send(context, &mut *stream)).await;
        let ended = match sent {
            Ok(()) => poll_fn(|context| Pin::new(&mut stream).poll_close(context)).await,
            Err(error) => Err(error),
        };
        ended.map_err(|e| {
            let ended =
                || Error::disconnected(format!("the connection ended while frames were sent: {e}; connect again"));
            let error = told(&e).unwrap_or_else(ended);
            let mut state = self.state.borrow_mut();
            state.queue.clear();
            state.failed = Some(error.clone());
            error
        })
    }

    fn poll_send(&self, context: &mut Context<'_>, stream: &mut (dyn AsyncWrite + Unpin)) -> Poll<std::io::Result<()>> {
        let mut state = self.state.borrow_mut();
        loop {
            let mut room = state.edge.map_or(u64::MAX, |edge| edge.saturating_sub(state.sent));
            if state.queue.is_empty() && state.closed {
                return Poll::Ready(Ok(()));
            }
            if state.queue.is_empty() || room == 0 {
                state.waker = Some(context.waker().clone());
                return match Pin::new(&mut *stream).poll_flush(context) {
                    Poll::Ready(Err(e)) => Poll::Ready(Err(e)),
                    _ => Poll::Pending,
                };
            }
            let mut slices = [IoSlice::new(&[]); PIECES];
            let mut skip = state.gone;
            let mut count = 0;
            for piece in state.queue.iter().flat_map(Frame::pieces) {
                if count == PIECES || room == 0 {
                    break;
                }
                let some = skip.min(piece.len());
                skip -= some;
                if some < piece.len() {
                    let part = usize::try_from(room).unwrap_or(usize::MAX).min(piece.len() - some);
                    room -= part as u64;
                    slices[count] = IoSlice::new(&piece[some..some + part]);
                    count += 1;
                }
            }
            match Pin::new(&mut *stream).poll_write_vectored(context, &slices[..count]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(sent)) => {
                    state.gone += sent;
                    state.sent += sent as u64;
                }
                Poll::Ready(Err(e)) if e.kind() == ErrorKind::Interrupted => {}
                Poll::Ready(Err(e)) => return Poll::Ready(Err(e)),
                Poll::Pending => {
                    // What waits here may be abandoned meanwhile.
                    state.waker = Some(context.waker().clone());
                    return Poll::Pending;
                }
            }
            while let Some(first) = state.queue.front() {
                let length: usize = first.pieces().map(<[u8]>::len).sum();
                if state.gone < length {
                    break;
                }
                state.gone -= length;
                state.queue.pop_front();
            }
        }
    }
}

#[cfg(test)]
impl FrameSink {
    /// Why nothing goes any more, if so.
    pub(crate) fn failure(&self) -> Option<Error> {
        self.state.borrow().failed.clone()
    }

    /// Takes what was left, and says what the frames are.
    pub(crate) fn take_heads(&self) -> Vec<crate::Head> {
        let frames = std::mem::take(&mut self.state.borrow_mut().queue);
        let head = |frame: Frame| {
            let bytes = frame.front[..HEADER].try_into().expect("a frame has a header");
            crate::Head::decode(&bytes, crate::Limits::SESSION).expect("a good head")
        };
        frames.into_iter().map(head).collect()
    }
}

fn wake(state: &mut State) {
    if let Some(waker) = state.waker.take() {
        waker.wake();
    }
}

#[cfg(test)]
mod tests;
