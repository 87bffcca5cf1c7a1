//! Results as JSON. The shapes are promised: names stay, units are in the names, new members may come.

use forebay_client::heaps::{CommitInfo, HeapInfo, HeapMode};
use forebay_client::{Info, RecorderProgress, TargetPlan};
use forebay_model::ring::{Content, Losses, Overflow, Pin, PinPolicy, Pinned, QuerySummary, RingStatus};
use forebay_model::{Cause, Gap, Plan, Profile, Timestamp};
use serde_json::{Map, Value, json};

/// A time.
pub fn time(time: Timestamp) -> Value {
    Value::String(time.to_string())
}

/// A time that may be unknown.
fn maybe_time(time: Option<Timestamp>) -> Value {
    time.map_or(Value::Null, self::time)
}

/// Losses by cause; causes without any are left out.
pub fn losses(losses: &Losses) -> Value {
    let mut by_cause = Map::new();
    for cause in Cause::ALL {
        let at = cause.index();
        if losses.gaps[at] > 0 || losses.elements[at] > 0 {
            by_cause
                .insert(cause.name().to_string(), json!({ "elements": losses.elements[at], "gaps": losses.gaps[at] }));
        }
    }
    Value::Object(by_cause)
}

/// A pin.
pub fn pin(ring: &str, pin: &Pin) -> Value {
    let relatives: Vec<Value> = pin.relatives.iter().map(|(ring, id)| json!({ "ring": ring, "id": id })).collect();
    json!({
        "ring": ring, "id": pin.id, "label": pin.label, "from": time(pin.from), "to": time(pin.to),
        "first_sequence": pin.first_sequence, "end_sequence": pin.end_sequence, "segments": pin.segments,
        "bytes": pin.bytes.0, "relatives": relatives,
    })
}

/// A pin that was made.
pub fn pinned(ring: &str, pinned: &Pinned) -> Value {
    let mut value = pin(ring, &pinned.pin);
    value["expired_until"] = maybe_time(pinned.expired_until);
    value["open_end"] = Value::Bool(pinned.open_end);
    value
}

/// A ring.
pub fn ring(ring: &RingStatus) -> Value {
    let spec = &ring.spec;
    let pins: Vec<Value> = ring.pins.iter().map(|p| pin(&spec.name, p)).collect();
    let history = ring.newest.zip(ring.oldest).map(|(newest, oldest)| newest.since(oldest).as_secs_f64());
    json!({
        "name": spec.name,
        "state": ring.state.name(),
        "recording": ring.recording,
        "capacity_bytes": spec.capacity.0,
        "guarantee_bytes_per_second": spec.guarantee.0,
        "segment_bytes": spec.segment.0,
        "block_bytes": spec.block.0,
        "flush_interval_seconds": spec.flush_interval.as_secs_f64(),
        "keys": spec.keys,
        "index_budget_percent": spec.index_percent,
        "link_type": match spec.content { Content::Packets(link) => json!(link), Content::Opaque => Value::Null },
        "pin_budget_percent": spec.pin_budget_percent,
        "pin_policy": match spec.pin_policy {
            PinPolicy::Refuse => "refuse",
            PinPolicy::Shorten => "shorten",
            PinPolicy::Stop => "stop",
        },
        "overflow": match spec.overflow { Overflow::Block => "block", Overflow::DropNewest => "drop" },
        "relatives": spec.relatives,
        "segments": ring.segments,
        "pinned_segments": ring.pinned_segments,
        "first_sequence": ring.first_sequence,
        "next_sequence": ring.next_sequence,
        "oldest": maybe_time(ring.oldest),
        "newest": maybe_time(ring.newest),
        "history_seconds": history,
        "written_bytes": ring.written.0,
        "elements": ring.elements,
        "missed_deadlines": ring.missed_deadlines,
        "losses": losses(&ring.losses),
        "staging_bytes": ring.staging.0,
        "staging_peak_bytes": ring.staging_peak.0,
        "index_memory_bytes": ring.index_memory.0,
        "memory_limit_bytes": ring.memory_limit.0,
        "pins": pins,
    })
}

/// Who serves, and the targets.
pub fn info(info: &Info) -> Value {
    let targets: Vec<Value> = info
        .targets
        .iter()
        .map(|target| {
            json!({
                "id": target.id.to_string(), "device": target.device, "size_bytes": target.size.0,
                "rotates": target.rotates, "group_bytes": target.group.0, "free_bytes": target.free.0,
                "largest_free_bytes": target.largest_free.0, "complaints": target.complaints,
                "written_bytes": target.activity.guaranteed.0, "read_bytes": target.activity.read.0,
                "metadata_bytes": target.activity.metadata.0,
                "missed_deadlines": target.activity.missed_deadlines, "throttled": target.activity.throttled,
                "times_slower_than_profile": target.activity.slower,
                "map_memory_bytes": target.map_memory.0, "map_memory_limit_bytes": target.map_memory_limit.0,
                "rings_made_anew": target.rings_made_anew,
            })
        })
        .collect();
    json!({ "version": info.version, "process": info.process, "targets": targets })
}

/// A heap.
pub fn heap(heap: &HeapInfo) -> Value {
    let classes: Vec<Value> = heap
        .classes
        .iter()
        .filter(|class| class.allocators > 0)
        .map(|class| {
            json!({
                "slot_bytes": class.slot, "allocators": class.allocators, "slots": class.slots, "used": class.used,
                "free": class.slots.saturating_sub(class.used + class.kept), "put": class.taken, "recycled": class.recycled,
                "freed": class.freed, "kept": class.kept,
            })
        })
        .collect();
    let activity = &heap.activity;
    json!({
        "name": heap.name, "target": heap.target.to_string(), "commit": heap.last.commit,
        "committed": time(heap.last.time), "root": heap.last.root.map(|root| root.to_string()),
        "oldest_commit": heap.oldest, "archive_slots": heap.archive_slots, "threshold": heap.settings.threshold,
        "worm": heap.settings.mode == HeapMode::Worm, "keep_seconds": heap.settings.keep.as_secs_f64(), "used_bytes": heap.used.0, "space_bytes": heap.space.0,
        "classes": classes, "commits": activity.commits, "put_records": activity.put,
        "dropped_records": activity.dropped, "cache_hits": activity.hits, "hot_reads": activity.hot_reads, "device_writes": activity.writes,
        "written_records": activity.records, "written_bytes": activity.written.0,
        "padding_bytes": activity.padding.0, "read_back": activity.read_back, "meta_writes": activity.meta_writes,
        "complaints": heap.complaints,
    })
}

/// A commit of a heap.
pub fn commit(commit: &CommitInfo) -> Value {
    json!({ "commit": commit.commit, "time": time(commit.time), "root": commit.root.map(|root| root.to_string()) })
}

/// A gap.
pub fn gap(gap: &Gap) -> Value {
    json!({
        "type": "gap", "cause": gap.cause.name(), "count": gap.count,
        "first": time(gap.first), "last": time(gap.last),
    })
}

/// What a query has to say about itself.
pub fn query_summary(summary: &QuerySummary) -> Value {
    json!({
        "type": "summary", "elements": summary.elements, "bytes": summary.bytes.0, "read_bytes": summary.read.0,
        "segments": summary.segments, "blocks": summary.blocks, "expired": summary.expired, "pinned": summary.pinned,
    })
}

/// What a recorder has done.
pub fn recorded(kind: &str, progress: &RecorderProgress, seconds: f64) -> Value {
    json!({
        "type": kind, "seconds": seconds, "elements": progress.elements, "bytes": progress.bytes.0,
        "losses": losses(&progress.losses), "lost_elements": progress.losses.total(),
        "blocks": progress.blocks, "durable_elements": progress.durable_elements,
        "durable_blocks": progress.durable_blocks,
        "durable_sequence": progress.durable_sequence, "full": progress.full,
    })
}

/// What was measured of a device.
pub fn profile(profile: &Profile) -> Value {
    let points: Vec<Value> = profile
        .points
        .iter()
        .map(|p| {
            json!({
                "offset_bytes": p.offset.0, "write_bytes_per_second": p.write.0, "read_bytes_per_second": p.read.0,
                "worst_seconds": p.worst.as_secs_f64(),
            })
        })
        .collect();
    json!({
        "points": points, "rotates": profile.rotates, "short_seek_seconds": profile.short_seek.as_secs_f64(),
        "full_seek_seconds": profile.full_seek.as_secs_f64(), "stall_seconds": profile.stall.as_secs_f64(),
        "flush_seconds": profile.flush.as_secs_f64(), "measured": time(profile.measured),
    })
}

/// What one target could promise.
pub fn target_plan(plan: &TargetPlan) -> Value {
    let mut value = self::plan(&plan.device, &plan.plan);
    value["target"] = Value::String(plan.target.to_string());
    value
}

/// What a device could promise.
pub fn plan(device: &str, plan: &Plan) -> Value {
    let places: Vec<Value> = plan.places.iter().map(|run| json!([run.start.0, run.end.0])).collect();
    json!({
        "device": device, "can": plan.can, "rate_bytes_per_second": plan.rate.0,
        "highest_bytes_per_second": plan.highest.0, "largest_bytes": plan.largest.0, "places": places,
        "without_logs": plan.without_logs, "capacity_bytes": plan.capacity.0, "usable": plan.usable,
        "history_seconds": plan.history.as_secs_f64(), "staging_bytes": plan.staging.0, "note": plan.note,
    })
}
