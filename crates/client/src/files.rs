//! Files of a cluster by their names: what the manager is asked once, and what the targets are asked from then on.
//!
//! Tasks of one loop use [`Files`] and [`File`]; threads that block have [`blocking`].

pub mod blocking;
mod callbacks;
pub mod keep;
pub mod left;
mod listed;
pub mod moving;
mod paths;
pub mod rebuild;
pub mod scrub;
mod used;
pub(crate) mod walk;

use crate::control::{Control, done, strange};
use crate::file::components::Asked;
use crate::file::options::{Options, Sharing};
use crate::file::remote::{Opening, RemoteComponents};
use crate::file::{FileEngine, Known};
use crate::heaps::network::{Lanes, NetworkHeaps};
use crate::nodes::Nodes;
use crate::rings::Rings;
use crate::targets::Targets;
use crate::users::Users;
use crate::volumes::Volumes;
use bytes::Bytes as Slice;
use callbacks::{Begun, Coming, Holding, Keeper};
use forebay_model::layout::Striping;
use forebay_model::{Bytes, Error, Kind, Moment, Result};
use forebay_wire::control::files::{Caching, Grant, MakeWay, OpenToRead, OpenToWrite, Revoke};
use forebay_wire::control::names::{
    CreateFile, Entry, FileId, List, Listed, MakeDirectory, Place, RemoveDirectory, RemoveFile, Rename, SetAttributes,
    Stat,
};
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Change, Question, Reply};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use used::{Used, Written};

/// How many entries of a directory are asked for at once.
const PAGE: u32 = 1000;
/// Files of which something is remembered that are not open any more.
const MOST_REMEMBERED: usize = 1024;

/// The files of a cluster, for one user. Clones share connections.
#[derive(Clone)]
pub struct Files {
    nodes: Nodes,
    control: Rc<dyn Control>,
    /// Of files that are open, or were not long ago.
    used: Rc<RefCell<BTreeMap<FileId, Rc<Used>>>>,
    keeper: Rc<Keeper>,
    /// Of files whose scrub was left off.
    scrubbing: Rc<RefCell<BTreeMap<FileId, scrub::SoFar>>>,
    /// Connections for transactions with heaps.
    lanes: Rc<Lanes>,
}

/// Why a file is opened to write.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Use,
    /// To mend or rebuild it.
    Upkeep,
    /// The same, until somebody wants to be alone with it.
    Scrub,
    /// Likewise, by one who is not root and may write it.
    ScrubOwn,
}

/// What the manager said to one who opens a file.
struct Opened {
    grant: Grant,
    /// When it was asked.
    asked: Moment,
    /// Others were called back.
    others: bool,
    begun: Begun,
}

/// An open file.
pub struct File {
    engine: FileEngine,
    entry: Entry,
    striping: Striping,
    /// If it is open to write.
    written: Option<Written>,
    /// If it is open to write, or keeps something.
    holding: Option<Holding>,
}

impl Files {
    /// Reached by these ways.
    pub fn new(nodes: Nodes, control: Rc<dyn Control>) -> Files {
        let keeper = Keeper::new(control.clone(), nodes.env().clock.clone(), nodes.env().spawner.clone());
        Files { nodes, control, used: Rc::default(), keeper, scrubbing: Rc::default(), lanes: Rc::default() }
    }

    /// The rings of the cluster, for the same user.
    pub fn rings(&self) -> Rings {
        Rings::new(self.nodes.clone(), self.control.clone())
    }

    /// The heaps of the cluster, for the same user.
    pub fn heaps(&self) -> NetworkHeaps {
        NetworkHeaps::new(self.nodes.clone(), self.control.clone(), self.lanes.clone())
    }

    /// The targets of the cluster.
    pub fn targets(&self) -> Targets {
        Targets::new(self.nodes.clone(), self.control.clone())
    }

    /// The users of the cluster.
    pub fn users(&self) -> Users {
        Users::new(self.control.clone())
    }

    /// The volumes of the cluster.
    pub fn volumes(&self) -> Volumes {
        Volumes::new(self.clone(), self.control.clone())
    }

    /// Makes a file, which must not exist, and opens it to write: as its volume says, or by this policy.
    pub async fn create(&self, path: &str, mode: u32, policy: Option<Policy>, options: Options) -> Result<File> {
        let place = Place::path(path);
        let (alone, cached) = (options.sharing == Sharing::Alone, options.sharing == Sharing::Cached);
        let create = CreateFile { place, mode, exclusive: true, policy, open: true, alone, cached };
        let (asked, begun) = (self.now(), self.keeper.begins());
        let grant = match self.control.change(Change::CreateFile(create)).await.map_err(|e| about(path, e))? {
            Reply::Grant(grant) => grant,
            other => return Err(strange(&other)),
        };
        if self.used.borrow().contains_key(&grant.entry.file) {
            // Somebody here found the name before, and what the manager was told of this client since is of that one.
            drop(begun);
            return self.open_found(grant.entry.file, options, Purpose::Use).await.map_err(|e| about(path, e));
        }
        let written = self.used(grant.entry.file).write(alone, false)?;
        self.file(Opened { grant, asked, others: false, begun }, options, Some(written)).await
    }

    /// Opens a file to read.
    pub async fn open(&self, path: &str, options: Options) -> Result<File> {
        let (place, cached) = (Place::path(path), options.sharing == Sharing::Cached);
        if cached {
            self.keeper.record().await?;
        }
        let ask = || self.control.ask(Question::OpenToRead(OpenToRead { place: place.clone(), cached }));
        let way = MakeWay { place: place.clone(), write: false, cached };
        let opened = match self.once_others_gave_way(&way, ask).await {
            Err(error) if cached && error.kind == Kind::Stale => {
                // The manager has not heard of this client for long.
                self.keeper.is_forgotten();
                self.keeper.record().await?;
                self.once_others_gave_way(&way, ask).await
            }
            opened => opened,
        };
        self.file(opened.map_err(|e| about(path, e))?, options, None).await
    }

    /// Asks to open a file, again and again as long as others keep something of it that is in the way.
    async fn once_others_gave_way(&self, way: &MakeWay, ask: impl Fn() -> Asked<Reply>) -> Result<Opened> {
        let (since, mut others) = (self.nodes.env().clock.now(), false);
        loop {
            let (asked, begun) = (self.now(), self.keeper.begins());
            match ask().await? {
                Reply::Grant(grant) => return Ok(Opened { grant, asked, others, begun }),
                Reply::Calling => {}
                other => return Err(strange(&other)),
            }
            drop(begun);
            self.keeper.way(way.clone(), since, others).await?;
            others = true;
        }
    }

    /// What is kept of what the manager says counts from when it was asked, also while this machine sleeps.
    fn now(&self) -> Moment {
        self.nodes.env().clock.through_sleep()
    }

    /// Opens a file to write and read.
    pub async fn open_to_write(&self, path: &str, options: Options) -> Result<File> {
        // Whether this process has it open already is known by its number.
        let file = self.stat(path).await?.file;
        self.open_found(file, options, Purpose::Use).await.map_err(|e| about(path, e))
    }

    /// This client as one who looks after files: without a node that is gone there is nothing to be done for it.
    fn patient(&self) -> Files {
        Files { nodes: self.nodes.patient(), ..self.clone() }
    }

    /// Opens a file that this process may have open already.
    async fn open_found(&self, file: FileId, options: Options, purpose: Purpose) -> Result<File> {
        let upkeep = matches!(purpose, Purpose::Upkeep | Purpose::Scrub);
        let yields = matches!(purpose, Purpose::Scrub | Purpose::ScrubOwn);
        let used = self.used(file);
        let turn = used.turn().await;
        let (alone, cached) = (options.sharing == Sharing::Alone, options.sharing == Sharing::Cached);
        if alone || cached {
            // Who is alone does not see what was begun: it is mended first.
            used.tell_unfinished().await?;
        }
        let written = used.write(alone, upkeep)?;
        let place = Place::of(file);
        let open = OpenToWrite { place: place.clone(), alone, upkeep, yields, cached };
        let ask = || self.control.change(Change::OpenToWrite(open.clone()));
        match self.once_others_gave_way(&MakeWay { place, write: true, cached }, ask).await {
            Ok(opened) => {
                drop(turn);
                let files = if purpose == Purpose::Use { self.clone() } else { self.patient() };
                files.file(opened, options, Some(written)).await
            }
            // If the answer was lost, it may be open.
            Err(error) if error.kind == Kind::Disconnected => Err(error),
            Err(error) => {
                written.refused();
                Err(error)
            }
        }
    }

    /// A file that the manager has opened; to write, if it is `written`.
    async fn file(&self, opened: Opened, options: Options, written: Option<Written>) -> Result<File> {
        let Opened { grant, asked, others, begun } = opened;
        let (entry, striping) = (grant.entry.clone(), grant.striping);
        let write = written.is_some();
        let told = grant.callback.filter(|_| options.sharing == Sharing::Cached);
        let unfinished = self.used(entry.file).unfinished();
        let coming = (write || told.is_some()).then(|| self.keeper.opened(entry.file, told, asked, write, unfinished));
        drop(begun);
        match self.open_components(grant, options, coming, written.as_ref(), others).await {
            Ok((engine, holding)) => Ok(File { engine, entry, striping, written, holding }),
            Err(error) => {
                if let Some(written) = written {
                    // Nothing was written, and nobody else would tell the manager that it is not open.
                    drop(written.close(None).await);
                }
                Err(error)
            }
        }
    }

    async fn open_components(
        &self,
        grant: Grant,
        options: Options,
        coming: Option<Coming>,
        written: Option<&Written>,
        others: bool,
    ) -> Result<(FileEngine, Option<Holding>)> {
        let write = written.is_some();
        let is_used = written.is_some_and(|written| !written.is_upkeep());
        // What this client left the manager may not know yet.
        let is_left = grant.left || self.used(grant.entry.file).unfinished().get();
        let is_beside = is_used && options.sharing == Sharing::Beside;
        let shared = match &coming {
            Some(coming) => coming.sharing().await?,
            None => Sharing::Beside,
        };
        let sharing = if options.sharing == Sharing::Cached { shared } else { options.sharing };
        let options = Options { sharing, ..options };
        let env = self.nodes.env();
        let until = if coming.as_ref().is_some_and(Coming::is_cached) {
            self.keeper.until()
        } else {
            Rc::new(Cell::new(Moment(u64::MAX)))
        };
        let (striping, version) = (grant.striping, grant.entry.attributes.version);
        // What is read may be kept while nobody writes the file and nothing of it is to be mended: then the manager has its length.
        let is_settled = grant.callback.is_some_and(|told| told.caching == Caching::Shared);
        let is_written = write || self.used(grant.entry.file).is_written();
        let size = (is_settled && !is_written).then_some(grant.entry.attributes.size);
        let opening = written.map(Written::opening).unwrap_or_default();
        let components = self.components(grant, write && sharing == Sharing::Alone, opening.clone()).await?;
        if others || write && version > 1 {
            // Whoever was called back and did not answer, or was struck off otherwise, may still be there.
            components.show().await?;
        }
        let components = Rc::new(components);
        let engine = FileEngine::keeping(
            components,
            striping,
            options,
            Known { until, size },
            env.spawner.clone(),
            env.clock.clone(),
        )
        .await?;
        if is_beside || is_used && is_left && sharing == Sharing::Beside {
            // Who is gone may have been alone, and cutting it; who comes otherwise waits until it is mended, unless others of its kind
            // or of this client are there.
            engine.end_left_cut(is_left).await?;
        }
        let holding = coming.map(|coming| coming.came(engine.clone(), opening));
        Ok((engine, holding))
    }

    async fn engine(&self, grant: Grant, options: Options, is_alone: bool, opening: Opening) -> Result<FileEngine> {
        let (env, striping) = (self.nodes.env(), grant.striping);
        let components = Rc::new(self.components(grant, is_alone, opening).await?);
        FileEngine::open(components, striping, options, env.spawner.clone(), env.clock.clone()).await
    }

    async fn components(&self, grant: Grant, is_alone: bool, opening: Opening) -> Result<RemoteComponents> {
        let of = (self.used(grant.entry.file).ours(), opening);
        RemoteComponents::open(self.nodes.clone(), self.control.clone(), grant, is_alone, of).await
    }

    /// What all of this client have in common that use a file.
    fn used(&self, file: FileId) -> Rc<Used> {
        let mut all = self.used.borrow_mut();
        if !all.contains_key(&file) && all.len() >= MOST_REMEMBERED {
            all.retain(|_, used| used.is_in_use());
        }
        let fresh = || Rc::new(Used::new(file, self.control.clone(), self.nodes.env().spawner.clone()));
        all.entry(file).or_insert_with(fresh).clone()
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
        let remove = Change::RemoveFile(RemoveFile::at(Place::path(path)));
        done(&self.control.change(remove).await.map_err(|e| about(path, e))?)
    }

    /// Removes an empty directory.
    pub async fn remove_directory(&self, path: &str) -> Result<()> {
        let remove = Change::RemoveDirectory(RemoveDirectory { place: Place::path(path) });
        done(&self.control.change(remove).await.map_err(|e| about(path, e))?)
    }

    /// Says who may do what with a file, directory or ring: the lowest 12 bits as in POSIX. Its owner and root may. Who has a
    /// file open goes on with what it was given, for minutes, or until [`Files::revoke`].
    pub async fn set_mode(&self, path: &str, mode: u32) -> Result<Entry> {
        self.set_attributes(path, Some(mode), None, None).await
    }

    /// Gives a file, directory or ring to another user, which root may, or to another group, which its owner may as well to one
    /// of its own; what is not said stays.
    pub async fn set_owner(&self, path: &str, owner: Option<u32>, group: Option<u32>) -> Result<Entry> {
        self.set_attributes(path, None, owner, group).await
    }

    async fn set_attributes(
        &self,
        path: &str,
        mode: Option<u32>,
        owner: Option<u32>,
        group: Option<u32>,
    ) -> Result<Entry> {
        let place = Place::path(path);
        let set = SetAttributes { place, mode, owner, group, size: None, modified: None, accessed: None };
        self.entry(self.control.change(Change::SetAttributes(set)).await.map_err(|e| about(path, e))?)
    }

    /// Takes back all that was given out for a file or ring, also from this client: whoever uses it opens it again, if it still
    /// may. Its owner and root may.
    pub async fn revoke(&self, path: &str) -> Result<()> {
        let file = self.stat(path).await?.file;
        done(&self.control.change(Change::Revoke(Revoke { file })).await.map_err(|e| about(path, e))?)
    }

    /// The same of everything, which root may: nothing counts any more once each node has reported.
    pub async fn revoke_all(&self) -> Result<()> {
        done(&self.control.change(Change::RevokeAll).await?)
    }

    fn entry(&self, reply: Reply) -> Result<Entry> {
        match reply {
            Reply::Entry(entry) => Ok(entry),
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

    /// As [`File::read_at`], without a copy: in pieces, none of them empty.
    pub async fn read_slices(&self, offset: Bytes, length: Bytes) -> Result<Vec<Slice>> {
        self.engine.read_slices(offset, length).await
    }

    /// Writes it; durable after a flush at the latest.
    pub async fn write_at(&self, offset: Bytes, bytes: Slice) -> Result<()> {
        self.require_written()?;
        self.engine.write_at(offset, bytes).await
    }

    /// Writes behind the end, wherever that is by then, whoever else appends, and says where that was; durable as what
    /// [`File::write_at`] writes.
    pub async fn append(&self, bytes: Slice) -> Result<Bytes> {
        self.require_written()?;
        self.engine.append(bytes).await
    }

    /// Cuts it, or lengthens it with a hole, durably. [`forebay_model::Kind::Busy`] while others may write it.
    pub async fn truncate(&self, size: Bytes) -> Result<()> {
        self.require_written()?;
        self.engine.truncate(size).await
    }

    /// Ends what others began and left: what is read from now on stays until somebody writes it. Those who write the file meanwhile go
    /// on.
    pub async fn end_left(&self) -> Result<()> {
        self.require_written()?;
        self.engine.end_left().await
    }

    fn require_written(&self) -> Result<()> {
        match self.written {
            Some(_) => Ok(()),
            None => Err(Error::usage(format!("{} is open to read; open it to write", self.entry.file))),
        }
    }

    /// Makes durable what was written.
    pub async fn flush(&self) -> Result<()> {
        self.engine.flush().await
    }

    /// How long it is.
    pub async fn size(&self) -> Result<Bytes> {
        self.engine.size().await
    }

    /// Everything is durable, and the manager knows how long the file is. If that fails, and if a file is dropped that was not
    /// closed, it is mended before anybody is alone with it.
    pub async fn close(self) -> Result<()> {
        let File { engine, written, holding, .. } = self;
        let Some(written) = written else {
            let closed = engine.close().await;
            if let Some(holding) = holding {
                holding.close().await;
            }
            return closed;
        };
        engine.flush().await?;
        let length = engine.length().await?;
        if !engine.is_ended() {
            written.leave();
        }
        let closed = written.close(Some(length)).await;
        if let Some(holding) = holding {
            holding.close().await;
        }
        closed
    }

    /// As [`File::close`], of one who wrote nothing of the file: the manager is told also if that fails.
    async fn leave(self) -> Result<()> {
        let File { engine, written, .. } = self;
        let flushed = engine.flush().await;
        let length = match flushed {
            Ok(()) => engine.length().await,
            Err(error) => Err(error),
        };
        let Some(written) = written else { return length.map(drop) };
        let closed = written.close(length.as_ref().ok().copied()).await;
        length.and(closed)
    }
}

/// The error, with the name that was asked for.
pub(crate) fn about(path: &str, error: Error) -> Error {
    if error.message.contains(path) { error } else { error.of(path) }
}
