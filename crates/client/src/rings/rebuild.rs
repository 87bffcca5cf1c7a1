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
use forebay_model::ring::RingStatus;
use forebay_model::{Error, Gap, Kind, Result, Timestamp};

/// Whether an error says that what a target had is gone.
pub(super) fn is_of_a_lost_target(error: &Error) -> bool {
    matches!(error.kind, Kind::Missing | Kind::Device | Kind::Damaged)
}

/// Of which of these times the parity has nothing, and others have something.
fn before_parity(asked: &Asked, whole: Gap) -> Option<Gap> {
    before_parity_of(&asked.statuses, asked.spread.targets, whole)
}

/// The same as all parts say it now, the last of which is the parity.
fn before_parity_of(statuses: &[Option<RingStatus>], parity: u32, whole: Gap) -> Option<Gap> {
    let oldest = |status: &Option<RingStatus>| status.as_ref().and_then(|status| status.oldest);
    let parity = oldest(&statuses[parity as usize]).unwrap_or(Timestamp::MAX);
    let is_all = statuses.iter().filter_map(oldest).min() >= Some(parity);
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
