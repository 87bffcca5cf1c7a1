//! The doors to the world. Time, chance, devices and the network come in only through the traits here,
//! so the same code runs in real time on io_uring and in virtual time on a simulated disk.
//!
//! - [`device`]: blocks on a device; [`clock`]: time; [`random`]: chance; [`network`]: other processes; [`fabric`]:
//!   other machines.
//! - [`buffer`]: aligned memory that devices read and write without a copy.
//! - [`allowance`]: bytes that tasks share.
//! - [`watched`], [`mailbox`], [`pipe`], [`window`]: what threads share, and how they hand things over.
//! - [`executor`]: the one loop of a target, single-threaded, the same in reality and in simulation.
//! - [`real`]: the implementations for a real machine; [`conformance`]: what every device and every network is held to.

pub mod allowance;
pub mod buffer;
pub mod clock;
pub mod conformance;
pub mod device;
pub mod executor;
pub mod fabric;
pub mod mailbox;
pub mod network;
pub mod pipe;
pub mod race;
pub mod random;
pub mod real;
pub mod together;
pub mod watched;
pub mod window;

pub use buffer::{Buffer, Slab};
pub use clock::Clock;
pub use device::{Device, DeviceFuture, Geometry, PlainZones};
pub use executor::{Executor, Spawner, Task, yield_now};
pub use fabric::NetworkEnv;
pub use network::Network;
pub use random::Random;

use std::rc::Rc;

/// Everything that a target may touch of the world.
#[derive(Clone)]
pub struct Env {
    /// The one device of the target.
    pub device: Rc<dyn Device>,
    /// Time.
    pub clock: Rc<dyn Clock>,
    /// Chance.
    pub random: Rc<dyn Random>,
    /// Starts tasks on the target's loop.
    pub spawner: Spawner,
}
