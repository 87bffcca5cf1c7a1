//! Many targets answer one client at once through a port of a switch that drops what it has no room for: real sockets and real
//! queues, in networks of the test's own, which are gone with it.
//!
//! The client's credit is to keep what is in flight within the port; beside it the same client without a bound.

// A test makes networks, runs programs and reads what the kernel counts.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use bytes::Bytes as Slice;
use forebay_client::file::options::Options;
use forebay_client::files::blocking::FilesClient;
use forebay_embedded::{FormatOptions, Measure, format, own};
use forebay_model::Bytes;
use forebay_model::layout::{Raid, UNIT};
use forebay_node::network::Bounds;
use forebay_serve::limits::METADATA_CACHE;
use forebay_serve::manager::{Metadata, Settings};
use forebay_serve::rack::{Listening, Rack};
use forebay_wire::control::volumes::Policy;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::time::Instant;

/// What the switch forwards to a machine, and what it keeps for it.
const RATE: &str = "200mbit";
const KEPT: &str = "256kb";
/// What is left of that for the bytes of frames of 1500: headers of Ethernet, IP and TCP with times.
const LINK: f64 = 25e6 * 1448.0 / 1514.0;

/// A network, as long as this is open.
struct Network(File);

impl Network {
    /// A new one, in which this thread is from now on.
    fn new() -> Network {
        // SAFETY: this thread alone gets another network; it shares no descriptor of the old one.
        let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
        unshared.unwrap_or_else(|e| panic!("a network namespace for the test needs root: run as root ({e})"));
        for name in ["all", "default"] {
            // Without it, interfaces chatter when they come up. Kernels without IPv6 have no such file.
            let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
        }
        run("ip", "link set lo up");
        Network(File::open("/proc/thread-self/ns/net").unwrap())
    }

    fn enter(&self) {
        let kind = Some(rustix::thread::LinkNameSpaceType::Network);
        rustix::thread::move_into_link_name_space(self.0.as_fd(), kind).unwrap();
    }

    fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.0.as_raw_fd())
    }
}

fn run(program: &str, arguments: &str) -> String {
    let output = Command::new(program).args(arguments.split(' ')).output();
    let output = output.unwrap_or_else(|e| panic!("install iproute2 ('cargo x test' does): {e}"));
    assert!(output.status.success(), "{program} {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// A switch with two machines at it: 10.9.0.1, where the targets are, and 10.9.0.2, the client. The switch, the first, the other.
fn switched() -> (Network, Network, Network) {
    let networks = (Network::new(), Network::new(), Network::new());
    let (switch, servers, client) = &networks;
    switch.enter();
    run("ip", "link add br0 type bridge");
    run("ip", "link set br0 up");
    for (port, name, at) in [("port1", "net1", servers), ("port2", "net2", client)] {
        run("ip", &format!("link add {port} type veth peer name {name} netns {}", at.path()));
        run("ip", &format!("link set {port} master br0 up"));
        run("tc", &format!("qdisc add dev {port} root tbf rate {RATE} burst 64kb limit {KEPT}"));
    }
    for (name, address, at) in [("net1", "10.9.0.1", servers), ("net2", "10.9.0.2", client)] {
        at.enter();
        run("ip", &format!("addr add {address}/24 dev {name}"));
        // A frame is what a switch sees.
        run("ip", &format!("link set {name} gso_max_segs 1 up"));
    }
    networks
}

/// Segments that a port has dropped.
fn dropped(port: &str) -> u64 {
    let told: serde_json::Value = serde_json::from_str(&run("tc", &format!("-s -j qdisc show dev {port}"))).unwrap();
    told[0]["drops"].as_u64().unwrap()
}

/// What this thread's network counts under a name in `/proc/net/netstat`.
fn counted(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("TcpExt:")).collect();
    let at = lines[0].split(' ').position(|word| word == name).unwrap();
    lines[1].split(' ').nth(at).unwrap().parse().unwrap()
}

/// Bytes of a second in which a file is read, one piece after the other.
fn read(files: &FilesClient, size: Bytes) -> f64 {
    let file = files.open("/x", Options::default()).unwrap();
    let (begun, piece) = (Instant::now(), Bytes::mib(1));
    let mut at = Bytes::ZERO;
    while at < size {
        assert_eq!(file.read_at(at, piece).unwrap().len() as u64, piece.0);
        at += piece;
    }
    let rate = size.0 as f64 / begun.elapsed().as_secs_f64();
    file.close().unwrap();
    rate
}

#[test]
fn what_many_targets_send_one_client_fits_its_port_which_drops_without_credit() {
    let work = || {
        let (switch, servers, client) = switched();
        for targets in [3u32, 10, 20] {
            let dir = tempfile::tempdir().unwrap();
            let size = Bytes::mib(32);
            let dirs: Vec<_> = (0..targets).map(|n| dir.path().join(format!("node-{n}"))).collect();
            servers.enter();
            let mut owned = Vec::new();
            for one in &dirs {
                format(one, &FormatOptions::file(Bytes::mib(128), Measure::Guess)).unwrap();
                owned.push(own(one).unwrap());
            }
            let policy = Policy { raid: Raid::Zero, unit: UNIT, targets };
            let path = dir.path().join("manager.redb");
            let metadata = Metadata { path: &path, cache: METADATA_CACHE };
            let bounds = Bounds::default();
            let listening =
                Listening { data: "10.9.0.1:0", known_as: None, tls: None, bounds, warned: |_| {}, told: |_| {} };
            let rack = Rack::over(owned, metadata, policy, Settings::default(), &listening).unwrap();
            client.enter();
            let (bounded, unbounded) = (rack.files(Bytes::kib(192)).unwrap(), rack.files(Bytes::gib(1)).unwrap());
            let file = bounded.create("/x", 0o644, None, Options::default()).unwrap();
            let bytes = Slice::from(vec![5; 1 << 20]);
            (0..size.0 >> 20).for_each(|at| file.write_at(Bytes::mib(at), bytes.clone()).unwrap());
            file.close().unwrap();
            let mut sums = [(0, 0.0, 0), (0, 0.0, 0)];
            // In turns, so that what else the machine does is shared.
            for _ in 0..2 {
                for (files, sum) in [&bounded, &unbounded].into_iter().zip(&mut sums) {
                    servers.enter();
                    let timeouts = counted("TCPTimeouts");
                    switch.enter();
                    let drops = dropped("port2");
                    let rate = read(files, size);
                    let drops = dropped("port2") - drops;
                    servers.enter();
                    let timeouts = counted("TCPTimeouts") - timeouts;
                    *sum = (sum.0 + drops, f64::max(sum.1, rate), sum.2 + timeouts);
                }
            }
            for ((drops, rate, timeouts), name) in sums.iter().zip(["with a credit of 192 KiB", "without"]) {
                println!(
                    "{targets} targets, {name}: {:.3} of the link, {drops} segments dropped, {timeouts} time-outs",
                    rate / LINK
                );
            }
            let [(drops, rate, _), (drops_without, rate_without, _)] = sums;
            assert_eq!(drops, 0, "{targets} targets: what is in flight fits the port");
            if targets >= 10 {
                assert!(drops_without > 0, "{targets} targets: without credit it does not, so nothing is shown");
            }
            assert!(rate >= 0.9 * rate_without, "{rate} beside {rate_without} B/s with {targets} targets");
            drop((bounded, unbounded));
            rack.close().unwrap();
        }
    };
    std::thread::scope(|scope| {
        if let Err(panic) = scope.spawn(work).join() {
            std::panic::resume_unwind(panic);
        }
    });
}
