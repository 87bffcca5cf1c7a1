//! The best ring that the kernel gives: how it hands us completions, and how deep it is.

use io_uring::IoUring;
use std::io;
use std::time::Duration;

/// Requests that the kernel has at once; more wait in order. The lesser ones are for a tight limit of locked memory,
/// against which a ring counts.
pub(super) const DEPTHS: [u32; 3] = [256, 64, 16];

/// How long a ring waits for room under that limit: the kernel takes earlier rings apart at its leisure, and they
/// count until then.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// How the kernel gives us completions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    /// Only when we ask for them: the cheapest, from Linux 6.1.
    Deferred,
    /// Without interrupting us, from Linux 5.19.
    Cooperative,
    /// As they come.
    Plain,
}

/// The deepest ring that there is memory for.
pub(super) fn deepest_ring() -> io::Result<IoUring> {
    let mut last = best_ring(DEPTHS[0]);
    for depth in &DEPTHS[1..] {
        if !last.as_ref().is_err_and(out_of_memory) {
            break;
        }
        last = best_ring(*depth);
    }
    last
}

/// The ring with the best service that the kernel gives.
pub(super) fn best_ring(depth: u32) -> io::Result<IoUring> {
    let better = [Service::Deferred, Service::Cooperative].into_iter().find_map(|service| service.ring(depth).ok());
    better.map_or_else(|| Service::Plain.ring(depth), Ok)
}

pub(super) fn out_of_memory(error: &io::Error) -> bool {
    error.raw_os_error() == Some(libc::ENOMEM)
}

impl Service {
    pub(super) fn ring(self, depth: u32) -> io::Result<IoUring> {
        let mut builder = IoUring::builder();
        // The completion queue is twice as long as the requests are many, so it does not overflow.
        builder.dontfork().setup_clamp();
        match self {
            Service::Deferred => builder.setup_single_issuer().setup_defer_taskrun().setup_taskrun_flag(),
            Service::Cooperative => builder.setup_coop_taskrun().setup_taskrun_flag(),
            Service::Plain => &mut builder,
        };
        builder.build(depth)
    }
}
