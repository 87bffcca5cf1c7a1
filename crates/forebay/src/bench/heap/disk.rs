//! Where a load of small records runs: on a simulated disk, or on a file in a directory, which is removed afterwards.

use super::HeapArgs;
use crate::bench::{figures, real::raw};
use forebay_env::Env;
use forebay_env::real::{self, OpenMode, Options, process};
use forebay_model::{Bytes, Profile, Result};
use forebay_sim::counted::Counted;
use forebay_sim::disk::{DiskSpec, presets};
use forebay_sim::heap::load::{Tell, Work};
use forebay_sim::heap::measure::{self, Machine, Outcome, Setup};
use forebay_sim::heap::scan;
use forebay_sim::world::World;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// The disk that is measured.
pub enum Disk {
    /// In virtual time.
    Simulated(Box<DiskSpec>, u64),
    /// A directory on a real one, the bytes of the file, and the seed of the load.
    Real(String, Bytes, u64),
}

impl Disk {
    /// The one that is asked for.
    pub fn of(args: &HeapArgs) -> Result<Disk> {
        Ok(match presets::parse(&args.disk) {
            Some(spec) => Disk::Simulated(Box::new(spec?), args.seed),
            None => Disk::Real(args.disk.clone(), args.size, args.seed),
        })
    }

    /// Whether what it costs is known.
    pub fn is_real(&self) -> bool {
        matches!(self, Disk::Real(..))
    }

    /// Runs a load.
    pub fn load(&self, setup: Setup, work: Work, tell: Tell) -> Result<Outcome> {
        match self {
            Disk::Simulated(spec, seed) => measure::simulated(*seed, spec.as_ref().clone(), setup, work, tell),
            Disk::Real(dir, size, seed) => on_file(dir, *size, *seed, tell, |env, machine| async move {
                measure::on_device(env, machine, setup, work).await
            }),
        }
    }

    /// Reads all, before and after it was replaced.
    pub fn scan(&self, setup: Setup, load: scan::Load, tell: Tell) -> Result<scan::Outcome> {
        match self {
            Disk::Simulated(spec, seed) => scan::simulated(*seed, spec.as_ref().clone(), setup, load, tell),
            Disk::Real(dir, size, seed) => on_file(dir, *size, *seed, tell, |env, machine| async move {
                scan::on_device(env, machine, setup, load).await
            }),
        }
    }
}

/// On a file whose blocks are written once before anything is timed: first writes to unwritten extents cost more.
fn on_file<T: 'static, F: Future<Output = Result<T>> + 'static>(
    dir: &str,
    size: Bytes,
    seed: u64,
    tell: Tell,
    measure: impl FnOnce(Env, Machine) -> F,
) -> Result<T> {
    figures::in_directory(dir, |dir: &Path| {
        let path = dir.join("target");
        drop(real::create_file(&path, size)?);
        raw::writes(&path, size, Duration::from_secs(120))?;
        let device = real::open(&path, OpenMode::Exclusive)?;
        real::run(Options { device }, |env| {
            let counted = Rc::new(Counted::new(env.device.clone()));
            let machine = Machine {
                // Virtual disks often say that they rotate when nothing does.
                profile: Profile::guess(env.device.geometry().size, false),
                counters: {
                    let counted = counted.clone();
                    Rc::new(move || counted.counters())
                },
                // The load is that of the simulated disk.
                random: World::new(seed).random(),
                cpu: process::cpu_time,
                tell,
            };
            measure(Env { device: counted, ..env }, machine)
        })?
    })
}
