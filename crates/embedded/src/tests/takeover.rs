//! The owner of a directory is killed while others record and read.

use super::{Seen, element, enter, fresh, read, spec, time};
use crate::member::own_while;
use crate::{Options, Within};
use forebay_client::{Event, Patience};
use forebay_model::{Cause, Error, Kind};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Where a process that is started by a test finds its directory.
const DIRECTORY: &str = "FOREBAY_TEST_DIRECTORY";

/// A process of its own that owns the directory, until it is killed or its input ends.
struct Owner(Child, BufReader<ChildStdout>);

impl Owner {
    fn start(dir: &Path) -> Owner {
        Owner::start_as(dir, "own_a_directory")
    }

    fn start_as(dir: &Path, what: &str) -> Owner {
        let name = format!("tests::takeover::{what}");
        let mut child = Command::new(std::env::current_exe().expect("this test"))
            .args(["--exact", &name, "--ignored", "--nocapture"])
            .env(DIRECTORY, dir)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let mut output = BufReader::new(child.stdout.take().expect("piped"));
        let told = output.by_ref().lines().map_while(Result::ok).any(|line| line.contains("owner is ready"));
        assert!(told, "the owner ended before it was ready");
        Owner(child, output)
    }

    fn kill(&mut self) {
        self.0.kill().expect("killed");
        self.0.wait().expect("dead");
    }

    /// Stops it (`STOP`) or lets it go on (`CONT`).
    fn signal(&self, name: &str) {
        let sent = Command::new("kill").arg(format!("-{name}")).arg(self.0.id().to_string()).status();
        assert!(sent.expect("kill can be run").success());
        while forebay_env::real::process::is_stopped(self.0.id()) != (name == "STOP") {}
    }

    fn end(mut self) {
        drop(self.0.stdin.take());
        self.1.read_to_string(&mut String::new()).expect("its last words");
        assert!(self.0.wait().expect("ended").success(), "the owner failed");
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        // It may have ended as it should.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test: what the process that [`Owner::start`] starts does.
#[test]
#[ignore = "started by other tests"]
fn own_a_directory() {
    let Some(dir) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let cluster = enter(&dir);
    println!("owner is ready");
    let mut input = Vec::new();
    std::io::stdin().read_to_end(&mut input).expect("the end of the input");
    cluster.close().expect("closed");
}

/// As `assert_eq`, in few words.
fn same_numbers(numbers: &[u32], want: Range<u32>) {
    if !numbers.iter().copied().eq(want.clone()) {
        let at = numbers.iter().zip(want.clone()).position(|(a, b)| *a != b);
        let at = at.unwrap_or(numbers.len().min(want.len()));
        panic!("{} elements where {want:?} was recorded; at {at} is {:?}", numbers.len(), numbers.get(at));
    }
}

/// Not a test: records for ever, and tells what it was told is durable.
#[test]
#[ignore = "started by other tests"]
fn own_and_record() {
    let Some(dir) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let cluster = enter(&dir);
    let mut recorder = cluster.recorder("/own").expect("recording");
    println!("owner is ready");
    let mut n = cluster.ring("/own").expect("status").next_sequence as u32;
    let mut told = 0;
    loop {
        recorder.element(time(n), &[&element(n, 40 + n as usize % 900)], &[]).expect("room");
        n += 1;
        recorder.tick().expect("going on");
        let durable = recorder.progress().durable_sequence;
        if durable > told {
            told = durable;
            println!("durable {durable}");
        }
    }
}

/// Everything so far is there once, in order, and only restarts are gaps.
fn check(seen: &Seen, recorded: u32, sessions: usize) {
    let numbers: Vec<u32> = seen.elements.iter().map(|(_, n, _)| *n).collect();
    same_numbers(&numbers, 0..recorded);
    assert!(seen.elements.iter().all(|(sequence, n, _)| *sequence == u64::from(*n)));
    assert!(seen.gaps.iter().all(|gap| gap.cause == Cause::Restart), "{:?}", seen.gaps);
    assert_eq!(seen.gaps.len(), sessions - 1);
}

#[test]
fn a_killed_owner_costs_a_guest_nothing_that_it_records_or_reads() {
    let dir = fresh();
    {
        let cluster = enter(dir.path());
        cluster.create_ring(spec("/a")).expect("created");
        cluster.close().expect("closed");
    }
    let mut n = 0;
    for round in 1..=10 {
        let mut owner = Owner::start(dir.path());
        let cluster = enter(dir.path());
        assert_ne!(cluster.info().expect("info").process, std::process::id(), "this process is a guest");

        let begin = n;
        let mut tail = cluster.tail("/a", "").expect("a tail");
        let stopper = tail.stopper();
        let follower = std::thread::spawn(move || {
            let mut numbers = Vec::new();
            let result = tail.for_each(|event| {
                if let Event::Element { payload, .. } = event {
                    numbers.push(u32::from_le_bytes(payload[..4].try_into().expect("four bytes")));
                }
                Ok(numbers.last() != Some(&(begin + 899)))
            });
            result.map(|_| numbers)
        });

        let mut recorder = cluster.recorder("/a").expect("recording");
        let mut record = |recorder: &mut forebay_client::Recorder, count: u32| {
            for _ in 0..count {
                recorder.element(time(n), &[&element(n, 40 + n as usize % 900)], &[]).expect("room");
                recorder.tick().expect("going on");
                n += 1;
            }
        };
        record(&mut recorder, 300);
        if round % 2 == 0 {
            recorder.flush().expect("durable");
        }
        record(&mut recorder, 300);
        owner.kill();
        record(&mut recorder, 300);
        let progress = recorder.close().expect("all durable");
        assert_eq!(progress.durable_sequence, u64::from(n));
        assert_eq!(cluster.info().expect("info").process, std::process::id(), "this process took over");

        let followed = follower.join().expect("no panic");
        stopper.stop();
        same_numbers(&followed.expect("a tail"), begin..n);
        check(&read(&cluster, "/a", ""), n, round);
        cluster.close().expect("closed");
    }
}

#[test]
fn an_owner_that_ends_in_order_hands_over_to_its_guests() {
    let dir = fresh();
    let owner = Owner::start(dir.path());
    let cluster = enter(dir.path());
    cluster.create_ring(spec("/a")).expect("created");
    let mut recorder = cluster.recorder("/a").expect("recording");
    for n in 0..500 {
        recorder.element(time(n), &[&element(n, 700)], &[]).expect("room");
    }
    owner.end();
    for n in 500..1000 {
        recorder.element(time(n), &[&element(n, 700)], &[]).expect("room");
    }
    recorder.close().expect("all durable");
    check(&read(&cluster, "/a", ""), 1000, 1);
}

#[test]
fn everybody_goes_on_when_an_owner_that_records_is_killed() {
    let dir = fresh();
    {
        let cluster = enter(dir.path());
        for name in ["/own", "/a", "/b"] {
            cluster.create_ring(spec(name)).expect("created");
        }
        cluster.close().expect("closed");
    }
    let mut acknowledged = 0;
    for round in 1..=10_u32 {
        let mut owner = Owner::start_as(dir.path(), "own_and_record");
        let guests = ["/a", "/b"].map(|name| (name, enter(dir.path())));
        let dead = &AtomicBool::new(false);
        std::thread::scope(|scope| {
            for (name, cluster) in &guests {
                scope.spawn(move || {
                    let mut n = (round - 1) * 700;
                    let mut recorder = cluster.recorder(name).expect("recording");
                    let mut record = |recorder: &mut forebay_client::Recorder, count: u32| {
                        for _ in 0..count {
                            recorder.element(time(n), &[&element(n, 300)], &[]).expect("room");
                            n += 1;
                        }
                    };
                    record(&mut recorder, 200);
                    recorder.flush().expect("durable");
                    while !dead.load(Ordering::SeqCst) {
                        recorder.tick().expect("going on");
                    }
                    record(&mut recorder, 500);
                    recorder.close().expect("durable");
                });
            }
            // Killed at another moment in every round, but not before something was acknowledged.
            let mut lines = owner.1.by_ref().lines().map_while(Result::ok);
            let told = |line: String| line.strip_prefix("durable ").and_then(|n| n.parse::<u64>().ok());
            for _ in 0..=round {
                acknowledged = lines.by_ref().find_map(told).expect("more is durable");
            }
            owner.0.kill().expect("killed");
            acknowledged =
                owner.1.by_ref().lines().map_while(Result::ok).filter_map(told).last().unwrap_or(acknowledged);
            owner.0.wait().expect("dead");
            dead.store(true, Ordering::SeqCst);
        });
        for (name, cluster) in &guests {
            check(&read(cluster, name, ""), round * 700, round as usize);
        }
        let own = read(&guests[0].1, "/own", "");
        let first = own.elements.first().map_or(0, |(_, n, _)| *n);
        let numbers: Vec<u32> = own.elements.iter().map(|(_, n, _)| *n).collect();
        let last = first + numbers.len() as u32;
        same_numbers(&numbers, first..last);
        assert!(u64::from(last) >= acknowledged, "{last} where {acknowledged} were acknowledged");
        let owners = guests.iter().filter(|(_, c)| c.info().is_ok_and(|info| info.process == std::process::id()));
        assert_eq!(owners.count(), 2, "one took over, and serves the other");
    }
}

/// A target, locked from beside, as it is by the last I/O of an owner that was killed.
fn locked(dir: &Path) -> File {
    let target = File::open(dir.join("target.0")).expect("opened");
    target.lock().expect("locked");
    target
}

/// What the disk of a killed owner still does, until a guest tells that it waits for it.
static LAST_IO: Mutex<Option<File>> = Mutex::new(None);

#[test]
fn a_guest_goes_on_where_the_disk_of_a_killed_owner_still_works_for_long() {
    let dir = fresh();
    let mut owner = Owner::start(dir.path());
    let patience = Patience {
        notice: Duration::from_millis(1500),
        tell: |text| {
            if text.contains("I/O of one that was killed has not ended") {
                drop(LAST_IO.lock().expect("no panic").take());
            }
        },
        ..Patience::default()
    };
    let cluster = crate::open(dir.path(), Options { patience }).expect("welcome");
    cluster.create_ring(spec("/a")).expect("created");
    let mut recorder = cluster.recorder("/a").expect("recording");
    for n in 0..500 {
        recorder.element(time(n), &[&element(n, 700)], &[]).expect("room");
    }
    owner.kill();
    *LAST_IO.lock().expect("no panic") = Some(locked(dir.path()));
    for n in 500..1000 {
        recorder.element(time(n), &[&element(n, 700)], &[]).expect("room");
    }
    recorder.close().expect("all durable");
    assert!(LAST_IO.lock().expect("no panic").is_none(), "it took over while the disk still worked");
    assert_eq!(cluster.info().expect("info").process, std::process::id(), "this process took over");
    check(&read(&cluster, "/a", ""), 1000, 1);
    cluster.close().expect("closed");
}

#[test]
fn who_is_to_own_a_directory_waits_for_a_disk_that_still_works_as_long_as_it_wishes() {
    let dir = fresh();
    let mut working = Some(locked(dir.path()));
    let refused = own_while(dir.path(), Within::default(), &mut |_| false).err().expect("in use");
    assert_eq!(refused.kind, Kind::Busy, "{refused}");
    assert!(refused.message.contains("target.0") && refused.message.contains("wait until"), "{refused}");
    let mut ends = |_: &Error| {
        drop(working.take());
        true
    };
    own_while(dir.path(), Within::default(), &mut ends).expect("its own").close().expect("closed");
}

/// What was told of silence.
static TOLD: Mutex<Vec<String>> = Mutex::new(Vec::new());

#[test]
fn an_owner_that_is_stopped_is_told_of_and_not_waited_for_for_ever() {
    let dir = fresh();
    let owner = Owner::start(dir.path());
    let pid = owner.0.id().to_string();
    let patience = Patience {
        notice: Duration::from_millis(1500),
        limit: Duration::from_millis(3000),
        tell: |text| TOLD.lock().expect("no panic").push(text.to_string()),
    };
    let guest = || crate::open(dir.path(), Options { patience });
    let cluster = guest().expect("welcome");
    cluster.create_ring(spec("/a")).expect("created");
    let mut recorder = cluster.recorder("/a").expect("recording");
    recorder.element(time(0), &[&element(0, 100)], &[]).expect("room");
    recorder.flush().expect("durable");
    let mut tail = cluster.tail("/a", "").expect("following");
    let canceller = cluster.tail("/a", "").expect("following");

    // Silence of one that is there is no silence: nothing comes for longer than is borne.
    let (came, first) = std::sync::mpsc::channel();
    let following = std::thread::spawn(move || {
        came.send(tail.next_batch().map(|batch| batch.map(|batch| batch.items.len()))).expect("awaited");
        tail.next_batch().map(drop)
    });
    let quiet = Instant::now();
    while quiet.elapsed() < patience.limit + patience.notice {
        recorder.tick().expect("going on");
        std::thread::yield_now();
    }
    assert_eq!(*TOLD.lock().expect("no panic"), [""; 0]);
    recorder.element(time(1), &[&element(1, 100)], &[]).expect("room");
    recorder.flush().expect("durable");
    assert_eq!(first.recv().expect("no panic").expect("an element"), Some(1));

    owner.signal("STOP");
    let gives_up = |error: Error| {
        assert_eq!(error.kind, Kind::Busy, "{error}");
        assert!(error.message.contains(&pid) && error.message.contains("is stopped"), "{error}");
    };
    gives_up(cluster.status().expect_err("nobody answers"));
    gives_up(guest().err().expect("nobody answers"));
    assert!(TOLD.lock().expect("no panic").iter().any(|text| text.contains(&pid) && text.contains("kill -CONT")));
    gives_up(following.join().expect("no panic").expect_err("nobody answers"));
    // One that is called off ends soon, though nobody hears of it.
    let mut cancelled = canceller;
    cancelled.stopper().stop();
    while cancelled.next_batch().expect("it ends in order").is_some() {}

    // What records goes on; who waits for it to be durable is told, and may wait once more.
    recorder.element(time(2), &[&element(2, 100)], &[]).expect("room");
    gives_up(recorder.flush().expect_err("nobody makes it durable"));
    owner.signal("CONT");
    recorder.element(time(3), &[&element(3, 100)], &[]).expect("room");
    while let Err(error) = recorder.flush() {
        assert_eq!(error.kind, Kind::Busy, "{error}");
    }
    recorder.close().expect("durable");
    let numbers: Vec<u32> = read(&cluster, "/a", "").elements.iter().map(|(_, n, _)| *n).collect();
    same_numbers(&numbers, 0..4);
    cluster.close().expect("closed");
    owner.end();
}
