//! The client of a server, which moves what is to lie elsewhere.

use super::*;
use forebay_client::files::keep::Kept;
use forebay_model::{Rate, Result};

/// A client that moves what is to lie elsewhere; how much it moved.
pub(super) struct Keeper {
    pub(super) machine: ClientMachine,
    pub(super) moved: Rc<Cell<u32>>,
}

impl Keeper {
    pub(super) fn new(cluster: &Cluster, name: &str, moved: &Rc<Cell<u32>>) -> Keeper {
        let machine = cluster.client_machine(name);
        let (moving, counted) = (machine.files.clone(), moved.clone());
        let told = move |_, kept: Result<Kept>| match kept {
            Ok(Kept::Moved(one)) => counted.set(counted.get() + one.components),
            other => println!("{other:?}"),
        };
        machine
            .host
            .env()
            .spawner
            .detach(async move { moving.keep_moving(Duration::from_secs(3), Rate(0), told).await });
        Keeper { machine, moved: moved.clone() }
    }
}

/// Nothing is put on this target any more, and on all others.
pub(super) fn drain(cluster: &Cluster, by: &ClientMachine, drained: usize) {
    for place in cluster.places().filter(|place| *place != drained) {
        say(cluster, by, place, TargetState::Up);
    }
    say(cluster, by, drained, TargetState::Draining);
}

/// Waits until nothing is left on a target that drains.
pub(super) fn wait_until_empty(cluster: &Cluster, by: &ClientMachine, drained: usize) {
    let world = cluster.world();
    let end = world.now() + Duration::from_secs(900);
    while target_of(cluster, by, drained).left != Some(0) {
        assert!(world.now() < end, "{:?}", target_of(cluster, by, drained));
        world.run_for(Duration::from_secs(1));
    }
}
