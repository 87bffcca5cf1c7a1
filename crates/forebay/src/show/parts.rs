//! Rings as far as their targets could be asked: their parts as tables, sentences and JSON.

use super::{human, rings};
use forebay_client::rings::{KnownRing, PartState, RingPart};
use forebay_model::{Error, Kind, Rate};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// The name of how a part is.
fn state(state: PartState) -> &'static str {
    match state {
        PartState::Held => "held",
        PartState::Lost => "lost",
        PartState::Filling => "filling",
        PartState::Left => "left",
        PartState::Absent => "absent",
    }
}

/// What is said instead of the state of a ring that cannot say it itself.
fn trouble(error: &Error) -> &'static str {
    if error.kind == Kind::Forbidden { "forbidden" } else { "away" }
}

/// A line for each ring, and one for each that could not be opened and for each target that could not be asked. `rates` has what
/// each is written at now, where that is told.
pub fn table(all: &[KnownRing], rates: Option<&BTreeMap<String, Rate>>) -> Vec<String> {
    let has_parts = all.iter().any(|ring| !ring.parts.is_empty());
    let mut headings = rings::headings(rates.is_some());
    let right: Vec<usize> = (2..headings.len() - 1).collect();
    let unknown = headings.len() - 3;
    if has_parts {
        headings.push("parts");
    }
    let mut table = human::table(&headings, &right);
    for ring in all {
        let mut row = match &ring.status {
            Ok(status) => rings::row(status, rates.map(|rates| rates.get(&ring.name).copied())),
            Err(error) => {
                let known = [ring.name.clone(), trouble(error).to_string(), ring.capacity.to_string()];
                known.into_iter().chain((0..unknown).map(|_| "-".to_string())).collect()
            }
        };
        if has_parts {
            row.push(summary(&ring.parts));
        }
        table.add_row(row);
    }
    let mut lines = human::lines(&table);
    let closed = all.iter().filter(|ring| ring.parts.is_empty());
    lines.extend(closed.filter_map(|ring| Some(format!("{}: {}", ring.name, ring.status.as_ref().err()?.message))));
    lines.extend(unasked(all.iter().flat_map(|ring| &ring.parts)));
    lines
}

/// How many parts are how.
fn summary(parts: &[RingPart]) -> String {
    let all = [PartState::Held, PartState::Filling, PartState::Lost, PartState::Left, PartState::Absent];
    let count = |wanted: PartState| parts.iter().filter(|part| part.state == wanted).count();
    let some = all.into_iter().map(|wanted| (count(wanted), wanted)).filter(|(count, _)| *count > 0);
    let some: Vec<String> = some.map(|(count, wanted)| format!("{count} {}", state(wanted))).collect();
    if some.is_empty() { "-".to_string() } else { some.join(", ") }
}

/// A line for each target that could not be asked.
fn unasked<'a>(parts: impl Iterator<Item = &'a RingPart>) -> Vec<String> {
    let mut all = BTreeMap::new();
    for part in parts.filter(|part| part.state != PartState::Lost) {
        if let Err(error) = &part.status {
            all.entry(part.target).or_insert_with(|| {
                let node = part.node.map_or_else(String::new, |node| format!(" of node {node}"));
                format!("Target {}{node} could not be asked: {}", part.target, error.message)
            });
        }
    }
    all.into_values().collect()
}

/// Everything about a ring and its parts, a line each.
pub fn details(ring: &KnownRing) -> Vec<String> {
    let mut lines = match &ring.status {
        Ok(status) => rings::details(status),
        Err(error) => {
            vec![format!("{}  {}", ring.name, trouble(error)), format!("  capacity    {}", ring.capacity)]
        }
    };
    if ring.parts.is_empty() {
        return lines;
    }
    let mut table = human::table(&["target", "node", "has", "state", "guarantee", ""], &[1, 4]);
    for part in &ring.parts {
        table.add_row([
            part.target.to_string(),
            part.node.map_or_else(|| "-".to_string(), |node| node.to_string()),
            has(part).to_string(),
            state(part.state).to_string(),
            part.status.as_ref().map_or_else(|_| "-".to_string(), |status| rings::guarantee(status.spec.guarantee)),
            remark(part),
        ]);
    }
    lines.push("  parts".to_string());
    lines.extend(human::lines(&table).into_iter().map(|line| format!("    {line}")));
    lines.extend(unasked(ring.parts.iter()));
    lines
}

fn has(part: &RingPart) -> &'static str {
    if part.is_parity { "parity" } else { "elements" }
}

/// What there is to say of a part that is not whole.
fn remark(part: &RingPart) -> String {
    match (part.state, part.filled()) {
        (PartState::Held | PartState::Absent, _) => String::new(),
        (PartState::Left, _) => match part.status.as_ref().ok().and_then(|status| status.newest) {
            Some(until) => format!("what was recorded up to {}", human::clock(until)),
            None => "could not be asked".to_string(),
        },
        (PartState::Lost, _) => "begins anew elsewhere when somebody records".to_string(),
        (PartState::Filling, _) if part.status.is_err() => "could not be asked".to_string(),
        (PartState::Filling, None) => "nothing yet".to_string(),
        (PartState::Filling, Some((since, until))) => {
            let (since, until) = (human::clock(since), human::clock(until));
            let end = if part.has_come_round() { "; it has come round" } else { "" };
            format!("since {since}, up to {until}{end}")
        }
    }
}

/// A ring with its parts.
pub fn json(ring: &KnownRing) -> Value {
    let mut value = match &ring.status {
        Ok(status) => super::json::ring(status),
        Err(error) => json!({
            "name": ring.name, "state": trouble(error), "capacity_bytes": ring.capacity.0, "error": error.message,
        }),
    };
    if !ring.parts.is_empty() {
        value["parts"] = ring.parts.iter().map(part).collect();
    }
    value
}

fn part(part: &RingPart) -> Value {
    let (status, filled) = (part.status.as_ref().ok(), part.filled());
    json!({
        "target": part.target.to_string(),
        "node": part.node,
        "has": has(part),
        "state": state(part.state),
        "guarantee_bytes_per_second": status.map(|status| status.spec.guarantee.0),
        "capacity_bytes": status.map(|status| status.spec.capacity.0),
        "filling_since": filled.map(|(since, _)| super::json::time(since)),
        "filled_to": filled.map(|(_, until)| super::json::time(until)),
        "has_come_round": (part.state == PartState::Filling && status.is_some()).then(|| part.has_come_round()),
        "error": part.status.as_ref().err().map(|error| &error.message),
    })
}
