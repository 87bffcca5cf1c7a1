//! Holds an answer against what is known to have been recorded: right bytes, in order, and every number from the first
//! to the last either returned or told to be gone, with exact counts.

use crate::reader::Event;
use forebay_model::gap::Gap;
use forebay_model::{Cause, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// What is known of one element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its time.
    pub time: Timestamp,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

/// What an answer amounted to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// Elements that were returned.
    pub returned: BTreeSet<u64>,
    /// Elements of what is kept that were told to be damaged or expired.
    pub told: BTreeSet<u64>,
    /// Those of them that were told to be expired.
    pub expired: BTreeSet<u64>,
    /// Gaps that were recorded: all but damage.
    pub gaps: Vec<Gap>,
    /// Places where damage was told without a number: gap records that are gone.
    pub unknown: u64,
}

/// Holds the answer to `all` against `known`. `kept` is what the ring still has.
pub fn audit(events: &[Event], known: &BTreeMap<u64, Known>, kept: Range<u64>) -> Result<Answer, String> {
    let mut answer = Answer::default();
    let mut next: Option<u64> = None;
    let mut owed = 0u64;
    for event in events {
        match event {
            Event::Element { sequence, .. } => {
                right(event, known)?;
                let expected = next.unwrap_or(kept.start.min(*sequence)) + owed;
                if expected != *sequence {
                    return Err(format!("element {sequence} comes where {expected} was due ({owed} told as damaged)"));
                }
                answer.told.extend(sequence - owed..*sequence);
                answer.returned.insert(*sequence);
                (next, owed) = (Some(sequence + 1), 0);
            }
            Event::Gap(gap) if gap.cause != Cause::Damaged => answer.gaps.push(*gap),
            Event::Gap(Gap { count: Some(n), .. }) => owed += n,
            Event::Gap(_) => answer.unknown += 1,
            Event::Expired(from, to) => {
                let expected = next.unwrap_or(kept.start.min(*from)) + owed;
                if next.is_some() && expected != *from || from >= to {
                    return Err(format!("{from}..{to} is told as expired where {expected} was due"));
                }
                answer.told.extend(from - owed..*to);
                answer.expired.extend(*from..*to);
                (next, owed) = (Some(*to), 0);
            }
        }
    }
    let end = next.unwrap_or(kept.start) + owed;
    if end != kept.end {
        return Err(format!("the answer ends at {end}, and the ring at {}", kept.end));
    }
    answer.told.extend(end - owed..end);
    // What the ring has run over is not missing from it.
    answer.told = answer.told.split_off(&kept.start);
    answer.expired = answer.expired.split_off(&kept.start);
    Ok(answer)
}

/// Holds the answer to a query that asks for some elements against those: `asked` that are not in `gone` have to be
/// there, nothing else may, and if something of `gone` was asked for, something has to be told.
pub fn audit_some(
    events: &[Event],
    known: &BTreeMap<u64, Known>,
    asked: &BTreeSet<u64>,
    gone: &BTreeSet<u64>,
) -> Result<(), String> {
    let mut returned = BTreeSet::new();
    let mut last = None;
    for event in events {
        if let Event::Element { sequence, .. } = event {
            right(event, known)?;
            if last.is_some_and(|last| *sequence <= last) {
                return Err(format!("element {sequence} comes after {last:?}"));
            }
            last = Some(*sequence);
            returned.insert(*sequence);
        }
    }
    let expected: BTreeSet<u64> = asked.difference(gone).copied().collect();
    if returned != expected {
        let (extra, missing) = (&returned - &expected, &expected - &returned);
        return Err(format!("{} should not be there, {} should", runs(&extra), runs(&missing)));
    }
    let told = events.iter().any(|event| match event {
        Event::Gap(gap) => gap.cause == Cause::Damaged,
        Event::Expired(..) => true,
        Event::Element { .. } => false,
    });
    let missing: BTreeSet<u64> = asked & gone;
    if !told && !missing.is_empty() {
        return Err(format!("{} are missing and nothing is told", runs(&missing)));
    }
    Ok(())
}

/// A set of numbers, for people.
pub fn runs(numbers: &BTreeSet<u64>) -> String {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some(last) if last.end == *number => last.end += 1,
            _ => runs.push(*number..number + 1),
        }
    }
    format!("{runs:?}")
}

fn right(event: &Event, known: &BTreeMap<u64, Known>) -> Result<(), String> {
    let Event::Element { sequence, time, bytes } = event else { return Ok(()) };
    match known.get(sequence) {
        Some(known) if known.time == *time && known.bytes == *bytes => Ok(()),
        Some(_) => Err(format!("element {sequence} has wrong bytes")),
        None => Err(format!("element {sequence} was never recorded")),
    }
}
