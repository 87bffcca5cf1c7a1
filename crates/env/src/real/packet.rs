//! Packets of a network interface, through a ring of memory shared with the kernel (AF_PACKET, TPACKET_V3).
//!
//! The kernel fills blocks with frames and hands each over when it is full or [`PacketOptions::retire`] old. A block
//! is ours until [`PacketBlock`] is dropped; while every block is ours, the kernel drops frames and counts them.

pub use super::interface::interfaces;

use super::interface::{bind, flags, index_of, limit, set};
use forebay_model::{Bytes, Error, Result, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use socket2::{Domain, Protocol, Socket, Type};
use std::ffi::CString;
use std::mem::{size_of, zeroed};
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// How an interface is listened to.
#[derive(Debug, Clone, Copy)]
pub struct PacketOptions {
    /// Also take frames that are meant for others.
    pub promiscuous: bool,
    /// The most that is taken of a frame; at least 1.
    pub snaplen: u32,
    /// Memory shared with the kernel: what a stall of ours may cost before frames are dropped.
    pub ring: Bytes,
    /// How long the kernel may wait for a block to fill.
    pub retire: Duration,
    /// Take the time from the network card where it gives one. Its clock must then be kept right by somebody.
    pub hardware_time: bool,
}

impl Default for PacketOptions {
    fn default() -> Self {
        PacketOptions {
            promiscuous: false,
            snaplen: 256 << 10,
            ring: Bytes::mib(64),
            retire: Duration::from_millis(10),
            hardware_time: false,
        }
    }
}

/// What came of waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waited {
    /// A block is there.
    Ready,
    /// Nothing came.
    Nothing,
    /// The interface went down or is gone. Blocks that are there can still be taken.
    Away,
}

/// What the kernel did since it was last asked.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct PacketStatistics {
    /// Frames dropped because every block was ours.
    pub dropped: u64,
    /// How often that came about.
    pub stalls: u64,
}

/// One frame.
#[derive(Debug, Clone, Copy)]
pub struct Frame<'a> {
    /// When the kernel (or the card) saw it.
    pub time: Timestamp,
    /// Its bytes as far as they were taken, without the VLAN tag that the kernel took out.
    pub data: &'a [u8],
    /// The VLAN tag that belongs behind the first 12 bytes: protocol and tag.
    pub vlan: Option<[u8; 4]>,
    /// How long it was, without that tag.
    pub original: u32,
}

/// The kernel's constants for blocks and frames, `linux/if_packet.h`.
mod layout {
    /// Bytes in a block. Frames larger than a block are cut.
    pub const BLOCK: usize = 1 << 20;
    pub const BLOCK_STATUS: usize = 8;
    pub const BLOCK_FRAMES: usize = 12;
    pub const BLOCK_FIRST: usize = 16;
    pub const BLOCK_FIRST_TIME: usize = 32;
    pub const BLOCK_LAST_TIME: usize = 40;
    pub const NEXT: usize = 0;
    pub const SECONDS: usize = 4;
    pub const NANOS: usize = 8;
    pub const CAPTURED: usize = 12;
    pub const LENGTH: usize = 16;
    pub const STATUS: usize = 20;
    pub const MAC: usize = 24;
    pub const VLAN_TAG: usize = 32;
    pub const VLAN_PROTOCOL: usize = 36;
    pub const HEADER: usize = 48;
}

/// The protocol of a VLAN tag where the kernel does not say.
const VLAN: u16 = 0x8100;

/// A listener on one interface.
pub struct PacketRing {
    socket: Socket,
    name: String,
    base: NonNull<u8>,
    blocks: usize,
    /// The block that the kernel hands over next.
    next: usize,
    kind: u16,
}

// SAFETY: the mapping belongs to this value alone, and every access goes through `&mut self` or a borrow of it.
unsafe impl Send for PacketRing {}

impl PacketRing {
    /// Listens to the interface called `name`. [`forebay_model::Kind::Missing`] if there is none,
    /// [`forebay_model::Kind::Busy`] if it is down.
    pub fn open(name: &str, options: &PacketOptions) -> Result<PacketRing> {
        let failed = |what: &str, e: std::io::Error| Error::device(format!("interface {name}: {what} failed: {e}"));
        let c_name = CString::new(name)
            .map_err(|_| Error::usage(format!("'{}' is no name of an interface", name.escape_default())))?;
        if options.snaplen == 0 {
            return Err(Error::usage(format!(
                "interface {name}: taking 0 bytes of each frame would record nothing; ask for 1 or more"
            )));
        }
        let index = index_of(&c_name);
        if index == 0 {
            return Err(Error::missing(format!(
                "there is no interface '{name}'; those there are: {}",
                interfaces().join(", ")
            )));
        }
        // Protocol 0: nothing comes in before the ring is there and the interface is chosen.
        let socket = Socket::new(Domain::PACKET, Type::RAW.cloexec(), Some(Protocol::from(0))).map_err(|e| {
            if e.kind() == std::io::ErrorKind::PermissionDenied {
                return Error::usage(format!(
                    "listening to interface {name} needs the capability CAP_NET_RAW: run as root, or allow it with \
                     'setcap cap_net_raw+ep' on the program"
                ));
            }
            failed("opening a packet socket", e)
        })?;
        let flags = flags(&socket, &c_name).map_err(|e| failed("asking for its state", e))?;
        if flags & libc::IFF_UP == 0 {
            return Err(Error::busy(format!("interface {name} is down; bring it up with 'ip link set {name} up'")));
        }
        if flags & libc::IFF_LOOPBACK != 0 {
            // A packet on loopback is sent and received: once is enough.
            set(&socket, libc::SOL_PACKET, libc::PACKET_IGNORE_OUTGOING, &1i32)
                .map_err(|e| failed("ignoring what is sent", e))?;
        }
        set(&socket, libc::SOL_PACKET, libc::PACKET_VERSION, &(libc::tpacket_versions::TPACKET_V3 as libc::c_int))
            .map_err(|e| failed("asking for TPACKET_V3", e))?;
        if options.hardware_time {
            set(
                &socket,
                libc::SOL_PACKET,
                libc::PACKET_TIMESTAMP,
                &(libc::SOF_TIMESTAMPING_RAW_HARDWARE as libc::c_int),
            )
            .map_err(|e| failed("asking for the card's time", e))?;
        }
        limit(&socket, options.snaplen).map_err(|e| failed("limiting the length of frames", e))?;
        let blocks = (options.ring.0 as usize / layout::BLOCK).max(2);
        let request = libc::tpacket_req3 {
            tp_block_size: layout::BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: 2048,
            tp_frame_nr: (blocks * layout::BLOCK / 2048) as u32,
            tp_retire_blk_tov: options.retire.as_millis().clamp(1, 1000) as u32,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        set(&socket, libc::SOL_PACKET, libc::PACKET_RX_RING, &request).map_err(|e| {
            Error::busy(format!(
                "interface {name}: the kernel has no {} for a ring of packets: {e}; ask for less",
                Bytes((blocks * layout::BLOCK) as u64)
            ))
        })?;
        // SAFETY: a fresh shared mapping of the ring that was just made, as long as it is.
        let base = unsafe {
            mmap(
                std::ptr::null_mut(),
                blocks * layout::BLOCK,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::SHARED,
                &socket,
                0,
            )
        }
        .map_err(|e| failed("mapping the ring", e.into()))?;
        let base = NonNull::new(base.cast::<u8>())
            .ok_or_else(|| Error::busy("the kernel mapped a ring of packets at address 0"))?;
        let mut ring = PacketRing { socket, name: name.to_string(), base, blocks, next: 0, kind: 0 };
        if options.promiscuous {
            // SAFETY: a plain structure for which all zeros is valid.
            let mut request: libc::packet_mreq = unsafe { zeroed() };
            request.mr_ifindex = index as i32;
            request.mr_type = libc::PACKET_MR_PROMISC as u16;
            set(&ring.socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &request)
                .map_err(|e| failed("promiscuous mode", e))?;
        }
        ring.kind = bind(&ring.socket, index).map_err(|e| failed("listening", e))?;
        Ok(ring)
    }

    /// The name of the interface.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What kind of interface it is: `ARPHRD_*` of the kernel.
    pub fn kind(&self) -> u16 {
        self.kind
    }

    /// Waits for a block, at most for `span`. [`forebay_model::Kind::Device`] if the kernel has handed over another
    /// block than the next one: what is in it would be passed over in silence.
    pub fn wait(&mut self, span: Duration) -> Result<Waited> {
        let span = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: i64::from(span.subsec_nanos()) };
        let events = {
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut fds, Some(&span)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => fds[0].revents(),
                Err(e) => return Err(self.failed("waiting", e.into())),
            }
        };
        if events.contains(PollFlags::ERR) {
            return match self.socket.take_error() {
                Ok(Some(e)) if matches!(e.raw_os_error(), Some(libc::ENETDOWN | libc::ENODEV | libc::ENXIO)) => {
                    Ok(Waited::Away)
                }
                Ok(None) => Ok(if self.ready() { Waited::Ready } else { Waited::Nothing }),
                Ok(Some(e)) | Err(e) => Err(self.failed("listening", e)),
            };
        }
        match self.ready() {
            true => Ok(Waited::Ready),
            // The kernel says so where the block before the one that it fills is not ours to fill yet, and it fills
            // them in turns.
            false if events.contains(PollFlags::IN) => Err(Error::device(format!(
                "interface {}: the kernel handed over a block of packets, and it is not block {} of {}, whose turn it \
                 is; start the recording again",
                self.name, self.next, self.blocks
            ))),
            false => Ok(Waited::Nothing),
        }
    }

    /// Whether a block is there.
    pub fn ready(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// The block that is there.
    pub fn block(&mut self) -> Option<PacketBlock<'_>> {
        // Not `then_some`: it would make a block, and drop it, also where none is there, and so pass over one that the
        // kernel is still filling.
        if self.ready() { Some(PacketBlock { ring: self }) } else { None }
    }

    /// What the kernel dropped since it was last asked.
    pub fn statistics(&self) -> Result<PacketStatistics> {
        // SAFETY: a plain structure for which all zeros is valid.
        let mut answer: libc::tpacket_stats_v3 = unsafe { zeroed() };
        let mut length = size_of::<libc::tpacket_stats_v3>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into a structure of that size.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut answer).cast(),
                &mut length,
            )
        };
        if result != 0 {
            return Err(self.failed("asking for dropped packets", std::io::Error::last_os_error()));
        }
        Ok(PacketStatistics { dropped: u64::from(answer.tp_drops), stalls: u64::from(answer.tp_freeze_q_cnt) })
    }

    fn address(&self) -> *mut u8 {
        // SAFETY: `next` is below the number of blocks, so this is inside the mapping.
        unsafe { self.base.as_ptr().add(self.next * layout::BLOCK) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: aligned, inside the mapping, and accessed by everybody as one word.
        unsafe { AtomicU32::from_ptr(self.address().add(layout::BLOCK_STATUS).cast()) }
    }

    fn failed(&self, what: &str, error: std::io::Error) -> Error {
        Error::device(format!("interface {}: {what} failed: {error}", self.name))
    }
}

impl Drop for PacketRing {
    fn drop(&mut self) {
        // SAFETY: nothing borrows the mapping any more, and it is ours.
        let _ = unsafe { munmap(self.base.as_ptr().cast(), self.blocks * layout::BLOCK) };
    }
}

/// A block of frames. Dropping it gives it back to the kernel.
pub struct PacketBlock<'a> {
    ring: &'a mut PacketRing,
}

impl PacketBlock<'_> {
    fn bytes(&self) -> &[u8] {
        // SAFETY: inside the mapping; the kernel does not touch a block until its status is given back, and that is
        // done when this value is dropped, when no slice of it can live any more.
        unsafe { std::slice::from_raw_parts(self.ring.address(), layout::BLOCK) }
    }

    /// Whether the kernel dropped frames since it was last asked: ask for [`PacketBlock::statistics`].
    pub fn is_losing(&self) -> bool {
        self.ring.status().load(Ordering::Acquire) & libc::TP_STATUS_LOSING != 0
    }

    /// What the kernel dropped since it was last asked.
    pub fn statistics(&self) -> Result<PacketStatistics> {
        self.ring.statistics()
    }

    /// When its first frame came.
    pub fn first(&self) -> Timestamp {
        time(self.bytes(), layout::BLOCK_FIRST_TIME)
    }

    /// When its last frame came.
    pub fn last(&self) -> Timestamp {
        time(self.bytes(), layout::BLOCK_LAST_TIME)
    }

    /// Its frames, in order.
    pub fn frames(&self) -> Frames<'_> {
        Frames {
            block: self.bytes(),
            at: u32_at(self.bytes(), layout::BLOCK_FIRST) as usize,
            left: u32_at(self.bytes(), layout::BLOCK_FRAMES),
        }
    }
}

impl Drop for PacketBlock<'_> {
    fn drop(&mut self) {
        self.ring.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.ring.next = (self.ring.next + 1) % self.ring.blocks;
    }
}

/// Walks over the frames of a block.
pub struct Frames<'a> {
    block: &'a [u8],
    at: usize,
    left: u32,
}

impl<'a> Iterator for Frames<'a> {
    type Item = Frame<'a>;

    #[inline]
    fn next(&mut self) -> Option<Frame<'a>> {
        if self.left == 0 {
            return None;
        }
        self.left -= 1;
        let frame = self.block.get(self.at..)?;
        let header = frame.get(..layout::HEADER)?;
        let start = usize::from(u16_at(header, layout::MAC));
        let data = frame.get(start..start + u32_at(header, layout::CAPTURED) as usize)?;
        let status = u32_at(header, layout::STATUS);
        let vlan = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let known = status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
            let protocol = if known { u16_at(header, layout::VLAN_PROTOCOL) } else { VLAN };
            let ([a, b], [c, d]) = (protocol.to_be_bytes(), (u32_at(header, layout::VLAN_TAG) as u16).to_be_bytes());
            [a, b, c, d]
        });
        let seconds = i64::from(u32_at(header, layout::SECONDS));
        let time = Timestamp(seconds * 1_000_000_000 + i64::from(u32_at(header, layout::NANOS)));
        let next = u32_at(header, layout::NEXT) as usize;
        self.left = if next == 0 { 0 } else { self.left };
        self.at += next;
        Some(Frame { time, data, vlan, original: u32_at(header, layout::LENGTH) })
    }
}

#[inline]
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

#[inline]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

fn time(bytes: &[u8], at: usize) -> Timestamp {
    Timestamp(i64::from(u32_at(bytes, at)) * 1_000_000_000 + i64::from(u32_at(bytes, at + 4)))
}
