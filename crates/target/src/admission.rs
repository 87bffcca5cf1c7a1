//! (stand-in until the branch is merged)
use forebay_model::ring::RingSpec;
use forebay_model::{Bytes, Error, Profile, Rate, Result};
use std::ops::Range;
use std::time::Duration;
#[allow(missing_docs)]
pub struct Demand { pub rate: Rate, pub lag: Duration, pub places: Vec<Range<Bytes>>, pub hole_every: Option<Bytes>, pub skips_per_cycle: u32, pub segment: Bytes }
#[allow(missing_docs)]
pub struct Admitted;
#[allow(missing_docs)]
pub fn admit(_: &Profile, _: &[Demand], _: &Demand) -> Result<Admitted> { Ok(Admitted) }
#[allow(missing_docs)]
pub fn staging(profile: &Profile, rate: Rate, flush: Duration, block: Bytes) -> Bytes { rate.bytes_in(flush + profile.stall) + block * 16 }
#[allow(missing_docs)]
pub fn place(_: &Profile, free: &[Range<Bytes>], capacity: Bytes, group: Bytes, _: &RingSpec) -> Result<(Vec<Range<Bytes>>, bool)> {
    let want = capacity.align_up(group);
    let run = free.iter().find(|r| r.end - r.start >= want).ok_or_else(|| Error::refused(format!("no {want} are free")))?;
    Ok((vec![run.start..run.start + want], false))
}
