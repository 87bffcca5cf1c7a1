//! RocksDB: pages by number in one column family; what changes goes into a batch, and that of a commit is synced. Nothing
//! is compressed, as in a heap.

use super::{Changes, Engine, failed};
use forebay_model::Result;
use rocksdb::{BlockBasedOptions, Cache, DB, Options, WriteBatch, WriteOptions};
use std::path::Path;

const ROOT: [u8; 1] = [0];

/// A database in a directory.
pub struct Rocks {
    database: DB,
}

fn told(error: rocksdb::Error) -> forebay_model::Error {
    failed("RocksDB")(&error)
}

impl Rocks {
    /// A new one in this directory, with so much memory: half for tables in memory, half for blocks that were read.
    pub fn create(dir: &Path, cache: usize) -> Result<Rocks> {
        let half = cache / 2;
        let mut blocks = BlockBasedOptions::default();
        blocks.set_block_cache(&Cache::new_lru_cache(half).map_err(told)?);
        blocks.set_bloom_filter(10.0, false);
        blocks.set_block_size(8 << 10);
        let mut options = Options::default();
        options.create_if_missing(true);
        options.set_block_based_table_factory(&blocks);
        options.set_write_buffer_size(half / 2);
        options.set_max_write_buffer_number(2);
        options.set_max_background_jobs(2);
        options.set_compression_type(rocksdb::DBCompressionType::None);
        Ok(Rocks { database: DB::open(&options, dir.join("pages.rocksdb")).map_err(told)? })
    }

    fn write(&self, changes: &Changes, root: Option<Option<u64>>) -> Result<()> {
        let mut batch = WriteBatch::default();
        for (key, change) in changes {
            match change {
                Some(value) => batch.put(key.to_be_bytes(), value),
                None => batch.delete(key.to_be_bytes()),
            }
        }
        match root {
            Some(Some(root)) => batch.put(ROOT, root.to_be_bytes()),
            Some(None) => batch.delete(ROOT),
            None => {}
        }
        let mut options = WriteOptions::default();
        options.set_sync(root.is_some());
        self.database.write_opt(batch, &options).map_err(told)
    }
}

impl Engine for Rocks {
    fn get(&self, key: u64) -> Result<Option<Vec<u8>>> {
        self.database.get(key.to_be_bytes()).map_err(told)
    }

    fn apply(&self, changes: &Changes) -> Result<()> {
        self.write(changes, None)
    }

    fn commit(&self, changes: &Changes, root: Option<u64>) -> Result<()> {
        self.write(changes, Some(root))
    }
}
