//! The manager loses its disk again and again, also while nodes are away, and is made anew of what targets have: all that was answered is there.

use super::*;
use crate::seeds;
use forebay_env::Random;
use forebay_manager::recover::{Recovered, What};
use forebay_wire::control::cluster::AddNode;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

/// How often the manager loses its disk.
const ROUNDS: u32 = 3;

/// What was answered: directories, and files with their bytes.
struct Answered {
    random: Rc<dyn Random>,
    directories: BTreeSet<String>,
    files: BTreeMap<String, Vec<u8>>,
    names: u32,
}

impl Answered {
    fn below(&self, bound: usize) -> usize {
        self.random.below(bound as u64) as usize
    }

    /// A path that nothing has.
    fn fresh(&mut self) -> String {
        self.names += 1;
        let directory = self.directories.iter().nth(self.below(self.directories.len() + 1));
        format!("{}/n{}", directory.map_or("", |directory| directory), self.names)
    }

    /// Does something that is answered; with a node away, only with names.
    async fn work(&mut self, files: &Files, is_any_away: bool) {
        let path = self.fresh();
        let some = self.files.keys().nth(self.below(self.files.len().max(1))).cloned();
        match (self.below(if is_any_away { 3 } else { 6 }), some) {
            (0, _) => {
                files.make_directory(&path, 0o755).await.expect("it is made");
                self.directories.insert(path);
            }
            (1, Some(from)) => {
                files.rename(&from, &path, true).await.expect("it moves");
                let bytes = self.files.remove(&from).expect("it is there");
                self.files.insert(path, bytes);
            }
            (2, Some(gone)) => {
                files.remove(&gone).await.expect("it is removed");
                self.files.remove(&gone);
            }
            (3, Some(longer)) => {
                let bytes = self.files.get_mut(&longer).expect("it is there");
                let more = pattern(1 + self.random.below(60_000) as usize, self.random.next_u64());
                let file = files.open_to_write(&longer, beside()).await.expect("it opens");
                file.write_at(Bytes(bytes.len() as u64), Slice::from(more.clone())).await.expect("it is taken");
                file.close().await.expect("it is durable");
                bytes.extend(more);
            }
            _ if is_any_away => {}
            _ => {
                let bytes = pattern(self.below(150_000), self.random.next_u64());
                let raid = [Raid::Zero, Raid::One(2), Raid::Five][self.below(3)];
                let policy = Policy { raid, unit: Bytes::kib(16), targets: 4 };
                let file = files.create(&path, 0o644, Some(policy), Options::alone()).await.expect("a file");
                if !bytes.is_empty() {
                    file.write_at(Bytes::ZERO, Slice::from(bytes.clone())).await.expect("it is taken");
                }
                file.close().await.expect("it is durable");
                self.files.insert(path, bytes);
            }
        }
    }

    /// All of it is there, and nothing else.
    async fn check(&self, files: &Files) {
        let mut there = BTreeSet::new();
        for directory in self.directories.iter().map(String::as_str).chain([""]) {
            let of = if directory.is_empty() { "/" } else { directory };
            let (listed, more) = files.list(of, "").await.unwrap_or_else(|error| panic!("{of}: {error}"));
            assert!(!more, "all are listed");
            there.extend(listed.into_iter().map(|one| format!("{directory}/{}", one.name)));
        }
        let all: BTreeSet<String> = self.files.keys().chain(&self.directories).cloned().collect();
        assert_eq!(there, all);
        for (path, bytes) in &self.files {
            let file = files.open(path, beside()).await.unwrap_or_else(|error| panic!("{path}: {error}"));
            let read = file.read_at(Bytes::ZERO, Bytes::mib(4)).await.unwrap_or_else(|error| panic!("{path}: {error}"));
            assert!(&read == bytes, "{path}: other bytes");
            file.close().await.expect("it closes");
        }
    }
}

#[test]
fn outcome_45_whenever_the_manager_loses_its_disk_all_that_was_answered_is_there_once_it_was_made_anew() {
    seeds::each(40, |seed| {
        let world = Rc::new(World::new(seed));
        let mut spec = ClusterSpec { copies: true, ..spec(4 + (seed % 3) as u32) };
        spec.settings.node_timeout = Duration::from_secs(6);
        let cluster = Cluster::new(world.clone(), spec);
        // The first copy is there a moment after nodes have reported.
        world.run_for(Duration::from_secs(5));
        let random = world.random();
        let mut answered =
            Answered { random: random.clone(), directories: BTreeSet::new(), files: BTreeMap::new(), names: 0 };
        for round in 0..ROUNDS {
            let (_host, files) = cluster.client(&format!("writes{round}"));
            let mut away = None;
            for _ in 0..random.below(16) {
                // Copies move away from a node that is gone, and may not be whole elsewhere when the manager is lost.
                match away {
                    None if random.below(6) == 0 => {
                        let node = random.below(cluster.nodes.len() as u64) as usize;
                        cluster.crash_node(node);
                        away = Some(node);
                    }
                    Some(node) if random.below(4) == 0 => {
                        cluster.restart_node(node);
                        away = None;
                    }
                    _ => {}
                }
                let (files, is_any_away) = (files.clone(), away.is_some());
                answered = world.run(async move {
                    answered.work(&files, is_any_away).await;
                    answered
                });
                if random.below(3) == 0 {
                    world.run_for(Duration::from_millis(random.below(1500)));
                }
            }
            let recovered = cluster.wipe_manager();
            assert_eq!(recovered.findings, [], "seed {seed}, round {round}");
            // Once more, perhaps before anything was copied anew.
            if random.below(2) == 0 {
                world.run_for(Duration::from_millis(random.below(1500)));
                let recovered = cluster.wipe_manager();
                assert_eq!(recovered.findings, [], "seed {seed}, round {round}, once more");
            }
            let (_host, files) = cluster.client(&format!("reads{round}"));
            answered = world.run(async move {
                answered.check(&files).await;
                answered
            });
        }
    });
}

/// The power goes everywhere. Who waited for the manager asks before nodes are there, and while they are first heard of and have no keys
/// yet; a moment later all that was answered is in copies.
#[test]
fn what_is_answered_while_all_come_back_is_in_copies_a_moment_after_nodes_are_there() {
    let answered_meanwhile = Cell::new(0);
    seeds::each(12, |seed| {
        let world = Rc::new(World::new(seed));
        let cluster = Cluster::new(world.clone(), ClusterSpec { copies: true, ..spec(4) });
        world.run_for(Duration::from_secs(5));
        let random = world.random();
        cluster.crash_manager();
        (0..4).for_each(|node| cluster.crash_node(node));
        cluster.restart_manager();
        let (host, files) = cluster.client("waits");
        let made: Rc<RefCell<Vec<String>>> = Rc::default();
        host.env().spawner.detach({
            let (made, clock) = (made.clone(), world.clock());
            async move {
                for nth in 0.. {
                    let path = format!("/d{nth}");
                    match files.make_directory(&path, 0o755).await {
                        Ok(_) => made.borrow_mut().push(path),
                        Err(_) => clock.sleep(Duration::from_millis(20)).await,
                    }
                }
            }
        });
        world.run_for(Duration::from_millis(random.below(500)));
        let before = made.borrow().len();
        (0..4).for_each(|node| cluster.restart_node(node));
        answered_meanwhile.set(answered_meanwhile.get() + made.borrow().len() - before);
        world.run_for(Duration::from_millis(200));
        host.crash();
        let recovered = cluster.wipe_manager();
        assert_eq!(recovered.findings, [], "seed {seed}");
        let (_host, files) = cluster.client("reads");
        for path in made.take() {
            let files = files.clone();
            world.run(async move { files.stat(&path).await.unwrap_or_else(|error| panic!("{path}: {error}")) });
        }
    });
    assert!(!seeds::are_the_suites() || answered_meanwhile.get() > 12, "{}", answered_meanwhile.get());
}

#[test]
fn a_file_that_was_mended_before_anything_of_it_was_written_says_what_it_is_when_nothing_else_knows() {
    let world = Rc::new(World::new(45));
    let cluster = Cluster::new(world.clone(), spec(5));
    let (writer, keeper) = (cluster.client_machine("writer"), cluster.client_machine("keeper"));
    let (files, gone) = (writer.files.clone(), writer.control.client());
    let file = world.run(async move { files.create("/x", 0o640, None, beside()).await.expect("a file") });
    let number = file.entry().file;
    writer.host.crash();
    drop(file);
    let (files, control) = (keeper.files.clone(), keeper.control.clone());
    world.run(async move {
        control.change(Change::ClientGone(ClientGone { client: gone })).await.expect("root");
        // The fence makes what is not there, and does not know what it is part of.
        files.mend(number).await.expect("it is mended").expect("nobody has it");
        let file = files.open_to_write("/x", beside()).await.expect("it opens");
        file.write_at(Bytes::ZERO, Slice::from(pattern(300_000, 45))).await.expect("it is taken");
        file.close().await.expect("it is durable");
    });
    // Nothing was copied: all that is known of it is what its components say.
    let recovered = cluster.remade(|_| true);
    let found = recovered.findings.iter().find(|found| found.file == number && found.what == What::Unknown);
    assert!(found.is_some_and(|found| found.path.starts_with("/lost+found/")), "{:?}", recovered.findings);
}

/// The manager loses its disk, and nothing was copied: it is made anew of what targets have, those of this node left out. Who finds that has a
/// machine of its own.
fn without_copies(cluster: &Cluster, without: Option<usize>) -> (Recovered, ClientMachine) {
    let recovered = cluster.remade(|node| Some(node) != without);
    assert_eq!(recovered.at, None);
    cluster.restart_manager();
    let (finder, count) = (cluster.client_machine("finder"), cluster.nodes.len() as u64);
    let control = finder.control.clone();
    cluster.world().run(async move {
        // Of nodes, too, nothing is known.
        for node in 1..=count {
            control.change(Change::AddNode(AddNode { node, user: 0 })).await.expect("root");
        }
    });
    (0..cluster.nodes.len()).filter(|node| Some(*node) != without).for_each(|node| cluster.restart_node(node));
    (recovered, finder)
}

/// The same where one thing is found, which is given its name again.
pub(super) fn without_copies_as(cluster: &Cluster, without: Option<usize>, name: &'static str) {
    let (recovered, finder) = without_copies(cluster, without);
    let found: Vec<&str> =
        recovered.findings.iter().filter(|it| it.what == What::Unknown).map(|it| it.path.as_str()).collect();
    let [path] = found[..] else { panic!("there is one: {:?}", recovered.findings) };
    let (files, path) = (finder.files, path.to_string());
    cluster.world().run(async move { files.rename(&path, name, true).await.expect("it is there") });
}

/// Nobody says any more that the target has failed on which that was.
#[test]
fn of_files_of_which_no_copy_is_left_what_a_lost_target_had_is_made_of_the_others_as_far_as_these_are_enough() {
    let world = Rc::new(World::new(46));
    let cluster = Cluster::new(world.clone(), spec(7));
    let (_host, files) = cluster.client("writer");
    let raids = [Raid::Zero, Raid::One(2), Raid::Five];
    let written = world.run(async move {
        let mut written = Vec::new();
        for (raid, nth) in raids.into_iter().cycle().zip(0_u64..24) {
            let policy = Policy { raid, unit: Bytes::kib(16), targets: 4 };
            let file = files.create(&format!("/{nth}"), 0o644, Some(policy), Options::alone()).await.expect("a file");
            let bytes = pattern(200_000 + nth as usize, nth);
            file.write_at(Bytes::ZERO, Slice::from(bytes.clone())).await.expect("it is taken");
            written.push((file.entry().file, raid, bytes));
            file.close().await.expect("it is durable");
        }
        written
    });
    let lost = holder(&cluster, 4);
    let (recovered, machine) = without_copies(&cluster, Some(lost));
    let rebuilt: Rc<RefCell<Vec<FileId>>> = Rc::default();
    let (files, told) = (machine.files.clone(), rebuilt.clone());
    world.run(async move {
        files
            .rebuild_missing(move |file, done| {
                done.expect("there are enough targets");
                told.borrow_mut().push(file);
            })
            .await
            .expect("they are listed");
    });
    let lacking = |file: FileId| recovered.findings.iter().any(|it| it.file == file && it.what != What::Unknown);
    let (mut is_lost, mut is_whole) = (0, 0);
    for (file, raid, bytes) in written {
        let (files, path) = (machine.files.clone(), format!("/lost+found/file-{}", file.0));
        let read =
            world.run(async move { files.open(&path, beside()).await?.read_at(Bytes::ZERO, Bytes::mib(1)).await });
        let has_spare = raid != Raid::Zero;
        match read {
            Ok(read) => assert!(read == bytes && (has_spare || !lacking(file)), "{file} of {raid}"),
            Err(error) => assert!(!has_spare && lacking(file), "{file} of {raid}: {error}"),
        }
        assert_eq!(rebuilt.borrow().contains(&file), has_spare && lacking(file), "{file} of {raid}");
        (is_lost, is_whole) =
            (is_lost + u32::from(!has_spare && lacking(file)), is_whole + u32::from(has_spare && lacking(file)));
    }
    assert!(is_lost > 0 && is_whole > 0, "{is_lost} could not be made, {is_whole} were");
}
