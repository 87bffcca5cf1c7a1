//! What the parts of a ring on several targets say, as the ring says it.

use forebay_model::block::crc32c;
use forebay_model::ring::{Pin, Pinned, RingState, RingStatus, Spread};
use forebay_model::{Error, Kind, Result, Timestamp};
use forebay_wire::control::files::ComponentState;
use std::collections::{BTreeMap, BTreeSet};

/// What all parts answered. With parity, one may be away: nothing of that one.
pub(super) fn answered<T>(answers: Vec<Result<T>>, spread: Spread) -> Result<Vec<Option<T>>> {
    let is_away = |error: &Error| matches!(error.kind, Kind::Disconnected | Kind::Busy | Kind::Device | Kind::Missing);
    let failed = answers.iter().filter(|answer| answer.is_err()).count();
    let may_lack = spread.parity && failed == 1;
    answers
        .into_iter()
        .map(|answer| match answer {
            Ok(answer) => Ok(Some(answer)),
            Err(error) if may_lack && is_away(&error) => Ok(None),
            Err(error) => Err(error),
        })
        .collect()
}

/// What all parts answered that are to hold something: one that is away would not, and run over it when it is back. Nothing of one
/// whose target is lost, if the parity makes what it had of the others, which hold theirs.
pub(super) fn to_be_pinned<T>(
    answers: Vec<Result<T>>,
    spread: Spread,
    states: &[ComponentState],
    name: &str,
) -> Result<Vec<Option<T>>> {
    let is_lost = |state: &ComponentState| matches!(state, ComponentState::Missed | ComponentState::Emptying);
    let answered = answers.into_iter().zip(states).map(|(answer, state)| match answer {
        Ok(answer) => Ok(Some(answer)),
        Err(_) if spread.parity && is_lost(state) => Ok(None),
        Err(error) if matches!(error.kind, Kind::Disconnected | Kind::Busy | Kind::Device) => Err(Error::busy(format!(
            "a part of {name} does not answer and would not hold what is pinned: {}; start its node and pin again, or say that its \
             target has failed",
            error.message
        ))),
        Err(error) => Err(error),
    });
    answered.collect()
}

/// Refuses a pin that is the same as one of these: they are told apart by label and times, since each part numbers its own.
pub(super) fn is_new(
    parts: &[Option<Vec<Pin>>],
    label: &str,
    (from, to): (Timestamp, Timestamp),
    name: &str,
) -> Result<()> {
    let is_same = |pin: &Pin| (pin.label.as_str(), pin.from, pin.to) == (label, from, to);
    match parts.iter().flatten().flatten().any(is_same) {
        true => Err(Error::exists(format!(
            "{name} has a pin '{label}' of these times already; let go of that one, or take another label"
        ))),
        false => Ok(()),
    }
}

/// The ring, as its parts say of themselves; those of the parity are the last.
pub(super) fn status(
    name: &str,
    spread: Spread,
    parts: &[Option<RingStatus>],
    replaced: &BTreeSet<u32>,
) -> Result<RingStatus> {
    let data = &parts[..spread.targets as usize];
    let first =
        data.iter().flatten().next().ok_or_else(|| Error::disconnected("no target that has the ring answers"))?;
    let mut whole = first.clone();
    whole.spec = spread.whole(name, &first.spec);
    let up_to = |end: u64, part: &RingStatus| end.saturating_sub(part.first_sequence);
    let readable = |part: &RingStatus| up_to(part.readable_sequence, part);
    (whole.first_sequence, whole.next_sequence) = (0, up_to(first.next_sequence, first));
    whole.readable_sequence = readable(first);
    for part in data.iter().flatten().filter(|part| !std::ptr::eq(*part, first)) {
        whole.segments += part.segments;
        whole.pinned_segments += part.pinned_segments;
        whole.next_sequence += up_to(part.next_sequence, part);
        whole.readable_sequence += readable(part);
        whole.newest = whole.newest.max(part.newest);
        whole.elements += part.elements;
        whole.losses.merge(&part.losses);
    }
    // All of it is there from when the last of them begins; what one lacks that was replaced is made with the parity.
    let reaches = |at: usize| if replaced.contains(&(at as u32)) { spread.targets as usize } else { at };
    let oldest = (0..data.len()).filter_map(|at| parts.get(reaches(at))?.as_ref()?.oldest);
    // Without its parity, what one target missed while it was away is not.
    let parity = parts.get(spread.targets as usize).filter(|_| !replaced.contains(&spread.targets));
    whole.oldest = oldest.chain(parity.and_then(|parity| parity.as_ref()?.oldest)).max();
    for part in parts.iter().flatten().filter(|part| !std::ptr::eq(*part, first)) {
        whole.state = worse(whole.state, part.state);
        whole.written += part.written;
        whole.missed_deadlines += part.missed_deadlines;
        whole.staging_peak += part.staging_peak;
        whole.staging += part.staging;
        whole.index_memory += part.index_memory;
        whole.memory_limit += part.memory_limit;
        whole.recording |= part.recording;
    }
    whole.pins = pins(&data.iter().map(|part| part.as_ref().map(|part| part.pins.clone())).collect::<Vec<_>>());
    Ok(whole)
}

fn worse(one: RingState, other: RingState) -> RingState {
    let rank = |state: RingState| match state {
        RingState::Ready => 0,
        RingState::Recovering => 1,
        RingState::Full => 2,
        RingState::Failed => 3,
    };
    if rank(other) > rank(one) { other } else { one }
}

/// The number of a pin of a ring over several targets: made of what was asked for, and how many of the same there are before it,
/// since each target numbers its own.
fn number(pin: &Pin, before: usize) -> u64 {
    let mut asked = pin.label.as_bytes().to_vec();
    asked.extend_from_slice(&pin.from.0.to_le_bytes());
    asked.extend_from_slice(&pin.to.0.to_le_bytes());
    u64::from(crc32c(&asked)) << 8 | before as u64 & 0xff
}

/// The pins of one part, each with its number in the ring.
pub(super) fn numbered(pins: &[Pin]) -> Vec<(u64, &Pin)> {
    let mut same: BTreeMap<(&str, Timestamp, Timestamp), usize> = BTreeMap::new();
    let of_it = pins.iter().map(|pin| {
        let count = same.entry((&pin.label, pin.from, pin.to)).or_default();
        *count += 1;
        (number(pin, *count - 1), pin)
    });
    of_it.collect()
}

/// The pins of a part that has some in two places, as of one; they have the numbers of one of the two.
pub(super) fn joined(before: &[Pin], now: &[Pin]) -> Vec<Pin> {
    let mut all: Vec<(u64, Pin)> = Vec::new();
    for (id, pin) in numbered(before).into_iter().chain(numbered(now)) {
        match all.iter_mut().find(|(known, _)| *known == id) {
            Some((_, known)) => add(known, pin),
            None => all.push((id, pin.clone())),
        }
    }
    all.into_iter().map(|(_, pin)| pin).collect()
}

/// The pins of a ring on one target that has some in two places.
pub(super) fn of_one(pins: &[Pin]) -> Vec<Pin> {
    numbered(pins).into_iter().map(|(id, pin)| Pin { id, ..pin.clone() }).collect()
}

/// The pins of the ring, oldest first, of what each part has with elements: those of the parity hold none of their own.
pub(super) fn pins(data: &[Option<Vec<Pin>>]) -> Vec<Pin> {
    let (mut all, mut places): (Vec<Pin>, BTreeMap<u64, usize>) = (Vec::new(), BTreeMap::new());
    for part in data.iter().flatten() {
        for (id, pin) in numbered(part) {
            match places.get(&id) {
                Some(at) => add(&mut all[*at], pin),
                None => {
                    places.insert(id, all.len());
                    all.push(whole(id, pin));
                }
            }
        }
    }
    all
}

fn whole(id: u64, pin: &Pin) -> Pin {
    Pin { id, first_sequence: 0, end_sequence: pin.end_sequence - pin.first_sequence, ..pin.clone() }
}

fn add(known: &mut Pin, pin: &Pin) {
    known.end_sequence += pin.end_sequence - pin.first_sequence;
    known.segments += pin.segments;
    known.bytes += pin.bytes;
}

/// What a pin got that was made on all parts with elements, where there was none of the same.
pub(super) fn pinned(data: &[Option<Pinned>]) -> Result<Pinned> {
    let mut parts = data.iter().flatten();
    let first = parts.next().ok_or_else(|| Error::missing("no target has anything in that range"))?;
    let mut all = Pinned { pin: whole(number(&first.pin, 0), &first.pin), ..first.clone() };
    for part in parts {
        add(&mut all.pin, &part.pin);
        all.expired_until = all.expired_until.max(part.expired_until);
        all.open_end |= part.open_end;
    }
    Ok(all)
}

#[cfg(test)]
mod tests;
