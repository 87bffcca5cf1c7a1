//! What travels: a header, and how many bytes of data. The bytes themselves stay with the connection.

use super::spec::OVERHEAD;

/// Names one end of a connection; the place of one that has ended gets another generation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct SocketId {
    pub(super) index: u32,
    pub(super) generation: u32,
}

impl SocketId {
    /// Names none.
    pub(super) const NOBODY: SocketId = SocketId { index: u32::MAX, generation: 0 };
}

/// What a segment is for, beside its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// Asks for a connection to a port.
    Open(u16),
    /// Answers that.
    Welcome,
    /// Data, an acknowledgement, or both.
    Data,
    /// The same, and nothing comes after it.
    Final,
    /// Nothing but the wish for an answer.
    Probe,
    /// There is no such connection any more.
    Reset,
}

/// One segment.
#[derive(Debug, Clone, Copy)]
pub(super) struct Segment {
    pub(super) from_host: u32,
    pub(super) to_host: u32,
    pub(super) from: SocketId,
    pub(super) to: SocketId,
    pub(super) purpose: Purpose,
    pub(super) length: u32,
    /// The place of the first byte in its direction of the connection.
    pub(super) sequence: u64,
    /// What the sender expects next.
    pub(super) ack: u64,
    /// The end of what the sender has room for.
    pub(super) edge: u64,
    /// When it was sent.
    pub(super) sent: u64,
    /// When what it acknowledges was sent.
    pub(super) echo: u64,
}

impl Segment {
    /// What it takes on a wire, in bytes.
    pub(super) fn size(&self) -> u64 {
        u64::from(self.length) + OVERHEAD
    }

    /// Whether nothing comes after it.
    pub(super) fn is_final(&self) -> bool {
        self.purpose == Purpose::Final
    }
}
