//! The disks of a run, simulated or real, and all that users and systems may touch beside them. Nothing above asks which
//! of both they are, but for what is written: see [`content`](super::content).

use crate::disk::SimDisk;
use crate::fresh;
use crate::world::World;
use forebay_env::{Env, Random};
use forebay_target::profile::MeasureOptions;
use std::rc::Rc;
use std::time::Duration;

/// Disks that are equal, all on one loop and with one clock.
pub struct Disks {
    pub(super) each: Vec<Env>,
    /// Where small writes go.
    pub(super) random: Rc<dyn Random>,
    /// Whether what was written is durable only after a flush.
    pub(super) cached: bool,
    /// Real ones: what was never written may cost nothing to read, and zeros nothing to write.
    pub(super) real: bool,
    /// How long each is measured before it is formatted.
    pub(super) measuring: Duration,
}

impl Disks {
    /// Of `world`.
    pub(super) fn simulated(world: &World, disks: &[SimDisk]) -> Disks {
        Disks {
            each: disks.iter().map(|disk| world.env(disk.clone())).collect(),
            random: world.random(),
            cached: disks.iter().any(|disk| disk.spec().write_cache.is_some()),
            real: false,
            measuring: fresh::MINUTE,
        }
    }

    /// Real ones, which may all be overwritten; small writes go to where those of the simulation with `seed` go.
    pub fn real(each: Vec<Env>, seed: u64) -> Disks {
        let usual = |env: &Env| {
            let geometry = env.device.geometry();
            MeasureOptions::for_extent(geometry.size, geometry.rotates, true).budget
        };
        Disks {
            random: World::new(seed).random(),
            measuring: each.iter().map(usual).max().unwrap_or_default(),
            // Whether there is a cache only the kernel knows, and where there is none a flush costs it nothing.
            cached: true,
            real: true,
            each,
        }
    }
}
