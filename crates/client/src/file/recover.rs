//! After a client that wrote a file died: what it had begun is ended, and what it had not acknowledged is cut off.

use super::components::{Components, Intent, is_lost_or_damaged};
use super::options::Options;
use super::reach::Reach;
use super::together::to_its_end;
use forebay_env::{Clock, Spawner};
use forebay_model::layout::address::Place;
use forebay_model::layout::{Raid, Striping};
use forebay_model::{Bytes, Result};
use std::collections::BTreeSet;
use std::rc::Rc;

/// What was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Intents that were ended.
    pub ended: u64,
    /// The file's size.
    pub size: Bytes,
}

/// Makes a file whole that nobody has open for writing any more: ends every intent, gives up every component that cannot
/// be asked for its intents, and cuts off what was never acknowledged. Whoever is interrupted begins again.
pub async fn recover(
    components: Rc<dyn Components>,
    striping: Striping,
    clock: Rc<dyn Clock>,
    spawner: Spawner,
) -> Result<Recovered> {
    striping.check()?;
    let reach = Rc::new(Reach::new(components, striping, Options::alone(), clock, spawner.clone()));
    to_its_end(&spawner, async move { make_whole(reach).await }).await
}

impl Reach {
    /// Ends every intent of who is gone, beside those who write, under the locks of their stripes.
    pub(super) async fn end_left(self: &Rc<Self>) -> Result<()> {
        self.components.shut_out().await?;
        if self.striping.raid() == Raid::Zero {
            return Ok(());
        }
        let mut places = BTreeSet::new();
        for component in 0..self.striping.components() {
            if !self.is_asked(component) {
                continue;
            }
            match self.components.intents(component).await {
                Ok(intents) => {
                    for (_, intent) in &intents {
                        self.check_intent(intent)?;
                        places.insert(self.place_of(intent));
                    }
                }
                Err(error) if is_lost_or_damaged(&error) => self.lose(component, &error).await?,
                Err(error) => return Err(error),
            }
        }
        for place in places {
            // Of those who write, whoever has the lock ends its own.
            drop(self.lock(place).await?);
        }
        Ok(())
    }

    /// Where that begins which an intent is about.
    pub(super) fn place_of(&self, intent: &Intent) -> Place {
        let copies = intent.agree.first().map(|extent| extent.place);
        copies.unwrap_or_else(|| self.striping.unit_of(intent.stripe, 0))
    }
}

async fn make_whole(reach: Rc<Reach>) -> Result<Recovered> {
    reach.look().await?;
    // What reads need is known before anything is read: a component that cannot say what was intended is not read.
    let mut left = Vec::new();
    for component in 0..reach.striping.components() {
        if !reach.is_asked(component) {
            continue;
        }
        match reach.components.intents(component).await {
            Ok(intents) => left.extend(intents.into_iter().map(|(id, intent)| (component, id, intent))),
            // What was intended beside it is beside another one, or nothing is made of what it has.
            Err(error) if is_lost_or_damaged(&error) => reach.give_up(component, &error).await?,
            Err(error) => return Err(error),
        }
    }
    let ended = left.len() as u64;
    for (holder, id, intent) in left {
        if reach.is_asked(holder) {
            reach.end(holder, id, &intent).await?;
        }
    }
    let size = reach.components.length().await?;
    reach.cut(size).await?;
    // Without parity some of what was not acknowledged may be there, and buffered: what is read from now on stays.
    for component in (0..reach.striping.components()).filter(|component| !reach.has_missed(*component)) {
        match reach.components.flush(component).await {
            Err(error) if is_lost_or_damaged(&error) => reach.give_up(component, &error).await?,
            flushed => flushed?,
        }
    }
    Ok(Recovered { ended, size })
}

#[cfg(test)]
mod tests;
