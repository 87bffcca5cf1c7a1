//! The doors of a real machine.

pub mod packet;
pub mod udp;
