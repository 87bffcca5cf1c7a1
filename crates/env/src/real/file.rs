//! Thin doors to ordinary files, for what is not a target: captures, exports, settings, lock files.

mod new;

use super::io_error;
use forebay_model::{Bytes, Error, Result};
use rustix::fs::{Advice, FlockOperation};
use rustix::io::Errno;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub use new::NewFile;

/// An open file, pipe or terminal. Unbuffered.
#[derive(Debug)]
pub struct File(fs::File);

impl File {
    /// Opens for reading. Of a named pipe it waits for the writer.
    pub fn open(path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        fs::File::open(path).map(File).map_err(|e| trouble("opening", path, &e))
    }

    /// Creates for writing; what was there is gone.
    pub fn create(path: impl AsRef<Path>) -> Result<File> {
        let path = path.as_ref();
        fs::File::create(path).map(File).map_err(|e| trouble("creating", path, &e))
    }

    /// Bytes in it now.
    pub fn size(&self) -> Result<Bytes> {
        self.0.metadata().map(|m| Bytes(m.len())).map_err(|e| io_error("looking at", "an open file", &e))
    }
}

impl Read for File {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read(buffer)
    }
}

impl Write for File {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        self.0.write(buffer)
    }

    fn write_vectored(&mut self, buffers: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.0.write_vectored(buffers)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

impl AsFd for File {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Standard input, unbuffered.
pub fn stdin() -> Result<File> {
    standard(io::stdin().as_fd(), "standard input")
}

/// Standard output, unbuffered.
pub fn stdout() -> Result<File> {
    standard(io::stdout().as_fd(), "standard output")
}

/// Standard error, unbuffered.
pub fn stderr() -> Result<File> {
    standard(io::stderr().as_fd(), "standard error")
}

fn standard(descriptor: BorrowedFd<'_>, name: &str) -> Result<File> {
    let owned = descriptor.try_clone_to_owned().map_err(|e| io_error("opening", name, &e))?;
    Ok(File(fs::File::from(owned)))
}

/// The whole content.
pub fn read(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let path = path.as_ref();
    fs::read(path).map_err(|e| trouble("reading", path, &e))
}

/// The whole content, as text.
pub fn read_text(path: impl AsRef<Path>) -> Result<String> {
    let path = path.as_ref();
    String::from_utf8(read(path)?).map_err(|_| Error::usage(format!("{} is not UTF-8 text", path.display())))
}

/// Puts `content` at `path`, durably: at any moment the old content is there, or the new, never a part.
pub fn replace(path: impl AsRef<Path>, content: &[u8]) -> Result<()> {
    let path = path.as_ref();
    let (folder, draft) = (folder_of(path), draft_of(path));
    let write = || {
        let mut file = fs::File::create_new(&draft)?;
        file.write_all(content)?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        fs::File::open(folder)?.sync_all()
    };
    write().map_err(|e| {
        // The error that matters is the one we have.
        let _ = fs::remove_file(&draft);
        trouble("writing", path, &e)
    })
}

/// Writes a file that only this user can read, and that was not there before, durably: at any moment all of it is there, or
/// nothing, and nothing of it stays if that fails.
pub fn create_secret(path: impl AsRef<Path>, content: &[u8]) -> Result<()> {
    let path = path.as_ref();
    let (folder, draft) = (folder_of(path), draft_of(path));
    let write = || {
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(content)?;
        file.sync_all()?;
        new::rename_new(&draft, path)?;
        fs::File::open(folder).and_then(|folder| folder.sync_all()).inspect_err(|_| {
            // Nobody is to rely on what a power cut may take; the error that matters is the one we have.
            let _ = fs::remove_file(path);
        })
    };
    write().map_err(|e| {
        // As above.
        let _ = fs::remove_file(&draft);
        trouble("creating", path, &e)
    })
}

/// From now on a file is read from its device, as far as nobody uses it. After a write-back that failed, the kernel goes on
/// showing what was to be written, and never writes it: who believes that builds on what is not there.
pub fn forget_cached(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    let file = fs::File::open(path).map_err(|e| trouble("opening", path, &e))?;
    // What is not written yet cannot be forgotten; if it cannot be written, the device says what is there.
    let _ = file.sync_all();
    match rustix::fs::fadvise(&file, 0, None, Advice::DontNeed) {
        // A kernel can be built without taking advice.
        Ok(()) | Err(Errno::NOSYS) => Ok(()),
        Err(e) => Err(trouble("reading anew", path, &e.into())),
    }
}

/// Gives a file another name in its directory, durably; what has that name is replaced.
pub fn rename(from: impl AsRef<Path>, to: impl AsRef<Path>) -> Result<()> {
    let (from, to) = (from.as_ref(), to.as_ref());
    let renamed = fs::rename(from, to).and_then(|()| fs::File::open(folder_of(to))?.sync_all());
    renamed.map_err(|e| trouble("renaming", from, &e))
}

/// Whether anything is there, a dangling link included.
pub fn exists(path: impl AsRef<Path>) -> bool {
    path.as_ref().symlink_metadata().is_ok()
}

/// Whether a directory is there.
pub fn is_directory(path: impl AsRef<Path>) -> bool {
    path.as_ref().is_dir()
}

/// Whether a file is there: neither a directory nor a device.
pub fn is_file(path: impl AsRef<Path>) -> bool {
    path.as_ref().is_file()
}

/// Removes a file. False if there was none.
pub fn remove(path: impl AsRef<Path>) -> Result<bool> {
    let path = path.as_ref();
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(e) => Err(trouble("removing", path, &e)),
    }
}

/// Removes a directory, if nothing is in it.
pub fn remove_empty_directory(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    fs::remove_dir(path).map_err(|e| trouble("removing the directory", path, &e))
}

/// Makes a directory and those above it, as far as they are missing.
pub fn make_directory(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    fs::create_dir_all(path).map_err(|e| trouble("making the directory", path, &e))
}

/// Removes a directory with all that is in it.
pub fn remove_directory(path: impl AsRef<Path>) -> Result<()> {
    let path = path.as_ref();
    fs::remove_dir_all(path).map_err(|e| trouble("removing the directory", path, &e))
}

/// The same place as a path from the root, links followed.
pub fn absolute(path: impl AsRef<Path>) -> Result<PathBuf> {
    let path = path.as_ref();
    fs::canonicalize(path).map_err(|e| trouble("finding", path, &e))
}

/// The same place as a path from the root, whether anything is there or not.
pub fn from_root(path: impl AsRef<Path>) -> Result<PathBuf> {
    let path = path.as_ref();
    std::path::absolute(path).map_err(|e| trouble("finding", path, &e))
}

/// What an ordinary user can still store in the file system that `path` is in.
pub fn available(path: impl AsRef<Path>) -> Result<Bytes> {
    let path = path.as_ref();
    rustix::fs::statvfs(path)
        .map(|v| Bytes(v.f_bavail.saturating_mul(v.f_frsize)))
        .map_err(|e| trouble("asking for the free space of", path, &e.into()))
}

/// An exclusive lock between processes: a file that is locked while this lives, also if the process is killed.
/// The file stays when the lock goes.
#[derive(Debug)]
pub struct Lock(fs::File);

impl Lock {
    /// Takes the lock if nobody has it.
    pub fn try_take(path: impl AsRef<Path>) -> Result<Option<Lock>> {
        let path = path.as_ref();
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path).map_err(|e| trouble("opening", path, &e))?;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Lock(file))),
            Err(Errno::WOULDBLOCK) => Ok(None),
            Err(e) => Err(trouble("locking", path, &e.into())),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Closing would do, unless a child process that is just being started still has a copy.
        let _ = rustix::fs::flock(&self.0, FlockOperation::Unlock);
    }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// A name beside a file's, which nothing has: what an earlier draft left is in nobody's way.
fn draft_of(path: &Path) -> PathBuf {
    let mut name = path.file_name().map(|n| n.to_os_string()).unwrap_or_default();
    name.push(format!(".{}.{:016x}", rustix::process::getpid(), super::random::number()));
    folder_of(path).join(name)
}

fn trouble(doing: &str, path: &Path, error: &io::Error) -> Error {
    match error.kind() {
        io::ErrorKind::NotFound => Error::missing(format!("{doing} {} failed: it does not exist", path.display())),
        io::ErrorKind::AlreadyExists => Error::exists(format!("{} exists already", path.display())),
        _ => io_error(doing, path.display(), error),
    }
}

#[cfg(test)]
mod tests;
