//! A manager on a thread of its own, over an engine in a file.

use crate::copies::{HereAndThere, OnHosts};
use crate::news::News;
use crate::server::{CREDIT, ROOT_KEY};
use forebay_client::nodes::{Nodes, PATIENCE};
use forebay_env::Clock;
use forebay_env::mailbox::{Receiver, mailbox};
use forebay_env::pipe::pipe;
use forebay_env::real::file;
use forebay_env::real::{self, Tls, process, thread};
use forebay_env::watched::Watched;
pub use forebay_manager::Settings;
use forebay_manager::copies::{Copies, OnTargets};
use forebay_manager::desk::{self, Desk, Ended, Errand};
use forebay_manager::recover::look::{has_copies, newer_copy};
use forebay_manager::{Manager, Principal, Redb};
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_wire::control::access::IssuedKey;
use forebay_wire::control::volumes::Policy;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How often the manager is told that time passes.
const TICK: Duration = Duration::from_secs(1);
/// So many ticks it is waited at most before metadata are tried again that could not be opened.
const LONGEST_PAUSE: u32 = 10;
/// For so long targets of this process are looked at before metadata are opened.
const LOOK: Duration = Duration::from_secs(10);

/// Where a manager keeps what it knows.
#[derive(Clone, Copy)]
pub struct Metadata<'a> {
    /// The file.
    pub path: &'a Path,
    /// How much of it is kept in memory.
    pub cache: Bytes,
}

/// A manager at work, until it is closed.
pub struct ManagerHost {
    desk: Mutex<Option<Desk>>,
    cluster: u128,
    /// The key of root, if the cluster was made just now.
    issued: Option<IssuedKey>,
    thread: Mutex<Option<thread::JoinHandle<Result<()>>>>,
    /// Whether its loop has ended.
    over: Arc<Watched<bool>>,
}

impl ManagerHost {
    /// Opens the metadata, or makes a cluster there whose files are striped by `policy`; copies are kept on some of
    /// `hosts`, which have to outlive it, and on targets of nodes that it reaches with `tls`. What keeps it from going on `told_of` is told.
    pub fn start(
        metadata: Metadata<'_>,
        policy: Policy,
        settings: Settings,
        hosts: OnHosts,
        tls: Tls,
        told_of: fn(News),
    ) -> Result<ManagerHost> {
        let over: Arc<Watched<bool>> = Arc::default();
        let ending = over.clone();
        let (errands, mut receiver) = mailbox();
        let (told, mut outcome) = pipe(0);
        let desk = Desk::new(errands);
        let ticking = desk.clone();
        let (path, cache): (PathBuf, Bytes) = (metadata.path.to_path_buf(), metadata.cache);
        let thread = thread::spawn("manager", move || {
            let run = move || {
                real::run_network_with(tls, move |env| async move {
                    let hosts = Rc::new(hosts);
                    let opened = open_first(Metadata { path: &path, cache }, policy, &settings, &hosts, &env).await;
                    let (mut manager, issued) = match opened {
                        Ok(opened) => opened,
                        Err(error) => {
                            told.send(Err(error), 0).await;
                            return Ok(());
                        }
                    };
                    told.send(Ok((manager.cluster(), issued)), 0).await;
                    drop(told);
                    let nodes = Nodes::new(env.clone(), CREDIT.0 as usize, PATIENCE);
                    let clock = env.clock.clone();
                    env.spawner.detach(async move {
                        while ticking.tick() {
                            clock.sleep(TICK).await;
                        }
                    });
                    let mut trouble: Option<Error> = None;
                    loop {
                        let targets = OnTargets::new(HereAndThere::new(hosts.clone(), nodes.clone()));
                        let mut copies = Copies::new(Rc::new(targets), env.clock.clone());
                        let ended = desk::serve(&mut manager, env.clock.clone(), &mut receiver, &mut copies).await;
                        if ended == Ok(Ended::Told) {
                            return Ok(());
                        }
                        // Metadata that are older than their copies stay so.
                        if ended.as_ref().is_err_and(|error| error.kind == Kind::Stale) {
                            return ended.map(drop);
                        }
                        // What comes again and again is told once.
                        if let Err(error) = &ended
                            && trouble.as_ref() != Some(error)
                        {
                            told_of(News::ManagerTroubled(error.clone()));
                            trouble = Some(error.clone());
                        }
                        // Whatever kept it from committing, a full disk perhaps, may pass: the file is opened anew until it does.
                        drop(manager);
                        let again = async || {
                            // What is gone meanwhile is not made anew, empty, over targets that have something.
                            if !file::exists(&path) {
                                let path = path.display();
                                return Err(Error::missing(format!(
                                    "{path} is gone; put it back, or end this and start it again"
                                )));
                            }
                            let engine = Redb::open(&path, cache)?;
                            check_age(&engine, &path, &hosts, &*env.clock).await?;
                            Manager::open(Box::new(engine), env.random.clone(), settings.clone())
                        };
                        manager = match reopened(&mut receiver, &*env.clock, told_of, again).await? {
                            Some(opened) => opened,
                            None => return ended.map(drop),
                        };
                    }
                })
            };
            let ended = process::or_end("the loop of the manager", run);
            ending.change(|is_over| *is_over = true);
            ended?
        })?;
        let gone = || Error::disconnected("the manager's thread ended before it was open");
        let (cluster, issued) = outcome.receive_blocking().unwrap_or_else(|| Err(gone()))?;
        Ok(ManagerHost { desk: Mutex::new(Some(desk)), cluster, issued, thread: Mutex::new(Some(thread)), over })
    }

    /// A way to it.
    pub fn desk(&self) -> Result<Desk> {
        let desk = self.desk.lock().unwrap_or_else(PoisonError::into_inner);
        desk.clone().ok_or_else(|| Error::disconnected("the manager was closed"))
    }

    /// The cluster.
    pub fn cluster(&self) -> u128 {
        self.cluster
    }

    /// The key of root, if the cluster was made just now.
    pub fn issued(&self) -> Option<&IssuedKey> {
        self.issued.as_ref()
    }

    /// Root, as a client that nobody else is.
    pub fn root(&self) -> Principal {
        Principal::root(real::random::number().max(1))
    }

    /// Calls `then` on another thread once its loop has ended, for whatever reason: from then on nobody is answered, and
    /// [`ManagerHost::close`] says why.
    pub fn when_over(&self, then: impl FnOnce() + Send + 'static) -> Result<()> {
        let over = self.over.clone();
        let wait = move || {
            drop(over.wait_while(over.lock(), |is_over| !*is_over));
            then();
        };
        thread::spawn("manager-over", wait).map(drop)
    }

    /// Ends it, when all that was asked is done.
    pub fn close(&self) -> Result<()> {
        if let Some(desk) = self.desk.lock().unwrap_or_else(PoisonError::into_inner).take() {
            desk.end();
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        // A thread that panicked has said so.
        thread.map_or(Ok(()), |thread| thread.join().unwrap_or(Ok(())))
    }
}

impl Drop for ManagerHost {
    fn drop(&mut self) {
        // Whatever could not be started beside it, its file is free again.
        drop(self.close());
    }
}

/// Opens metadata again as soon as that can be; what keeps it from that is told once, and is answered to whoever asks meanwhile.
/// What is damaged, of another release, or older than its copies, stays so: that is an error at once. If it is told to end meanwhile, it
/// is the error that kept it from opening, or nothing if it was not tried yet.
async fn reopened<T>(
    errands: &mut Receiver<Errand>,
    clock: &dyn Clock,
    told_of: fn(News),
    open: impl AsyncFn() -> Result<T>,
) -> Result<Option<T>> {
    let mut last: Option<Error> = None;
    let (mut pause, mut passed) = (1, 0);
    loop {
        if refused_all(errands, last.as_ref()).await {
            return last.map_or(Ok(None), Err);
        }
        clock.sleep(TICK).await;
        passed += 1;
        if passed < pause {
            continue;
        }
        match open().await {
            Ok(opened) => {
                if last.is_some() {
                    told_of(News::MetadataBack);
                }
                return Ok(Some(opened));
            }
            Err(error) if matches!(error.kind, Kind::Damaged | Kind::Version | Kind::Stale) => return Err(error),
            Err(error) => {
                if last.as_ref().is_none_or(|last| last.kind != error.kind) {
                    told_of(News::MetadataAway(error.clone()));
                }
                (pause, passed, last) = ((pause * 2).min(LONGEST_PAUSE), 0, Some(error));
            }
        }
    }
}

/// While no manager is there: whoever asked so far learns of it, and why it is so, and may ask again. Whether it was told to end.
async fn refused_all(errands: &mut Receiver<Errand>, why: Option<&Error>) -> bool {
    let Some(why) = why else { return desk::refuse_all(errands) };
    let gone = Error::disconnected(format!(
        "the manager cannot open its metadata, and tries again every few seconds; ask again when it could: {why}"
    ));
    while let Some(errand) = errands.receive_now() {
        match errand {
            Errand::Change(_, answer) | Errand::Ask(_, _, answer) => {
                answer.send(Err(gone.clone()), 0).await;
            }
            Errand::Report(_, _, answer) => {
                answer.send(Err(gone.clone()), 0).await;
            }
            // Who has not shown yet who it is does not learn why: what is dropped without an answer is answered with that it is gone.
            Errand::Challenge(_) | Errand::Authenticate(..) | Errand::Tick => {}
            Errand::End => return true,
        }
    }
    false
}

/// Opens metadata, or makes them where nobody had any.
async fn open_first(
    metadata: Metadata<'_>,
    policy: Policy,
    settings: &Settings,
    hosts: &OnHosts,
    env: &forebay_env::NetworkEnv,
) -> Result<(Manager, Option<IssuedKey>)> {
    let Metadata { path, cache } = metadata;
    let engine = file::exists(path).then(|| Redb::open(path, cache)).transpose()?;
    let is_there = match &engine {
        Some(engine) if Manager::is_in(engine)? => {
            check_age(engine, path, hosts, &*env.clock).await?;
            true
        }
        _ => false,
    };
    drop(engine);
    if !is_there {
        let dir = path.parent().unwrap_or(path);
        let gone = path.display();
        if has_copies(hosts).await? {
            return Err(Error::missing(format!(
                "{gone} is gone, or empty, and the targets have copies of what was in it: have it made anew with `forebay manager \
                 recover --cluster {}`, or put it back as it was last; an older one is refused (nothing was changed)",
                dir.display()
            )));
        }
        // Without targets here it is all that tells of the cluster whose nodes are elsewhere; and the key of another one would be
        // nobody's, since its place is taken.
        let key = dir.join(ROOT_KEY);
        if file::exists(&key) {
            return Err(Error::missing(format!(
                "{gone} is gone, or empty, and {} is root's key to the cluster that was in it: put it back as it was last, or have it \
                 made anew of the nodes' directories with `forebay manager recover --cluster {} --also DIR`; to begin another cluster, move the key \
                 away (nothing was changed)",
                key.display(),
                dir.display()
            )));
        }
    }
    open(metadata, policy, settings, env)
}

/// Whether metadata are no older than their copies on targets of this process: of what was made since nobody would know, and its numbers
/// would be given once more. What cannot be looked at keeps nobody from them; copies elsewhere are looked at while they are written, and before any is removed there.
async fn check_age(engine: &Redb, path: &Path, hosts: &OnHosts, clock: &dyn Clock) -> Result<()> {
    let Some(target) = newer_copy(hosts, engine, clock, LOOK).await? else { return Ok(()) };
    let dir = path.parent().unwrap_or(path).display();
    Err(Error::stale(format!(
        "{} is older than its copies on target {target}, as from a backup, and lacks what was changed since: put the newest one back, or \
         have it made anew of the targets with `forebay manager recover --over --cluster {dir}`, and `--also DIR` for each directory of \
         a node that joined (nothing was changed)",
        path.display()
    )))
}

fn open(
    Metadata { path, cache }: Metadata<'_>,
    policy: Policy,
    settings: &Settings,
    env: &forebay_env::NetworkEnv,
) -> Result<(Manager, Option<IssuedKey>)> {
    // The key of all capabilities is in it.
    if !file::exists(path) {
        file::create_secret(path, &[])?;
    }
    let mut engine = Redb::open(path, cache)?;
    let cluster = u128::from(env.random.next_u64()) << 64 | u128::from(env.random.next_u64());
    let issued = match Manager::create(&mut engine, cluster, policy, env.clock.wall(), &*env.random) {
        Ok(issued) => Some(issued),
        Err(error) if error.kind == Kind::Exists => None,
        Err(error) => return Err(error),
    };
    Ok((Manager::open(Box::new(engine), env.random.clone(), settings.clone())?, issued))
}

#[cfg(test)]
mod tests;
