//! Pins of a ring, wherever its parts lie and lay.
//!
//! Each place numbers its own. Where there is more than one, pins are told apart by what was asked for, and have numbers made of that.

use super::way::Way;
use super::{Ring, checked, parts, reply};
use forebay_env::together::all;
use forebay_model::ring::{Pin, Pinned};
use forebay_model::{Bytes, Error, Kind, Result, Timestamp};
use forebay_wire::command::Reply;
use forebay_wire::control::files::ComponentState;
use forebay_wire::ring::RingAsk;

impl Ring {
    /// Preserves everything that still exists between `from` and `to`, both included; in this ring alone. Over several targets all
    /// have to answer but those that are lost, since what one does not hold it runs over; and there no other pin is the same.
    pub async fn pin(&self, label: &str, from: Timestamp, to: Timestamp) -> Result<Pinned> {
        self.pin_along(label, (from, to), &[]).await
    }

    /// The same, where these pins were made along with it in its relatives.
    pub(super) async fn pin_along(
        &self,
        label: &str,
        (from, to): (Timestamp, Timestamp),
        along: &[(String, u64)],
    ) -> Result<Pinned> {
        let places = self.places();
        let states: Vec<ComponentState> = places.iter().map(Way::state).collect();
        let data = places.iter().filter(|place| place.component() < self.spread.targets).count();
        let is_alone = places.len() == 1;
        if !is_alone {
            let pins = parts::to_be_pinned(pins_of(&places).await, self.spread, &states, self.path())?;
            parts::is_new(&pins, label, (from, to), self.path())?;
        }
        let asked = all(places.iter().map(|way| async move {
            match reply(way, RingAsk::Pin { label: label.to_string(), from, to, along: along.to_vec() }).await? {
                Reply::Pinned(pinned) => checked::pinned(way.target(), pinned),
                other => Err(crate::cluster::unexpected(&other)),
            }
        }));
        let mut pinned = asked.await;
        if is_alone {
            return pinned.remove(0);
        }
        let made: Vec<Option<u64>> =
            pinned.iter().map(|pinned| pinned.as_ref().ok().map(|pinned| pinned.pin.id)).collect();
        // Parts hold what is to come as it comes. Of what is past, one that has nothing has nothing to pin, and a pin of nothing is none.
        let is_to_come = to > self.ways[0].nodes().env().clock.wall();
        let has_some = pinned[..data].iter().flatten().any(|pinned| is_to_come || has_something(&pinned.pin));
        let answers: Vec<Result<Option<Pinned>>> = pinned
            .into_iter()
            .map(|answer| match answer {
                Err(error) if has_some && error.kind == Kind::Missing => Ok(None),
                Ok(_) if !has_some => {
                    Err(Error::missing(format!("{} has nothing between {from} and {to}", self.path())))
                }
                answer => answer.map(Some),
            })
            .collect();
        match parts::to_be_pinned(answers, self.spread, &states, self.path()) {
            Ok(parts) => {
                let parts: Vec<Option<Pinned>> = parts.into_iter().map(Option::flatten).collect();
                parts::pinned(&parts[..data])
            }
            Err(error) => {
                for (way, id) in places.iter().zip(made) {
                    if let Some(id) = id {
                        drop(reply(way, RingAsk::Unpin(id)).await);
                    }
                }
                Err(error)
            }
        }
    }

    /// Lets go of a pin, and of none of its relatives.
    pub async fn unpin(&self, pin: u64) -> Result<()> {
        let places = self.places();
        if places.len() == 1 {
            return unpin(&places[0], pin).await;
        }
        let pins = parts::answered(pins_of(&places).await, self.spread)?;
        let numbered = |pins: &Option<Vec<Pin>>| -> Vec<(u64, u64)> {
            let pins = parts::numbered(pins.as_deref().unwrap_or(&[]));
            pins.into_iter().map(|(number, pin)| (number, pin.id)).collect()
        };
        let pins: Vec<Vec<(u64, u64)>> = pins.iter().map(numbered).collect();
        let is_known = pins.iter().flatten().any(|(number, _)| *number == pin);
        // It may be known by the number that it had before the ring left its target, where it lay.
        let before = pins.last().filter(|_| !is_known && self.is_alone()).and_then(|pins| {
            let of_it = pins.iter().find(|(_, id)| *id == pin);
            of_it.map(|(number, _)| *number)
        });
        let wanted = before.unwrap_or(pin);
        let mut is_found = false;
        for (way, pins) in places.iter().zip(&pins) {
            for (_, id) in pins.iter().filter(|(number, _)| *number == wanted) {
                unpin(way, *id).await?;
                is_found = true;
            }
        }
        if is_found { Ok(()) } else { Err(Error::missing(format!("{} has no pin {pin}", self.path()))) }
    }

    /// The pins, oldest first.
    pub async fn pins(&self) -> Result<Vec<Pin>> {
        let places = self.places();
        let mut pins = pins_of(&places).await;
        if places.len() == 1 {
            return pins.remove(0);
        }
        let pins = parts::answered(pins, self.spread)?;
        let of = |component: u32| {
            let there = places.iter().zip(&pins).filter(|(place, _)| place.component() == component);
            there.filter_map(|(_, pins)| pins.clone()).reduce(|now, before| parts::joined(&before, &now))
        };
        match self.is_alone() {
            true => Ok(parts::of_one(&of(0).unwrap_or_default())),
            false => Ok(parts::pins(&(0..self.spread.targets).map(of).collect::<Vec<_>>())),
        }
    }

    /// Where its parts lie, and lay as long as something of them is there; those with the parity last.
    fn places(&self) -> Vec<Way> {
        let formers = self.ways.iter().filter_map(Way::former);
        // What is lost with a target it lay on before is nowhere.
        let formers = formers.filter(|former| former.state() != ComponentState::Missed);
        let mut places: Vec<Way> = self.ways.iter().cloned().chain(formers).collect();
        places.sort_by_key(|place| place.component() == self.spread.targets);
        places
    }
}

/// Whether a pin holds anything of its range so far.
fn has_something(pin: &Pin) -> bool {
    pin.bytes > Bytes::ZERO || pin.end_sequence > pin.first_sequence
}

async fn pins_of(places: &[Way]) -> Vec<Result<Vec<Pin>>> {
    all(places.iter().map(|place| async move {
        match reply(place, RingAsk::Pins).await? {
            Reply::Pins(pins) => checked::pins(place.target(), pins),
            other => Err(crate::cluster::unexpected(&other)),
        }
    }))
    .await
}

async fn unpin(way: &Way, pin: u64) -> Result<()> {
    match reply(way, RingAsk::Unpin(pin)).await? {
        Reply::Done => Ok(()),
        other => Err(crate::cluster::unexpected(&other)),
    }
}
