//! Nodes and targets: who they are, how they are, and what a node reports again and again.

use super::access::Hidden;
use crate::capability::SKEW;
use forebay_model::{Bytes, Error, ObjectId, TargetId, Timestamp};
use serde::{Deserialize, Serialize};

/// The most targets of one node.
pub const MOST_TARGETS: usize = 100;
/// The most orders in one answer.
pub const MOST_ORDERS: usize = 1024;
/// The most rings in one report of which it is asked whether they are to be on a target.
pub const MOST_ANEW: usize = 1024;
/// The most clients that are shut out by themselves.
pub const MOST_SHUT_OUT: usize = 256;

/// Makes a node known, or gives it another user.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddNode {
    /// Its number.
    pub node: u64,
    /// The user as which it reports.
    pub user: u32,
}

/// Forgets a node; its targets have to be gone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveNode {
    /// Which.
    pub node: u64,
}

/// What is to be thought of a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TargetState {
    /// It is used.
    Up,
    /// It is read, and nothing new is put on it.
    Draining,
    /// What is on it is lost until it is rebuilt elsewhere.
    Failed,
    /// It will not come back.
    Gone,
}

/// Says what is to be thought of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetTarget {
    /// Which.
    pub target: TargetId,
    /// What.
    pub state: TargetState,
}

/// Gives a target, or all of them, another key. What was made with the key before still counts; what is older does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RollKeys {
    /// Which; all, if none is named.
    pub target: Option<TargetId>,
}

/// How a node is: it says so every few seconds, and when it has something new to say.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Its number.
    pub node: u64,
    /// Where clients reach it.
    pub address: String,
    /// All targets that it serves.
    pub targets: Vec<TargetReport>,
    /// What its clock says.
    pub wall: Timestamp,
}

/// How a target is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetReport {
    /// Which.
    pub target: TargetId,
    /// The cluster that it was made for.
    pub cluster: u128,
    /// How often it was opened, as it says itself: a copy of it as it once was has been opened less often.
    pub openings: u64,
    /// What it can hold.
    pub size: Bytes,
    /// What is free of that.
    pub free: Bytes,
    /// How busy it is, in hundredths.
    pub load: u8,
    /// The newest epoch of the map that it has heard of; 0 if none.
    pub epoch: u64,
    /// The newest version of its key that it has; 0 if none.
    pub key: u32,
    /// The orders that it has carried out since the last report.
    pub carried_out: Vec<Order>,
    /// Why it takes nothing in any more, if its device failed or what tells of its objects is damaged.
    pub failed: Option<String>,
    /// Whether its device takes several times as long as its profile says at the worst.
    pub slow: bool,
    /// Rings that it made anew of what their segments say, and that it was not told to keep: they may have been deleted, or have left.
    pub anew: Vec<ObjectId>,
    /// The number of the last change of its objects that is durable, as it says itself: it only rises, whatever happens to a target that is
    /// sound. None while they are not served.
    pub recorded: Option<u64>,
}

/// What a node is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reported {
    /// The epoch of the cluster's map.
    pub epoch: u64,
    /// The least epoch of which capabilities count.
    pub least_epoch: u64,
    /// For each target that was reported, in that order.
    pub targets: Vec<ToTarget>,
    /// What the manager's clock says.
    pub wall: Timestamp,
    /// All clients whose access keys were revoked while they had something.
    pub shut_out: Vec<ShutOut>,
}

/// A client whose access key was revoked: what it was given does not count any more. What it is given with another key does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShutOut {
    /// Which.
    pub client: u64,
    /// Until when the last of that would have counted.
    pub until: Timestamp,
}

/// What a target is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ToTarget {
    /// Which.
    pub target: TargetId,
    /// Why it may not serve; then there is nothing else.
    pub refused: Option<Error>,
    /// Its newest keys, older first: two at most.
    pub keys: Vec<VersionedKey>,
    /// What it has to do: said again until it says that it has.
    pub orders: Vec<Order>,
    /// Of the rings that it made anew, those that are not to be there. It keeps the others.
    pub astray: Vec<ObjectId>,
}

/// A version of a target's key.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VersionedKey {
    /// The version.
    pub version: u32,
    /// The key: 32 bytes.
    pub key: Hidden,
}

/// What a target has to do with an object. Doing it twice does no harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Order {
    /// The object.
    pub object: ObjectId,
    /// The version that it has to have from now on, also if it is made later.
    pub version: u64,
    /// Whether it is to be removed.
    pub remove: bool,
}

/// The nodes and targets of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// The cluster.
    pub cluster: u128,
    /// The version of the map: it rises with each change, and never falls.
    pub epoch: u64,
    /// The least epoch of which capabilities count.
    pub least_epoch: u64,
    /// By number.
    pub nodes: Vec<Node>,
    /// By id.
    pub targets: Vec<Target>,
    /// The targets on which all is of what was answered since copies of the metadata began there; empty if something of it is on the
    /// manager's disk alone.
    pub copied_on: Vec<TargetId>,
    /// Whether what there was before that is there as well; it is being written if not.
    pub copied_wholly: bool,
}

impl Map {
    /// How the clock of a target's node differs from the manager's, and what to do, if it does by more than it may.
    pub fn clock_off(&self, target: TargetId) -> Option<String> {
        let found = self.targets.iter().find(|found| found.target == target)?;
        self.nodes.iter().find(|node| node.node == found.node)?.clock_off()
    }
}

/// A node of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// Its number.
    pub node: u64,
    /// The user as which it reports.
    pub user: u32,
    /// Where clients reach it; empty if it never reported.
    pub address: String,
    /// Whether it reported lately.
    pub up: bool,
    /// What its clock said when it reported last; not there if it did not since the manager was opened.
    pub wall: Option<Timestamp>,
    /// What the manager's said then.
    pub reported: Option<Timestamp>,
}

impl Node {
    /// How its clock differs from the manager's, and what to do, if it does by more than clocks may.
    pub fn clock_off(&self) -> Option<String> {
        clock_off(self.node, self.wall?, self.reported?)
    }
}

/// How the clock of a node that says `wall` differs from the manager's, and what to do, if it does by more than [`SKEW`].
pub fn clock_off(node: u64, wall: Timestamp, manager: Timestamp) -> Option<String> {
    let (ahead, behind) = (wall.since(manager), manager.since(wall));
    let apart = ahead.max(behind);
    let which = if behind.is_zero() { "ahead of" } else { "behind" };
    let apart = (apart > SKEW).then_some(apart.as_secs())?;
    Some(format!(
        "the clock of node {node} is {apart} s {which} the manager's, and {} s are the most: set the clocks of both machines, and keep \
         them set (NTP)",
        SKEW.as_secs()
    ))
}

/// A target of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Target {
    /// Which.
    pub target: TargetId,
    /// The node that serves it.
    pub node: u64,
    /// Whether that node has it, as it said last: one that was lost is not served by a new node of the same number.
    pub served: bool,
    /// What is thought of it.
    pub state: TargetState,
    /// What it can hold.
    pub size: Bytes,
    /// What was free of that when it was reported last.
    pub free: Bytes,
    /// How busy it was then, in hundredths.
    pub load: u8,
    /// The newest version of its key.
    pub key: u32,
    /// Why it takes nothing in any more, if its node says so.
    pub failed: Option<String>,
    /// Components that lie on it, of one on which nothing is to stay, as they were counted last.
    pub left: Option<u64>,
    /// Whether its device takes several times as long as its profile says at the worst, as its node said last.
    pub slow: bool,
}
