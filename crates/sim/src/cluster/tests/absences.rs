//! Components that were given up, and who is told of it.

use super::*;
use forebay_client::files::File;
use forebay_model::Result;

const LENGTH: usize = 400_000;

fn uncached() -> Options {
    Options { sharing: Sharing::Beside, ahead: Bytes::ZERO, cache: Bytes::ZERO, ..Options::default() }
}

/// Who only reads takes no locks.
fn reading() -> Options {
    Options { sharing: Sharing::Alone, ..uncached() }
}

async fn write(file: Rc<File>, value: u8) -> Result<()> {
    file.write_at(Bytes::ZERO, Slice::from(vec![value; LENGTH])).await
}

#[test]
fn nothing_is_acknowledged_by_anybody_while_a_reader_may_still_be_answered_by_what_was_given_up() {
    let mut waited = 0;
    for node in 0..4 {
        let world = Rc::new(World::new(61));
        let network = NetworkSpec {
            connect_limit: Duration::from_secs(2),
            silence: Duration::from_secs(2),
            patience: Duration::from_secs(6),
            ..NetworkSpec::jumbo()
        };
        let cluster = Cluster::new(world.clone(), ClusterSpec { network, ..spec(4) });
        let (first, second) = (cluster.client_machine("first"), cluster.client_machine("second"));
        let reader = cluster.client_machine("reader");
        let files = first.files.clone();
        let giving = Rc::new(world.run(async move {
            let file = files.create("/x", 0o644, None, uncached()).await.expect("a file");
            file.write_at(Bytes::ZERO, Slice::from(vec![1; LENGTH])).await.expect("it is durable");
            file
        }));
        let files = reader.files.clone();
        let reading = Rc::new(world.run(async move { files.open("/x", reading()).await.expect("it is there") }));
        let read = || {
            let reading = reading.clone();
            world.run(async move { reading.read_at(Bytes::ZERO, Bytes::mib(1)).await.expect("it is there") })
        };
        assert!(read() == [1; LENGTH]);
        // Only the reader still reaches the node, which hears nothing of anybody else.
        let others = [cluster.manager_host(), &first.host, &second.host];
        cluster.network().partition(&[cluster.node_host(node)], &others);
        let begun = world.spawner().spawn(write(giving, 2));
        world.run_for(Duration::from_secs(30));
        let files = second.files.clone();
        let learned = world.spawner().spawn(async move {
            let file = files.open_to_write("/x", uncached()).await.expect("one may be lost");
            write(Rc::new(file), 3).await
        });
        let began = world.now();
        world.run(learned).expect("it is durable without that one");
        waited += u32::from(world.now().since(began) > Duration::from_secs(60));
        // The first is still at it, and may have come later in some stripes.
        let found = read();
        assert!(found.len() == LENGTH && !found.contains(&1), "node {node}: what was overwritten is read");
        world.run(begun).expect("it is durable without that one");
    }
    assert!(waited > 0, "nobody had to wait");
}
