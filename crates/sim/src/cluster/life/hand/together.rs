//! What a client does with files that others write at the same time.

use super::super::registers::{CELL, CELLS};
use super::{Hand, expected, options};
use bytes::Bytes as Slice;
use forebay_client::file::options::Sharing;
use forebay_model::{Bytes, Error, Result};
use std::time::Duration;

/// More than there are files that several clients use.
const SLOTS: usize = 1000;

impl Hand {
    /// An operation on a file that others write as well.
    pub(super) async fn together(&mut self) {
        let (shared, registers) = (self.common.shared.len(), self.common.registers.len());
        // As many operations as the kinds of files need to be worth their while.
        let which = match self.random.below(5) {
            0 | 1 => self.random.below(shared as u64),
            _ => shared as u64 + self.random.below(registers as u64),
        } as usize;
        // What is kept of a file that is open twice is another matter.
        let twice = self.is_cached(which) && self.random.below(3) == 0;
        let which = if twice { which + SLOTS } else { which };
        if !self.sharing.contains_key(&which) {
            let path = match (which % SLOTS).checked_sub(shared) {
                None => self.common.shared[which].borrow().path.clone(),
                Some(registers) => self.common.registers[registers].borrow().path.clone(),
            };
            let sharing = if self.is_cached(which) { Sharing::Cached } else { Sharing::Beside };
            let (files, reads) = (&self.machine.files, self.is_cached(which) && self.random.below(3) == 0);
            let answer = match reads {
                true => self.within("open to read", files.open(&path, options(sharing))).await,
                false => self.within("open", files.open_to_write(&path, options(sharing))).await,
            };
            let Some(file) = expected("open", answer) else { return self.rest().await };
            self.sharing.insert(which, (file, !reads));
        }
        if self.is_cached(which) && self.random.below(4) == 0 {
            // Whoever closes it again lets others keep something.
            if let Some((file, _)) = self.sharing.remove(&which) {
                expected("closing a kept file", self.within("closing a kept file", file.close()).await);
            }
            return;
        }
        let done = match self.random.below(10) {
            0..=8 if !self.sharing[&which].1 => self.read_cells(which).await,
            0..=3 if self.is_cached(which) => self.write_cells(which).await,
            0..=3 if which >= shared => self.write_cell(which).await,
            4..=8 if which >= shared => self.read_cells(which).await,
            0..=3 => self.write_shared(which).await,
            4 => self.append_shared(which).await,
            5..=8 => self.read_shared(which).await,
            _ => Err(Error::busy("it is opened again")),
        };
        if done.is_err()
            && let Some((file, _)) = self.sharing.remove(&which)
        {
            expected("closing a shared file", self.within("closing a shared file", file.close()).await);
            self.rest().await;
        }
    }

    async fn write_shared(&self, which: usize) -> Result<()> {
        let largest = self.common.extent.largest_shared;
        let at = self.random.below(largest);
        let length = 1 + self.random.below((largest - at).min(30_000));
        let shared = &self.common.shared[which];
        let (number, value) = shared.borrow_mut().begin(Some(at), length);
        let bytes = Slice::from(vec![value; length as usize]);
        let answer = self.within("shared write", self.sharing[&which].0.write_at(Bytes(at), bytes)).await;
        let Some(()) = expected("shared write", answer) else { return Err(Error::busy("it failed")) };
        shared.borrow_mut().end(number, at..at + length).unwrap_or_else(|wrong| panic!("{wrong}"));
        self.common.tally.borrow_mut().shared += 1;
        Ok(())
    }

    async fn append_shared(&self, which: usize) -> Result<()> {
        let length = 1 + self.random.below(5000);
        let shared = &self.common.shared[which];
        let (number, value) = shared.borrow_mut().begin(None, length);
        let bytes = Slice::from(vec![value; length as usize]);
        let answer = self.within("shared append", self.sharing[&which].0.engine().append(bytes)).await;
        let Some(at) = expected("shared append", answer) else { return Err(Error::busy("it failed")) };
        shared.borrow_mut().end(number, at.0..at.0 + length).unwrap_or_else(|wrong| panic!("{wrong}"));
        self.common.tally.borrow_mut().shared += 1;
        Ok(())
    }

    async fn read_shared(&self, which: usize) -> Result<()> {
        let largest = self.common.extent.largest_shared;
        let (from, length) = (self.random.below(largest), 1 + self.random.below(40_000));
        let shared = &self.common.shared[which];
        let begun = shared.borrow_mut().moment();
        let answer = self.within("shared read", self.sharing[&which].0.read_at(Bytes(from), Bytes(length))).await;
        let Some(bytes) = expected("shared read", answer) else { return Err(Error::busy("it failed")) };
        let allowed = shared.borrow().allows(from, length, &bytes, begun);
        allowed.unwrap_or_else(|wrong| panic!("client {}: {wrong}", self.number));
        self.common.tally.borrow_mut().compared += bytes.len() as u64;
        Ok(())
    }

    /// Whether those who have a file open keep what they may of it.
    fn is_cached(&self, which: usize) -> bool {
        let registers = (which % SLOTS).checked_sub(self.common.shared.len());
        registers.is_some_and(|which| self.common.registers[which].borrow().cached)
    }

    /// Writes some cells, which count when they are flushed: others may come meanwhile.
    async fn write_cells(&self, which: usize) -> Result<()> {
        let registers = &self.common.registers[which % SLOTS - self.common.shared.len()];
        let mut written = Vec::new();
        for _ in 0..1 + self.random.below(4) {
            let cell = self.random.below(CELLS);
            let (number, bytes) = registers.borrow_mut().begin(cell);
            let writing = self.sharing[&which].0.write_at(CELL * cell, Slice::from(bytes));
            let answer = self.within("writing a cell", writing).await;
            let Some(()) = expected("writing a cell", answer) else { return Err(Error::busy("it failed")) };
            written.push((cell, number));
            if self.random.below(4) == 0 {
                self.clock.sleep(Duration::from_millis(self.random.below(20))).await;
            }
        }
        let answer = self.within("flushing cells", self.sharing[&which].0.flush()).await;
        let Some(()) = expected("flushing cells", answer) else { return Err(Error::busy("it failed")) };
        for (cell, number) in written {
            registers.borrow_mut().end(cell, number);
            self.common.tally.borrow_mut().cells += 1;
        }
        self.common.tally.borrow_mut().kept += u64::from(!self.sharing[&which].0.engine().is_shared());
        Ok(())
    }

    async fn write_cell(&self, which: usize) -> Result<()> {
        let registers = &self.common.registers[which % SLOTS - self.common.shared.len()];
        let cell = self.random.below(CELLS);
        let (number, bytes) = registers.borrow_mut().begin(cell);
        let writing = self.sharing[&which].0.write_at(CELL * cell, Slice::from(bytes));
        let answer = self.within("writing a cell", writing).await;
        let Some(()) = expected("writing a cell", answer) else { return Err(Error::busy("it failed")) };
        registers.borrow_mut().end(cell, number);
        self.common.tally.borrow_mut().cells += 1;
        Ok(())
    }

    async fn read_cells(&self, which: usize) -> Result<()> {
        let registers = &self.common.registers[which % SLOTS - self.common.shared.len()];
        let first = self.random.below(CELLS);
        let count = 1 + self.random.below((CELLS - first).min(3));
        let asked = registers.borrow_mut().moment();
        let reading = self.sharing[&which].0.read_at(CELL * first, CELL * count);
        let answer = self.within("reading cells", reading).await;
        let Some(mut bytes) = expected("reading cells", answer) else { return Err(Error::busy("it failed")) };
        // What was never written is not there, or zeros.
        bytes.resize((CELL * count).0 as usize, 0);
        let read = registers.borrow_mut().read(first, &bytes, asked);
        read.unwrap_or_else(|wrong| panic!("client {}: {wrong}", self.number));
        self.common.tally.borrow_mut().cells += 1;
        let keeps = self.is_cached(which) && !self.sharing[&which].0.engine().is_shared();
        self.common.tally.borrow_mut().kept += u64::from(keeps);
        Ok(())
    }
}
