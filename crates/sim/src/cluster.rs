//! Whole clusters in virtual time: a manager, nodes with targets on simulated disks, and clients, each on a machine of its own
//! in one simulated network. The very code that runs in reality; only the way to the manager is a simpler one.
//!
//! Processes are killed, and machines crash and come back: their tasks end, their connections are gone, their disks lose what
//! was not flushed, and the manager's engine keeps what was committed.

mod check;
mod control;
mod copies;
pub mod life;
mod wipe;

pub use control::SimControl;

use crate::disk::{DiskSpec, SimDisk};
use crate::network::{Host, LinkSpec, Network, NetworkSpec};
use crate::world::World;
use control::SimReports;
use copies::OverNetwork;
use forebay_client::control::Control;
use forebay_client::files::Files;
use forebay_client::nodes::{Nodes, PATIENCE};
use forebay_env::mailbox::mailbox;
use forebay_env::{Clock, Env, NetworkEnv};
use forebay_manager::copies::{Beside, Copies, Nowhere, OnTargets};
use forebay_manager::desk::{self, Desk};
use forebay_manager::{Engine, Manager, Memory, Principal, Settings};
use forebay_model::{Bytes, Moment, Profile, TargetId, Timestamp};
use forebay_node::network::{Bounds, Identity, Node, TargetDoor};
use forebay_target::{Objects, Target};
use forebay_wire::control::cluster::{AddNode, Map};
use forebay_wire::control::files::AskDegraded;
use forebay_wire::control::names::FileId;
use forebay_wire::control::volumes::Policy;
use forebay_wire::control::{Change, Question, Reply};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::time::Duration;

/// Where nodes and the manager listen on their machines.
const PORT: u16 = 7400;
/// How much is in flight to the manager from each node, in bytes.
const COPYING: usize = 4 << 20;
/// How often the manager is told that time passes.
const TICK: Duration = Duration::from_secs(1);
/// How long it may take until the manager has heard of a node that was started.
const SOON: Duration = Duration::from_secs(60);

/// What a cluster is made of.
#[derive(Clone)]
pub struct ClusterSpec {
    /// Nodes.
    pub nodes: u32,
    /// Targets of each, each on a disk of its own.
    pub targets: u32,
    /// Their disks.
    pub disk: DiskSpec,
    /// What the network is made of.
    pub network: NetworkSpec,
    /// The link of each node, and of the manager.
    pub node_link: LinkSpec,
    /// The link of each client.
    pub client_link: LinkSpec,
    /// How files are striped.
    pub policy: Policy,
    /// What nodes take on.
    pub bounds: Bounds,
    /// How long the manager waits for things.
    pub settings: Settings,
    /// How much is in flight to a client.
    pub credit: Bytes,
    /// Whether the manager keeps copies on targets.
    pub copies: bool,
}

/// A cluster in a world.
pub struct Cluster {
    world: Rc<World>,
    spec: ClusterSpec,
    network: Network,
    manager: ManagerMachine,
    nodes: Vec<NodeMachine>,
    clients: Cell<u64>,
    /// As its manager and its nodes know it.
    number: Cell<u128>,
}

struct ManagerMachine {
    host: Host,
    engine: RefCell<Memory>,
    /// Where the manager that runs is asked on its own machine.
    desk: RefCell<Option<Desk>>,
}

struct NodeMachine {
    host: Host,
    disks: Vec<(SimDisk, TargetId)>,
    process: Rc<RefCell<Option<Process>>>,
    /// By how much its wall clock is ahead, from when its process is started next.
    ahead: Cell<Duration>,
    /// Where it listens, from then on.
    port: Cell<u16>,
}

/// The clock of a machine that is set wrong.
struct SetWrong {
    clock: Rc<dyn Clock>,
    ahead: Duration,
    behind: Duration,
}

impl Clock for SetWrong {
    fn now(&self) -> Moment {
        self.clock.now()
    }

    fn wall(&self) -> Timestamp {
        self.clock.wall().after(self.ahead).before(self.behind)
    }

    fn sleep_until(&self, moment: Moment) -> Pin<Box<dyn Future<Output = ()>>> {
        self.clock.sleep_until(moment)
    }
}

impl NodeMachine {
    /// A machine with disks that were formatted.
    fn new(world: &World, network: &Network, spec: &ClusterSpec, disk: DiskSpec, number: u32) -> NodeMachine {
        let disks = (0..spec.targets).map(|_| formatted(world, disk.clone())).collect();
        let host = network.host(&format!("node{number}"), spec.node_link);
        NodeMachine { host, disks, process: Rc::default(), ahead: Cell::default(), port: Cell::new(PORT) }
    }

    /// Where its process is reached.
    fn address(&self) -> String {
        format!("{}:{}", self.host.name(), self.port.get())
    }
}

/// A disk, and the target that is on it.
fn formatted(world: &World, disk: DiskSpec) -> (SimDisk, TargetId) {
    let disk = world.disk(disk);
    let env = world.env(disk.clone());
    let target = world.run(async move {
        let geometry = env.device.geometry();
        let profile = Profile::guess(geometry.size, geometry.rotates);
        Target::format(env.clone(), profile).await.expect("a healthy disk is formatted");
        let (superblock, ..) = Target::inspect(env).await.expect("it was formatted");
        superblock.target
    });
    (disk, target)
}

/// The target on a disk, and all that it may touch.
async fn opened(machine: &NetworkEnv, disk: SimDisk) -> (Env, Rc<Target>) {
    let NetworkEnv { clock, random, spawner, .. } = machine.clone();
    let env = Env { device: Rc::new(disk.clone()), clock, random, spawner };
    while disk.is_busy() {
        // A kernel ends what it was given before the next process has the disk.
        env.clock.sleep(Duration::from_millis(1)).await;
    }
    let target = Target::open(env.clone()).await.expect("a target opens after any crash");
    (env, target)
}

/// What runs on a node's machine since the manager has heard of it.
#[derive(Clone)]
struct Process {
    node: Rc<Node>,
    targets: Vec<Rc<Target>>,
}

#[cfg(test)]
impl Process {
    /// The first of its targets.
    fn target(&self) -> &Rc<Target> {
        &self.targets[0]
    }
}

/// A client on a machine of its own, with the ways that its files go.
#[derive(Clone)]
pub struct ClientMachine {
    /// The machine.
    pub host: Host,
    /// Its ways to nodes.
    pub nodes: Nodes,
    /// Its way to the manager.
    pub control: Rc<SimControl>,
    /// Its files.
    pub files: Files,
}

impl Cluster {
    /// Formats the disks and starts everything; nodes have reported when this returns.
    pub fn new(world: Rc<World>, spec: ClusterSpec) -> Cluster {
        let first = spec.disk.clone();
        Cluster::with_first(world, spec, first)
    }

    /// The same, of which the first node has another disk than the others.
    pub fn with_first(world: Rc<World>, spec: ClusterSpec, first: DiskSpec) -> Cluster {
        let network = world.network(spec.network);
        let host = network.host("manager", spec.node_link);
        let mut engine = Memory::new();
        let number = 0xf0_4e_ba_11;
        let created = Manager::create(&mut engine, number, spec.policy, world.clock().wall(), &*world.random());
        created.expect("a fresh engine has no cluster");
        let manager = ManagerMachine { host, engine: RefCell::new(engine), desk: RefCell::default() };
        let disk = |number| if number == 0 { first.clone() } else { spec.disk.clone() };
        let nodes = (0..spec.nodes).map(|number| NodeMachine::new(&world, &network, &spec, disk(number), number));
        let nodes = nodes.collect();
        let (clients, number) = (Cell::new(1000), Cell::new(number));
        let cluster = Cluster { world, network, manager, nodes, clients, number, spec };
        cluster.start_manager();
        cluster.add_nodes();
        (0..cluster.nodes.len()).for_each(|node| cluster.start_node(node));
        cluster
    }

    /// Adds a node with an empty target; it has reported when this returns.
    #[cfg(test)]
    fn add_node(&mut self) -> usize {
        let index = self.nodes.len();
        let disk = self.spec.disk.clone();
        self.nodes.push(NodeMachine::new(&self.world, &self.network, &self.spec, disk, index as u32));
        let control = self.client_machine(&format!("adds{index}")).control;
        let change = Change::AddNode(AddNode { node: index as u64 + 1, user: 0 });
        let added = self.world.run(async move { forebay_client::control::Control::change(&*control, change).await });
        added.expect("the manager is there");
        self.start_node(index);
        index
    }

    /// A node loses its disk, and is started with an empty one; it has reported when this returns.
    #[cfg(test)]
    fn replace_disk(&mut self, index: usize) {
        self.crash_node(index);
        self.nodes[index].disks[0] = formatted(&self.world, self.spec.disk.clone());
        self.restart_node(index);
    }

    /// The world it is in.
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The network.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// A node's machine.
    fn node_host(&self, node: usize) -> &Host {
        &self.nodes[node].host
    }

    /// The manager's machine.
    fn manager_host(&self) -> &Host {
        &self.manager.host
    }

    /// Disks of all nodes. Each has its place among them: that of its node, where nodes have one.
    fn places(&self) -> std::ops::Range<usize> {
        0..self.nodes.len() * self.spec.targets as usize
    }

    /// The node in which a place is.
    fn node_of(&self, place: usize) -> usize {
        place / self.spec.targets as usize
    }

    /// Which one of its node's a place is.
    fn nth_of(&self, place: usize) -> usize {
        place % self.spec.targets as usize
    }

    fn at(&self, place: usize) -> &(SimDisk, TargetId) {
        &self.nodes[self.node_of(place)].disks[self.nth_of(place)]
    }

    /// The disk at a place.
    fn disk(&self, place: usize) -> &SimDisk {
        &self.at(place).0
    }

    /// The target at a place.
    pub(crate) fn target(&self, place: usize) -> TargetId {
        self.at(place).1
    }

    /// A node, while it runs.
    fn node(&self, node: usize) -> Option<Rc<Node>> {
        self.nodes[node].process.borrow().as_ref().map(|process| process.node.clone())
    }

    /// What the target at a place has, while its node runs.
    fn objects(&self, place: usize) -> Option<Rc<Objects>> {
        let process = self.nodes[self.node_of(place)].process.borrow();
        process.as_ref().map(|process| process.targets[self.nth_of(place)].objects().clone())
    }

    /// Whether the target at a place has stopped, because its disk failed.
    fn has_stopped(&self, place: usize) -> bool {
        let process = self.nodes[self.node_of(place)].process.borrow();
        process.as_ref().is_some_and(|process| process.targets[self.nth_of(place)].disk().failure().is_some())
    }

    /// Starts the manager on what its engine has.
    fn start_manager(&self) {
        let env = self.manager.host.env();
        let (errands, mut receiver) = mailbox();
        let desk = Desk::new(errands);
        *self.manager.desk.borrow_mut() = Some(desk.clone());
        let engine = self.manager.engine.borrow().clone();
        let settings = self.spec.settings.clone();
        env.spawner.detach({
            let (env, desk) = (env.clone(), desk.clone());
            async move {
                while desk.tick() {
                    env.clock.sleep(TICK).await;
                }
            }
        });
        env.spawner.detach(control::listen(env.clone(), PORT, desk));
        let beside: Rc<dyn Beside> = match self.spec.copies {
            true => Rc::new(OnTargets::new(OverNetwork(Nodes::new(env.clone(), COPYING, PATIENCE)))),
            false => Rc::new(Nowhere),
        };
        let clock = env.clock.clone();
        let random = env.random.clone();
        env.spawner.detach(async move {
            // It may crash already in the commit of its opening.
            if let Ok(mut manager) = Manager::open(Box::new(engine), random, settings) {
                let mut copies = Copies::new(beside, clock.clone());
                drop(desk::serve(&mut manager, clock, &mut receiver, &mut copies).await);
            }
        });
    }

    /// The manager's machine stops, and loses what was not committed.
    fn crash_manager(&self) {
        self.manager.host.crash();
        self.reopen_engine();
    }

    /// The manager's process is killed, and what was not committed is lost.
    fn kill_manager(&self) {
        self.manager.host.kill();
        self.reopen_engine();
    }

    /// The engine as the next manager finds it.
    fn reopen_engine(&self) {
        let engine = self.manager.engine.borrow().reopened();
        *self.manager.engine.borrow_mut() = engine;
    }

    /// The manager's machine is up again.
    fn restart_manager(&self) {
        self.manager.host.restart();
        self.start_manager();
    }

    /// Makes all nodes known.
    fn add_nodes(&self) {
        let control = self.control();
        let count = self.nodes.len() as u64;
        self.world.run(async move {
            for node in 1..=count {
                let change = Change::AddNode(AddNode { node, user: 0 });
                forebay_client::control::Control::change(&*control, change).await.expect("the manager is there");
            }
        });
    }

    /// The `nth` commit of the manager from now on does not return: the first `kept` of its transactions are durable, and the
    /// manager answers nothing more until its machine was crashed and restarted.
    fn crash_manager_in_commit(&self, nth: u64, kept: usize) {
        self.manager.engine.borrow().crash_at(nth, kept);
    }

    /// Whether the manager has come to a commit that does not return.
    fn manager_is_cut(&self) -> bool {
        self.manager.engine.borrow().snapshot().is_err()
    }

    /// Starts a node on its disks, and waits until the manager has heard of it.
    fn start_node(&self, index: usize) {
        self.begin_node(index);
        let end = self.world.now() + SOON;
        while self.node(index).is_none() {
            assert!(
                self.world.now() < end,
                "the manager has not heard of node {index} within {SOON:?}; can it be reached?"
            );
            self.world.run_for(Duration::from_millis(1));
        }
    }

    /// Starts a node on its disks. It is there from when the manager has heard of it.
    fn begin_node(&self, index: usize) {
        let machine = &self.nodes[index];
        let mut network = machine.host.env();
        network.clock =
            Rc::new(SetWrong { clock: network.clock.clone(), ahead: machine.ahead.get(), behind: Duration::ZERO });
        let bounds = self.spec.bounds;
        let identity = Identity { node: index as u64 + 1, cluster: self.number.get(), address: machine.address() };
        let manager = Rc::new(SimReports::new(network.clone(), self.manager_address()));
        let (number, process) = (index as u32, machine.process.clone());
        let disks: Vec<SimDisk> = machine.disks.iter().map(|(disk, _)| disk.clone()).collect();
        network.spawner.clone().detach(async move {
            let (mut targets, mut doors) = (Vec::new(), Vec::new());
            for disk in disks {
                let (env, target) = opened(&network, disk).await;
                doors.push(TargetDoor::open(&env, target.clone()));
                targets.push(target);
            }
            let node = Node::new(network.clone(), doors, bounds, number);
            let listening = network.fabric.listen(&identity.address).await.expect("nobody else listens there");
            network.spawner.detach({
                let node = node.clone();
                async move { drop(node.serve(listening).await) }
            });
            let told = RefCell::new(Some(Process { node: node.clone(), targets }));
            node.keep_reporting(identity, manager, move |said| {
                if said.is_ok()
                    && let Some(told) = told.borrow_mut().take()
                {
                    *process.borrow_mut() = Some(told);
                }
            })
            .await;
        });
    }

    /// A node's machine loses its power, with its disks.
    pub(crate) fn crash_node(&self, index: usize) {
        self.stop_node(index);
        self.nodes[index].disks.iter().for_each(|(disk, _)| disk.lose_power());
    }

    /// A node's machine stops at once, but for its disks, which end what they were given.
    fn stop_node(&self, index: usize) {
        let machine = &self.nodes[index];
        machine.host.crash();
        drop(machine.process.borrow_mut().take());
    }

    /// A node's process is killed: its kernel ends its connections, and what its disks were given.
    fn kill_node(&self, index: usize) {
        let machine = &self.nodes[index];
        machine.host.kill();
        drop(machine.process.borrow_mut().take());
    }

    /// A node's machine is up again.
    pub fn restart_node(&self, index: usize) {
        self.nodes[index].host.restart();
        self.start_node(index);
    }

    /// A client on a machine of its own.
    pub fn client(&self, name: &str) -> (Host, Files) {
        let ClientMachine { host, files, .. } = self.client_machine(name);
        (host, files)
    }

    /// The same, with its ways.
    pub(crate) fn client_machine(&self, name: &str) -> ClientMachine {
        self.client_of(name, self.next_client())
    }

    /// The same, as somebody of whom the manager believes that it is so.
    pub(crate) fn client_of(&self, name: &str, by: Principal) -> ClientMachine {
        let host = self.network.host(name, self.spec.client_link);
        let (nodes, control) = self.ways(host.env(), by);
        let files = Files::new(nodes.clone(), control.clone());
        ClientMachine { host, nodes, control, files }
    }

    /// The same on a machine whose clock is so far ahead, or behind.
    #[cfg(test)]
    pub(crate) fn client_machine_set(&self, name: &str, ahead: Duration, behind: Duration) -> ClientMachine {
        let host = self.network.host(name, self.spec.client_link);
        let mut env = host.env();
        env.clock = Rc::new(SetWrong { clock: env.clock.clone(), ahead, behind });
        let (nodes, control) = self.ways(env, self.next_client());
        let files = Files::new(nodes.clone(), control.clone());
        ClientMachine { host, nodes, control, files }
    }

    /// Files as somebody on a node's machine has them.
    pub(crate) fn files_on(&self, node: usize) -> Files {
        let (nodes, control) = self.ways(self.nodes[node].host.env(), self.next_client());
        Files::new(nodes, control)
    }

    /// What the manager knows of all nodes and targets.
    pub(crate) fn map(&self, by: &ClientMachine) -> Map {
        let control = by.control.clone();
        match self.world.run(async move { control.ask(Question::Map).await }) {
            Ok(Reply::Map(map)) => map,
            other => panic!("no map: {other:?}"),
        }
    }

    /// Files of which something is to be rebuilt, as the manager tells `by`.
    pub(crate) fn degraded(&self, by: &ClientMachine) -> Vec<FileId> {
        let control = by.control.clone();
        self.world.run(async move {
            let mut files = Vec::new();
            loop {
                let after = files.last().copied().unwrap_or(FileId(0));
                let asked = Question::Degraded(AskDegraded { file: after, most: 1000, left: false });
                let Ok(Reply::Degraded(found)) = control.ask(asked).await else {
                    panic!("no list of degraded files");
                };
                files.extend(found.files);
                if !found.more {
                    return files;
                }
            }
        })
    }

    fn control(&self) -> Rc<SimControl> {
        self.ways(self.network.host("operator", self.spec.client_link).env(), self.next_client()).1
    }

    /// How a client on a machine reaches nodes and the manager.
    fn ways(&self, env: NetworkEnv, by: Principal) -> (Nodes, Rc<SimControl>) {
        let control = Rc::new(SimControl::new(env.clone(), self.manager_address(), by));
        (Nodes::new(env, self.spec.credit.0 as usize, Duration::from_secs(5)), control)
    }

    fn next_client(&self) -> Principal {
        self.clients.set(self.clients.get() + 1);
        Principal::root(self.clients.get())
    }

    fn manager_address(&self) -> String {
        format!("{}:{PORT}", self.manager.host.name())
    }
}

#[cfg(test)]
mod tests;
