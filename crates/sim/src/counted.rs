//! A device that counts what it is asked for, around any other: what a simulated disk does by itself.

use crate::disk::Counters;
use forebay_env::{Buffer, Device, DeviceFuture, Geometry};
use forebay_model::{Bytes, Result};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// A device that counts.
pub struct Counted {
    device: Rc<dyn Device>,
    inside: Inside,
}

/// What is counted; shared with what is under way.
#[derive(Clone, Default)]
struct Inside {
    counters: Rc<RefCell<Counters>>,
    /// Where the last write that was completed ended.
    write_end: Rc<Cell<u64>>,
}

impl Counted {
    /// Counts what `device` does from now on.
    pub fn new(device: Rc<dyn Device>) -> Counted {
        Counted { device, inside: Inside::default() }
    }

    /// What was completed; of movements of an arm and of the time it worked nothing is known.
    pub fn counters(&self) -> Counters {
        *self.inside.counters.borrow()
    }

    fn counted(
        &self,
        io: DeviceFuture<(Buffer, Result<()>)>,
        count: impl FnOnce(&Inside, &mut Counters) + 'static,
    ) -> DeviceFuture<(Buffer, Result<()>)> {
        let inside = self.inside.clone();
        Box::pin(async move {
            let (buffer, result) = io.await;
            let mut counters = inside.counters.borrow_mut();
            match result {
                Ok(()) => count(&inside, &mut counters),
                Err(_) => counters.failed += 1,
            }
            drop(counters);
            (buffer, result)
        })
    }
}

fn wrote(at: Bytes, length: usize) -> impl FnOnce(&Inside, &mut Counters) {
    move |inside, counters| {
        counters.writes += 1;
        counters.bytes_written += Bytes(length as u64);
        let before = inside.write_end.replace(at.0 + length as u64);
        counters.between_writes += Bytes(before.abs_diff(at.0));
    }
}

impl Device for Counted {
    fn geometry(&self) -> Geometry {
        self.device.geometry()
    }

    fn read(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        let length = Bytes(buffer.len() as u64);
        self.counted(self.device.read(offset, buffer), move |_, counters| {
            counters.reads += 1;
            counters.bytes_read += length;
        })
    }

    fn write(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        let length = buffer.len();
        self.counted(self.device.write(offset, buffer), wrote(offset, length))
    }

    fn write_durable(&self, offset: Bytes, buffer: Buffer) -> DeviceFuture<(Buffer, Result<()>)> {
        let length = buffer.len();
        self.counted(self.device.write_durable(offset, buffer), move |inside, counters| {
            counters.flushes += 1;
            wrote(offset, length)(inside, counters);
        })
    }

    fn flush(&self) -> DeviceFuture<Result<()>> {
        let (io, inside) = (self.device.flush(), self.inside.clone());
        Box::pin(async move {
            let result = io.await;
            let mut counters = inside.counters.borrow_mut();
            match result {
                Ok(()) => counters.flushes += 1,
                Err(_) => counters.failed += 1,
            }
            drop(counters);
            result
        })
    }
}

#[cfg(test)]
mod tests;
