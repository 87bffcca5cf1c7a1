//! The life of a cluster, by chance: clients work on files of their own and on files that they share, while machines lose
//! their power, processes are killed, disks fail, networks part and come together, links are bad, the manager dies in the middle
//! of a commit, or loses its disk, and clients die in the middle of a write. Then everything is healed, and what has to hold is checked.
//!
//! Checked all the time: each operation ends in time, well or with an error that says that something was not there; what is
//! read is what may be there; what several clients do with cells of a file is linearizable. Checked at the end, beside a plain
//! model: all files can be recovered and are what was acknowledged; every client makes progress; parity and copies agree; files
//! are read while one node is gone; names and sizes are right; no memory is held and no object is left over; what was not
//! granted or was revoked is refused; disks are whole when all have lost their power.

mod chances;
mod faults;
pub(super) mod hand;
mod mend;
pub(super) mod model;
mod progress;
mod registers;
pub(super) mod rot;
mod shared;

use super::check::{agreement, authority, disks, memory, names, space};
use super::{ClientMachine, Cluster};
use crate::world::World;
pub use chances::Chances;
use faults::Faults;
use forebay_client::control::Control;
use forebay_client::file::components::is_lost;
use forebay_client::file::options::Sharing;
use forebay_client::files::Files;
use forebay_client::files::keep::Kept;
use forebay_client::files::rebuild::Rebuilt;
use forebay_env::Random;
use forebay_manager::Settings;
use forebay_model::layout::Raid;
use forebay_model::{Bytes, Kind, Rate, Result, TargetId};
use forebay_wire::control::files::OpenToRead;
use forebay_wire::control::names::{FileId, Place};
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Question, Reply};
use hand::{Common, DEADLINE, options};
use model::Owned;
use registers::{CELL, CELLS, Registers};
use shared::Shared;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

/// Rounds of recovering what is in doubt, a second each, before it is taken for stuck.
const ROUNDS: u32 = 30;
/// What lives have done, so that lives in which nothing happened count as nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Tally {
    /// Operations of clients.
    pub operations: u64,
    /// Operations that ended with an error, because something was not there.
    pub failed: u64,
    /// Flushes and closes that were answered.
    pub flushes: u64,
    /// Of these, cuts of a file.
    pub cuts: u64,
    /// Bytes written to files of one client.
    pub written: u64,
    /// Writes and appends to shared files.
    pub shared: u64,
    /// Reads and writes of cells that several clients use.
    pub cells: u64,
    /// Flushes and reads of files by clients that kept what they had written or read, beside others.
    pub kept: u64,
    /// Bytes read and compared.
    pub compared: u64,
    /// Files that were in doubt, and were recovered.
    pub recovered: u64,
    /// Faults.
    pub faults: u64,
    /// Commits in which the manager stopped.
    pub commits_cut: u64,
    /// Targets that stopped, because their disk failed.
    pub disks_failed: u64,
    /// Nodes that came back at another address.
    pub nodes_moved: u64,
    /// Managers that lost their disk, and were made anew.
    pub wiped: u64,
    /// Of these, without the targets of a node that was away.
    pub wiped_beside: u64,
    /// Clients that died.
    pub clients_lost: u64,
    /// Files read while a node was gone.
    pub degraded: u64,
    /// Files that clients left open.
    pub left: u64,
    /// Components that were given up, and rebuilt.
    pub rebuilt: u64,
    /// Components that were rebuilt beside all that happened.
    pub rebuilt_meanwhile: u64,
    /// Targets that were to drain for a while.
    pub drained: u64,
    /// Components that were moved to other targets.
    pub moved: u64,
    /// Files that were scrubbed.
    pub scrubbed: u64,
    /// Places on disks that changed or could not be read any more.
    pub rotten: u64,
    /// Objects on targets in the end.
    pub objects: u64,
    /// Time that passed in the lives, in seconds.
    pub seconds: u64,
    /// The longest that an operation took while there were faults.
    pub longest: Duration,
}

impl Tally {
    /// Adds another life's.
    pub fn add(&mut self, other: &Tally) {
        self.operations += other.operations;
        self.failed += other.failed;
        self.flushes += other.flushes;
        self.cuts += other.cuts;
        self.written += other.written;
        self.shared += other.shared;
        self.cells += other.cells;
        self.kept += other.kept;
        self.compared += other.compared;
        self.recovered += other.recovered;
        self.faults += other.faults;
        self.commits_cut += other.commits_cut;
        self.disks_failed += other.disks_failed;
        self.nodes_moved += other.nodes_moved;
        self.wiped += other.wiped;
        self.wiped_beside += other.wiped_beside;
        self.clients_lost += other.clients_lost;
        self.degraded += other.degraded;
        self.left += other.left;
        self.rebuilt += other.rebuilt;
        self.rebuilt_meanwhile += other.rebuilt_meanwhile;
        self.drained += other.drained;
        self.moved += other.moved;
        self.scrubbed += other.scrubbed;
        self.rotten += other.rotten;
        self.objects += other.objects;
        self.seconds += other.seconds;
        self.longest = self.longest.max(other.longest);
    }
}

/// Lives a life. What it did, and the trace of its world.
pub fn live(seed: u64, chances: Chances) -> (Tally, u64) {
    let extent = chances.extent();
    live_with(seed, chances, extent.settings(), |faults, random| {
        faults.cluster().world().run_for(Duration::from_millis(20 + random.below(extent.between)));
        if chances.drains {
            faults.drain();
        }
        faults.step();
    })
}

/// The same, with something else in each step.
fn live_with(
    seed: u64,
    chances: Chances,
    settings: Settings,
    step: impl Fn(&mut Faults<'_>, &dyn Random),
) -> (Tally, u64) {
    let world = Rc::new(World::new(seed));
    let random = world.random();
    let extent = chances.extent();
    let some = |(least, more): (u64, u64)| (least + random.below(more)) as usize;
    let (nodes, clients) = (some(extent.nodes), some(extent.clients));
    let spec = extent.cluster((nodes as u32, chances.targets), settings, chances.wipes);
    let cluster = Cluster::new(world.clone(), spec);
    let machine = cluster.client_machine("first");
    let common = Rc::new(Common {
        owned: (0..clients).map(|n| RefCell::new(Owned::new(format!("/c{n}")))).collect(),
        shared: (0..chances.shared).map(|n| RefCell::new(Shared::new(format!("/s{n}")))).collect(),
        registers: (0..chances.shared)
            .flat_map(|n| [Registers::new(format!("/r{n}"), false), Registers::new(format!("/k{n}"), true)])
            .map(RefCell::new)
            .collect(),
        extent,
        tally: RefCell::default(),
        deadline: Cell::new(DEADLINE),
        stop: Cell::new(false),
        rotten: Cell::new(false),
    });
    begin(&cluster, &machine, &common);
    let mut faults = Faults::new(&cluster, common.clone(), (nodes, clients), chances.wipes);
    for _ in 0..chances.steps {
        step(&mut faults, &*random);
    }
    faults.end_all();
    if chances.wipes {
        // Once at least, and perhaps while the others still find one another again.
        world.run_for(Duration::from_millis(random.below(5_000)));
        faults.wipe_manager();
        faults.end_all();
    }
    common.stop.set(true);
    let end = world.now() + 2 * common.deadline.get();
    while faults.clients.iter().any(|client| client.working.get()) {
        assert!(world.now() < end, "seed {seed}: a client is still at work");
        world.run_for(Duration::from_millis(200));
    }
    world.run_for(extent.healed);
    faults.return_all();
    healed(&cluster, &faults, &common);
    let mut tally = *common.tally.borrow();
    tally.seconds = world.now().0 / 1_000_000_000;
    (tally, world.trace())
}

/// A client that does for files what is done for them beside all that happens. It does all of it, as in a server.
fn keeper(cluster: &Cluster, common: &Rc<Common>, name: &str) -> ClientMachine {
    let keeper = cluster.client_machine(name);
    for care in [Care::Mend, Care::Rebuild, Care::Move, Care::Scrub] {
        keeper.host.env().spawner.detach(keep(keeper.files.clone(), common.clone(), care));
    }
    keeper
}

/// What is done for files.
#[derive(Clone, Copy)]
enum Care {
    /// What is left half written is mended.
    Mend,
    /// What was given up is made anew.
    Rebuild,
    /// What lies where nothing is to stay is moved.
    Move,
    /// What was not read for some seconds is.
    Scrub,
}

async fn keep(files: Files, common: Rc<Common>, care: Care) {
    let told = |_, kept: Result<Kept>| {
        let mut tally = common.tally.borrow_mut();
        match kept {
            Ok(Kept::Rebuilt(rebuilt)) if !common.stop.get() => {
                tally.rebuilt_meanwhile += u64::from(rebuilt.components);
            }
            Ok(Kept::Rebuilt(rebuilt)) => tally.rebuilt += u64::from(rebuilt.components),
            Ok(Kept::Mended(mended)) => {
                assert!(
                    mended.lost.is_empty() && (mended.repaired == Bytes::ZERO || common.rotten.get()),
                    "{mended:?}"
                );
                tally.left += 1;
            }
            Ok(Kept::Scrubbed(scrubbed)) => {
                assert!(scrubbed.lost.is_empty(), "{scrubbed:?}");
                // Only what rotted may need it, or what a client that is gone was just writing: whoever scrubs does not make
                // good what writes left behind.
                let may_be = common.rotten.get() || tally.clients_lost > 0;
                assert!(scrubbed.repaired == Bytes::ZERO || may_be, "{scrubbed:?}");
                tally.scrubbed += 1;
            }
            Ok(Kept::Moved(moved)) => tally.moved += u64::from(moved.components),
            // It is tried again.
            Err(_) => {}
        }
    };
    match care {
        Care::Mend => files.keep_mending(Duration::from_secs(3), told).await,
        Care::Rebuild => files.keep_rebuilding(Duration::from_secs(3), told).await,
        Care::Move => files.keep_moving(Duration::from_secs(1), Rate(0), told).await,
        Care::Scrub => files.keep_scrubbing(Duration::from_secs(3), common.extent.scrubbing(), told).await,
    }
}

/// What is there before the first fault.
fn begin(cluster: &Cluster, machine: &ClientMachine, common: &Rc<Common>) {
    let (files, common, random) = (machine.files.clone(), common.clone(), cluster.world().random());
    cluster.world().run(async move {
        for owned in &common.owned {
            let directory = owned.borrow().directory.clone();
            files.make_directory(&directory, 0o755).await.expect("nothing fails yet");
        }
        let shared = common.shared.iter().map(|shared| (shared.borrow().path.clone(), Bytes::kib(8)));
        let registers = common.registers.iter().map(|registers| (registers.borrow().path.clone(), CELL * 2));
        for (nth, (path, unit)) in shared.enumerate().chain(registers.enumerate()) {
            let has_parity = nth == 0 || common.extent.mixes && random.below(2) == 0;
            let raid = if has_parity { Raid::Five } else { Raid::One(2) };
            let policy = Policy { raid, unit, targets: 4 };
            let file =
                files.create(&path, 0o644, Some(policy), options(Sharing::Alone)).await.expect("nothing fails yet");
            file.close().await.expect("nothing fails yet");
        }
    });
}

/// Demands progress, and checks all that has to hold.
fn healed(cluster: &Cluster, faults: &Faults<'_>, common: &Rc<Common>) {
    let machine = cluster.client_machine("last");
    let world = cluster.world();
    let rounds = faults.clients.iter().zip(&common.owned);
    let rounds = rounds.map(|(client, owned)| {
        progress::round(client.machine.clone(), owned.borrow().directory.clone(), common.extent.round)
    });
    let rounds: Vec<_> = rounds.map(|round| world.spawner().spawn(round)).collect();
    rounds.into_iter().for_each(|round| world.run(round));
    for owned in &common.owned {
        settle(cluster, &machine, owned, common);
    }
    for shared in &common.shared {
        common.tally.borrow_mut().left += settle_shared(cluster, &machine, shared);
    }
    for registers in &common.registers {
        let path = registers.borrow().path.clone();
        let stat = machine.files.clone();
        let of = path.clone();
        let entry = world.run(async move { stat.stat(&of).await.expect("nothing fails any more") });
        common.tally.borrow_mut().left += recover(cluster, &machine, &path, entry.file);
        look_at(cluster, &machine.files, registers, "after everything was healed");
    }
    common.tally.borrow_mut().rebuilt += rebuild(cluster, &machine);
    world.run_for(common.extent.settled);
    let mut paths = Vec::new();
    for owned in &common.owned {
        let owned = owned.borrow();
        names::check(cluster, &machine, &owned);
        paths.extend(owned.names.keys().map(|name| owned.path(name)));
    }
    paths.extend(common.shared.iter().map(|shared| shared.borrow().path.clone()));
    paths.extend(common.registers.iter().map(|registers| registers.borrow().path.clone()));
    common.tally.borrow_mut().left += names::check_left(cluster, &machine);
    common.tally.borrow_mut().objects += space::check(cluster, &machine, &paths);
    for path in &paths {
        let (files, path) = (machine.files.clone(), path.clone());
        world.run(async move { agreement::check(&files, &path).await });
    }
    memory::check(cluster, 2 * (faults.clients.len() + 4));
    authority::check(cluster, &machine);
    rot(cluster, common);
    let lost = unserved(cluster, &machine);
    degraded(cluster, common, (&machine, &paths), &lost);
    disks::check(cluster, &lost);
}

/// Lists a client's directory, and recovers what is in doubt.
fn settle(cluster: &Cluster, machine: &ClientMachine, owned: &RefCell<Owned>, common: &Common) {
    let (files, directory) = (machine.files.clone(), owned.borrow().directory.clone());
    let (listed, _) =
        cluster.world().run(async move { files.list(&directory, "").await.expect("nothing fails any more") });
    let listed: BTreeMap<String, FileId> = listed.into_iter().map(|one| (one.name, one.file)).collect();
    owned.borrow_mut().listed(&listed).unwrap_or_else(|wrong| panic!("{wrong}"));
    let names = owned.borrow().names.clone();
    for (name, key) in names {
        let (path, file) = (owned.borrow().path(&name), listed[&name]);
        if owned.borrow().files[&key].in_doubt {
            common.tally.borrow_mut().left += recover(cluster, machine, &path, file);
            common.tally.borrow_mut().recovered += 1;
        }
        let found = read(cluster, &machine.files, &path).unwrap_or_else(|error| panic!("{path} is whole: {error:?}"));
        common.tally.borrow_mut().compared += found.len() as u64;
        let mut owned = owned.borrow_mut();
        let known = owned.files.get_mut(&key).expect("it has a name");
        known.found(found).unwrap_or_else(|wrong| panic!("{path} ({}): {wrong}", known.raid));
    }
}

fn settle_shared(cluster: &Cluster, machine: &ClientMachine, shared: &RefCell<Shared>) -> u64 {
    let (path, files) = (shared.borrow().path.clone(), machine.files.clone());
    let stat = path.clone();
    let entry = cluster.world().run(async move { files.stat(&stat).await.expect("nothing fails any more") });
    let mended = recover(cluster, machine, &path, entry.file);
    let found = read(cluster, &machine.files, &path).unwrap_or_else(|error| panic!("{path} is whole: {error:?}"));
    shared.borrow_mut().is(&found).unwrap_or_else(|wrong| panic!("{wrong}"));
    mended
}

/// Reads all cells, and checks everything that was done with them.
fn look_at(cluster: &Cluster, files: &Files, registers: &RefCell<Registers>, when: &str) {
    let path = registers.borrow().path.clone();
    let asked = registers.borrow_mut().moment();
    let mut found = read(cluster, files, &path).unwrap_or_else(|error| panic!("{path} is whole {when}: {error:?}"));
    // What was never written is not there, or zeros.
    found.resize((CELL * CELLS).0 as usize, 0);
    let mut registers = registers.borrow_mut();
    let could_be = registers.read(0, &found, asked).and_then(|()| registers.check());
    could_be.unwrap_or_else(|wrong| panic!("{when}: {wrong}"));
}

/// Recovers a file, which has to be done in a bounded time.
fn recover(cluster: &Cluster, machine: &ClientMachine, path: &str, file: FileId) -> u64 {
    let mut last = None;
    for _ in 0..ROUNDS {
        let machine = machine.clone();
        let clock = cluster.world().clock();
        let recovered =
            async move { hand::within(&clock, DEADLINE, "recover", mend::all_recovered(&machine, file)).await };
        match cluster.world().run(recovered) {
            Ok(mended) => return mended,
            Err(error) => last = Some(error),
        }
        cluster.world().run_for(Duration::from_secs(1));
    }
    panic!("{path} cannot be recovered: {last:?}");
}

/// Rebuilds all that was given up, which has to be done in a bounded time; how many components that were.
fn rebuild(cluster: &Cluster, machine: &ClientMachine) -> u64 {
    let (mut last, mut components) = (None, 0);
    // Clients that died have files open until they are given up.
    for _ in 0..3 * ROUNDS {
        let files = machine.files.clone();
        let (rebuilt, error) = cluster.world().run(async move {
            let (components, error) = (Cell::new(0), RefCell::new(None));
            let told = |file, rebuilt: Result<Rebuilt>| match rebuilt {
                Ok(rebuilt) => components.set(components.get() + u64::from(rebuilt.components)),
                Err(failed) => *error.borrow_mut() = Some((file, failed)),
            };
            files.rebuild_missing(told).await.expect("nothing fails any more");
            (components.get(), error.into_inner())
        });
        let left = cluster.degraded(machine);
        components += rebuilt;
        if left.is_empty() {
            return components;
        }
        last = Some((error, left));
        cluster.world().run_for(Duration::from_secs(1));
    }
    panic!("components cannot be rebuilt: {last:?}");
}

fn read(cluster: &Cluster, files: &Files, path: &str) -> Result<Vec<u8>> {
    let (files, path) = (files.clone(), path.to_string());
    cluster.world().run(async move { mend::read(&files, &path).await })
}

/// Harms what one target has, and lets scrubs make it good: whatever is taken away next, nothing of it is missing.
fn rot(cluster: &Cluster, common: &Common) {
    common.rotten.set(true);
    let world = cluster.world();
    let place = world.random().below(cluster.places().len() as u64) as usize;
    let node = cluster.node_of(place);
    cluster.crash_node(node);
    common.tally.borrow_mut().rotten += rot::harm(cluster, place, common);
    cluster.restart_node(node);
    world.run_for(common.extent.scrubbed);
}

/// The places of targets that cannot tell of their objects, as the manager knows: what rotted was where that begins.
fn unserved(cluster: &Cluster, machine: &ClientMachine) -> Vec<usize> {
    let targets = cluster.map(machine).targets;
    let is_unserved = |place: &usize| targets.iter().any(|t| t.target == cluster.target(*place) && t.failed.is_some());
    cluster.places().filter(is_unserved).collect()
}

/// Files of which a node has several components: where so few nodes were up that parts of a file had to share one.
fn crowded(cluster: &Cluster, machine: &ClientMachine, node: usize, paths: &[String]) -> BTreeSet<String> {
    let on_node: Vec<TargetId> =
        cluster.places().filter(|place| cluster.node_of(*place) == node).map(|place| cluster.target(place)).collect();
    let is_crowded = |path: &&String| {
        let (control, place) = (machine.control.clone(), Place::path(path.as_str()));
        let opened = cluster.world().run(control.ask(Question::OpenToRead(OpenToRead { place, cached: false })));
        let Ok(Reply::Grant(grant)) = opened else { panic!("{path} is there: {opened:?}") };
        grant.components.iter().filter(|component| on_node.contains(&component.target)).count() > 1
    };
    paths.iter().filter(|_| on_node.len() > 1).filter(is_crowded).cloned().collect()
}

/// Takes away one node, and reads everything that can do without it. If what is `lost` found no place elsewhere, it is that one.
fn degraded(cluster: &Cluster, common: &Rc<Common>, (machine, paths): (&ClientMachine, &[String]), lost: &[usize]) {
    let any = cluster.world().random().below(cluster.nodes.len() as u64) as usize;
    let node = if cluster.degraded(machine).is_empty() {
        any
    } else {
        lost.first().map_or(any, |place| cluster.node_of(*place))
    };
    let crowded = crowded(cluster, machine, node, paths);
    cluster.crash_node(node);
    let machine = cluster.client_machine("degraded");
    for owned in &common.owned {
        let owned = owned.borrow();
        for (name, key) in &owned.names {
            let (path, known) = (owned.path(name), &owned.files[key]);
            let found = read(cluster, &machine.files, &path);
            let found = match found {
                // It may lie there, and nothing is kept beside it; or too much of it does.
                Err(error)
                    if (known.raid == Raid::Zero || crowded.contains(&path))
                        && is_lost(&error)
                        && error.kind != Kind::Missing =>
                {
                    continue;
                }
                found => found.unwrap_or_else(|error| panic!("{path} ({}) without node {node}: {error:?}", known.raid)),
            };
            known.allows(&found).unwrap_or_else(|wrong| panic!("{path} ({}) without node {node}: {wrong}", known.raid));
            common.tally.borrow_mut().degraded += 1;
        }
    }
    for shared in common.shared.iter().filter(|shared| !crowded.contains(&shared.borrow().path)) {
        let path = shared.borrow().path.clone();
        let found = read(cluster, &machine.files, &path);
        let found = found.unwrap_or_else(|error| panic!("{path} without node {node}: {error:?}"));
        shared.borrow_mut().is(&found).unwrap_or_else(|wrong| panic!("without node {node}: {wrong}"));
        common.tally.borrow_mut().degraded += 1;
    }
    for registers in common.registers.iter().filter(|registers| !crowded.contains(&registers.borrow().path)) {
        look_at(cluster, &machine.files, registers, &format!("without node {node}"));
        common.tally.borrow_mut().degraded += 1;
    }
}

#[cfg(test)]
mod tests;
