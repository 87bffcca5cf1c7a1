//! Bytes on their way to a name.

use super::{Named, Place};
use crate::objects::{ObjectWriter, Objects, OverQuota};
use forebay_model::{Error, Kind, Result};

/// Bytes that are written to get a name. Unless it is finished, nothing of it stays.
pub struct Put {
    objects: Objects,
    name: String,
    /// What is removed unless it gets its name.
    at: Option<Place>,
    writer: Option<ObjectWriter>,
    written: u64,
    replace: bool,
}

impl Put {
    /// What is written to `at` through `writer`, or is there already, for `name`.
    pub(super) fn new(objects: &Objects, name: &str, at: Place, writer: Option<ObjectWriter>, replace: bool) -> Put {
        Put { objects: objects.clone(), name: name.to_string(), at: Some(at), writer, written: 0, replace }
    }

    /// Takes bytes in; waits while as much is under way as may be.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        let Some(writer) = &mut self.writer else {
            return Err(Error::usage(format!("{} could not be written, and no more can be", self.name)));
        };
        let result = writer.write(bytes);
        match &result {
            Ok(()) => self.written += bytes.len() as u64,
            Err(_) => self.writer = None,
        }
        result
    }

    /// Makes it `size` bytes long, zeros where nothing is written; before the first byte is taken in.
    pub fn extend_to(&mut self, size: u64) -> Result<()> {
        match self.at {
            Some(at) if self.written == 0 => self.objects.truncate(at, size),
            _ => Err(Error::usage(format!("{} has bytes already", self.name))),
        }
    }

    /// Bytes that were taken in.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Waits until all is durable and has its name. What the name meant before is gone then.
    pub fn finish(mut self) -> Result<Named> {
        let Some(mut writer) = self.writer.take() else {
            return Err(Error::usage(format!("{} was not written", self.name)));
        };
        writer.complete()?;
        let over = writer.over_quota();
        self.take_name(over)
    }

    /// Gives what is durable its name.
    pub(super) fn take_name(mut self, over: Option<OverQuota>) -> Result<Named> {
        let Some(place) = self.at else {
            return Err(Error::usage(format!("{} was not written", self.name)));
        };
        let head = self.objects.stat(place, None)?.head;
        match self.objects.give_name(&self.name, place, self.replace) {
            Ok(before) => {
                self.at = None;
                // What cannot be removed now is listed as unfinished.
                let _ = before.map(|before| self.objects.remove_if_there(before));
                Ok(Named { name: self.name.clone(), place, head, over })
            }
            Err(error) => {
                if matches!(error.kind, Kind::Busy | Kind::Damaged | Kind::Device | Kind::Disconnected) {
                    // Perhaps it has its name.
                    self.at = None;
                }
                Err(error)
            }
        }
    }

    /// Removes what was written.
    pub fn abandon(mut self) -> Result<()> {
        self.remove()
    }

    fn remove(&mut self) -> Result<()> {
        // What is under way ends with its link, and finds no object if it comes late.
        self.writer = None;
        self.at.take().map_or(Ok(()), |at| self.objects.remove_if_there(at))
    }
}

impl Drop for Put {
    fn drop(&mut self) {
        // Who wants to know abandons it. What cannot be removed is listed as unfinished.
        let _ = self.remove();
    }
}
