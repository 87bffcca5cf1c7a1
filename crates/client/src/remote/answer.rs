//! A query that another process answers.

use super::patient::{IsThere, Vigil, Wait};
use super::{Connection, hung_up};
use crate::peer::{AnswerLink, Part};
use forebay_env::network::Stream;
use forebay_model::ring::Batch;
use forebay_model::{Error, Result};
use forebay_wire::command::{CancelQuery, QueryRequest};
use forebay_wire::{Command, Flags, FrameReader, FrameWriter, RequestId};
use std::sync::{Arc, Mutex, PoisonError};

const QUERY: RequestId = RequestId(1);
const CANCEL: RequestId = RequestId(2);
/// Memory that is taken at once for the payload of a frame.
const EXPECTED: usize = 2 << 20;

/// A query on a connection of its own.
pub(super) struct RemoteAnswer {
    reader: FrameReader<Box<dyn Stream>>,
    writer: Arc<Mutex<FrameWriter<Box<dyn Stream>>>>,
    stream: Box<dyn Stream>,
    vigil: Arc<Vigil>,
}

impl RemoteAnswer {
    /// Asks; `is_there` says whether the other side lives, whenever it is silent for long.
    pub(super) fn open(connection: Connection, is_there: IsThere, request: &QueryRequest) -> Result<RemoteAnswer> {
        let Connection { reader, mut writer, stream, vigil, .. } = connection;
        vigil.expect(Wait::Anything(is_there));
        writer.send(QUERY, Command::QUERY, Flags::NONE, request, &[])?;
        Ok(RemoteAnswer { reader, writer: Arc::new(Mutex::new(writer)), stream, vigil })
    }

    fn receive(&mut self) -> Result<Part> {
        let reader = &mut self.reader;
        let head = reader.receive()?.ok_or_else(hung_up)?;
        if head.flags.has(Flags::ERROR) {
            return Err(reader.decode::<Error>()?);
        }
        if head.flags.has(Flags::END) {
            return Ok(Part::End(reader.decode()?));
        }
        let mut batch = Batch { items: reader.decode()?, payload: Vec::new() };
        batch.payload.reserve((head.payload as usize).min(EXPECTED));
        reader.payload_onto(&mut batch.payload)?;
        forebay_wire::ring::check(&batch)?;
        Ok(Part::Batch(batch))
    }
}

impl AnswerLink for RemoteAnswer {
    fn next(&mut self) -> Result<Part> {
        self.receive().map_err(|error| self.vigil.explain(error))
    }

    fn canceller(&self) -> Box<dyn Fn() + Send + Sync> {
        let (writer, vigil) = (self.writer.clone(), self.vigil.clone());
        Box::new(move || {
            vigil.cancel();
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            // If it cannot be sent, the connection is over, and with it the query.
            let _ = writer.send(CANCEL, Command::CANCEL_QUERY, Flags::NONE, &CancelQuery { query: QUERY.0 }, &[]);
        })
    }
}

impl Drop for RemoteAnswer {
    fn drop(&mut self) {
        // A canceller may still hold the connection open.
        self.stream.shutdown();
    }
}
