//! Parts of a ring that leave targets on which nothing is to stay: who records has each made on another target, and goes on there
//! from one block to the next.
//!
//! What was recorded before stays where it was, and is read there before what came later ([`super::answer`]): elements go on
//! with their numbers, so the two are as one. When the ring has run over as much in the new place, the manager is told, and has the rest
//! removed. In this order: the part is made in the new place; the manager says that it lies there; whoever comes with what is
//! granted from then on shuts out at the old place who does not know it; the session there ends when all of it is durable; so it is known
//! where its numbers end; and the new place begins with these. Nothing is recorded in between, and the manager is not needed for that.

use super::way::{PAUSE, Way};
use super::writer::is_passing;
use super::{parts, replaced, reply};
use forebay_model::query::Query;
use forebay_model::ring::{Beginning, Pin, RingSpec, RingState, RingStatus, Spread};
use forebay_model::{Bytes, Cause, Error, Gap, Kind, Result, Timestamp};
use forebay_wire::control::Change;
use forebay_wire::control::files::{ComponentState, CreateRing, MOST_REFUSALS, Relocated};
use forebay_wire::control::names::Place;
use forebay_wire::ring::{RingAsk, RingQuery};
use std::collections::BTreeSet;

/// How often is tried to hold in the new place what is held as it comes, if the answer does not come.
const MOST_TRIES: u32 = 3;

/// Has a part that is to leave its target lie on another one from now on: on the first that can promise what it promises now. What is
/// being recorded where it lay goes on there, until whoever records has come to an end of it.
pub(super) async fn leave(way: &Way, spread: Spread) -> Result<()> {
    let spec = replaced::own_status(way).await?.spec;
    // What it was rounded up to on its target is not charged.
    let is_data = way.component() < spread.targets;
    let most = way.charged().0.div_ceil(if is_data { u64::from(spread.targets) } else { 1 });
    let part = RingSpec { capacity: spec.capacity.min(Bytes(most)), ..spec };
    let (file, component) = (way.file(), way.component());
    let mut refused_by = Vec::new();
    loop {
        way.change(Change::CreateRing(CreateRing {
            place: Place::of(file),
            mode: 0,
            capacity: way.charged(),
            refused_by: refused_by.clone(),
            targets: spread.targets,
            parity: spread.parity,
            again: false,
            leaving: Some(component),
        }))
        .await?;
        let next = way.next_place().ok_or_else(|| Error::stale("the part is not to lie elsewhere any more"))?;
        match replaced::make_as_it_fits(&next, part.clone()).await {
            Ok(()) => break,
            Err(Error { kind: Kind::Refused | Kind::Full | Kind::Usage, .. }) if refused_by.len() < MOST_REFUSALS => {
                refused_by.push(next.target());
            }
            Err(error) => return Err(error),
        }
    }
    let (_, version) = way.version();
    way.change(Change::Relocated(Relocated { file, component, version, recorded: true })).await?;
    way.renew().await
}

/// Has a part begin where it lies behind what it has in another place, if it has, and hold there as well what is pinned as it comes.
/// `number` is the last block of session `writer` in that place. The time of the newest element there, if that is known;
/// [`Kind::Busy`] while somebody records there.
pub(super) async fn go_on(way: &Way, writer: u64, number: u64) -> Result<Option<Timestamp>> {
    let Some(former) = way.former() else { return Ok(None) };
    let (sequence, before) = match replaced::own_status(&former).await {
        Ok(before) if before.recording => {
            return Err(Error::busy(format!("somebody records into {} where it lay before", way.path())));
        }
        Ok(before) if before.state != RingState::Recovering => (before.next_sequence, Some(before)),
        Ok(_) => return Err(Error::busy(format!("{} is being opened where it lay before", way.path()))),
        // It was copied from there meanwhile, or was run over.
        Err(error) if way.has_left(&former) => return Err(Error { kind: Kind::Disconnected, ..error }),
        Err(error) => {
            let own = replaced::own_status(way).await?;
            // It went on there before, or nothing is left that it could go on with.
            if own.next_sequence == own.begins && former.state() != ComponentState::Missed {
                return Err(Error { kind: Kind::Disconnected, ..error });
            }
            (own.begins, None)
        }
    };
    let beginning = Beginning { sequence, writer: if number == 0 { 0 } else { writer }, number };
    reply(way, RingAsk::Begin(beginning)).await?;
    let Some(before) = before else { return Ok(None) };
    for _ in 1..MOST_TRIES {
        match hold_as_it_comes(way, &before).await {
            Err(error) if is_passing(&error) => way.nodes().env().clock.sleep(PAUSE).await,
            held => return held.map(|()| before.newest),
        }
    }
    hold_as_it_comes(way, &before).await.map(|()| before.newest)
}

/// What is pinned as it comes where a part lay is where it lies, too, as far as there is room for it: nothing more comes where it lay.
/// What is there already is not pinned twice. Pins of the same label and times are one over both places ([`super::pins`]).
async fn hold_as_it_comes(way: &Way, before: &RingStatus) -> Result<()> {
    let (now, newest) = (way.nodes().env().clock.wall(), before.newest.unwrap_or(Timestamp::MIN));
    let is_open = |pin: &Pin| pin.to >= newest || pin.to > now;
    let open: Vec<(u64, &Pin)> = parts::numbered(&before.pins).into_iter().filter(|(_, pin)| is_open(pin)).collect();
    if open.is_empty() {
        return Ok(());
    }
    let here = replaced::own_status(way).await?.pins;
    let here: BTreeSet<u64> = parts::numbered(&here).into_iter().map(|(id, _)| id).collect();
    for (_, pin) in open.into_iter().filter(|(id, _)| !here.contains(id)) {
        let Pin { label, from, to, relatives, .. } = pin.clone();
        match reply(way, RingAsk::Pin { label, from, to, along: relatives }).await {
            Err(error) if is_passing(&error) => return Err(error),
            // For which there is no room, or of which nothing is to come, ends with what it holds.
            _ => {}
        }
    }
    Ok(())
}

/// Whether a part goes on where it lies: nothing comes any more where it lay.
pub(super) async fn goes_on(way: &Way) -> Result<bool> {
    let Some(former) = way.former() else { return Ok(true) };
    // In this order: what is recorded there is not recorded here.
    let (now, before) = (replaced::own_status(way).await?, replaced::own_status(&former).await?);
    let has_begun = now.next_sequence > now.begins || now.begins == before.next_sequence;
    Ok(!before.recording && has_begun)
}

/// What a part says of itself, of what it says where it lies and where it lay.
pub(super) fn both(way: &Way, before: Result<RingStatus>, now: RingStatus) -> Result<RingStatus> {
    match before {
        Ok(before) => Ok(joined(before, now)),
        // Nothing makes what it had, or the ring has run over that meanwhile.
        Err(_) if !way.is_covered() || way.former().is_none() => Ok(now),
        Err(error) => Err(error),
    }
}

fn joined(before: RingStatus, now: RingStatus) -> RingStatus {
    let has_begun = now.next_sequence > now.begins;
    let mut both = now;
    if before.state == RingState::Recovering && !has_begun {
        // It is not known yet how much there is.
        both.state = RingState::Recovering;
    }
    // Until it goes on in the new place, that has no numbers yet.
    both.next_sequence = both.next_sequence.max(before.next_sequence);
    both.readable_sequence = both.readable_sequence.max(before.readable_sequence);
    both.segments += before.segments;
    both.pinned_segments += before.pinned_segments;
    // What was run over there and is still to come here is none of it.
    if before.first_sequence < before.next_sequence {
        both.first_sequence = before.first_sequence;
    }
    both.oldest = before.oldest.or(both.oldest);
    both.newest = both.newest.or(before.newest);
    both.written += before.written;
    both.elements += before.elements;
    both.missed_deadlines += before.missed_deadlines;
    both.losses.merge(&before.losses);
    both.begins = before.begins;
    both.pins = parts::joined(&before.pins, &both.pins);
    both
}

/// What is missing of a part that cannot be asked where it lay before, if a query asks for it: all up to what there is where it lies, as
/// far as anything is known of times.
pub(super) async fn gap_before(way: &Way, query: &RingQuery) -> Result<Option<Gap>> {
    let own = replaced::own_status(way).await?;
    let parsed = Query::parse(&query.text, &own.spec.key_set()?, query.now)?;
    let ((from, to), (first, _)) = (parsed.time_range(), parsed.seq_range());
    let end = own.oldest.map_or(way.nodes().env().clock.wall(), |oldest| Timestamp(oldest.0.saturating_sub(1)));
    let gap = Gap { cause: Cause::TargetAway, count: None, first: way.created().max(from), last: end.min(to) };
    Ok(Some(gap).filter(|gap| gap.first <= gap.last && first < own.begins.max(1)))
}

#[cfg(test)]
mod tests;
