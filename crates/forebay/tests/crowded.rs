//! A server that ten thousand are connected with, of whom nobody wants much, and what that is to one who does.

// A test drives the real program through real files and sockets.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use bytes::Bytes as Slice;
use common::served::Served;
use common::{Dice, Place, signal};
use forebay_client::file::options::Options;
use forebay_client::files::blocking::OpenFile;
use forebay_model::Bytes;
use forebay_wire::sink::Frame;
use forebay_wire::{ClientHello, Command, Flags, RequestId};
use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpStream};
use std::process::Child;
use std::time::{Duration, Instant};

/// Connections, if the system lets two processes have so many.
const MOST: usize = 10_000;
/// Files that this process and the server need for other things.
const OTHERS: usize = 1500;
/// Machines that they come from, each an address: of one machine a node takes a quarter of all.
const MACHINES: usize = 8;
/// Connections that the kernel keeps until they are taken.
const AT_ONCE: usize = 500;
/// What a stranger may cost a node at most.
const OF_STRANGER: u64 = 64 << 10;
/// Reads of a turn from each of the servers, and bytes of each.
const READS: u64 = 600;
const LENGTH: usize = 64 << 10;
const SIZE: usize = 4 << 20;

/// As many connections as there may be, which this process lets itself have.
fn allowed() -> usize {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let most = maximum.map_or(MOST * 2, |most| most as usize);
    if current != maximum {
        setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    }
    // The server has room for those that it turns away as well, and for its control plane.
    let allowed = MOST.min(most.saturating_sub(OTHERS) * 8 / 9);
    if allowed < MOST {
        println!("the limit of {most} open files allows {allowed} connections, and not {MOST}");
    }
    allowed
}

/// A connection from a machine of its own.
fn connected(machine: usize, to: SocketAddrV4) -> TcpStream {
    let stream = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
    bind(&stream, &SocketAddrV4::new(Ipv4Addr::new(127, 0, 1, machine as u8 + 1), 0)).unwrap();
    connect(&stream, &to).unwrap();
    stream.into()
}

/// What is said before anything is shown.
fn hello() -> Vec<u8> {
    let hello = ClientHello::new(None, [9; 16]);
    Frame::of(RequestId(0), Command::HELLO, Flags::NONE, &hello).unwrap().to_bytes()
}

/// Memory that a process has for itself.
fn memory(child: &Child) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn connections(served: &Served) -> usize {
    served.status()["nodes"][0]["connections"].as_u64().unwrap() as usize
}

/// How long a read takes.
fn read(file: &OpenFile, nth: u64) -> Duration {
    let begun = Instant::now();
    let at = nth * 77_777 % (SIZE - LENGTH) as u64;
    assert_eq!(file.read_at(Bytes(at), Bytes(LENGTH as u64)).unwrap().len(), LENGTH);
    begun.elapsed()
}

/// The time within which so many of a hundred are done.
fn within(times: &mut [Duration], percent: usize) -> Duration {
    times.sort();
    times[times.len() * percent / 100]
}

#[test]
fn outcome_10_who_reads_waits_no_longer_beside_10_000_connections_that_are_idle_or_slow() {
    let allowed = allowed();
    let places = [Place::new(), Place::new()];
    let most = (allowed + 100).to_string();
    let [calm, crowded] = [0, 1]
        .map(|at| Served::with(&places[at], &["--size", "256MiB", "--status", "127.0.0.1:0", "--connections", &most]));
    let uncached = Options { ahead: Bytes::ZERO, cache: Bytes::ZERO, ..Options::default() };
    let clients = [&calm, &crowded].map(|served| {
        let files = served.files(&served.key);
        let file = files.create("/x", 0o644, None, Options::default()).unwrap();
        file.write_at(Bytes::ZERO, Slice::from(Dice(10).bytes(SIZE))).unwrap();
        file.close().unwrap();
        files
    });
    let readers = clients.each_ref().map(|files| files.open("/x", uncached).unwrap());
    for nth in 0..20 {
        readers.iter().for_each(|file| assert!(read(file, nth) > Duration::ZERO));
    }

    // Nine of ten say hello and nothing else, some nothing at all, and some a byte now and then.
    let to = crowded.ready["data"][0].as_str().unwrap().parse().unwrap();
    let (before, there) = (memory(&crowded.child), connections(&crowded));
    let (hello, mut crowd) = (hello(), Vec::new());
    while crowd.len() < allowed {
        // They come while the server does not run: it takes all of them at once, and the two do not have to take turns.
        signal(&crowded.child, "STOP");
        for _ in 0..AT_ONCE.min(allowed - crowd.len()) {
            let mut stream = connected(crowd.len() % MACHINES, to);
            if crowd.len() % 10 > 0 {
                stream.write_all(&hello).unwrap();
            }
            crowd.push(stream);
        }
        signal(&crowded.child, "CONT");
        while connections(&crowded) < there + crowd.len() * 9 / 10 {}
    }
    let each = memory(&crowded.child).saturating_sub(before) / allowed as u64;
    println!("{allowed} connections of {each} bytes each");
    assert!(each < OF_STRANGER, "{each} bytes for each connection");

    // And some have asked for much, and do not take it.
    let big = places[1].path("big");
    std::fs::write(&big, vec![5; 40 << 20]).unwrap();
    crowded.ok(&places[1], &["put", big.to_str().unwrap(), "/big"]);
    let mut slow: Vec<Child> = (0..4)
        .map(|_| {
            let mut slow = crowded.command(&places[1], &["get", "/big", "-"]).spawn().unwrap();
            slow.stdout.as_mut().unwrap().read_exact(&mut [0]).unwrap();
            signal(&slow, "STOP");
            slow
        })
        .collect();

    let mut ratios = Vec::new();
    for turn in 0..5 {
        let mut times = [Vec::new(), Vec::new()];
        for nth in 0..READS {
            // The two in turns, so that whatever else the machine does is as bad for both.
            for (file, times) in readers.iter().zip(&mut times) {
                times.push(read(file, turn * READS + nth));
            }
            if nth % 100 == 0 {
                // Whoever was cut meanwhile takes nothing.
                let dripping = crowd.iter_mut().step_by(20);
                dripping.for_each(|stream| drop(stream.write(&hello[turn as usize..][..1])));
            }
        }
        let [calm, crowded] = &mut times;
        let [(half, half_calm), (p99, p99_calm)] =
            [50, 99].map(|percent| (within(crowded, percent), within(calm, percent)));
        println!("half within {half:?} and {half_calm:?} without them, 99 of 100 within {p99:?} and {p99_calm:?}");
        ratios.push((half.as_secs_f64() / half_calm.as_secs_f64(), p99.as_secs_f64() / p99_calm.as_secs_f64()));
        if ratios.iter().any(|(half, p99)| *half <= 1.5 && *p99 <= 2.0) {
            break;
        }
    }
    assert!(ratios.iter().any(|(half, p99)| *half <= 1.5 && *p99 <= 2.0), "{ratios:?}");
    // Nine of ten are there all the time.
    assert!(connections(&crowded) >= there + allowed * 9 / 10 - allowed / 10, "{}", connections(&crowded));
    // Who comes now is let in as well.
    let late = crowded.files(&crowded.key);
    read(&late.open("/x", uncached).unwrap(), 1);
    for slow in &mut slow {
        slow.kill().unwrap();
        slow.wait().unwrap();
    }
    drop((crowd, late));
    // And when they have gone, nothing of them is left.
    while connections(&crowded) > there + 10 {}
    drop((readers, clients));
    calm.stop();
    crowded.stop();
}
