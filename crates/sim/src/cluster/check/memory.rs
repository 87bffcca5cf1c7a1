//! Nodes at rest have nothing under way, and connections of those only who are there.

use crate::cluster::Cluster;
use forebay_model::Bytes;
use std::time::Duration;

/// How long the last answers are on their way to those who asked.
const ON_THE_WAY: Duration = Duration::from_millis(100);
/// Some that nobody waits for ask now and then: a node is at rest between them, in one of so many looks.
const LOOKS: u32 = 20;

/// Panics if a node holds memory for somebody, or more than `most` connections.
pub(in crate::cluster) fn check(cluster: &Cluster, most: usize) {
    for node in 0..cluster.nodes.len() {
        let node = cluster.node(node).expect("all nodes are there");
        let rests = (0..LOOKS).any(|_| {
            cluster.world().run_for(ON_THE_WAY);
            node.memory_used() == Bytes::ZERO
        });
        assert!(rests, "{} of memory of a node at rest", node.memory_used());
        assert!(node.connections() <= most, "{} connections of {most} clients", node.connections());
    }
}
