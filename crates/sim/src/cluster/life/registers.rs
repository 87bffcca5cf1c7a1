//! Files of which several clients write and read cells at the same time, each cell a register: what was done with each of
//! them, for [`linearizable`].

use crate::cluster::check::linearizable::{self, FIRST, Operation};
use forebay_model::Bytes;

/// Bytes of a cell: some of them share a unit, and more a stripe.
pub(super) const CELL: Bytes = Bytes(2048);
/// Cells of a file.
pub(super) const CELLS: u64 = 12;

/// A file of cells.
#[derive(Debug)]
pub(super) struct Registers {
    pub(super) path: String,
    /// Those who use it keep what they may.
    pub(super) cached: bool,
    cells: Vec<Vec<Operation>>,
    now: u64,
    values: u64,
}

impl Registers {
    pub(super) fn new(path: String, cached: bool) -> Registers {
        Registers { path, cached, cells: vec![Vec::new(); CELLS as usize], now: 0, values: FIRST }
    }

    /// A moment that is later than all before.
    pub(super) fn moment(&mut self) -> u64 {
        self.now += 1;
        self.now
    }

    /// Somebody begins to write a cell: the number of that, and the bytes.
    pub(super) fn begin(&mut self, cell: u64) -> (usize, Vec<u8>) {
        self.values += 1;
        let (value, asked) = (self.values, self.moment());
        let history = &mut self.cells[cell as usize];
        history.push(Operation { writes: true, value, asked, answered: None });
        (history.len() - 1, value.to_le_bytes().repeat(CELL.0 as usize / 8))
    }

    /// That was answered well.
    pub(super) fn end(&mut self, cell: u64, number: usize) {
        let now = self.moment();
        self.cells[cell as usize][number].answered = Some(now);
    }

    /// Cells from `first` on are read, which was asked at `asked`: each has one value in all of its bytes.
    pub(super) fn read(&mut self, first: u64, bytes: &[u8], asked: u64) -> Result<(), String> {
        let answered = self.moment();
        for (cell, bytes) in (first..).zip(bytes.chunks(CELL.0 as usize)) {
            let mut values = bytes.chunks(8).map(|eight| eight.try_into().map_or(u64::MAX, u64::from_le_bytes));
            let value = values.next().unwrap_or(FIRST);
            if let Some(other) = values.find(|other| *other != value) {
                return Err(format!("cell {cell} of {} is {value} and {other} at the same time", self.path));
            }
            self.cells[cell as usize].push(Operation { writes: false, value, asked, answered: Some(answered) });
        }
        Ok(())
    }

    /// Whether all of it could have been done one after the other.
    pub(super) fn check(&self) -> Result<(), String> {
        for (cell, history) in self.cells.iter().enumerate() {
            linearizable::check(history).map_err(|wrong| format!("cell {cell} of {}: {wrong}", self.path))?;
        }
        Ok(())
    }
}
