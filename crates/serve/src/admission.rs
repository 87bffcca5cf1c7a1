//! Who may be a node: root says so, and gives each node a user of its own, whose key allows to report as that node and to do
//! little else.

use crate::access::{self, done, unasked};
use forebay_control::{AccessKey, ControlClient};
use forebay_model::{Error, Kind, Result};
use forebay_wire::control::access::{ROOT_USER, User};
use forebay_wire::control::cluster::{AddNode, Map, RemoveNode, Target, TargetState};
use forebay_wire::control::{Change, Question, Reply};

/// Nodes have numbers below this, so that each has a user.
pub const MOST_NODES: u64 = 1 << 30;
/// The user of a node has the node's number, from here on.
const USERS: u32 = 3 << 30;

/// Makes a node known, and gives it a key; what it had before counts no more. It takes root's key. [`Kind::Exists`] if there
/// is such a node, and it is up.
pub async fn admit(manager: &ControlClient, node: u64) -> Result<AccessKey> {
    let user = user_of(node)?;
    let (name, groups) = (format!("node-{node}"), vec![user]);
    let known = map(manager).await?.nodes.into_iter().find(|known| known.node == node);
    // Whoever is not root learns here that it may not.
    done(manager.change(Change::SetUser(User { user, name, groups })).await?)?;
    if let Some(known) = known.filter(|known| known.up) {
        return Err(Error::exists(format!(
            "node {node} is there already, at {}, and up; take another number, or stop it and wait for half a minute",
            known.address
        )));
    }
    for key in keys(manager, user).await? {
        access::revoke(manager, key).await?;
    }
    done(manager.change(Change::AddNode(AddNode { node, user })).await?)?;
    access::issue(manager, user, format!("node {node}")).await
}

/// Forgets a node, and that it may be one. It takes root's key.
pub async fn dismiss(manager: &ControlClient, node: u64) -> Result<()> {
    let is_on_it = |target: &Target| target.node == node && target.state != TargetState::Gone;
    let is_used = map(manager).await?.targets.iter().any(is_on_it);
    // First its keys, so that nobody has one of a node that is forgotten, however far this comes. One whose targets are not gone
    // is refused, and keeps them. Those of the manager's own process are root's.
    if let (false, Ok(user)) = (is_used, user_of(node)) {
        let keys = match keys(manager, user).await {
            Err(error) if error.kind == Kind::Missing => Vec::new(),
            keys => keys?,
        };
        for key in keys {
            access::revoke(manager, key).await?;
        }
    }
    done(manager.change(Change::RemoveNode(RemoveNode { node })).await?)
}

/// As which node a key allows to report, if as one.
pub(crate) async fn node_of(manager: &ControlClient, map: &Map, key: &AccessKey) -> Result<Option<u64>> {
    // Root's key says nothing of a node.
    for known in map.nodes.iter().filter(|known| known.user != ROOT_USER) {
        match keys(manager, known.user).await {
            Ok(keys) if keys.contains(&key.key) => return Ok(Some(known.node)),
            // What others have is not told.
            Ok(_) => {}
            Err(error) if matches!(error.kind, Kind::Forbidden | Kind::Missing) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

/// The nodes and targets of the cluster.
pub async fn map(manager: &ControlClient) -> Result<Map> {
    match manager.ask(Question::Map).await? {
        Reply::Map(map) => Ok(map),
        other => Err(unasked(&other)),
    }
}

async fn keys(manager: &ControlClient, user: u32) -> Result<Vec<u64>> {
    Ok(access::keys(manager, user).await?.into_iter().map(|key| key.key).collect())
}

fn user_of(node: u64) -> Result<u32> {
    match u32::try_from(node) {
        Ok(number) if (1..MOST_NODES).contains(&node) => Ok(USERS + number),
        _ => Err(Error::usage(format!("{node} is no number of a node; take one from 1 to {}", MOST_NODES - 1))),
    }
}
