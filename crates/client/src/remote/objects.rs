//! Requests about objects and records to another process.

use super::patient::{Vigil, Wait};
use super::{Connection, hung_up};
use crate::peer::{HeapLink, ObjectLink};
use forebay_env::network::Stream;
use forebay_model::{Error, Result};
use forebay_wire::heap::{HeapAnswer, HeapRequest};
use forebay_wire::object::{ObjectAnswer, ObjectRequest};
use forebay_wire::{Flags, FrameReader, FrameWriter, Head, RequestId};
use std::sync::Arc;
use std::time::Duration;

type Reader = FrameReader<Box<dyn Stream>>;

/// A connection for requests that are answered in their order.
pub(super) struct RemoteObjects {
    reader: Reader,
    writer: FrameWriter<Box<dyn Stream>>,
    vigil: Arc<Vigil>,
    /// The numbers of the next request and of the next answer.
    next: u64,
    answered: u64,
}

impl RemoteObjects {
    pub(super) fn over(connection: Connection) -> RemoteObjects {
        let Connection { reader, writer, vigil, next, .. } = connection;
        vigil.expect(Wait::Answer(Duration::ZERO));
        RemoteObjects { reader, writer, vigil, next, answered: next }
    }

    fn id(&mut self) -> RequestId {
        self.next += 1;
        RequestId(self.next - 1)
    }

    fn answer<A>(&mut self, read: fn(&mut Reader, &Head) -> Result<A>) -> Result<Result<A>> {
        let answer = self.next_answer(read);
        answer.map_err(|error| self.vigil.explain(error))
    }

    fn next_answer<A>(&mut self, read: fn(&mut Reader, &Head) -> Result<A>) -> Result<Result<A>> {
        let head = self.reader.receive()?.ok_or_else(hung_up)?;
        let asked = RequestId(self.answered);
        if head.request != asked {
            return Err(Error::damaged(format!(
                "a node answered {} when {asked} was next: it is broken",
                head.request
            )));
        }
        self.answered += 1;
        if head.flags.has(Flags::ERROR) {
            return Ok(Err(self.reader.decode::<Error>()?));
        }
        read(&mut self.reader, &head).map(Ok)
    }
}

impl ObjectLink for RemoteObjects {
    fn send(&mut self, request: &ObjectRequest, payload: &Arc<Vec<u8>>) -> Result<()> {
        let id = self.id();
        request.send(&mut self.writer, id, payload)
    }

    fn receive(&mut self) -> Result<Result<ObjectAnswer>> {
        self.answer(ObjectAnswer::receive)
    }
}

impl HeapLink for RemoteObjects {
    fn send(&mut self, request: &HeapRequest, payload: &Arc<Vec<u8>>) -> Result<()> {
        let id = self.id();
        request.send(&mut self.writer, id, payload)
    }

    fn receive(&mut self) -> Result<Result<HeapAnswer>> {
        self.answer(HeapAnswer::receive)
    }
}
