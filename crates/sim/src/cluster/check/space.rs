//! No space is lost: the objects on targets are those of files that exist, each where the file's layout says.

use crate::cluster::{ClientMachine, Cluster};
use forebay_client::control::Control;
use forebay_model::{Kind, ObjectId, TargetId};
use forebay_wire::control::files::OpenToRead;
use forebay_wire::control::names::Place;
use forebay_wire::control::{Question, Reply};
use forebay_wire::object::companion;
use std::collections::BTreeSet;
use std::time::Duration;

/// The volume in which all files are.
const VOLUME: u64 = 1;

/// What was moved just now is removed where it lay when nothing counts any more with which it was read there: so often is looked
/// again, and after which time.
const AGAIN: (u32, Duration) = (20, Duration::from_secs(10));

/// Panics if a target has, and keeps, an object that no file at one of these paths has; how many objects there are.
pub(in crate::cluster) fn check(cluster: &Cluster, machine: &ClientMachine, paths: &[String]) -> u64 {
    let mut tries = 0;
    loop {
        match look(cluster, machine, paths) {
            Ok(count) => return count,
            Err(left) => assert!(tries < AGAIN.0, "{left}"),
        }
        tries += 1;
        cluster.world().run_for(AGAIN.1);
    }
}

fn look(cluster: &Cluster, machine: &ClientMachine, paths: &[String]) -> Result<u64, String> {
    let mut known: BTreeSet<(TargetId, ObjectId)> = BTreeSet::new();
    for path in paths {
        let (control, place) = (machine.control.clone(), Place::path(path.as_str()));
        let opened = cluster.world().run(control.ask(Question::OpenToRead(OpenToRead { place, cached: false })));
        let Reply::Grant(grant) = opened.expect("it is there") else { panic!("no grant") };
        for component in grant.components {
            known.extend([(component.target, component.object), (component.target, companion(component.object))]);
        }
    }
    let mut count = 0;
    for place in cluster.places() {
        let (objects, target) = (cluster.objects(place).expect("all nodes are there"), cluster.target(place));
        let there = cluster.world().run(async move { objects.list(VOLUME, 1, 100_000).await });
        let there = match there {
            // A target that nothing was ever written to has no volume.
            Err(error) if error.kind == Kind::Missing => Vec::new(),
            there => there.unwrap_or_else(|error| panic!("the objects on target {target}: {error:?}")),
        };
        for found in there {
            if !known.contains(&(target, found.id)) {
                return Err(format!("{:?} on target {target} is of no file", found.id));
            }
            count += 1;
        }
    }
    Ok(count)
}
