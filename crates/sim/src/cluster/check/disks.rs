//! What targets have on their disks is whole, as whoever looks it over offline finds it after a loss of power.

use crate::cluster::Cluster;
use forebay_model::Bytes;
use forebay_target::verify::{Found, verify};

/// Takes the power of all nodes, and panics if something on a disk is damaged or cannot be so, but for those whose targets are
/// known not to tell of their objects any more.
pub(in crate::cluster) fn check(cluster: &Cluster, unserved: &[usize]) {
    (0..cluster.nodes.len()).for_each(|node| cluster.crash_node(node));
    for place in cluster.places().filter(|place| !unserved.contains(place)) {
        let mut found = look_over(cluster, place);
        // Where a sector rotted behind the last record of a log, another record might be: nobody knows, until it can be read.
        let contradictions = &found.objects.contradictions;
        let is_unsure = contradictions.iter().all(|one| one.what.contains("may hold what was acknowledged"));
        if is_unsure && !contradictions.is_empty() {
            cluster.disk(place).heal();
            found = look_over(cluster, place);
        }
        let objects = &found.objects;
        assert!(objects.damage.is_empty(), "disk {place}: {:?}", objects.damage);
        assert!(objects.contradictions.is_empty(), "disk {place}: {:?}", objects.contradictions);
        assert_eq!(found.unreadable, Bytes::ZERO, "disk {place}");
    }
}

fn look_over(cluster: &Cluster, place: usize) -> Found {
    let env = cluster.world().env(cluster.disk(place).clone());
    let found = cluster.world().run(async move { verify(env, &mut |_, _| ()).await });
    found.unwrap_or_else(|error| panic!("disk {place} cannot be looked over: {error:?}"))
}
