//! Receiving datagrams in batches, with the kernel's time of arrival and its count of those it dropped.
//!
//! Owns the socket and the memory of one batch. Datagrams of a batch are in order of arrival; each knows how many were
//! dropped between the one before and itself.

use super::interface::{index_of, set};
use forebay_model::{Bytes, Error, Result, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use socket2::{Domain, InterfaceIndexOrAddress, Protocol, SockAddr, Socket, Type};
use std::ffi::CString;
use std::mem::{size_of, zeroed};
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// Datagrams in a batch.
const BATCH: usize = 64;

/// The largest datagram there is.
const DATAGRAM: usize = 64 << 10;

/// Room for the control messages of one datagram: a time and a counter.
const CONTROL: usize = 128;

/// Where datagrams come from.
#[derive(Debug, Clone)]
pub struct UdpOptions {
    /// The address and port to receive at. Port 0 takes a free one. For a multicast group, the group's address.
    pub address: SocketAddr,
    /// The interface on which a multicast group is joined; needed if the address is one.
    pub interface: Option<String>,
    /// How much the kernel may hold for us. Less if we may not have so much.
    pub buffer: Bytes,
}

/// One datagram, living until the next batch is received.
#[derive(Debug, Clone, Copy)]
pub struct Datagram<'a> {
    /// When the kernel took it in.
    pub time: Timestamp,
    /// Its payload.
    pub data: &'a [u8],
    /// Datagrams that the kernel dropped between the one before and this one.
    pub dropped: u32,
}

/// A socket that receives datagrams.
pub struct UdpReceiver {
    socket: Socket,
    address: SocketAddr,
    interface: Option<Interface>,
    memory: Vec<u8>,
    control: Vec<Control>,
    received: Vec<Received>,
    /// The kernel's counter of drops, as far as it was told of.
    drops: u32,
}

struct Interface {
    name: CString,
    /// The interface that the group was joined on; a new one of the same name has another index.
    joined: u32,
}

#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Control([u8; CONTROL]);

#[derive(Clone, Copy, Default)]
struct Received {
    time: Timestamp,
    length: usize,
    dropped: u32,
}

impl UdpReceiver {
    /// Opens the socket, and joins the group if the address is multicast.
    pub fn open(options: &UdpOptions) -> Result<UdpReceiver> {
        let address = options.address;
        let failed = |e: std::io::Error| match e.kind() {
            std::io::ErrorKind::AddrInUse => Error::busy(format!("udp {address} is in use by another process")),
            std::io::ErrorKind::AddrNotAvailable => {
                Error::usage(format!("udp {address} is no address of this machine; 'ip addr' lists those it has"))
            }
            _ => Error::usage(format!("receiving at udp {address} failed: {e}")),
        };
        let socket =
            Socket::new(Domain::for_address(address), Type::DGRAM.cloexec(), Some(Protocol::UDP)).map_err(failed)?;
        let multicast = address.ip().is_multicast();
        if multicast {
            // Several receivers of one group on one machine are usual.
            socket.set_reuse_address(true).map_err(failed)?;
        }
        let wanted = i32::try_from(options.buffer.0).unwrap_or(i32::MAX);
        if set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &wanted).is_err() {
            set(&socket, libc::SOL_SOCKET, libc::SO_RCVBUF, &wanted).map_err(failed)?;
        }
        set(&socket, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, &1i32).map_err(failed)?;
        set(&socket, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32).map_err(failed)?;
        socket.bind(&SockAddr::from(address)).map_err(failed)?;
        let bound = socket.local_addr().map_err(failed)?.as_socket().unwrap_or(address);
        let interface = match (&options.interface, multicast) {
            (Some(name), true) => {
                let c_name = CString::new(name.as_str())
                    .map_err(|_| Error::usage(format!("'{}' is no name of an interface", name.escape_default())))?;
                Some(Interface { name: c_name, joined: 0 })
            }
            (None, true) => {
                return Err(Error::usage(format!(
                    "{} is a multicast group: say on which interface to join it",
                    address.ip()
                )));
            }
            (_, false) => None,
        };
        let mut receiver = UdpReceiver {
            socket,
            address: bound,
            interface,
            memory: vec![0; BATCH * DATAGRAM],
            control: vec![Control([0; CONTROL]); BATCH],
            received: Vec::with_capacity(BATCH),
            drops: 0,
        };
        if multicast {
            receiver.join()?;
        }
        Ok(receiver)
    }

    /// The address and port that it receives at.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whether the interface of a multicast group is still the one that the group was joined on.
    pub fn is_joined(&self) -> bool {
        self.interface.as_ref().is_none_or(|i| i.joined == index_of(&i.name))
    }

    /// Joins the multicast group on the interface that has the name now.
    pub fn join(&mut self) -> Result<()> {
        let Some(interface) = &mut self.interface else { return Ok(()) };
        let name = interface.name.to_string_lossy();
        let index = index_of(&interface.name);
        if index == 0 {
            return Err(Error::missing(format!("there is no interface '{name}'; 'ip link' lists those there are")));
        }
        if interface.joined != 0 && interface.joined != index {
            // The kernel keeps what was joined on an interface that is gone, and not many such.
            leave(&self.socket, self.address.ip(), interface.joined);
        }
        let joined = match self.address.ip() {
            IpAddr::V4(group) => {
                let here = InterfaceIndexOrAddress::Index(index);
                self.socket.set_multicast_all_v4(false).and_then(|()| self.socket.join_multicast_v4_n(&group, &here))
            }
            IpAddr::V6(group) => join_v6(&self.socket, &group, index),
        };
        joined.map_err(|e| {
            Error::usage(format!("joining {} on interface {name} failed: {e}; is it up?", self.address.ip()))
        })?;
        interface.joined = index;
        Ok(())
    }

    /// Receives up to a batch of datagrams, waiting for the first at most `wait`. Gives how many there are.
    pub fn receive(&mut self, wait: Duration) -> Result<usize> {
        self.received.clear();
        if self.receive_now()? == 0 && !wait.is_zero() {
            let span = Timespec { tv_sec: wait.as_secs() as i64, tv_nsec: i64::from(wait.subsec_nanos()) };
            let mut fds = [PollFd::new(&self.socket, PollFlags::IN)];
            match poll(&mut fds, Some(&span)) {
                Ok(0) | Err(rustix::io::Errno::INTR) => return Ok(0),
                Ok(_) => self.receive_now()?,
                Err(e) => return Err(self.failed(e.into())),
            };
        }
        Ok(self.received.len())
    }

    /// The datagrams of the last batch.
    pub fn datagrams(&self) -> impl Iterator<Item = Datagram<'_>> {
        self.received.iter().zip(self.memory.chunks_exact(DATAGRAM)).map(|(received, memory)| Datagram {
            time: received.time,
            data: &memory[..received.length],
            dropped: received.dropped,
        })
    }

    /// Datagrams that the kernel dropped since the last one that was received, or since the last call.
    pub fn dropped_since(&mut self) -> Result<u32> {
        // SK_MEMINFO_*: nine counters, the last one is that of drops.
        let mut counters = [0u32; 9];
        let mut length = size_of::<[u32; 9]>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into an array of that size.
        let result = unsafe {
            libc::getsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_MEMINFO,
                counters.as_mut_ptr().cast(),
                &mut length,
            )
        };
        if result != 0 {
            return Err(self.failed(std::io::Error::last_os_error()));
        }
        Ok(self.advance(counters[8]))
    }

    /// Moves the counter on. What is in the queue may have been counted when the counter was asked for meanwhile, so
    /// it may also seem to move back.
    fn advance(&mut self, drops: u32) -> u32 {
        let moved = drops.wrapping_sub(self.drops);
        if moved > u32::MAX / 2 {
            return 0;
        }
        self.drops = drops;
        moved
    }

    fn receive_now(&mut self) -> Result<usize> {
        // SAFETY: these are plain structures for which all zeros is valid.
        let (mut messages, mut vectors): ([libc::mmsghdr; BATCH], [libc::iovec; BATCH]) = unsafe { zeroed() };
        for i in 0..BATCH {
            vectors[i].iov_base = self.memory[i * DATAGRAM..].as_mut_ptr().cast();
            vectors[i].iov_len = DATAGRAM;
            let header = &mut messages[i].msg_hdr;
            header.msg_iov = &raw mut vectors[i];
            header.msg_iovlen = 1;
            header.msg_control = self.control[i].0.as_mut_ptr().cast();
            header.msg_controllen = CONTROL as _;
        }
        // SAFETY: every header points to memory of ours of the length that it says, which outlives the call.
        let count = unsafe {
            libc::recvmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                BATCH as libc::c_uint,
                libc::MSG_DONTWAIT as _,
                std::ptr::null_mut(),
            )
        };
        if count < 0 {
            let error = std::io::Error::last_os_error();
            // A closed port of somebody we never sent to cannot be meant for us; interfaces that are down come back.
            return match error.raw_os_error() {
                Some(libc::EAGAIN | libc::EINTR | libc::ECONNREFUSED | libc::ENETDOWN) => Ok(0),
                _ => Err(self.failed(error)),
            };
        }
        for message in &messages[..count as usize] {
            let (time, drops) = control_messages(&message.msg_hdr);
            let dropped = drops.map_or(0, |drops| self.advance(drops));
            self.received.push(Received { time, length: message.msg_len as usize, dropped });
        }
        Ok(count as usize)
    }

    fn failed(&self, error: std::io::Error) -> Error {
        Error::device(format!("receiving at udp {} failed: {error}", self.address))
    }
}

/// The time and the counter of drops that came with a datagram.
fn control_messages(header: &libc::msghdr) -> (Timestamp, Option<u32>) {
    let (mut time, mut drops) = (Timestamp(0), None);
    // SAFETY: the kernel filled the control buffer and its length; the macros of libc walk inside it, and a payload is
    // as long as its type and level say.
    unsafe {
        let mut message = libc::CMSG_FIRSTHDR(header);
        while let Some(head) = message.as_ref() {
            let data = libc::CMSG_DATA(message);
            match (head.cmsg_level, head.cmsg_type) {
                (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) => {
                    let spec = data.cast::<libc::timespec>().read_unaligned();
                    time = Timestamp(spec.tv_sec * 1_000_000_000 + spec.tv_nsec);
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => drops = Some(data.cast::<u32>().read_unaligned()),
                _ => {}
            }
            message = libc::CMSG_NXTHDR(header, message);
        }
    }
    (time, drops)
}

/// What cannot be left is not there.
fn leave(socket: &Socket, group: IpAddr, index: u32) {
    drop(match group {
        IpAddr::V4(group) => socket.leave_multicast_v4_n(&group, &InterfaceIndexOrAddress::Index(index)),
        IpAddr::V6(group) => socket.leave_multicast_v6(&group, index),
    });
}

fn join_v6(socket: &Socket, group: &Ipv6Addr, index: u32) -> std::io::Result<()> {
    socket.set_multicast_all_v6(false)?;
    socket.join_multicast_v6(group, index)
}
