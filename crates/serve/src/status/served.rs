//! The targets that this process serves and their rings, as they say of themselves: also with the manager away, and of what only
//! they know. What a ring is called on its target is told, and nothing of what its pins are called.

use super::{Family, Found, Values, known};
use forebay_model::ring::{Losses, RingState, RingStatus};
use forebay_model::{Cause, Rate, Timestamp};
use forebay_node::network::{Moved, TargetStatus, ToldOf};
use serde_json::{Value, json};
use std::collections::BTreeMap;

pub(super) const FAMILIES: [Family; 25] = [
    Family {
        name: "forebay_target_answers",
        kind: "gauge",
        labels: "`target`",
        help: "Whether a target of this process says how it is. What it would say is left out if not.",
        values: |found| {
            let targets = known(found).flat_map(|(_, node)| &node.targets);
            Some(targets.map(|(id, told)| (format!("{{target=\"{id}\"}}"), u64::from(told.is_ok()))).collect())
        },
    },
    Family {
        name: "forebay_target_io_bytes_total",
        kind: "counter",
        labels: "`target`, `class`: `guaranteed`, `latency`, `metadata`, `normal`, `background`, `direction`: `read`, `written`",
        help: "Bytes that were read from a target's device and written to it since it was opened.",
        values: |found| {
            let each = |target: &TargetStatus| {
                let of = |class: &str, direction: &str| {
                    format!("{{target=\"{}\",class=\"{class}\",direction=\"{direction}\"}}", target.info.id)
                };
                let both = |(class, Moved { read, written }): &(&str, Moved)| {
                    [(of(class, "read"), read.0), (of(class, "written"), written.0)]
                };
                target.moved.iter().flat_map(both).collect::<Vec<_>>()
            };
            Some(answered(found).flat_map(each).collect())
        },
    },
    Family {
        name: "forebay_target_busy_seconds_total",
        kind: "counter",
        labels: "`target`",
        help: "How long its device had something to do since it was opened.",
        values: |found| of_targets(found, |target| target.info.activity.busy.as_secs()),
    },
    Family {
        name: "forebay_target_throttled_total",
        kind: "counter",
        labels: "`target`",
        help: "I/Os that had to wait because promises come first.",
        values: |found| of_targets(found, |target| target.info.activity.throttled),
    },
    Family {
        name: "forebay_target_missed_deadlines_total",
        kind: "counter",
        labels: "`target`",
        help: "Writes of rings that ended after their deadline.",
        values: |found| of_targets(found, |target| target.info.activity.missed_deadlines),
    },
    Family {
        name: "forebay_target_times_slower",
        kind: "gauge",
        labels: "`target`",
        help: "How many times longer than its profile says at the worst its device takes; 0 if it does not.",
        values: |found| of_targets(found, |target| u64::from(target.info.activity.slower)),
    },
    Family {
        name: "forebay_target_promised_bytes_per_second",
        kind: "gauge",
        labels: "`target`",
        help: "What is promised to its rings together.",
        values: |found| of_targets(found, |target| promised(target).0),
    },
    Family {
        name: "forebay_target_headroom_bytes_per_second",
        kind: "gauge",
        labels: "`target`",
        help: "The most that could be promised to one more ring, a small one.",
        values: |found| of_targets(found, |target| target.headroom.0),
    },
    Family {
        name: "forebay_target_damaged_reads_total",
        kind: "counter",
        labels: "`target`",
        help: "Reads of objects that found bytes that could not be read or were not what was written, since it was opened.",
        values: |found| of_targets(found, |target| target.damaged),
    },
    Family {
        name: "forebay_target_mended_blocks_total",
        kind: "counter",
        labels: "`target`",
        help: "Blocks that were found so and have been written again since: by who read them, by a scrub, or by anybody else.",
        values: |found| of_targets(found, |target| target.mended),
    },
    Family {
        name: "forebay_ring_state",
        kind: "gauge",
        labels: "`target`, `ring`, `state`: `recovering`, `ready`, `full`, `failed`",
        help: "1 for what the ring is doing, 0 for the others.",
        values: |found| {
            let each = |(target, ring): (&TargetStatus, &RingStatus)| {
                let of = |state: RingState| {
                    (of_ring(target, ring, &format!(",state=\"{}\"", state.name())), u64::from(ring.state == state))
                };
                RingState::ALL.map(of)
            };
            Some(rings(found).flat_map(each).collect())
        },
    },
    Family {
        name: "forebay_ring_recording",
        kind: "gauge",
        labels: "`target`, `ring`",
        help: "Whether somebody records into it.",
        values: |found| of_rings(found, |ring| u64::from(ring.recording)),
    },
    Family {
        name: "forebay_ring_capacity_bytes",
        kind: "gauge",
        labels: "`target`, `ring`",
        help: "Space that it has.",
        values: |found| of_rings(found, |ring| ring.spec.capacity.0),
    },
    Family {
        name: "forebay_ring_guarantee_bytes_per_second",
        kind: "gauge",
        labels: "`target`, `ring`",
        help: "The rate that it is promised.",
        values: |found| of_rings(found, |ring| ring.spec.guarantee.0),
    },
    Family {
        name: "forebay_ring_written_bytes_total",
        kind: "counter",
        labels: "`target`, `ring`",
        help: "Bytes written since the target was opened, padding and index included.",
        values: |found| of_rings(found, |ring| ring.written.0),
    },
    Family {
        name: "forebay_ring_elements_total",
        kind: "counter",
        labels: "`target`, `ring`",
        help: "Elements accepted since the target was opened.",
        values: |found| of_rings(found, |ring| ring.elements),
    },
    Family {
        name: "forebay_ring_missed_deadlines_total",
        kind: "counter",
        labels: "`target`, `ring`",
        help: "Blocks that were late since the target was opened.",
        values: |found| of_rings(found, |ring| ring.missed_deadlines),
    },
    Family {
        name: "forebay_ring_lost_elements",
        kind: "gauge",
        labels: "`target`, `ring`, `cause`: as `losses` in [JSON](../cli-json.md)",
        help: "Elements that are missing in what it keeps, where it is known how many.",
        values: |found| of_losses(found, |losses, cause| losses.elements[cause.index()]),
    },
    Family {
        name: "forebay_ring_gaps",
        kind: "gauge",
        labels: "`target`, `ring`, `cause`",
        help: "Gaps in what it keeps, also those of which it is not known how much is missing.",
        values: |found| of_losses(found, |losses, cause| losses.gaps[cause.index()]),
    },
    Family {
        name: "forebay_ring_oldest_timestamp_seconds",
        kind: "gauge",
        labels: "`target`, `ring`",
        help: "Time of the oldest element that is kept; left out while there is none.",
        values: |found| of_some_rings(found, |ring| Some(seconds(ring.oldest?))),
    },
    Family {
        name: "forebay_ring_newest_timestamp_seconds",
        kind: "gauge",
        labels: "`target`, `ring`",
        help: "Time of the newest element that was accepted; likewise.",
        values: |found| of_some_rings(found, |ring| Some(seconds(ring.newest?))),
    },
    Family {
        name: "forebay_ring_history_seconds",
        kind: "gauge",
        labels: "`target`, `ring`",
        help: "The time between both.",
        values: |found| of_some_rings(found, |ring| Some(ring.newest?.since(ring.oldest?).as_secs())),
    },
    Family {
        name: "forebay_ring_pins",
        kind: "gauge",
        labels: "`target`, `ring`",
        help: "Ranges that are preserved.",
        values: |found| of_rings(found, |ring| ring.pins.len() as u64),
    },
    Family {
        name: "forebay_ring_segments",
        kind: "gauge",
        labels: "`target`, `ring`",
        help: "Segments that it has.",
        values: |found| of_rings(found, |ring| ring.segments),
    },
    Family {
        name: "forebay_ring_pinned_segments",
        kind: "gauge",
        labels: "`target`, `ring`",
        help: "Those of them that pins hold.",
        values: |found| of_rings(found, |ring| ring.pinned_segments),
    },
];

/// The targets of this process that say how they are.
fn answered(found: &Found) -> impl Iterator<Item = &TargetStatus> {
    known(found).flat_map(|(_, node)| &node.targets).filter_map(|(_, told)| told.as_ref().ok())
}

fn rings(found: &Found) -> impl Iterator<Item = (&TargetStatus, &RingStatus)> {
    answered(found).flat_map(|target| target.rings.iter().map(move |ring| (target, ring)))
}

fn of_targets(found: &Found, value: fn(&TargetStatus) -> u64) -> Option<Values> {
    Some(answered(found).map(|target| (format!("{{target=\"{}\"}}", target.info.id), value(target))).collect())
}

fn of_rings(found: &Found, value: fn(&RingStatus) -> u64) -> Option<Values> {
    Some(rings(found).map(|(target, ring)| (of_ring(target, ring, ""), value(ring))).collect())
}

/// Of those that have it.
fn of_some_rings(found: &Found, value: fn(&RingStatus) -> Option<u64>) -> Option<Values> {
    Some(rings(found).filter_map(|(target, ring)| Some((of_ring(target, ring, ""), value(ring)?))).collect())
}

fn of_losses(found: &Found, value: fn(&Losses, Cause) -> u64) -> Option<Values> {
    let each = |(target, ring): (&TargetStatus, &RingStatus)| {
        Cause::ALL
            .map(|cause| (of_ring(target, ring, &format!(",cause=\"{}\"", cause.name())), value(&ring.losses, cause)))
    };
    Some(rings(found).flat_map(each).collect())
}

/// The labels of a ring, and more.
fn of_ring(target: &TargetStatus, ring: &RingStatus, more: &str) -> String {
    format!("{{target=\"{}\",ring=\"{}\"{more}}}", target.info.id, escaped(&ring.spec.name))
}

/// A name, as it may be in a label.
fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn promised(target: &TargetStatus) -> Rate {
    Rate(target.rings.iter().map(|ring| ring.spec.guarantee.0).sum())
}

/// Whole seconds since 1970; a time before that is none that a clock had.
fn seconds(time: Timestamp) -> u64 {
    time.since(Timestamp(0)).as_secs()
}

/// A target in `/status`.
pub(super) fn json(told: &ToldOf) -> Value {
    let target = match told {
        (_, Ok(target)) => target,
        (id, Err(error)) => return json!({ "target": id.to_string(), "error": error.message }),
    };
    let (info, activity) = (&target.info, &target.info.activity);
    let moved = |(class, moved): &(&'static str, Moved)| {
        (*class, json!({ "read_bytes": moved.read.0, "written_bytes": moved.written.0 }))
    };
    json!({
        "target": info.id.to_string(),
        "device": info.device,
        "size_bytes": info.size.0,
        "free_bytes": info.free.0,
        "failed": info.failed,
        "complaints": info.complaints,
        "times_slower_than_profile": activity.slower,
        "busy_seconds": activity.busy.as_secs_f64(),
        "throttled": activity.throttled,
        "missed_deadlines": activity.missed_deadlines,
        "damaged_reads": target.damaged,
        "mended_blocks": target.mended,
        "promised_bytes_per_second": promised(target).0,
        "headroom_bytes_per_second": target.headroom.0,
        "io": target.moved.iter().map(moved).collect::<BTreeMap<_, _>>(),
        "rings": target.rings.iter().map(ring).collect::<Vec<_>>(),
    })
}

fn ring(ring: &RingStatus) -> Value {
    let lost = Cause::ALL.into_iter().map(|cause| {
        let (elements, gaps) = (ring.losses.elements[cause.index()], ring.losses.gaps[cause.index()]);
        (cause.name(), elements, gaps)
    });
    let lost = lost.filter(|(_, elements, gaps)| *elements > 0 || *gaps > 0);
    let losses: BTreeMap<_, _> =
        lost.map(|(cause, elements, gaps)| (cause, json!({ "elements": elements, "gaps": gaps }))).collect();
    json!({
        "ring": ring.spec.name,
        "state": ring.state.name(),
        "recording": ring.recording,
        "capacity_bytes": ring.spec.capacity.0,
        "guarantee_bytes_per_second": ring.spec.guarantee.0,
        "written_bytes": ring.written.0,
        "elements": ring.elements,
        "missed_deadlines": ring.missed_deadlines,
        "losses": losses,
        "oldest": ring.oldest.map(|time| time.to_string()),
        "newest": ring.newest.map(|time| time.to_string()),
        "history_seconds": ring.newest.zip(ring.oldest).map(|(newest, oldest)| newest.since(oldest).as_secs_f64()),
        "pins": ring.pins.len(),
        "segments": ring.segments,
        "pinned_segments": ring.pinned_segments,
    })
}
