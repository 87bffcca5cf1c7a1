//! The pcapng format: sections of typed blocks, each with its length before and behind it.
//!
//! Read: section headers, interface descriptions, packets of all three kinds, interface statistics; other blocks are
//! passed over whatever their size. Written: one section, one interface, nanoseconds.
//!
//! Absences of data: a packet may say how many were dropped before it (`epb_dropcount`), an interface how many in all.
//! The writer adds a comment with cause and times to each, which its reader understands.

mod options;
mod reader;
mod writer;

pub use reader::Reader;
pub use writer::Writer;

/// How every pcapng capture begins, in either byte order.
pub(crate) const MAGIC: [u8; 4] = [0x0a, 0x0d, 0x0d, 0x0a];

mod block {
    //! Types of blocks, as the format numbers them.
    pub(super) const SECTION: u32 = 0x0a0d_0d0a;
    pub(super) const INTERFACE: u32 = 1;
    pub(super) const OBSOLETE_PACKET: u32 = 2;
    pub(super) const SIMPLE_PACKET: u32 = 3;
    pub(super) const STATISTICS: u32 = 5;
    pub(super) const PACKET: u32 = 6;
}

mod option {
    //! Codes of options, as the format numbers them.
    pub(super) const END: u16 = 0;
    pub(super) const COMMENT: u16 = 1;
    pub(super) const APPLICATION: u16 = 4;
    pub(super) const NAME: u16 = 2;
    pub(super) const RESOLUTION: u16 = 9;
    pub(super) const OFFSET: u16 = 14;
    pub(super) const DROPS: u16 = 4;
    pub(super) const RECEIVED: u16 = 4;
    pub(super) const INTERFACE_DROPS: u16 = 5;
    pub(super) const SYSTEM_DROPS: u16 = 7;
}

const BYTE_ORDER: u32 = 0x1a2b_3c4d;

#[cfg(test)]
mod tests;
