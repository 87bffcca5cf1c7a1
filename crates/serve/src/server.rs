//! Everything of one directory: its targets, for the processes of this machine and for the network, and a manager.

use crate::local::LocalControl;
use crate::manager::ManagerHost;
use crate::node::NodeHost;
use forebay_client::files::Files;
use forebay_client::files::blocking::FilesClient;
use forebay_client::nodes::{Nodes, PATIENCE};
use forebay_embedded::{Owned, own};
use forebay_model::layout::{Raid, UNIT};
use forebay_model::{Bytes, Result};
use forebay_node::network::Bounds;
use forebay_wire::control::cluster::AddNode;
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Call, Change};
use std::path::Path;
use std::rc::Rc;

/// What a client lets come at once.
pub const CREDIT: Bytes = Bytes::mib(1);
/// The node of a directory that has its manager, too.
const NODE: u64 = 1;

/// How a directory is served.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where clients reach the node: an address and a port, 0 for any that is free.
    pub data: String,
    /// What the node takes on.
    pub bounds: Bounds,
}

/// A directory at work.
pub struct Server {
    owned: Owned,
    manager: ManagerHost,
    node: NodeHost,
}

impl Server {
    /// Serves what is in `dir`, which is a cluster; its manager is made if there is none.
    pub fn start(dir: &Path, options: &ServerOptions) -> Result<Server> {
        let owned = own(dir)?;
        let targets = owned.host().targets().len() as u32;
        // Parity takes three targets; what cannot be kept is not promised.
        let raid = if targets >= 3 { Raid::Five } else { Raid::Zero };
        let policy = Policy { raid, unit: UNIT, targets: 10 };
        let manager = ManagerHost::start(&dir.join("manager.redb"), policy)?;
        let desk = manager.desk()?;
        let by = manager.root();
        let add = Change::AddNode(AddNode { node: NODE, user: by.user });
        desk.change_blocking(by.clone(), Call { sequence: 1, change: add })?;
        let node = NodeHost::start(owned.host(), &options.data, (NODE, manager.cluster()), desk, by, options.bounds)?;
        Ok(Server { owned, manager, node })
    }

    /// Where clients reach the node.
    pub fn address(&self) -> &str {
        self.node.address()
    }

    /// The node.
    pub fn node(&self) -> &NodeHost {
        &self.node
    }

    /// The manager.
    pub fn manager(&self) -> &ManagerHost {
        &self.manager
    }

    /// The files, as root of this process.
    pub fn files(&self) -> Result<FilesClient> {
        let (desk, by) = (self.manager.desk()?, self.manager.root());
        FilesClient::start(move |env| async move {
            let nodes = Nodes::new(env, CREDIT.0 as usize, PATIENCE);
            Ok(Files::new(nodes, Rc::new(LocalControl::new(desk, by))))
        })
    }

    /// Takes nothing in any more, makes everything durable, and ends.
    pub fn close(self) -> Result<()> {
        self.node.close();
        let closed = self.manager.close();
        self.owned.close().and(closed)
    }
}

#[cfg(test)]
mod tests;
