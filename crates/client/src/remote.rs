//! A cluster that another process serves, reached by a connection.
//!
//! Whoever streams (a recorder, a query) has a connection of its own, so that none waits for another; what is asked
//! once shares one. A connection that broke is not mended here: whoever owns the [`Remote`] finds out who serves now.

mod answer;
mod objects;
mod patient;
mod writer;

use crate::peer::{AnswerLink, HeapLink, ObjectLink, Peer, WriterLink};
use answer::RemoteAnswer;
use forebay_env::Network;
use forebay_env::network::Stream;
use forebay_env::real::{clock, random};
use forebay_model::{Error, Kind, Moment, Result, Timestamp};
use forebay_wire::command::{QueryRequest, Reply, Request};
use forebay_wire::handshake::{self, ServerHello};
use forebay_wire::{Flags, FrameReader, FrameWriter, RequestId};
use objects::RemoteObjects;
use patient::{IsThere, Patient, Vigil, Wait};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use writer::RemoteWriter;

pub use patient::Patience;

/// A cluster at an address.
pub struct Remote {
    network: Arc<dyn Network>,
    address: String,
    patience: Patience,
    hello: ServerHello,
    calls: Mutex<Option<Connection>>,
}

/// Both directions of a connection, after the handshake.
struct Connection {
    reader: FrameReader<Box<dyn Stream>>,
    writer: FrameWriter<Box<dyn Stream>>,
    stream: Box<dyn Stream>,
    vigil: Arc<Vigil>,
    next: u64,
}

impl Connection {
    fn open(network: &dyn Network, address: &str, patience: Patience) -> Result<(Connection, ServerHello)> {
        Connection::open_unless(network, address, patience, Arc::default())
    }

    fn open_unless(
        network: &dyn Network,
        address: &str,
        patience: Patience,
        cancelled: Arc<AtomicBool>,
    ) -> Result<(Connection, ServerHello)> {
        let stream = network.connect(address)?;
        let vigil = Vigil::over(&*stream, patience, cancelled);
        let stream: Box<dyn Stream> = Box::new(Patient::new(stream, vigil.clone()));
        let mut reader = FrameReader::new(stream.try_clone()?);
        let mut writer = FrameWriter::new(stream.try_clone()?);
        // Who is turned away at the door cannot send, but can read why.
        let hello = handshake::connect(&mut reader, &mut writer, None)
            .map_err(|e| vigil.explain(told(&mut reader).unwrap_or(e)))?;
        Ok((Connection { reader, writer, stream, vigil, next: 1 }, hello))
    }

    fn call(&mut self, request: &Request) -> Result<Reply> {
        self.vigil.expect(Wait::Answer(match request {
            Request::Measure { budget, .. } => *budget,
            _ => Duration::ZERO,
        }));
        self.ask(request).map_err(|error| self.vigil.explain(error))
    }

    fn ask(&mut self, request: &Request) -> Result<Reply> {
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
        Remote::connect_with(network, address, Patience::default())
    }

    /// Connects to the process that serves at `address`, and bears its silence with `patience`.
    pub fn connect_with(network: Arc<dyn Network>, address: &str, patience: Patience) -> Result<Remote> {
        let (connection, hello) = Connection::open(&*network, address, patience)?;
        Ok(Remote { network, address: address.to_string(), patience, hello, calls: Mutex::new(Some(connection)) })
    }

    /// What the other side said first.
    pub fn hello(&self) -> &ServerHello {
        &self.hello
    }

    fn connection(&self) -> Result<Connection> {
        let opened = Connection::open(&*self.network, &self.address, self.patience).map(|(connection, _)| connection);
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
        let ended = result.as_ref().is_err_and(|error| matches!(error.kind, Kind::Disconnected | Kind::Damaged));
        if ended || connection.vigil.gave_up() {
            *calls = None;
        }
        result
    }

    fn open_writer(&self, ring: &str, writer: u64, resume: bool) -> Result<Box<dyn WriterLink>> {
        Ok(Box::new(RemoteWriter::open(self.connection()?, self.patience, ring, writer, resume)?))
    }

    fn query(&self, request: QueryRequest) -> Result<Box<dyn AnswerLink>> {
        // Whoever answers the door is there, however long an answer takes.
        let (network, address, patience) = (self.network.clone(), self.address.clone(), self.patience);
        let is_there: IsThere = Box::new(move |cancelled| {
            Connection::open_unless(&*network, &address, patience, cancelled.clone()).map(drop)
        });
        Ok(Box::new(RemoteAnswer::open(self.connection()?, is_there, &request)?))
    }

    fn objects(&self) -> Result<Box<dyn ObjectLink>> {
        Ok(Box::new(RemoteObjects::over(self.connection()?)))
    }

    fn heaps(&self) -> Result<Box<dyn HeapLink>> {
        Ok(Box::new(RemoteObjects::over(self.connection()?)))
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
