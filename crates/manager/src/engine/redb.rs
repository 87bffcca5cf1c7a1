//! An engine in one file: redb.
//!
//! Transactions that are committed together become one transaction of redb, which is durable when it returns: what they
//! cost together is one wait for the device. Nothing is ever committed without waiting for the device.
//!
//! Always: what is opened is as redb wrote it, all pages of it, or is not opened; and it is what the device has, not what the kernel
//! was to write there and could not.

use super::{Engine, Outcome, Pair, Snapshot, Transaction};
use forebay_env::real::file;
use forebay_model::{Bytes, Error, Kind, Result};
use redb::{Database, ReadOnlyTable, ReadableDatabase, ReadableTable, StorageBackend, StorageError, TableDefinition};
use std::ops::Bound;
use std::path::Path;

/// The one table: keys of all kinds, told apart by their first byte.
const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("metadata");

/// Keys and values in a file of redb.
pub struct Redb {
    database: Database,
}

impl Redb {
    /// Opens the file, or makes it. Of what was read, about `cache` is kept in memory.
    pub fn open(path: &Path, cache: Bytes) -> Result<Redb> {
        if file::exists(path) {
            // After a wait for the device that failed, the kernel shows pages that were never written and takes them for written: all of
            // them would look whole, and what is committed on top of them would be gone with the power.
            file::forget_cached(path)?;
        }
        let database = builder(cache).create(path).map_err(|error| failed(error.into()).of(path.display()))?;
        Redb::with(database)
    }

    /// Opens what a backend holds, or makes it.
    pub fn on(backend: impl StorageBackend, cache: Bytes) -> Result<Redb> {
        let database = builder(cache).create_with_backend(backend).map_err(|error| failed(error.into()))?;
        Redb::with(database)
    }

    fn with(database: Database) -> Result<Redb> {
        let engine = Redb { database };
        // The table is there for every snapshot, also the first.
        let transaction = engine.database.begin_write().map_err(|error| failed(error.into()))?;
        transaction.open_table(TABLE).map_err(|error| failed(error.into()))?;
        transaction.commit().map_err(|error| failed(error.into()))?;
        Ok(engine)
    }
}

fn builder(cache: Bytes) -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(usize::try_from(cache.0).unwrap_or(usize::MAX));
    // A key that rotted is under none any more, and what it names would only be missing: no checksum of a value tells of that.
    builder.set_check_integrity_on_open(true);
    builder
}

impl Engine for Redb {
    fn snapshot(&self) -> Result<Box<dyn Snapshot>> {
        let transaction = self.database.begin_read().map_err(|error| failed(error.into()))?;
        let table = transaction.open_table(TABLE).map_err(|error| failed(error.into()))?;
        Ok(Box::new(At(table)))
    }

    fn commit(&mut self, transactions: &[Transaction]) -> Result<Vec<Outcome>> {
        transactions.iter().try_for_each(Transaction::check)?;
        let group = self.database.begin_write().map_err(|error| failed(error.into()))?;
        let mut outcomes = Vec::with_capacity(transactions.len());
        {
            let mut table = group.open_table(TABLE).map_err(|error| failed(error.into()))?;
            for transaction in transactions {
                outcomes.push(carry_out(&mut table, transaction).map_err(|error| failed(error.into()))?);
            }
        }
        group.commit().map_err(|error| failed(error.into()))?;
        Ok(outcomes)
    }
}

fn carry_out(
    table: &mut redb::Table<'_, &'static [u8], &'static [u8]>,
    transaction: &Transaction,
) -> std::result::Result<Outcome, StorageError> {
    for condition in &transaction.conditions {
        let there = table.get(condition.key())?;
        if !condition.holds(there.as_ref().map(|there| there.value())) {
            return Ok(Outcome::Refused);
        }
    }
    for write in &transaction.writes {
        match &write.value {
            Some(value) => drop(table.insert(write.key.as_slice(), value.as_slice())?),
            None => drop(table.remove(write.key.as_slice())?),
        }
    }
    Ok(Outcome::Committed)
}

struct At(ReadOnlyTable<&'static [u8], &'static [u8]>);

impl Snapshot for At {
    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let there = self.0.get(key).map_err(|error| failed(error.into()))?;
        Ok(there.map(|there| there.value().to_vec()))
    }

    fn scan(&self, from: &[u8], to: &[u8], most: usize) -> Result<Vec<Pair>> {
        if from >= to {
            return Ok(Vec::new());
        }
        let range = (Bound::Included(from), Bound::Excluded(to));
        let found = self.0.range::<&[u8]>(range).map_err(|error| failed(error.into()))?;
        let pairs =
            found.take(most).map(|pair| pair.map(|(key, value)| (key.value().to_vec(), value.value().to_vec())));
        pairs.collect::<std::result::Result<_, _>>().map_err(|error| failed(error.into()))
    }
}

/// A backup is older than what targets have, and would be refused for that.
const MADE_ANEW: &str = "have it made anew of the targets with `forebay manager recover --over`";

/// What redb says, by what the caller should do.
fn failed(error: redb::Error) -> Error {
    let (kind, remedy) = match &error {
        redb::Error::DatabaseAlreadyOpen => (Kind::Busy, "another process has it; end that one first"),
        redb::Error::UpgradeRequired(_) => (Kind::Version, "use the release that wrote it"),
        redb::Error::Corrupted(_) => (Kind::Damaged, MADE_ANEW),
        redb::Error::Io(error) if error.kind() == std::io::ErrorKind::InvalidData => (Kind::Damaged, MADE_ANEW),
        redb::Error::Io(error) if error.kind() == std::io::ErrorKind::StorageFull => {
            (Kind::Full, "make room on the file system, and open it again")
        }
        redb::Error::Io(error) if error.kind() == std::io::ErrorKind::NotFound => (Kind::Missing, "make its directory"),
        _ => (Kind::Device, "nothing more is written to it until it is opened again"),
    };
    Error::new(kind, format!("the metadata engine failed: {error}; {remedy}"))
}

#[cfg(test)]
mod tests;
