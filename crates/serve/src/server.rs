//! Everything of a directory, or of several: their targets, for the processes of this machine and for the network, a node for
//! each directory, and a manager.

use crate::grpc::DeskHandler;
use crate::join::membership::{self, Membership};
use crate::key;
use crate::limits::Taken;
use crate::manager::{ManagerHost, Metadata};
use crate::news::News;
use crate::node::NodeHost;
use crate::rack::{Listening, Rack};
use crate::status::{Sources, StatusServer};
use crate::survey::Manager;
use crate::tls::{TlsFiles, check_here, host_of, reached_at};
use crate::upkeep::{Done, UpkeepOptions};
use forebay_client::files::blocking::FilesClient;
use forebay_client::files::keep::{Keeping, Kept};
use forebay_control::{ControlServer, Limits};
use forebay_embedded::own_within;
use forebay_env::real::file;
use forebay_manager::{Principal, Settings};
use forebay_model::layout::{Raid, UNIT};
use forebay_model::{Bytes, Error, Result};
use forebay_node::network::Unwelcome;
use forebay_wire::control::access::IssueKey;
use forebay_wire::control::files::{ClientGone, Unscrubbed};
use forebay_wire::control::names::FileId;
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Call, Change, Reply};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// What a client lets come at once: what the port of a gigabit switch takes, and enough for faster ones.
pub const CREDIT: Bytes = Bytes::kib(192);
/// The same of what rebuilds, moves and scrubs: to the port of a server with nodes comes what is written to their targets, too.
pub const UPKEEP_CREDIT: Bytes = Bytes::kib(64);
/// The file with all that the manager knows, in its directory.
pub const METADATA: &str = "manager.redb";
/// The file with root's key, in the directory.
pub(crate) const ROOT_KEY: &str = "root.key";

/// The file with the number of the client that looks after files, in the directory.
const UPKEEP_CLIENT: &str = "upkeep.client";

/// How often it is looked for files that were left half written, or lack something.
pub(crate) const MEND_EVERY: Duration = Duration::from_secs(5);

/// How a directory is served.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where clients reach the node: an address and a port, 0 for any that is free.
    pub data: String,
    /// Where the manager listens, in the same way.
    pub control: String,
    /// With what manager and nodes show who they are; without, they listen on this machine alone.
    pub tls: Option<TlsFiles>,
    /// Where clients reach the nodes, if not at `data`: a host, perhaps with a port.
    pub address: Option<String>,
    /// Where it tells over HTTP how it is, if it does.
    pub status: Option<String>,
    /// What it takes on.
    pub taken: Taken,
    /// How files are kept in a cluster that is made; as its targets allow, if it is not said.
    pub raid: Option<Raid>,
    /// How it looks after files.
    pub upkeep: UpkeepOptions,
    /// Called for each file for which something was done by itself, and once when that cannot be for now.
    pub kept: fn(FileId, Result<Kept>),
    /// Called when something came to a node that was malformed, once a minute at most for each.
    pub warned: fn(Unwelcome),
    /// Called when something changed between a node and the manager, or between that and its metadata.
    pub told: fn(News),
}

/// Directories at work.
pub struct Server {
    rack: Rack,
    control: ControlServer,
    manager_at: String,
    upkeep: FilesClient,
    status: Option<StatusServer>,
    key: PathBuf,
}

impl Server {
    /// Serves what is in `dirs`, which are clusters, a node for each; their manager is in `dir`, and made if there is none.
    /// Without any, it is a manager for nodes that join.
    pub fn start(dir: &Path, dirs: &[PathBuf], options: &ServerOptions) -> Result<Server> {
        check_here(&options.data, options.tls.is_some())?;
        if dirs.len() > 1 && !options.data.ends_with(":0") {
            return Err(Error::usage(format!(
                "{} nodes cannot all listen at {}; let each take any port that is free: 127.0.0.1:0",
                dirs.len(),
                options.data
            )));
        }
        for dir in dirs {
            if let Some((Membership { node, manager, .. }, _)) = membership::read(dir)? {
                return Err(Error::usage(format!(
                    "{} is of node {node}, whose manager is elsewhere: serve it with --join forebay://{manager}",
                    dir.display()
                )));
            }
        }
        let taken = options.taken;
        let owned = dirs.iter().map(|dir| own_within(dir, taken.within)).collect::<Result<Vec<_>>>()?;
        let targets: usize = owned.iter().map(|owned| owned.host().targets().len()).sum();
        let listening = Listening {
            data: &options.data,
            known_as: options.address.as_deref(),
            tls: options.tls.as_ref(),
            bounds: taken.bounds,
            warned: options.warned,
            told: options.told,
        };
        let settings = Settings { balance_above: options.upkeep.balance_above, ..Settings::default() };
        let metadata = Metadata { path: &dir.join(METADATA), cache: taken.metadata };
        let rack = Rack::over(owned, metadata, policy(options.raid, targets), settings, &listening)?;
        let (desk, by) = (rack.manager().desk()?, rack.manager().root());
        let key = dir.join(ROOT_KEY);
        if file::exists(&key) {
            // What a crash left of it lets nobody in.
            key::read(&key).map_err(|error| {
                Error::damaged(format!("{}; remove it and serve again, which makes another", error.message))
            })?;
        } else {
            let issued = match rack.manager().issued() {
                Some(issued) => issued.clone(),
                None => {
                    let issue = Change::IssueKey(IssueKey { user: by.user, label: format!("for {ROOT_KEY}") });
                    match desk.change_blocking(by.clone(), Call { sequence: 1, change: issue })? {
                        Reply::IssuedKey(issued) => issued,
                        _ => return Err(Error::damaged("the manager issued something else than a key")),
                    }
                }
            };
            key::create(&key, &key::of_issued(&issued)?)?;
        }
        let limits = Limits { connections: taken.control, ..Limits::default() };
        let serving = forebay_control::ServerOptions { tls: options.tls.as_ref().map(TlsFiles::control), limits };
        let nodes = (1..).zip(rack.nodes().map(NodeHost::teller)).collect();
        let done = Arc::new(Done::default());
        let sources = Sources { nodes, manager: Manager::Here(desk.clone(), by), upkeep: Some(done.clone()) };
        let status = options.status.as_ref().map(|listen| StatusServer::start(listen, sources)).transpose()?;
        let control = ControlServer::start(&options.control, DeskHandler(desk), serving)?;
        let host = options.address.as_deref().map(host_of);
        let manager_at = reached_at(&control.address().to_string(), host)?;
        let upkeep = rack.files_as(upkeep_client(dir, rack.manager())?, UPKEEP_CREDIT)?;
        let told = options.kept;
        let UpkeepOptions { scrubbing, balance_rate, .. } = options.upkeep;
        upkeep.keep(Keeping { pause: MEND_EVERY, scrubbing, even_rate: balance_rate }, move |file, kept| {
            done.note(&kept);
            told(file, kept);
        });
        Ok(Server { rack, control, manager_at, upkeep, status, key })
    }

    /// Where clients reach the nodes.
    pub fn addresses(&self) -> Vec<&str> {
        self.rack.nodes().map(NodeHost::address).collect()
    }

    /// Where the manager is reached.
    pub fn control(&self) -> String {
        self.manager_at.clone()
    }

    /// The file with root's key.
    pub fn key(&self) -> &Path {
        &self.key
    }

    /// Where it tells how it is.
    pub fn status(&self) -> Option<&str> {
        self.status.as_ref().map(StatusServer::address)
    }

    /// The files, as root of this process.
    pub fn files(&self) -> Result<FilesClient> {
        self.rack.files(CREDIT)
    }

    /// Calls `then` on another thread once the manager has ended, by itself too: then [`Server::close`] says why.
    pub fn when_manager_is_over(&self, then: impl FnOnce() + Send + 'static) -> Result<()> {
        self.rack.manager().when_over(then)
    }

    /// Takes nothing in any more, makes everything durable, and ends.
    pub fn close(self) -> Result<()> {
        drop((self.control, self.upkeep, self.status));
        self.rack.close()
    }
}

/// Who looks after files from now on. What the one before it has open, whose process was killed perhaps, is in nobody's use any more.
fn upkeep_client(dir: &Path, manager: &ManagerHost) -> Result<Principal> {
    let path = dir.join(UPKEEP_CLIENT);
    let before = file::read_text(&path).ok().and_then(|text| u64::from_str_radix(text.trim_end(), 16).ok());
    if let Some(client) = before {
        let (desk, by) = (manager.desk()?, manager.root());
        for sequence in 1.. {
            let change = Change::ClientGone(ClientGone { client });
            match desk.change_blocking(by.clone(), Call { sequence, change }) {
                Ok(Reply::Unscrubbed(Unscrubbed { more: true, .. })) => {}
                // If that cannot be said, it is known after some minutes.
                _ => break,
            }
        }
    }
    let by = manager.root();
    // Before it has anything open. Where there is no room for it, what it had open after a kill is in use for some minutes.
    drop(file::replace(&path, format!("{:016x}\n", by.client).as_bytes()));
    Ok(by)
}

/// How files are kept in a cluster that is made with so many targets. Parity takes three, here or on nodes that will join; what
/// cannot be kept is not promised.
pub(crate) fn policy(raid: Option<Raid>, targets: usize) -> Policy {
    let raid = raid.unwrap_or(if targets >= 3 || targets == 0 { Raid::Five } else { Raid::Zero });
    Policy { raid, unit: UNIT, targets: 10 }
}

#[cfg(test)]
mod tests;
