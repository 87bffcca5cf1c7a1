//! redb: one write transaction for each commit, pages in a table by number. Reading goes on in one transaction until the
//! next commit.

use super::{Changes, Engine, failed};
use forebay_model::Result;
use redb::{Builder, Database, ReadOnlyTable, ReadableDatabase, ReadableTable, TableDefinition, WriteTransaction};
use std::cell::RefCell;
use std::fmt::Display;
use std::path::Path;

const PAGES: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("pages");
const ROOT: TableDefinition<'_, u8, u64> = TableDefinition::new("root");

/// A database in one file.
pub struct Redb {
    database: Database,
    writing: RefCell<Option<WriteTransaction>>,
    reading: RefCell<Option<ReadOnlyTable<u64, &'static [u8]>>>,
}

fn told<E: Display>(error: E) -> forebay_model::Error {
    failed("redb")(&error)
}

impl Redb {
    /// A new one in this directory, with so much memory for pages.
    pub fn create(dir: &Path, cache: usize) -> Result<Redb> {
        let database = Builder::new().set_cache_size(cache).create(dir.join("pages.redb")).map_err(told)?;
        Ok(Redb { database, writing: RefCell::default(), reading: RefCell::default() })
    }

    fn write(&self, changes: &Changes) -> Result<WriteTransaction> {
        // A transaction that reads keeps pages that could be used again.
        self.reading.replace(None);
        let transaction = match self.writing.take() {
            Some(transaction) => transaction,
            None => self.database.begin_write().map_err(told)?,
        };
        {
            let mut pages = transaction.open_table(PAGES).map_err(told)?;
            for (key, change) in changes {
                match change {
                    Some(value) => drop(pages.insert(key, &value[..]).map_err(told)?),
                    None => drop(pages.remove(key).map_err(told)?),
                }
            }
        }
        Ok(transaction)
    }
}

impl Engine for Redb {
    fn get(&self, key: u64) -> Result<Option<Vec<u8>>> {
        if let Some(transaction) = &*self.writing.borrow() {
            let pages = transaction.open_table(PAGES).map_err(told)?;
            return Ok(pages.get(key).map_err(told)?.map(|value| value.value().to_vec()));
        }
        let mut reading = self.reading.borrow_mut();
        if reading.is_none() {
            let transaction = self.database.begin_read().map_err(told)?;
            *reading = Some(transaction.open_table(PAGES).map_err(told)?);
        }
        let pages = reading.as_ref().expect("it was opened just now");
        Ok(pages.get(key).map_err(told)?.map(|value| value.value().to_vec()))
    }

    fn apply(&self, changes: &Changes) -> Result<()> {
        let transaction = self.write(changes)?;
        self.writing.replace(Some(transaction));
        Ok(())
    }

    fn commit(&self, changes: &Changes, root: Option<u64>) -> Result<()> {
        let transaction = self.write(changes)?;
        {
            let mut table = transaction.open_table(ROOT).map_err(told)?;
            match root {
                Some(root) => drop(table.insert(0, root).map_err(told)?),
                None => drop(table.remove(0).map_err(told)?),
            }
        }
        transaction.commit().map_err(told)
    }
}
