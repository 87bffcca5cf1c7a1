//! Machines whose clocks are set wrong.

use super::*;
use forebay_model::Kind;

#[test]
fn outcome_41_who_is_refused_because_a_clock_is_ahead_is_told_whose_it_is_and_what_to_do() {
    let world = Rc::new(World::new(41));
    let policy = Policy { raid: Raid::Zero, unit: UNIT, targets: 3 };
    let cluster = Cluster::new(world.clone(), ClusterSpec { policy, ..spec(3) });
    let machine = cluster.client_machine("writer");
    let files = machine.files.clone();
    world.run(async move { made(&files, "/x", 7, 1_000_000).await.close().await }).expect("it is durable");
    let set = |ahead: u64| {
        cluster.crash_node(1);
        cluster.nodes[1].ahead.set(Duration::from_secs(ahead));
        cluster.restart_node(1);
        world.run_for(Duration::from_secs(5));
    };
    let off = || {
        let nodes = cluster.map(&machine).nodes;
        nodes.iter().filter_map(|node| Some((node.node, node.clock_off()?))).collect::<Vec<_>>()
    };
    let read = |by: &str| {
        let (_reading, files) = cluster.client(by);
        world.run(async move {
            let file = files.open("/x", Options::alone()).await?;
            file.read_at(Bytes::ZERO, Bytes::mib(1)).await
        })
    };
    assert_eq!(off(), []);
    // More than a capability counts, so that each is over when it is new.
    set(420);
    assert!(matches!(&off()[..], [(2, how)] if how.contains("ahead of the manager's")), "{:?}", off());
    let error = read("early").expect_err("everything is over there");
    assert_eq!(error.kind, Kind::Refused, "{error}");
    for named in [cluster.target(1).to_string().as_str(), "clock of node 2", "s ahead of", "set the clocks"] {
        assert!(error.message.contains(named), "{error}");
    }
    // As soon as it is set, all is well, and nobody has to do anything else.
    set(0);
    assert_eq!(off(), []);
    assert!(read("late").expect("it is read") == vec![7; 1_000_000]);
}
