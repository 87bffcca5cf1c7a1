//! Keys of targets that roll by themselves, and access keys that are revoked.

use super::*;
use forebay_model::Kind;
use forebay_wire::control::access::{IssueKey, RevokeKey, User};
use std::cell::Cell;

#[test]
fn outcome_5_files_are_written_and_read_on_while_keys_roll_by_themselves() {
    let world = Rc::new(World::new(5));
    let settings = Settings { roll_every: Duration::from_secs(10), ..Settings::default() };
    let cluster = Cluster::new(world.clone(), ClusterSpec { settings, ..spec(3) });
    let writer = cluster.client_machine("writer");
    let (clock, files) = (world.clock(), writer.files.clone());
    let version = target_of(&cluster, &writer, 0).key;
    let bytes = world.run(async move {
        let file = files.create("/x", 0o644, None, Options::alone()).await.expect("a file");
        let bytes = pattern(30 * 100_000, 5);
        for (nth, part) in bytes.chunks(100_000).enumerate() {
            file.write_at(Bytes(nth as u64 * 100_000), Slice::from(part.to_vec())).await.expect("it is taken");
            file.flush().await.expect("it is durable");
            // At the end longer than two keys last, and shorter than what was granted counts.
            clock.sleep(Duration::from_secs(if nth < 20 { 1 } else { 25 })).await;
        }
        file.close().await.expect("it is durable");
        bytes
    });
    let rolled = target_of(&cluster, &writer, 0).key - version;
    assert!(rolled > 15, "rolled {rolled} times");
    let (_reading, files) = cluster.client("reader");
    world.run(async move {
        let file = files.open("/x", Options::alone()).await.expect("it is there");
        assert!(file.read_at(Bytes::ZERO, Bytes::mib(8)).await.expect("bytes") == bytes);
        file.close().await.expect("it closes");
    });
}

/// A client of user 5 that was let in with a key.
fn let_in(cluster: &Cluster, operator: &Rc<SimControl>, client: u64) -> (u64, ClientMachine) {
    let issue = Change::IssueKey(IssueKey { user: 5, label: String::new() });
    let control = operator.clone();
    let Ok(Reply::IssuedKey(issued)) = cluster.world().run(async move { control.change(issue).await }) else {
        panic!("no key")
    };
    let by = Principal { user: 5, groups: vec![7], client, key: Some(issued.key) };
    (issued.key, cluster.client_of(&format!("client{client}"), by))
}

#[test]
fn five_seconds_after_an_access_key_was_revoked_nothing_counts_that_was_had_with_it_and_others_go_on() {
    // Before and after a manager knows of all that may count.
    for waited in [Duration::from_secs(10), Duration::from_secs(400)] {
        let world = Rc::new(World::new(7));
        let cluster = Cluster::new(world.clone(), spec(3));
        let operator = cluster.client_machine("looker");
        let (control, files) = (operator.control.clone(), operator.files.clone());
        world.run(async move {
            let user = User { user: 5, name: "ann".into(), groups: vec![7] };
            control.change(Change::SetUser(user)).await.expect("a user");
            made(&files, "/x", 3, 1 << 20).await.close().await.expect("it is durable");
        });
        let (key, revoked) = let_in(&cluster, &operator.control, 500);
        let (_, kept) = let_in(&cluster, &operator.control, 501);
        world.run_for(waited);
        let (reads, ended) = (Rc::new(Cell::new(0)), Rc::new(Cell::new(None)));
        let read = |machine: &ClientMachine, ended: Option<Rc<Cell<Option<Moment>>>>| {
            let (files, clock, reads) = (machine.files.clone(), world.clock(), reads.clone());
            async move {
                let file = files.open("/x", beside()).await.expect("it may be read");
                for nth in 0u64.. {
                    match (file.read_at(Bytes(nth % 16 * 65_536), Bytes::kib(64)).await, &ended) {
                        (Ok(bytes), _) => assert_eq!(bytes, vec![3; 65_536]),
                        (Err(error), Some(ended)) => {
                            assert_eq!(error.kind, Kind::Forbidden, "{error}");
                            return ended.set(Some(clock.now()));
                        }
                        (Err(error), None) => panic!("whose key was not revoked: {error}"),
                    }
                    reads.set(reads.get() + 1);
                    clock.sleep(Duration::from_millis(50)).await;
                }
            }
        };
        world.spawner().detach(read(&revoked, Some(ended.clone())));
        world.spawner().detach(read(&kept, None));
        world.run_for(Duration::from_secs(60));
        assert!(ended.get().is_none() && reads.get() > 2000, "{} reads", reads.get());
        let control = operator.control.clone();
        let revoke = Change::RevokeKey(RevokeKey { key });
        world.run(async move { control.change(revoke).await }).expect("it is revoked");
        let at = world.now();
        world.run_for(Duration::from_secs(5));
        assert!(ended.get().is_some(), "it goes on {:?} after its key was revoked", world.now().since(at));
        let before = reads.get();
        world.run_for(Duration::from_secs(60));
        assert!(reads.get() > before + 1000, "the other one has read {} times", reads.get() - before);
    }
}
