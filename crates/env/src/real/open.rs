//! Taking a device for ourselves. Whoever holds an [`Opened`] with [`OpenMode::Exclusive`] is the only one who
//! writes the device: files are locked, block devices opened exclusively, mounted ones refused.
//!
//! The lock belongs to the same open file as the I/O. The kernel keeps that open as long as I/O is under way, so even
//! after a `kill -9` nobody gets the device before the last write of the dead process has ended.

mod inspect;

use super::file::available;
use super::io_error;
use crate::buffer::{ALIGN, Buffer};
use crate::device::Geometry;
use forebay_model::{Bytes, Error, Result};
use inspect::Alignment;
use rustix::fs::{FallocateFlags, FlockOperation, OFlags};
use rustix::io::Errno;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// The smallest device that is opened or created; what a format needs is more, and it says so itself.
pub const SMALLEST: Bytes = Bytes::mib(1);

/// How long an open waits for the last I/O of a process that was killed, which keeps the device its own: as long as that takes on a
/// device that works. Who can wait longer says so ([`open_waiting`]).
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// What an open device is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// Reading and writing, with nobody else at it.
    Exclusive,
    /// Reading only, whoever else is at it.
    Inspect,
}

/// An open device that no loop has taken yet; may move between threads. Closing it gives it back.
pub struct Opened {
    pub(super) file: File,
    pub(super) geometry: Geometry,
    pub(super) mode: OpenMode,
}

impl Opened {
    /// Size, block, kind.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// What it was opened for.
    pub fn mode(&self) -> OpenMode {
        self.mode
    }

    /// `length` of it from `offset` on, both multiples of what direct I/O asks for: a look before a loop takes it.
    pub fn read_at(&self, offset: Bytes, length: Bytes) -> Result<Buffer> {
        let mut buffer = Buffer::alone(length)?;
        let read = self.file.read_exact_at(&mut buffer, offset.0);
        read.map(|()| buffer).map_err(|e| io_error("looking into", &self.geometry.name, &e))
    }

    /// Sets space aside for what of a file has none yet, so that no write into it fails for want of room; what is in it stays. It is
    /// refused with [`forebay_model::Kind::Full`] before anything is taken if there is less. A device has all of its space, and a
    /// file system that cannot set any aside is left as it is.
    pub fn set_space_aside(&self) -> Result<()> {
        let name = &self.geometry.name;
        let metadata = self.file.metadata().map_err(|e| io_error("looking at", name, &e))?;
        let missing = Bytes(metadata.len()).saturating_sub(Bytes(metadata.blocks().saturating_mul(512)));
        if !metadata.is_file() || missing == Bytes::ZERO {
            return Ok(());
        }
        let room = rustix::fs::fstatvfs(&self.file)
            .map_err(|e| io_error("asking for the free space beside", name, &e.into()))?;
        let room = Bytes(room.f_bavail.saturating_mul(room.f_frsize));
        if room < missing {
            return Err(no_room(name, missing, room));
        }
        match rustix::fs::fallocate(&self.file, FallocateFlags::KEEP_SIZE, 0, metadata.len()) {
            Ok(()) => self.file.sync_all().map_err(|e| io_error("making durable", name, &e)),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(Errno::NOSPC | Errno::DQUOT) => Err(no_room(name, missing, room)),
            Err(e) => Err(io_error("setting space aside for", name, &e.into())),
        }
    }

    /// Keeps others from writing as long as this is open for inspection. False if somebody may be writing now.
    pub fn hold_still(&self) -> bool {
        let attempt =
            || rustix::fs::flock(&self.file, FlockOperation::NonBlockingLockShared).map_err(std::io::Error::from);
        patiently(GRACE, attempt, |e| e.kind() == std::io::ErrorKind::WouldBlock).is_ok()
    }
}

/// Opens the block device or preallocated file at `path` with direct I/O.
pub fn open(path: impl AsRef<Path>, mode: OpenMode) -> Result<Opened> {
    open_waiting(path, mode, |_| false)
}

/// The same for who can wait longer where it is in use: it is tried again for as long as `goes_on` wishes, which is told why it
/// cannot be opened yet. A device that is mounted, or that something else is built on, is not waited for.
pub fn open_waiting(path: impl AsRef<Path>, mode: OpenMode, mut goes_on: impl FnMut(&Error) -> bool) -> Result<Opened> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let metadata = std::fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => Error::missing(format!("{name} does not exist")),
        _ => io_error("looking at", &name, &e),
    })?;
    let number = inspect::block_number(&metadata);
    if number.is_none() && !metadata.is_file() {
        let what = if metadata.is_dir() { "a directory" } else { "something else" };
        return Err(Error::usage(format!("{name} is {what}, neither a block device nor a file")));
    }
    if mode == OpenMode::Exclusive
        && let Some((device, point)) = number.and_then(inspect::mounted_at)
    {
        return Err(Error::busy(format!("{name} is in use: {device} is mounted at {point}; unmount it first")));
    }
    let mut flags = OFlags::DIRECT | OFlags::CLOEXEC;
    if number.is_some() && mode == OpenMode::Exclusive {
        flags |= OFlags::EXCL;
    }
    let mut options = OpenOptions::new();
    options.read(true).write(mode == OpenMode::Exclusive).custom_flags(flags.bits() as i32);
    let holders = || number.map(inspect::holders).unwrap_or_default();
    let is_busy = |e: &std::io::Error| e.raw_os_error() == Some(libc::EBUSY);
    let wait = || holders().is_empty() && goes_on(&in_use(&name));
    let file = longer(GRACE, || options.open(path), is_busy, wait).map_err(|e| match e.raw_os_error() {
        Some(libc::EBUSY) => match holders() {
            none if none.is_empty() => in_use(&name),
            some => Error::busy(format!("{name} is in use by {}; release it first", some.join(", "))),
        },
        Some(libc::EINVAL) => inspect::no_direct(&name),
        Some(libc::EACCES | libc::EPERM | libc::EROFS) => Error::usage(format!(
            "{name} may not be opened for {}: {e}",
            if mode == OpenMode::Exclusive { "writing" } else { "reading" }
        )),
        _ => io_error("opening", &name, &e),
    })?;
    if mode == OpenMode::Exclusive {
        lock(&file, &name, goes_on)?;
    }
    measure(file, name, mode)
}

/// Creates a file of `size` (rounded down to whole pages) at `path`, with all its space set aside, and opens it.
/// A file that cannot be completed is removed again.
pub fn create_file(path: impl AsRef<Path>, size: Bytes) -> Result<Opened> {
    let path = path.as_ref();
    let name = path.display().to_string();
    let size = size.align_down(Bytes(ALIGN as u64));
    if size < SMALLEST {
        return Err(too_small(&name, size));
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if path.symlink_metadata().is_ok() {
        return Err(Error::exists(format!("{name} exists already; remove it or choose another name")));
    }
    // Ask first: taking all that is left and then giving up would hurt everybody else on the file system.
    let available = available(folder)?;
    if available < size {
        return Err(no_room(&name, size, available));
    }
    let mut options = OpenOptions::new();
    options.read(true).write(true).create_new(true).mode(0o600);
    options.custom_flags((OFlags::DIRECT | OFlags::CLOEXEC).bits() as i32);
    let file = options.open(path).map_err(|e| match e.raw_os_error() {
        Some(libc::EEXIST) => Error::exists(format!("{name} exists already; remove it or choose another name")),
        Some(libc::EINVAL) => {
            // Some file systems make the file before they find that they cannot open it so.
            let _ = std::fs::remove_file(path);
            inspect::no_direct(&name)
        }
        _ => io_error("creating", &name, &e),
    })?;
    fill(file, &name, size, folder).inspect_err(|_| {
        // The error that matters is the one we have; a file that cannot even be removed changes nothing about it.
        let _ = std::fs::remove_file(path);
    })
}

fn fill(file: File, name: &str, size: Bytes, folder: &Path) -> Result<Opened> {
    lock(&file, name, |_| false)?;
    match rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size.0) {
        Ok(()) => {}
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(&file, name, size, folder)?,
        Err(Errno::NOSPC | Errno::DQUOT) => return Err(no_room(name, size, available(folder)?)),
        Err(Errno::FBIG) => {
            return Err(Error::usage(format!("{name} cannot be {size}: its file system has a lower limit for files")));
        }
        Err(e) => return Err(io_error("setting space aside for", name, &e.into())),
    }
    let synced = file.sync_all().and_then(|()| File::open(folder)?.sync_all());
    synced.map_err(|e| io_error("making durable", name, &e))?;
    measure(file, name.to_string(), OpenMode::Exclusive)
}

/// For file systems that cannot set space aside: take it by writing it.
fn write_zeros(file: &File, name: &str, size: Bytes, folder: &Path) -> Result<()> {
    let buffer = Buffer::alone(Bytes::mib(4))?;
    let mut offset = 0;
    while offset < size.0 {
        let length = (size.0 - offset).min(buffer.len() as u64) as usize;
        file.write_all_at(&buffer[..length], offset).map_err(|e| match e.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                no_room(name, size, available(folder).unwrap_or_default() + Bytes(offset))
            }
            _ => io_error("writing zeros to", name, &e),
        })?;
        offset += length as u64;
    }
    Ok(())
}

fn measure(file: File, name: String, mode: OpenMode) -> Result<Opened> {
    let metadata = file.metadata().map_err(|e| io_error("looking at", &name, &e))?;
    let number = inspect::block_number(&metadata);
    let size = match number {
        Some(_) => inspect::block_size(&file, &name)?,
        None => Bytes(metadata.len()),
    };
    let Alignment { offset, memory } = inspect::alignment(&file, number.is_some(), &name)?;
    if memory > ALIGN as u64 {
        return Err(Error::usage(format!(
            "{name} wants memory aligned to {memory} bytes, and {ALIGN} is the most that is supported"
        )));
    }
    let block = Bytes(offset.max(memory).max(512));
    let size = size.align_down(block);
    if size < SMALLEST {
        return Err(too_small(&name, size));
    }
    let geometry = Geometry { size, block, rotates: inspect::rotates(&metadata), plain: None, name };
    Ok(Opened { file, geometry, mode })
}

fn lock(file: &File, name: &str, mut goes_on: impl FnMut(&Error) -> bool) -> Result<()> {
    let attempt = || rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).map_err(std::io::Error::from);
    let is_held = |e: &std::io::Error| e.kind() == std::io::ErrorKind::WouldBlock;
    longer(GRACE, attempt, is_held, || goes_on(&in_use(name))).map_err(|e| match e.kind() {
        std::io::ErrorKind::WouldBlock => in_use(name),
        _ => io_error("locking", name, &e),
    })
}

/// Tries again for as long as `grace`, for what the kernel gives back a little after its owner has gone. Nothing tells
/// of that moment, so there is nothing to wait for.
pub(super) fn patiently<T>(
    grace: Duration,
    attempt: impl FnMut() -> std::io::Result<T>,
    again: impl Fn(&std::io::Error) -> bool,
) -> std::io::Result<T> {
    longer(grace, attempt, again, || false)
}

/// The same, and after that for as long as `goes_on` wishes.
fn longer<T>(
    grace: Duration,
    mut attempt: impl FnMut() -> std::io::Result<T>,
    again: impl Fn(&std::io::Error) -> bool,
    mut goes_on: impl FnMut() -> bool,
) -> std::io::Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Err(e) if again(&e) && (start.elapsed() < grace || goes_on()) => {
                std::thread::sleep(Duration::from_millis(10));
            }
            other => return other,
        }
    }
}

fn in_use(name: &str) -> Error {
    Error::busy(format!(
        "{name} is in use by another process, or I/O of one that was killed has not ended; stop that one first, or wait until \
         its device has done what it was asked"
    ))
}

fn no_room(name: &str, needed: Bytes, available: Bytes) -> Error {
    Error::full(format!(
        "{name} needs {needed} ({} bytes), and its file system has {available} ({} bytes) free; \
         ask for less or make room",
        needed.0, available.0
    ))
}

fn too_small(name: &str, size: Bytes) -> Error {
    Error::usage(format!("{name} is too small: it has {size}, and the least is {SMALLEST}"))
}

#[cfg(test)]
mod tests;
