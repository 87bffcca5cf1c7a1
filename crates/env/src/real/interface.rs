//! Network interfaces, and what sockets are told about them.

use socket2::Socket;
use std::ffi::CStr;
use std::mem::{size_of, zeroed};
use std::os::fd::AsRawFd;

/// The number of the interface that has this name now; 0 if none has.
pub(super) fn index_of(name: &CStr) -> u32 {
    // SAFETY: a string that ends with a zero.
    unsafe { libc::if_nametoindex(name.as_ptr()) }
}

/// The names of all interfaces.
pub fn interfaces() -> Vec<String> {
    let mut names = Vec::new();
    // SAFETY: the list ends with an index of 0, its names end with zeros, and it is freed once.
    unsafe {
        let list = libc::if_nameindex();
        let mut entry = list;
        while !entry.is_null() && (*entry).if_index != 0 {
            names.push(CStr::from_ptr((*entry).if_name).to_string_lossy().into_owned());
            entry = entry.add(1);
        }
        if !list.is_null() {
            libc::if_freenameindex(list);
        }
    }
    names
}

/// The flags (`IFF_*`) of an interface.
pub(super) fn flags(socket: &Socket, name: &CStr) -> std::io::Result<i32> {
    // SAFETY: a plain structure for which all zeros is valid.
    let mut request: libc::ifreq = unsafe { zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(name.to_bytes()) {
        *to = *from as libc::c_char;
    }
    // SAFETY: the kernel reads the name and writes the flags of this structure.
    let result = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) };
    if result != 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the call above filled this member.
    Ok(i32::from(unsafe { request.ifr_ifru.ifru_flags }))
}

/// Has the kernel cut frames at `snaplen` bytes, by a filter of one instruction that accepts so much of each.
pub(super) fn limit(socket: &Socket, snaplen: u32) -> std::io::Result<()> {
    let mut accept = libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: snaplen };
    let program = libc::sock_fprog { len: 1, filter: &raw mut accept };
    set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}

/// Starts listening to an interface with a packet socket; gives the kind of the interface.
pub(super) fn bind(socket: &Socket, index: u32) -> std::io::Result<u16> {
    // SAFETY: a plain structure for which all zeros is valid.
    let mut address: libc::sockaddr_ll = unsafe { zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
    address.sll_ifindex = index as i32;
    let mut length = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    // SAFETY: the kernel reads, then writes, a structure of the length that is given.
    let result = unsafe {
        match libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length) {
            0 => libc::getsockname(socket.as_raw_fd(), (&raw mut address).cast(), &mut length),
            failed => failed,
        }
    };
    if result == 0 { Ok(address.sll_hatype) } else { Err(std::io::Error::last_os_error()) }
}

/// Sets an option of a socket.
pub(super) fn set<T>(socket: &Socket, level: i32, option: i32, value: &T) -> std::io::Result<()> {
    // SAFETY: the kernel reads a value of the length that is given.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            level,
            option,
            (&raw const *value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
