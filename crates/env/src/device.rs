//! The door to a device: reads, writes and flushes of whole blocks, many in flight.

use crate::buffer::Buffer;
use forebay_model::{Bytes, Error, Result};
use std::future::Future;
use std::pin::Pin;

/// What a device says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Geometry {
    /// Bytes from the first to the last.
    pub size: Bytes,
    /// Offsets, lengths and memory addresses of I/O are multiples of this.
    pub block: Bytes,
    /// Whether the position of the last I/O matters for the next.
    pub rotates: bool,
    /// Where tracks do not overlap, on a device with others that do, if that is known. Devices that hide it say nothing.
    pub plain: Option<PlainZones>,
    /// What people call it (a path, or `sim:wd15ears`).
    pub name: String,
}

/// Where anything can be written at any time, on a device whose other tracks overlap like shingles: of each `every`
/// bytes, from the device's first on, the last `length`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlainZones {
    /// From the beginning of one stretch to that of the next.
    pub every: Bytes,
    /// Of each stretch.
    pub length: Bytes,
}

impl PlainZones {
    /// Reads `LENGTH/EVERY`, as in `32MiB/320MiB`.
    pub fn parse(text: &str) -> Result<PlainZones> {
        let Some((length, every)) = text.split_once('/') else {
            return Err(Error::usage(format!("'{text}' are no zones; give LENGTH/EVERY, as in 32MiB/320MiB")));
        };
        Ok(PlainZones { every: Bytes::parse(every)?, length: Bytes::parse(length)? })
    }
}

impl Geometry {
    /// Refuses I/O that is empty, off the block grid or past the end; `doing` is `reading` or `writing`.
    pub fn check(&self, doing: &str, offset: Bytes, length: usize) -> Result<()> {
        let Geometry { size, block, name, .. } = self;
        let length = length as u64;
        let why = if length == 0 {
            "give it bytes".to_string()
        } else if !offset.0.is_multiple_of(block.0) || !length.is_multiple_of(block.0) {
            format!("both must be multiples of its block of {} bytes", block.0)
        } else if offset.0.checked_add(length).is_none_or(|end| end > size.0) {
            format!("it ends at {} bytes", size.0)
        } else {
            return Ok(());
        };
        Err(Error::usage(format!("{doing} {length} bytes at offset {} of {name}: {why}", offset.0)))
    }
}

/// An I/O under way. It proceeds whether or not it is polled; dropping it loses the result, not the I/O.
pub type DeviceFuture<T> = Pin<Box<dyn Future<Output = T>>>;

/// A device. An I/O starts when the method is called, not when its future is first polled.
///
/// Assumed of every implementation, and checked by the conformance suite: a read sees every write that completed
/// before it was started; I/Os in flight together may complete in any order; a write is durable only once a
/// [`Device::flush`] that was started after the write completed has itself completed; I/O past the end or off the
/// block grid fails and touches nothing.
pub trait Device {
    /// Size, block, kind. Constant while open.
    fn geometry(&self) -> Geometry;

    /// Reads `buffer.len()` bytes at `offset` into the buffer and gives it back.
    fn read(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)>;

    /// Writes the buffer at `offset` and gives it back.
    fn write(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)>;

    /// Writes the buffer at `offset` and gives it back when the write is durable, as if a flush had followed. Of other
    /// writes it promises nothing.
    fn write_durable(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)>;

    /// Makes every completed write durable.
    fn flush(&self) -> DeviceFuture<Result<()>>;
}
