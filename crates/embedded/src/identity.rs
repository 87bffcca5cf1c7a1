//! Which targets the devices of a cluster are, before any of them is opened.
//!
//! Invariant: nothing is written to a target that is not the cluster's own, and on one machine a target is open once,
//! whatever files and devices lead to it or are copies of it.

use crate::settings::Settings;
use forebay_env::real::claim::{self, Claim, Claimed};
use forebay_env::real::{Opened, process};
use forebay_model::{Bytes, Error, Result, TargetId};
use forebay_target::layout::{ROOT_LEN, ROOTS};
use forebay_target::superblock::Superblock;

/// The targets that this process has, by what they call themselves, until it is dropped.
pub(crate) struct Identities {
    _claims: Vec<Claim>,
}

/// Claims the targets on `devices`, which are those of `settings` in their order. A device that does not say what it is
/// passes: whoever opens it knows why.
pub(crate) fn claim(settings: &Settings, devices: &[Opened]) -> Result<Identities> {
    let found: Vec<(&str, Option<TargetId>)> =
        devices.iter().map(|device| (device.geometry().name.as_str(), identity(device))).collect();
    let mut claims = Vec::new();
    for (at, (name, id)) in found.iter().enumerate() {
        let Some(id) = id else { continue };
        if let Some(own) = settings.ids.get(at).filter(|own| *own != id) {
            return Err(Error::refused(format!(
                "{name} is target {id}, and the one of this cluster is {own}: put the right one in its place, or open \
                 the cluster that this one is of (nothing was changed)"
            )));
        }
        if let Some((other, _)) = found[..at].iter().find(|(_, earlier)| *earlier == Some(*id)) {
            return Err(Error::refused(format!(
                "{other} and {name} are both target {id}, so that one is a copy of the other or another way to it: take \
                 one of the two out of cluster.toml (nothing was changed)"
            )));
        }
        match claim::claim(&format!("forebay-target-{id}"))? {
            Claimed::Ours(claim) => claims.push(claim),
            Claimed::Others(other) => {
                let other = match other {
                    Some(own) if own == process::id() => "this process".to_string(),
                    Some(other) => format!("process {other}"),
                    None => "another process".to_string(),
                };
                return Err(Error::busy(format!(
                    "{name} is target {id}, which {other} has open at another place, so that one is a copy of the other or \
                     another way to it: close that one first (nothing was changed)"
                )));
            }
        }
    }
    Ok(Identities { _claims: claims })
}

/// What the target on a device calls itself, by the first root that is whole.
fn identity(device: &Opened) -> Option<TargetId> {
    let head = device.read_at(Bytes::ZERO, ROOT_LEN * ROOTS.len() as u64).ok()?;
    ROOTS.iter().find_map(|root| {
        let root = &head[root.0 as usize..][..ROOT_LEN.0 as usize];
        Superblock::decode(root).ok().flatten().map(|superblock| superblock.target)
    })
}
