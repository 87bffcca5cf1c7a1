//! Parts of a ring whose targets are lost: who records has each made on another target and records there from then on.
//!
//! What the lost one had is not made anew there: it is made of the other parts whenever somebody asks for it, until these have
//! run over it. When the new part has come round as well, it has all that they have, and the manager is told so.

use super::way::Way;
use super::{checked, moved, reply};
use forebay_env::together::all;
use forebay_model::ring::{RingSpec, RingStatus, Spread};
use forebay_model::{Bytes, Error, Kind, Result};
use forebay_wire::command::Reply;
use forebay_wire::control::Change;
use forebay_wire::control::files::{ComponentState, CreateRing, MOST_REFUSALS, Rebuilt};
use forebay_wire::control::names::Place;
use forebay_wire::ring::RingAsk;
use std::time::Duration;

/// How often is looked whether a part has come round, or is to leave its target.
const LOOK: Duration = Duration::from_secs(20);

/// Makes the part of a ring to which this way leads.
pub(super) async fn make(way: &Way, part: RingSpec) -> Result<()> {
    match reply(way, RingAsk::Create(part)).await {
        Ok(Reply::Ring(_)) => Ok(()),
        Ok(other) => Err(crate::cluster::unexpected(&other)),
        // It was asked twice: nobody else makes one of this number.
        Err(error) if error.kind == Kind::Exists => Ok(()),
        Err(error) => Err(error),
    }
}

/// The same for a part that was on another target, whose segments may not fit the groups of this one: then it has its own.
pub(super) async fn make_as_it_fits(way: &Way, part: RingSpec) -> Result<()> {
    match make(way, part.clone()).await {
        Err(error) if error.kind == Kind::Usage => make(way, RingSpec { segment: Bytes::ZERO, ..part }).await,
        made => made,
    }
}

/// Has a part made on another target, if the one on which it lay is lost: on the first that can promise what it is to promise.
pub(super) async fn find_place(way: &Way, spec: &RingSpec, spread: Spread) -> Result<()> {
    way.renew().await?;
    // What it was rounded up to on its targets is not charged.
    let spec = RingSpec { capacity: way.charged(), ..spec.clone() };
    let mut refused_by = Vec::new();
    loop {
        if way.state() == ComponentState::Missed || !refused_by.is_empty() {
            way.change(Change::CreateRing(CreateRing {
                place: Place::of(way.file()),
                mode: 0,
                capacity: spec.capacity,
                refused_by: refused_by.clone(),
                targets: spread.targets,
                parity: spread.parity,
                again: true,
                leaving: None,
            }))
            .await?;
        }
        if way.state() != ComponentState::Filling {
            return Ok(());
        }
        match make_as_it_fits(way, spread.part(&spec, way.component())).await {
            Err(Error { kind: Kind::Refused | Kind::Full | Kind::Usage, .. }) if refused_by.len() < MOST_REFUSALS => {
                refused_by.push(way.target());
            }
            made => return made,
        }
    }
}

/// Looks from time to time whether parts that lie elsewhere have come round, and has others made elsewhere that are to leave their
/// targets. It does not end by itself.
pub(super) async fn watch(ways: Vec<Way>, spread: Spread) {
    loop {
        ways[0].nodes().env().clock.sleep(LOOK).await;
        // What cannot be done now is done the next time.
        drop(ways[0].renew_after(LOOK / 2).await);
        for way in &ways {
            if way.state() == ComponentState::Filling || way.former().is_some() {
                drop(look(way, &ways).await);
            } else if way.is_to_leave() {
                drop(moved::leave(way, spread).await);
            }
        }
    }
}

async fn look(way: &Way, ways: &[Way]) -> Result<()> {
    let (file, version) = way.version();
    let formers: Vec<Way> = ways.iter().filter_map(Way::former).collect();
    // Of what is lost where it lay nothing is held.
    let asked = ways.iter().chain(formers.iter().filter(|former| former.state() != ComponentState::Missed));
    let statuses = all(asked.map(own_status)).await.into_iter().collect::<Result<Vec<_>>>()?;
    // What is pinned is there for longer than all that came with it.
    let is_pinned = statuses.iter().any(|status| !status.pins.is_empty());
    if !statuses[way.component() as usize].has_come_round() || is_pinned {
        return Ok(());
    }
    way.change(Change::Rebuilt(Rebuilt { file, component: way.component(), version })).await?;
    way.renew().await
}

/// What one part says of itself, wherever it has something.
pub(super) async fn status(way: &Way) -> Result<RingStatus> {
    loop {
        let now = own_status(way).await?;
        let Some(former) = way.former() else { return Ok(now) };
        match own_status(&former).await {
            Err(_) if way.has_left(&former) => {}
            before => return moved::both(way, before, now),
        }
    }
}

/// What one part says of itself in the one place to which this way leads.
pub(super) async fn own_status(way: &Way) -> Result<RingStatus> {
    match reply(way, RingAsk::Status).await? {
        Reply::Rings(mut rings) if rings.len() == 1 => {
            let mut status = rings.remove(0);
            status.spec.name = way.path().to_string();
            checked::status(way.target(), status)
        }
        other => Err(crate::cluster::unexpected(&other)),
    }
}
