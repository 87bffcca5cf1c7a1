//! What is said of how nodes and their manager get on with one another, and the manager with its metadata.

use crate::node::is_away;
use forebay_model::{Error, ObjectId, Result, TargetId};
use forebay_node::network::Heard;
use std::cell::RefCell;

/// What changed between a node and its manager, or between that and its metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum News {
    /// It does not answer; it is asked again and again.
    Away(Error),
    /// It refuses the node; it is asked again and again.
    Refused(Error),
    /// It does not let a target be served.
    TargetRefused(TargetId, Error),
    /// A target cannot do what the manager wants done of something that it stores; all else is served.
    Unable(TargetId, Error),
    /// A ring that a target made anew of what its segments say is not to be there, and was set aside.
    SetAside(TargetId, ObjectId),
    /// Its clock and the node's differ by more than they may: how, and what to do.
    ClockOff(String),
    /// All is well again.
    Well,
    /// The manager of this process could not go on, and opens its metadata anew.
    ManagerTroubled(Error),
    /// The manager of this process cannot open its metadata, and answers nobody; it tries again and again.
    MetadataAway(Error),
    /// It could.
    MetadataBack,
}

/// Tells of what changed, and of nothing twice.
pub(crate) struct Teller {
    last: RefCell<Vec<News>>,
    told: fn(News),
}

impl Teller {
    pub(crate) fn new(told: fn(News)) -> Teller {
        Teller { last: RefCell::default(), told }
    }

    pub(crate) fn tell(&self, heard: &Result<Heard>) {
        // That happens once, and is not how it is from then on.
        let set_aside = heard.iter().flat_map(|heard| &heard.set_aside);
        set_aside.for_each(|(target, ring)| (self.told)(News::SetAside(*target, *ring)));
        let now: Vec<News> = match heard {
            Ok(heard) => {
                let refused = heard.refused.iter().map(|(target, error)| News::TargetRefused(*target, error.clone()));
                let unable = heard.unable.iter().map(|(target, error)| News::Unable(*target, error.clone()));
                refused.chain(unable).chain(heard.clock_off.clone().map(News::ClockOff)).collect()
            }
            Err(error) if is_away(error) => vec![News::Away(error.clone())],
            Err(error) => vec![News::Refused(error.clone())],
        };
        let mut last = self.last.borrow_mut();
        let kind = |news: &News| match news {
            News::TargetRefused(target, error) => (Some(*target), Some(error.kind), false),
            News::Unable(target, error) => (Some(*target), Some(error.kind), true),
            News::Refused(error) => (None, Some(error.kind), true),
            News::Away(_) => (None, None, true),
            News::ClockOff(_) | News::SetAside(..) | News::Well => (None, None, false),
            News::ManagerTroubled(_) | News::MetadataAway(_) | News::MetadataBack => (None, None, false),
        };
        for news in now.iter().filter(|news| !last.iter().any(|known| kind(known) == kind(news))) {
            (self.told)(news.clone());
        }
        if now.is_empty() && !last.is_empty() {
            (self.told)(News::Well);
        }
        *last = now;
    }
}

#[cfg(test)]
mod tests;
