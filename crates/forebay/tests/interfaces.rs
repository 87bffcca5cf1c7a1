//! Packets of a real interface, through the program: into a ring, out of it, into another program.
//!
//! Each test has a pair of virtual Ethernet interfaces in a network of its own, which is gone when its thread is.

// A test drives the real program through real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::{Place, signal};
use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, Command};

/// Runs `work` in a network of its own, and the programs that it starts.
fn in_own_network(work: impl FnOnce() + Send) {
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            // SAFETY: this thread alone gets another network; it shares no descriptor of the old one.
            let unshared = unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNET) };
            unshared.unwrap_or_else(|e| panic!("a network namespace for the test needs root: run as root ({e})"));
            for name in ["all", "default"] {
                // Without it, interfaces chatter when they come up. Kernels without IPv6 have no such file.
                let _ = std::fs::write(format!("/proc/sys/net/ipv6/conf/{name}/disable_ipv6"), "1");
            }
            work();
        });
        if let Err(panic) = thread.join() {
            std::panic::resume_unwind(panic);
        }
    });
}

fn ip(arguments: &str) -> String {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.unwrap_or_else(|e| panic!("install iproute2 ('cargo x test' does): {e}"));
    assert!(output.status.success(), "ip {arguments}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Makes `fb0` and `fb1`: what is sent to 10.9.0.2 leaves through the one and arrives at the other.
fn pair() {
    ip("link add fb0 type veth peer name fb1");
    // The other end has no address and answers nothing, so nobody has to ask for one.
    ip("addr add 10.9.0.1/24 dev fb0");
    for name in ["fb1", "fb0"] {
        ip(&format!("link set {name} up"));
    }
    for name in ["fb0", "fb1"] {
        let mut asked = 0;
        while !ip(&format!("-o link show {name}")).contains("state UP") {
            asked += 1;
            assert!(asked < 10_000, "{name} does not come up");
        }
        // The kernel's own work on an interface that came up holds a lock that this takes, too.
        ip(&format!("link set {name} up"));
    }
    ip("neigh replace 10.9.0.2 lladdr 02:00:00:00:00:02 dev fb0 nud permanent");
}

/// So many reports without what a test waits for, and it fails with the last of them.
const PATIENCE: usize = 120;

/// What datagram number `n` holds.
fn content(n: u32) -> Vec<u8> {
    let mut bytes = n.to_be_bytes().to_vec();
    bytes.resize(20 + (n as usize * 37) % 1400, n as u8);
    bytes
}

/// Sends datagrams with these numbers, each to a port that follows from its own.
fn send(numbers: std::ops::Range<u32>) {
    let socket = UdpSocket::bind("10.9.0.1:5000").unwrap();
    for n in numbers {
        let sent = content(n);
        assert_eq!(socket.send_to(&sent, ("10.9.0.2", port(n))).unwrap(), sent.len());
    }
}

fn port(n: u32) -> u16 {
    4000 + (n % 100) as u16
}

/// What tshark has to find of them: addresses, ports, content.
fn fields(numbers: std::ops::Range<u32>) -> Vec<String> {
    let hex = |bytes: Vec<u8>| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    numbers.map(|n| format!("10.9.0.1\t10.9.0.2\t5000\t{}\t{}", port(n), hex(content(n)))).collect()
}

/// What tshark finds in a capture, which it must read without a word of complaint.
fn found(place: &Place, name: &str) -> Vec<String> {
    let wanted = ["ip.src", "ip.dst", "udp.srcport", "udp.dstport", "udp.payload"];
    let arguments: Vec<&str> =
        ["-T", "fields"].into_iter().chain(wanted.iter().flat_map(|field| ["-e", field])).collect();
    place.tshark(name, &arguments).lines().map(str::to_owned).collect()
}

/// A recording, which does not outlive a test that failed.
struct Recording(Child);

impl Recording {
    /// Ends it in order.
    fn end(mut self) {
        signal(&self.0, "INT");
        let mut said = String::new();
        self.0.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        assert!(self.0.wait().unwrap().success(), "{said}");
    }
}

impl Drop for Recording {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn packets_of_an_interface_go_through_a_ring_and_tshark_finds_those_that_were_sent() {
    in_own_network(|| {
        let place = Place::formatted("256MiB");
        pair();
        let arguments = ["record", "/net", "--interface", "fb1", "--create", "--capacity", "64MiB"];
        let mut recording = Recording(place.start(&arguments));
        // Once it says so, it listens.
        let mut said = BufReader::new(recording.0.stderr.as_mut().unwrap()).lines().map(Result::unwrap);
        assert!(said.any(|line| line.starts_with("Recording interface fb1")));
        send(0..1000);
        recording.end();
        for name in ["all.pcapng", "all.pcap"] {
            place.ok(&["export", "/net", "--to", name]);
            assert_eq!(found(&place, name), fields(0..1000), "{name}");
        }
        // A hundred ports take turns.
        place.ok(&["export", "/net", "dport=4007 and src=10.9.0.1", "--to", "some.pcapng"]);
        let some: Vec<String> = (0..10).flat_map(|turn| fields(turn * 100 + 7..turn * 100 + 8)).collect();
        assert_eq!(found(&place, "some.pcapng"), some);
        assert_eq!(place.ok(&["gaps", "/net", "--json"]), "");
    });
}

#[test]
fn while_an_interface_is_away_its_recording_goes_on_and_a_gap_in_the_ring_tells_how_long() {
    in_own_network(|| {
        let place = Place::formatted("256MiB");
        pair();
        let arguments = ["record", "/net", "--interface", "fb1", "--create", "--capacity", "64MiB", "--json"];
        let mut recording = Recording(place.start(&arguments));
        let mut lines = BufReader::new(recording.0.stdout.take().unwrap()).lines();
        // Reports come once a second, whether anything is heard or not.
        let mut wait_for = |what: &str, there: &dyn Fn(&serde_json::Value) -> bool| {
            let mut last = serde_json::Value::Null;
            for line in lines.by_ref().take(PATIENCE) {
                last = serde_json::from_str(&line.unwrap()).unwrap();
                if there(&last) {
                    return;
                }
            }
            panic!("there never was {what}; the last report: {last}");
        };
        wait_for("a report", &|_| true);
        // In two goes, of which the first is in the ring before the second leaves.
        send(0..20);
        wait_for("what was sent first", &|report| report["elements"] == 20);
        send(20..50);
        wait_for("what was sent then", &|report| report["elements"] == 50);
        let before = ip("-o link show fb1");
        ip("link del fb0");
        pair();
        assert_ne!(ip("-o link show fb1"), before, "another interface of the same name");
        // The gap is written when it listens again.
        wait_for("a gap", &|report| report["losses"]["source_away"]["gaps"] == 1);
        send(50..100);
        recording.end();
        let events = place.ok(&["query", "/net", "--json"]);
        let events: Vec<serde_json::Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
        let mut wanted = vec!["element"; 102];
        (wanted[50], wanted[101]) = ("gap", "summary");
        assert_eq!(kinds, wanted);
        let (gap, last, next) = (&events[50], &events[49]["time"], &events[51]["time"]);
        assert_eq!((&gap["cause"], &gap["count"]), (&"source_away".into(), &serde_json::Value::Null), "{gap}");
        // All in UTC, and further apart than the digits that some of them may lack.
        let times = [last, &gap["first"], &gap["last"], next].map(|time| time.as_str().unwrap());
        assert!(times.is_sorted() && times[1] < times[2], "{times:?}");
        place.ok(&["export", "/net", "--to", "all.pcapng"]);
        assert_eq!(found(&place, "all.pcapng"), fields(0..100));
    });
}
