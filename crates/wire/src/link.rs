//! The asking end of a connection: requests of many tasks at the same time, answered in any order.
//!
//! A request goes out when it is asked, whether or not its answer is waited for; who gives up waiting gives up the answer, not
//! the request. When the connection ends, everything that waits is told so, and nothing is asked over it any more: its owner
//! opens another one. Nothing here starts a task: the owner runs [`Link::open`]'s future beside its own work.

use crate::arrived::{Arrived, Memory};
use crate::capability::Nonces;
use crate::credit::Credit;
use crate::frame::{Command, Flags, Limits, NO_LIMIT, RequestId};
use crate::handshake::{self, ClientHello, ServerHello};
use crate::sink::{Frame, FrameSink, OPENING, Shown};
use crate::source::FrameSource;
use bytes::Bytes;
use forebay_model::{Error, Result};
use futures_io::{AsyncRead, AsyncWrite};
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// A connection to a node, after the handshake. Clones lead over the same one.
#[derive(Clone)]
pub struct Link {
    shared: Rc<Shared>,
}

/// What a link runs on: ends with the connection, and with why.
pub type Running = Pin<Box<dyn Future<Output = Error>>>;

pub(crate) struct Shared {
    sink: FrameSink,
    credit: Credit,
    memory: Memory,
    nonces: Nonces,
    hello: ServerHello,
    next: Cell<u64>,
    came: Rc<Cell<u64>>,
    waiting: RefCell<BTreeMap<RequestId, Waiting>>,
    ended: RefCell<Option<Error>>,
}

/// A request under way.
#[derive(Default)]
struct Waiting {
    answer: Answer,
    done: Option<Result<()>>,
    /// Nobody wants the answer any more.
    given_up: bool,
    /// Whether [`Credit`] counts it.
    is_counted: bool,
    most: usize,
    /// Dropped when it is answered.
    kept: Option<Box<dyn Any>>,
    waker: Option<Waker>,
}

/// What is asked.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    /// The command.
    pub command: Command,
    /// Its body.
    pub body: &'a [u8],
    /// Its payload, piece by piece.
    pub payload: Vec<Bytes>,
    /// The most bytes that the payload of the answer has.
    pub most: usize,
    /// What allows it.
    pub shown: Option<&'a Shown>,
}

/// An answer, as bytes.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The body of its last frame.
    pub body: Vec<u8>,
    /// The payloads of all of its frames.
    pub payload: Arrived,
}

/// An answer that will come. Dropping it gives the answer up.
pub struct Coming {
    shared: Rc<Shared>,
    request: RequestId,
}

impl Link {
    /// Says hello over a connection, whose two directions these are. The future is what the link runs on. `nonce` are bytes
    /// by chance, and `replaces` the node's nonce of the connection before, if there was one. Payloads come into `memory`.
    pub async fn open(
        read: Box<dyn AsyncRead + Unpin>,
        write: Box<dyn AsyncWrite + Unpin>,
        (nonce, replaces): ([u8; 16], Option<[u8; 16]>),
        (credit, memory): (Credit, Memory),
    ) -> Result<(Link, Running)> {
        let sink = FrameSink::default();
        sink.bound(OPENING);
        let mut source = FrameSource::new(read);
        let sending = sink.clone();
        let mut sending: Pin<Box<dyn Future<Output = Result<()>>>> =
            Box::pin(async move { sending.drive(write).await });
        let hello = ClientHello { replaces, ..ClientHello::new(None, nonce) };
        let answer = {
            let greeting = pin!(handshake::greet(&mut source, &sink, &hello));
            first(greeting, sending.as_mut()).await
        };
        let hello = match answer {
            First::Left(answer) => answer?,
            First::Right(sent) => return Err(sent.err().unwrap_or_else(hung_up)),
        };
        source.set_limits(Limits::SESSION);
        let nonces = Nonces { client: nonce, node: hello.nonce };
        let shared = Rc::new(Shared {
            sink,
            credit,
            memory,
            nonces,
            hello,
            next: Cell::new(1),
            came: source.came(),
            waiting: RefCell::default(),
            ended: RefCell::default(),
        });
        let running = shared.clone();
        let running = Box::pin(async move {
            let error = {
                let receiving = pin!(running.receive(&mut source));
                match first(receiving, sending.as_mut()).await {
                    First::Left(error) => error,
                    First::Right(sent) => sent.err().unwrap_or_else(hung_up),
                }
            };
            running.end(&error);
            error
        });
        Ok((Link { shared }, running))
    }

    /// What the node said first.
    pub fn hello(&self) -> &ServerHello {
        &self.shared.hello
    }

    /// Why nothing can be asked over it any more, if so.
    pub fn ended(&self) -> Option<Error> {
        self.shared.ended.borrow().clone()
    }

    /// Asks. Refused is only what is too large for a frame.
    pub fn ask(&self, asked: Asked<'_>) -> Result<Coming> {
        let shared = &self.shared;
        let request = RequestId(shared.next.get());
        let Asked { command, body, payload, most, shown } = asked;
        if let Some(error) = self.ended() {
            return Err(error);
        }
        let credit = if most == 0 { NO_LIMIT } else { shared.credit.ask(shared, request, most) };
        let frame = match shown {
            Some(shown) => Frame::shown(request, command, credit, body, payload, (shown, &shared.nonces)),
            None => Frame::new(request, command, Flags::NONE, credit, body, payload),
        };
        let frame = frame.inspect_err(|_| shared.credit.end(shared, request))?;
        shared.next.set(request.0 + 1);
        let waiting = Waiting { is_counted: most > 0, most, ..Waiting::default() };
        shared.waiting.borrow_mut().insert(request, waiting);
        shared.sink.push(frame);
        Ok(Coming { shared: shared.clone(), request })
    }

    /// Bytes that have come and gone since it began.
    pub fn moved(&self) -> (u64, u64) {
        (self.shared.came.get(), self.shared.sink.progress())
    }

    /// Bytes that are to go since it began, whether or not they have gone.
    pub fn left(&self) -> u64 {
        self.shared.sink.left()
    }

    /// Whether something was asked and not answered.
    pub fn is_waiting(&self) -> bool {
        self.shared.waiting.borrow().values().any(|waiting| waiting.done.is_none())
    }

    /// Asks whether the node is there, which then has all that this connection holds there.
    pub fn ping(&self) -> Result<Coming> {
        self.ask(Asked { command: Command::PING, body: &[], payload: Vec::new(), most: 0, shown: None })
    }

    /// Ends the connection at once. Who waits is told that it ended.
    pub fn abandon(&self, error: &Error) {
        self.shared.end(error);
        self.shared.sink.abandon();
    }

    /// Ends the connection once what was asked has gone out. Who waits is told that it ended.
    pub fn close(&self) {
        self.shared.sink.close();
    }
}

#[cfg(test)]
impl Shared {
    /// A connection that leads nowhere, and where its frames are left.
    pub(crate) fn alone(credit: Credit) -> (Rc<Shared>, FrameSink) {
        let sink = FrameSink::default();
        let nonces = Nonces { client: [0; 16], node: [0; 16] };
        let hello = ServerHello { version: 0, target: forebay_model::TargetId(0), process: 0, nonce: [0; 16] };
        let shared = Shared {
            sink: sink.clone(),
            credit,
            memory: Memory::default(),
            nonces,
            hello,
            next: Cell::new(1),
            came: Rc::default(),
            waiting: RefCell::default(),
            ended: RefCell::default(),
        };
        (Rc::new(shared), sink)
    }
}

impl Shared {
    pub(crate) fn grant(&self, request: RequestId, bytes: u32) {
        // A frame without body and payload is never too large.
        if let Ok(frame) = Frame::grant(request, bytes) {
            self.sink.push(frame);
        }
    }

    /// Takes answers in until the connection ends; why it did.
    async fn receive(self: &Rc<Self>, source: &mut FrameSource) -> Error {
        loop {
            if let Err(error) = self.receive_one(source).await {
                return error;
            }
        }
    }

    async fn receive_one(self: &Rc<Self>, source: &mut FrameSource) -> Result<()> {
        let head = source.receive().await?.ok_or_else(hung_up)?;
        if !head.flags.has(Flags::RESPONSE) {
            return Err(Error::damaged("a node sent a request: it is broken"));
        }
        if head.command == Command::WINDOW {
            self.sink.let_go(head.credit);
            return Ok(());
        }
        if head.request == RequestId(0) {
            // It says why it ends the connection.
            return Err(source.decode::<Error>()?);
        }
        let taken = self
            .waiting
            .borrow_mut()
            .get_mut(&head.request)
            .map(|waiting| (std::mem::take(&mut waiting.answer.payload), waiting.most, waiting.given_up));
        let Some((mut payload, most, given_up)) = taken else {
            let error = format!("a node answered {} that was not asked, or twice: it is broken", head.request);
            return Err(Error::damaged(error));
        };
        let length = head.payload as usize;
        if payload.len() + length > most {
            return Err(Error::damaged(format!(
                "a node sent {} bytes where {most} were asked for: it is broken",
                payload.len() + length
            )));
        }
        if !given_up {
            if payload.is_empty() && length > 0 {
                payload = self.memory.room(most);
            }
            match &mut payload {
                Arrived::Plain(bytes) => source.payload_onto(bytes).await?,
                Arrived::Kept(kept) => {
                    source.payload_into(kept.next(length)).await?;
                    kept.came(length);
                }
            }
        }
        // An error is the end, whether or not it says so.
        let is_over = head.flags.has(Flags::END) || head.flags.has(Flags::ERROR);
        let outcome = match head.flags.has(Flags::ERROR) {
            true => Err(source.decode::<Error>()?),
            false => Ok(()),
        };
        let (is_counted, _kept) = {
            let mut all = self.waiting.borrow_mut();
            let Some(waiting) = all.get_mut(&head.request) else { return Ok(()) };
            waiting.answer.payload = payload;
            let (is_counted, mut kept) = (waiting.is_counted, None);
            if is_over {
                waiting.answer.body = source.body().to_vec();
                waiting.done = Some(outcome);
                waiting.is_counted = false;
                kept = waiting.kept.take();
                if let Some(waker) = waiting.waker.take() {
                    waker.wake();
                }
                if waiting.given_up {
                    all.remove(&head.request);
                }
            }
            (is_counted, kept)
        };
        if is_counted && is_over {
            self.credit.end(self, head.request);
        } else if is_counted {
            self.credit.came(self, head.request, length, head.credit as usize);
        }
        Ok(())
    }

    fn end(self: &Rc<Self>, error: &Error) {
        self.ended.borrow_mut().get_or_insert_with(|| error.clone());
        self.sink.close();
        self.credit.end_link(self);
        let error = Error::disconnected(format!("the connection ended before it was answered: {}", error.message));
        let mut kept = Vec::new();
        self.waiting.borrow_mut().retain(|_, waiting| {
            kept.extend(waiting.kept.take());
            waiting.done.get_or_insert_with(|| Err(error.clone()));
            if let Some(waker) = waiting.waker.take() {
                waker.wake();
            }
            !waiting.given_up
        });
    }
}

impl Coming {
    /// The number of the request on its connection.
    pub fn request(&self) -> RequestId {
        self.request
    }

    /// Keeps something until it is answered or its connection ends, also if the answer is given up: as long as the node may have the
    /// request.
    pub fn keep(&self, what: impl Any) {
        let mut all = self.shared.waiting.borrow_mut();
        if let Some(waiting) = all.get_mut(&self.request).filter(|waiting| waiting.done.is_none()) {
            waiting.kept = Some(Box::new(what));
        }
    }
}

impl Future for Coming {
    type Output = Result<Answer>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Answer>> {
        let mut all = self.shared.waiting.borrow_mut();
        let waiting = all.get_mut(&self.request).expect("a request stays until its answer is taken");
        match waiting.done.take() {
            Some(done) => {
                let answer = std::mem::take(&mut waiting.answer);
                all.remove(&self.request);
                Poll::Ready(done.map(|()| answer))
            }
            None => {
                waiting.waker = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        let mut all = self.shared.waiting.borrow_mut();
        let Some(waiting) = all.get_mut(&self.request) else { return };
        if waiting.done.is_some() {
            all.remove(&self.request);
        } else {
            // What was let come still comes, and is thrown away.
            waiting.given_up = true;
            waiting.answer = Answer::default();
        }
    }
}

enum First<A, B> {
    Left(A),
    Right(B),
}

/// Whichever ends first; the other one is as it was.
async fn first<A, B>(
    mut left: Pin<&mut impl Future<Output = A>>,
    mut right: Pin<&mut (impl Future<Output = B> + ?Sized)>,
) -> First<A, B> {
    std::future::poll_fn(|context| {
        if let Poll::Ready(value) = left.as_mut().poll(context) {
            return Poll::Ready(First::Left(value));
        }
        right.as_mut().poll(context).map(First::Right)
    })
    .await
}

fn hung_up() -> Error {
    Error::disconnected("the node ended the connection: connect again")
}

#[cfg(test)]
mod tests;
