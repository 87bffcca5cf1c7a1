//! Directories, files and their attributes, as messages.

use super::{enums, messages};
use forebay_wire::control::names::{
    Attributes, CreateFile, Entry, FileKind, List, Listed, MakeDirectory, Page, Place, RemoveDirectory, RemoveFile,
    Rename, SetAttributes, Stat,
};

enums! {
    FileKind { File, Directory, Ring, Heap }
}

messages! {
    Place as Place { from, path }
    Attributes as Attributes {
        kind, mode, owner, group, size, entries, created, modified, accessed, changed, volume, version
    }
    Entry as Entry { file, parent, attributes }
    CreateFile as CreateFile { place, mode, exclusive, policy, open, alone, cached }
    MakeDirectory as MakeDirectory { place, mode }
    Stat as Stat { place }
    List as List { place, after, most, attributes }
    Page as Page { entries, more }
    Listed as Listed { name, file, kind, attributes }
    SetAttributes as SetAttributes { place, mode, owner, group, size, modified, accessed }
    Rename as Rename { from, to, exclusive }
    RemoveFile as RemoveFile { place, only }
    RemoveDirectory as RemoveDirectory { place }
}
