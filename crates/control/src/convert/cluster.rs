//! Nodes, targets and what a node reports, as messages.

use super::{enums, messages};
use forebay_wire::control::cluster::{
    AddNode, Map, Node, Order, RemoveNode, Report, Reported, RollKeys, SetTarget, ShutOut, Target, TargetReport,
    TargetState, ToTarget, VersionedKey,
};

enums! {
    TargetState { Up, Draining, Failed, Gone }
}

messages! {
    AddNode as AddNode { node, user }
    RemoveNode as RemoveNode { node }
    SetTarget as SetTarget { target, state }
    RollKeys as RollKeys { target }
    Report as ReportRequest { node, address, targets, wall }
    TargetReport as TargetReport {
        target, cluster, openings, size, free, load, epoch, key, carried_out, failed, slow, anew, recorded
    }
    Reported as Reported { epoch, least_epoch, targets, wall, shut_out }
    ShutOut as ShutOut { client, until }
    ToTarget as ToTarget { target, refused, keys, orders, astray }
    VersionedKey as VersionedKey { version, key }
    Order as Order { object, version, remove }
    Map as Map { cluster, epoch, least_epoch, nodes, targets, copied_on, copied_wholly }
    Node as Node { node, user, address, up, wall, reported }
    Target as Target { target, node, served, state, size, free, load, key, failed, left, slow }
}
