//! Rings whose data of the same time is pinned along with a ring's, wherever each of them lies.
//!
//! Each part of a ring keeps what stands for its relatives, which are entries, and with each pin those that were made along with it. A
//! pin of a relative is of that alone: relatives of relatives are not pinned. Those are pinned first; if the ring itself cannot be, or one
//! of them for another reason than that it has nothing of that time, all of that is undone.

use super::{Ring, Rings, reply};
use crate::control::strange;
use crate::rings::way::Way;
use forebay_model::ring::Pinned;
use forebay_model::{Error, Kind, Result, Timestamp};
use forebay_wire::command::Reply;
use forebay_wire::control::files::OpenRing;
use forebay_wire::control::names::Place;
use forebay_wire::control::{self, Question};
use forebay_wire::ring::{MOST_RELATIVES, RingAsk, entry_of, relative_of};

impl Rings {
    /// Gives a ring these relatives, which are pinned along with it from now on, and no others.
    pub async fn relate(&self, path: &str, relatives: &[String]) -> Result<Ring> {
        let ring = self.open(path, true).await?;
        let relatives = self.relatives(path, relatives).await?;
        ring.keep_relatives(&relatives).await?;
        Ok(ring)
    }

    /// What stands for these rings, as relatives of another one.
    pub(super) async fn relatives(&self, path: &str, relatives: &[String]) -> Result<Vec<String>> {
        if relatives.len() > MOST_RELATIVES {
            return Err(Error::usage(format!(
                "{} relatives are too many for {path}; {MOST_RELATIVES} are the most",
                relatives.len()
            )));
        }
        let mut found = Vec::with_capacity(relatives.len());
        for relative in relatives {
            if relative == path {
                return Err(Error::usage(format!("{path} cannot be its own relative; name other rings")));
            }
            let one = relative_of(self.open(relative, false).await?.ways[0].file());
            if found.contains(&one) {
                return Err(Error::usage(format!("{relative} is named twice as a relative of {path}; name it once")));
            }
            found.push(one);
        }
        Ok(found)
    }

    /// Preserves everything that still exists between `from` and `to`, both included, and along with it what the ring's relatives
    /// have of that time.
    pub async fn pin(&self, path: &str, label: &str, from: Timestamp, to: Timestamp) -> Result<Pinned> {
        let ring = self.open(path, true).await?;
        let mut along = Vec::new();
        let pinned = match self.pin_relatives(&ring, label, (from, to), &mut along).await {
            Ok(()) => ring.pin_along(label, (from, to), &along).await,
            Err(error) => Err(error),
        };
        if pinned.is_err() {
            // The error that matters is the one we have; what is left is among the pins of its ring.
            drop(self.unpin_all(&along).await);
        }
        pinned
    }

    async fn pin_relatives(
        &self,
        ring: &Ring,
        label: &str,
        (from, to): (Timestamp, Timestamp),
        along: &mut Vec<(String, u64)>,
    ) -> Result<()> {
        for relative in ring.status().await?.spec.relatives {
            let Some(other) = self.relative(&relative).await? else { continue };
            match other.pin(label, from, to).await {
                Ok(pinned) => along.push((relative, pinned.pin.id)),
                // One that has nothing of that time has nothing to hold.
                Err(error) if matches!(error.kind, Kind::Missing | Kind::Expired) => {}
                Err(error) => return Err(error.of("a relative cannot be pinned along")),
            }
        }
        Ok(())
    }

    /// Lets go of a pin and of those made along with it.
    pub async fn unpin(&self, path: &str, pin: u64) -> Result<()> {
        let ring = self.open(path, true).await?;
        let pins = ring.pins().await?;
        let along = pins.into_iter().find(|found| found.id == pin).map(|found| found.relatives).unwrap_or_default();
        ring.unpin(pin).await?;
        self.unpin_all(&along).await
    }

    async fn unpin_all(&self, along: &[(String, u64)]) -> Result<()> {
        for (relative, pin) in along {
            let Some(other) = self.relative(relative).await? else { continue };
            match other.unpin(*pin).await {
                // Somebody let go of it already.
                Err(error) if error.kind != Kind::Missing => {
                    return Err(error.of("what was pinned along with it is not let go of"));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// A relative, to pin it; nothing of one that was removed.
    async fn relative(&self, relative: &str) -> Result<Option<Ring>> {
        let Some(entry) = entry_of(relative) else { return Ok(None) };
        let open = OpenRing { place: Place::of(entry), write: true };
        match self.control.ask(Question::OpenRing(open)).await {
            Ok(control::Reply::Grant(grant)) => self.ring(&entry.to_string(), grant).map(Some),
            Ok(other) => Err(strange(&other)),
            Err(error) if error.kind == Kind::Missing => Ok(None),
            Err(error) => Err(error.of(format!("a relative, {entry}"))),
        }
    }
}

impl Ring {
    async fn keep_relatives(&self, relatives: &[String]) -> Result<()> {
        let before = self.statuses().await.into_iter().collect::<Result<Vec<_>>>()?;
        for (at, way) in self.ways.iter().enumerate() {
            if let Err(error) = relate(way, relatives.to_vec()).await {
                for (way, before) in self.ways[..=at].iter().zip(before) {
                    // One that does not take it back pins along what it was told last, if it is asked first.
                    drop(relate(way, before.spec.relatives).await);
                }
                return Err(error);
            }
        }
        Ok(())
    }
}

async fn relate(way: &Way, relatives: Vec<String>) -> Result<()> {
    match reply(way, RingAsk::Relate(relatives)).await? {
        Reply::Ring(_) => Ok(()),
        other => Err(crate::cluster::unexpected(&other)),
    }
}
