//! Which names there are, and bytes without one: a part at a time, so that memory is bounded however many there are.

use super::{Named, Place, content_of, is_under, name_of};
use crate::objects::Objects;
use forebay_model::object::{DEFAULT_VOLUME, NAMES, ObjectHead};
use forebay_model::{Kind, Result};
use forebay_wire::object::ObjectInfo;
use std::collections::BTreeMap;

/// Bytes that were written for a name and do not have it: they are being written, or were left behind by a process that
/// was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfinished {
    /// The name that they were written for.
    pub name: String,
    /// Where they are.
    pub place: Place,
    /// What is known of them.
    pub head: ObjectHead,
}

/// What there is, or a part of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Listing {
    /// Names, in their order.
    pub names: Vec<Named>,
    /// Bytes without a name, in the order of the names that they were written for. Of those for one name no more than
    /// were asked for at once: the rest is listed when these are removed.
    pub unfinished: Vec<Unfinished>,
    /// From where to go on, if this is not all.
    pub next: Option<String>,
}

/// What was found of one name so far.
#[derive(Default)]
struct Found {
    content: Option<Place>,
    /// Bytes that were written for it.
    bytes: BTreeMap<Place, ObjectHead>,
}

/// The first names from one on: those behind them are let go of when others come before.
#[derive(Default)]
struct Window {
    from: String,
    /// The first name that is not in it, if there is one.
    to: Option<String>,
    most: usize,
    found: BTreeMap<String, Found>,
    /// Names and bytes in it.
    held: usize,
}

impl Window {
    fn take(&mut self, name: String, at: Place, info: &ObjectInfo) {
        if name < self.from || self.to.as_ref().is_some_and(|to| name >= *to) {
            return;
        }
        let found = self.found.entry(name).or_default();
        match content_of(info) {
            Some(content) => found.content = Some(content),
            // One of them may have the name, and is not listed with them.
            None if found.bytes.len() > self.most => return,
            None => drop(found.bytes.insert(at, info.head)),
        }
        self.held += 1;
        // Each name has bytes.
        while self.held > 2 * self.most && self.found.len() > 1 {
            let (name, found) = self.found.pop_last().expect("there are several");
            self.held -= usize::from(found.content.is_some()) + found.bytes.len();
            self.to = Some(name);
        }
    }
}

impl Objects {
    /// Names that are `prefix` or lie under it (`/` is above all), from `from` on if that is said: the first of them,
    /// about `most`, in order. No more than twice that, and one, is held in memory; all that there are are looked through
    /// for that, each time.
    pub fn names(&self, prefix: &str, from: Option<&str>, most: usize) -> Result<Listing> {
        let most = most.max(1);
        let mut window = Window { from: from.unwrap_or("").to_string(), most, ..Window::default() };
        for target in self.target_ids()? {
            let mut from = Some(1);
            while let Some(first) = from {
                let (objects, next) = match self.list(target, DEFAULT_VOLUME, first, Some(NAMES)) {
                    // Nothing was ever put there.
                    Err(error) if error.kind == Kind::Missing => break,
                    listed => listed?,
                };
                for info in objects {
                    if let Some(name) = name_of(&info).filter(|name| is_under(name, prefix)) {
                        window.take(name, Place { target, id: info.id }, &info);
                    }
                }
                from = next.filter(|next| *next > first);
            }
        }
        let mut listing = Listing { next: window.to, ..Listing::default() };
        for (name, found) in window.found {
            let Found { content, mut bytes } = found;
            if let Some(at) = content {
                if let Some(head) = bytes.remove(&at) {
                    listing.names.push(Named { name: name.clone(), place: at, head, over: None });
                } else {
                    // It came to mean other bytes, or was removed, while they were listed.
                    match self.find(&name) {
                        Ok(named) => {
                            bytes.remove(&named.place);
                            listing.names.push(named);
                        }
                        Err(error) if error.kind == Kind::Missing => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            let unfinished = bytes.into_iter().map(|(place, head)| Unfinished { name: name.clone(), place, head });
            listing.unfinished.extend(unfinished.take(most));
        }
        Ok(listing)
    }

    /// Ends bytes that have no name, also those that somebody writes just now; false if they are gone, or have it by now.
    pub fn remove_unfinished(&self, unfinished: &Unfinished) -> Result<bool> {
        if self.entry(&unfinished.name, &self.target_ids()?)?.is_some_and(|entry| entry.content == unfinished.place) {
            return Ok(false);
        }
        match self.remove(unfinished.place) {
            Err(error) if error.kind == Kind::Missing => Ok(false),
            removed => removed.map(|()| true),
        }
    }
}
