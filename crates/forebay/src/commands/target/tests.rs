use super::*;
use forebay_model::Timestamp;
use forebay_wire::control::cluster::Node;
use std::time::Duration;

#[test]
fn of_a_target_that_its_node_does_not_have_it_is_said_and_what_to_do() {
    let map = |up| Map {
        cluster: 1,
        epoch: 1,
        least_epoch: 1,
        nodes: vec![Node { node: 3, user: 0, address: "n:1".to_string(), up, wall: None, reported: None }],
        targets: Vec::new(),
    };
    let target = |state, served| Target {
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
    };
    assert_eq!(remark(&map(true), &target(TargetState::Up, true)), "");
    assert!(remark(&map(true), &target(TargetState::Up, false)).contains("does not have it: bring it back"));
    let failed = remark(&map(true), &target(TargetState::Failed, false));
    assert_eq!(failed, "its node does not have it; 2 components to be rebuilt");
    let slow = Target { slow: true, left: None, ..target(TargetState::Up, true) };
    assert!(remark(&map(true), &slow).contains("far slower than its profile: `forebay target drain` it"));
    let mut off = map(true);
    let reported = Timestamp(1_000_000_000_000);
    (off.nodes[0].wall, off.nodes[0].reported) = (Some(reported.after(Duration::from_secs(420))), Some(reported));
    assert!(remark(&off, &target(TargetState::Up, true)).starts_with("the clock of node 3 is 420 s ahead"));
    // That is said of the node.
    assert_eq!(remark(&map(false), &target(TargetState::Up, false)), "");
}
