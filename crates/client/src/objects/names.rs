//! Objects by name. A name is an object of its own that points to the one with the bytes ([`forebay_model::object`]), so
//! what a name means comes to be, and changes, in one step: bytes are written to a fresh object, which gets the name last.

mod listing;
mod put;

pub use listing::{Listing, Unfinished};
pub use put::Put;

use super::{ObjectReader, Objects, OverQuota, Place, WriteOptions, place};
use crate::cluster::unexpected;
use forebay_model::object::{
    Attribute, CONTENT, DEFAULT_VOLUME, DEFAULT_VOLUME_NAME, NAME, NAMES, ObjectHead, Quota, name_number,
};
use forebay_model::ring::check_name;
use forebay_model::{Error, Kind, ObjectId, Result, TargetId};
use forebay_wire::command::{Reply, Request};
use forebay_wire::object::ObjectInfo;

/// How often a name is looked up that means something else by the time its bytes are looked for.
const LOOKS: u32 = 8;

/// A name, and what it means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    /// The name.
    pub name: String,
    /// Where its bytes are.
    pub place: Place,
    /// What is known of them.
    pub head: ObjectHead,
    /// When they were written just now: their volume holds more than it should.
    pub over: Option<OverQuota>,
}

/// A name as it was found: the target that has it, and where it leads.
#[derive(Clone, Copy)]
struct Entry {
    target: TargetId,
    content: Place,
}

impl Objects {
    /// What `name` means.
    pub fn find(&self, name: &str) -> Result<Named> {
        check_name(name)?;
        let targets = self.target_ids()?;
        for _ in 0..LOOKS {
            let entry = self.entry(name, &targets)?.ok_or_else(|| missing(name))?;
            match self.stat(entry.content, None) {
                Ok(info) => {
                    return Ok(Named { name: name.to_string(), place: entry.content, head: info.head, over: None });
                }
                // It means something else by now, or nothing.
                Err(error) if error.kind == Kind::Missing => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::damaged(format!("{name} leads to bytes that are not there; `forebay rm {name}` removes the name")))
    }

    /// Begins to write what `name` will mean; if it means something already, only with `replace`.
    pub fn put(&self, name: &str, replace: bool) -> Result<Put> {
        check_name(name)?;
        if let Some(other) = self.other(name)? {
            return Err(Error::exists(format!("{name} is a {other}; take another name for the object")));
        }
        let targets = self.targets()?;
        let ids: Vec<TargetId> = targets.iter().map(|target| target.id).collect();
        if self.entry(name, &ids)?.is_some() && !replace {
            return Err(taken(name));
        }
        // The first of those with the most space.
        let target = targets.iter().min_by_key(|target| std::cmp::Reverse(target.free));
        let target = target.ok_or_else(|| Error::missing("there are no targets"))?.id;
        for _ in 0..LOOKS {
            let at = place(target, DEFAULT_VOLUME, self.links.peer.random().max(1));
            match self.create_in_volume(at, vec![(NAMES, NAME, name.as_bytes().to_vec())]) {
                Ok(()) => {
                    let writer = self.writer(at, 0, WriteOptions::default());
                    return Ok(Put::new(self, name, at, Some(writer), replace));
                }
                // Somebody else has the number.
                Err(error) if error.kind == Kind::Exists => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::busy(format!("no free number was found for {name}; try again")))
    }

    /// The bytes of `name` from `offset` on, `length` of them or as many as there are.
    pub fn get(&self, name: &str, offset: u64, length: u64) -> Result<(Named, ObjectReader)> {
        let named = self.find(name)?;
        let length = length.min(named.head.size.saturating_sub(offset));
        let reader = self.reader(named.place, offset, length);
        Ok((named, reader))
    }

    /// Makes `name`, which must mean nothing, mean the bytes and attributes that `of` has now, on the same target; their
    /// blocks are shared until one of both is written to.
    pub fn snapshot_name(&self, of: &str, name: &str) -> Result<Named> {
        check_name(of)?;
        check_name(name)?;
        if let Some(other) = self.other(name)? {
            return Err(Error::exists(format!("{name} is a {other}; take another name for the snapshot")));
        }
        if self.entry(name, &self.target_ids()?)?.is_some() {
            return Err(Error::exists(format!("{name} exists already; take another name, or remove it before")));
        }
        for _ in 0..LOOKS {
            let source = self.find(of)?.place;
            let at = Place { id: ObjectId { object: self.links.peer.random().max(1), ..source.id }, ..source };
            let made = match self.snapshot(source, at.id, vec![(NAMES, NAME, Some(name.as_bytes().to_vec()))]) {
                // Made before a connection ended, or somebody else's.
                Err(error) if error.kind == Kind::Exists => {
                    self.stat(at, Some(NAMES)).is_ok_and(|info| name_of(&info).as_deref() == Some(name))
                }
                // The name means other bytes by now.
                Err(error) if error.kind == Kind::Missing => false,
                made => made.map(|()| true)?,
            };
            if made {
                return Put::new(self, name, at, None, false).take_name(None);
            }
        }
        Err(Error::busy(format!("{of} is replaced all the time, or no free number was found for {name}; try again")))
    }

    /// Ends a name and its bytes.
    pub fn remove_name(&self, name: &str) -> Result<()> {
        check_name(name)?;
        let entry = self.entry(name, &self.target_ids()?)?.ok_or_else(|| missing(name))?;
        match self.remove(name_place(entry.target, name)) {
            Err(error) if error.kind == Kind::Missing => return Err(missing(name)),
            removed => removed?,
        }
        self.remove_if_there(entry.content)
    }

    fn target_ids(&self) -> Result<Vec<TargetId>> {
        Ok(self.targets()?.into_iter().map(|target| target.id).collect())
    }

    /// What has the name, if it is no object.
    fn other(&self, name: &str) -> Result<Option<&'static str>> {
        match self.links.peer.call(Request::Status { ring: None })? {
            Reply::Rings(rings) if rings.iter().any(|ring| ring.spec.name == name) => return Ok(Some("ring")),
            Reply::Rings(_) => {}
            other => return Err(unexpected(&other)),
        }
        match self.links.peer.call(Request::Heaps)? {
            Reply::Heaps(heaps) => Ok(heaps.iter().any(|heap| heap.name == name).then_some("heap")),
            other => Err(unexpected(&other)),
        }
    }

    /// The name, wherever it is.
    fn entry(&self, name: &str, targets: &[TargetId]) -> Result<Option<Entry>> {
        for target in targets {
            let info = match self.stat(name_place(*target, name), Some(NAMES)) {
                Err(error) if error.kind == Kind::Missing => continue,
                info => info?,
            };
            match (name_of(&info), content_of(&info)) {
                (Some(other), Some(content)) if other == name => return Ok(Some(Entry { target: *target, content })),
                (other, _) => {
                    let other = other.unwrap_or_else(|| info.id.to_string());
                    return Err(Error::refused(format!(
                        "{name} cannot be used: its number is the same as that of {other}; take another name"
                    )));
                }
            }
        }
        Ok(None)
    }

    /// Makes `name` lead to `content`; where it led before.
    fn give_name(&self, name: &str, content: Place, replace: bool) -> Result<Option<Place>> {
        let mut targets = self.target_ids()?;
        targets.sort_unstable();
        for _ in 0..LOOKS {
            let Some(before) = self.entry(name, &targets)? else {
                // All who make this name make it there, and so one of them only.
                let target = targets[(name_number(name) % targets.len() as u64) as usize];
                let attributes = vec![(NAMES, NAME, name.as_bytes().to_vec()), (NAMES, CONTENT, content.to_bytes())];
                match self.create_in_volume(name_place(target, name), attributes) {
                    Err(error) if error.kind == Kind::Exists => continue,
                    created => return created.map(|()| None),
                }
            };
            if before.content == content {
                return Ok(None);
            }
            if !replace {
                return Err(taken(name));
            }
            let change = vec![(NAMES, CONTENT, Some(content.to_bytes()))];
            match self.set_attributes(name_place(before.target, name), change) {
                // Somebody removed it.
                Err(error) if error.kind == Kind::Missing => {}
                changed => return changed.map(|()| Some(before.content)),
            }
        }
        Err(Error::busy(format!("others make and remove {name} all the time; try again")))
    }

    /// Makes an object in the default volume, and that first where there is none.
    fn create_in_volume(&self, at: Place, attributes: Vec<Attribute>) -> Result<()> {
        match self.create(at, attributes.clone()) {
            Err(error) if error.kind == Kind::Missing => {}
            created => return created,
        }
        match self.create_volume(at.target, DEFAULT_VOLUME, Quota::default()) {
            // Somebody else was faster.
            Err(error) if error.kind == Kind::Exists => {}
            created => {
                created?;
                let called = vec![(NAMES, NAME, Some(DEFAULT_VOLUME_NAME.as_bytes().to_vec()))];
                self.set_attributes(Place { target: at.target, id: ObjectId::volume(DEFAULT_VOLUME) }, called)?;
            }
        }
        self.create(at, attributes)
    }

    fn remove_if_there(&self, at: Place) -> Result<()> {
        match self.remove(at) {
            Err(error) if error.kind == Kind::Missing => Ok(()),
            removed => removed,
        }
    }
}

fn name_place(target: TargetId, name: &str) -> Place {
    place(target, DEFAULT_VOLUME, name_number(name))
}

fn attribute(info: &ObjectInfo, number: u32) -> Option<&[u8]> {
    info.attributes.iter().find(|(n, _)| *n == number).map(|(_, value)| value.as_slice())
}

/// The name that something was given, or its bytes were written for, if its attributes on [`NAMES`] came with it.
pub fn name_of(info: &ObjectInfo) -> Option<String> {
    String::from_utf8(attribute(info, NAME)?.to_vec()).ok()
}

fn content_of(info: &ObjectInfo) -> Option<Place> {
    Place::from_bytes(attribute(info, CONTENT)?)
}

/// Whether `name` is `prefix` or lies under it; everything lies under `/`.
pub fn is_under(name: &str, prefix: &str) -> bool {
    let prefix = prefix.trim_end_matches('/');
    name.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn missing(name: &str) -> Error {
    Error::missing(format!("there is no object {name}; `forebay ls` lists what there is"))
}

fn taken(name: &str) -> Error {
    Error::exists(format!("{name} exists already; take another name, or --force to replace it"))
}
