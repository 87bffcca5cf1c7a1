//! Names, files, directories, rings, heaps and volumes while they are put together.
//!
//! Always, when [`Tree::name_all`] is done: everything but the first directory is under one name, in a directory that is reached
//! from the first one.

use super::lists::Besides;
use super::{Component, Finding, Seen, What};
use crate::keys;
use crate::quota;
use crate::records::{
    Absence, Absent, Fresh, Inode, Layout, NOWHERE, Named, VolumeRecord, component_of, decode, encode, object,
};
use forebay_model::layout::{LARGEST, Raid, Striping};
use forebay_model::{Bytes, Result, TargetId, Timestamp};
use forebay_wire::control::access::ROOT_USER;
use forebay_wire::control::names::{Attributes, FileId, FileKind};
use forebay_wire::control::volumes::Quota;
use forebay_wire::object::Described;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Where things without a name are put, in the first directory of their volume.
const LOST_AND_FOUND: &str = "lost+found";
/// The volume of the first directory.
const FIRST_VOLUME: u64 = 1;

/// What is put together.
pub(super) struct Tree {
    pub(super) inodes: BTreeMap<FileId, Inode>,
    /// Of each directory, its entries.
    names: BTreeMap<FileId, BTreeMap<String, FileId>>,
    pub(super) layouts: BTreeMap<FileId, Layout>,
    pub(super) volumes: BTreeMap<u64, VolumeRecord>,
    /// The first number that no file has.
    pub(super) next: u64,
    now: Timestamp,
    found: Vec<(FileId, What)>,
    /// Names that do not fit what they lead to, if they lead anywhere.
    dangling: Vec<(FileId, String, Named)>,
    /// Components that lie elsewhere by now, where they lay.
    pub(super) old: Vec<Component>,
}

impl Tree {
    /// Takes what this is about out of what there is.
    pub(super) fn load(state: &mut BTreeMap<Vec<u8>, Vec<u8>>, now: Timestamp) -> Result<Tree> {
        let mut tree = Tree {
            inodes: BTreeMap::new(),
            names: BTreeMap::new(),
            layouts: BTreeMap::new(),
            volumes: BTreeMap::new(),
            next: FileId::ROOT.0 + 1,
            now,
            found: Vec::new(),
            dangling: Vec::new(),
            old: Vec::new(),
        };
        let mut names = Vec::new();
        for (key, value) in state.extract_if(.., |key, _| matches!(key.first(), Some(b'I' | b'D' | b'L' | b'V'))) {
            match key[0] {
                b'I' => drop(tree.inodes.insert(FileId(keys::number(&key)), decode(&key, &value)?)),
                b'L' => drop(tree.layouts.insert(FileId(keys::number(&key)), decode(&key, &value)?)),
                b'V' => drop(tree.volumes.insert(keys::number(&key), decode(&key, &value)?)),
                _ => names.push((key, value)),
            }
        }
        if let Some((last, _)) = tree.inodes.last_key_value() {
            tree.next = last.0 + 1;
        }
        // What should have a layout and has none cannot be read, whatever is there of it.
        let is_lost = |file: &FileId, inode: &Inode| !inode.is_directory() && !tree.layouts.contains_key(file);
        let lost: Vec<FileId> =
            tree.inodes.iter().filter(|(file, inode)| is_lost(file, inode)).map(|(file, _)| *file).collect();
        for file in lost {
            tree.inodes.remove(&file);
        }
        let mut taken = BTreeSet::new();
        for (key, value) in names {
            let (directory, name) = (FileId(keys::number(&key)), String::from_utf8_lossy(&key[9..]).into_owned());
            let named: Named = decode(&key, &value)?;
            let is_meant = tree.inodes.get(&named.file).is_some_and(|inode| inode.parent == directory);
            // Where what is there is of two times, a file may have the name of each.
            match is_meant && tree.leads(directory, &named) && taken.insert(named.file) {
                true => drop(tree.names.entry(directory).or_default().insert(name, named.file)),
                false => tree.dangling.push((directory, name, named)),
            }
        }
        Ok(tree)
    }

    /// Whether a name in a directory leads to something.
    fn leads(&self, directory: FileId, Named { file, kind }: &Named) -> bool {
        let is_in = self.inodes.get(&directory).is_some_and(Inode::is_directory) && *file != FileId::ROOT;
        is_in && self.inodes.get(file).is_some_and(|inode| inode.attributes.kind == *kind)
    }

    /// Takes names for what has no other, where what is there of the two was not written at the same time.
    fn take_names(&mut self) {
        let mut named: BTreeSet<FileId> = self.names.values().flat_map(|entries| entries.values().copied()).collect();
        for (directory, name, of) in std::mem::take(&mut self.dangling) {
            if !self.leads(directory, &of) || !named.insert(of.file) {
                self.dangling.push((directory, name, of));
                continue;
            }
            self.names.entry(directory).or_default().insert(name, of.file);
            self.inodes.entry(of.file).and_modify(|inode| inode.parent = directory);
        }
    }

    /// Makes files of components that say what they are part of, where nothing else knows these.
    pub(super) fn make_unknown(&mut self, of_files: &BTreeMap<FileId, Vec<Component>>) {
        for (file, components) in of_files {
            if self.inodes.contains_key(file) {
                continue;
            }
            // The newest of them was told what holds.
            let newest = components.iter().filter(|it| it.described.is_some()).max_by_key(|it| (it.fence, it.modified));
            let Some((volume, described)) = newest.and_then(|it| Some((it.object.volume, it.described.clone()?)))
            else {
                continue;
            };
            let count = described.striping.components();
            let mut lie = described.targets;
            if lie.len() != count as usize {
                lie = vec![NOWHERE; count as usize];
            }
            // One that says nothing is the beginning of a copy of another one.
            let is_own = |it: &&Component| it.object.volume == volume && it.described.is_some();
            let mut own: Vec<&Component> = components.iter().filter(is_own).collect();
            // Of two that say that they are the same one, the older was left behind.
            own.sort_by_key(|it| (it.fence, it.modified));
            for component in own {
                let (_, number) = component_of(component.object);
                lie.get_mut(number as usize).into_iter().for_each(|target| *target = component.target);
            }
            let modified = components.iter().map(|it| it.modified).max().unwrap_or(described.created);
            let Described { mode, owner, group, created, striping, .. } = described;
            let fresh = Fresh { kind: FileKind::File, mode, owner, group, volume }.attributes(self.now);
            let layout = Layout { striping, targets: lie, absent: Vec::new() };
            self.take_up(*file, Attributes { created, modified, accessed: modified, ..fresh }, layout);
        }
    }

    /// Takes in what no copy knows.
    pub(super) fn take_up(&mut self, file: FileId, attributes: Attributes, layout: Layout) {
        // Its number may have been behind all that are known; whatever parent it had, it has another one now.
        self.next = self.next.max(file.0 + 1);
        self.inodes.insert(file, Inode { parent: FileId::ROOT, attributes, written: true });
        self.layouts.insert(file, layout);
        self.found.push((file, What::Unknown));
    }

    /// The time at which all of it is made anew.
    pub(super) fn now(&self) -> Timestamp {
        self.now
    }

    /// The layout of a ring or heap, if what is known of it may be older than what targets have, which ask for this version at least; and
    /// the version that it has if that is so.
    pub(super) fn older(
        &mut self,
        file: FileId,
        (kind, volume): (FileKind, u64),
        fence: u64,
        is_whole: bool,
    ) -> Option<(&mut Layout, u64)> {
        let attributes = self.inodes.get(&file).map(|it| &it.attributes)?;
        let may_be_older = fence > attributes.version || !is_whole;
        let is_meant = (attributes.kind, attributes.volume) == (kind, volume);
        let next = fence.max(attributes.version) + 1;
        self.layouts.get_mut(&file).filter(|_| is_meant && may_be_older).map(|layout| (layout, next))
    }

    /// Nobody who was given something before goes on with it.
    pub(super) fn raise(&mut self, file: FileId, version: u64) {
        if let Some(Inode { attributes, .. }) = self.inodes.get_mut(&file) {
            attributes.version = version;
        }
    }

    /// Gives everything a name that has none.
    pub(super) fn name_all(&mut self) {
        self.take_names();
        let mut known: BTreeSet<FileId> = self.found.iter().map(|(file, _)| *file).collect();
        let volumes: BTreeSet<u64> = self.inodes.values().map(|inode| inode.attributes.volume).collect();
        for volume in volumes {
            let root = self.volumes.get(&volume).map(|record| record.root);
            if !root.is_some_and(|root| self.inodes.get(&root).is_some_and(Inode::is_directory)) {
                self.make_volume(volume);
            }
        }
        let gone: Vec<u64> =
            self.volumes.iter().filter(|(_, it)| !self.inodes.contains_key(&it.root)).map(|(it, _)| *it).collect();
        for volume in gone {
            self.volumes.remove(&volume);
        }
        loop {
            let reached = self.reached();
            let mut without: Vec<FileId> = self.inodes.keys().filter(|file| !reached.contains(file)).copied().collect();
            if without.is_empty() {
                return;
            }
            // What lies below others that have no name has its own.
            let named: BTreeSet<FileId> = self.names.values().flat_map(|entries| entries.values().copied()).collect();
            if without.iter().any(|file| !named.contains(file)) {
                without.retain(|file| !named.contains(file));
            } else {
                // Directories within one another in a circle: one of them is taken out of it.
                without.truncate(1);
                self.names.values_mut().for_each(|entries| entries.retain(|_, file| *file != without[0]));
            }
            for file in without {
                if known.insert(file) {
                    self.found.push((file, What::Nameless));
                }
                self.put_into_lost_and_found(file);
            }
        }
    }

    /// All that is reached by names.
    fn reached(&self) -> BTreeSet<FileId> {
        let (mut reached, mut open) = (BTreeSet::from([FileId::ROOT]), vec![FileId::ROOT]);
        while let Some(directory) = open.pop() {
            for file in self.names.get(&directory).into_iter().flat_map(BTreeMap::values) {
                if reached.insert(*file) {
                    open.push(*file);
                }
            }
        }
        reached
    }

    /// Makes a volume whose first directory is gone.
    fn make_volume(&mut self, volume: u64) {
        let policy = self.volumes[&FIRST_VOLUME].policy;
        let quota = self.volumes.get(&volume).map_or(Quota::default(), |record| record.quota);
        let parent = self.lost_and_found(FIRST_VOLUME);
        let root = self.make_directory(parent, format!("volume-{volume}"), volume);
        self.volumes.insert(volume, VolumeRecord::fresh(root, quota, policy));
    }

    fn put_into_lost_and_found(&mut self, file: FileId) {
        let Attributes { kind, volume, .. } = self.inodes[&file].attributes;
        // The first directory of a volume is an entry of another one.
        let is_volume = self.volumes[&volume].root == file;
        let parent = self.lost_and_found(if is_volume { FIRST_VOLUME } else { volume });
        let kind = match kind {
            FileKind::File => "file",
            FileKind::Directory => "directory",
            FileKind::Ring => "ring",
            FileKind::Heap => "heap",
        };
        self.names.entry(parent).or_default().insert(format!("{kind}-{}", file.0), file);
        if let Some(inode) = self.inodes.get_mut(&file) {
            inode.parent = parent;
        }
    }

    /// The directory for what has no name in a volume.
    fn lost_and_found(&mut self, volume: u64) -> FileId {
        let root = self.volumes[&volume].root;
        let there = self.names.get(&root).and_then(|entries| entries.get(LOST_AND_FOUND)).copied();
        if let Some(there) = there
            && self.inodes.get(&there).is_some_and(|inode| inode.is_directory() && inode.attributes.volume == volume)
        {
            return there;
        }
        let name = there.map_or(LOST_AND_FOUND.to_string(), |_| format!("{LOST_AND_FOUND}-{}", self.next));
        self.make_directory(root, name, volume)
    }

    fn make_directory(&mut self, parent: FileId, name: String, volume: u64) -> FileId {
        let file = FileId(self.next);
        self.next += 1;
        let (kind, owner) = (FileKind::Directory, ROOT_USER);
        let attributes = Fresh { kind, mode: 0o700, owner, group: 0, volume }.attributes(self.now);
        self.inodes.insert(file, Inode { parent, attributes, written: false });
        self.names.entry(parent).or_default().insert(name, file);
        file
    }

    /// Versions are what targets have seen at least; and where these are newer, so is what they say of sizes.
    /// Where the layout may be older, too (as all of it may be where that is not `whole`), a component that is on several targets lies
    /// where it is newest, and one of which nothing is left where it lay, as far as that was `looked_at`, where it is.
    pub(super) fn take_newer(
        &mut self,
        of_files: &BTreeMap<FileId, Vec<Component>>,
        writers: &BTreeSet<FileId>,
        besides: &Besides,
        looked_at: &BTreeSet<TargetId>,
        is_whole: bool,
    ) {
        let unknown = self.found.iter().filter(|(_, what)| *what == What::Unknown);
        let unknown: BTreeSet<FileId> = unknown.map(|(file, _)| *file).collect();
        for (file, components) in of_files {
            let Some(inode) = self.inodes.get_mut(file).filter(|inode| !inode.is_directory()) else { continue };
            let volume = inode.attributes.volume;
            let own = || components.iter().filter(|it| it.object.volume == volume);
            let fence = own().map(|it| it.fence).max().unwrap_or(0);
            let is_unknown = unknown.contains(file);
            if fence > inode.attributes.version || is_unknown || writers.contains(file) {
                let said = own().filter_map(|it| it.said).max().map(|(_, size)| size);
                // If those are lost that say it, it has what is there at least.
                let least = || {
                    let striping = self.layouts.get(file)?.striping;
                    own().filter_map(|it| size_from(striping, component_of(it.object).1, it.size)).max()
                };
                let is_guessed = is_unknown && inode.attributes.kind == FileKind::File;
                let size = said.or_else(|| least().filter(|_| is_guessed));
                if let Some(size) = size.filter(|size| *size != inode.attributes.size) {
                    inode.attributes.size = size;
                    inode.attributes.modified = own().map(|it| it.modified).max().unwrap_or(inode.attributes.modified);
                    if !is_unknown {
                        self.found.push((*file, What::Newer { size }));
                    }
                }
            }
            let mut moved = Vec::new();
            if (fence > inode.attributes.version || !is_whole)
                && let Some(layout) = self.layouts.get_mut(file).filter(|_| inode.attributes.kind == FileKind::File)
            {
                let own: Vec<&Component> = own().collect();
                moved = lie_newest((*file, inode.attributes.version), layout, &own, besides, looked_at);
                // Whoever made it anew there may not have come to its end.
                let since = fence.max(inode.attributes.version) + 1;
                let size = inode.attributes.size;
                moved.iter().for_each(|(component, _)| make_anew(layout, *component, size, &own, since));
            }
            // Nobody who was given something before goes on with it.
            if fence > inode.attributes.version || is_unknown || !moved.is_empty() {
                inode.attributes.version = fence.max(inode.attributes.version) + 1;
            }
            self.old.extend(moved.into_iter().filter_map(|(_, old)| old.cloned()));
        }
    }

    /// Names what has fewer components than it should.
    pub(super) fn find_lacking(
        &mut self,
        of_files: &BTreeMap<FileId, Vec<Component>>,
        Seen { targets: looked_at, rings, heaps, .. }: &Seen,
    ) {
        for (file, layout) in &self.layouts {
            let Some(Inode { attributes, written: true, .. }) = self.inodes.get(file) else { continue };
            let there = of_files.get(file).map_or(&[][..], Vec::as_slice);
            let is_there = |component: u32, target: TargetId| {
                let object = object(attributes.volume, *file, component);
                match attributes.kind {
                    FileKind::Ring => rings.contains_key(&(target, object)),
                    FileKind::Heap => heaps.contains_key(&(target, object)),
                    _ if layout.absence(component).is_some() => false,
                    // One that nothing was written to is not made.
                    _ => {
                        layout.striping.length_of(component, attributes.size) == Bytes::ZERO
                            || there.iter().any(|it| (it.target, it.object) == (target, object))
                    }
                }
            };
            // Rings and heaps are made with their names.
            let may_be_hole = |component: u32, target: TargetId| {
                attributes.kind == FileKind::File && layout.absence(component).is_none() && looked_at.contains(&target)
            };
            let not_there = layout.components().into_iter().filter(|(number, target)| !is_there(*number, *target));
            let (unwritten, lacking): (Vec<_>, Vec<_>) =
                not_there.partition(|(number, target)| may_be_hole(*number, *target));
            if !unwritten.is_empty() {
                self.found.push((*file, What::Unwritten { components: unwritten }));
            }
            if lacking.is_empty() {
                continue;
            }
            let striping = layout.striping;
            let in_family = |component: u32| {
                let family = striping.family(component);
                lacking.iter().filter(|(other, _)| family.contains(other)).count()
            };
            let spare = match attributes.kind {
                FileKind::Ring => usize::from(striping.raid() == Raid::Five),
                _ => striping.spare() as usize,
            };
            let is_enough = lacking.iter().all(|(component, _)| in_family(*component) <= spare);
            self.found.push((*file, What::Lacks { components: lacking, is_enough }));
        }
    }

    /// Has what was not found of files that no copy knows be made anew of the others, as far as these are enough: of a target on which it
    /// may still be nobody would ever say that it has failed.
    pub(super) fn give_up_unfound(&mut self) {
        let mut not_found: BTreeMap<FileId, Vec<u32>> = BTreeMap::new();
        for (file, what) in &self.found {
            if let What::Lacks { components, .. } | What::Unwritten { components } = what {
                not_found.entry(*file).or_default().extend(components.iter().map(|(component, _)| *component));
            }
        }
        for (file, what) in &self.found {
            let (What::Unknown, Some(components)) = (what, not_found.get(file)) else { continue };
            let Some(Layout { striping, targets, absent }) = self.layouts.get_mut(file) else { continue };
            let Some(Inode { attributes, .. }) = self.inodes.get(file) else { continue };
            let beside =
                |component: u32| components.iter().filter(|it| striping.family(component).contains(it)).count();
            let is_enough = components.iter().all(|component| beside(*component) <= striping.spare() as usize);
            if attributes.kind != FileKind::File || !is_enough {
                continue;
            }
            for component in components {
                targets[*component as usize] = NOWHERE;
                let since = attributes.version;
                absent.push(Absent { component: *component, since, absence: Absence::Missed });
            }
            absent.sort_by_key(|absent| absent.component);
        }
    }

    /// Counts what directories and volumes have.
    pub(super) fn count(&mut self) {
        for (file, inode) in &mut self.inodes {
            if inode.is_directory() {
                inode.attributes.entries = self.names.get(file).map_or(0, |entries| entries.len() as u64);
            }
        }
        for (volume, record) in &mut self.volumes {
            let own = || self.inodes.values().filter(|inode| inode.attributes.volume == *volume);
            // What files are said to have may be more than can be counted.
            record.bytes = Bytes(own().fold(0, |sum: u64, inode| sum.saturating_add(inode.attributes.size.0)));
            record.files = own().count() as u64;
            quota::mark(record, self.now);
        }
    }

    /// The first number that no volume has.
    pub(super) fn next_volume(&self) -> u64 {
        self.volumes.last_key_value().map_or(FIRST_VOLUME, |(last, _)| *last) + 1
    }

    /// What people have to know, by where it is.
    pub(super) fn findings(&self) -> Vec<Finding> {
        let mut names: BTreeMap<FileId, (FileId, &str)> = BTreeMap::new();
        for (directory, entries) in &self.names {
            names.extend(entries.iter().map(|(name, file)| (*file, (*directory, name.as_str()))));
        }
        let path = |file: FileId| {
            let (mut path, mut at) = (String::new(), file);
            while let Some((parent, name)) = names.get(&at) {
                path = format!("/{name}{path}");
                at = *parent;
            }
            path
        };
        let found =
            self.found.iter().map(|(file, what)| Finding { file: *file, path: path(*file), what: what.clone() });
        let dangling = self.dangling.iter().map(|(directory, name, _)| Finding {
            file: *directory,
            path: format!("{}/{name}", path(*directory)),
            what: What::Dangling,
        });
        let mut findings: Vec<Finding> = found.chain(dangling).collect();
        findings.sort_by(|one, other| one.path.cmp(&other.path));
        findings
    }

    /// Puts all of it back.
    pub(super) fn store(self, state: &mut BTreeMap<Vec<u8>, Vec<u8>>) -> Result<()> {
        for (directory, entries) in self.names {
            for (name, file) in entries {
                let kind = self.inodes[&file].attributes.kind;
                put(state, keys::name(directory, &name), &Named { file, kind })?;
            }
        }
        for (file, layout) in self.layouts.iter().filter(|(file, _)| self.inodes.contains_key(file)) {
            put(state, keys::layout(*file), layout)?;
        }
        for (file, inode) in self.inodes {
            put(state, keys::inode(file), &inode)?;
        }
        for (volume, record) in self.volumes {
            put(state, keys::volume(volume), &record)?;
        }
        Ok(())
    }
}

/// Has each component lie where it is newest: of those that are where the layout of this version says, and on other targets as well; and
/// of those of which nothing is there. Which lie elsewhere now, each with what is left where it lay.
fn lie_newest<'a>(
    (file, version): (FileId, u64),
    layout: &mut Layout,
    own: &[&'a Component],
    besides: &Besides,
    looked_at: &BTreeSet<TargetId>,
) -> Vec<(u32, Option<&'a Component>)> {
    let (mut targets, mut moved) = (layout.targets.clone(), Vec::new());
    for (component, lies) in layout.components() {
        let there = || own.iter().copied().filter(|it| component_of(it.object).1 == component);
        let old = there().find(|it| it.target == lies);
        // What was not looked at may be newer.
        if old.is_none() && lies != NOWHERE && !looked_at.contains(&lies) {
            continue;
        }
        // A copy says nothing of itself until all of it was written, and is told of no version of which the other one is not. What was
        // left behind may be told before the one that counts.
        let known = old.map_or(version, |old| old.fence);
        let is_whole = |it: &Component| {
            let place = (file, component, it.target);
            let is_copied = besides.copied.contains(&place) && it.fence <= known;
            it.described.is_some() && !is_copied && !besides.left.contains(&place)
        };
        let newest = there().filter(|it| is_whole(it)).max_by_key(|it| (it.fence, it.modified));
        // Of what has left a target nothing is there any more: whatever is whole elsewhere is newer than that.
        let newest = newest.filter(|it| old.is_none_or(|old| (it.fence, it.modified) > (old.fence, old.modified)));
        if let Some(newest) = newest {
            targets[component as usize] = newest.target;
            moved.push((component, old));
        }
    }
    // No target has two components of a file.
    if targets.iter().collect::<BTreeSet<&TargetId>>().len() < targets.len() {
        return Vec::new();
    }
    layout.targets = targets;
    moved
}

/// The size of the smallest file of which a component has so many bytes. None if there is no such component of a file like this, or it is
/// longer than that of the largest: whoever may write a file may have its components say and be anything.
fn size_from(striping: Striping, component: u32, length: Bytes) -> Option<Bytes> {
    let is_one = component < striping.components() && length <= striping.length_of(component, LARGEST);
    is_one.then(|| striping.size_from(component, length))
}

/// Has a component be made anew of the others of its family, if these are there.
fn make_anew(layout: &mut Layout, component: u32, size: Bytes, own: &[&Component], since: u64) {
    let Layout { striping, targets, absent } = layout;
    let is_there = |(other, target): (u32, &TargetId)| {
        let is_absent = absent.iter().any(|absent| absent.component == other);
        let is_found = || own.iter().any(|it| (component_of(it.object).1, it.target) == (other, *target));
        !is_absent && (striping.length_of(other, size) == Bytes::ZERO || is_found())
    };
    let family = striping.family(component);
    let mut others = (0..).zip(targets.iter()).filter(|(other, _)| family.contains(other) && *other != component);
    let is_absent = absent.iter().any(|absent| absent.component == component);
    if !is_absent && striping.spare() > 0 && others.all(is_there) {
        absent.push(Absent { component, since, absence: Absence::Missed });
        absent.sort_by_key(|absent| absent.component);
    }
}

fn put(state: &mut BTreeMap<Vec<u8>, Vec<u8>>, key: Vec<u8>, value: &impl Serialize) -> Result<()> {
    let value = encode(&key, value)?;
    state.insert(key, value);
    Ok(())
}
