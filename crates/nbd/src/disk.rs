//! What is served: bytes by offset, and an object that has them.

use forebay_client::objects::{Objects, Place, WriteOptions};
use forebay_model::{Error, Result};

/// A device. Called by many threads at once; ranges lie within [`Disk::size`].
pub trait Disk: Send + Sync {
    /// Bytes of it: always the same.
    fn size(&self) -> u64;

    /// Fills `bytes` from `offset` on.
    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()>;

    /// Writes `bytes`; durable when it returns.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;

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

    fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        let mut reader = self.objects.reader(self.at, offset, bytes.len() as u64);
        let mut got = 0;
        while let Some(part) = reader.next_bytes()? {
            let room = bytes.get_mut(got..got + part.len());
            room.ok_or_else(|| Error::damaged("more bytes came than were asked for"))?.copy_from_slice(&part);
            got += part.len();
        }
        bytes[got..].fill(0);
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.objects.write_at(self.at, offset, bytes, WriteOptions::default())
    }

    fn punch(&self, offset: u64, length: u64) -> Result<()> {
        self.objects.punch(self.at, offset, length)
    }

    fn flush(&self) -> Result<()> {
        self.objects.flush(self.at)
    }
}
