//! Pins over a ring and its relatives: made together, let go of together.

use super::Target;
use crate::ring::Ring;
use forebay_model::ring::{Pin, Pinned};
use forebay_model::{Kind, Result, Timestamp};
use std::rc::Rc;

impl Target {
    /// Pins a time range in a ring, and along with it in its relatives, each what it still has.
    pub async fn pin(&self, name: &str, label: &str, from: Timestamp, to: Timestamp) -> Result<Pinned> {
        self.pin_along(name, label, (from, to), Vec::new()).await
    }

    /// The same, where these pins were made along with it in rings elsewhere: with it, they are kept.
    pub async fn pin_along(
        &self,
        name: &str,
        label: &str,
        (from, to): (Timestamp, Timestamp),
        along: Vec<(String, u64)>,
    ) -> Result<Pinned> {
        let ring = self.ring(name)?;
        // Before it has found its tail, a ring does not know what it has.
        ring.ready().await?;
        let mut pinned = ring.pin(label, from, to).await?;
        let relatives = self.core.with_ring(ring.id, |r| r.spec.relatives.clone());
        for relative in relatives {
            let Ok(other) = self.ring(&relative) else { continue };
            // It, too, has to have found its tail.
            let pinned_along = match other.ready().await {
                Ok(()) => other.pin(label, from, to).await,
                Err(error) => Err(error),
            };
            match pinned_along {
                Ok(along) => pinned.pin.relatives.push((relative, along.pin.id)),
                // A relative that has nothing of that time has nothing to hold; every other refusal undoes the whole.
                Err(error) if matches!(error.kind, Kind::Missing | Kind::Expired) => {}
                Err(error) => {
                    self.undo(&pinned.pin, &ring).await?;
                    return Err(error.of(format!("the relative {relative} cannot be pinned along")));
                }
            }
        }
        pinned.pin.relatives.extend(along);
        if !pinned.pin.relatives.is_empty() {
            self.core.if_ring(ring.id, |r| {
                if let Some(record) = r.pins.iter_mut().find(|p| p.pin.id == pinned.pin.id) {
                    record.pin.relatives.clone_from(&pinned.pin.relatives);
                }
            });
            if let Err(error) = self.core.check_pins() {
                self.undo(&pinned.pin, &ring).await?;
                return Err(error);
            }
            self.core.commit().await?;
        }
        Ok(pinned)
    }

    async fn undo(&self, pin: &Pin, ring: &Rc<Ring>) -> Result<()> {
        ring.unpin(pin.id).await?;
        for (relative, id) in &pin.relatives {
            self.ring(relative)?.unpin(*id).await?;
        }
        Ok(())
    }

    /// Lets go of a pin and of those made along with it.
    pub async fn unpin(&self, name: &str, id: u64) -> Result<()> {
        let pin = self.unpin_one(name, id).await?;
        for (relative, id) in &pin.relatives {
            match self.unpin_one(relative, *id).await {
                Err(error) if error.kind != Kind::Missing => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }

    async fn unpin_one(&self, name: &str, id: u64) -> Result<Pin> {
        let ring = self.ring(name)?;
        // It looks for its tail by what it holds.
        ring.ready().await?;
        ring.unpin(id).await
    }
}
