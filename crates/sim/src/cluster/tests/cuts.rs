//! Cuts of files that somebody left who is gone.

use super::*;
use forebay_model::layout::address::StripeId;
use forebay_wire::control::files::OpenToRead;
use forebay_wire::control::names::Place;
use std::cell::Cell;

const NODES: usize = 12;

#[test]
fn what_is_written_beside_others_stays_though_a_node_comes_back_that_keeps_a_cut_which_a_dead_client_began() {
    let mut cut_short = 0;
    for micros in (0..16_000).step_by(1000) {
        let world = Rc::new(World::new(micros));
        let cluster = Cluster::new(world.clone(), spec(NODES as u32));
        let writer = cluster.client_machine("writer");
        let (files, control) = (writer.files.clone(), writer.control.clone());
        let (file, grant) = world.run(async move {
            let policy = Policy { raid: Raid::Five, unit: Bytes::kib(16), targets: NODES as u32 };
            let file = files.create("/x", 0o644, Some(policy), Options::alone()).await.expect("a file");
            file.write_at(Bytes::ZERO, Slice::from(vec![1; 600_000])).await.expect("it is taken");
            file.flush().await.expect("it is durable");
            let open = OpenToRead { place: Place::of(file.entry().file), cached: false };
            match control.ask(Question::OpenToRead(open)).await {
                Ok(Reply::Grant(grant)) => (file, grant),
                other => panic!("{other:?}"),
            }
        });
        // A cut in the first stripe is kept beside its parity; and a unit that has nothing to do with that node.
        let striping = file.striping();
        let parity = |stripe| striping.parity_of(StripeId(stripe)).expect("it has parity").component;
        let keeper = parity(0);
        let is_elsewhere =
            |stripe: &u64| parity(*stripe) != keeper && striping.unit_of(StripeId(*stripe), 0).component != keeper;
        let stripe = (1..5).find(is_elsewhere).expect("parity takes turns");
        let at = Bytes(striping.bytes_of(StripeId(stripe)).start);
        let target = grant.components[keeper as usize].target;
        let node = (0..NODES).find(|node| cluster.target(*node) == target).expect("it lies on a node");
        let is_cut = Rc::new(Cell::new(false));
        let said = is_cut.clone();
        let cutting = writer.host.env().spawner.spawn(async move {
            said.set(file.truncate(Bytes(100)).await.is_ok());
            // It stays open.
            std::future::pending::<()>().await;
            drop(file);
        });
        world.run_for(Duration::from_micros(micros));
        cut_short += u32::from(!is_cut.get());
        writer.host.crash();
        cluster.crash_node(node);
        let upkeep = cluster.client_machine("upkeep");
        let (gone, control) = (writer.control.client(), upkeep.control.clone());
        let other = cluster.client_machine("other");
        let others = other.files.clone();
        let beside_others = world.run(async move {
            control.change(Change::ClientGone(ClientGone { client: gone })).await.expect("it is root");
            let file = others.open_to_write("/x", beside()).await.expect("others may write it at once");
            file.write_at(at, Slice::from(vec![7; 1000])).await.expect("it is written");
            file
        });
        drop(cutting);
        cluster.restart_node(node);
        let found = world.run(async move {
            // Whoever has the first stripe ends what was begun there.
            beside_others.write_at(Bytes::ZERO, Slice::from(vec![8; 10])).await.expect("it is written");
            beside_others.close().await.expect("it closes");
            upkeep.files.mend_left(|file, mended| drop(mended.unwrap_or_else(|e| panic!("{file}: {e}")))).await?;
            let file = upkeep.files.open("/x", Options::alone()).await?;
            file.read_at(at, Bytes(1000)).await
        });
        assert!(found.expect("it is there") == [7; 1000], "{micros} us: it was cut off");
    }
    assert!(cut_short > 2, "{cut_short} cuts were not at their end");
}
