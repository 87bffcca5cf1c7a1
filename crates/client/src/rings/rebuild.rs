//! What a target does not have, or does not give, made of what the other ones of its stripe have.
//!
//! The tables in the parity say which blocks there were. Blocks are asked for by their times and known by session and number;
//! what cannot be made is told with its times, and with its count where a table has it.

mod absent;
mod blocks;
mod component;
mod late;
mod maker;
mod overrun;

pub(super) use absent::absent;
pub(super) use component::{component, left_behind};

use super::merge::Asked;
use super::stripe::Table;
use forebay_model::block::View;
use forebay_model::{Error, Gap, Kind, Result, Timestamp};

/// Whether an error says that what a target had is gone.
pub(super) fn is_of_a_lost_target(error: &Error) -> bool {
    matches!(error.kind, Kind::Missing | Kind::Device | Kind::Damaged)
}

/// Of which of these times the parity has nothing, and others have something.
fn before_parity(asked: &Asked, whole: Gap) -> Option<Gap> {
    let oldest: Vec<Option<Timestamp>> = asked.statuses.iter().map(|status| status.as_ref()?.oldest).collect();
    before_parity_of(&oldest, whole)
}

/// The same of parts with these oldest elements, the last of which is the parity. Where none has anything nobody knows whether there was
/// something: each may have begun anew.
fn before_parity_of(oldest: &[Option<Timestamp>], whole: Gap) -> Option<Gap> {
    let parity = oldest.last().copied().flatten().unwrap_or(Timestamp::MAX);
    let is_all = oldest.iter().flatten().min() >= Some(&parity);
    let last = Timestamp(parity.0.saturating_sub(1)).min(whole.last);
    (parity > whole.first && !is_all).then_some(Gap { last, ..whole })
}

/// Table and parity of a block of parity, if it has such.
fn read<'a>(asked: &Asked, view: &View<'a>) -> Result<Option<(Table, &'a [u8])>> {
    let mut entries = view.entries();
    let (Some(table), Some(xor)) = (entries.next().transpose()?, entries.next().transpose()?) else { return Ok(None) };
    let bytes = view.bytes();
    Ok(Some((Table::read(&bytes[table.payload], asked.spread.targets)?, &bytes[xor.payload])))
}

#[cfg(test)]
mod tests;
