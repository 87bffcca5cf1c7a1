//! Several nodes and their manager in one process: directories with a target or more each, every node on threads of its own,
//! and all of them on the network of this machine.

use crate::access::unasked;
use crate::copies::OnHosts;
use crate::local::{LocalControl, LocalReports};
use crate::manager::{ManagerHost, Metadata};
use crate::news::{News, Teller};
use crate::node::{NodeHost, NodeOptions};
use crate::tls::{TlsFiles, trusting};
use forebay_client::files::Files;
use forebay_client::files::blocking::FilesClient;
use forebay_client::nodes::{Nodes, PATIENCE};
use forebay_embedded::Owned;
use forebay_env::real;
use forebay_manager::{Principal, Settings};
use forebay_model::{Bytes, Error, Result};
use forebay_node::network::{Bounds, Unwelcome};
use forebay_wire::control::cluster::AddNode;
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Call, Change, Question, Reply};
use std::rc::Rc;

/// Nodes and their manager.
pub struct Rack {
    manager: ManagerHost,
    tls: Option<TlsFiles>,
    nodes: Vec<(NodeHost, Owned)>,
}

/// How the nodes of a rack listen.
pub struct Listening<'a> {
    /// Each of them: an address and a port, 0 for any that is free.
    pub data: &'a str,
    /// Where clients reach them, if not there.
    pub known_as: Option<&'a str>,
    /// What they show to those who connect, if anything.
    pub tls: Option<&'a TlsFiles>,
    /// What each takes on.
    pub bounds: Bounds,
    /// Called when something came to one of them that was malformed, once a minute at most for each.
    pub warned: fn(Unwelcome),
    /// Called when something changed between one of them and the manager, or between that and its metadata.
    pub told: fn(News),
}

impl Rack {
    /// Serves the targets of directories, a node for each; the manager keeps what it knows in `metadata`, and copies on
    /// them and on those of nodes that join.
    pub fn over(
        owned: Vec<Owned>,
        metadata: Metadata<'_>,
        policy: Policy,
        settings: Settings,
        listening: &Listening<'_>,
    ) -> Result<Rack> {
        let tls = trusting(listening.tls.map(TlsFiles::client).as_ref())?;
        let hosts = OnHosts::new(owned.iter().map(Owned::host));
        let manager = ManagerHost::start(metadata, policy, settings, hosts, tls, listening.told)?;
        let by = manager.root();
        check_numbers(&manager, owned.len())?;
        let mut nodes = Vec::new();
        for (owned, node) in owned.into_iter().zip(1u64..) {
            let change = Change::AddNode(AddNode { node, user: by.user });
            manager.desk()?.change_blocking(by.clone(), Call { sequence: node, change })?;
            let options = NodeOptions {
                host: owned.host(),
                listen: listening.data,
                known_as: listening.known_as.map(str::to_string),
                node,
                cluster: manager.cluster(),
                bounds: listening.bounds,
                warned: listening.warned,
                tls: listening.tls,
                is_apart: false,
            };
            let (desk, by, teller) = (manager.desk()?, by.clone(), Teller::new(listening.told));
            let host = NodeHost::start(
                options,
                move || Rc::new(LocalReports::new(desk, by)),
                move |heard| teller.tell(heard),
            )?;
            host.ready()?;
            nodes.push((host, owned));
        }
        Ok(Rack { manager, tls: listening.tls.cloned(), nodes })
    }

    /// The manager.
    pub fn manager(&self) -> &ManagerHost {
        &self.manager
    }

    /// The nodes.
    pub fn nodes(&self) -> impl Iterator<Item = &NodeHost> {
        self.nodes.iter().map(|(node, _)| node)
    }

    /// The files, for one more client of root, to which `credit` bytes come at once.
    pub fn files(&self, credit: Bytes) -> Result<FilesClient> {
        self.files_as(self.manager.root(), credit)
    }

    /// The same for a client of this number, which no other has.
    pub(crate) fn files_as(&self, by: Principal, credit: Bytes) -> Result<FilesClient> {
        let desk = self.manager.desk()?;
        let tls = trusting(self.tls.as_ref().map(TlsFiles::client).as_ref())?;
        FilesClient::start_with(tls, move |env| async move {
            let nodes = Nodes::new(env, credit.0 as usize, PATIENCE);
            Ok(Files::new(nodes, Rc::new(LocalControl::new(desk, by))))
        })
    }

    /// Takes nothing in any more, makes everything durable, and ends.
    pub fn close(self) -> Result<()> {
        self.nodes.iter().for_each(|(node, _)| node.close());
        let mut closed = self.manager.close();
        for (_, owned) in &self.nodes {
            closed = closed.and(owned.close());
        }
        closed
    }
}

/// Whether so many nodes from 1 on are nobody else's. One that joined from elsewhere may report as long as its number is that of its own
/// user: whoever takes it shuts that one out, with all that lies on its targets.
fn check_numbers(manager: &ManagerHost, nodes: usize) -> Result<()> {
    let (desk, by) = (manager.desk()?, manager.root());
    let root = by.user;
    let map = match real::run_network(move |_| async move { desk.ask(by, Question::Map).await })?? {
        Reply::Map(map) => map,
        other => return Err(unasked(&other)),
    };
    let is_elsewhere = |node: u64| map.nodes.iter().any(|known| known.node == node && known.user != root);
    match (1..).take(nodes).find(|node| is_elsewhere(*node)) {
        None => Ok(()),
        Some(node) => Err(Error::usage(format!(
            "node {node} is one that joined this cluster from elsewhere, and {nodes} nodes that are served here would be 1 to {nodes}: serve \
             {} here at most, move the directories of the others away, and have each join with `forebay serve DIR --join`, which gives it \
             another number (no node was changed)",
            node - 1
        ))),
    }
}
