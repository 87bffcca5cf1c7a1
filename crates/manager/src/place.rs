//! From places to files: names are checked, and each directory on the way may be searched.
//!
//! Always: who asks has the right to search every directory from the root to what is found, also if the place begins
//! further down; what lies deeper than [`MOST_DEPTH`] directories is found by nobody but root.

use crate::draft::View;
use crate::keys;
use crate::principal::{Principal, Wanted};
use crate::records::{Inode, Named};
use forebay_model::{Error, Result};
use forebay_wire::control::names::{FileId, FileKind, MOST_DEPTH, MOST_NAME, MOST_PATH, Place};

/// A file or directory, and what is known of it.
#[derive(Debug, Clone)]
pub(crate) struct Found {
    pub(crate) file: FileId,
    pub(crate) inode: Inode,
}

/// A name in a directory, and what is there.
#[derive(Debug, Clone)]
pub(crate) struct Slot<'p> {
    pub(crate) directory: Found,
    pub(crate) name: &'p str,
    pub(crate) there: Option<Named>,
}

/// Whether something can have this name.
pub(crate) fn check_name(name: &str) -> Result<()> {
    let what = match name {
        "" => "a name is empty".to_string(),
        "." | ".." => format!("'{name}' is no name"),
        _ if name.len() > MOST_NAME => format!("a name has {} bytes, and {MOST_NAME} are the most", name.len()),
        _ if name.contains(['/', '\0']) => format!("'{}' has a slash or a NUL in it", name.escape_debug()),
        _ => return Ok(()),
    };
    Err(Error::usage(format!("{what}; take a name of 1 to {MOST_NAME} bytes without slash and NUL")))
}

/// The names of a place, checked.
fn names(place: &Place) -> Result<Vec<&str>> {
    if place.path.len() > MOST_PATH {
        return Err(Error::usage(format!(
            "a path has {} bytes, and {MOST_PATH} are the most; begin at a directory further down",
            place.path.len()
        )));
    }
    let path = match place.from {
        FileId::ROOT => place.path.strip_prefix('/').unwrap_or(&place.path),
        _ => &place.path,
    };
    if path.is_empty() {
        return Ok(Vec::new());
    }
    let names: Vec<&str> = path.split('/').collect();
    names.iter().try_for_each(|name| check_name(name))?;
    if names.len() > MOST_DEPTH {
        return Err(too_deep());
    }
    Ok(names)
}

/// The file or directory at a place.
pub(crate) fn find(view: &impl View, by: &Principal, place: &Place) -> Result<Found> {
    let names = names(place)?;
    let start = start(view, by, place.from)?;
    walk(view, by, start, &names)
}

/// The name at a place, and what is there; a place without a name is an error.
pub(crate) fn slot<'p>(view: &impl View, by: &Principal, place: &'p Place) -> Result<Slot<'p>> {
    let names = names(place)?;
    let Some((&name, way)) = names.split_last() else {
        return Err(Error::usage(format!("{} is meant without a name; say a directory and a name in it", place.from)));
    };
    let start = start(view, by, place.from)?;
    let directory = walk(view, by, start, way)?;
    require_directory(&directory)?;
    by.require(directory.file, &directory.inode, Wanted::SEARCH)?;
    let there = view.read(&keys::name(directory.file, name))?;
    Ok(Slot { directory, name, there })
}

/// What is under the name; [`forebay_model::Kind::Missing`] if nothing is.
pub(crate) fn taken(view: &impl View, slot: &Slot<'_>) -> Result<Found> {
    let Some(named) = slot.there else { return Err(missing(slot.name, slot.directory.file)) };
    Ok(Found { file: named.file, inode: view.require(&keys::inode(named.file))? })
}

/// The file or directory of a number, whoever asks.
pub(crate) fn inode(view: &impl View, file: FileId) -> Result<Inode> {
    let missing = || Error::missing(format!("there is no {file}; it may have been removed"));
    view.read(&keys::inode(file))?.ok_or_else(missing)
}

/// How many directories are above this one.
pub(crate) fn depth(view: &impl View, mut file: FileId) -> Result<usize> {
    for depth in 0..MOST_DEPTH {
        if file == FileId::ROOT {
            return Ok(depth);
        }
        file = view.require::<Inode>(&keys::inode(file))?.parent;
    }
    Err(too_deep())
}

/// Whether `file` is `directory`, or somewhere below it.
pub(crate) fn is_within(view: &impl View, mut file: FileId, directory: FileId) -> Result<bool> {
    for _ in 0..=MOST_DEPTH {
        if file == directory {
            return Ok(true);
        }
        if file == FileId::ROOT {
            return Ok(false);
        }
        file = view.require::<Inode>(&keys::inode(file))?.parent;
    }
    Err(too_deep())
}

/// Too many directories lie above one another.
pub(crate) fn too_deep() -> Error {
    Error::usage(format!("there are more than {MOST_DEPTH} directories above one another; keep it further up"))
}

/// Where a place begins, with the right to search everything above it.
fn start(view: &impl View, by: &Principal, from: FileId) -> Result<Found> {
    let found = Found { file: from, inode: inode(view, from)? };
    if by.is_root() || from == FileId::ROOT {
        return Ok(found);
    }
    let mut above = found.inode.parent;
    for _ in 0..MOST_DEPTH {
        let directory: Inode = view.require(&keys::inode(above))?;
        by.require(above, &directory, Wanted::SEARCH)?;
        if above == FileId::ROOT {
            return Ok(found);
        }
        above = directory.parent;
    }
    Err(too_deep())
}

fn walk(view: &impl View, by: &Principal, start: Found, names: &[&str]) -> Result<Found> {
    let mut at = start;
    for name in names {
        require_directory(&at)?;
        by.require(at.file, &at.inode, Wanted::SEARCH)?;
        let named: Option<Named> = view.read(&keys::name(at.file, name))?;
        let Some(Named { file, .. }) = named else { return Err(missing(name, at.file)) };
        at = Found { file, inode: view.require(&keys::inode(file))? };
    }
    Ok(at)
}

/// [`forebay_model::Kind::Usage`] if it has no entries.
pub(crate) fn require_directory(found: &Found) -> Result<()> {
    if found.inode.is_directory() {
        return Ok(());
    }
    Err(Error::usage(format!("{} is not a directory; name one", found.file)))
}

/// [`forebay_model::Kind::Usage`] if it has no bytes.
pub(crate) fn require_file(file: FileId, inode: &Inode) -> Result<()> {
    require_kind(file, inode, FileKind::File)
}

/// [`forebay_model::Kind::Usage`] if it is of another kind.
pub(crate) fn require_kind(file: FileId, inode: &Inode, wanted: FileKind) -> Result<()> {
    let kind = inode.attributes.kind;
    if kind == wanted {
        return Ok(());
    }
    Err(Error::usage(format!("{file} is a {}; name a {}", called(kind), called(wanted))))
}

/// [`forebay_model::Kind::Usage`] if it lies on no target.
pub(crate) fn require_objects(file: FileId, inode: &Inode) -> Result<()> {
    match inode.is_directory() {
        false => Ok(()),
        true => require_file(file, inode),
    }
}

fn called(kind: FileKind) -> &'static str {
    match kind {
        FileKind::File => "file",
        FileKind::Directory => "directory",
        FileKind::Ring => "ring",
        FileKind::Heap => "heap",
    }
}

fn missing(name: &str, directory: FileId) -> Error {
    Error::missing(format!("there is no '{name}' in {directory}; look for it with a list"))
}

#[cfg(test)]
mod tests;
