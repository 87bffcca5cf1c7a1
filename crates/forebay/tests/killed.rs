//! Processes are killed again and again, at named points and at any moment: what they said is so, and the next goes on.
//! Outcome 21 of the list in `docs/promises/ring.md`.
//!
//! Each life is a process, or two on one directory: the first of them owns the targets, the other is its guest. They
//! record as fast as they can, and create, delete, pin and unpin, and say before and after each what they do. The test
//! kills one at a point of its choice and some time later, lets the other go on if there is one, kills that too, and
//! looks; or it does not look, so that the next life finds what this one left.

// A test drives real processes on real files.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

mod common;

use common::{Dice, Place, itself, pass, said};
use forebay_client::{Cluster, Event, Recorder};
use forebay_embedded::{Options, open};
use forebay_model::ring::{Overflow, RingSpec, RingState, RingStatus};
use forebay_model::{Bytes, Cause, Kind, Profile, Rate};
use forebay_sim::seeds;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Where a process that is started by a test finds its directory, which of two it is, its chance, and after how many
/// steps it closes.
const DIRECTORY: &str = "FOREBAY_TEST_DIRECTORY";
const STEPS: &str = "FOREBAY_TEST_STEPS";
const ROLE: &str = "FOREBAY_TEST_ROLE";
const CHANCE: &str = "FOREBAY_TEST_CHANCE";

/// What a process says before it does it. It is killed at each of them, and sometime after. Segments are sealed, and
/// old ones overwritten, all the time.
const POINTS: [&str; 9] =
    ["started", "opening", "open", "creating", "pinning", "unpinning", "deleting", "durable", "closing"];
/// So fast do they record: a ring is gone round in a second, and there is time for others.
const RATE: Rate = Rate::mb(4);
/// Whoever waits longer than this waits for nothing. (That opening takes no longer than promised is shown in virtual time;
/// here it is measured and printed.)
const PATIENCE: Duration = Duration::from_secs(120);

/// Element number `n` of a ring.
fn element(role: u64, n: u64) -> Vec<u8> {
    let mut bytes = n.to_le_bytes().to_vec();
    bytes.resize(40 + n as usize % 900, (n ^ (role << 7)) as u8);
    bytes
}

fn ring_of(role: u64) -> String {
    format!("/p{role}")
}

fn small(name: &str) -> RingSpec {
    RingSpec {
        block: Bytes::kib(16),
        segment: Bytes::kib(256),
        flush_interval: Duration::from_millis(20),
        overflow: Overflow::Block,
        keys: vec!["id=u32le@0".into()],
        ..RingSpec::new(name, Bytes::mib(4))
    }
}

/// Not a test: the process that is killed. It says what it does, a line each, and what came of it.
#[test]
#[ignore = "started by other tests"]
fn live_until_killed() {
    let Some(dir) = std::env::var_os(DIRECTORY).map(PathBuf::from) else { return };
    let number = |name: &str| std::env::var(name).unwrap().parse::<u64>().unwrap();
    let (role, mut dice) = (number(ROLE), Dice(number(CHANCE)));
    println!("! opening");
    let cluster = open(&dir, Options::default()).unwrap();
    println!("! open");
    let own = ring_of(role);
    if !cluster.status().unwrap().iter().any(|ring| ring.spec.name == own) {
        println!("! creating {own}");
        cluster.create_ring(small(&own)).unwrap();
        println!("! created {own}");
    }
    let recording = {
        let cluster = cluster.clone();
        std::thread::spawn(move || record_for_ever(&cluster, role))
    };
    for step in 0..number(STEPS) {
        assert!(!recording.is_finished(), "it goes on as long as it lives");
        take_step(&cluster, role, step, &mut dice);
    }
    println!("! closing");
    cluster.close().unwrap();
    println!("! closed");
}

/// One change of the catalog by chance.
fn take_step(cluster: &Cluster, role: u64, step: u64, dice: &mut Dice) {
    let own = ring_of(role);
    let spare = format!("/x{role}.");
    let pins = cluster.pins(&own).unwrap();
    let spares = cluster.status().unwrap().into_iter().filter(|ring| ring.spec.name.starts_with(&spare));
    let spares: Vec<String> = spares.map(|ring| ring.spec.name).collect();
    match dice.below(4) {
        0 if spares.len() < 4 => {
            let name = format!("{spare}{}.{step}", std::process::id());
            println!("! creating {name}");
            cluster.create_ring(small(&name)).unwrap();
            println!("! created {name}");
        }
        1 if !spares.is_empty() => {
            let name = &spares[dice.below(spares.len() as u64) as usize];
            println!("! deleting {name}");
            cluster.delete_ring(name).unwrap();
            println!("! deleted {name}");
        }
        2 if pins.len() < 3 => {
            println!("! pinning");
            let now = cluster.wall();
            match cluster.pin(&own, "", now.before(Duration::from_millis(1)), now) {
                Ok(pinned) => {
                    println!("! pinned {} {} {}", pinned.pin.id, pinned.pin.first_sequence, pinned.pin.end_sequence)
                }
                // Nothing was recorded in that time, or too much is pinned.
                Err(error) => {
                    assert!(matches!(error.kind, Kind::Refused | Kind::Missing | Kind::Usage | Kind::Full), "{error}");
                    println!("! unpinned none");
                }
            }
        }
        _ => {
            let Some(pin) = pins.first() else { return };
            println!("! unpinning {}", pin.id);
            cluster.unpin(&own, pin.id).unwrap();
            println!("! unpinned {}", pin.id);
        }
    }
}

/// Records from where the ring goes on, and says what is durable.
fn record_for_ever(cluster: &Cluster, role: u64) {
    let own = ring_of(role);
    let mut recorder = cluster.recorder(&own).unwrap();
    let mut n = settled(cluster, &own).next_sequence;
    let mut told = 0;
    let (began, mut bytes) = (Instant::now(), Bytes::ZERO);
    loop {
        let put = if RATE.time_for(bytes) < began.elapsed() {
            bytes += Bytes(element(role, n).len() as u64);
            n += 1;
            put(&mut recorder, cluster, role, n - 1)
        } else {
            recorder.tick()
        };
        if put.is_err() {
            // It is closing.
            return;
        }
        let durable = recorder.progress().durable_sequence;
        if durable > told {
            told = durable;
            println!("! durable {durable}");
        }
    }
}

fn put(recorder: &mut Recorder, cluster: &Cluster, role: u64, n: u64) -> forebay_model::Result<()> {
    recorder.element(cluster.wall(), &[&element(role, n)], &[])?;
    recorder.tick()
}

/// The ring, when it has found its tail.
fn settled(cluster: &Cluster, name: &str) -> RingStatus {
    let began = Instant::now();
    loop {
        let ring = cluster.ring(name).unwrap();
        if ring.state != RingState::Recovering {
            return ring;
        }
        assert!(began.elapsed() < PATIENCE, "{name} does not find its tail");
    }
}

/// What has to be so, by what the processes said.
#[derive(Debug, Default)]
struct Said {
    rings: BTreeSet<String>,
    /// By role: how far the ring is durable.
    durable: BTreeMap<u64, u64>,
    /// By role and id: the elements that it holds.
    pins: BTreeMap<(u64, u64), (u64, u64)>,
    /// Under way when a process was killed.
    maybe_rings: BTreeSet<String>,
    maybe_pins: usize,
    maybe_unpinned: BTreeSet<(u64, u64)>,
    /// Kills in the middle of something.
    within: usize,
    /// How long the next took at most to open, to read all and to record on.
    slowest: Duration,
}

impl Said {
    /// Takes in all that a process said up to its end.
    fn take(&mut self, role: u64, lines: &[String]) {
        let mut doing: Option<Vec<&str>> = None;
        for line in lines {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            match words[0] {
                "durable" => {
                    let durable = self.durable.entry(role).or_default();
                    *durable = number(1).max(*durable);
                    continue;
                }
                "creating" | "pinning" | "closing" | "opening" => {}
                "deleting" => {
                    self.rings.remove(words[1]);
                }
                "unpinning" => {
                    self.pins.remove(&(role, number(1)));
                }
                "created" => {
                    self.rings.insert(words[1].to_owned());
                }
                "pinned" => {
                    self.pins.insert((role, number(1)), (number(2), number(3)));
                }
                "deleted" | "unpinned" | "closed" | "open" | "started" => {}
                other => panic!("a process said '{other}'"),
            }
            doing = words[0].ends_with("ing").then_some(words);
        }
        let Some(doing) = doing else { return };
        self.within += 1;
        match doing[0] {
            "creating" | "deleting" => {
                self.maybe_rings.insert(doing[1].to_owned());
            }
            "pinning" => self.maybe_pins += 1,
            "unpinning" => {
                self.maybe_unpinned.insert((role, doing[1].parse().unwrap()));
            }
            _ => {}
        }
    }

    /// Holds the cluster against it. What was under way is afterwards known.
    fn check(&mut self, dir: &Path) {
        let began = Instant::now();
        let cluster = open(dir, Options::default()).unwrap();
        let rings: BTreeSet<String> = cluster.status().unwrap().into_iter().map(|ring| ring.spec.name).collect();
        let gone: Vec<_> = self.rings.difference(&rings).collect();
        assert!(gone.is_empty(), "created and gone: {gone:?}");
        let back: Vec<_> = rings.difference(&self.rings).filter(|name| !self.maybe_rings.contains(*name)).collect();
        assert!(back.is_empty(), "deleted and there: {back:?}");
        let mut strangers = 0;
        for role in 0..2 {
            if rings.contains(&ring_of(role)) {
                strangers += self.check_ring(&cluster, role, began);
            }
        }
        assert!(strangers <= self.maybe_pins, "{strangers} pins that nobody asked for");
        cluster.close().unwrap();
        self.rings = rings;
        self.maybe_rings.clear();
        self.maybe_unpinned.clear();
        self.maybe_pins = 0;
    }

    /// How many pins are there that were not acknowledged.
    fn check_ring(&mut self, cluster: &Cluster, role: u64, began: Instant) -> usize {
        let name = ring_of(role);
        let ring = settled(cluster, &name);
        let next = ring.next_sequence;
        let durable = self.durable.get(&role).copied().unwrap_or(0);
        assert!(next >= durable, "{name}: {durable} were durable, and it goes on at {next}");
        // All of it is there or has expired, none is torn, and none is of another place.
        let mut at = 0;
        let mut kept = Vec::new();
        let mut bytes = 0;
        let mut answer = cluster.query(&name, "seq >= 0").unwrap();
        let visited = answer.for_each(|event| {
            match event {
                Event::Element { sequence, payload, .. } => {
                    assert_eq!(sequence, at, "{name}: what comes next");
                    assert!(payload == element(role, at), "{name}: element {at} is another");
                    kept.push(at);
                    bytes += payload.len() as u64;
                    at += 1;
                }
                Event::Expired { from, to } => {
                    assert_eq!(from, at, "{name}: what comes next");
                    at = to;
                }
                Event::Gap(gap) => assert_eq!((gap.cause, gap.count), (Cause::Restart, None), "{name}: {gap}"),
            }
            Ok(true)
        });
        visited.unwrap();
        assert_eq!(at, next, "{name}: up to its end");
        let overwritten = next - kept.len() as u64;
        assert!(overwritten == 0 || bytes > ring.spec.capacity.0 / 2, "{name}: {overwritten} expired, {bytes} kept");
        // By its key, too.
        if let Some(last) = kept.last() {
            let mut found = Vec::new();
            let mut answer = cluster.query(&name, &format!("id = {last}")).unwrap();
            answer
                .for_each(|event| {
                    if let Event::Element { sequence, .. } = event {
                        found.push(sequence);
                    }
                    Ok(true)
                })
                .unwrap();
            assert_eq!(found, [*last], "{name}: by its index");
        }
        let pins: BTreeMap<u64, (u64, u64)> =
            ring.pins.iter().map(|pin| (pin.id, (pin.first_sequence, pin.end_sequence))).collect();
        for ((_, id), (first, end)) in self.pins.iter().filter(|((of, _), _)| *of == role) {
            assert!(pins.contains_key(id), "{name}: pin {id} is gone");
            let held = kept.iter().filter(|n| (first..end).contains(n)).count() as u64;
            // What it was to hold and what had not come yet when the process was killed never was.
            assert_eq!(held, (*end).min(next) - (*first).min(next), "{name}: pin {id} of {first}..{end}");
        }
        let known = |id: &u64| self.pins.contains_key(&(role, *id)) || self.maybe_unpinned.contains(&(role, *id));
        let strangers = pins.keys().filter(|id| !known(id)).count();
        self.pins.retain(|(of, _), _| *of != role);
        self.pins.extend(pins.into_iter().map(|(id, held)| ((role, id), held)));
        // It goes on.
        let mut recorder = cluster.recorder(&name).unwrap();
        for n in next..next + 10 {
            put(&mut recorder, cluster, role, n).unwrap();
        }
        let progress = recorder.close().unwrap();
        assert_eq!(progress.durable_sequence, next + 10, "{name}: what came after the kill");
        self.slowest = self.slowest.max(began.elapsed());
        self.durable.insert(role, next + 10);
        strangers
    }
}

fn is_about(line: &str, point: &str) -> bool {
    line.split(' ').next() == Some(point)
}

/// A process that will be killed.
struct Life {
    role: u64,
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
    said: Receiver<String>,
    reader: Option<std::thread::JoinHandle<()>>,
}

impl Life {
    fn begin(dir: &Path, role: u64, chance: u64, steps: u64) -> Life {
        let mut child = itself("live_until_killed")
            .envs([(DIRECTORY, dir.as_os_str().to_owned()), (ROLE, role.to_string().into())])
            .envs([(CHANCE, chance.to_string()), (STEPS, steps.to_string())])
            .stdin(Stdio::null())
            .spawn()
            .unwrap();
        let (tell, heard): (Sender<String>, _) = channel();
        let lines = Arc::new(Mutex::new(vec!["started".to_owned()]));
        tell.send("started".to_owned()).unwrap();
        let all = lines.clone();
        let reader = said(child.stdout.take().unwrap(), move |line| {
            all.lock().unwrap().push(line.to_owned());
            let _ = tell.send(line.to_owned());
        });
        Life { role, child, lines, said: heard, reader: Some(reader) }
    }

    /// Waits until it says `point`, if it has not said so before.
    fn wait_for(&self, point: &str) {
        if !self.lines.lock().unwrap().iter().any(|line| is_about(line, point)) {
            self.hear(point);
        }
    }

    /// Waits until it says `point` from now on.
    fn wait_for_next(&self, point: &str) {
        while self.said.try_recv().is_ok() {}
        self.hear(point);
    }

    fn hear(&self, point: &str) {
        let began = Instant::now();
        loop {
            match self.said.recv_timeout(PATIENCE.saturating_sub(began.elapsed())) {
                Ok(line) if is_about(&line, point) => return,
                Ok(_) => {}
                // It closed before it came to this.
                Err(RecvTimeoutError::Disconnected) => return,
                Err(RecvTimeoutError::Timeout) => {
                    let last = self.lines.lock().unwrap().last().cloned();
                    panic!("process {} does not come to '{point}': {last:?}", self.role)
                }
            }
        }
    }

    /// Kills it; all that it said.
    fn kill(mut self) -> (u64, Vec<String>) {
        // It may have closed.
        let _ = self.child.kill();
        let ended = self.child.wait().unwrap();
        self.reader.take().unwrap().join().unwrap();
        let lines = std::mem::take(&mut *self.lines.lock().unwrap());
        assert!(ended.code().is_none_or(|code| code == 0), "process {} failed after {:?}", self.role, lines.last());
        (self.role, lines)
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        // Where a test fails.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Has the cluster take its disk for one without an arm, so that changes of the catalog do not wait for a pause.
fn as_flash(dir: &Path) {
    let cluster = open(dir, Options::default()).unwrap();
    let target = cluster.info().unwrap().targets[0].clone();
    cluster.set_profile(target.id, Profile::guess(target.size, false)).unwrap();
    cluster.close().unwrap();
}

#[test]
fn killed_at_any_moment_nothing_that_was_acknowledged_is_lost_and_the_next_goes_on() {
    let kills = Mutex::new((0, 0, Duration::ZERO));
    seeds::each(6, |seed| {
        let mut dice = Dice(seed);
        let place = Place::formatted("64MiB");
        let dir = place.cluster();
        as_flash(&dir);
        let mut said = Said::default();
        let mut killed = 0;
        for life in 0..9 {
            let point = POINTS[((seed + life) % POINTS.len() as u64) as usize];
            let steps = if point == "closing" { 5 + dice.below(20) } else { u64::MAX };
            let first = Life::begin(&dir, 0, dice.next(), steps);
            let later = dice.moment();
            if dice.below(2) == 0 {
                first.wait_for(point);
                pass(later);
                said.take_all([first.kill()]);
                killed += 1;
            } else {
                if dice.below(2) == 0 {
                    first.wait_for("open");
                }
                let second = Life::begin(&dir, 1, dice.next(), steps);
                let (victim, other) = if dice.below(2) == 0 { (first, second) } else { (second, first) };
                victim.wait_for(point);
                pass(later);
                let victim = victim.kill();
                if dice.below(3) > 0 {
                    // The other goes on, whoever had the targets.
                    other.wait_for_next("durable");
                }
                pass(dice.moment());
                said.take_all([victim, other.kill()]);
                killed += 2;
            }
            if dice.below(2) == 0 {
                said.check(&dir);
            }
        }
        said.check(&dir);
        assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
        let mut kills = kills.lock().unwrap();
        *kills = (kills.0 + killed, kills.1 + said.within, kills.2.max(said.slowest));
    });
    let (killed, within, slowest) = *kills.lock().unwrap();
    println!("{killed} kills, {within} of them in the middle of opening, closing or a change of the catalog");
    println!("ready again, all of it read, within {slowest:?}");
    assert!(seeds::is_replay() || killed >= 40, "only {killed} kills");
    assert!(seeds::is_replay() || within >= 10, "only {within} kills in the middle of something");
}

impl Said {
    fn take_all<const N: usize>(&mut self, lives: [(u64, Vec<String>); N]) {
        for (role, lines) in lives {
            self.take(role, &lines);
        }
    }
}

#[test]
fn a_killed_program_loses_nothing_that_it_said_is_on_disk() {
    let place = Place::formatted("256MiB");
    place.ok(&["ring", "create", "/r", "--capacity", "64MiB", "--flush-interval", "20ms"]);
    let mut dice = Dice(1);
    let mut durable = 0;
    for life in 0..4u64 {
        let mut recording = place.start(&["record", "/r", "--generate", "2MB/s,256", "--json"]);
        drop(recording.stdin.take());
        let mut lines = BufReader::new(recording.stdout.take().unwrap()).lines();
        // One report a second: kill it sometime after the first that says something is durable.
        let before = durable;
        while durable == before {
            let line = lines.next().expect("it records until it is killed").unwrap();
            let value: serde_json::Value = serde_json::from_str(&line).unwrap();
            durable = value["durable_sequence"].as_u64().unwrap().max(before);
        }
        pass(dice.moment() * 10);
        recording.kill().unwrap();
        recording.wait().unwrap();
        let kept = place.count("/r", "");
        let shown = place.ok(&["ring", "show", "/r", "--json"]);
        let ring: serde_json::Value = serde_json::from_str(shown.trim()).unwrap();
        let (first, next) = (ring["first_sequence"].as_u64().unwrap(), ring["next_sequence"].as_u64().unwrap());
        assert!(next >= durable, "life {life}: {durable} were durable, and {next} are known");
        assert_eq!(kept, next - first, "life {life}: the sequence has no holes");
        durable = next;
    }
    assert_eq!(place.ok(&["check"]).lines().last(), Some("Sound."));
}
