//! A process's part in a directory: owner of the targets, or guest of the owner.

use crate::Options;
use crate::settings::Settings;
use forebay_client::peer::{AnswerLink, Peer, WriterLink};
use forebay_env::real::{clock, random};
use forebay_model::{Error, Moment, Result, Timestamp};
use forebay_wire::command::{QueryRequest, Reply, Request};
use std::path::Path;

/// This process in the directory.
pub(crate) struct Member;

impl Member {
    pub(crate) fn open(dir: &Path, _options: Options) -> Result<Member> {
        Settings::read(dir).map(|_| Member)
    }
}

impl Peer for Member {
    fn call(&self, _request: Request) -> Result<Reply> {
        Err(Error::busy("nothing is served yet"))
    }
    fn open_writer(&self, _ring: &str, _writer: u64, _resume: bool) -> Result<Box<dyn WriterLink>> {
        Err(Error::busy("nothing is served yet"))
    }
    fn query(&self, _request: QueryRequest) -> Result<Box<dyn AnswerLink>> {
        Err(Error::busy("nothing is served yet"))
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
        Ok(())
    }
}
