//! Asks once more what may have taken effect already: the connection ended between the request and its answer.

use crate::peer::Peer;
use forebay_model::ring::{Pinned, RingSpec};
use forebay_model::{Error, Kind, Result};
use forebay_wire::command::{Reply, Request};

/// Asks `peer` for what another, which went away before it answered, was asked for. What that one did counts.
pub fn again(peer: &dyn Peer, request: &Request) -> Result<Reply> {
    if let Request::Pin { ring, label, from, to, .. } = request
        && let Reply::Pins(pins) = peer.call(Request::Pins { ring: ring.clone() })?
        && let Some(pin) = pins.into_iter().rev().find(|p| (&p.label, p.from, p.to) == (label, *from, *to))
    {
        return Ok(Reply::Pinned(Pinned { open_end: *to > peer.wall(), pin, expired_until: None }));
    }
    let error = match peer.call(request.clone()) {
        Ok(reply) => return Ok(reply),
        Err(error) => error,
    };
    match (request, error.kind) {
        (Request::DeleteRing { .. } | Request::DeleteHeap { .. } | Request::Unpin { .. }, Kind::Missing) => {
            Ok(Reply::Done)
        }
        (Request::CreateRing(spec), Kind::Exists) => {
            match peer.call(Request::Status { ring: Some(spec.name.clone()) })? {
                Reply::Rings(mut rings) if rings.len() == 1 && made_as(spec, &rings[0].spec) => {
                    Ok(Reply::Ring(Box::new(rings.remove(0))))
                }
                _ => Err(error),
            }
        }
        (Request::CreateHeap { heap, .. }, Kind::Exists) => Err(Error::exists(format!(
            "{}; it may be the one that was asked for, made before the connection ended: `forebay heap stat {heap}`",
            error.message
        ))),
        _ => Err(error),
    }
}

/// Whether a ring as it is now was made as asked for: a target rounds capacity and segment up, and chooses the share of
/// the index where it is not told.
fn made_as(asked: &RingSpec, made: &RingSpec) -> bool {
    let index_percent = if asked.index_percent == 0 { made.index_percent } else { asked.index_percent };
    let asked = RingSpec { capacity: made.capacity, segment: made.segment, index_percent, ..asked.clone() };
    asked == *made
}

#[cfg(test)]
mod tests;
