//! A plain tree that does what the manager should, without anything durable.

use crate::principal::Principal;
use crate::records::Absence;
use forebay_model::Kind;
use forebay_model::layout::Striping;
use forebay_wire::control::Change;
use forebay_wire::control::names::{Attributes, FileId, FileKind, Place};
use forebay_wire::control::volumes::Policy;
use std::collections::{BTreeMap, BTreeSet};

type Result<T> = std::result::Result<T, Kind>;

/// What a change did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Did {
    Done,
    Entry(u64),
    Opened(u64),
    Volume(u64, u64),
    Left(Vec<u64>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) parent: u64,
    pub(super) kind: FileKind,
    pub(super) version: u64,
    pub(super) mode: u32,
    pub(super) owner: u32,
    pub(super) group: u32,
    pub(super) size: u64,
    pub(super) volume: u64,
    pub(super) children: BTreeMap<String, u64>,
}

/// The tree, and what else is remembered. Volumes are their hard quotas in bytes and files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Model {
    pub(super) nodes: BTreeMap<u64, Node>,
    pub(super) volumes: BTreeMap<u64, (Option<u64>, Option<u64>)>,
    pub(super) writers: BTreeMap<u64, BTreeSet<u64>>,
    pub(super) left: BTreeSet<u64>,
    /// Components of files that lack something, and what is done about it.
    pub(super) absent: BTreeMap<u64, BTreeMap<u32, Absence>>,
    pub(super) next: u64,
    pub(super) next_volume: u64,
}

impl Default for Model {
    fn default() -> Model {
        let root = Node {
            parent: 1,
            kind: FileKind::Directory,
            version: 1,
            mode: 0o755,
            owner: 0,
            group: 0,
            size: 0,
            volume: 1,
            children: BTreeMap::new(),
        };
        Model {
            nodes: BTreeMap::from([(1, root)]),
            volumes: BTreeMap::from([(1, (None, None))]),
            writers: BTreeMap::new(),
            left: BTreeSet::new(),
            absent: BTreeMap::new(),
            next: 2,
            next_volume: 2,
        }
    }
}

const MODE_BITS: u32 = 0o7777;

fn good(mode: u32) -> Result<()> {
    if mode & !MODE_BITS == 0 { Ok(()) } else { Err(Kind::Usage) }
}

/// How files lie on the targets that there are.
pub(super) fn striping() -> Striping {
    let Policy { raid, unit, targets } = Policy::default();
    Striping::over(raid, unit, targets).unwrap()
}

impl Model {
    /// Takes over what was seen of a file or directory.
    pub(super) fn see(&mut self, seen: &Attributes, file: FileId, parent: FileId) {
        let node = Node {
            parent: parent.0,
            kind: seen.kind,
            version: seen.version,
            mode: seen.mode,
            owner: seen.owner,
            group: seen.group,
            size: seen.size.0,
            volume: seen.volume,
            children: BTreeMap::new(),
        };
        assert_eq!(self.nodes.insert(file.0, node), None, "{file} is there twice");
    }

    /// Whether everything that can be seen is the same.
    pub(super) fn is_like(&self, other: &Model) -> bool {
        self == other
    }

    /// Bytes and files of a volume.
    pub(super) fn usage(&self, volume: u64) -> (u64, u64) {
        let inside = || self.nodes.values().filter(|node| node.volume == volume);
        (inside().map(|node| node.size).sum(), inside().count() as u64)
    }

    fn may(&self, by: &Principal, file: u64, bits: u32) -> Result<()> {
        let node = &self.nodes[&file];
        let shift = match node {
            node if node.owner == by.user => 6,
            node if by.groups.contains(&node.group) => 3,
            _ => 0,
        };
        if by.user == 0 || node.mode >> shift & bits == bits { Ok(()) } else { Err(Kind::Forbidden) }
    }

    fn names(place: &Place) -> Result<Vec<&str>> {
        let path = if place.from.0 == 1 { place.path.strip_prefix('/').unwrap_or(&place.path) } else { &place.path };
        let names: Vec<&str> = if path.is_empty() { Vec::new() } else { path.split('/').collect() };
        let is_bad = |name: &&str| matches!(*name, "" | "." | "..") || name.contains('\0') || name.len() > 255;
        if names.iter().any(is_bad) { Err(Kind::Usage) } else { Ok(names) }
    }

    fn start(&self, by: &Principal, from: u64) -> Result<u64> {
        let mut at = self.nodes.get(&from).ok_or(Kind::Missing)?.parent;
        if from == 1 {
            return Ok(from);
        }
        loop {
            self.may(by, at, 1)?;
            if at == 1 {
                return Ok(from);
            }
            at = self.nodes[&at].parent;
        }
    }

    fn walk(&self, by: &Principal, mut at: u64, names: &[&str]) -> Result<u64> {
        for name in names {
            self.directory(at)?;
            self.may(by, at, 1)?;
            at = *self.nodes[&at].children.get(*name).ok_or(Kind::Missing)?;
        }
        Ok(at)
    }

    fn find(&self, by: &Principal, place: &Place) -> Result<u64> {
        let names = Self::names(place)?;
        let start = self.start(by, place.from.0)?;
        self.walk(by, start, &names)
    }

    fn slot(&self, by: &Principal, place: &Place) -> Result<(u64, String, Option<u64>)> {
        let names = Self::names(place)?;
        let (name, way) = names.split_last().ok_or(Kind::Usage)?;
        let start = self.start(by, place.from.0)?;
        let directory = self.walk(by, start, way)?;
        self.directory(directory)?;
        self.may(by, directory, 1)?;
        Ok((directory, name.to_string(), self.nodes[&directory].children.get(*name).copied()))
    }

    /// What is done about a component that lacks something.
    pub(super) fn absence(&self, file: u64, component: u32) -> Option<Absence> {
        self.absent.get(&file)?.get(&component).copied()
    }

    fn is_within(&self, mut file: u64, directory: u64) -> bool {
        while file != directory && file != 1 {
            file = self.nodes[&file].parent;
        }
        file == directory
    }

    fn directory(&self, file: u64) -> Result<()> {
        if self.nodes[&file].kind == FileKind::Directory { Ok(()) } else { Err(Kind::Usage) }
    }

    fn file(&self, file: u64) -> Result<()> {
        if self.nodes[&file].kind == FileKind::File { Ok(()) } else { Err(Kind::Usage) }
    }

    fn objects(&self, file: u64) -> Result<()> {
        if self.nodes[&file].kind == FileKind::Directory { Err(Kind::Usage) } else { Ok(()) }
    }

    /// A file that a client has open to write, of this version.
    fn used(&self, by: &Principal, file: FileId) -> Result<u64> {
        let file = self.find(by, &Place::of(file))?;
        let is_open = self.writers.get(&file).is_some_and(|clients| clients.contains(&by.client));
        if is_open { Ok(file) } else { Err(Kind::Stale) }
    }

    fn is_of(&self, file: u64, version: u64) -> Result<()> {
        if self.nodes[&file].version == version { Ok(()) } else { Err(Kind::Stale) }
    }

    /// Another thing is done about a component from now on, or nothing has to be.
    fn turn(&mut self, file: u64, component: u32, absence: Option<Absence>) -> Did {
        let absent = self.absent.entry(file).or_default();
        match absence {
            Some(absence) => drop(absent.insert(component, absence)),
            None => drop(absent.remove(&component)),
        }
        self.absent.retain(|_, absent| !absent.is_empty());
        self.nodes.get_mut(&file).unwrap().version += 1;
        Did::Done
    }

    /// Whether one more component of a file may lack something than do.
    pub(super) fn may_spare(&self, file: u64, component: u32) -> bool {
        let absent = self.absent.get(&file);
        let of_family = absent.into_iter().flat_map(|absent| absent.keys()).filter(|one| {
            let family = striping().family(component);
            **one != component && family.contains(one)
        });
        (of_family.count() as u32) < striping().spare()
    }

    fn removable(&self, by: &Principal, directory: u64, file: u64) -> Result<()> {
        self.may(by, directory, 3)?;
        let owns = |file: u64| by.user == 0 || self.nodes[&file].owner == by.user;
        let is_kept = self.nodes[&directory].mode & 0o1000 != 0 && !owns(directory) && !owns(file);
        if is_kept { Err(Kind::Forbidden) } else { Ok(()) }
    }

    /// Whether a volume may have so many more.
    fn room(&self, volume: u64, bytes: u64, files: u64) -> Result<()> {
        let (used_bytes, used_files) = self.usage(volume);
        let (hard_bytes, hard_files) = self.volumes[&volume];
        let is_over = bytes > 0 && hard_bytes.is_some_and(|most| used_bytes + bytes > most)
            || files > 0 && hard_files.is_some_and(|most| used_files + files > most);
        if is_over { Err(Kind::Full) } else { Ok(()) }
    }

    /// Makes what changes make under a name that is free, of so many bytes.
    fn enter(&mut self, by: &Principal, place: &Place, (kind, bytes): (FileKind, u64), mode: u32) -> Result<u64> {
        let (directory, name, there) = self.slot(by, place)?;
        if there.is_some() {
            return Err(Kind::Exists);
        }
        self.may(by, directory, 3)?;
        let volume = self.nodes[&directory].volume;
        self.room(volume, bytes, 1)?;
        good(mode)?;
        let file = self.make((directory, name), kind, mode, (by.user, by.groups[0]), volume);
        self.nodes.get_mut(&file).unwrap().size = bytes;
        Ok(file)
    }

    fn make(&mut self, slot: (u64, String), kind: FileKind, mode: u32, owner: (u32, u32), volume: u64) -> u64 {
        let file = self.next;
        self.next += 1;
        let (owner, group) = owner;
        let (version, children) = (1, BTreeMap::new());
        let node = Node { parent: slot.0, kind, version, mode, owner, group, size: 0, volume, children };
        self.nodes.insert(file, node);
        self.nodes.get_mut(&slot.0).unwrap().children.insert(slot.1, file);
        file
    }

    fn unmake(&mut self, directory: u64, name: &str) {
        let file = self.nodes.get_mut(&directory).unwrap().children.remove(name).unwrap();
        self.nodes.remove(&file);
        self.writers.remove(&file);
        self.left.remove(&file);
        self.absent.remove(&file);
    }

    fn empty(&self, directory: u64, file: u64) -> Result<()> {
        if self.nodes[&file].volume != self.nodes[&directory].volume {
            return Err(Kind::Usage);
        }
        if self.nodes[&file].children.is_empty() { Ok(()) } else { Err(Kind::Refused) }
    }

    fn resize(&mut self, file: u64, size: u64) -> Result<()> {
        let node = &self.nodes[&file];
        self.room(node.volume, size.saturating_sub(node.size), 0)?;
        self.nodes.get_mut(&file).unwrap().size = size;
        Ok(())
    }

    fn open(&mut self, by: &Principal, file: u64) -> Result<Did> {
        let volume = self.nodes[&file].volume;
        if self.volumes[&volume].0.is_some_and(|most| self.usage(volume).0 >= most) {
            return Err(Kind::Full);
        }
        self.writers.entry(file).or_default().insert(by.client);
        Ok(Did::Opened(file))
    }

    /// Does a change, or nothing.
    pub(super) fn carry_out(&mut self, by: &Principal, change: &Change) -> Result<Did> {
        let before = self.clone();
        let did = self.attempt(by, change);
        if did.is_err() {
            *self = before;
        }
        did
    }

    fn attempt(&mut self, by: &Principal, change: &Change) -> Result<Did> {
        let root = || if by.user == 0 { Ok(()) } else { Err(Kind::Forbidden) };
        match change {
            Change::CreateFile(asked) => {
                let (_, _, there) = self.slot(by, &asked.place)?;
                if let Some(file) = there {
                    if asked.exclusive {
                        return Err(Kind::Exists);
                    }
                    self.file(file)?;
                    if !asked.open {
                        return Ok(Did::Entry(file));
                    }
                    self.may(by, file, 2)?;
                    return self.open(by, file);
                }
                let file = self.enter(by, &asked.place, (FileKind::File, 0), asked.mode)?;
                if asked.open { self.open(by, file) } else { Ok(Did::Entry(file)) }
            }
            Change::MakeDirectory(asked) => {
                self.enter(by, &asked.place, (FileKind::Directory, 0), asked.mode).map(Did::Entry)
            }
            Change::SetAttributes(asked) => {
                let file = self.find(by, &asked.place)?;
                let owns = by.user == 0 || self.nodes[&file].owner == by.user;
                if asked.mode.is_some() && !owns {
                    return Err(Kind::Forbidden);
                }
                let node = self.nodes.get_mut(&file).unwrap();
                if let Some(owner) = asked.owner.filter(|owner| *owner != node.owner) {
                    root()?;
                    node.owner = owner;
                }
                if let Some(group) = asked.group.filter(|group| *group != node.group) {
                    if by.user != 0 && !(node.owner == by.user && by.groups.contains(&group)) {
                        return Err(Kind::Forbidden);
                    }
                    node.group = group;
                }
                if let Some(mode) = asked.mode {
                    good(mode)?;
                    node.mode = mode;
                }
                if let Some(size) = asked.size {
                    self.may(by, file, 2)?;
                    self.objects(file)?;
                    if self.nodes[&file].kind == FileKind::Heap
                        || self.nodes[&file].kind == FileKind::Ring && size.0 == 0
                    {
                        return Err(Kind::Usage);
                    }
                    self.resize(file, size.0)?;
                }
                Ok(Did::Entry(file))
            }
            Change::Rename(asked) => {
                let (from, name, moved) = self.slot(by, &asked.from)?;
                let (to, new, there) = self.slot(by, &asked.to)?;
                let moved = moved.ok_or(Kind::Missing)?;
                self.removable(by, from, moved)?;
                self.may(by, to, 3)?;
                if self.nodes[&from].volume != self.nodes[&to].volume {
                    return Err(Kind::Refused);
                }
                if self.nodes[&moved].kind == FileKind::Directory && self.is_within(to, moved) {
                    return Err(Kind::Usage);
                }
                if there == Some(moved) {
                    return Ok(Did::Entry(moved));
                }
                if let Some(replaced) = there {
                    if asked.exclusive {
                        return Err(Kind::Exists);
                    }
                    self.removable(by, to, replaced)?;
                    let is_directory = |file: &u64| self.nodes[file].kind == FileKind::Directory;
                    match (is_directory(&moved), is_directory(&replaced)) {
                        (true, true) => self.empty(to, replaced)?,
                        (false, false) => {}
                        _ => return Err(Kind::Usage),
                    }
                    self.unmake(to, &new);
                }
                self.nodes.get_mut(&from).unwrap().children.remove(&name);
                self.nodes.get_mut(&to).unwrap().children.insert(new, moved);
                self.nodes.get_mut(&moved).unwrap().parent = to;
                Ok(Did::Entry(moved))
            }
            Change::RemoveFile(asked) => {
                let (directory, name, there) = self.slot(by, &asked.place)?;
                let file = there.ok_or(Kind::Missing)?;
                if asked.only.is_some_and(|only| only.0 != file) {
                    return Err(Kind::Missing);
                }
                self.objects(file)?;
                self.removable(by, directory, file)?;
                self.unmake(directory, &name);
                Ok(Did::Done)
            }
            Change::RemoveDirectory(asked) => {
                let (directory, name, there) = self.slot(by, &asked.place)?;
                let file = there.ok_or(Kind::Missing)?;
                self.directory(file)?;
                self.removable(by, directory, file)?;
                self.empty(directory, file)?;
                self.unmake(directory, &name);
                Ok(Did::Done)
            }
            Change::CreateVolume(asked) => {
                root()?;
                let (directory, name, there) = self.slot(by, &asked.place)?;
                if there.is_some() {
                    return Err(Kind::Exists);
                }
                let volume = self.next_volume;
                self.next_volume += 1;
                let file =
                    self.make((directory, name), FileKind::Directory, asked.mode, (asked.owner, asked.group), volume);
                let quota = (asked.quota.hard_bytes.map(|bytes| bytes.0), asked.quota.hard_files);
                self.volumes.insert(volume, quota);
                Ok(Did::Volume(volume, file))
            }
            Change::RemoveVolume(asked) => {
                root()?;
                let (directory, name, there) = self.slot(by, &asked.place)?;
                let file = there.ok_or(Kind::Missing)?;
                let volume = self.nodes[&file].volume;
                if volume == self.nodes[&directory].volume {
                    return Err(Kind::Usage);
                }
                if !self.nodes[&file].children.is_empty() {
                    return Err(Kind::Refused);
                }
                self.unmake(directory, &name);
                self.volumes.remove(&volume);
                Ok(Did::Done)
            }
            Change::OpenToWrite(asked) => {
                let file = self.find(by, &asked.place)?;
                self.file(file)?;
                self.may(by, file, 2)?;
                self.open(by, file)
            }
            Change::Close(asked) => {
                let file = asked.file.0;
                let writers = self.writers.get_mut(&file).ok_or(Kind::Missing)?;
                if !writers.remove(&by.client) {
                    return Err(Kind::Missing);
                }
                if writers.is_empty() {
                    self.writers.remove(&file);
                }
                if asked.unfinished {
                    self.left.insert(file);
                }
                asked.size.map_or(Ok(()), |size| self.resize(file, size.0))?;
                Ok(Did::Entry(file))
            }
            Change::Revoke(asked) => {
                let file = self.find(by, &Place::of(asked.file))?;
                if by.user != 0 && self.nodes[&file].owner != by.user {
                    return Err(Kind::Forbidden);
                }
                self.objects(file)?;
                if self.writers.remove(&file).is_some() {
                    self.left.insert(file);
                }
                self.nodes.get_mut(&file).unwrap().version += 1;
                Ok(Did::Done)
            }
            Change::ClientGone(asked) => {
                root()?;
                let gone = asked.client;
                let files = self.writers.iter().filter(|(_, clients)| clients.contains(&gone));
                let files: Vec<u64> = files.map(|(file, _)| *file).collect();
                for file in &files {
                    self.writers.get_mut(file).unwrap().remove(&gone);
                    self.left.insert(*file);
                }
                self.writers.retain(|_, clients| !clients.is_empty());
                Ok(Did::Left(files))
            }
            Change::Scrubbed(asked) => {
                root()?;
                if self.left.remove(&asked.file.0) { Ok(Did::Done) } else { Err(Kind::Missing) }
            }
            Change::CreateRing(asked) => {
                if asked.capacity.0 == 0 {
                    return Err(Kind::Usage);
                }
                let ring = self.enter(by, &asked.place, (FileKind::Ring, asked.capacity.0), asked.mode)?;
                self.may(by, ring, 2)?;
                Ok(Did::Opened(ring))
            }
            Change::CreateHeap(asked) => {
                let heap = self.enter(by, &asked.place, (FileKind::Heap, 0), asked.mode)?;
                self.may(by, heap, 2)?;
                Ok(Did::Opened(heap))
            }
            Change::GiveUp(asked) => {
                let file = self.used(by, asked.file)?;
                let component = asked.components[0];
                if component >= striping().components() {
                    return Err(Kind::Usage);
                }
                if self.absence(file, component) == Some(Absence::Missed) {
                    return Ok(Did::Done);
                }
                self.is_of(file, asked.version)?;
                Ok(self.turn(file, component, Some(Absence::Missed)))
            }
            Change::Refill(asked) => {
                let file = self.used(by, asked.file)?;
                self.is_of(file, asked.version)?;
                let (writes, by) = (self.writers[&file].clone(), by.client);
                let next = match (self.absence(file, asked.component), asked.emptied) {
                    (Some(Absence::Emptying(other) | Absence::Filling(other)), _)
                        if other != by && writes.contains(&other) =>
                    {
                        return Err(Kind::Busy);
                    }
                    (None, _) => return Err(Kind::Stale),
                    (Some(_), false) => Absence::Emptying(by),
                    (Some(Absence::Emptying(client)), true) if client == by => Absence::Filling(by),
                    (Some(_), true) => return Err(Kind::Stale),
                };
                Ok(self.turn(file, asked.component, Some(next)))
            }
            Change::Rebuilt(asked) => {
                let of_ring =
                    self.find(by, &Place::of(asked.file)).ok().filter(|file| self.nodes[file].kind == FileKind::Ring);
                if let Some(ring) = of_ring {
                    self.may(by, ring, 2)?;
                    // No target is lost here, so no part is anew.
                    return Err(Kind::Stale);
                }
                let file = self.used(by, asked.file)?;
                self.is_of(file, asked.version)?;
                if self.absence(file, asked.component) != Some(Absence::Filling(by.client)) {
                    return Err(Kind::Stale);
                }
                Ok(self.turn(file, asked.component, None))
            }
            other => panic!("the model knows nothing of {other:?}"),
        }
    }
}
