//! Chance from the kernel.

use crate::random::Random;
use rustix::rand::{GetRandomFlags, getrandom};
use std::cell::RefCell;

/// The kernel's random numbers, fetched a few at a time.
#[derive(Default)]
pub struct KernelRandom {
    store: RefCell<Vec<u64>>,
}

/// How many numbers one call fetches; up to 256 bytes come whole and uninterrupted.
const BATCH: usize = 32;

impl Random for KernelRandom {
    fn next_u64(&self) -> u64 {
        let mut store = self.store.borrow_mut();
        loop {
            if let Some(number) = store.pop() {
                return number;
            }
            let mut bytes = [0u8; BATCH * 8];
            fill(&mut bytes);
            let numbers = bytes.chunks_exact(8).map(|c| u64::from_le_bytes(c.try_into().expect("eight bytes")));
            store.extend(numbers);
        }
    }
}

/// A random number, on any thread.
pub fn number() -> u64 {
    let mut bytes = [0; 8];
    fill(&mut bytes);
    u64::from_le_bytes(bytes)
}

/// Fills `bytes` with random ones, on any thread.
pub fn fill(bytes: &mut [u8]) {
    let mut filled = 0;
    while filled < bytes.len() {
        match getrandom(&mut bytes[filled..], GetRandomFlags::empty()) {
            Ok(count) => filled += count,
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => panic!("the kernel gives no random numbers: {e}"),
        }
    }
}
