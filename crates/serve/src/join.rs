//! A directory whose targets belong to a cluster with its manager in another process: a node on its own.
//!
//! Always: the directory remembers for which cluster it serves, and has a key that allows it to be that node and little else;
//! so root's key is shown once at most, unless the node is to rebuild files, too. With the manager away the node goes on with
//! what it was told.

pub mod membership;

use crate::admission;
use crate::grpc::GrpcReports;
use crate::key::{self, AccessKey};
use crate::limits::Taken;
use crate::news::{News, Teller};
use crate::node::{NodeEnding, NodeHost, NodeOptions};
use crate::reach::Reach;
use crate::server::MEND_EVERY;
use crate::status::{Sources, StatusServer};
use crate::survey::Manager;
use crate::tls::{TlsFiles, check_here};
use crate::upkeep::Done;
use forebay_client::files::blocking::FilesClient;
use forebay_client::files::keep::Kept;
use forebay_embedded::{Owned, own_within};
use forebay_env::real::file;
use forebay_model::{Error, Kind, Result};
use forebay_node::network::Unwelcome;
use forebay_wire::control::Question;
use forebay_wire::control::files::AskDegraded;
use forebay_wire::control::names::FileId;
use membership::Membership;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long a report is tried before it is told that the manager is away.
const PATIENCE: Duration = Duration::from_secs(5);

/// How a node joins.
#[derive(Debug, Clone)]
pub struct JoinOptions {
    /// The manager: `host:port`.
    pub manager: String,
    /// The file with root's key, or with one that was given for this node; not needed when the directory has joined before.
    pub key: Option<PathBuf>,
    /// Where clients reach the node: an address and a port, 0 for any that is free.
    pub data: String,
    /// Where it tells over HTTP how it is, if it does.
    pub status: Option<String>,
    /// Where clients reach it, if not there: a host, perhaps with a port.
    pub address: Option<String>,
    /// What the node shows, and who vouches for its manager; without, both are on this machine alone.
    pub tls: Option<TlsFiles>,
    /// What the node takes on.
    pub taken: Taken,
    /// For how long the manager is asked to take it in.
    pub patience: Duration,
    /// Called when something changed between the node and its manager.
    pub told: fn(News),
    /// Called when something came to the node that was malformed, once a minute at most.
    pub warned: fn(Unwelcome),
    /// Whether it makes anew as well what targets of the cluster lost.
    pub rebuilding: Option<Rebuilding>,
}

/// How a node makes anew what targets lost.
#[derive(Debug, Clone)]
pub struct Rebuilding {
    /// The file with root's key: a node's own allows nothing of files.
    pub key: PathBuf,
    /// Called for each file that was made whole, and once of one that cannot be for now.
    pub kept: fn(FileId, Result<Kept>),
}

/// A node at work.
pub struct Joined {
    node: NodeHost,
    rebuilder: Option<(FilesClient, Reach)>,
    status: Option<StatusServer>,
    owned: Owned,
    dir: PathBuf,
    membership: Membership,
    /// The manager's address, as it was given this time.
    manager: String,
}

impl Joined {
    /// Has the targets of `dir` belong to a cluster, and listens; [`Joined::ready`] waits until they are served.
    pub fn start(dir: &Path, options: JoinOptions) -> Result<Joined> {
        check_here(&options.data, options.tls.is_some())?;
        if file::exists(dir.join(crate::server::METADATA)) {
            return Err(Error::usage(format!(
                "{} has a manager of its own: serve it without --join, or take another directory for the node",
                dir.display()
            )));
        }
        let owned = own_within(dir, options.taken.within)?;
        let JoinOptions { manager, key, data, status, address, tls, taken, patience, told, warned, rebuilding } =
            options;
        let trusted = tls.as_ref().map(TlsFiles::client);
        let (membership, key) = match membership::read(dir)? {
            Some(known) => known,
            None => {
                let Some(key) = key else {
                    return Err(Error::usage(format!(
                        "{} belongs to no cluster yet: give --access-key FILE with root's key, or with the one that \
                         `forebay node add` made",
                        dir.display()
                    )));
                };
                let key = key::read(&key)?;
                let first = owned.host().targets().first().map_or(1, |target| target.0 as u64 % admission::MOST_NODES);
                let reach = Reach { manager: manager.clone(), key: key.clone(), tls: trusted.clone(), patience };
                let (node, cluster, key) = reach.ask(move |manager| take_in(manager, key, first.max(1)))?;
                let membership = Membership { node, cluster, manager: manager.clone() };
                membership.write(dir, &key)?;
                (membership, key)
            }
        };
        let reach = |key| Reach { manager: manager.clone(), key, tls: trusted.clone(), patience: PATIENCE };
        let client = reach(key).toward()?;
        let done = rebuilding.as_ref().map(|_| Arc::new(Done::default()));
        let rebuilder = match rebuilding.zip(done.clone()) {
            Some((Rebuilding { key, kept }, done)) => {
                let reach = reach(key::read(&key)?);
                let files = reach.clone().upkeep()?;
                files.keep_rebuilding(MEND_EVERY, move |file, rebuilt| {
                    done.note(&rebuilt);
                    kept(file, rebuilt);
                });
                Some((files, reach))
            }
            None => None,
        };
        let options = NodeOptions {
            host: owned.host(),
            listen: &data,
            known_as: address,
            node: membership.node,
            cluster: membership.cluster,
            bounds: taken.bounds,
            warned,
            tls: tls.as_ref(),
            is_apart: true,
        };
        let reports = client.clone();
        let teller = Teller::new(told);
        let node = NodeHost::start(options, move || Rc::new(GrpcReports(reports)), move |heard| teller.tell(heard))?;
        let sources = Sources {
            nodes: vec![(membership.node, node.teller())],
            manager: Manager::Elsewhere(client),
            upkeep: done,
        };
        let status = status.map(|listen| StatusServer::start(&listen, sources)).transpose()?;
        Ok(Joined { node, rebuilder, status, owned, dir: dir.to_path_buf(), membership, manager })
    }

    /// Waits until the manager lets the node serve: true then, and false if the node was ended before that.
    pub fn ready(&self) -> Result<bool> {
        let is_ready = self.node.ready().map_err(|error| match error.kind {
            Kind::Forbidden | Kind::Missing => error.of(format!(
                "this directory joined as node {0}; to join anew have root run `forebay node add {0}`, remove {1} and {2} here, \
                 and show the key that it made",
                self.membership.node,
                membership::MEMBER,
                membership::KEY
            )),
            _ => error,
        })?;
        if let Some((_, reach)) = self.rebuilder.as_ref().filter(|_| is_ready) {
            may_rebuild(reach.clone())?;
        }
        if is_ready {
            // Only now: an address at which nobody answers is not worth remembering.
            self.membership.moved(&self.dir, &self.manager)?;
        }
        Ok(is_ready)
    }

    /// Who ends it.
    pub fn ending(&self) -> NodeEnding {
        self.node.ending()
    }

    /// Where clients reach it.
    pub fn address(&self) -> &str {
        self.node.address()
    }

    /// Its number.
    pub fn number(&self) -> u64 {
        self.membership.node
    }

    /// Where it tells how it is.
    pub fn status(&self) -> Option<&str> {
        self.status.as_ref().map(StatusServer::address)
    }

    /// Tells the manager, takes nothing in any more, makes everything durable, and ends.
    pub fn close(self) -> Result<()> {
        drop((self.rebuilder, self.status));
        self.node.close();
        self.owned.close()
    }
}

/// [`Kind::Forbidden`] if a key does not allow to rebuild. A manager that is away is asked later.
fn may_rebuild(reach: Reach) -> Result<()> {
    let asked = Question::Degraded(AskDegraded { file: FileId(0), most: 1, left: true });
    match reach.ask(|manager| async move { manager.ask(asked).await.map(drop) }) {
        Err(error) if error.kind == Kind::Forbidden => {
            Err(error.of("the key that is to allow rebuilding does not: show root's"))
        }
        _ => Ok(()),
    }
}

/// As which node of which cluster a key allows to serve, and the key for that: with root's, as a new one.
async fn take_in(
    manager: forebay_control::ControlClient,
    key: AccessKey,
    number: u64,
) -> Result<(u64, u128, AccessKey)> {
    let map = admission::map(&manager).await?;
    if let Some(node) = admission::node_of(&manager, &map, &key).await? {
        return Ok((node, map.cluster, key));
    }
    match admission::admit(&manager, number).await {
        Ok(own) => Ok((number, map.cluster, own)),
        Err(error) if error.kind == Kind::Forbidden => Err(Error::forbidden(format!(
            "the key that was shown is neither root's nor one for a node of this cluster: have root run `forebay node add \
             {number} --key FILE`, and show that file"
        ))),
        Err(error) => Err(error),
    }
}
