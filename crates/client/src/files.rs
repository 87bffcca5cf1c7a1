//! Files of a cluster by their names: what the manager is asked once, and what the targets are asked from then on.
//!
//! Tasks of one loop use [`Files`] and [`File`]; threads that block have [`blocking`].

pub mod blocking;
pub mod keep;
pub mod left;
pub mod moving;
pub mod rebuild;

use crate::control::{Control, strange};
use crate::file::FileEngine;
use crate::file::options::Options;
use crate::file::remote::RemoteComponents;
use crate::nodes::Nodes;
use crate::rings::Rings;
use bytes::Bytes as Slice;
use forebay_model::layout::Striping;
use forebay_model::{Bytes, Error, Result};
use forebay_wire::control::files::{Close, Grant, OpenToRead, OpenToWrite};
use forebay_wire::control::names::{
    CreateFile, Entry, FileId, List, Listed, MakeDirectory, Place, RemoveDirectory, RemoveFile, Rename, Stat,
};
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Change, Question, Reply};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::{Rc, Weak};

/// How many entries of a directory are asked for at once.
const PAGE: u32 = 1000;

/// The files of a cluster, for one user. Clones share connections.
#[derive(Clone)]
pub struct Files {
    nodes: Nodes,
    control: Rc<dyn Control>,
    writing: Rc<RefCell<BTreeMap<FileId, Writing>>>,
    /// Of files that are open, the newest version of which this client has a grant.
    newest: Rc<RefCell<BTreeMap<FileId, Weak<Cell<u64>>>>>,
}

/// How a file is open to write here, where one client counts as one writer however often that is.
#[derive(Clone, Copy)]
struct Writing {
    times: usize,
    alone: bool,
}

/// One of these times.
struct Written {
    writing: Rc<RefCell<BTreeMap<FileId, Writing>>>,
    file: FileId,
}

/// An open file.
pub struct File {
    engine: FileEngine,
    control: Rc<dyn Control>,
    entry: Entry,
    striping: Striping,
    /// If it is open to write.
    written: Option<Written>,
}

impl Files {
    /// Reached by these ways.
    pub fn new(nodes: Nodes, control: Rc<dyn Control>) -> Files {
        Files { nodes, control, writing: Rc::default(), newest: Rc::default() }
    }

    /// The rings of the cluster, for the same user.
    pub fn rings(&self) -> Rings {
        Rings::new(self.nodes.clone(), self.control.clone())
    }

    /// Makes a file, which must not exist, and opens it to write: as its volume says, or by this policy.
    pub async fn create(&self, path: &str, mode: u32, policy: Option<Policy>, options: Options) -> Result<File> {
        let place = Place::path(path);
        let create = CreateFile { place, mode, exclusive: true, policy, open: true, alone: options.alone };
        match self.control.change(Change::CreateFile(create)).await.map_err(|e| about(path, e))? {
            Reply::Grant(grant) => self.file(grant, options).await,
            other => Err(strange(&other)),
        }
    }

    /// Opens a file to read.
    pub async fn open(&self, path: &str, options: Options) -> Result<File> {
        let open = Question::OpenToRead(OpenToRead { place: Place::path(path) });
        match self.control.ask(open).await.map_err(|e| about(path, e))? {
            Reply::Grant(grant) => self.file(grant, options).await,
            other => Err(strange(&other)),
        }
    }

    /// Opens a file to write and read.
    pub async fn open_to_write(&self, path: &str, options: Options) -> Result<File> {
        let open = Change::OpenToWrite(OpenToWrite { place: Place::path(path), alone: options.alone });
        match self.control.change(open).await.map_err(|e| about(path, e))? {
            Reply::Grant(grant) => self.file(grant, options).await,
            other => Err(strange(&other)),
        }
    }

    async fn file(&self, grant: Grant, options: Options) -> Result<File> {
        let (entry, write, striping) = (grant.entry.clone(), grant.write, grant.striping);
        let written = match write {
            true => Some(self.write(entry.file, options.alone).await?),
            false => None,
        };
        let components = self.components(grant, options.alone && write).await?;
        let env = self.nodes.env();
        let engine =
            FileEngine::open(Rc::new(components), striping, options, env.spawner.clone(), env.clock.clone()).await?;
        Ok(File { engine, control: self.control.clone(), entry, striping, written })
    }

    async fn components(&self, grant: Grant, is_alone: bool) -> Result<RemoteComponents> {
        let newest = self.newest(grant.entry.file);
        RemoteComponents::open(self.nodes.clone(), self.control.clone(), grant, is_alone, newest).await
    }

    /// What all of this client share that have a file open.
    fn newest(&self, file: FileId) -> Rc<Cell<u64>> {
        let mut all = self.newest.borrow_mut();
        if let Some(newest) = all.get(&file).and_then(Weak::upgrade) {
            return newest;
        }
        all.retain(|_, newest| newest.strong_count() > 0);
        let newest = Rc::default();
        all.insert(file, Rc::downgrade(&newest));
        newest
    }

    /// One more that writes a file, which the manager has let in.
    async fn write(&self, file: FileId, alone: bool) -> Result<Written> {
        let there = self.writing.borrow().get(&file).copied();
        if let Some(Writing { alone: is_alone, .. }) = there.filter(|there| there.alone || alone) {
            // The manager took the last word of this client for how it has the file open.
            let open = OpenToWrite { place: Place::of(file), alone: is_alone };
            self.control.change(Change::OpenToWrite(open)).await?;
            return Err(Error::busy(format!(
                "this process has {file} open to write already, and one of both wants to be alone with it; close that first"
            )));
        }
        self.writing.borrow_mut().entry(file).or_insert(Writing { times: 0, alone }).times += 1;
        Ok(Written { writing: self.writing.clone(), file })
    }

    /// What is known of a file or directory.
    pub async fn stat(&self, path: &str) -> Result<Entry> {
        let stat = Question::Stat(Stat { place: Place::path(path) });
        self.entry(self.control.ask(stat).await.map_err(|e| about(path, e))?)
    }

    /// The entries of a directory behind `after`, with their attributes; and whether there are more.
    pub async fn list(&self, path: &str, after: &str) -> Result<(Vec<Listed>, bool)> {
        let list = List { place: Place::path(path), after: after.to_string(), most: PAGE, attributes: true };
        match self.control.ask(Question::List(list)).await.map_err(|e| about(path, e))? {
            Reply::Page(page) => Ok((page.entries, page.more)),
            other => Err(strange(&other)),
        }
    }

    /// Makes a directory.
    pub async fn make_directory(&self, path: &str, mode: u32) -> Result<Entry> {
        let make = MakeDirectory { place: Place::path(path), mode };
        self.entry(self.control.change(Change::MakeDirectory(make)).await.map_err(|e| about(path, e))?)
    }

    /// Gives a file or directory another name, also in place of one that is there unless that is `exclusive`.
    pub async fn rename(&self, from: &str, to: &str, exclusive: bool) -> Result<Entry> {
        let rename = Rename { from: Place::path(from), to: Place::path(to), exclusive };
        self.entry(self.control.change(Change::Rename(rename)).await.map_err(|e| about(from, e))?)
    }

    /// Removes a file.
    pub async fn remove(&self, path: &str) -> Result<()> {
        let remove = Change::RemoveFile(RemoveFile { place: Place::path(path) });
        self.done(self.control.change(remove).await.map_err(|e| about(path, e))?)
    }

    /// Removes an empty directory.
    pub async fn remove_directory(&self, path: &str) -> Result<()> {
        let remove = Change::RemoveDirectory(RemoveDirectory { place: Place::path(path) });
        self.done(self.control.change(remove).await.map_err(|e| about(path, e))?)
    }

    fn entry(&self, reply: Reply) -> Result<Entry> {
        match reply {
            Reply::Entry(entry) => Ok(entry),
            other => Err(strange(&other)),
        }
    }

    fn done(&self, reply: Reply) -> Result<()> {
        match reply {
            Reply::Done => Ok(()),
            other => Err(strange(&other)),
        }
    }
}

impl File {
    /// What was known of it when it was opened.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// How it lies on its targets.
    pub fn striping(&self) -> Striping {
        self.striping
    }

    /// What reads and writes it.
    pub fn engine(&self) -> &FileEngine {
        &self.engine
    }

    /// Bytes of it: as many as there are.
    pub async fn read_at(&self, offset: Bytes, length: Bytes) -> Result<Vec<u8>> {
        self.engine.read_at(offset, length).await
    }

    /// Writes it; durable after a flush at the latest.
    pub async fn write_at(&self, offset: Bytes, bytes: Slice) -> Result<()> {
        if self.written.is_none() {
            return Err(Error::usage(format!("{} is open to read; open it to write", self.entry.file)));
        }
        self.engine.write_at(offset, bytes).await
    }

    /// Makes durable what was written.
    pub async fn flush(&self) -> Result<()> {
        self.engine.flush().await
    }

    /// How long it is.
    pub async fn size(&self) -> Result<Bytes> {
        self.engine.size().await
    }

    /// Everything is durable, and the manager knows how long the file is. If that fails, the file stays on the manager's list
    /// of those that are written, until this client is gone: then it is scrubbed.
    pub async fn close(self) -> Result<()> {
        let File { engine, control, entry, written, .. } = self;
        let Some(written) = written else { return engine.close().await };
        engine.flush().await?;
        let size = engine.size().await?;
        if !written.is_last() {
            return Ok(());
        }
        let close = Close { file: entry.file, size: Some(size), modified: None };
        match control.change(Change::Close(close)).await? {
            Reply::Entry(_) => Ok(()),
            other => Err(strange(&other)),
        }
    }
}

impl Written {
    /// Whether nobody else of this client writes the file.
    fn is_last(&self) -> bool {
        self.writing.borrow().get(&self.file).is_none_or(|writing| writing.times <= 1)
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        let mut all = self.writing.borrow_mut();
        if let Some(writing) = all.get_mut(&self.file) {
            writing.times -= 1;
            if writing.times == 0 {
                all.remove(&self.file);
            }
        }
    }
}

/// The error, with the name that was asked for.
fn about(path: &str, error: Error) -> Error {
    if error.message.contains(path) { error } else { error.of(path) }
}
