//! How targets are reached on which copies of what the manager knows are: those of its process, and over the network those of others.

use forebay_client::nodes::Nodes;
use forebay_env::Spawner;
use forebay_manager::copies::{Site, Ways};
use forebay_manager::recover::look::Targets;
use forebay_model::{Error, Result, TargetId};
use forebay_node::Host;
use forebay_node::objects::ObjectLink;
use forebay_wire::object::{Ask, ObjectAnswer, ObjectRequest};
use std::rc::Rc;
use std::sync::Arc;

/// Ways to the targets of hosts, which have to outlive whoever writes copies.
pub struct OnHosts(Vec<(ObjectLink, Vec<TargetId>)>);

/// The same, and ways to those of other processes; for tasks of one thread.
#[derive(Clone)]
pub(crate) struct HereAndThere {
    hosts: Rc<OnHosts>,
    nodes: Nodes,
}

impl OnHosts {
    /// To these.
    pub fn new<'a>(hosts: impl IntoIterator<Item = &'a Host>) -> OnHosts {
        OnHosts(hosts.into_iter().map(|host| (host.objects(), host.targets())).collect())
    }

    async fn ask_with(&self, target: TargetId, ask: Ask, payload: Arc<Vec<u8>>) -> Result<ObjectAnswer> {
        let found = self.0.iter().find(|(_, targets)| targets.contains(&target));
        let (link, _) = found.ok_or_else(|| Error::missing(format!("there is no target {target} in this process")))?;
        link.ask(ObjectRequest::new(target, ask), payload)?.answer().await
    }
}

impl Targets for OnHosts {
    fn targets(&self) -> Vec<TargetId> {
        self.0.iter().flat_map(|(_, targets)| targets.iter().copied()).collect()
    }

    async fn ask(&self, target: TargetId, ask: Ask) -> Result<ObjectAnswer> {
        self.ask_with(target, ask, Arc::default()).await
    }
}

impl HereAndThere {
    /// To those of these hosts, and of these nodes.
    pub(crate) fn new(hosts: Rc<OnHosts>, nodes: Nodes) -> HereAndThere {
        HereAndThere { hosts, nodes }
    }
}

impl Ways for HereAndThere {
    fn here(&self) -> Vec<TargetId> {
        self.hosts.targets()
    }

    async fn ask(&self, site: &Site, ask: Ask, payload: Arc<Vec<u8>>) -> Result<ObjectAnswer> {
        let Some(way) = &site.way else { return self.hosts.ask_with(site.target, ask, payload).await };
        let request = ObjectRequest::new(site.target, ask);
        // A record that is there twice says the same.
        self.nodes.ask_of_object(&way.address, &request, &payload, |id, rights| way.shown(id.object, rights)).await
    }

    fn spawner(&self) -> &Spawner {
        &self.nodes.env().spawner
    }
}
