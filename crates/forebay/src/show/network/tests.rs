use super::*;
use forebay_model::{Bytes, Error, TargetId, Timestamp};
use std::time::Duration;

fn map(up: bool, targets: Vec<Target>) -> Map {
    let nodes = vec![Node { node: 3, user: 0, address: "n:1".to_string(), up, wall: None, reported: None }];
    Map { cluster: 1, epoch: 1, least_epoch: 1, nodes, targets, copied_on: vec![TargetId(1)], copied_wholly: true }
}

fn one(state: TargetState, served: bool) -> Target {
    Target {
        target: TargetId(1),
        node: 3,
        served,
        state,
        size: Bytes::gib(1),
        free: Bytes::gib(1),
        load: 0,
        key: 1,
        failed: None,
        slow: false,
        left: Some(2),
    }
}

#[test]
fn of_a_target_that_its_node_does_not_have_it_is_said_and_what_to_do() {
    let (up, down) = (map(true, Vec::new()), map(false, Vec::new()));
    assert_eq!(remark(&up, &one(TargetState::Up, true)), "");
    assert!(remark(&up, &one(TargetState::Up, false)).contains("does not have it: bring it back"));
    let failed = remark(&up, &one(TargetState::Failed, false));
    assert_eq!(failed, "its node does not have it; 2 components to be rebuilt");
    let slow = Target { slow: true, left: None, ..one(TargetState::Up, true) };
    assert!(remark(&up, &slow).contains("far slower than its profile: `forebay target drain` it"));
    let (mut off, reported) = (map(true, vec![one(TargetState::Up, true)]), Timestamp(1_000_000_000_000));
    (off.nodes[0].wall, off.nodes[0].reported) = (Some(reported.after(Duration::from_secs(420))), Some(reported));
    assert!(remark(&off, &one(TargetState::Up, true)).starts_with("the clock of node 3 is 420 s ahead"));
    // That is said of the node.
    assert_eq!(remark(&down, &one(TargetState::Up, false)), "");
}

#[test]
fn the_worst_is_said_of_a_cluster_and_what_helps() {
    let of = |map: Map, degraded: Option<u64>, rings: &[KnownRing]| {
        health(&Survey { map, volumes: None, degraded, displaced: None }, rings)
    };
    let with = |target: Target| map(true, vec![target]);
    let (up, dead) = (one(TargetState::Up, true), Some("write at 5".to_string()));
    assert_eq!(of(with(up.clone()), Some(0), &[]), ("ok", "nothing to do".to_string()));
    assert_eq!(of(with(up.clone()), Some(1), &[]).0, "rebuilding");
    assert_eq!(of(with(Target { slow: true, ..up.clone() }), Some(1), &[]).0, "slow_device");
    let alone = |target: Target| Map { copied_on: Vec::new(), copied_wholly: false, ..with(target) };
    let (code, remedy) = of(alone(up.clone()), Some(1), &[]);
    assert!(code == "metadata_not_copied" && remedy.contains("the manager's disk alone"), "{remedy}");
    assert!(copies(&alone(up.clone())).contains("disk alone") && copies(&with(up.clone())).contains("to 1 target"));
    // Nothing is there that could have one.
    assert_eq!(of(alone(Target { state: TargetState::Draining, ..up.clone() }), Some(0), &[]).0, "ok");
    let ring = |error: Error| {
        [KnownRing { name: "/r".to_string(), capacity: Bytes::ZERO, status: Err(error), parts: Vec::new() }]
    };
    let (code, remedy) = of(with(up.clone()), None, &ring(Error::disconnected("away")));
    assert!(code == "ring_away" && remedy.contains("forebay ring show /r"), "{remedy}");
    assert_eq!(of(with(up.clone()), None, &ring(Error::forbidden("not yours"))).0, "ok");
    let (code, remedy) = of(with(one(TargetState::Up, false)), Some(1), &ring(Error::disconnected("away")));
    assert!(code == "target_away" && remedy.contains("node 3"), "{remedy}");
    let (code, remedy) = of(map(false, vec![up.clone()]), Some(1), &[]);
    assert!(code == "node_away" && remedy.contains("node 3") && remedy.contains("target fail"), "{remedy}");
    let (code, remedy) = of(map(false, vec![Target { failed: dead.clone(), ..up }]), None, &[]);
    assert!(code == "failed" && remedy.contains("write at 5"), "{remedy}");
    // The manager takes it for lost in the report in which it hears of it: that is when people are to learn of it.
    let heard = Target { failed: dead.clone(), ..one(TargetState::Failed, true) };
    let (code, remedy) = of(with(heard.clone()), Some(1), &[]);
    assert!(code == "failed" && remedy.contains("write at 5") && remedy.contains("made anew on others"), "{remedy}");
    assert!(!remedy.contains("target fail"), "{remedy}");
    let (code, remedy) = of(with(Target { left: Some(0), ..heard.clone() }), Some(0), &[]);
    assert!(code == "failed" && remedy.contains("`forebay target rm` it"), "{remedy}");
    // Its node does not have it any more, so it was seen to.
    let gone = Target { served: false, ..heard };
    assert_eq!(of(with(gone), Some(0), &[]).0, "rebuilding");
    // What was said to have failed is being seen to already.
    let said = Target { failed: dead, ..one(TargetState::Failed, true) };
    assert_eq!(of(map(false, vec![said.clone()]), Some(0), &[]).0, "rebuilding");
    assert_eq!(of(map(false, vec![Target { left: Some(0), ..said }]), Some(0), &[]).0, "ok");
}
