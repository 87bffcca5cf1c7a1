//! Targets of a cluster, as people look at them and say what is to be thought of them.

use crate::access::done;
use forebay_control::ControlClient;
use forebay_model::{Error, Result, TargetId};
use forebay_wire::control::Change;
use forebay_wire::control::cluster::{Map, SetTarget, Target, TargetState};

/// What a state is called.
pub fn state(state: TargetState) -> &'static str {
    match state {
        TargetState::Up => "up",
        TargetState::Draining => "draining",
        TargetState::Failed => "failed",
        TargetState::Gone => "gone",
    }
}

/// The target whose id begins with this, if there is one.
pub fn meant(map: &Map, id: &str) -> Result<Target> {
    let found: Vec<&Target> = map.targets.iter().filter(|it| it.target.to_string().starts_with(id)).collect();
    match found[..] {
        [one] => Ok(one.clone()),
        [] => Err(Error::missing(format!("there is no target {id}; `forebay target list` lists them"))),
        _ => Err(Error::usage(format!("{} targets have ids that begin with '{id}'; give more of it", found.len()))),
    }
}

/// Says what is to be thought of a target. It takes root's key.
pub async fn set(manager: &ControlClient, target: TargetId, state: TargetState) -> Result<()> {
    done(manager.change(Change::SetTarget(SetTarget { target, state })).await?)
}
