//! How a target is, all of it at one moment, for those who watch the process that serves it.

use super::{Service, asks};
use forebay_model::ring::RingStatus;
use forebay_model::{Rate, Result, TargetId};
use forebay_target::schedule::Class;
pub use forebay_target::schedule::Moved;
use forebay_wire::command::TargetInfo;

/// How a target is.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetStatus {
    /// The target, as it says of itself.
    pub info: TargetInfo,
    /// What was read and written since it was opened, by the name of its class.
    pub moved: Vec<(&'static str, Moved)>,
    /// The most that could be promised to one more ring.
    pub headroom: Rate,
    /// Reads that found something damaged.
    pub damaged: u64,
    /// Blocks that were found so, and have been written again.
    pub mended: u64,
    /// Its rings.
    pub rings: Vec<RingStatus>,
}

/// A target, and how it is; or why it does not say.
pub type ToldOf = (TargetId, Result<TargetStatus>);

pub(super) fn status(service: &Service) -> TargetStatus {
    let disk = service.target.disk();
    let objects = service.target.objects().counters();
    TargetStatus {
        info: asks::info(service),
        moved: Class::ALL.into_iter().map(|class| (class.name(), disk.moved(class))).collect(),
        headroom: asks::headroom(service),
        damaged: objects.damaged,
        mended: objects.mended,
        rings: service.target.status(),
    }
}
