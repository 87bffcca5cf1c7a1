//! What a node says of its part of a ring, before anything is calculated with it: absurd numbers are an error of that node.

use forebay_model::ring::{Beginning, Pin, Pinned, RingState, RingStatus};
use forebay_model::{Bytes, Error, Result, TargetId};
use forebay_wire::command::WriterOpened;

/// No number of one part is as large, so that those of all parts can be added.
const MOST: u64 = Beginning::MOST;
/// Nor is the memory in which a part takes blocks in.
const MOST_STAGING: Bytes = Bytes::gib(64);

/// What a part says of itself.
pub(super) fn status(target: TargetId, status: RingStatus) -> Result<RingStatus> {
    status.spec.check().map_err(|error| broken(target, &error.message))?;
    let (losses, spec) = (&status.losses, &status.spec);
    let single = [
        ("capacity", spec.capacity.0),
        ("guarantee", spec.guarantee.0),
        ("segment", spec.segment.0),
        ("segments", status.segments),
        ("pinned segments", status.pinned_segments),
        ("next sequence", status.next_sequence),
        ("readable sequence", status.readable_sequence),
        ("beginning", status.begins),
        ("written bytes", status.written.0),
        ("elements", status.elements),
        ("missed deadlines", status.missed_deadlines),
        ("peak of staging memory", status.staging_peak.0),
        ("staging memory", status.staging.0),
        ("memory of the index", status.index_memory.0),
        ("memory", status.memory_limit.0),
    ];
    let losses = losses.elements.iter().chain(&losses.gaps).map(|count| ("losses", *count));
    single.into_iter().chain(losses).try_for_each(|(what, number)| plausible(target, what, number))?;
    // One that is being opened does not know yet what it has.
    if status.state != RingState::Recovering && status.first_sequence > status.next_sequence {
        return Err(broken(target, "its oldest element comes after its newest"));
    }
    plausible(target, "first sequence", status.first_sequence)?;
    status.pins.iter().try_for_each(|one| pin(target, one))?;
    Ok(status)
}

/// The pins of a part.
pub(super) fn pins(target: TargetId, pins: Vec<Pin>) -> Result<Vec<Pin>> {
    pins.iter().try_for_each(|one| pin(target, one))?;
    Ok(pins)
}

/// A pin that was made on a part.
pub(super) fn pinned(target: TargetId, pinned: Pinned) -> Result<Pinned> {
    pin(target, &pinned.pin)?;
    Ok(pinned)
}

/// The capacity of a part.
pub(super) fn capacity(target: TargetId, capacity: Bytes) -> Result<Bytes> {
    plausible(target, "capacity", capacity.0)?;
    Ok(capacity)
}

/// What a part says to who begins to record.
pub(super) fn opened(target: TargetId, opened: WriterOpened) -> Result<WriterOpened> {
    opened.spec.check().map_err(|error| broken(target, &error.message))?;
    plausible(target, "capacity", opened.spec.capacity.0)?;
    plausible(target, "guarantee", opened.spec.guarantee.0)?;
    let staging = opened.spec.block.0 * u64::from(opened.buffers);
    if staging > MOST_STAGING.0 {
        let buffers = opened.buffers;
        return Err(broken(target, &format!("it has {buffers} buffers of {} to take blocks in", opened.spec.block)));
    }
    Ok(opened)
}

fn pin(target: TargetId, pin: &Pin) -> Result<()> {
    for (what, number) in [("end", pin.end_sequence), ("segments", pin.segments), ("bytes", pin.bytes.0)] {
        plausible(target, &format!("{what} of a pin"), number)?;
    }
    if pin.first_sequence > pin.end_sequence {
        return Err(broken(target, &format!("pin {} ends before it begins", pin.id)));
    }
    Ok(())
}

fn plausible(target: TargetId, what: &str, number: u64) -> Result<()> {
    if number < MOST {
        return Ok(());
    }
    Err(broken(target, &format!("{what}: {number}")))
}

fn broken(target: TargetId, what: &str) -> Error {
    Error::damaged(format!(
        "the node of target {target} says of its part of a ring what cannot be ({what}): it is broken"
    ))
}

#[cfg(test)]
mod tests;
