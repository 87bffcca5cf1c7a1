//! What is done with a file in doubt before anybody uses it again: what was given out for it is revoked, so that nobody who is
//! gone writes any more; then what was begun is ended, and what was not acknowledged is cut off.

use super::hand::options;
use crate::cluster::ClientMachine;
use forebay_client::control::Control;
use forebay_client::file::recover;
use forebay_client::file::remote::RemoteComponents;
use forebay_client::files::Files;
use forebay_model::{Bytes, Error, Result};
use forebay_wire::control::files::{Close, OpenToWrite, Revoke};
use forebay_wire::control::names::{FileId, Place};
use forebay_wire::control::{Change, Reply};
use std::rc::Rc;

/// Recovers a file that nobody has open.
pub(in crate::cluster) async fn recovered(machine: &ClientMachine, file: FileId) -> Result<()> {
    let control = &machine.control;
    control.change(Change::Revoke(Revoke { file })).await?;
    let opened = control.change(Change::OpenToWrite(OpenToWrite { place: Place::of(file), alone: true })).await?;
    let Reply::Grant(grant) = opened else { return Err(Error::damaged(format!("{opened:?}"))) };
    let striping = grant.striping;
    let components = RemoteComponents::open(machine.nodes.clone(), control.clone(), grant).await?;
    let env = machine.host.env();
    let found = recover(Rc::new(components), striping, env.clock.clone(), env.spawner.clone()).await;
    let close = Close { file, size: found.as_ref().ok().map(|found| found.size), modified: None };
    let closed = control.change(Change::Close(close)).await;
    found.and(closed).map(drop)
}

/// All of a file, as somebody reads it who knows nothing of it.
pub(in crate::cluster) async fn read(files: &Files, path: &str) -> Result<Vec<u8>> {
    let file = files.open(path, options(true)).await?;
    let bytes = file.read_at(Bytes::ZERO, Bytes::mib(16)).await?;
    file.close().await?;
    Ok(bytes)
}
