//! What was written becomes durable; and components that lost or missed some of it get it from the others.

use super::components::is_lost_or_damaged;
use super::mend::CROWDED;
use super::reach::Reach;
use super::together::all;
use forebay_model::layout::address::Place;
use forebay_model::layout::update::Extent;
use forebay_model::object::Durability;
use forebay_model::ranges::Ranges;
use forebay_model::{Bytes, Error, Kind, Result};
use std::rc::Rc;

impl Reach {
    /// Makes durable, on every component or on enough of them, all that was written. Nobody writes meanwhile.
    pub(super) async fn catch_up(self: &Rc<Self>) -> Result<()> {
        for torn in self.torn() {
            self.give_up(torn, &Error::device(format!("component {torn} failed a write"))).await?;
        }
        let unflushed: Vec<(u32, Ranges)> = self.take_unflushed().into_iter().collect();
        let flushed =
            all(unflushed.iter().map(|(component, _)| self.unless_left(*component, self.components.flush(*component))))
                .await;
        let mut late = Vec::new();
        for ((component, ranges), flushed) in unflushed.into_iter().zip(flushed) {
            let error = match flushed {
                Ok(()) if self.is_written(component) || self.has_missed(component) => continue,
                // What was left meanwhile may still do what was asked of it, after all that would be written now.
                Ok(()) if self.torn().contains(&component) => {
                    self.give_up(component, &Error::device(format!("component {component} failed a write"))).await?;
                    continue;
                }
                Ok(()) => Error::device(format!("component {component} failed a write")),
                Err(error) if error.kind == Kind::Restarted && !self.has_missed(component) => error,
                Err(error) if is_lost_or_damaged(&error) => {
                    self.give_up(component, &error).await?;
                    continue;
                }
                Err(error) => return Err(error),
            };
            // None of these is read for the others: first all of them are known.
            for range in ranges.iter() {
                let place = Place { component, at: Bytes(range.start) };
                self.fall_behind(Extent { place, length: Bytes(range.end - range.start) }, &error)?;
            }
            late.push((component, ranges));
        }
        for (component, ranges) in late {
            match self.bring_up(component, &ranges).await {
                Ok(()) => self.is_whole(component),
                Err(error) => self.give_up(component, &error).await?,
            }
        }
        Ok(())
    }

    /// Writes what a component lacks.
    async fn bring_up(self: &Rc<Self>, component: u32, ranges: &Ranges) -> Result<()> {
        for range in ranges.iter() {
            let mut at = range.start;
            while at < range.end {
                let length = Bytes(range.end - at).min(self.options.request);
                let place = Place { component, at: Bytes(at) };
                let bytes = self.remake(Extent { place, length }, false).await?;
                let write = self.components.write(component, place.at, vec![bytes], Durability::Durable);
                self.unless_left(component, write).await?;
                at += length.0;
            }
        }
        Ok(())
    }

    /// The lock of the end of the file.
    pub(super) async fn lock_end(self: &Rc<Self>) -> Result<super::Guard> {
        let late = self.clock.now() + CROWDED;
        loop {
            let first = || (0..self.striping.components()).find(|component| !self.has_missed(*component));
            let holder =
                first().ok_or_else(|| Error::device("all components of the file are lost; bring them back"))?;
            match self.components.lock(holder, super::END).await {
                Ok(lock) => {
                    // It may be elsewhere by now.
                    self.heed();
                    if first() == Some(holder) {
                        return Ok(lock.guard);
                    }
                }
                Err(error) => self.not_locked(holder, error, late).await?,
            }
        }
    }
}
