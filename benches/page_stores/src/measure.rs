//! One load on one store that is new: how long it took, what it cost, what it wrote.

use crate::Options;
#[cfg(feature = "rocksdb")]
use crate::stores::rocksdb::Rocks;
use crate::stores::{Buffered, Engine, fjall::Fjall, redb::Redb};
use clap::ValueEnum;
use forebay_btree::PageStore;
use forebay_env::real::{self, OpenMode, clock, file, process};
use forebay_env::{Buffer, Env};
use forebay_model::heap::HeapSettings;
use forebay_model::{Bytes, Error, Profile, Result};
use forebay_sim::heap::load::{Counting, Running, Tell, Work};
use forebay_sim::world::World;
use forebay_target::Target;
use forebay_target::heap::HeapOptions;
use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// A store of pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Store {
    /// Forebay's heap
    Heap,
    /// redb
    Redb,
    /// fjall
    Fjall,
    /// RocksDB
    #[cfg(feature = "rocksdb")]
    Rocksdb,
}

impl Store {
    /// All that there are.
    pub fn all() -> Vec<Store> {
        Store::value_variants().to_vec()
    }

    /// Its name.
    pub fn name(self) -> String {
        self.to_string()
    }
}

impl fmt::Display for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Store::Heap => "heap",
            Store::Redb => "redb",
            Store::Fjall => "fjall",
            #[cfg(feature = "rocksdb")]
            Store::Rocksdb => "rocksdb",
        })
    }
}

/// What came of one.
#[derive(Debug, Clone, Copy)]
pub struct Figures {
    /// Pages put, and their bytes.
    pub puts: u64,
    /// See [`Figures::puts`].
    pub put_bytes: Bytes,
    /// Until the last commit was durable.
    pub span: Duration,
    /// Of the process.
    pub cpu: Duration,
    /// What the process wrote to files, meanwhile.
    pub written: Bytes,
    /// What the store takes on the disk in the end.
    pub store: Bytes,
}

impl Figures {
    /// Puts a second.
    pub fn puts_per_second(&self) -> f64 {
        self.puts as f64 / self.span.as_secs_f64().max(f64::MIN_POSITIVE)
    }

    /// Microseconds of CPU for a put.
    pub fn cpu_per_put(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.puts.max(1) as f64
    }

    /// Bytes written for each that was put.
    pub fn amplification(&self) -> f64 {
        self.written.0 as f64 / self.put_bytes.0.max(1) as f64
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} puts/s, {:.2} us of CPU each, {}", self.puts_per_second(), self.cpu_per_put(), self.store)
    }
}

/// Measures in an empty directory.
pub fn measure(options: &Options, store: Store, dir: &Path) -> Result<Figures> {
    // Half of it waits, as much as the engine keeps of what was read or is sorted: together what it may have.
    let (cache, waits) = (options.cache.0 as usize / 2, options.cache.0 as usize / 2);
    match store {
        Store::Heap => heap(options, dir),
        Store::Redb => engine(options, dir, Redb::create(dir, cache)?, waits),
        Store::Fjall => engine(options, dir, Fjall::create(dir, cache)?, waits),
        #[cfg(feature = "rocksdb")]
        Store::Rocksdb => engine(options, dir, Rocks::create(dir, cache)?, waits),
    }
}

fn engine<E: Engine>(options: &Options, dir: &Path, engine: E, waits: usize) -> Result<Figures> {
    let store = Buffered::new(engine, waits);
    at_once(under_load(options.work(), options.seed, store, || taken(dir)))
}

/// A target on a file whose blocks are written once before, as those of a device are.
fn heap(options: &Options, dir: &Path) -> Result<Figures> {
    let path = dir.join("target");
    drop(real::create_file(&path, options.size)?);
    let device = real::open(&path, OpenMode::Exclusive)?;
    let (work, seed) = (options.work(), options.seed);
    // All the memory there is, in buffers of 1 MiB, but for those of records that were read lately.
    let read_buffers = HeapOptions::default().read_buffers;
    let buffers = ((options.cache.0 >> 20) as usize).saturating_sub(read_buffers);
    real::run(real::Options { device }, move |env| async move {
        write_once(&env).await?;
        Target::format(env.clone(), Profile::guess(env.device.geometry().size, false)).await?;
        let target = Target::open(env).await?;
        let options = HeapOptions { buffers, read_buffers, ..HeapOptions::default() };
        let heap = target.create_heap("/pages", HeapSettings::default(), options).await?;
        under_load(work, seed, heap.clone(), || Ok(heap.status().used)).await
    })?
}

async fn write_once(env: &Env) -> Result<()> {
    let size = env.device.geometry().size;
    let mut buffer = Buffer::alone(Bytes::mib(4))?;
    let mut at = Bytes::ZERO;
    while at + Bytes::mib(4) <= size {
        let (back, result) = env.device.write(at, buffer).await;
        result?;
        buffer = back;
        at += Bytes::mib(4);
    }
    env.device.flush().await
}

async fn under_load<S: PageStore + Clone>(
    work: Work,
    seed: u64,
    store: S,
    taken: impl Fn() -> Result<Bytes>,
) -> Result<Figures> {
    let store = Counting::new(store);
    let mut running = Running::prepare(&work, store.clone(), World::new(seed).random()).await?;
    store.reset();
    let tell: Tell = Rc::new(|_, _| ());
    let (began, cpu, wrote) = (clock::now(), process::cpu_time(), written()?);
    running.run(&tell).await?;
    let (span, cpu) = (clock::now().since(began), process::cpu_time().saturating_sub(cpu));
    let (given, written) = (store.given(), written()?.saturating_sub(wrote));
    let store = taken()?;
    running.verify().await?;
    Ok(Figures { puts: given.puts, put_bytes: given.put_bytes, span, cpu, written, store })
}

/// What this process has written to files so far, as the kernel counts it.
fn written() -> Result<Bytes> {
    let io = file::read_text("/proc/self/io")?;
    let line = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
    let bytes = line.and_then(|bytes| bytes.parse().ok());
    bytes.map(Bytes).ok_or_else(|| Error::usage("/proc/self/io does not say what was written"))
}

/// What the files in a directory take.
fn taken(dir: &Path) -> Result<Bytes> {
    let trouble = |error: std::io::Error| Error::usage(format!("{} cannot be looked over: {error}", dir.display()));
    let mut sum = 0;
    for entry in std::fs::read_dir(dir).map_err(trouble)? {
        let entry = entry.map_err(trouble)?;
        // What is taken away meanwhile takes nothing.
        let Ok(metadata) = entry.metadata() else { continue };
        sum += if metadata.is_dir() { taken(&entry.path())?.0 } else { metadata.blocks() * 512 };
    }
    Ok(Bytes(sum))
}

/// The end of a future that waits for nothing but threads.
fn at_once<F: Future>(future: F) -> F::Output {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("engines block the thread that calls them"),
    }
}
