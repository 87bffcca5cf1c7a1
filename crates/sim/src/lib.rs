//! The simulated world: virtual time, disks that behave like disks, faults, and runs that are a pure function of
//! their seed.
//!
//! ```
//! use forebay_env::{Buffer, Device};
//! use forebay_model::Bytes;
//! use forebay_sim::{World, disk::presets};
//!
//! let world = World::new(7);
//! let disk = world.disk(presets::wd15ears().scaled(1000));
//! world.run(async {
//!     let buffer = Buffer::alone(Bytes::mib(1)).expect("memory for one buffer");
//!     let (_buffer, written) = disk.write(Bytes(0), buffer).await;
//!     written.expect("a healthy disk takes a write");
//! });
//! ```
//!
//! - [`world`]: runs futures in virtual time, stops them at a power cut or a kill, and goes on afterwards.
//! - [`cluster`]: whole clusters: a manager, nodes and clients.
//! - [`disk`]: rotating disks and SSDs with their content, timing, caches and faults.
//! - [`network`]: machines, links and a switch between them, connections that behave like TCP, and faults.
//! - [`seeds`]: many seeds for one test, and how to replay one.

pub mod anatomy;
pub mod appender;
pub mod audit;
pub mod cluster;
pub mod counted;
pub mod damage;
pub mod disk;
pub mod feeder;
mod fresh;
pub mod heap;
pub mod life;
pub mod limit;
pub mod logs;
pub mod many;
pub mod network;
pub mod objects;
pub mod promise;
pub mod reader;
pub mod rebuilding;
pub mod recorded;
pub mod seeds;
pub mod stage;
pub mod streams;
pub mod striped;
mod timeline;
pub mod world;

pub use disk::{DiskSpec, SimDisk};
pub use network::{LinkSpec, NetworkSpec};
pub use world::{Crashed, World};
