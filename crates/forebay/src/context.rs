//! What every command needs: the cluster it works on, its output, and how it is stopped.

use crate::cli::Global;
use crate::show::aside;
use crate::show::out::{self, Out};
use forebay_client::files::blocking::FilesClient;
use forebay_client::{Cluster, Patience};
use forebay_embedded::Options;
use forebay_env::real::signal::Stop;
use forebay_env::real::{clock, thread};
use forebay_model::{Error, Result, TargetId, Timestamp};
use forebay_serve::key;
use forebay_serve::reach::{ClientTls, Reach};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What the name of a cluster on the network begins with.
const SCHEME: &str = "forebay://";

/// What a command works with.
pub struct Context {
    /// The directory of the cluster, if one was named.
    pub cluster: Option<PathBuf>,
    /// Whether the command line names it, and not only the environment.
    pub is_cluster_said: bool,
    /// The file with the access key for a cluster on the network.
    key: Option<PathBuf>,
    /// The file with the certificates of those who vouch for a cluster on the network.
    ca: Option<PathBuf>,
    /// How long to wait for a process that has the cluster and does not answer.
    wait: Duration,
    /// Whether programs read the output.
    pub json: bool,
    /// Standard output.
    pub out: Out,
}

impl Context {
    /// What `global` says.
    pub fn new(global: Global) -> Result<Context> {
        Ok(Context {
            cluster: global.cluster,
            is_cluster_said: global.is_cluster_said,
            key: global.access_key,
            ca: global.ca,
            wait: global.wait,
            json: global.json,
            out: Out::new()?,
        })
    }

    /// The directory of the cluster.
    pub fn dir(&self) -> Result<&Path> {
        let Some(dir) = &self.cluster else {
            return Err(Error::usage(
                "it is not said which cluster is meant: give --cluster DIR or set FOREBAY_CLUSTER",
            ));
        };
        if self.is_remote() {
            return Err(Error::usage(format!(
                "{} is a cluster on the network, and this command works on a directory: run it with --cluster DIR on the \
                 machine that has the directory",
                dir.display()
            )));
        }
        Ok(dir)
    }

    /// The file with the access key, if one was named.
    pub fn key(&self) -> Option<&Path> {
        self.key.as_deref()
    }

    /// Whether it was said who vouches for the cluster, so that TLS is spoken.
    pub fn has_authority(&self) -> bool {
        self.ca.is_some()
    }

    /// What the cluster is called, which has to be one on the network.
    pub fn manager_name(&self) -> Result<String> {
        self.manager().map(|reach| format!("{SCHEME}{}", reach.manager))
    }

    /// How long to wait for whoever does not answer.
    pub fn wait(&self) -> Duration {
        self.wait
    }

    /// The files of the cluster, if it is one on the network.
    pub fn remote(&self) -> Result<Option<FilesClient>> {
        self.reach()?.map(Reach::files).transpose()
    }

    /// How the manager of the cluster is reached, which has to be one on the network.
    pub fn manager(&self) -> Result<Reach> {
        self.reach()?.ok_or_else(|| {
            Error::usage(
                "this is about nodes, targets and keys of a cluster on the network: give --cluster forebay://HOST:PORT",
            )
        })
    }

    /// How the cluster is reached, if it is one on the network.
    fn reach(&self) -> Result<Option<Reach>> {
        let Some(cluster) = self.name() else { return Ok(None) };
        let Some(key) = self.key().map(key::read).transpose()? else {
            return Err(Error::usage(
                "a cluster on the network asks for an access key: give --access-key FILE or set FOREBAY_ACCESS_KEY; `forebay serve` says \
                 where that of root is",
            ));
        };
        let tls = self.ca.clone().map(|authority| ClientTls { authority, name: None });
        Ok(Some(Reach { manager: manager_of(cluster)?.to_string(), key, tls, patience: self.wait }))
    }

    /// What the cluster is called, if it is one on the network.
    fn name(&self) -> Option<&str> {
        self.cluster.as_ref()?.to_str().filter(|name| name.starts_with(SCHEME))
    }

    /// What people call a device: on the network, several machines may have one of this name.
    pub fn device(&self, target: TargetId, device: &str) -> String {
        match self.is_remote() {
            true => format!("{device} (target {target})"),
            false => device.to_string(),
        }
    }

    /// Whether the cluster is one on the network.
    pub fn is_remote(&self) -> bool {
        self.name().is_some()
    }

    /// The files of the cluster, which has to be one on the network.
    pub fn files(&self) -> Result<FilesClient> {
        self.network("files have directories in clusters on the network")
    }

    /// The same, for what only a cluster on the network has, as `why` says.
    pub fn network(&self, why: &str) -> Result<FilesClient> {
        self.remote()?.ok_or_else(|| Error::usage(format!("{why}: give --cluster forebay://HOST:PORT")))
    }

    /// Opens the cluster.
    pub fn open(&self) -> Result<Cluster> {
        if let Some(files) = self.remote()? {
            return Ok(files.cluster(self.wait));
        }
        let patience = Patience { limit: self.wait, tell: say_once, ..Patience::default() };
        forebay_embedded::open(self.dir()?, Options { patience })
    }

    /// Opens the cluster, does `work` with it, and closes it, whatever came of the work.
    pub fn with_cluster<T>(&mut self, work: impl FnOnce(&mut Context, &Cluster) -> Result<T>) -> Result<T> {
        let cluster = self.open()?;
        let done = work(self, &cluster);
        let closed = cluster.close();
        let done = match done {
            // That nobody reads any more hides nothing.
            Err(error) if out::is_closed(&error) => return Err(closed.err().unwrap_or(error)),
            done => done?,
        };
        closed?;
        self.out.flush()?;
        Ok(done)
    }
}

/// The manager of `forebay://HOST:PORT`.
pub fn manager_of(cluster: &str) -> Result<&str> {
    let manager = cluster.strip_prefix(SCHEME).map(|rest| rest.trim_end_matches('/'));
    manager.filter(|manager| !manager.is_empty()).ok_or_else(|| {
        Error::usage(format!("'{cluster}' is no cluster on the network; write it like forebay://HOST:PORT"))
    })
}

/// Says what several connections may notice at the same time.
fn say_once(text: &str) {
    static LAST: Mutex<String> = Mutex::new(String::new());
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if *last != text {
        // Who waits for an answer is not to wait for who reads this, too.
        aside::say(text.to_string());
        *last = text.to_string();
    }
}

/// Calls `then` on another thread once the stop is asked for.
pub fn when_stopped(stop: &Stop, then: impl FnOnce() + Send + 'static) -> Result<()> {
    let stop = stop.clone();
    thread::spawn("stop", move || {
        if stop.wait(None).is_ok() {
            then();
        }
    })
    .map(drop)
}

/// Wall time.
pub fn wall() -> Timestamp {
    clock::wall()
}
