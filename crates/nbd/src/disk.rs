//! What is served: bytes by offset, and an object that has them.

use forebay_client::objects::{Objects, Place, WriteOptions};
use forebay_model::Result;

/// A device. Called by many threads at once; ranges lie within [`Disk::size`].
pub trait Disk: Send + Sync {
    /// Bytes of it: always the same.
    fn size(&self) -> u64;

    /// `length` bytes from `offset` on, in the parts in which they come.
    fn read(&self, offset: u64, length: usize) -> Result<Vec<Vec<u8>>>;

    /// Writes `bytes`; durable when it returns.
    fn write(&self, offset: u64, bytes: Vec<u8>) -> Result<()>;

    /// Makes zeros that take no space; durable when it returns.
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

    fn read(&self, offset: u64, length: usize) -> Result<Vec<Vec<u8>>> {
        let mut reader = self.objects.reader(self.at, offset, length as u64);
        let (mut parts, mut missing) = (Vec::new(), length);
        while let Some(part) = reader.next_bytes()? {
            missing -= part.len();
            parts.push(part);
        }
        if missing > 0 {
            parts.push(vec![0; missing]);
        }
        Ok(parts)
    }

    fn write(&self, offset: u64, bytes: Vec<u8>) -> Result<()> {
        self.objects.write_at(self.at, offset, bytes, WriteOptions::default())
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.objects.punch(self.at, offset, length)
    }

    fn flush(&self) -> Result<()> {
        self.objects.flush(self.at)
    }
}
