//! A manager on a thread of its own, over an engine in a file.

use crate::copies::{HereAndThere, OnHosts};
use crate::server::{CREDIT, ROOT_KEY};
use forebay_client::nodes::{Nodes, PATIENCE};
use forebay_env::mailbox::mailbox;
use forebay_env::pipe::pipe;
use forebay_env::real::file;
use forebay_env::real::{self, Tls, process, thread};
pub use forebay_manager::Settings;
use forebay_manager::copies::{Copies, OnTargets};
use forebay_manager::desk::{self, Desk, Ended};
use forebay_manager::recover::look::has_copies;
use forebay_manager::{Manager, Principal, Redb};
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_wire::control::access::IssuedKey;
use forebay_wire::control::volumes::Policy;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// How often the manager is told that time passes.
const TICK: Duration = Duration::from_secs(1);

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
}

impl ManagerHost {
    /// Opens the metadata, or makes a cluster there whose files are striped by `policy`; copies are kept on some of
    /// `hosts`, which have to outlive it, and on targets of nodes that it reaches with `tls`.
    pub fn start(
        metadata: Metadata<'_>,
        policy: Policy,
        settings: Settings,
        hosts: OnHosts,
        tls: Tls,
    ) -> Result<ManagerHost> {
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
                    loop {
                        let targets = OnTargets::new(HereAndThere::new(hosts.clone(), nodes.clone()));
                        let mut copies = Copies::new(Rc::new(targets), env.clock.clone());
                        let ended = desk::serve(&mut manager, env.clock.clone(), &mut receiver, &mut copies).await;
                        if ended == Ok(Ended::Told) {
                            return Ok(());
                        }
                        // Whatever kept it from committing, a full disk perhaps, may pass: the file is opened anew until it does.
                        drop(manager);
                        manager = loop {
                            if desk::refuse_all(&mut receiver) {
                                return ended.map(drop);
                            }
                            env.clock.sleep(TICK).await;
                            // What is gone meanwhile is not made anew, empty, over targets that have something.
                            let again = || {
                                Manager::open(Box::new(Redb::open(&path, cache)?), env.random.clone(), settings.clone())
                            };
                            if file::exists(&path)
                                && let Ok(opened) = again()
                            {
                                break opened;
                            }
                        };
                    }
                })
            };
            process::or_end("the loop of the manager", run)?
        })?;
        let gone = || Error::disconnected("the manager's thread ended before it was open");
        let (cluster, issued) = outcome.receive_blocking().unwrap_or_else(|| Err(gone()))?;
        Ok(ManagerHost { desk: Mutex::new(Some(desk)), cluster, issued, thread: Mutex::new(Some(thread)) })
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

/// Opens metadata, or makes them where nobody had any.
async fn open_first(
    metadata: Metadata<'_>,
    policy: Policy,
    settings: &Settings,
    hosts: &OnHosts,
    env: &forebay_env::NetworkEnv,
) -> Result<(Manager, Option<IssuedKey>)> {
    let Metadata { path, cache } = metadata;
    let is_there = file::exists(path) && Manager::is_in(&Redb::open(path, cache)?)?;
    if !is_there {
        let dir = path.parent().unwrap_or(path);
        let gone = path.display();
        if has_copies(hosts).await? {
            return Err(Error::missing(format!(
                "{gone} is gone, or empty, and the targets have copies of what was in it: put it back, or have it made anew with \
                 `forebay manager recover --cluster {}` (nothing was changed)",
                dir.display()
            )));
        }
        // Without targets here it is all that tells of the cluster whose nodes are elsewhere; and the key of another one would be
        // nobody's, since its place is taken.
        let key = dir.join(ROOT_KEY);
        if file::exists(&key) {
            return Err(Error::missing(format!(
                "{gone} is gone, or empty, and {} is root's key to the cluster that was in it: put it back, or have it made anew of the \
                 nodes' directories with `forebay manager recover --cluster {} --also DIR`; to begin another cluster, move the key \
                 away (nothing was changed)",
                key.display(),
                dir.display()
            )));
        }
    }
    open(metadata, policy, settings, env)
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
