//! Faults by chance, each with its end: machines that lose their power or their processes, disks that fail or are slow, cuts,
//! bad links, targets that drain, a manager that stops in the middle of a commit, clients that die, processes that stop and go
//! on much later, clocks that are set, a manager that loses its disk.

#[cfg(test)]
use super::hand::DEADLINE;
use super::hand::{Common, Hand};
use crate::cluster::{ClientMachine, Cluster};
use crate::disk::{Fault, Op};
use crate::network::{Host, LinkSpec};
use forebay_client::control::Control;
use forebay_env::Random;
use forebay_manager::recover::What;
use forebay_model::{Moment, Rate};
use forebay_wire::control::Change;
use forebay_wire::control::cluster::{SetTarget, TargetState};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Faults of one life, and what is to be ended when.
pub(super) struct Faults<'a> {
    cluster: &'a Cluster,
    common: Rc<Common>,
    random: Rc<dyn Random>,
    pub(super) clients: Vec<Client>,
    keeper: ClientMachine,
    wipes: bool,
    ends: Vec<(Moment, End)>,
    down: Vec<bool>,
    manager_down: bool,
    /// Machines of those who said something of targets.
    operators: Vec<Host>,
    names: u64,
}

/// One client: its machine now, and whether it is at work.
pub(super) struct Client {
    pub(super) machine: ClientMachine,
    pub(super) working: Rc<Cell<bool>>,
}

#[derive(Clone)]
enum End {
    Node(usize),
    Disk(usize),
    Drain(usize),
    Slow(usize),
    Manager,
    Cuts,
    Links,
    Client(usize),
    Stop(Host),
}

impl<'a> Faults<'a> {
    /// The faults of so many nodes and clients; whether the manager loses its disk is one of them.
    pub(super) fn new(
        cluster: &'a Cluster,
        common: Rc<Common>,
        (nodes, clients): (usize, usize),
        wipes: bool,
    ) -> Faults<'a> {
        let keeper = super::keeper(cluster, &common, "keeper");
        let random = cluster.world().random();
        let mut faults = Faults {
            cluster,
            common,
            random,
            clients: Vec::new(),
            keeper,
            wipes,
            ends: Vec::new(),
            down: vec![false; nodes],
            manager_down: false,
            operators: Vec::new(),
            names: 0,
        };
        for client in 0..clients {
            let client = faults.client(client);
            faults.clients.push(client);
        }
        faults
    }

    /// The cluster in which they are.
    pub(super) fn cluster(&self) -> &'a Cluster {
        self.cluster
    }

    /// A client on a new machine, at work.
    fn client(&mut self, number: usize) -> Client {
        self.names += 1;
        let machine = self.cluster.client_machine(&format!("client{number}.{}", self.names));
        let env = machine.host.env();
        let hand = Hand::new(number, machine.clone(), self.common.clone(), env.clock.clone(), self.random.clone());
        let working = Rc::new(Cell::new(true));
        env.spawner.detach({
            let working = working.clone();
            async move {
                hand.work().await;
                working.set(false);
            }
        });
        Client { machine, working }
    }

    /// What is due ends.
    pub(super) fn end_due(&mut self) {
        let now = self.cluster.world().now();
        let due: Vec<End> = self.ends.iter().filter(|(at, _)| *at <= now).map(|(_, end)| end.clone()).collect();
        self.ends.retain(|(at, _)| *at > now);
        due.into_iter().for_each(|end| self.end(end));
    }

    /// What is due ends, and perhaps something else fails; only what did is counted.
    pub(super) fn step(&mut self) {
        self.end_due();
        let most = if self.random.below(6) == 0 { 2 } else { 1 };
        let downs = self.down.iter().filter(|down| **down).count();
        let happened = match self.random.below(if self.wipes { 20 } else { 18 }) {
            0 if downs < most => self.stop_node(Cluster::crash_node, 8_000),
            1 if downs < most => self.stop_node(Cluster::kill_node, 8_000),
            2 if downs < most => self.stop_node(Cluster::stop_node, 3_000),
            // Shorter than anybody notices.
            3 if downs < most => match self.random.below(2) {
                0 => self.stop_node(Cluster::crash_node, 100),
                _ => self.stop_node(Cluster::kill_node, 100),
            },
            4 => self.cut(),
            5 => self.part(),
            6 => self.bad_link(),
            7 if !self.manager_down => {
                match self.random.below(2) {
                    0 => self.cluster.crash_manager(),
                    _ => self.cluster.kill_manager(),
                }
                self.manager_is_down(50 + self.random.below(6_000))
            }
            8 if !self.manager_down => {
                self.cluster.crash_manager_in_commit(self.random.below(6), self.random.below(3) as usize);
                // It may take a while before there is a commit, and then it is down.
                self.manager_is_down(2_000 + self.random.below(3_000))
            }
            9 => self.crash_client(),
            10 if downs < most => self.fail_disk(),
            11 => self.slow_disk(),
            12 => self.stop_process(),
            13 => self.set_clocks(),
            14 => self.drain(),
            18 | 19 => self.wipe_manager(),
            _ => false,
        };
        self.common.tally.borrow_mut().faults += u64::from(happened);
    }

    fn later(&self, most: u64) -> Moment {
        self.cluster.world().now() + Duration::from_millis(50 + self.random.below(most))
    }

    fn stop_node(&mut self, stop: fn(&Cluster, usize), most: u64) -> bool {
        let node = self.random.below(self.down.len() as u64) as usize;
        if std::mem::replace(&mut self.down[node], true) {
            return false;
        }
        stop(self.cluster, node);
        self.ends.push((self.later(most), End::Node(node)));
        true
    }

    /// A disk fails one write or flush: its target stops, until it is opened again. That is like a node that is down.
    fn fail_disk(&mut self) -> bool {
        let place = self.place();
        let node = self.cluster.node_of(place);
        // One that is only being opened would not be opened at all.
        if self.down[node] || self.cluster.node(node).is_none() {
            return false;
        }
        self.down[node] = true;
        let op = if self.random.below(2) == 0 { Op::Write } else { Op::Flush };
        let nth = self.random.below(5);
        self.cluster.disk(place).inject(Fault::Fail { op, nth, sticky: false });
        self.ends.push((self.later(8_000), End::Disk(place)));
        true
    }

    /// A disk takes far longer for everything; not so long that what it has under way then would outlast all patience.
    fn slow_disk(&mut self) -> bool {
        let place = self.place();
        // Its node says so when it was busy for five seconds.
        let (factor, most) = [(10.0, 6_000), (50.0, 12_000), (200.0, 6_000)][self.random.below(3) as usize];
        let from = self.cluster.world().now();
        self.cluster.disk(place).inject(Fault::Slow { factor, from });
        self.ends.push((self.later(most), End::Slow(place)));
        true
    }

    /// Any disk.
    fn place(&self) -> usize {
        self.random.below(self.cluster.places().len() as u64) as usize
    }

    fn manager_is_down(&mut self, millis: u64) -> bool {
        self.manager_down = true;
        self.ends.push((self.cluster.world().now() + Duration::from_millis(millis), End::Manager));
        true
    }

    fn machine(&self) -> Host {
        let (nodes, clients) = (self.down.len() as u64, self.clients.len() as u64);
        match self.random.below(nodes + clients + 1) {
            0 => self.cluster.manager_host().clone(),
            n if n <= nodes => self.cluster.node_host(n as usize - 1).clone(),
            n => self.clients[(n - nodes) as usize - 1].machine.host.clone(),
        }
    }

    /// One machine does not reach another, or neither the other.
    fn cut(&mut self) -> bool {
        let (one, other) = (self.machine(), self.machine());
        if one.name() == other.name() {
            return false;
        }
        match self.random.below(2) {
            0 => self.cluster.network().cut(&one, &other),
            _ => self.cluster.network().partition(&[&one], &[&other]),
        }
        self.ends.push((self.later(12_000), End::Cuts));
        true
    }

    /// One machine reaches nobody.
    fn part(&mut self) -> bool {
        let one = self.machine();
        let all = self.machines();
        let others: Vec<&Host> = all.iter().filter(|other| other.name() != one.name()).collect();
        self.cluster.network().partition(&[&one], &others);
        self.ends.push((self.later(12_000), End::Cuts));
        true
    }

    fn machines(&self) -> Vec<Host> {
        let nodes = (0..self.down.len()).map(|node| self.cluster.node_host(node).clone());
        let clients = self.clients.iter().map(|client| client.machine.host.clone());
        std::iter::once(self.cluster.manager_host().clone()).chain(nodes).chain(clients).collect()
    }

    /// The processes of a machine stop, and go on where they were: the others have long taken them for gone, or have not noticed.
    fn stop_process(&mut self) -> bool {
        let host = self.machine();
        // A client that has stopped for long does not end in time what it does.
        let most = if self.random.below(2) == 0 { 500 } else { 15_000 };
        self.stop_for(host, self.later(most))
    }

    fn stop_for(&mut self, host: Host, until: Moment) -> bool {
        host.pause();
        self.ends.push((until, End::Stop(host)));
        true
    }

    /// The processes of a node stop for so long.
    #[cfg(test)]
    pub(super) fn stop_a_node(&mut self, span: Duration) {
        let node = self.random.below(self.down.len() as u64) as usize;
        let until = self.cluster.world().now() + span;
        // It may have to hear first that somebody else has what it has.
        self.common.deadline.set(2 * DEADLINE + span);
        self.stop_for(self.cluster.node_host(node).clone(), until);
        self.common.tally.borrow_mut().faults += 1;
    }

    /// Somebody sets all clocks: forth as far as he likes, and back by what clocks may differ.
    fn set_clocks(&mut self) -> bool {
        let world = self.cluster.world();
        let wall = world.clock().wall();
        let forth = Duration::from_secs(self.random.below(3600));
        let back = Duration::from_millis(self.random.below(30_000));
        world.set_wall(if self.random.below(2) == 0 { wall.after(forth) } else { wall.before(back) });
        true
    }

    fn bad_link(&mut self) -> bool {
        let link = match self.random.below(3) {
            0 => LinkSpec::gigabit().with_loss(0.02),
            1 => LinkSpec::gigabit().with_rate(Rate(300_000)),
            _ => LinkSpec::gigabit().with_delays(0.1, Duration::from_millis(30)),
        };
        self.machine().set_link(link);
        self.ends.push((self.later(6_000), End::Links));
        true
    }

    fn crash_client(&mut self) -> bool {
        let number = self.random.below(self.clients.len() as u64) as usize;
        if self.ends.iter().any(|(_, end)| matches!(end, End::Client(there) if *there == number)) {
            return false;
        }
        self.lose_client(number);
        true
    }

    /// A client dies, and begins anew soon.
    fn lose_client(&mut self, number: usize) {
        let host = &self.clients[number].machine.host;
        match self.random.below(2) {
            0 => host.crash(),
            _ => host.kill(),
        }
        self.clients[number].working.set(false);
        // Whatever it had open may be half written.
        self.common.owned[number].borrow_mut().files.values_mut().for_each(|known| known.in_doubt = true);
        self.common.tally.borrow_mut().clients_lost += 1;
        self.ends.push((self.later(2_000), End::Client(number)));
    }

    /// The manager loses its disk, if it says that all it has answered is in copies, and is made anew of what targets have, perhaps
    /// without those of nodes that are away. For that all nodes end; so do all clients, whose keys do. Whatever else fails goes on
    /// failing.
    pub(super) fn wipe_manager(&mut self) -> bool {
        if self.manager_down {
            return false;
        }
        let without_some = self.random.below(2) == 0;
        let there: Vec<bool> = self.down.iter().map(|down| !down || !without_some).collect();
        let copied_on = self.cluster.copied_on();
        let has_copy = |place: usize| copied_on.contains(&self.cluster.target(place));
        if !self.cluster.places().any(|place| there[self.cluster.node_of(place)] && has_copy(place)) {
            return false;
        }
        self.keeper.host.crash();
        for number in 0..self.clients.len() {
            if !self.ends.iter().any(|(_, end)| matches!(end, End::Client(there) if *there == number)) {
                self.lose_client(number);
            }
        }
        std::mem::take(&mut self.operators).iter().for_each(Host::crash);
        for (_, end) in &self.ends {
            if let End::Disk(place) = end {
                // Its target can be opened again.
                self.cluster.disk(*place).heal();
            }
        }
        let recovered = self.cluster.remade(|node| there[node]);
        for found in &recovered.findings {
            let is_known = match found.what {
                // Who was writing was not answered how long it is.
                What::Newer { .. } => true,
                // What was given up was given up before, and what is away comes back.
                What::Lacks { is_enough, .. } => is_enough || there.contains(&false),
                // Whether nothing was to be there is seen when it is read.
                What::Unwritten { .. } => true,
                _ => false,
            };
            assert!(is_known, "all that was answered is in copies: {:?}", recovered.findings);
        }
        if self.random.below(2) == 0 {
            self.cluster.restart_manager();
        } else {
            self.manager_is_down(50 + self.random.below(6_000));
        }
        for node in (0..self.down.len()).filter(|node| !self.down[*node]) {
            self.cluster.node_host(node).restart();
            self.cluster.begin_node(node);
        }
        self.names += 1;
        self.keeper = super::keeper(self.cluster, &self.common, &format!("keeper{}", self.names));
        // What somebody was about to say of targets nobody says any more.
        for place in self.cluster.places() {
            if !self.ends.iter().any(|(_, end)| matches!(end, End::Drain(there) if *there == place)) {
                self.say(place, TargetState::Up);
            }
        }
        let mut tally = self.common.tally.borrow_mut();
        tally.wiped += 1;
        tally.wiped_beside += u64::from(there.contains(&false));
        true
    }

    fn end(&mut self, end: End) {
        match end {
            End::Node(node) => {
                self.down[node] = false;
                // It may be given another address while it is away.
                if self.random.below(3) == 0 {
                    let port = &self.cluster.nodes[node].port;
                    port.set(port.get() + 1);
                    self.common.tally.borrow_mut().nodes_moved += 1;
                }
                self.cluster.node_host(node).restart();
                self.cluster.begin_node(node);
            }
            End::Disk(place) => {
                let node = self.cluster.node_of(place);
                self.common.tally.borrow_mut().disks_failed += u64::from(self.cluster.has_stopped(place));
                self.cluster.disk(place).heal();
                self.cluster.kill_node(node);
                self.end(End::Node(node));
                self.say(place, TargetState::Up);
            }
            End::Drain(place) => self.say(place, TargetState::Up),
            End::Slow(place) => self.cluster.disk(place).heal(),
            End::Manager => {
                self.manager_down = false;
                // Where there was no commit meanwhile, it stops between two of them.
                self.common.tally.borrow_mut().commits_cut += u64::from(self.cluster.manager_is_cut());
                self.cluster.crash_manager();
                self.cluster.restart_manager();
            }
            End::Cuts => self.cluster.network().heal(),
            End::Links => self.machines().iter().for_each(|host| host.set_link(LinkSpec::gigabit())),
            End::Stop(host) => host.resume(),
            End::Client(number) => self.clients[number] = self.client(number),
        }
    }

    /// What lies on a target is to lie elsewhere, for a while: no fault, but it meets all of them.
    pub(super) fn drain(&mut self) -> bool {
        let place = self.place();
        if self.ends.iter().any(|(_, end)| matches!(end, End::Drain(_))) {
            return false;
        }
        self.say(place, TargetState::Draining);
        self.ends.push((self.later(20_000), End::Drain(place)));
        self.common.tally.borrow_mut().drained += 1;
        true
    }

    /// Somebody says what is to be thought of a target, until the manager has heard of it.
    fn say(&mut self, place: usize, state: TargetState) {
        self.names += 1;
        let machine = self.cluster.client_machine(&format!("operator{}", self.names));
        self.operators.push(machine.host.clone());
        let set = SetTarget { target: self.cluster.target(place), state };
        let (control, clock) = (machine.control.clone(), machine.host.env().clock.clone());
        machine.host.env().spawner.detach(async move {
            while control.change(Change::SetTarget(set.clone())).await.is_err() {
                clock.sleep(Duration::from_secs(1)).await;
            }
        });
    }

    /// Everything is whole from now on.
    pub(super) fn end_all(&mut self) {
        for (_, end) in std::mem::take(&mut self.ends) {
            self.end(end);
        }
    }

    /// All targets are used again. What somebody said of one may have reached the manager after what was said of it later, and a node
    /// may have said so late that a disk failed.
    pub(super) fn return_all(&self) {
        let machine = self.cluster.client_machine("returns");
        let (control, map) = (machine.control.clone(), self.cluster.map(&machine));
        self.cluster.world().run(async move {
            for target in map.targets.into_iter().filter(|target| target.state != TargetState::Up) {
                let set = SetTarget { target: target.target, state: TargetState::Up };
                control.change(Change::SetTarget(set)).await.expect("it was opened again");
            }
        });
    }
}
