//! The one binary.

#[cfg_attr(not(test), expect(dead_code, reason = "the profile command draws with it"))]
mod draw;

fn main() {}
