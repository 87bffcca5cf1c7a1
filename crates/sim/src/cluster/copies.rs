//! How a manager reaches the targets on which copies of its metadata are: all of them are on other machines.

use forebay_client::nodes::Nodes;
use forebay_env::Spawner;
use forebay_manager::copies::{Site, Ways};
use forebay_model::{Error, Result, TargetId};
use forebay_wire::object::{Ask, ObjectAnswer, ObjectRequest};
use std::sync::Arc;

/// Over the network.
#[derive(Clone)]
pub(super) struct OverNetwork(pub(super) Nodes);

impl Ways for OverNetwork {
    fn here(&self) -> Vec<TargetId> {
        Vec::new()
    }

    async fn ask(&self, site: &Site, ask: Ask, payload: Arc<Vec<u8>>) -> Result<ObjectAnswer> {
        let target = site.target;
        let way = site.way.as_ref().ok_or_else(|| Error::missing(format!("there is no way to target {target}")))?;
        let request = ObjectRequest::new(target, ask);
        self.0.ask_of_object(&way.address, &request, &payload, |id, rights| way.shown(id.object, rights)).await
    }

    fn spawner(&self) -> &Spawner {
        &self.0.env().spawner
    }
}
