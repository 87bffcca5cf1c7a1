//! Nodes and targets of a cluster on the network, as tables and JSON, and its health.

use super::human;
use forebay_client::rings::{KnownRing, PartState};
use forebay_model::Kind;
use forebay_model::ring::RingState;
use forebay_serve::survey::Survey;
use forebay_serve::targets::state;
use forebay_wire::control::cluster::{Map, Node, Target, TargetState};
use serde_json::{Value, json};

/// A line for each node.
pub fn nodes(map: &Map) -> Vec<String> {
    let line = |node: &Node| {
        let (state, at) = (if node.up { "up" } else { "down" }, node.address.as_str());
        let targets = human::some(of_node(map, node).count() as u64, "target");
        format!("{:>10}  {state:4}  {at:21}  {targets}", node.node)
    };
    map.nodes.iter().map(line).collect()
}

/// A node.
pub fn node(map: &Map, node: &Node) -> Value {
    let targets: Vec<_> = of_node(map, node).map(|target| target.target.to_string()).collect();
    json!({ "node": node.node, "address": node.address, "up": node.up, "user": node.user, "targets": targets })
}

fn of_node<'a>(map: &'a Map, node: &Node) -> impl Iterator<Item = &'a Target> {
    let number = node.node;
    map.targets.iter().filter(move |target| target.node == number)
}

/// Where copies of the metadata are.
pub fn copies(map: &Map) -> String {
    match (map.copied_on.len() as u64, map.copied_wholly) {
        (0, _) => "metadata on the manager's disk alone".to_string(),
        (count, true) => format!("metadata copied to {}", human::some(count, "target")),
        (count, false) => format!("metadata being copied to {}", human::some(count, "target")),
    }
}

/// A line for each target.
pub fn targets(map: &Map) -> Vec<String> {
    let mut table = human::table(&["target", "node", "state", "size", "used", "load", ""], &[3, 4, 5]);
    for target in &map.targets {
        let Target { node, size, free, load, .. } = target;
        let used = size.saturating_sub(*free).0 as f64 * 100.0 / size.0.max(1) as f64;
        table.add_row([
            target.target.to_string(),
            format!("{node}{}", if is_up(map, target) { "" } else { " (down)" }),
            state(target.state).to_string(),
            size.to_string(),
            format!("{used:.0} %"),
            format!("{load} %"),
            remark(map, target),
        ]);
    }
    human::lines(&table)
}

/// A target.
pub fn target(map: &Map, target: &Target) -> Value {
    json!({
        "target": target.target.to_string(), "node": target.node, "node_up": is_up(map, target), "served": target.served,
        "state": state(target.state), "size_bytes": target.size.0, "free_bytes": target.free.0,
        "load_percent": target.load, "failed": target.failed, "components_left": target.left, "slow": target.slow,
        "clock_off": map.clock_off(target.target),
    })
}

fn is_up(map: &Map, target: &Target) -> bool {
    map.nodes.iter().any(|node| node.node == target.node && node.up)
}

/// Whether its node is there, and does not have it.
fn is_away(map: &Map, target: &Target) -> bool {
    is_up(map, target) && !target.served && target.state != TargetState::Gone
}

/// What there is to say of a target that its node does not have, or on which nothing is to stay.
fn remark(map: &Map, target: &Target) -> String {
    let away = is_away(map, target).then(|| match target.state {
        TargetState::Failed => "its node does not have it".to_string(),
        _ => "its node does not have it: bring it back, or `forebay target fail`".to_string(),
    });
    let left = match (target.state, target.left) {
        (TargetState::Up, _) => String::new(),
        (_, None) => "being counted".to_string(),
        (_, Some(0)) => "empty".to_string(),
        (TargetState::Draining, Some(left)) => format!("{} to be moved", human::some(left, "component")),
        (_, Some(left)) => format!("{} to be rebuilt", human::some(left, "component")),
    };
    let is_slow = target.slow && target.failed.is_none() && target.state == TargetState::Up;
    let slow =
        is_slow.then(|| "far slower than its profile: `forebay target drain` it, or measure it anew".to_string());
    let failed = target.failed.iter().cloned().chain(away);
    let clock = is_up(map, target).then(|| map.clock_off(target.target)).flatten();
    failed.chain(slow).chain(clock).chain((!left.is_empty()).then_some(left)).collect::<Vec<_>>().join("; ")
}

/// The worst that can be said of a cluster: its name for programs, and what helps, for people.
pub fn health(survey: &Survey, rings: &[KnownRing]) -> (&'static str, String) {
    let map = &survey.map;
    let in_use = |target: &&Target| matches!(target.state, TargetState::Up | TargetState::Draining);
    // Whoever says that a target has failed sees to it, and takes it away from its node. The manager says so by itself in the moment in
    // which it hears of that, and then people are still to learn of it: for as long as its node has it.
    let is_news =
        |target: &&Target| in_use(target) || target.state == TargetState::Failed && target.served && is_up(map, target);
    let broken = map.targets.iter().filter(is_news).find_map(|target| Some((target, target.failed.as_ref()?)));
    if let Some((Target { target, state, left, .. }, why)) = broken {
        let remedy = match (state, left) {
            (TargetState::Failed, Some(0)) => "nothing lies on it any more: take it away, and `forebay target rm` it",
            (TargetState::Failed, _) => {
                "what it had is made anew on others where there are enough; then take it away, and `forebay target rm` it"
            }
            _ => "replace its device, and `forebay target fail` it",
        };
        return ("failed", format!("target {target} takes nothing in any more: {why}; {remedy}"));
    }
    if let Some(node) = map.nodes.iter().find(|node| !node.up && of_node(map, node).any(|target| in_use(&target))) {
        let remedy = "start it again, or `forebay target fail` what it has, so that it is made anew elsewhere";
        return ("node_away", format!("node {} does not report: {remedy}", node.node));
    }
    if let Some(target) = map.targets.iter().filter(in_use).find(|target| is_away(map, target)) {
        let remedy = "bring it back, or `forebay target fail` it, so that what it has is made anew elsewhere";
        return ("target_away", format!("node {} does not have target {}: {remedy}", target.node, target.target));
    }
    let statuses = || rings.iter().filter_map(|ring| ring.status.as_ref().ok());
    let ring_is = |state: RingState| statuses().find(|ring| ring.state == state);
    if let Some(ring) = ring_is(RingState::Failed) {
        return ("failed", format!("{} records nothing any more: its device failed", ring.spec.name));
    }
    let is_away = |ring: &&KnownRing| ring.status.as_ref().is_err_and(|error| error.kind != Kind::Forbidden);
    if let Some(ring) = rings.iter().find(is_away) {
        return ("ring_away", format!("{} cannot be reached: `forebay ring show {}` says why", ring.name, ring.name));
    }
    if let Some(ring) = ring_is(RingState::Full) {
        let remedy = "everything in it is pinned, so nothing can be recorded; unpin something";
        return ("ring_full", format!("{}: {remedy}", ring.spec.name));
    }
    let can_have_copies = |target: &Target| {
        target.state == TargetState::Up && target.failed.is_none() && target.served && is_up(map, target)
    };
    if map.copied_on.is_empty() && map.targets.iter().any(can_have_copies) {
        let remedy = "no target could be written for longer than it is waited for; does the manager reach its nodes?";
        return ("metadata_not_copied", format!("what was answered last is on the manager's disk alone: {remedy}"));
    }
    if let Some(target) = map.targets.iter().find(|target| target.slow && target.state == TargetState::Up) {
        let remedy = "takes several times as long as its profile says; `forebay target drain` it, or measure it anew";
        return ("slow_device", format!("target {} {remedy}", target.target));
    }
    if let Some(ring) = statuses().find(|ring| ring.missed_deadlines > 0) {
        let missed = human::count(ring.missed_deadlines);
        let remedy = "so a device is slower than its profile; measure it anew with `forebay profile`";
        return (
            "deadlines_missed",
            format!("{missed} writes of {} came after their deadline, {remedy}", ring.spec.name),
        );
    }
    let is_made_anew =
        |ring: &KnownRing| ring.parts.iter().any(|part| matches!(part.state, PartState::Filling | PartState::Lost));
    let is_left = |target: &Target| target.state == TargetState::Failed && target.left != Some(0);
    let degraded = survey.degraded.is_some_and(|files| files > 0) || map.targets.iter().any(is_left);
    if degraded || rings.iter().any(is_made_anew) {
        return (
            "rebuilding",
            "what a lost target had is made anew on others, which ends by itself where there are enough".to_string(),
        );
    }
    ("ok", "nothing to do".to_string())
}

#[cfg(test)]
mod tests;
