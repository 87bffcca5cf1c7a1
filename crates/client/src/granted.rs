//! What the manager granted, as nodes are asked with it: where targets are, what allows to use a component there, and the same
//! again before its time is over.

use crate::control::{Control, strange};
use forebay_env::Clock;
use forebay_model::{Error, Moment, Result, TargetId, Timestamp};
use forebay_wire::capability::{LENGTH, Secret};
use forebay_wire::control::cluster::Map;
use forebay_wire::control::files::{Component, Grant, Renew, Renewed};
use forebay_wire::control::{Question, Reply};
use forebay_wire::object::ObjectReply;
use forebay_wire::sink::Shown;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::time::Duration;

/// Capabilities are renewed when so much of their time is left.
const RENEW_BEFORE: Duration = Duration::from_secs(60);
/// And not again before so long, unless something is refused.
const RENEW_PAUSE: Duration = Duration::from_secs(10);

/// Whether it is time to renew what counts until then.
pub(crate) fn is_due(until: Timestamp, now: Timestamp) -> bool {
    until.0 - now.0 < RENEW_BEFORE.as_nanos() as i64
}

/// Who renews in time: one at a time.
#[derive(Default)]
pub(crate) struct Renewing {
    is_under_way: Cell<bool>,
    began: Cell<Option<Moment>>,
}

impl Renewing {
    /// Whether what counts until then is to be renewed now; [`Renewing::end`] says that it was. Where a clock is so far ahead that it
    /// always seems to be time, that is not done each time that something is asked.
    pub(crate) fn begin(&self, until: Timestamp, clock: &dyn Clock) -> bool {
        let now = clock.now();
        let is_early = self.began.get().is_some_and(|began| now.since(began) < RENEW_PAUSE);
        if self.is_under_way.get() || is_early || !is_due(until, clock.wall()) {
            return false;
        }
        self.is_under_way.set(true);
        self.began.set(Some(now));
        true
    }

    /// It was, or could not be.
    pub(crate) fn end(&self) {
        self.is_under_way.set(false);
    }
}

/// What allows to use a component, as it is shown to its node.
pub(crate) fn shown(component: &Component) -> Result<Shown> {
    let malformed = || Error::damaged("the manager sent a capability of another length: use the same release");
    let capability: [u8; LENGTH] = component.capability[..].try_into().map_err(|_| malformed())?;
    let secret: [u8; 32] = component.secret.0[..].try_into().map_err(|_| malformed())?;
    Ok(Shown { capability, secret: Secret::from_bytes(secret) })
}

/// The nodes and targets of the cluster.
pub(crate) async fn map(control: &dyn Control) -> Result<Map> {
    match control.ask(Question::Map).await? {
        Reply::Map(map) => Ok(map),
        other => Err(strange(&other)),
    }
}

/// Where targets are that their nodes reported.
pub(crate) fn addresses(Map { nodes, targets, .. }: Map) -> BTreeMap<TargetId, String> {
    let nodes = nodes.into_iter().filter(|node| !node.address.is_empty());
    let nodes: BTreeMap<u64, String> = nodes.map(|node| (node.node, node.address)).collect();
    let served = targets.into_iter().filter(|one| one.served);
    served.filter_map(|one| Some((one.target, nodes.get(&one.node)?.clone()))).collect()
}

/// Why a target is not among [`addresses`].
pub(crate) fn nobody_knows(target: TargetId) -> Error {
    Error::disconnected(format!("nobody knows where target {target} is; no node reported it"))
}

/// The same again, for as long again. The outer error: that the manager could not be asked; the inner one: that it refused.
pub(crate) async fn renewed(control: &dyn Control, renewed: Renewed) -> Result<Result<Grant>> {
    let file = renewed.file;
    let granted = match control.ask(Question::Renew(Renew { files: vec![renewed] })).await? {
        Reply::Grants(grants) => grants.grants.into_iter().next(),
        other => return Err(strange(&other)),
    };
    let granted = granted.ok_or_else(|| Error::damaged("the manager renewed nothing of what was asked"))?;
    let refused = || Error::stale(format!("the manager does not renew {file}; open it again"));
    Ok(granted.grant.ok_or_else(|| granted.error.unwrap_or_else(refused)))
}

/// An answer of a node of another shape than its question has.
pub(crate) fn strange_answer(reply: &ObjectReply) -> Error {
    Error::damaged(format!("a node answered what it was not asked ({reply:?}): use the same release on both sides"))
}
