//! What a network is made of: what its machines' kernels do, and the link of each to the switch.

use forebay_model::{Bytes, Rate};
use std::time::Duration;

/// What holds for the switch and for the kernels of all machines.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct NetworkSpec {
    /// The most data in one segment. Larger ones make a run cheaper and its drops coarser.
    pub segment: Bytes,
    /// What the switch keeps for one link before it drops what comes; `None` is without limit.
    pub port_buffer: Option<Bytes>,
    /// What a connection takes from a writer before it is acknowledged.
    pub send_buffer: Bytes,
    /// What a connection takes for a reader: the window that it offers.
    pub receive_buffer: Bytes,
    /// The shortest time after which what was not acknowledged is sent again.
    pub shortest_timeout: Duration,
    /// How long an acknowledgement waits for something to go with.
    pub ack_delay: Duration,
    /// How long connecting may take.
    pub connect_limit: Duration,
    /// How long a connection is silent before its kernel asks whether the peer is there.
    pub silence: Duration,
    /// How long what was sent may go unanswered, and what was written without room at the other side, before the connection
    /// ends with an error.
    pub patience: Duration,
}

impl Default for NetworkSpec {
    /// Ethernet frames of 1500 bytes, 256 KiB wherever something is kept, and the times of Linux and of the real network
    /// here.
    fn default() -> NetworkSpec {
        NetworkSpec {
            segment: Bytes(1448),
            port_buffer: Some(Bytes::kib(256)),
            send_buffer: Bytes::kib(256),
            receive_buffer: Bytes::kib(256),
            shortest_timeout: Duration::from_millis(200),
            ack_delay: Duration::from_millis(40),
            connect_limit: Duration::from_secs(5),
            silence: Duration::from_secs(10),
            patience: Duration::from_secs(30),
        }
    }
}

impl NetworkSpec {
    /// The default with frames of 9000 bytes, for runs of many machines.
    pub fn jumbo() -> NetworkSpec {
        NetworkSpec { segment: Bytes(8948), ..NetworkSpec::default() }
    }

    /// Bytes of data a second that pass a link.
    pub fn passes(&self, link: Rate) -> f64 {
        link.0 as f64 * self.segment.0 as f64 / (self.segment.0 + OVERHEAD) as f64
    }

    pub(super) fn check(&self) {
        let positive = [self.segment, self.send_buffer, self.receive_buffer].iter().all(|size| *size > Bytes::ZERO);
        assert!(positive, "a network without room for data: {self:?}");
        assert!(self.segment <= Bytes::mib(1), "segments of {}", self.segment);
        assert!(self.port_buffer.is_none_or(|room| room.0 >= self.segment.0 + OVERHEAD), "a port holds no segment");
        assert!(!self.shortest_timeout.is_zero(), "time-outs of no time");
    }
}

/// What a segment takes on the wire beside its data: preamble, Ethernet, gap, IP, and TCP with timestamps.
pub(super) const OVERHEAD: u64 = 90;

/// The link of one machine to the switch, the same in both directions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkSpec {
    /// What passes in each direction.
    pub rate: Rate,
    /// How long a bit takes from one end to the other.
    pub latency: Duration,
    /// The share of segments that are lost on it.
    pub loss: f64,
    /// The share of segments that are delayed on it, so that later ones may overtake them.
    pub delayed: f64,
    /// How long those are delayed at most.
    pub delay: Duration,
}

impl LinkSpec {
    /// A gigabit a second and 20 us, without faults.
    pub const fn gigabit() -> LinkSpec {
        LinkSpec {
            rate: Rate(125_000_000),
            latency: Duration::from_micros(20),
            loss: 0.0,
            delayed: 0.0,
            delay: Duration::ZERO,
        }
    }

    /// The same with `rate`.
    pub const fn with_rate(self, rate: Rate) -> LinkSpec {
        LinkSpec { rate, ..self }
    }

    /// The same with `latency`.
    pub const fn with_latency(self, latency: Duration) -> LinkSpec {
        LinkSpec { latency, ..self }
    }

    /// The same, losing a share of `loss`.
    pub const fn with_loss(self, loss: f64) -> LinkSpec {
        LinkSpec { loss, ..self }
    }

    /// The same, delaying a share of `delayed` by `delay` at most.
    pub const fn with_delays(self, delayed: f64, delay: Duration) -> LinkSpec {
        LinkSpec { delayed, delay, ..self }
    }

    pub(super) fn check(&self) {
        let shares = [self.loss, self.delayed].iter().all(|share| (0.0..=1.0).contains(share));
        assert!(self.rate > Rate(0) && shares, "no link is like that: {self:?}");
    }
}
