//! A file that is written as a whole: it has its name once all of it is there and durable, and if it does not come to that,
//! nothing of it stays, and what had the name before still has it.
//!
//! What is no file (a device, a pipe), or only leads to one (a link), is written where it is, and stays what it is.

use super::{File, folder_of, trouble};
use crate::real::{io_error, random};
use forebay_model::Result;
use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A file that is being written.
#[derive(Debug)]
pub struct NewFile {
    file: fs::File,
    path: PathBuf,
    /// What it is called until it is kept, if it is not written where it is.
    draft: Option<PathBuf>,
    replaces: bool,
}

impl NewFile {
    /// Begins one at `path`. What is there already is an error, unless this `replaces` it.
    pub fn begin(path: impl AsRef<Path>, replaces: bool) -> Result<NewFile> {
        let path = path.as_ref().to_path_buf();
        let there = match path.symlink_metadata() {
            Ok(there) => Some(there),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(trouble("looking at", &path, &e)),
        };
        if there.is_some() && !replaces {
            return Err(trouble("creating", &path, &io::ErrorKind::AlreadyExists.into()));
        }
        if there.as_ref().is_some_and(|there| !there.is_file()) {
            let file = fs::File::create(&path).map_err(|e| trouble("opening", &path, &e))?;
            return Ok(NewFile { file, path, draft: None, replaces });
        }
        let pid = rustix::process::getpid();
        let draft = folder_of(&path).join(format!(".forebay.{pid}.{:016x}", random::number()));
        let mut options = fs::OpenOptions::new();
        // Nobody is to read more of it than of what it replaces.
        options.write(true).create_new(true).mode(there.as_ref().map_or(0o666, |there| there.mode() & 0o777));
        let file = options.open(&draft).map_err(|e| trouble("creating", &path, &e))?;
        let new = NewFile { file, path, draft: Some(draft), replaces };
        if let Some(there) = there {
            // Who may not give it to another user has it as their own.
            let _ = std::os::unix::fs::fchown(&new.file, Some(there.uid()), Some(there.gid()));
            new.file.set_permissions(there.permissions()).map_err(|e| trouble("creating", &new.path, &e))?;
        }
        Ok(new)
    }

    /// What writes into it, too.
    pub fn writer(&self) -> Result<File> {
        self.file.try_clone().map(File).map_err(|e| io_error("opening", self.path.display(), &e))
    }

    /// All of it is written: makes it durable, and gives it its name.
    pub fn keep(mut self) -> Result<()> {
        self.put_in_place().map_err(|e| trouble("writing", &self.path, &e))
    }

    fn put_in_place(&mut self) -> io::Result<()> {
        let Some(draft) = &self.draft else {
            // A pipe has nothing that could be made durable.
            return self.file.sync_all().or_else(|e| match e.kind() {
                io::ErrorKind::InvalidInput => Ok(()),
                _ => Err(e),
            });
        };
        self.file.sync_all()?;
        match self.replaces {
            true => fs::rename(draft, &self.path)?,
            false => rename_new(draft, &self.path)?,
        }
        self.draft = None;
        fs::File::open(folder_of(&self.path))?.sync_all()
    }
}

/// Gives a file its name unless something else has it by now.
pub(super) fn rename_new(draft: &Path, path: &Path) -> io::Result<()> {
    match rustix::fs::renameat_with(CWD, draft, CWD, path, RenameFlags::NOREPLACE) {
        // Not every file system can do both at once.
        Err(Errno::INVAL | Errno::NOSYS) if path.symlink_metadata().is_ok() => Err(io::ErrorKind::AlreadyExists.into()),
        Err(Errno::INVAL | Errno::NOSYS) => fs::rename(draft, path),
        renamed => Ok(renamed?),
    }
}

impl Write for NewFile {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.file.write(buffer)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(draft) = &self.draft {
            // Half of it helps nobody; the error that matters is another one.
            let _ = fs::remove_file(draft);
        }
    }
}

#[cfg(test)]
mod tests;
