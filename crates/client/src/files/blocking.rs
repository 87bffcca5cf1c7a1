//! Files for threads that block: what they ask is done by a loop on a thread of its own, which has all connections.
//!
//! Bytes are handed over as they are, without a copy.

use super::keep::{Keeping, Kept};
use super::scrub::Scrubbed;
use super::{File, Files};
use crate::file::options::Options;
use bytes::Bytes as Slice;
use forebay_env::mailbox::{Sender, mailbox};
use forebay_env::pipe::pipe;
use forebay_env::real::{self, thread};
use forebay_env::{NetworkEnv, Spawner};
use forebay_model::layout::Striping;
use forebay_model::{Bytes, Error, Rate, Result};
use forebay_wire::control::names::{Entry, FileId, Listed};
use forebay_wire::control::volumes::Policy;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// It is looked so often while a file is due once whether any is, and every hour at least.
const ROUNDS: u32 = 100;
const LONGEST_ROUND: Duration = Duration::from_secs(3600);

/// Something that the loop does.
type Job = Box<dyn FnOnce(Rc<Here>) + Send>;

/// The files of a cluster. Cheap to clone; the loop ends with the last clone and the last open file.
#[derive(Clone)]
pub struct FilesClient {
    way: Arc<Way>,
}

/// An open file.
pub struct OpenFile {
    way: Arc<Way>,
    number: u64,
    entry: Entry,
    striping: Striping,
}

pub(crate) struct Way {
    jobs: Mutex<Option<Sender<Job>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    next: AtomicU64,
}

/// What the loop has.
pub(crate) struct Here {
    env: NetworkEnv,
    files: Files,
    open: RefCell<BTreeMap<u64, Rc<File>>>,
}

impl FilesClient {
    /// Starts the loop; `reach` makes what it needs there.
    pub fn start<F>(reach: impl FnOnce(NetworkEnv) -> F + Send + 'static) -> Result<FilesClient>
    where
        F: Future<Output = Result<Files>> + 'static,
    {
        FilesClient::start_with(real::Tls::default(), reach)
    }

    /// The same with TLS on the connections to nodes.
    pub fn start_with<F>(tls: real::Tls, reach: impl FnOnce(NetworkEnv) -> F + Send + 'static) -> Result<FilesClient>
    where
        F: Future<Output = Result<Files>> + 'static,
    {
        let (jobs, mut receiver) = mailbox::<Job>();
        let (told, mut outcome) = pipe(0);
        let thread = thread::spawn("files", move || {
            let ended = real::run_network_with(tls, move |env| async move {
                let files = match reach(env.clone()).await {
                    Ok(files) => files,
                    Err(error) => {
                        told.send(Err(error), 0).await;
                        return;
                    }
                };
                told.send(Ok(()), 0).await;
                drop(told);
                let here = Rc::new(Here { env, files, open: RefCell::default() });
                while let Some(job) = receiver.receive().await {
                    job(here.clone());
                }
            });
            // Whoever still waits for the loop finds that it is gone.
            drop(ended);
        })?;
        let way = Way { jobs: Mutex::new(Some(jobs)), thread: Mutex::new(Some(thread)), next: AtomicU64::new(1) };
        outcome.receive_blocking().unwrap_or_else(|| Err(gone()))?;
        Ok(FilesClient { way: Arc::new(way) })
    }

    /// What leads to the loop.
    pub(crate) fn way(&self) -> Arc<Way> {
        self.way.clone()
    }

    /// Mends what others left open to write, rebuilds what was given up, moves what is to lie elsewhere and scrubs what was not for
    /// long, again and again until the client ends; `told` of each file that something was done for, and once of one that it cannot be.
    pub fn keep(&self, how: Keeping, told: impl Fn(FileId, Result<Kept>) + Clone + Send + 'static) {
        self.way.send(Box::new(move |here| {
            let Keeping { pause, scrubbing, even_rate } = how;
            let (files, spawner) = (here.files.clone(), &here.env.spawner);
            let (keeping, tell) = (files.clone(), told.clone());
            spawner.detach(async move { keeping.keep_mending(pause, tell).await });
            let (keeping, tell) = (files.clone(), told.clone());
            spawner.detach(async move { keeping.keep_moving(pause, even_rate, tell).await });
            let (keeping, tell) = (files.clone(), told.clone());
            spawner.detach(async move { keeping.keep_rebuilding(pause, tell).await });
            if scrubbing.rate == Rate(0) {
                return;
            }
            // Each round looks at all files.
            let round = (scrubbing.every / ROUNDS).clamp(pause, LONGEST_ROUND.max(pause));
            spawner.detach(async move { files.keep_scrubbing(round, scrubbing, told).await });
        }));
    }

    /// Rebuilds what was given up, likewise, and nothing else: what several clients do, each some of it.
    pub fn keep_rebuilding(&self, pause: Duration, told: impl Fn(FileId, Result<Kept>) + Send + 'static) {
        self.way.send(Box::new(move |here| {
            let files = here.files.clone();
            here.env.spawner.detach(async move { files.keep_rebuilding(pause, told).await });
        }));
    }

    /// Scrubs a file, and tells `progress` of bytes that were compared, which may end it; `None` if not all of it can be now.
    pub fn scrub(
        &self,
        file: FileId,
        rate: Option<Rate>,
        progress: impl FnMut(Bytes) -> Result<()> + Send + 'static,
    ) -> Result<Option<Scrubbed>> {
        self.way.run(move |here| async move { here.files.scrub(file, rate, progress).await })
    }

    /// Makes a file, which must not exist, and opens it to write.
    pub fn create(&self, path: &str, mode: u32, policy: Option<Policy>, options: Options) -> Result<OpenFile> {
        let path = path.to_string();
        self.opened(move |here| async move { here.files.create(&path, mode, policy, options).await })
    }

    /// Opens a file to read.
    pub fn open(&self, path: &str, options: Options) -> Result<OpenFile> {
        let path = path.to_string();
        self.opened(move |here| async move { here.files.open(&path, options).await })
    }

    /// Opens a file to write and read.
    pub fn open_to_write(&self, path: &str, options: Options) -> Result<OpenFile> {
        let path = path.to_string();
        self.opened(move |here| async move { here.files.open_to_write(&path, options).await })
    }

    fn opened<F>(&self, open: impl FnOnce(Rc<Here>) -> F + Send + 'static) -> Result<OpenFile>
    where
        F: Future<Output = Result<File>> + 'static,
    {
        let number = self.way.next.fetch_add(1, Ordering::Relaxed);
        let (entry, striping) = self.way.run(move |here| async move {
            let file = open(here.clone()).await?;
            let known = (file.entry().clone(), file.striping());
            here.open.borrow_mut().insert(number, Rc::new(file));
            Ok(known)
        })?;
        Ok(OpenFile { way: self.way.clone(), number, entry, striping })
    }

    /// What is known of a file or directory.
    pub fn stat(&self, path: &str) -> Result<Entry> {
        let path = path.to_string();
        self.way.run(move |here| async move { here.files.stat(&path).await })
    }

    /// The entries of a directory behind `after`, and whether there are more.
    pub fn list(&self, path: &str, after: &str) -> Result<(Vec<Listed>, bool)> {
        let (path, after) = (path.to_string(), after.to_string());
        self.way.run(move |here| async move { here.files.list(&path, &after).await })
    }

    /// Makes a directory.
    pub fn make_directory(&self, path: &str, mode: u32) -> Result<Entry> {
        let path = path.to_string();
        self.way.run(move |here| async move { here.files.make_directory(&path, mode).await })
    }

    /// Gives a file or directory another name.
    pub fn rename(&self, from: &str, to: &str, exclusive: bool) -> Result<Entry> {
        let (from, to) = (from.to_string(), to.to_string());
        self.way.run(move |here| async move { here.files.rename(&from, &to, exclusive).await })
    }

    /// Removes a file.
    pub fn remove(&self, path: &str) -> Result<()> {
        let path = path.to_string();
        self.way.run(move |here| async move { here.files.remove(&path).await })
    }

    /// Removes an empty directory.
    pub fn remove_directory(&self, path: &str) -> Result<()> {
        let path = path.to_string();
        self.way.run(move |here| async move { here.files.remove_directory(&path).await })
    }

    /// Says who may do what with a file, directory or ring ([`Files::set_mode`]).
    pub fn set_mode(&self, path: &str, mode: u32) -> Result<Entry> {
        let path = path.to_string();
        self.way.run(move |here| async move { here.files.set_mode(&path, mode).await })
    }

    /// Gives a file, directory or ring to another user or group ([`Files::set_owner`]).
    pub fn set_owner(&self, path: &str, owner: Option<u32>, group: Option<u32>) -> Result<Entry> {
        let path = path.to_string();
        self.way.run(move |here| async move { here.files.set_owner(&path, owner, group).await })
    }

    /// Takes back all that was given out for a file or ring ([`Files::revoke`]).
    pub fn revoke(&self, path: &str) -> Result<()> {
        let path = path.to_string();
        self.way.run(move |here| async move { here.files.revoke(&path).await })
    }

    /// The same of everything, which root may ([`Files::revoke_all`]).
    pub fn revoke_all(&self) -> Result<()> {
        self.way.run(|here| async move { here.files.revoke_all().await })
    }
}

impl Here {
    /// The files of the cluster.
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// Starts tasks of the loop.
    pub(crate) fn spawner(&self) -> &Spawner {
        &self.env.spawner
    }
}

impl OpenFile {
    /// What was known of it when it was opened.
    pub fn entry(&self) -> &Entry {
        &self.entry
    }

    /// How it lies on its targets.
    pub fn striping(&self) -> Striping {
        self.striping
    }

    /// Bytes of it: as many as there are.
    pub fn read_at(&self, offset: Bytes, length: Bytes) -> Result<Vec<u8>> {
        self.with(move |file| async move { file.read_at(offset, length).await })
    }

    /// As [`OpenFile::read_at`], without a copy: in pieces, none of them empty.
    pub fn read_slices(&self, offset: Bytes, length: Bytes) -> Result<Vec<Slice>> {
        self.with(move |file| async move { file.read_slices(offset, length).await })
    }

    /// Writes it; durable after a flush at the latest.
    pub fn write_at(&self, offset: Bytes, bytes: Slice) -> Result<()> {
        self.with(move |file| async move { file.write_at(offset, bytes).await })
    }

    /// Writes behind the end, wherever that is by then, and says where that was ([`File::append`]).
    pub fn append(&self, bytes: Slice) -> Result<Bytes> {
        self.with(move |file| async move { file.append(bytes).await })
    }

    /// Cuts it, or lengthens it with a hole, durably ([`File::truncate`]).
    pub fn truncate(&self, size: Bytes) -> Result<()> {
        self.with(move |file| async move { file.truncate(size).await })
    }

    /// Ends what others began and left ([`File::end_left`]).
    pub fn end_left(&self) -> Result<()> {
        self.with(move |file| async move { file.end_left().await })
    }

    /// Makes durable what was written.
    pub fn flush(&self) -> Result<()> {
        self.with(move |file| async move { file.flush().await })
    }

    /// How long it is.
    pub fn size(&self) -> Result<Bytes> {
        self.with(move |file| async move { file.size().await })
    }

    /// Everything is durable, and the manager knows how long the file is.
    pub fn close(self) -> Result<()> {
        let number = self.number;
        self.way.run(move |here| async move {
            let file = here.open.borrow_mut().remove(&number).ok_or_else(gone)?;
            match Rc::into_inner(file) {
                Some(file) => file.close().await,
                None => Err(Error::busy("the file is being read or written; close it when that is done")),
            }
        })
    }

    fn with<T, F>(&self, ask: impl FnOnce(Rc<File>) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + 'static,
    {
        let number = self.number;
        self.way.run(move |here| async move {
            let file = here.open.borrow().get(&number).cloned();
            ask(file.ok_or_else(gone)?).await
        })
    }
}

impl Drop for OpenFile {
    fn drop(&mut self) {
        let number = self.number;
        self.way.send(Box::new(move |here| {
            // One that was closed is not there any more. Of another one the manager is to know that nobody writes it, which
            // is so once all is durable; if that fails, nobody is told, and it is scrubbed when this client is gone.
            let Some(file) = here.open.borrow_mut().remove(&number).and_then(Rc::into_inner) else { return };
            here.env.spawner.detach(async move { drop(file.close().await) });
        }));
    }
}

impl Way {
    fn send(&self, job: Job) {
        if let Some(jobs) = &*self.jobs.lock().unwrap_or_else(PoisonError::into_inner) {
            // A loop that is gone does nothing more, and whoever waits for it is told.
            drop(jobs.send(job));
        }
    }

    /// Has something done by a task of the loop, and waits for it.
    pub(crate) fn run<T, F>(&self, work: impl FnOnce(Rc<Here>) -> F + Send + 'static) -> Result<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T>> + 'static,
    {
        let (answer, mut outlet) = pipe(0);
        self.send(Box::new(move |here| {
            let spawner = here.env.spawner.clone();
            let work: Pin<Box<dyn Future<Output = Result<T>>>> = Box::pin(work(here));
            spawner.detach(async move {
                answer.send(work.await, 0).await;
            });
        }));
        outlet.receive_blocking().unwrap_or_else(|| Err(gone()))
    }
}

impl Drop for Way {
    fn drop(&mut self) {
        drop(self.jobs.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // A thread that panicked has said so.
            let _ = thread.join();
        }
    }
}

fn gone() -> Error {
    Error::disconnected("the client's loop has ended, or the file was closed: open it again")
}
