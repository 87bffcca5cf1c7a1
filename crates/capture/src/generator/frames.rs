//! Ethernet frames made beforehand, and which of them comes next.

use super::chance::Chance;

/// How many flows there are. The n-th has about 1/n as many packets as the first (Zipf's law).
pub const FLOWS: usize = 1024;

/// The number of turns after which flows repeat; fine enough to give the last flow its share.
const TURNS: usize = 16384;

const ETHERNET: usize = 14;
const IP: usize = 20;
const UDP: usize = 8;
const TCP: usize = 20;

/// How large packets are on the wire, without the frame check sequence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketSizes {
    /// All the same, from 60 to 9014 bytes; what is outside becomes the nearest.
    Fixed(u16),
    /// 60, 590 and 1514 bytes, 7 to 4 to 1: the simple mix that routers are measured with.
    Mix,
}

/// Frames in memory, and turns that choose among them.
pub(super) struct Frames {
    memory: Vec<u8>,
    turns: Vec<(u32, u16)>,
    chance: Chance,
}

impl Frames {
    pub(super) fn new(sizes: PacketSizes, mut chance: Chance) -> Frames {
        let sizes: &[(usize, u32)] = match sizes {
            PacketSizes::Fixed(size) => &[(usize::from(size).clamp(60, 9014), 1)],
            PacketSizes::Mix => &[(60, 7), (590, 4), (1514, 1)],
        };
        let mut memory = Vec::new();
        let mut made = Vec::new();
        for flow in 0..FLOWS {
            let entropy = chance.next();
            for (size, _) in sizes {
                made.push((memory.len() as u32, *size as u16));
                append(&mut memory, flow as u16, entropy, *size);
            }
        }
        let shares: f64 = (1..=FLOWS).map(|n| 1.0 / n as f64).sum();
        let weights: u32 = sizes.iter().map(|(_, weight)| weight).sum();
        let mut turns = Vec::with_capacity(TURNS + FLOWS);
        for flow in 0..FLOWS {
            let share = TURNS as f64 / shares / (flow + 1) as f64;
            for turn in 0..share.round().max(1.0) as u32 {
                // The sizes take turns within a flow, in proportion, beginning elsewhere in each.
                let mut at = (turn + flow as u32) % weights;
                let size = sizes.iter().position(|(_, weight)| {
                    let here = at < *weight;
                    at = at.saturating_sub(*weight);
                    here
                });
                turns.push(made[flow * sizes.len() + size.unwrap_or(0)]);
            }
        }
        Frames { memory, turns, chance }
    }

    #[inline]
    pub(super) fn next(&mut self) -> &[u8] {
        let turn = (u64::from(self.chance.next()) * self.turns.len() as u64) >> 32;
        let (start, length) = self.turns[turn as usize];
        &self.memory[start as usize..start as usize + usize::from(length)]
    }
}

/// Makes one frame of a flow. Every third flow is UDP, the others are TCP.
fn append(memory: &mut Vec<u8>, flow: u16, entropy: u32, size: usize) {
    let start = memory.len();
    memory.resize(start + size, 0);
    let frame = &mut memory[start..];
    let [high, low] = flow.to_be_bytes();
    // Locally administered addresses, then IPv4.
    frame[..ETHERNET].copy_from_slice(&[2, 0, 0, 0, high, low, 2, 0, 0, 1, high, low, 8, 0]);
    let source = [10, 0, high, low];
    // The peers are fewer than the flows, so that addresses repeat.
    let target = [192, 168, (entropy >> 8) as u8 & 1, entropy as u8 & 0x3f];
    let udp = flow.is_multiple_of(3);
    // Ports without a protocol that somebody would take the payload for.
    let ports = [9u16, 5201, 8900, 32_100, 40_000, 40_001, 45_000, 48_100];
    let port = ports[(entropy >> 16) as usize % ports.len()];
    let (ip, body) = frame[ETHERNET..].split_at_mut(IP);
    let length = IP + body.len();
    ip[0] = 0x45;
    ip[2..4].copy_from_slice(&(length as u16).to_be_bytes());
    ip[4..6].copy_from_slice(&flow.to_be_bytes());
    ip[6] = 0x40;
    ip[8] = 64;
    ip[9] = if udp { 17 } else { 6 };
    ip[12..16].copy_from_slice(&source);
    ip[16..20].copy_from_slice(&target);
    let sum = checksum(0, ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    body[0..2].copy_from_slice(&(0xc000 + flow).to_be_bytes());
    body[2..4].copy_from_slice(&port.to_be_bytes());
    let (head, at) = if udp {
        let length = body.len() as u16;
        body[4..6].copy_from_slice(&length.to_be_bytes());
        (UDP, 6)
    } else {
        body[4..8].copy_from_slice(&entropy.to_be_bytes());
        body[8..12].copy_from_slice(&entropy.swap_bytes().to_be_bytes());
        // Five words of header; acknowledging, pushing; a window.
        body[12..16].copy_from_slice(&[0x50, 0x18, 0x20, 0]);
        (TCP, 16)
    };
    for (i, byte) in body[head..].iter_mut().enumerate() {
        *byte = b'a' + (i % 26) as u8;
    }
    let pseudo: u32 = [&source, &target]
        .into_iter()
        .flat_map(|a| a.chunks(2))
        .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])))
        .sum::<u32>()
        + if udp { 17 } else { 6 }
        + body.len() as u32;
    // No checksum is written as 0 in UDP; that is what 0xffff is for.
    let sum = match checksum(pseudo, body) {
        0 if udp => 0xffff,
        sum => sum,
    };
    body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
}

/// The internet checksum (RFC 1071) of `bytes` on top of `sum`.
fn checksum(sum: u32, bytes: &[u8]) -> u16 {
    let mut sum = u64::from(sum);
    for pair in bytes.chunks(2) {
        sum += u64::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}
