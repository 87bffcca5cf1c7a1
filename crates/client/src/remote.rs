//! A cluster that another process serves, reached by a connection.
//!
//! Whoever streams (a recorder, a query) has a connection of its own, so that none waits for another; what is asked
//! once shares one. A connection that broke is not mended here: whoever owns the [`Remote`] finds out who serves now.

mod answer;
mod writer;

use crate::peer::{AnswerLink, Peer, WriterLink};
use answer::RemoteAnswer;
use forebay_env::Network;
use forebay_env::network::Stream;
use forebay_env::real::{clock, random};
use forebay_model::{Error, Kind, Moment, Result, Timestamp};
use forebay_wire::command::{QueryRequest, Reply, Request};
use forebay_wire::handshake::{self, ServerHello};
use forebay_wire::{Flags, FrameReader, FrameWriter, RequestId};
use std::sync::{Arc, Mutex, PoisonError};
use writer::RemoteWriter;

/// A cluster at an address.
pub struct Remote {
    network: Arc<dyn Network>,
    address: String,
    hello: ServerHello,
    calls: Mutex<Option<Connection>>,
}

/// Both directions of a connection, after the handshake.
struct Connection {
    reader: FrameReader<Box<dyn Stream>>,
    writer: FrameWriter<Box<dyn Stream>>,
    stream: Box<dyn Stream>,
    next: u64,
}

impl Connection {
    fn open(network: &dyn Network, address: &str) -> Result<(Connection, ServerHello)> {
        let stream = network.connect(address)?;
        let mut reader = FrameReader::new(stream.try_clone()?);
        let mut writer = FrameWriter::new(stream.try_clone()?);
        // Who is turned away at the door cannot send, but can read why.
        let hello = handshake::connect(&mut reader, &mut writer, None).map_err(|e| told(&mut reader).unwrap_or(e))?;
        Ok((Connection { reader, writer, stream, next: 1 }, hello))
    }

    fn call(&mut self, request: &Request) -> Result<Reply> {
        let id = RequestId(self.next);
        self.next += 1;
        request.send(&mut self.writer, id)?;
        let head = self.reader.receive()?.ok_or_else(hung_up)?;
        if head.request != id {
            return Err(Error::damaged(format!("a node answered {} when {id} was asked: it is broken", head.request)));
        }
        self.reader.answer(&head)
    }
}

impl Remote {
    /// Connects to the process that serves at `address`.
    pub fn connect(network: Arc<dyn Network>, address: &str) -> Result<Remote> {
        let (connection, hello) = Connection::open(&*network, address)?;
        Ok(Remote { network, address: address.to_string(), hello, calls: Mutex::new(Some(connection)) })
    }

    /// What the other side said first.
    pub fn hello(&self) -> &ServerHello {
        &self.hello
    }

    fn connection(&self) -> Result<Connection> {
        let opened = Connection::open(&*self.network, &self.address).map(|(connection, _)| connection);
        // Nobody there means the same as a connection that broke: whoever served went away.
        opened.map_err(|error| if error.kind == Kind::Missing { Error::disconnected(error.message) } else { error })
    }
}

impl Peer for Remote {
    fn call(&self, request: Request) -> Result<Reply> {
        let mut calls = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        if calls.is_none() {
            *calls = Some(self.connection()?);
        }
        let connection = calls.as_mut().ok_or_else(hung_up)?;
        let result = connection.call(&request);
        if result.as_ref().is_err_and(|error| matches!(error.kind, Kind::Disconnected | Kind::Damaged)) {
            *calls = None;
        }
        result
    }

    fn open_writer(&self, ring: &str, writer: u64, resume: bool) -> Result<Box<dyn WriterLink>> {
        Ok(Box::new(RemoteWriter::open(self.connection()?, ring, writer, resume)?))
    }

    fn query(&self, request: QueryRequest) -> Result<Box<dyn AnswerLink>> {
        Ok(Box::new(RemoteAnswer::open(self.connection()?, &request)?))
    }

    fn now(&self) -> Moment {
        clock::now()
    }

    fn wall(&self) -> Timestamp {
        clock::wall()
    }

    fn random(&self) -> u64 {
        let mut bytes = [0; 8];
        random::fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }

    fn close(&self) -> Result<()> {
        *self.calls.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}

/// The reason that the other side gave before it ended the connection.
fn told(reader: &mut FrameReader<Box<dyn Stream>>) -> Option<Error> {
    let head = reader.receive().ok()??;
    if head.flags.has(Flags::ERROR) { reader.decode().ok() } else { None }
}

fn hung_up() -> Error {
    Error::disconnected("the process that serves the cluster hung up")
}
