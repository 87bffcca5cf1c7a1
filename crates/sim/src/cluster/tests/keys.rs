//! Keys of targets that roll by themselves.

use super::*;

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
