//! What is served: bytes by offset, and an object or a file that has them.

use bytes::Bytes as Slice;
use forebay_client::file::options::Options;
use forebay_client::files::blocking::{FilesClient, OpenFile};
use forebay_client::objects::{Objects, Place, WriteOptions};
use forebay_model::{Bytes, Error, Kind, Result};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{PoisonError, RwLock};

/// Zeros that are written at once, at most.
pub(crate) const ZEROS_AT_ONCE: usize = 4 << 20;

static ZEROS: [u8; ZEROS_AT_ONCE] = [0; ZEROS_AT_ONCE];

/// So many zeros, [`ZEROS_AT_ONCE`] at most.
pub(crate) fn zeros(length: usize) -> Slice {
    Slice::from_static(&ZEROS[..length])
}

/// The parts of a range that are zeroed at once: of whole units, as far as these are not larger.
pub(crate) fn parts(offset: u64, length: u64, unit: u64) -> impl Iterator<Item = (u64, usize)> {
    let (mut at, end) = (offset, offset + length);
    std::iter::from_fn(move || {
        let most = at + ZEROS_AT_ONCE as u64;
        let units = most / unit * unit;
        let part = at..if units > at { units } else { most }.min(end);
        at = part.end;
        (!part.is_empty()).then_some((part.start, (part.end - part.start) as usize))
    })
}

/// A device. Called by many threads at once; ranges lie within [`Disk::size`].
pub trait Disk: Send + Sync {
    /// Bytes of it: always the same.
    fn size(&self) -> u64;

    /// Whether zeros may take no space, so that it is of use to be told what is not needed any more.
    fn trims(&self) -> bool;

    /// `length` bytes from `offset` on, in the parts in which they come.
    fn read(&self, offset: u64, length: usize) -> Result<Vec<Slice>>;

    /// Writes `bytes`; durable when it returns.
    fn write(&self, offset: u64, bytes: Slice) -> Result<()>;

    /// Of so many bytes, from each multiple of it on, a request that was not answered has changed all or none.
    fn unit(&self) -> u64 {
        1
    }

    /// Makes zeros, which take no space if the device trims; durable when it returns.
    fn punch(&self, offset: u64, length: u64) -> Result<()>;

    /// Returns when all that was acknowledged is durable.
    fn flush(&self) -> Result<()>;
}

/// An object as a device of the size that it had when it was opened. Bytes that somebody cuts off it later read as zeros.
pub struct ObjectDisk {
    objects: Objects,
    at: Place,
    size: u64,
}

impl ObjectDisk {
    /// The object at a place, of `size` bytes.
    pub fn new(objects: Objects, at: Place, size: u64) -> ObjectDisk {
        ObjectDisk { objects, at, size }
    }
}

impl Disk for ObjectDisk {
    fn size(&self) -> u64 {
        self.size
    }

    fn trims(&self) -> bool {
        true
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<Slice>> {
        let mut reader = self.objects.reader(self.at, offset, length as u64);
        let (mut parts, mut missing) = (Vec::new(), length);
        while let Some(part) = reader.next_bytes()? {
            missing -= part.len();
            parts.push(part.into());
        }
        fill(&mut parts, missing);
        Ok(parts)
    }

    fn write(&self, offset: u64, bytes: Slice) -> Result<()> {
        self.objects.write_at(self.at, offset, Vec::from(bytes), WriteOptions::default())
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.objects.punch(self.at, offset, length)
    }

    fn flush(&self) -> Result<()> {
        self.objects.flush(self.at)
    }
}

/// A file of a cluster on the network as a device of the size that it had when it was opened. It is open beside others: what
/// is written is durable when that returns, and whoever has the file open as well sees it.
pub struct FileDisk {
    /// Until it is closed.
    file: RwLock<Option<OpenFile>>,
    number: u64,
    size: u64,
    unit: u64,
    failed: Failed,
}

/// Whether a write failed. What it was to write may not be there yet, and come with the next change of its stripe: what reads as
/// zeros by then need not stay so.
#[derive(Default)]
struct Failed(AtomicBool);

impl Failed {
    /// Takes note of what came of a write.
    fn noted<T>(&self, written: Result<T>) -> Result<T> {
        if written.is_err() {
            self.0.store(true, Ordering::Relaxed);
        }
        written
    }

    /// Makes zeros: where there are any they stay as they are, unless a write failed, over which they have to be written to stay.
    fn zero(
        &self,
        parts: impl Iterator<Item = (u64, usize)>,
        read: impl Fn(u64, usize) -> Result<Vec<Slice>>,
        write: impl Fn(u64, Slice) -> Result<()>,
    ) -> Result<()> {
        for (at, length) in parts {
            let is_other = |part: &Slice| part[..] != ZEROS[..part.len()];
            if self.0.load(Ordering::Relaxed) || read(at, length)?.iter().any(is_other) {
                write(at, zeros(length))?;
            }
        }
        Ok(())
    }
}

/// An error as a device of a file says it. Where a file has no room that is [`Kind::Full`]. What is refused otherwise, since the file
/// was removed or somebody else has the lock of a stripe by now, is no lack of space: it is not known whether it was done.
fn of_file(error: Error) -> Error {
    match error.kind {
        Kind::Refused => Error::new(Kind::Disconnected, error.message),
        _ => error,
    }
}

impl FileDisk {
    /// Opens a file. What whoever served it before was doing when it ended is done or not from then on.
    pub fn open(files: &FilesClient, path: &str) -> Result<FileDisk> {
        let file = files.open_to_write(path, Options::beside())?;
        file.end_left()?;
        let (number, size, unit) = (file.entry().file.0, file.size()?.0, file.striping().unit().0);
        Ok(FileDisk { file: RwLock::new(Some(file)), number, size, unit, failed: Failed::default() })
    }

    /// The number of the file.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Closes the file when nothing is asked of it any more. What is asked later is refused.
    pub fn close(&self) -> Result<()> {
        let file = self.file.write().unwrap_or_else(PoisonError::into_inner).take();
        file.map_or(Ok(()), OpenFile::close)
    }

    fn with<T>(&self, ask: impl FnOnce(&OpenFile) -> Result<T>) -> Result<T> {
        match &*self.file.read().unwrap_or_else(PoisonError::into_inner) {
            Some(file) => ask(file).map_err(of_file),
            None => Err(Error::disconnected("the file was closed; serve it again")),
        }
    }
}

impl Disk for FileDisk {
    fn size(&self) -> u64 {
        self.size
    }

    /// A hole would need its own way through parity.
    fn trims(&self) -> bool {
        false
    }

    fn read(&self, offset: u64, length: usize) -> Result<Vec<Slice>> {
        let mut parts = self.with(|file| file.read_slices(Bytes(offset), Bytes(length as u64)))?;
        let there: usize = parts.iter().map(Slice::len).sum();
        fill(&mut parts, length - there);
        Ok(parts)
    }

    fn write(&self, offset: u64, bytes: Slice) -> Result<()> {
        self.failed.noted(self.with(|file| file.write_at(Bytes(offset), bytes)))
    }

    fn unit(&self) -> u64 {
        self.unit
    }

    /// Whatever is zero is left as it is, as long as no write failed: where nothing was ever written, nothing takes space afterwards.
    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        let parts = parts(offset, length, self.unit);
        self.failed.zero(parts, |at, length| self.read(at, length), |at, zeros| self.write(at, zeros))
    }

    /// All that was acknowledged is durable, on as many targets as the file needs.
    fn flush(&self) -> Result<()> {
        self.with(|_| Ok(()))
    }
}

/// Makes good what was cut off.
fn fill(parts: &mut Vec<Slice>, missing: usize) {
    if missing > 0 {
        parts.push(vec![0; missing].into());
    }
}

#[cfg(test)]
mod tests;
