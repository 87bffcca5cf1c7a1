//! The targets of this process, as a peer.

use forebay_client::Stopper;
use forebay_client::peer::{AnswerLink, Block, HeapLink, ObjectLink, Part, Peer, WriterLink};
use forebay_env::Buffer;
use forebay_env::real::{clock, random};
use forebay_model::{Error, Kind, Moment, Result, Timestamp};
use forebay_node::objects::Pending;
use forebay_node::{Answer, Host, Writer, answer};
use forebay_wire::command::{Durable, OpenWriter, QueryRequest, Reply, Request, WriterOpened};
use forebay_wire::heap::{HeapAnswer, HeapRequest};
use forebay_wire::object::{ObjectAnswer, ObjectRequest};
use std::collections::VecDeque;
use std::sync::Arc;

/// A host of this process.
pub(crate) struct LocalPeer(pub(crate) Arc<Host>);

impl Peer for LocalPeer {
    fn call(&self, request: Request) -> Result<Reply> {
        self.0.call(request)
    }

    fn open_writer(&self, ring: &str, writer: u64, resume: bool) -> Result<Box<dyn WriterLink>> {
        let request = OpenWriter { ring: ring.to_string(), writer, resume };
        Ok(Box::new(LocalWriter(self.0.open_writer(request)?)))
    }

    fn query(&self, request: QueryRequest) -> Result<Box<dyn AnswerLink>> {
        Ok(Box::new(LocalAnswer(self.0.query(request)?)))
    }

    fn objects(&self) -> Result<Box<dyn ObjectLink>> {
        Ok(Box::new(LocalObjects { link: self.0.objects(), coming: Coming::default() }))
    }

    fn heaps(&self) -> Result<Box<dyn HeapLink>> {
        Ok(Box::new(LocalHeaps { link: self.0.heaps(), coming: Coming::default() }))
    }

    fn now(&self) -> Moment {
        clock::now()
    }

    fn wall(&self) -> Timestamp {
        clock::wall()
    }

    fn random(&self) -> u64 {
        random::number()
    }

    fn close(&self) -> Result<()> {
        self.0.close()
    }
}

/// A writer session in this process: blocks are packed where the device reads them.
struct LocalWriter(Writer);

impl WriterLink for LocalWriter {
    fn opened(&self) -> &WriterOpened {
        self.0.opened()
    }

    fn take(&self, wait: bool, stopper: &Stopper) -> Result<Option<Buffer>> {
        if let Some(buffer) = self.0.try_take() {
            return Ok(Some(buffer));
        }
        if !wait {
            // Without a ring there is never room again: that is no overflow.
            return self.0.check().map(|()| None);
        }
        stopper.on_stop(self.0.interrupter());
        self.0.take()
    }

    fn send(&mut self, block: Block) -> Result<()> {
        self.0.send(block.buffer, block.number, block.accepted)
    }

    fn durable(&self) -> Durable {
        self.0.durable()
    }

    fn check(&self) -> Result<()> {
        self.0.check()
    }

    fn wait_durable(&self, number: u64) -> Result<Durable> {
        self.0.wait_durable(number)
    }

    fn unsettled(self: Box<Self>) -> VecDeque<Block> {
        // What this process took in ends with this process.
        VecDeque::new()
    }

    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

/// A query in this process.
struct LocalAnswer(Answer);

impl AnswerLink for LocalAnswer {
    fn next(&mut self) -> Result<Part> {
        Ok(match self.0.next_part()? {
            answer::Part::Batch(batch) => Part::Batch(batch),
            answer::Part::End(summary) => Part::End(summary),
        })
    }

    fn canceller(&self) -> Box<dyn Fn() + Send + Sync> {
        Box::new(self.0.canceller())
    }
}

/// Answers to requests of this process, in order.
struct Coming<A>(VecDeque<Result<Pending<A>>>);

impl<A> Default for Coming<A> {
    fn default() -> Coming<A> {
        Coming(VecDeque::new())
    }
}

impl<A: Send> Coming<A> {
    fn asked(&mut self, pending: Result<Pending<A>>) -> Result<()> {
        match pending {
            Err(error) if error.kind == Kind::Disconnected => Err(error),
            // What is refused at once is refused in its turn.
            pending => {
                self.0.push_back(pending);
                Ok(())
            }
        }
    }

    fn next(&mut self) -> Result<Result<A>> {
        let nothing = || Err(Error::usage("nothing was asked over this link"));
        match self.0.pop_front().unwrap_or_else(nothing).and_then(Pending::wait) {
            Err(error) if error.kind == Kind::Disconnected => Err(error),
            answer => Ok(answer),
        }
    }
}

/// Requests about objects in this process.
struct LocalObjects {
    link: forebay_node::ObjectLink,
    coming: Coming<ObjectAnswer>,
}

impl ObjectLink for LocalObjects {
    fn send(&mut self, request: &ObjectRequest, payload: &Arc<Vec<u8>>) -> Result<()> {
        let pending = self.link.ask(request.clone(), payload.clone());
        self.coming.asked(pending)
    }

    fn receive(&mut self) -> Result<Result<ObjectAnswer>> {
        self.coming.next()
    }
}

/// Requests about records of heaps in this process.
struct LocalHeaps {
    link: forebay_node::HeapLink,
    coming: Coming<HeapAnswer>,
}

impl HeapLink for LocalHeaps {
    fn send(&mut self, request: &HeapRequest, payload: &Arc<Vec<u8>>) -> Result<()> {
        let pending = self.link.ask(request.clone(), payload.clone());
        self.coming.asked(pending)
    }

    fn receive(&mut self) -> Result<Result<HeapAnswer>> {
        self.coming.next()
    }
}
