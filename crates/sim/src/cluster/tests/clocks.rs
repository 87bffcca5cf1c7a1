//! Machines whose clocks are set wrong.

use super::*;
use crate::cluster::ClientMachine;
use forebay_env::Clock;
use forebay_model::{Kind, Moment, Timestamp};
use std::cell::Cell;
use std::future::Future;
use std::pin::Pin;

/// The clock of a machine that slept for some time, in which its monotonic time stood still.
struct Slept {
    clock: Rc<dyn Clock>,
    slept: Rc<Cell<Duration>>,
}

impl Clock for Slept {
    fn now(&self) -> Moment {
        Moment(self.clock.now().0 - self.slept.get().as_nanos() as u64)
    }

    fn through_sleep(&self) -> Moment {
        self.clock.now()
    }

    fn wall(&self) -> Timestamp {
        self.clock.wall()
    }

    fn sleep_until(&self, moment: Moment) -> Pin<Box<dyn Future<Output = ()>>> {
        let (clock, slept) = (self.clock.clone(), self.slept.clone());
        Box::pin(async move {
            // It may have slept meanwhile.
            while clock.now() < moment + slept.get() {
                clock.sleep_until(moment + slept.get()).await;
            }
        })
    }
}

/// Whoever keeps what it read does so by a lease, after which the manager lets others write: a machine that slept has no time left of it.
#[test]
fn outcome_41_a_client_whose_machine_slept_for_five_minutes_reads_nothing_that_it_kept_from_before() {
    let world = Rc::new(World::new(141));
    let cluster = Cluster::new(world.clone(), spec(5));
    let (_writing, writing) = cluster.client("writer");
    let writer = writing.clone();
    world.run(async move { made(&writer, "/x", 1, 1_000_000).await.close().await }).expect("it is durable");
    let (host, slept) =
        (cluster.network().host("reader", cluster.spec.client_link), Rc::new(Cell::new(Duration::ZERO)));
    let mut env = host.env();
    env.clock = Rc::new(Slept { clock: env.clock.clone(), slept: slept.clone() });
    let (nodes, control) = cluster.ways(env, cluster.next_client());
    let machine =
        ClientMachine { host, nodes: nodes.clone(), control: control.clone(), files: Files::new(nodes, control) };
    let files = machine.files.clone();
    let options = Options { sharing: Sharing::Cached, ..Options::default() };
    let reader = world.run(async move {
        let file = files.open("/x", options).await.expect("it is there");
        // One behind the other, so that what follows is read ahead and kept.
        for nth in 0..8 {
            assert!(file.read_at(Bytes(nth * 10_000), Bytes(10_000)).await.expect("bytes") == [1; 10_000]);
        }
        file
    });
    // It has asked again just before.
    world.run_for(Duration::from_secs(30));
    assert!(!reader.engine().is_shared(), "it keeps what it reads");
    // What it is told meanwhile does not come.
    machine.host.pause();
    cluster.network().partition(&[&machine.host], &[cluster.manager_host()]);
    let asleep = world.now();
    world.run(async move {
        let file = writing.open_to_write("/x", options).await.expect("who sleeps is not waited for any longer");
        file.write_at(Bytes::ZERO, vec![2; 1_000_000].into()).await.expect("it is taken");
        file.close().await.expect("it is durable");
    });
    world.run_for(Duration::from_secs(300));
    slept.set(world.now().since(asleep));
    cluster.network().heal();
    machine.host.resume();
    world.run(async move {
        let found = reader.read_at(Bytes(80_000), Bytes(100_000)).await.expect("bytes");
        assert!(found == [2; 100_000], "{} from before it slept", found[0]);
    });
}

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

/// A client asks the manager when its target refuses it, or when its own clock says that it is time: not with all that it does.
#[test]
fn outcome_2_a_client_whose_clock_is_ten_minutes_ahead_or_behind_goes_on_and_renews_by_itself() {
    const OFF: Duration = Duration::from_secs(600);
    for (ahead, behind) in [(OFF, Duration::ZERO), (Duration::ZERO, OFF)] {
        let world = Rc::new(World::new(2));
        let cluster = Cluster::new(world.clone(), spec(3));
        let machine = cluster.client_machine_set("writer", ahead, behind);
        let (files, clock) = (machine.files.clone(), world.clock());
        let file = world.run(async move { made(&files, "/x", 0, 400_000).await });
        let before = machine.control.asked();
        let quick = |file: File| {
            let clock = clock.clone();
            async move {
                for nth in 0..400_u64 {
                    file.write_at(Bytes(nth * 1000), Slice::from(vec![1; 1000])).await.expect("it is allowed");
                    file.flush().await.expect("it is durable");
                    clock.sleep(Duration::from_millis(50)).await;
                }
                file
            }
        };
        let file = world.run(quick(file));
        let asked = machine.control.asked() - before;
        assert!(asked < 60, "the manager was asked {asked} times in {:?}", world.now());
        // For three times as long as anything counts.
        let slow = async move {
            for nth in 0..45_u64 {
                let (at, value) = (Bytes(nth * 8000), nth as u8 + 2);
                file.write_at(at, Slice::from(vec![value; 8000])).await.expect("it is allowed");
                file.flush().await.expect("it is durable");
                assert!(file.read_at(at, Bytes(8000)).await.expect("it is allowed") == [value; 8000]);
                clock.sleep(Duration::from_secs(20)).await;
            }
            file.close().await.expect("it is durable");
        };
        world.run(slow);
        let (_reading, files) = cluster.client("reader");
        world.run(async move {
            let file = files.open("/x", Options::alone()).await.expect("it is there");
            let bytes = file.read_at(Bytes::ZERO, Bytes(400_000)).await.expect("bytes");
            let written =
                |(nth, part): (usize, &[u8])| part.iter().all(|byte| *byte == if nth < 45 { nth as u8 + 2 } else { 1 });
            assert!(bytes.chunks(8000).enumerate().all(written));
        });
    }
}
