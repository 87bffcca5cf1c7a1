//! Names: directories and files in one tree, their attributes, and what is asked about them.
//!
//! A name is 1 to [`MOST_NAME`] bytes of UTF-8 without `/` and NUL, and neither `.` nor `..`; whatever else is refused and
//! never mended, so that a thing has one name through every door.

use super::volumes::Policy;
use forebay_model::{Bytes, Timestamp};
use serde::{Deserialize, Serialize};

/// The most bytes of a name.
pub const MOST_NAME: usize = 255;
/// The most bytes of a path.
pub const MOST_PATH: usize = 4096;
/// The most directories on the way to anything.
pub const MOST_DEPTH: usize = 256;
/// The most entries of a page, whatever is asked for.
pub const MOST_ENTRIES: u32 = 4096;

/// A file or a directory: its number, which never is another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct FileId(pub u64);

impl FileId {
    /// The directory in which everything is.
    pub const ROOT: FileId = FileId(1);
}

impl std::fmt::Display for FileId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "file {:x}", self.0)
    }
}

/// Where something is: names from a directory on, with `/` between them. No name at all is the directory itself; one is
/// an entry of it; a `/` before the first is allowed if the directory is [`FileId::ROOT`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// The directory; if there are no names, it may be a file.
    pub from: FileId,
    /// The names.
    pub path: String,
}

impl Place {
    /// By a path from the root.
    pub fn path(path: impl Into<String>) -> Place {
        Place { from: FileId::ROOT, path: path.into() }
    }

    /// An entry of a directory.
    pub fn entry(directory: FileId, name: impl Into<String>) -> Place {
        Place { from: directory, path: name.into() }
    }

    /// By its number.
    pub fn of(file: FileId) -> Place {
        Place { from: file, path: String::new() }
    }
}

/// What it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum FileKind {
    /// It has bytes.
    File,
    /// It has entries.
    Directory,
    /// Streams of elements run round in it.
    Ring,
    /// It has records.
    Heap,
}

/// What is known of a file or directory beside its bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// What it is.
    pub kind: FileKind,
    /// Who may do what: the lowest 12 bits as in POSIX.
    pub mode: u32,
    /// The user that it belongs to.
    pub owner: u32,
    /// The group that it belongs to.
    pub group: u32,
    /// Bytes of a file, as its last writer said; of a ring, what it was made for; of a heap, which grows by itself, none.
    pub size: Bytes,
    /// Entries of a directory.
    pub entries: u64,
    /// When it was made.
    pub created: Timestamp,
    /// When its bytes or entries changed last, as far as the manager was told.
    pub modified: Timestamp,
    /// When its bytes were read last, if a client said so.
    pub accessed: Timestamp,
    /// When its attributes changed last.
    pub changed: Timestamp,
    /// The volume in which it is.
    pub volume: u64,
    /// The version that its components have to have: raised to revoke.
    pub version: u64,
}

/// A file or directory, found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Its number.
    pub file: FileId,
    /// The directory in which it is; of the root, itself.
    pub parent: FileId,
    /// What is known of it.
    pub attributes: Attributes,
}

/// Makes a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CreateFile {
    /// Where.
    pub place: Place,
    /// Its mode.
    pub mode: u32,
    /// Whether it is an error if there is a file of that name; if not, that file is the answer.
    pub exclusive: bool,
    /// How it is striped, if not as its volume says.
    pub policy: Option<Policy>,
    /// Whether it is open to write at once.
    pub open: bool,
    /// If it is opened: as [`crate::control::files::OpenToWrite::alone`].
    pub alone: bool,
    /// If it is to be open: what the client may keep of it the manager says, and calls it back.
    pub cached: bool,
}

/// Makes a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MakeDirectory {
    /// Where.
    pub place: Place,
    /// Its mode.
    pub mode: u32,
}

/// Asks for a file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stat {
    /// Which.
    pub place: Place,
}

/// Asks for the entries of a directory, by their names' bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct List {
    /// Which.
    pub place: Place,
    /// Only what comes behind this name, whether that is there or not; empty: from the first on.
    pub after: String,
    /// How many at most.
    pub most: u32,
    /// Whether attributes are wanted too.
    pub attributes: bool,
}

/// A part of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Page {
    /// By their names' bytes.
    pub entries: Vec<Listed>,
    /// Whether there are more behind the last.
    pub more: bool,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Its number.
    pub file: FileId,
    /// What it is.
    pub kind: FileKind,
    /// If they were wanted.
    pub attributes: Option<Attributes>,
}

/// Changes attributes; what is not there stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SetAttributes {
    /// Of which.
    pub place: Place,
    /// Who may do what.
    pub mode: Option<u32>,
    /// The user that it belongs to.
    pub owner: Option<u32>,
    /// The group that it belongs to.
    pub group: Option<u32>,
    /// Bytes of a file, or the capacity of a ring.
    pub size: Option<Bytes>,
    /// When its bytes changed last.
    pub modified: Option<Timestamp>,
    /// When its bytes were read last.
    pub accessed: Option<Timestamp>,
}

/// Gives a file or directory another name or directory, at once; a file or an empty directory of that name is replaced.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rename {
    /// Where it is.
    pub from: Place,
    /// Where it is to be.
    pub to: Place,
    /// Whether it is an error if there is something already.
    pub exclusive: bool,
}

/// Removes a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveFile {
    /// Which.
    pub place: Place,
    /// Only if it is this one, and none that was made there meanwhile.
    pub only: Option<FileId>,
}

impl RemoveFile {
    /// Whatever is there.
    pub fn at(place: Place) -> RemoveFile {
        RemoveFile { place, only: None }
    }
}

/// Removes an empty directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RemoveDirectory {
    /// Which.
    pub place: Place,
}
