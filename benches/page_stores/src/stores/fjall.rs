//! fjall: a keyspace of pages; what changes goes into a batch, and a commit is durable by `SyncAll`. Nothing is
//! compressed, as in a heap.

use super::{Changes, Engine, failed};
use fjall::config::CompressionPolicy;
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use forebay_model::Result;
use std::fmt::Display;
use std::path::Path;

const ROOT: [u8; 1] = [0];

/// A database in a directory.
pub struct Fjall {
    database: Database,
    pages: Keyspace,
}

fn told<E: Display>(error: E) -> forebay_model::Error {
    failed("fjall")(&error)
}

impl Fjall {
    /// A new one in this directory, with so much memory: half for tables in memory, half for blocks that were read.
    pub fn create(dir: &Path, cache: usize) -> Result<Fjall> {
        let half = cache as u64 / 2;
        let builder =
            Database::builder(dir.join("pages.fjall")).cache_size(half).journal_compression(CompressionType::None);
        let database = builder.open().map_err(told)?;
        let options = || {
            KeyspaceCreateOptions::default()
                .max_memtable_size(half / 2)
                .data_block_compression_policy(CompressionPolicy::disabled())
                .expect_point_read_hits(true)
        };
        let pages = database.keyspace("pages", options).map_err(told)?;
        Ok(Fjall { database, pages })
    }

    fn write(&self, changes: &Changes, root: Option<Option<u64>>) -> Result<()> {
        let mut batch = self.database.batch();
        for (key, change) in changes {
            match change {
                Some(value) => batch.insert(&self.pages, key.to_be_bytes(), &value[..]),
                None => batch.remove(&self.pages, key.to_be_bytes()),
            }
        }
        match root {
            Some(Some(root)) => batch.insert(&self.pages, ROOT, root.to_be_bytes()),
            Some(None) => batch.remove(&self.pages, ROOT),
            None => {}
        }
        batch.commit().map_err(told)
    }
}

impl Engine for Fjall {
    fn get(&self, key: u64) -> Result<Option<Vec<u8>>> {
        Ok(self.pages.get(key.to_be_bytes()).map_err(told)?.map(|value| value.to_vec()))
    }

    fn apply(&self, changes: &Changes) -> Result<()> {
        self.write(changes, None)
    }

    fn commit(&self, changes: &Changes, root: Option<u64>) -> Result<()> {
        self.write(changes, Some(root))?;
        self.database.persist(PersistMode::SyncAll).map_err(told)
    }
}
